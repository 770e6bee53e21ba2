"""The soak can fail: with one guard broken from outside, a promise or a prediction does not hold before long."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, connection

from agentstop import closing, compensate, freeze, frozen, gate, passes, permissions, refusals, settle, stop, storing
from agentstop.folds import evidence, folding
from agentstop.frozen import Known
from agentstop.models.facts import CallOutcome
from agentstop.states import Folded, OperationFacts, Source
from tests.soak.commands import play, script
from tests.soak.crew import Crew
from tests.soak.driver import Episode, People
from tests.soak.mirror import Violation

pytestmark = pytest.mark.django_db(transaction=True)

LIVES = 60  # at the most: the first violation ends it
Break = Callable[[pytest.MonkeyPatch], None]
_TO_THE_END = "op.resend_until > {now}"


def _in_the_gate(old: str, new: str) -> Break:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("SQLITE", "POSTGRESQL", "MAY_ADVANCE"):
            monkeypatch.setattr(gate, name, getattr(gate, name).replace(old, new))

    return patch


def _replaced(module: Any, name: str, replacement: Any) -> Break:
    return lambda monkeypatch: monkeypatch.setattr(module, name, replacement)


def _fold_without(source: Source) -> Break:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        fold = folding.fold

        def deaf(facts: OperationFacts, now: Any) -> Folded:
            return fold(replace(facts, receipts=tuple(r for r in facts.receipts if r.source != source)), now)

        monkeypatch.setattr(settle, "fold", deaf)

    return patch


def _drops_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    store = storing.store

    def forgetful(*, receipts: Sequence[Any] = (), **rest: Any) -> None:
        store(receipts=[r for r in receipts if r.claim != "succeeded"], **rest)

    monkeypatch.setattr(storing, "store", forgetful)


def _admits(*_: Any) -> tuple[CallOutcome, str]:
    return CallOutcome.ACCEPTED, ""


def _nothing(*_: Any, **__: Any) -> None:
    """In place of what should have been done."""


def _says_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is in force, before anybody has been told."""

    def put_in_force(made: Any) -> Any:
        freeze._say_in_force(made.pk)
        made.refresh_from_db()
        return made

    monkeypatch.setattr(freeze, "put_in_force", put_in_force)


def _free(*_: Any) -> Known:
    return Known(0, ())


def _never_due(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = folding.fold
    monkeypatch.setattr(settle, "fold", lambda facts, now: replace(fold(facts, now), due_at=None))


def _believes_every_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = settle._receipt

    def believing(operation: Any, heard: Any, now: Any) -> Any:
        return receipt(operation, replace(heard, authoritative=True), now)

    monkeypatch.setattr(settle, "_receipt", believing)


def _about_all(receipt: Any, attempts: Sequence[Any], answers: Any) -> frozenset[int]:
    return frozenset(attempt.number for attempt in attempts)


FAULTS: dict[str, Break] = {
    "the gate does not ask which run is live": _in_the_gate("AND live_run = %(run)s", ""),
    "the gate asks nothing of the task": _in_the_gate("state = 'active' AND live_run = %(run)s", "1 = 1"),
    "the gate sends again while a lease is alive": _in_the_gate("op.lease_until < {now} AND", ""),
    "the gate sends again when the key is no longer honoured": _in_the_gate("AND op.resend_until > {arrives}", ""),
    "the gate sends again to the very end of a key's life": _in_the_gate("op.resend_until > {arrives}", _TO_THE_END),
    "the gate sends again what is being cancelled": _in_the_gate("AND op.cancellation NOT IN", "OR op.key IN"),
    "the gate sends whatever was sent before": _in_the_gate("op.state IN ('prepared', 'not_sent', 'failed')", "1 = 1"),
    "the gate does not compare digests": _in_the_gate("op.digest = ", "op.digest <> '' OR op.digest = "),
    "the gate does not ask which freeze has reached the task": _in_the_gate("AND freeze_epoch <= %(epoch)s", ""),
    "a freeze reaches no task": _says_at_once,
    "a task begins without a look at the clock": _replaced(frozen, "share_clock", lambda: 0),
    "what undoes is never frozen": _replaced(compensate, "frozen", SimpleNamespace(share_clock=_nothing, read=_free)),
    "a pass never expires": _replaced(passes.Pass, "check", _nothing),
    "a result is admitted without a check": _replaced(settle, "_outcome", _admits),
    "a success is not stored": _drops_receipts,
    "read-backs are not folded": _fold_without(Source.READ_BACK),
    "a person's word is not folded": _fold_without(Source.PERSON),
    "what a look-up does not find is absent": _believes_every_look_up,
    "an absence speaks for what may still come": _replaced(evidence, "_absent", _about_all),
    "time changes nothing": _never_due,
    "nothing is followed up": _replaced(settle, "schedule", _nothing),
    "a stop cancels nothing": _replaced(closing, "cancel_open_operations", _nothing),
    "a stop leaves the run live": _replaced(stop, "_close", _nothing),
    "everybody may everything": _replaced(permissions, "may", lambda *_: True),
    "a success is undone without a look at what was undone": _replaced(compensate, "_require_undoable", _nothing),
    "a refusal is not written down": _replaced(refusals, "_refuse", lambda reason, *_: reason("no")),
    "a new incarnation is opened for what was done": _replaced(
        refusals, "_by_what_was_undone", lambda operation: operation.incarnation + 1
    ),
}
WITHOUT_PREDICTIONS = [
    "the gate does not ask which run is live",
    "the gate asks nothing of the task",
    "the gate sends whatever was sent before",
    "the gate does not ask which freeze has reached the task",
    "a freeze reaches no task",
    "a task begins without a look at the clock",
    "what undoes is never frozen",
    "a result is admitted without a check",
    "what a look-up does not find is absent",
    "a stop leaves the run live",
]


# What few lives come across has lives of its own, in which it happens.
CHANCES = {"the gate sends again to the very end of a key's life": 124}
CHANCE = 11


def found(people: People, crew: Crew, fault: str, *, predicting: bool) -> str:
    """The first violation in lives that are the same in every run; empty if there is none."""
    chance = random.Random(CHANCES.get(fault, CHANCE))  # noqa: S311  chance, not secrecy
    for _ in range(LIVES):
        try:
            play(Episode(people, crew, predicting), script(chance))
        except (Violation, DatabaseError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


# The gate has a statement for each database; the rest is the same code on both.
OF_THIS_DATABASE = [fault for fault in FAULTS if connection.vendor == "sqlite" or fault.startswith("the gate")]


@pytest.mark.parametrize("fault", OF_THIS_DATABASE)
def test_a_broken_guard_is_found(fault: str, people: People, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    assert found(people, crew, fault, predicting=True)


@pytest.mark.parametrize("fault", WITHOUT_PREDICTIONS)
def test_the_promises_alone_find_what_a_race_would_show(
    fault: str, people: People, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After commands that were done at once nothing is predicted: the rows and the ledger have to tell."""
    FAULTS[fault](monkeypatch)
    assert found(people, crew, fault, predicting=False)
