"""What these tests do again and again: ask for effects, read what a person would, and let the ledger judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from agentstop.exceptions import Refused
from agentstop.models import Decision, Operation
from agentstop.outcomes import Outcome
from agentstop.runs import Run
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.observed import Observed, observed
from tests.passing import let_pass

NOTIFY, BLIND, REPORT, UPLOAD = "notify.post", "notify.blind", "report.create", "file.upload"

LONG = 60.0  # seconds after which every lease and settling time is over

# How many effects each label allows: what is not settled claims nothing.
MADE = {
    Label.COMPLETED: {1},
    Label.COMPLETED_BEFORE: {1},
    Label.CANCELLED: {0},
    Label.NOT_SENT: {0},
    Label.GIVEN_UP: {0},
    Label.WAITING: {0},
    Label.FAILED: {0},
}


def words(text: str, **switches: Any) -> dict[str, Any]:
    """The arguments of a request that the sandbox knows by this text."""
    return {"text": text, "label": text, "seconds": 0, "sandbox": switches}


def ask(run: Run, text: str, action: str = NOTIFY, **switches: Any) -> Outcome:
    """One gated call."""
    return run.call(action, words(text, **switches), connector="sandbox", key=text)


def ask_as_before(run: Run, text: str, action: str = NOTIFY, **switches: Any) -> Outcome:
    """The same effect for whoever asks, however the provider is told to misbehave."""
    return run.call(action, words(text, **switches), connector="sandbox", key=text, identify=["text"])


def asked(run: Run, text: str, action: str = NOTIFY, *, by: Callable[..., Outcome] = ask) -> str:
    """What a job gets that asks for this effect, in a word."""
    try:
        outcome = by(run, text, action)
    except Refused as refusal:
        return refusal.reason
    return outcome.refusal.reason if outcome.refusal is not None else outcome.outcome.value


def operation(run: Run, key: str) -> Operation:
    return Operation.objects.filter(task=run.task_id, key=key).latest("incarnation")


def seen(run: Run, key: str) -> Observed:
    """What a person reads of it now."""
    return observed(operation(run, key).pk)


def counts(sandbox: SandboxClient, run: Run, key: str) -> dict[str, int]:
    """What the provider counted of it: submits, reads, cancels, writes."""
    return sandbox.counts(str(operation(run, key).idempotency_key))


def refusals(run: Run) -> dict[tuple[str, str], int]:
    """How often the gate refused what, and why, as it is recorded."""
    found = Decision.objects.filter(task=run.task_id, verb="refuse")
    return {(one.operation.key, one.reason): one.count for one in found.select_related("operation") if one.operation}


def page(user: User, run: Run) -> str:
    """The task's page, loaded anew."""
    client = Client()
    client.force_login(user)
    response = client.get(f"/tasks/{run.task_id}/")
    assert response.status_code == 200
    return response.content.decode()


def long_after(run: Run) -> None:
    """When every lease of the task is over, and its provider would show by now whatever it has accepted."""
    let_pass(run.task_id, LONG)


def assert_agrees(sandbox: SandboxClient, *runs: Run) -> None:
    """Every label of these tasks says what the ledger says, and every stored state what the facts say."""
    writes = {key: counted["writes"] for key, counted in sandbox.ledger()["counts"].items() if key}
    for run in runs:
        for row in Operation.objects.filter(task=run.task_id).exclude(action=BLIND):
            label, made = observed(row.pk).label, writes.get(str(row.idempotency_key), 0)
            assert made in MADE.get(label, {0, 1}), f"{row.key} reads {label}, and was made {made} times"
    assert list(differences()) == []
