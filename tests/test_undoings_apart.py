"""An undoing is an operation of its own: counted apart, and no part of what a stop ends (R24)."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from agentstop.accounts import account
from agentstop.compensate import compensate
from agentstop.reports import report
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words import sentences
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD
from tests.test_undo_pages import made, page
from tests.test_views import browser

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_undoing_is_counted_apart_and_no_stop_comes_before_it(sandbox: SandboxClient, ann: User) -> None:
    """It was asked for by a person after the stop: "completed before cancellation" would be another story."""
    operation, client = made(ann), browser(ann)
    stop(operation.task_id, by=ann)
    compensate(operation.pk, by=ann).future.result(HANG_GUARD)
    text = page(client, operation)
    assert "1 completed before cancellation · undoing: 1 completed" in text
    found = account.load(operation.task_id)
    assert found is not None
    labels = {one.key: one.reading.label for one in report.tell(found).operations}
    assert labels == {"q3": Label.COMPLETED_BEFORE, f"undo:{operation.pk}:1": Label.COMPLETED}


def test_an_undoing_that_goes_on_after_the_stop_promises_no_cancel_by_a_stop(sandbox: SandboxClient, ann: User) -> None:
    operation = made(ann)
    stop(operation.task_id, by=ann)
    sandbox.hold("accepted", "undo: report")
    begun = compensate(operation.pk, by=ann)
    sandbox.wait("accepted", "undo: report")
    found = account.load(operation.task_id)
    assert found is not None
    [_, told] = report.tell(found).operations
    assert (told.reading.label, told.reading.next_step) == (Label.IN_PROGRESS, sentences.ANSWER_IS_KEPT)
    sandbox.release("accepted", "undo: report")
    begun.future.result(HANG_GUARD)
