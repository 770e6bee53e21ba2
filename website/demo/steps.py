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


ACTIONS = {Step.REPORT: "report.create", Step.UPLOAD: "file.upload", Step.NOTIFY: "notify.post"}


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

    step: Step
    key: str
    args: dict[str, Any]

    @property
    def action(self) -> str:
        return ACTIONS[self.step]

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


def follow_up(task_id: int, channel: str, input_id: int, text: str) -> Effect:
    """A text that a person typed is posted once, whichever run gets it."""
    args = {"label": label(task_id), "text": f"{channel}: {text[:LONGEST_POST]}"}
    return Effect(Step.NOTIFY, key=f"input:{input_id}", args=args)
