"""What the next run's model is told of a call of an earlier run: one truthful text, in place of a result. Pure.

Unlike on pages the times are in the text, in UTC: a model has no zone of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from agentstop.providers.base import Extent
from agentstop.states import OperationState
from agentstop.words import sentences
from agentstop.words.wording import Label, Situation, read

_NOT_SENT = _("Not sent.")
_GIVEN_UP = _("Given up by its tool.")
_PERHAPS = _("May have been done.")
LEADS = {
    OperationState.PREPARED: _NOT_SENT,
    OperationState.NOT_SENT: _NOT_SENT,
    OperationState.SENDING: _PERHAPS,
    OperationState.ACCEPTED: _PERHAPS,
    OperationState.UNKNOWN: _PERHAPS,
    OperationState.SUCCEEDED: _("Done; known since %(at)s."),
    OperationState.FAILED: _("Not done: it failed."),
    OperationState.CANCELLED: _("Not done: it was cancelled."),
}
NEVER_ASKED = _("Not sent. No earlier run asked for it.")
ASKED_AGAIN_AT = _("The provider is asked again at %(at)s.")
NOT_ASKED_AGAIN = _("The provider is not asked again by itself.")
DO_NOT_REPEAT = _("Do not do it again before it is known what became of it.")


@dataclass(frozen=True, slots=True)
class Left:
    """What earlier runs left of one operation, as a task reads it that is active again."""

    situation: Situation
    run: int | None  # the last earlier run that asked for it; None: it was listed, and nobody did
    took: int | None  # the earlier run that has taken the result in
    asked_at: datetime | None  # when the provider is asked next
    undoing: OperationState | None  # of the last operation that undoes it
    now: datetime


def tell(left: Left) -> str:
    """The text that stands for the call's result. It repeats nothing that the provider or an earlier run has said."""
    reading = read(left.situation)
    lead = _GIVEN_UP if reading.label is Label.GIVEN_UP else LEADS[left.situation.state]
    lead = gettext(lead) % {"at": _moment(reading.since or left.now)}
    parts = [lead, reading.evidence, reading.cancellation, *_what_follows(left)]
    return " ".join(part for part in parts if part)


def _what_follows(left: Left) -> Iterator[str]:
    state = left.situation.state
    if LEADS[state] is _PERHAPS:
        if state is not OperationState.SENDING:
            yield _next_look(left)
        yield gettext(DO_NOT_REPEAT)
    elif state is OperationState.SUCCEEDED:
        yield gettext(sentences.KEPT_OUT if left.took is None else sentences.TAKEN_IN) % {"run": left.took or left.run}
        yield _undoing(left)


def _next_look(left: Left) -> str:
    if not left.situation.can_look_up:
        return gettext(NOT_ASKED_AGAIN)
    if left.asked_at is None or left.asked_at <= left.now:
        return gettext(sentences.LOOK_UP_DUE)
    return gettext(ASKED_AGAIN_AT) % {"at": _moment(left.asked_at)}


def _undoing(left: Left) -> str:
    if left.undoing is None:
        return ""
    way = left.situation.capability.compensation
    if left.undoing is OperationState.SUCCEEDED and way is not None and way.extent is Extent.PARTIAL:
        return gettext(sentences.UNDONE_IN_PART)
    return gettext(sentences.UNDOINGS[left.undoing][0])


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
