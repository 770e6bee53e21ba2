"""Stopping many tasks at once: what is asked before, and what each of them answered."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from agentstop import database, permissions
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Task
from agentstop.states import TaskState
from agentstop.stop import StopReport, stop

logger = logging.getLogger(__name__)

LISTED = 100  # tasks that the confirmation names; the counts are of all
GOING = ngettext_lazy(
    "%(count)d task will be stopped. Nothing new will be sent for it.",
    "%(count)d tasks will be stopped. Nothing new will be sent for them.",
    "count",
)
ASIDE = (
    ngettext_lazy("%(count)d task is stopped already.", "%(count)d tasks are stopped already.", "count"),
    ngettext_lazy("%(count)d task has finished already.", "%(count)d tasks have finished already.", "count"),
    ngettext_lazy(
        "%(count)d task you may not stop; the try will be recorded.",
        "%(count)d tasks you may not stop; the try will be recorded.",
        "count",
    ),
)
STILL_OPEN = ngettext_lazy(
    "%(count)d operation is open: it has left and may still have its effect. Where its provider can, it is asked to "
    "cancel.",
    "%(count)d operations are open: they have left and may still have their effect. Where their providers can, they "
    "are asked to cancel.",
    "count",
)
HAVE_LEFT = ngettext_lazy(
    "%(count)d operation has left and may still have its effect.",
    "%(count)d operations have left and may still have their effect.",
    "count",
)
NEVER_SENT = ngettext_lazy(
    "%(count)d was listed and will not be sent.", "%(count)d were listed and will not be sent.", "count"
)
ANSWERED = {
    "error": ngettext_lazy("%(count)d task not stopped", "%(count)d tasks not stopped", "count"),
    "success": ngettext_lazy("%(count)d task stopped", "%(count)d tasks stopped", "count"),
    "info": ngettext_lazy("%(count)d had nothing to stop", "%(count)d had nothing to stop", "count"),
}
PAIRS = re.compile(r"\A[0-9]{1,18}:[0-9]{1,9}(?: [0-9]{1,18}:[0-9]{1,9})*\Z")


class StopForm(forms.Form):
    """What a person confirms. `tasks` is one field, "id:run id:run": the number of fields of a form is limited."""

    tasks = forms.RegexField(PAIRS, widget=forms.HiddenInput)
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
        help_text=_("Shown to the owners of the tasks, with your name."),
    )

    def clean_tasks(self) -> list[tuple[int, int]]:
        pairs = [pair.split(":") for pair in str(self.cleaned_data["tasks"]).split()]
        return [(int(task), int(run)) for task, run in pairs]

    def chosen(self) -> list[int]:
        """The ids of the tasks; none where the field is unreadable."""
        return [task_id for task_id, _ in self.cleaned_data.get("tasks", [])]


def task_ids(text: str) -> list[int]:
    """The task that an address names; none where that is unreadable."""
    return [int(text)] if re.fullmatch(r"[0-9]{1,18}", text) else []


@dataclass(frozen=True, slots=True)
class Choice:
    """The tasks that a person is about to stop, counted before anything happens."""

    tasks: Sequence[Any]
    counts: Sequence[str]

    @classmethod
    def of(cls, user: Any, tasks: Sequence[Any]) -> Choice:
        """`tasks` carry the count of their open operations as `still_open`."""
        allowed = [task for task in tasks if permissions.may(user, "stop_task", task)]
        states = Counter(task.state for task in allowed)
        numbers = (
            states[TaskState.ACTIVE] + states[TaskState.PAUSED],
            states[TaskState.STOPPED],
            states[TaskState.FINISHED],
            len(tasks) - len(allowed),
            sum(task.still_open for task in allowed),
        )
        return cls(tasks, _sentences(*numbers))

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


def _sentences(going: int, stopped: int, finished: int, denied: int, still_open: int) -> list[str]:
    said = [_count(GOING, going) if going else gettext("No task will be stopped.")]
    said += [_count(text, number) for text, number in zip(ASIDE, (stopped, finished, denied), strict=True) if number]
    return [*said, _count(STILL_OPEN, still_open) if still_open else gettext("No operation is open.")]


def _count(text: Any, number: int) -> str:
    return str(text % {"count": number})


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one task; `kind` is a key of ANSWERED."""

    task_id: int
    title: str  # empty where the person may not see the task
    kind: str
    text: str


def stop_each(pairs: Sequence[tuple[int, int]], by: Any, reason: str) -> list[Answer]:
    """Stop each task in a commit of its own; whatever one answers, the others are stopped too. Failures come first."""
    titles = Task.objects.using(database.alias()).only("title", "owner").in_bulk([task_id for task_id, _ in pairs])
    answers = [_stop_one(task_id, run, by, reason, titles.get(task_id)) for task_id, run in pairs]
    return sorted(answers, key=lambda answer: list(ANSWERED).index(answer.kind))


def _stop_one(task_id: int, run: int, by: Any, reason: str, task: Task | None) -> Answer:
    title = task.title if task is not None else ""
    try:
        report = stop(task_id, by=by, reason=reason, run=run or None)
    except TaskNotFound as error:
        return Answer(task_id, "", "error", str(error))
    except Denied as error:
        return Answer(task_id, title, "error", str(error))
    except Exception as error:
        logger.exception("a stop failed", extra={"action": "stop_failed", "task": task_id})
        text = gettext("Not stopped: %(error)s. Try it again; the details are in the log.")
        return Answer(task_id, title, "error", text % {"error": type(error).__name__})
    kind = {"": "success", "newer_run": "error"}.get(report.why, "info")
    return Answer(task_id, title, kind, " ".join(_told(report)))


def _told(report: StopReport) -> list[str]:
    first = {
        "": gettext("Stopped. Nothing new will be sent."),
        "already_stopped": gettext("It was stopped before; this press is noted."),
        "finished": gettext("It had finished before; there was nothing to stop."),
        "newer_run": gettext("Not stopped: a newer run has begun since you looked. Look again before you stop it."),
    }[report.why]
    told = [first]
    if report.open:
        told.append(_count(HAVE_LEFT, len(report.open)))
    if report.never_sent and report.why != "newer_run":
        told.append(_count(NEVER_SENT, len(report.never_sent)))
    return told


def answer_counts(answers: Sequence[Answer]) -> list[str]:
    """How many went which way, for the top of the page."""
    kinds = Counter(answer.kind for answer in answers)
    return [_count(text, kinds[kind]) for kind, text in ANSWERED.items() if kinds[kind]]
