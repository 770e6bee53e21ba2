"""One race: an operation that is held at a point while its task is stopped, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from agentstop import reconcile
from agentstop.states import Cancellation
from agentstop.stop import StopReport
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.counted import eventually
from tests.observed import Observed, of_key
from tests.races.beside import NOTIFY, Beside
from tests.races.senders import Sender

NOT_SENT, STILL_ACTIVE, UNKNOWN = Label.NOT_SENT, Label.STILL_ACTIVE, Label.UNKNOWN
CANCELLED, COMPLETED_BEFORE, FAILED = Label.CANCELLED, Label.COMPLETED_BEFORE, Label.FAILED
ENDS = {NOT_SENT, CANCELLED, COMPLETED_BEFORE, FAILED}
REPORT = "report.create"

NEVER = frozenset({(NOT_SENT, 0)})
DONE = frozenset({(COMPLETED_BEFORE, 1)})
GIVEN_UP = frozenset({(CANCELLED, 0)})
ACTIVE = frozenset({STILL_ACTIVE})
LOCKED = {"P1", "P8 locked"}  # points at which somebody holds the task's lock


@dataclass(frozen=True, slots=True)
class Row:
    """A point, what is shown right after a stop there, and how it may end: label, and effects in the ledger."""

    point: str
    at: str  # one of our own points, one of the sandbox's, or "" where the gate was not reached
    shown: frozenset[Label]
    ends: frozenset[tuple[Label, int]]
    action: str = NOTIFY
    cancellation: Cancellation | None = None  # right after the stop
    also_hold: tuple[str, ...] = ()  # points of the sandbox behind it, until the worker has cancelled
    switches: Mapping[str, Any] = field(default_factory=dict)
    completes: bool = True  # without a stop the caller gets the result

    @property
    def own(self) -> bool:
        return self.at.startswith("P")

    @property
    def args(self) -> dict[str, Any]:
        return {"label": "main", "text": "main", "seconds": 0, "sandbox": dict(self.switches)}


class Scene:
    """The operation that is held at the row's point, and what becomes of it; all others are `beside` it."""

    def __init__(self, row: Row, sender: Sender, beside: Beside) -> None:
        self.row, self.sender, self.sandbox, self.beside = row, sender, beside.sandbox, beside
        self.run = beside.run
        self.passed = False  # the point

    @property
    def task(self) -> int:
        return self.run.task_id

    def bring_to_the_point(self) -> None:
        """The others are on their way, and the operation is held."""
        row = self.row
        self.beside.prepare()
        if not row.at:
            self.run.prepare(row.action, row.args, connector="sandbox", key="main")
            return
        if row.own:
            self.sender.hold(row.at)
        for point in row.also_hold if row.own else (row.at, *row.also_hold):
            self.sandbox.hold(point, "main")
        self.send()
        if row.own:
            self.sender.wait_at(row.at)
        else:
            self.sandbox.wait(row.at, "main")
        if row.at == "working" and not row.also_hold:  # the provider's id is known to us
            eventually(lambda: self.seen.state, "accepted")

    def send(self) -> None:
        self.sender.start("main", self.run, self.row.action, self.row.args)

    def stop(self, meanwhile: Callable[[], None] | None = None) -> StopReport:
        """All the presses. While the task is locked, the one that counts has to wait; at P1 the gate then goes on."""
        if self.row.at not in LOCKED or self.passed:
            self.beside.press_late()
            return self.beside.press()
        report = self.beside.press(meanwhile or self._let_the_gate_go_on)
        self.beside.press_late()
        return report

    def _let_the_gate_go_on(self) -> None:
        wait_for_the_lock()
        self.pass_the_point()

    def pass_the_point(self) -> None:
        """Whatever holds the operation holds it no more; where it was not sent yet, it is now."""
        self.passed = True
        if not self.row.at:
            self.send()
        elif self.row.own:
            self.sender.go()
        else:
            self.sandbox.release(self.row.at, "main")

    def release_the_rest(self) -> None:
        for point in self.row.also_hold:
            self.sandbox.release(point, "main")

    def wait_for_the_provider(self) -> None:
        """Until it has done, or holds, what reached it before its client was gone."""
        if self.row.also_hold:
            self.sandbox.wait(self.row.also_hold[0], "main")
        elif self.row.at != "P2":
            self.sandbox.settled("main")

    def follow_up_once(self) -> None:
        assert reconcile.work() > 0

    def follow_up(self) -> None:
        """The worker's turns until the operation is settled."""

        def settled() -> bool:
            reconcile.work()
            return self.seen.label in ENDS

        eventually(settled, True)

    def check_the_end(self, ends: frozenset[tuple[Label, int]] | None = None) -> None:
        """The label agrees with the ledger, on the page too; nothing was sent twice; states are what the facts give."""
        counts = self.counts()
        assert (self.seen.label, counts["writes"]) in (ends or self.row.ends)
        assert counts["submits"] <= 1
        self.beside.reload()
        assert list(differences()) == []

    def counts(self) -> dict[str, int]:
        """What the provider counted."""
        return self.beside.counts(self.run, "main")

    @property
    def seen(self) -> Observed:
        return of_key(self.task, "main")


def wait_for_the_lock(many: int = 1) -> None:
    """Until so many wait for a row's lock; SQLite does not tell who waits for its file."""
    if connection.vendor == "postgresql":
        eventually(lambda: _waiting() >= many, True)


def _waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])
