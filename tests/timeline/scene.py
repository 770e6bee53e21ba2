"""A stopped task with everything that a timeline can show, stored as facts at given moments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agentstop import settle
from agentstop.models import Attempt, Call, Decision, Family, Operation, Receipt, Run, ServingLink, Task
from agentstop.models.facts import CallOutcome
from agentstop.states import Claim, RunState, Source, TaskState, Verb

LEASE = timedelta(seconds=15)


@dataclass
class Scene:
    """Stores facts about one task, at seconds after its start."""

    task: Task
    start: datetime

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def decided(self, verb: str, seconds: float, **columns: Any) -> Decision:
        return Decision.objects.create(task=self.task, verb=verb, at=self.at(seconds), **columns)

    def begun(self, number: int, seconds: float, by: Any = None) -> Run:
        moment = self.at(seconds)
        Run.objects.filter(task=self.task, state=RunState.LIVE).update(state=RunState.SUPERSEDED, ended_at=moment)
        self.decided("start", seconds, run=number, by=by)
        Task.objects.filter(pk=self.task.pk).update(
            state=TaskState.ACTIVE, live_run=number, last_run=number, stopped_at=None, stop_decision=None
        )
        return Run.objects.create(task=self.task, number=number, began_at=moment, seen_at=moment)

    def stopped(self, seconds: float, by: Any, reason: str = "", **columns: Any) -> Decision:
        moment = self.at(seconds)
        decision = self.decided("stop", seconds, by=by, reason=reason, **columns)
        live = Run.objects.filter(task=self.task, state=RunState.LIVE)
        live.update(state=RunState.STOPPED, ended_at=moment, halted_at=moment + timedelta(seconds=1))
        Task.objects.filter(pk=self.task.pk).update(
            state=TaskState.STOPPED, state_since=moment, live_run=None, stopped_at=moment, stopped_by=by,
            stop_reason=reason, stop_decision=decision,
        )  # fmt: skip
        return decision

    def paused(self, start: float, end: float, by: Any) -> None:
        pause = self.decided("pause", start, by=by, run=1)
        self.decided("resume", end, by=by, cause=pause, run=1)

    def operation(self, action: str, key: str, seconds: float, connector: str = "tools") -> Operation:
        moment = self.at(seconds)
        return Operation.objects.create(
            task=self.task, key=key, connector=connector, action=action, digest="", state_since=moment,
            folded_at=moment, created_at=moment,
        )  # fmt: skip

    def passed(self, operation: Operation, seconds: float, verb: Verb = Verb.SUBMIT, run: int | None = 1) -> Attempt:
        number = Attempt.objects.filter(operation=operation, verb=verb).count() + 1
        moment = self.at(seconds)
        if verb is Verb.SUBMIT:
            Operation.objects.filter(pk=operation.pk).update(attempts=number, lease_until=moment + LEASE)
        return Attempt.objects.create(
            operation=operation, verb=verb, number=number, run=run, passed_at=moment, lease_until=moment + LEASE,
            settling=timedelta(seconds=2), max_age=timedelta(days=400),
        )  # fmt: skip

    def heard(
        self, about: Operation | Attempt, claim: str, seconds: float, source: str = "provider", **columns: Any
    ) -> Receipt:
        attempt = about if isinstance(about, Attempt) else None
        operation = about.operation if isinstance(about, Attempt) else about
        asked = columns.pop("asked", seconds)
        return Receipt.objects.create(
            operation=operation, attempt=attempt, claim=Claim(claim), source=Source(source), asked_at=self.at(asked),
            seen_at=self.at(seconds), **columns,
        )  # fmt: skip

    def called(self, operation: Operation, outcome: str, seconds: float) -> None:
        """What the first run got for its request."""
        taken = self.at(seconds) if outcome == CallOutcome.ACCEPTED else None
        Call.objects.create(operation=operation, run=1, outcome=outcome, admitted_at=taken, at=self.at(seconds))

    def cancelled(self, operation: Operation, asked: float, sent: float, stop: Decision) -> Attempt:
        """Its cancel was asked for, and a request was sent."""
        self.decided(
            "cancel", asked, operation=operation, cause=stop, until=self.at(asked + 3600), detail={"possible": True}
        )
        return self.passed(operation, sent, Verb.CANCEL, run=None)

    def folded(self) -> Task:
        """The task, once the states of its operations are what the facts say."""
        for operation in Operation.objects.filter(task=self.task):
            settle.refold_one(operation.pk)
            last = operation.receipts.order_by("-seen_at").first()
            Operation.objects.filter(pk=operation.pk).update(state_since=last.seen_at if last else operation.created_at)
        self.task.refresh_from_db()
        return self.task


def scene(title: str, owner: Any, start: datetime) -> Scene:
    task = Task.objects.create(
        title=title, owner=owner, family=Family.objects.create(), state_since=start, created_at=start
    )
    return Scene(task, start)


def incident(owner: Any, start: datetime, title: str = "Quarterly report for the board") -> Task:
    """Half a minute of an agent's work, paused once, and stopped while four things were under way."""
    story = scene(title, owner, start)
    story.begun(1, 0, by=owner)
    quick(story, "crm.search", "crm:q3", 0.4, 0.9)
    quick(story, "crm.search", "crm:q2", 1.1, 1.4)
    made(story)
    sent_twice(story)
    failed(story)
    story.paused(19, 24.5, owner)
    quick(story, "image.render", "chart:revenue", 25, 26.2)
    under_way = [late(story), confirmed(story), refusing(story), unknown(story)]
    listed = story.operation("calendar.invite", "invite:board", 29.5)
    story.operation("invoice.send", "invoice:4711", 29.5)
    stop = story.stopped(
        31,
        owner,
        "These are last year's figures",
        detail={"pressed_at": story.at(30.998).isoformat(), "last_dispatch_at": story.at(30.997).isoformat()},
    )
    for end in under_way:
        end(stop)
    story.decided("refuse", 31.4, operation=listed, policy="gate", reason="stopped", run=1, count=2)
    child(story, "Collect the figures of the regions", 3, stop)
    child(story, "Translate the summary", 27, None)
    return story.folded()


def brief(owner: Any, start: datetime) -> Task:
    """The same with one operation of each kind that a stop can find."""
    story = scene("Quarterly report for the board", owner, start)
    story.begun(1, 0, by=owner)
    made(story)
    under_way = [confirmed(story), refusing(story), unknown(story)]
    story.operation("invoice.send", "invoice:4711", 29.5)
    pressed = {"pressed_at": story.at(30.998).isoformat(), "last_dispatch_at": story.at(30.997).isoformat()}
    stop = story.stopped(31, owner, "These are last year's figures", detail=pressed)
    for end in under_way:
        end(stop)
    return story.folded()


def quick(story: Scene, action: str, key: str, passed: float, answered: float) -> None:
    attempt = story.passed(story.operation(action, key, passed), passed)
    story.heard(attempt, "succeeded", answered, body='"done"', size=6)
    story.called(attempt.operation, "accepted", answered)


def made(story: Scene) -> None:
    attempt = story.passed(story.operation("report.create", "report:q3", 2), 2)
    story.heard(attempt, "accepted", 2.3, ref="r-1")
    for second in (4, 6, 8):
        story.heard(attempt, "running", second, "read_back", ref="r-1")
    story.heard(attempt, "succeeded", 9.1, "read_back", ref="r-1", asked=9)
    story.called(attempt.operation, "accepted", 9.1)


def sent_twice(story: Scene) -> None:
    operation = story.operation("file.upload", "upload:q3.pdf", 10)
    story.heard(story.passed(operation, 10), "unsent", 12, "sender")
    story.heard(story.passed(operation, 14), "succeeded", 15.5)
    story.called(operation, "accepted", 15.5)


def failed(story: Scene) -> None:
    attempt = story.passed(story.operation("image.render", "chart:costs", 16), 16)
    story.heard(attempt, "refused", 16.6, body="422: no such colour")


def late(story: Scene) -> Any:
    """Acknowledged its cancel, and completed all the same."""
    operation = story.operation("notify.post", "notify:#board", 27)
    attempt = story.passed(operation, 27)
    story.heard(attempt, "accepted", 27.3, ref="n-1")

    def end(stop: Decision) -> None:
        story.heard(story.cancelled(operation, 31, 31.05, stop), "cancelled", 31.6, "ack")
        story.heard(operation, "succeeded", 36, "provider", ref="n-1")
        story.called(operation, "ignored", 36)

    return end


def confirmed(story: Scene) -> Any:
    """Cancelled, by the provider's own word."""
    operation = story.operation("ticket.create", "ticket:review", 28)
    attempt = story.passed(operation, 28)
    story.heard(attempt, "accepted", 28.2, ref="t-9")

    def end(stop: Decision) -> None:
        story.heard(story.cancelled(operation, 31, 31.05, stop), "cancelled", 31.3, "ack")
        story.heard(attempt, "cancelled", 33.4, "read_back", ref="t-9", asked=33)

    return end


def refusing(story: Scene) -> Any:
    """Its provider refuses to cancel; it is under way still."""
    operation = story.operation("print.order", "print:100 copies", 28.5)
    attempt = story.passed(operation, 28.5)
    story.heard(attempt, "accepted", 29, ref="p-3")

    def end(stop: Decision) -> None:
        story.heard(story.cancelled(operation, 31, 31.1, stop), "refused", 32, "provider")
        for second in (34, 37, 41):
            story.heard(operation, "running", second, "read_back", ref="p-3")

    return end


def unknown(story: Scene) -> Any:
    """Left three milliseconds before the stop; its answer was lost."""
    attempt = story.passed(story.operation("mail.send", "mail:investors@example.org", 30.997), 30.997)

    def end(stop: Decision) -> None:
        story.heard(attempt, "lost", 35, "sender")

    return end


def child(story: Scene, title: str, seconds: float, stop: Decision | None) -> None:
    """A task that works for the first run; without a stop it is detached, and goes on."""
    below = scene(title, story.task.owner, story.at(seconds))
    Task.objects.filter(pk=below.task.pk).update(family=story.task.family, detached=stop is None)
    ServingLink.objects.create(child=below.task, parent=story.task, parent_run=1)
    below.begun(1, 0)
    for number in range(6):
        operation = below.operation("crm.search", f"region {number}", number * 1.3)
        below.heard(below.passed(operation, 0.2 + number * 1.3), "succeeded", 0.9 + number * 1.3)
    if stop is not None:
        below.stopped(31 - seconds, stop.by, stop.reason, policy="family", cause=stop)
    below.folded()


def several(owner: Any, start: datetime) -> Task:
    """Tasks in every state, for a list; answers the one that was stopped."""
    finished = scene("Book the meeting room", owner, start)
    finished.begun(1, 0)
    quick(finished, "calendar.invite", "room:4", 1, 2)
    finished.decided("finish", 3, run=1)
    Run.objects.filter(task=finished.task).update(state=RunState.FINISHED, ended_at=finished.at(3))
    Task.objects.filter(pk=finished.task.pk).update(state=TaskState.FINISHED, state_since=finished.at(3), live_run=None)
    finished.folded()
    stopped = incident(owner, start)
    paused = scene("Write to the suppliers", owner, start)
    paused.begun(1, 5)
    quick(paused, "mail.send", "mail:first", 6, 7)
    paused.decided("pause", 8, by=owner, run=1)
    Task.objects.filter(pk=paused.task.pk).update(state=TaskState.PAUSED, state_since=paused.at(8))
    paused.folded()
    running = scene("Compare the offers of three suppliers", owner, start)
    running.begun(1, 30)
    quick(running, "crm.search", "offers", 31, 32)
    attempt = running.passed(running.operation("report.create", "comparison", 40), 40)
    running.heard(attempt, "accepted", 41, ref="r-7")
    running.folded()
    return stopped


def under_way(owner: Any, start: datetime) -> Task:
    """A running task of which two operations were accepted, and nothing else was heard."""
    story = scene("Two reports", owner, start)
    story.begun(1, 0, by=owner)
    for number, action in enumerate(("report.create", "file.upload")):
        attempt = story.passed(story.operation(action, f"q{number}", 1 + number), 1 + number)
        story.heard(attempt, "accepted", 3 + number, ref=f"r-{number}")
    return story.folded()
