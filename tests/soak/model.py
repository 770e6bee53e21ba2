"""The reference model: what single commands must answer and add, from the facts alone, without the product's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agentstop.providers.base import Capability
from tests.soak import reading
from tests.soak.mirror import Attempt, Call, Decision, Freeze, Mirror, Operation, Receipt, Task
from tests.soak.world import CONNECTOR

OPEN = ("sending", "accepted", "unknown")
UNSENT = ("prepared", "not_sent")
CANCEL_IS_OPEN = ("waiting", "requested", "sent", "acknowledged")


@dataclass(frozen=True, slots=True)
class Person:
    """A user and what Django's permissions give them beyond their own tasks."""

    user: Any
    rights: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Expected:
    """The word that a command must answer, and the facts that it must add."""

    word: str
    added: tuple[str, ...] = ()


def expected(word: str, *facts: str) -> Expected:
    return Expected(word, tuple(sorted(facts)))


class Model:
    """What is true at this moment, as far as the facts tell. `on_its_way`: how long a send may take to arrive."""

    def __init__(self, mirror: Mirror, on_its_way: timedelta) -> None:
        self.mirror = mirror
        self.on_its_way = on_its_way
        self.now = mirror.at

    def state(self, operation: Operation) -> str:
        return reading.read(self.mirror, operation, self.now).state

    def task(self, task: int) -> Task:
        return self.mirror.get(Task, task)

    def heard(self, operation: int) -> list[Receipt]:
        return [receipt for receipt in self.mirror.of(Receipt, operation) if receipt.source != "ack"]

    # People

    def denied(self, person: Person | None, right: str, task: int, verb: str) -> Expected | None:
        """What one without the right hears: a stranger does not even learn that the task exists."""
        if person is None or person.user.pk == self.task(task).owner_id or right in person.rights:
            return None
        word = "Denied" if "view_task" in person.rights else "TaskNotFound"
        return expected(word, f"decision {verb} denied")

    # Runs

    def over(self, task: int, run: int) -> str:
        """Why a run does not go on; empty where it does."""
        row = self.task(task)
        if row.live_run == run:
            return ""
        if run < row.last_run:
            return "Superseded"
        return "Stopped" if row.state == "stopped" else "Finished"

    def begin(self, task: int, by: Person | None) -> Expected:
        row = self.task(task)
        if denied := self.denied(by, "start_run", task, "start"):
            return denied
        if row.state == "paused":
            return expected("Paused", "decision start denied")
        if by is None and (row.state == "stopped" or row.late_stop_id is not None):
            return expected("Stopped", "decision start denied")
        return expected(f"run {row.last_run + 1}", "decision start applied")

    def check(self, task: int, run: int) -> Expected:
        return expected(self.over(task, run) or ("Paused" if self.task(task).state == "paused" else "goes on"))

    def pause(self, task: int, by: Person, verb: str) -> Expected:
        """True where it changes something: there is one cause to be paused here, and it is lifted once."""
        if denied := self.denied(by, "pause_task", task, verb):
            return denied
        does = self.task(task).state == ("active" if verb == "pause" else "paused")
        return expected(str(does), f"decision {verb} {'applied' if does else 'noted'}")

    def end(self, task: int, run: int, verb: str) -> Expected:
        live = self.task(task).live_run == run
        return expected(str(live), f"decision {verb} {'applied' if live else 'noted'}")

    def stop(self, task: int, by: Person | None, run: int | None) -> Expected:
        if denied := self.denied(by, "stop_task", task, "stop"):
            return denied
        row = self.task(task)
        why = {"stopped": "already_stopped", "finished": "finished"}.get(row.state, "")
        if run is not None and max(run, 1) < row.last_run:
            why = "newer_run"
        states = {one.id: self.state(one) for one in self.mirror.all(Operation) if one.task_id == task}
        goes_on = [one for one, state in states.items() if self._goes_on(one, state)]
        asked = [
            "decision cancel applied" for one in goes_on if why != "newer_run" and self._cancellation(one) == "none"
        ]
        word = stop_word(why, goes_on, having(states, UNSENT))
        return expected(word, f"decision stop {'noted' if why else 'applied'}", *asked)

    def _goes_on(self, operation: int, state: str) -> bool:
        """It may still have its effect, or have it a second time."""
        return state in OPEN or self._reading(operation).another_open

    def _reading(self, operation: int) -> reading.Reading:
        return reading.read(self.mirror, self.mirror.get(Operation, operation), self.now)

    def _cancellation(self, operation: int) -> str:
        return self._reading(operation).cancellation

    # The gate

    def is_frozen(self, task: int, action: str) -> bool:
        held = [one for one in self.mirror.all(Freeze) if one.holds_at(self.now)]
        return any(one.covers(CONNECTOR, action, self.task(task).owner_id) for one in held)

    def gate(self, task: int, run: int, key: str, action: str, digest: str, capability: Capability) -> Expected:
        known = self.mirror.incarnations(task, key)
        if not self.over(task, run) and self.task(task).state == "paused":
            return expected("Paused")  # it is listed, and its turn comes
        word = self.over(task, run) or self._by_the_operation(known, digest, capability)
        if word in ("passes", "opens the next") and self.is_frozen(task, action):
            word = "Frozen"
        if word == "passes":
            attempts = len(self.mirror.submits(known[-1].id)) if known else 0
            return expected(gate_word(known[-1].incarnation if known else 1, attempts + 1), "attempt submit")
        if word == "opens the next":
            return expected(gate_word(known[-1].incarnation + 1, 1), "attempt submit")
        if word == "replays":
            return expected(f"replay of {known[-1].incarnation}")
        return expected(word, *self._refusal(known, run, word))

    def prepare(self, task: int, run: int, key: str, digest: str) -> Expected:
        known = self.mirror.incarnations(task, key)
        reused = "KeyReused" if known and known[-1].digest != digest else ""
        word = self.over(task, run) or reused
        return expected(word, *self._refusal(known, run, word)) if word else expected("listed")

    def _by_the_operation(self, known: Sequence[Operation], digest: str, capability: Capability) -> str:
        if not known:
            return "passes"
        last = known[-1]
        state = self.state(last)
        if last.digest != digest:
            return "KeyReused"
        if state == "succeeded":
            undoings = {self.state(one) for one in self.mirror.all(Operation) if one.compensates_id == last.id}
            return "opens the next" if "succeeded" in undoings else "InFlight" if undoings & set(OPEN) else "replays"
        if state == "cancelled":
            return "opens the next"
        if state in ("sending", "accepted") or self._cancel_may_arrive(last):
            return "InFlight"
        return self._by_unknown(last, capability) if state == "unknown" else "passes"

    def _cancel_may_arrive(self, operation: Operation) -> bool:
        """Whether a request to cancel it was sent a short while ago, and nobody knows that it has ended."""
        answered = {one.attempt_id for one in self.mirror.of(Receipt, operation.id) if one.claim != "lost"}
        attempts = self.mirror.of(Attempt, operation.id)
        return any(one.verb == "cancel" and one.id not in answered and one.lease_until >= self.now for one in attempts)

    def _by_unknown(self, operation: Operation, capability: Capability) -> str:
        submits = self.mirror.submits(operation.id)
        if self._cancellation(operation.id) in CANCEL_IS_OPEN or submits[-1].lease_until >= self.now:
            return "InFlight"
        life: timedelta | None = capability.resend_life
        honoured = life is not None and submits[0].passed_at + life > self.now + self.on_its_way
        return "passes" if honoured else "OutcomeUnknown"

    def _refusal(self, known: Sequence[Operation], run: int, word: str) -> list[str]:
        """A refusal is written down once for each run and reason, and counted."""
        reason = "".join(f"_{c.lower()}" if c.isupper() else c for c in word).strip("_")
        made = self.mirror.of(Decision, known[-1].id) if known else []
        again = any((d.verb, d.run, d.reason) == ("refuse", run, reason) for d in made)
        return [] if again else [f"decision refuse applied {reason}"]

    # Results

    def admission(self, operation: int, run: int, claim: str, error: str = "") -> str:
        live = self.task(self.mirror.get(Operation, operation).task_id).live_run == run
        if not live:
            return "ignored"
        return "accepted" if claim == "succeeded" and not error else "failed"

    def record(self, operation: int, heard: Sequence[str], run: int | None, error: str = "") -> Expected:
        """What storing these receipts gives: `claim source` each; the last one asks to be admitted for the run."""
        receipts = [f"receipt {one}" for one in heard]
        if run is None:
            return expected("None", *receipts)
        outcome = self.admission(operation, run, heard[-1].split()[0], error)
        return expected(outcome, *receipts, *self.calls(operation, run, outcome, entry=True))

    def calls(self, operation: int, run: int, outcome: str, *, entry: bool) -> list[str]:
        """A result is admitted once for a run."""
        if outcome != "accepted":
            return [f"call {outcome}"]
        if any((call.run, call.outcome) == (run, outcome) for call in self.mirror.of(Call, operation)):
            return []
        return ["call accepted", "entry"] if entry else ["call accepted"]

    def sink(self, operation: int, run: int) -> Expected:
        """The host's own sink, whose entries are not ours."""
        outcome = self.admission(operation, run, "succeeded")
        if outcome != "accepted":
            return expected("Stale")
        return expected("admitted", *self.calls(operation, run, outcome, entry=False))

    def renew(self, attempt: Attempt) -> Expected:
        return expected(str(attempt.lease_until > self.now))

    # People's actions on operations

    def compensate(self, operation: Operation, capability: Capability) -> str:
        """The word for a refusal, or `undoes`."""
        if capability.compensation is None or self.state(operation) != "succeeded":
            return "CannotCompensate"
        earlier = {self.state(one) for one in self.mirror.all(Operation) if one.compensates_id == operation.id}
        if earlier & {"prepared", "succeeded", *OPEN}:
            return "InFlight"
        return "Frozen" if self.is_frozen(operation.task_id, capability.compensation.action) else "undoes"

    def settle(self, operation: Operation, by: Person, claim: str) -> Expected:
        if denied := self.denied(by, "settle_operation", operation.task_id, "settle"):
            return denied
        if self.state(operation) not in ("unknown", "accepted"):
            return expected("NotSettled")
        return expected("settled", "decision settle applied", f"receipt {claim} person")


def gate_word(incarnation: int, attempt: int) -> str:
    return f"pass {attempt} of incarnation {incarnation}"


def stop_word(why: str, still_open: Sequence[int], never_sent: Sequence[int]) -> str:
    return f"{why or 'stopped'}; open {sorted(still_open)}; never sent {sorted(never_sent)}"


def having(states: dict[int, str], wanted: Sequence[str]) -> list[int]:
    return [pk for pk, state in states.items() if state in wanted]
