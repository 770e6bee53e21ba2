"""What people are told before many tasks are stopped at once, and what became of each: on pages and in the admin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext

from agentstop import captions, database, per_task, permissions
from agentstop.closing import MAY_GO_ON
from agentstop.exceptions import AgentStopError, Denied, RunNotFound, TaskNotFound
from agentstop.models import Operation, Task
from agentstop.per_task import Answer, Counted
from agentstop.stop import StopReport, stop

LISTED = 100  # tasks that a question names; the counts are of all
PAIRS = re.compile(r"[0-9]{1,18}:[0-9]{1,9}(?: [0-9]{1,18}:[0-9]{1,9})*")


def with_open(tasks: QuerySet[Any]) -> QuerySet[Any]:
    """These tasks, each with the number of its open operations as `still_open`, as it is stored."""
    still_open = Operation.objects.filter(MAY_GO_ON, task=OuterRef("pk")).order_by().values("task")
    count = Subquery(still_open.annotate(count=Count("pk")).values("count"), output_field=IntegerField())
    annotated: QuerySet[Any] = tasks.annotate(still_open=Coalesce(count, 0))
    return annotated


def pairs_of(text: str) -> dict[int, int]:
    """The tasks and the runs that a form names as "id:run id:run"; none where it is unreadable."""
    if not PAIRS.fullmatch(text):
        return {}
    return {int(task): int(run) for task, run in (pair.split(":") for pair in text.split(" "))}


@dataclass(frozen=True, slots=True)
class Choice:
    """The tasks that a person may see and is about to stop, counted before anything happens; from `with_open`."""

    tasks: Sequence[Any]
    counts: Sequence[str]

    @classmethod
    def of(cls, user: Any, tasks: Sequence[Any]) -> Choice:
        found = list(permissions.seen(user, tasks))
        return cls(found, _sentences(per_task.count(found, user, "stop_task")))

    @property
    def listed(self) -> Sequence[Any]:
        return self.tasks[:LISTED]

    @property
    def more(self) -> int:
        return len(self.tasks) - len(self.listed)

    @property
    def value(self) -> str:
        """The tasks and the runs that the person sees: a press never stops a run that began after it was asked."""
        return " ".join(f"{task.pk}:{task.last_run}" for task in self.tasks)


def _sentences(there: Counted) -> list[str]:
    said = [_count(captions.GOING, there.running) if there.running else gettext(captions.NONE_GOING)]
    aside = zip(captions.ASIDE, (there.stopped, there.finished, there.denied), strict=True)
    said += [_count(text, number) for text, number in aside if number]
    left = there.open_operations
    return [*said, _count(captions.STILL_OPEN, left) if left else gettext(captions.NONE_OPEN)]


def _count(text: Any, number: int) -> str:
    return str(text % {"count": number})


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one task; `kind` is a key of `captions.ANSWERED`."""

    task_id: int
    title: str  # empty where the person may not see the task
    kind: str
    text: str


def stop_named(named: dict[int, int], by: Any, reason: str) -> list[Told]:
    """Stop these tasks, given with the runs that the person saw, each by itself; failures come first."""
    tasks = list(Task.objects.using(database.alias()).filter(pk__in=named).order_by("-pk"))
    titles = {task.pk: task.title for task in permissions.seen(by, tasks)}
    answers = per_task.each(tasks, lambda task: stop(task.pk, by=by, reason=reason, run=named[task.pk]))
    by_task = {answer.task: answer for answer in answers}
    told = [_told(task, titles.get(task, ""), by_task.get(task)) for task in named]
    return sorted(told, key=lambda each: list(captions.ANSWERED).index(each.kind))


def _told(task: int, title: str, answer: Answer[StopReport] | None) -> Told:
    if answer is None or (isinstance(answer.error, TaskNotFound) and not isinstance(answer.error, RunNotFound)):
        return Told(task, "", "error", gettext(captions.NO_SUCH_TASK) % {"task": task})
    if isinstance(answer.error, Denied):
        return Told(task, title, "error", gettext(captions.NOT_ALLOWED))
    if isinstance(answer.error, AgentStopError):
        return Told(task, title, "error", str(answer.error))
    if answer.report is None:
        return Told(task, title, "error", gettext(captions.STOP_FAILED) % {"error": type(answer.error).__name__})
    kind = {"": "success", "newer_run": "error"}.get(answer.report.why, "info")
    return Told(task, title, kind, " ".join(_said(answer.report)))


def _said(report: StopReport) -> list[str]:
    goes_on = report.why == "finished" and report.open
    said = [gettext(captions.FINISHED_OPEN if goes_on else captions.STOPS[report.why])]
    if report.open:
        said.append(_count(captions.HAVE_LEFT, len(report.open)))
    if report.never_sent and report.why != "newer_run":
        said.append(_count(captions.NEVER_SENT, len(report.never_sent)))
    return said


def counts_of(told: Sequence[Told]) -> list[str]:
    """How many went which way, for the top of the page."""
    kinds = Counter(each.kind for each in told)
    return [_count(text, kinds[kind]) for kind, text in captions.ANSWERED.items() if kinds[kind]]
