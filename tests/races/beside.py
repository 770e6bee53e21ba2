"""What stands beside a race: others on the same connector, children, a retry, further presses and a page reloaded.

Whatever happens to the operation in the middle, each of these has one right end, and the sandbox's ledger tells which.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.contrib.auth.models import User
from django.test import Client

from agentstop.exceptions import Stopped
from agentstop.models import Decision, Operation, Task
from agentstop.models import Run as RunRow
from agentstop.models.facts import Decided
from agentstop.runs import Run, begin
from agentstop.stop import StopReport, stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.races.pages import on_the_page, told
from tests.races.senders import Got, Sender

NOTIFY = "notify.post"
RETRIED = {"label": "retry", "text": "retry", "sandbox": {"refuse": True}}


class Beside:
    """The task that races, and around it all that a stop must reach or leave alone.

    `run` is its second run. An independent task has an operation at the same provider; a child works for the task
    alone, one for the independent task too, and a detached one for itself; a fourth is spawned while Stop is pressed.
    """

    def __init__(self, owner: User, sender: Sender, sandbox: SandboxClient, in_thread: InThread) -> None:
        self.sender, self.sandbox, self._in_thread = sender, sandbox, in_thread
        older = begin("main", owner=owner)
        self.older, self.run = older.number, begin(task_of(older))
        self.independent = begin("independent", owner=owner)
        self.children = {
            "alone": begin("alone", serves=[self.run]),
            "shared": begin("shared", serves=[self.run, self.independent]),
            "detached": begin("detached", serves=[self.run], detached=True),
        }
        self._owner = Client()
        self._owner.force_login(owner)
        self.pressed = self.checked = False

    def prepare(self) -> None:
        """The independent task is in flight, and a retry waits for its timer."""
        self.sandbox.hold("received", "independent")
        self._ask("independent", self.independent)
        self.sandbox.wait("received", "independent")
        self._client = self.sender.client()
        self.sender.start("retry", self.run, NOTIFY, RETRIED)
        assert self.sender.got("retry") == Got("failed")

    def press_late(self) -> None:
        """A press on a page that showed the older run."""
        before = task_of(self.run).state
        late = stop(self.run.task_id, run=self.older)
        assert (late.stopped, late.why, task_of(self.run).state) == (False, "newer_run", before)

    def press(self, meanwhile: Callable[[], None] = lambda: None) -> StopReport:
        """Stop is pressed at the moment at which a child is spawned, and `meanwhile` happens; then once more."""
        line = threading.Barrier(2, timeout=HANG_GUARD)
        spawning, pressing = self._in_thread(self._spawn, line), self._in_thread(self._press, line)
        meanwhile()
        report: StopReport = pressing.result(HANG_GUARD)
        self._spawned: Run | None = spawning.result(HANG_GUARD)
        self._check_the_report(report)
        again = stop(self.run.task_id)
        assert (again.stopped, again.why) == (False, "already_stopped")
        assert task_of(self.run).stopped_at == report.at
        self.reload()
        self.pressed = True
        return report

    def _press(self, line: threading.Barrier) -> StopReport:
        line.wait()
        return stop(self.run.task_id, run=self.run.number, reason="enough")

    def _spawn(self, line: threading.Barrier) -> Run | None:
        line.wait()
        try:
            return begin("spawned", serves=[self.run])
        except Stopped:  # the press was first: it is there, born stopped
            return None

    def _check_the_report(self, report: StopReport) -> None:
        assert report.stopped
        assert report.descendants == 1 + (self._spawned is not None)
        held, detached = self.children["shared"].task_id, self.children["detached"].task_id
        went_on = [(one.task, one.why, one.by) for one in report.goes_on]
        assert went_on == [(held, "held", self.independent.task_id), (detached, "detached", None)]

    def check(self) -> None:
        """The independent task finishes on its own connection, with whoever works for it; the others send nothing."""
        self.checked = True
        for name, child in self.children.items():
            self._ask(name, child)
        self.sender.start("retry", self.run, NOTIFY, RETRIED)
        if self._spawned is not None:
            self._ask("spawned", self._spawned)
        self._check_the_stopped()
        self._check_the_others()

    def _check_the_stopped(self) -> None:
        """The retry's timer has fired and is refused on record; the children that work for the task alone are over."""
        over = ["retry", "alone", "spawned"] if self._spawned is not None else ["retry", "alone"]
        assert [self.sender.got(name) for name in over] == [Got("ignored", "stopped")] * len(over)
        refused = Decision.objects.get(task=self.run.task_id, operation__key="retry", verb=Decided.REFUSE)
        assert (refused.reason, refused.run) == ("stopped", self.run.number)
        tasks = Task.objects.filter(title__in=["main", "alone", "spawned"])
        assert list(tasks.values_list("state", "live_run")) == [("stopped", None)] * 3
        assert not RunRow.objects.filter(task__in=tasks, state="live").exists()
        assert self.counts(self.run, "retry")["submits"] == 1
        assert [self.sandbox.ledger(task=name)["effects"] for name in ("alone", "spawned")] == [[], []]

    def _check_the_others(self) -> None:
        assert self.sender.client() == self._client
        self.sandbox.release("received", "independent")
        for name, run in {**self.children, "independent": self.independent}.items():
            if name == "alone":
                continue
            assert self.sender.got(name) == Got("accepted")
            assert (task_of(run).state, len(run.context())) == ("active", 1)
            assert self.counts(run, name) == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}

    def reload(self) -> None:
        """The owner loads the page anew: it shows what the domain tells."""
        for _ in range(50):
            before = told(self.run.task_id)
            page = self.page()
            if before == told(self.run.task_id):  # nothing has happened meanwhile
                assert on_the_page(page) == before
                return
        raise AssertionError("what is told of the task never kept still")

    def page(self) -> str:
        return self._owner.get(f"/tasks/{self.run.task_id}/").content.decode()

    def counts(self, run: Run, key: str) -> dict[str, int]:
        """What the provider counted of a task's operation."""
        found = Operation.objects.filter(task=run.task_id, key=key).first()
        return self.sandbox.counts(str(found.idempotency_key) if found else "none")

    def _ask(self, name: str, run: Run) -> None:
        self.sender.start(name, run, NOTIFY, {"label": name, "text": name, "seconds": 0})
