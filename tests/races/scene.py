"""One race: a task whose operation is held at a point, a press, and what must be left alone beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from agentstop import reconcile
from agentstop.models import Decision, Operation
from agentstop.models.facts import Decided
from agentstop.runs import begin
from agentstop.states import Cancellation
from agentstop.stop import StopReport, stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.wording import Label
from tests.conftest import InThread
from tests.counted import eventually
from tests.observed import Observed, of_key, task_of
from tests.races.senders import Got, Sender

NOT_SENT, STILL_ACTIVE, UNKNOWN = Label.NOT_SENT, Label.STILL_ACTIVE, Label.UNKNOWN
CANCELLED, COMPLETED_BEFORE, FAILED = Label.CANCELLED, Label.COMPLETED_BEFORE, Label.FAILED
ENDS = {NOT_SENT, CANCELLED, COMPLETED_BEFORE, FAILED}
REPORT, NOTIFY = "report.create", "notify.post"


NEVER = frozenset({(NOT_SENT, 0)})
DONE = frozenset({(COMPLETED_BEFORE, 1)})
GIVEN_UP = frozenset({(CANCELLED, 0)})
ACTIVE = frozenset({STILL_ACTIVE})


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
    """The main operation, and beside it an independent task on the same connector, a retry, and late presses."""

    def __init__(self, row: Row, sender: Sender, sandbox: SandboxClient, beside: Sender) -> None:
        self.row, self.sender, self.sandbox, self.beside = row, sender, sandbox, beside
        older = begin("main")
        self.run = begin(task_of(older))
        self.older = older.number
        self.independent = begin("independent")

    @property
    def task(self) -> int:
        return self.run.task_id

    def prepare(self) -> None:
        """The independent task is in flight, and a retry waits for its timer."""
        self.sandbox.hold("received", "independent")
        words = {"label": "independent", "text": "independent", "seconds": 0}
        self.beside.start("independent", self.independent, NOTIFY, words)
        self.sandbox.wait("received", "independent")
        self._client = self.beside.client()
        self.beside.start("retry", self.run, NOTIFY, RETRIED)
        assert self.beside.got("retry") == Got("failed")

    def bring_to_the_point(self) -> None:
        row = self.row
        if not row.at:
            self.run.prepare(row.action, row.args, connector="sandbox", key="main")
            return
        if row.own:
            self.sender.hold(row.at)
        for point in () if row.own else (row.at, *row.also_hold):
            self.sandbox.hold(point, "main")
        self.send()
        if row.own:
            self.sender.wait_at(row.at)
        else:
            self.sandbox.wait(row.at, "main")
        if row.at == "working":  # the provider's id is known to us
            eventually(lambda: self.seen.state, "accepted")

    def send(self) -> None:
        self.sender.start("main", self.run, self.row.action, self.row.args)

    def stop(self) -> StopReport:
        """A late press that names the older run, the press, and a second one."""
        self.press_late()
        assert task_of(self.run).state == "active"
        report = self.press()
        self.press_again(report)
        return report

    def press(self) -> StopReport:
        report = stop(self.task, run=self.run.number, reason="enough")
        assert report.stopped
        return report

    def press_late(self) -> None:
        late = stop(self.task, run=self.older)
        assert (late.stopped, late.why) == (False, "newer_run")

    def press_again(self, report: StopReport) -> None:
        again = stop(self.task)
        assert (again.stopped, again.why) == (False, "already_stopped")
        assert task_of(self.run).stopped_at == report.at

    def pass_the_point(self) -> None:
        """Whatever holds the operation holds it no more; where it was not sent yet, it is now."""
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

    def check_the_others(self) -> None:
        """The retry's timer fires and is refused on record; the independent task finishes on its own connection."""
        self.beside.start("retry", self.run, NOTIFY, RETRIED)
        assert self.beside.got("retry") == Got("ignored", "stopped")
        refused = Decision.objects.get(task=self.task, operation__key="retry", verb=Decided.REFUSE)
        assert (refused.reason, refused.run) == ("stopped", self.run.number)
        assert self.beside.client() == self._client
        self.sandbox.release("received", "independent")
        assert self.beside.got("independent") == Got("accepted")
        assert len(self.independent.context()) == 1
        assert task_of(self.independent).state == "active"
        counts = self.counts(self.independent.task_id, "independent")
        assert counts == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}
        assert self.counts(self.task, "retry")["submits"] == 1

    def check_the_end(self) -> None:
        """The label agrees with the provider's ledger, nothing was sent twice, and states are what facts give."""
        counts = self.counts(self.task, "main")
        assert (self.seen.label, counts["writes"]) in self.row.ends
        assert counts["submits"] <= 1
        assert list(differences()) == []

    def counts(self, task: int, key: str) -> dict[str, int]:
        found = Operation.objects.filter(task=task, key=key).first()
        return self.sandbox.counts(str(found.idempotency_key) if found else "none")

    @property
    def seen(self) -> Observed:
        return of_key(self.task, "main")


RETRIED = {"label": "retry", "text": "retry", "sandbox": {"refuse": True}}


def wait_for_the_lock() -> None:
    """Until somebody waits for a row's lock; SQLite does not tell who waits for its file."""
    if connection.vendor == "postgresql":
        eventually(lambda: _waiting() > 0, True)


def _waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def stopping(scene: Scene, in_thread: InThread) -> StopReport:
    """The press at the point; at P1 it has to wait for the gate's transaction, which then goes on."""
    if scene.row.at != "P1":
        return scene.stop()
    pressed = in_thread(scene.press)
    wait_for_the_lock()
    scene.pass_the_point()
    report: StopReport = pressed.result()
    scene.press_late()
    scene.press_again(report)
    return report
