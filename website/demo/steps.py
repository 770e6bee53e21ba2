"""What the demo's agent does, step by step, and what a person can make the provider do wrong at one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

SLOW_SECONDS = 15  # as its label says
LONGEST_POST = 500  # characters of what a person typed


class Step(TextChoices):
    """The steps in their order. A value stands in keys, and so does not change."""

    REPORT = "report", _("Create the report")
    UPLOAD = "upload", _("Upload the file")
    NOTIFY = "notify", _("Notify the channel")


class NoteStep(TextChoices):
    """The steps of a note, with the tools of an MCP server."""

    READ = "read", _("Read sources")
    NOTE = "note", _("Write the note")


class Kind(TextChoices):
    """What the agent can be asked to do, and over what."""

    REPORT = "report", _("Create a report, upload it and notify a channel (over HTTP)")
    NOTE = "note", _("Read sources and write a note (with the tools of an MCP server)")
    CHAIN = "chain", _("The report, upload and message as a chain of Celery jobs")
    TASKS = "tasks", _("The report, upload and message as jobs of Django's tasks")


ACTIONS: dict[Step | NoteStep, str] = {
    Step.REPORT: "report.create",
    Step.UPLOAD: "file.upload",
    Step.NOTIFY: "notify.post",
    NoteStep.READ: "read_sources",
    NoteStep.NOTE: "write_note",
}


class Trouble(TextChoices):
    """What the provider can be told to do wrong, in plain words."""

    SLOW = "slow", _("takes 15 seconds")
    DROP = "drop", _("drops the connection after accepting")
    LOSE_RESPONSE = "lose_response", _("does the work, and its response is lost")
    REFUSE_CANCEL = "refuse_cancel", _("refuses to cancel")
    ACK_AND_COMPLETE = "ack_and_complete", _("acknowledges the cancel and completes all the same")


ABOUT_CANCELLING = frozenset({Trouble.REFUSE_CANCEL, Trouble.ACK_AND_COMPLETE})
CANCELLABLE = frozenset({Step.REPORT})


@dataclass(frozen=True, slots=True)
class Effect:
    """One step as it is asked of the gate."""

    step: Step | NoteStep
    key: str
    args: dict[str, Any]

    @property
    def action(self) -> str:
        return ACTIONS[self.step]

    @property
    def connector(self) -> str:
        return "notes" if isinstance(self.step, NoteStep) else "sandbox"

    @property
    def kind(self) -> str:
        """The step, or `input`."""
        return self.key.partition(":")[0]


IDENTIFY = ("label", "text")  # the rest (the link to the report, the provider's bad manners) is no part of the identity


def label(task_id: int) -> str:
    """What the provider's ledger calls the task."""
    return f"task {task_id}"


def effects(task_id: int, topic: str, channel: str, *, troubled: str, troubles: Iterable[str]) -> list[Effect]:
    """The steps of one job. The same topic and channel have the same keys: a new run never does them twice."""
    texts = {Step.REPORT: topic, Step.UPLOAD: f"{topic}.pdf", Step.NOTIFY: f"{channel}: {topic} is ready"}
    names = {Step.REPORT: topic, Step.UPLOAD: topic, Step.NOTIFY: f"{channel}:{topic}"}
    switches = {name: SLOW_SECONDS if name == Trouble.SLOW else True for name in troubles}
    return [
        Effect(
            step,
            key=f"{step}:{names[step]}",
            args={
                "label": label(task_id),
                "text": texts[step],
                **({"sandbox": switches} if switches and step == troubled else {}),
            },
        )
        for step in Step
    ]


def note_effects(task_id: int, topic: str) -> list[Effect]:
    """The steps of a note."""
    return [Effect(step, key=f"{step}:{topic}", args={"label": label(task_id), "text": topic}) for step in NoteStep]


def follow_up(task_id: int, channel: str, input_id: int, text: str, *, kind: str = Kind.REPORT) -> Effect:
    """A text that a person typed is posted once, whichever run gets it; for a note it becomes one."""
    if kind == Kind.NOTE:
        told = {"label": label(task_id), "text": text[:LONGEST_POST]}
        return Effect(NoteStep.NOTE, key=f"input:{input_id}", args=told)
    args = {"label": label(task_id), "text": f"{channel}: {text[:LONGEST_POST]}"}
    return Effect(Step.NOTIFY, key=f"input:{input_id}", args=args)
