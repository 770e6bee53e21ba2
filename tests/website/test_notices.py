"""The mail to those who had left: one for a burst, with what became of each operation, and no secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.utils import translation
from pytest_django.fixtures import Settings

from agentstop import unseen
from agentstop.models import Task
from agentstop.runs import Run, begin
from agentstop.signals import unknowns_settled
from agentstop.states import Claim
from agentstop.stop import stop
from tests.test_unseen import later, lost, settle
from website import notices
from website.environment import ROOT

TEXT = """You stopped “Quarterly report”. What was unknown when you left has been settled since:

- chat.post: completed before cancellation. The provider was asked, and says that it was done. Whether it was done \
before or after Stop was pressed cannot be told.
- chat.post: failed. The provider was asked, and says that it failed.

The whole task: Stopped. Nothing new will be sent. 1 completed before cancellation · 1 failed

https://stop.example/tasks/{task}/
"""


@pytest.fixture(autouse=True)
def mails(tools: None, settings: Settings) -> Iterator[None]:
    settings.SITE_ADDRESS = "https://stop.example"
    notices.switch_on()
    yield
    unknowns_settled.disconnect(sender=Task, dispatch_uid="website.notices")


@pytest.fixture
def run(ann: User) -> Run:
    User.objects.filter(pk=ann.pk).update(email="ann@example.com")
    return begin("Quarterly\nreport", owner=ann)


def settled(run: Run, by: User) -> None:
    first, second = lost(run, f"secret-key-1 {run.task_id}", f"secret-key-2 {run.task_id}")
    stop(run.task_id, by=by, reason="private reason")
    settle(first)
    settle(second, claim=Claim.FAILED)
    later()
    unseen.tell()


def test_a_mail_tells_what_became_of_each_and_leads_to_the_page(run: Run, ann: User) -> None:
    settled(run, ann)
    [sent] = mail.outbox
    assert (sent.to, sent.subject) == (["ann@example.com"], "2 unknown outcomes were settled: Quarterly report")
    assert sent.body == TEXT.format(task=run.task_id)
    assert "secret" not in sent.body and "private" not in sent.body


def test_the_owner_and_who_stopped_it_get_one_each_where_they_have_an_address(run: Run, olga: User) -> None:
    settled(run, olga)
    assert [sent.to for sent in mail.outbox] == [["ann@example.com"]]
    assert "Your task “Quarterly report” is stopped." in str(mail.outbox[0].body)
    User.objects.filter(pk=olga.pk).update(email="olga@example.com")
    settled(begin("Another", owner=olga), olga)
    assert mail.outbox[1].to == ["olga@example.com"]


def test_in_german(run: Run, ann: User, settings: Settings) -> None:
    settings.LOCALE_PATHS, settings.LANGUAGE_CODE = [ROOT / "website" / "locale"], "de"
    with translation.override("en"):
        settled(run, ann)
    assert mail.outbox[0].subject.startswith("2 unbekannte Ausgänge")
    assert "Sie haben „Quarterly report“ gestoppt." in str(mail.outbox[0].body)


def test_a_mail_server_that_is_away_holds_up_nothing(
    run: Run, ann: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(notices, "send_mail", away)
    settled(run, ann)
    assert "a mail could not be sent" in caplog.text
