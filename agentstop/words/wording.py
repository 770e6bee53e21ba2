"""What a person reads, as pure functions of what is known. Each sentence claims what the evidence says and no more.

The sentences are in `agentstop.words.sentences`, translated when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from agentstop.folds.evidence import PROVIDERS_WORD
from agentstop.providers.base import Cancel, Capability, Disconnect, LookUp
from agentstop.states import (
    FINAL_CLAIMS,
    FINAL_STATES,
    SIGNS_OF_LIFE,
    Cancellation,
    Claim,
    OperationState,
    ReceiptFact,
    Source,
    TaskState,
)
from agentstop.words import capability_words, sentences
from agentstop.words.sentences import Label, Tone

__all__ = [
    "Label",
    "Reading",
    "Situation",
    "Tone",
    "count",
    "label_of",
    "read",
    "summarise",
]


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the reading of one operation depends on."""

    state: OperationState
    task: TaskState
    cancellation: Cancellation = Cancellation.NONE
    in_lease: bool = False  # the last attempt's lease is not over
    stopped_at: datetime | None = None  # the press that covers it; None: it was never stopped
    since: datetime | None = None  # when the state was reached
    decided_by: tuple[ReceiptFact, ...] = ()
    contradictory: bool = False
    doubled: bool = False
    refusal: str = ""  # `reason` of the gate's last refusal
    has_ref: bool = False  # the provider's reference is known
    capability: Capability = Capability()

    @property
    def label(self) -> Label:
        given_up = any(receipt.claim is Claim.ENDED for receipt in self.decided_by)
        return label_of(self.state, self.task, self.cancellation, in_lease=self.in_lease, given_up=given_up)

    @property
    def can_look_up(self) -> bool:
        return self.capability.look_up.possible("known" if self.has_ref else "")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a person reads about one operation. A sentence is empty where there is nothing to say."""

    label: Label
    name: str
    tone: Tone
    evidence: str
    cancellation: str
    next_step: str
    limit: str
    since: datetime | None
    provider_at: datetime | None  # the moment of the effect by the provider's own clock, to show beside the evidence


_SETTLED_LABELS = {
    OperationState.NOT_SENT: Label.NOT_SENT,
    OperationState.FAILED: Label.FAILED,
    OperationState.CANCELLED: Label.CANCELLED,
    OperationState.UNKNOWN: Label.UNKNOWN,
}
_CLOSED = frozenset({TaskState.STOPPED, TaskState.FINISHED})
_ABSENCE = frozenset({Claim.UNSENT, Claim.ENDED, Claim.NOT_FOUND})  # of one attempt: less than a word about another
_STRENGTH = (Source.READ_BACK, Source.PROVIDER, Source.PERSON, Source.INTERMEDIARY, Source.ACK, Source.SENDER)


def label_of(
    state: OperationState, task: TaskState, cancellation: Cancellation, *, in_lease: bool, given_up: bool = False
) -> Label:
    """The label of an operation, for readings, counts and filters alike.

    `given_up`: that it had no effect rests on its tool's word, and something of it may have been sent.
    """
    if given_up and state is OperationState.NOT_SENT:
        return Label.GIVEN_UP
    if state in _SETTLED_LABELS:
        return _SETTLED_LABELS[state]
    if state is OperationState.SENDING and not in_lease:  # nobody has looked since the lease ended
        return Label.UNKNOWN
    asked_to_end = task is TaskState.STOPPED or cancellation is not Cancellation.NONE
    if state is OperationState.SUCCEEDED:
        return Label.COMPLETED_BEFORE if asked_to_end else Label.COMPLETED
    if state is OperationState.PREPARED:
        return Label.NOT_SENT if task in _CLOSED else Label.WAITING
    return Label.STILL_ACTIVE if asked_to_end or task in _CLOSED else Label.IN_PROGRESS


def read(situation: Situation) -> Reading:
    """What a person reads about one operation, in the active language."""
    label = situation.label
    being_sent = label is Label.STILL_ACTIVE and situation.state is OperationState.SENDING
    return Reading(
        label=label,
        name=gettext(sentences.BEING_SENT if being_sent else sentences.NAMES[label]),
        tone=sentences.TONES[label],
        evidence=_text(_evidence(situation)),
        cancellation=_text([sentences.CANCELLATIONS[situation.cancellation]]),
        next_step=_text([_next_step(situation)]),
        limit=_text(_limits(situation)),
        since=_since(situation),
        provider_at=_provider_at(situation),
    )


def summarise(task: TaskState, counts: Mapping[Label, int], *held: str, undoings: str = "") -> str:
    """The one line for the whole task: whether anything new will be sent, and how many operations are what.

    Undoing is an operation of its own, asked for by a person: those are counted apart.
    """
    line = _text([sentences.TASKS[task], *held]) + " " + (count(counts) or gettext(sentences.NO_OPERATIONS))
    return f"{line} · {gettext(sentences.UNDOING_COUNTED) % {'counts': undoings}}" if undoings else line


def count(counts: Mapping[Label, int]) -> str:
    """How many operations are what; empty where there are none."""
    return " · ".join(str(sentences.COUNTS[label] % {"count": counts[label]}) for label in Label if counts.get(label))


def _text(parts: Iterable[str]) -> str:
    return " ".join(gettext(part) for part in parts if part)


def _since(situation: Situation) -> datetime | None:
    if situation.state in FINAL_STATES and situation.decided_by:
        return min(receipt.seen_at for receipt in situation.decided_by)
    if situation.state is OperationState.PREPARED and situation.task is TaskState.STOPPED:
        return situation.stopped_at or situation.since
    return situation.since


def _provider_at(situation: Situation) -> datetime | None:
    words = (r for r in situation.decided_by if r.source in PROVIDERS_WORD and r.claim in FINAL_CLAIMS)
    return min((r.provider_at for r in words if r.provider_at is not None), default=None)


def _evidence(situation: Situation) -> Iterator[str]:
    if situation.contradictory:
        yield sentences.CONTRADICTORY
    if situation.state is OperationState.UNKNOWN:
        yield _why_unknown(situation)
    elif situation.state is OperationState.PREPARED:
        yield sentences.NOT_AT_THE_GATE
    elif situation.state is OperationState.SENDING:
        yield sentences.NOT_HEARD_YET if situation.in_lease else sentences.SENDER_SILENT
    elif situation.state is OperationState.NOT_SENT and not situation.decided_by:
        yield sentences.REFUSALS.get(situation.refusal, sentences.REFUSALS["refused"])
    else:
        yield _strongest(situation.decided_by)
    if situation.label is Label.COMPLETED_BEFORE and situation.stopped_at is not None:
        yield _moment(situation, situation.stopped_at)
    if situation.doubled:
        yield sentences.DOUBLED


def _strongest(receipts: Iterable[ReceiptFact]) -> str:
    """What the best of these receipts says; the earliest of equals, since it tells since when."""
    ranked = sorted(receipts, key=lambda r: (r.claim in _ABSENCE, _STRENGTH.index(r.source), r.seen_at))
    said = (sentences.RECEIPTS.get((receipt.claim, receipt.source), "") for receipt in ranked)
    return next(said, "")


def _why_unknown(situation: Situation) -> str:
    if situation.contradictory:
        return ""
    receipts = situation.decided_by
    reports = [r for r in receipts if r.source is Source.INTERMEDIARY and r.claim in FINAL_CLAIMS]
    if reports:
        return _strongest(reports)
    if any(receipt.claim is Claim.NOT_FOUND for receipt in receipts):
        return sentences.FORGOTTEN
    if any(receipt.claim in SIGNS_OF_LIFE for receipt in receipts):
        return sentences.SIGN_TOO_OLD
    return _strongest(receipts) or sentences.SENDER_SILENT


def _moment(situation: Situation, stopped_at: datetime) -> str:
    words = [receipt for receipt in situation.decided_by if receipt.source in PROVIDERS_WORD]
    if any(receipt.seen_at <= stopped_at for receipt in words):
        return sentences.ANSWERED_BEFORE
    clock = _provider_at(situation)
    if clock is None:
        return sentences.MOMENT_UNKNOWN
    return sentences.CLOCK_BEFORE if clock <= stopped_at else sentences.CLOCK_AFTER


def _next_step(situation: Situation) -> str:
    label = situation.label
    if label in (Label.NOT_SENT, Label.GIVEN_UP):
        return _after_not_sent(situation)
    if label is Label.UNKNOWN:
        return sentences.LOOK_UP_DUE if situation.can_look_up else sentences.LOOK_YOURSELF
    if label is Label.STILL_ACTIVE:
        being_sent = situation.state is OperationState.SENDING
        return sentences.LOOK_UP_DUE if situation.can_look_up and not being_sent else sentences.ANSWER_IS_KEPT
    if label is Label.IN_PROGRESS:
        return sentences.STOP_WILL_CANCEL if situation.capability.cancellable else sentences.ANSWER_IS_KEPT
    if label is Label.WAITING:
        return sentences.WAITS_FOR_RESUME if situation.task is TaskState.PAUSED else sentences.WAITS_FOR_GATE
    if label is Label.FAILED and any(receipt.source in PROVIDERS_WORD for receipt in situation.decided_by):
        return sentences.SEE_ANSWER
    if label is Label.COMPLETED_BEFORE:
        return sentences.UNDO_THERE if situation.capability.compensation is None else sentences.UNDO
    return sentences.NOTHING_LEFT_TO_DO


def _after_not_sent(situation: Situation) -> str:
    if situation.task in _CLOSED:
        return sentences.START_AGAIN
    return sentences.AFTER_REFUSAL.get(situation.refusal, sentences.ASK_AGAIN)


def _limits(situation: Situation) -> Iterator[str]:
    """What this provider cannot do, where it matters for this operation now, with the way forward."""
    if situation.label in (Label.STILL_ACTIVE, Label.IN_PROGRESS):
        yield from _limits_of_cancelling(situation)
    if situation.label is Label.UNKNOWN or situation.state is OperationState.ACCEPTED:
        yield from _limits_of_looking(situation)
    if situation.label is Label.UNKNOWN:
        if situation.capability.disconnect is Disconnect.CANCELS:
            yield capability_words.LOST_MAY_HAVE_CANCELLED
        if not situation.capability.resendable:
            yield sentences.MIGHT_BE_DONE_TWICE


def _limits_of_cancelling(situation: Situation) -> Iterator[str]:
    capability, cancellation = situation.capability, situation.cancellation
    if cancellation is Cancellation.ACKNOWLEDGED and not capability.ack_is_final:
        yield sentences.ACK_PROVES_NOTHING
    if situation.label is Label.IN_PROGRESS and not capability.cancellable:
        yield sentences.GOES_ON_AFTER_STOP
    if cancellation in (Cancellation.SENT, Cancellation.ACKNOWLEDGED) and capability.cancel_ends_answer:
        yield capability_words.ENDS_ANSWER
    if capability.cancel is Cancel.UNTIL_STARTED:
        yield sentences.CANCELS_UNTIL_STARTED
    if cancellation in (Cancellation.UNSUPPORTED, Cancellation.REFUSED, Cancellation.UNDELIVERABLE):
        yield sentences.END_IT_THERE


def _limits_of_looking(situation: Situation) -> Iterator[str]:
    capability = situation.capability
    if capability.look_up is LookUp.NONE:
        yield sentences.CANNOT_BE_ASKED
    elif not situation.can_look_up:
        yield sentences.ASKED_BY_REF_ONLY
    elif situation.label is Label.UNKNOWN and not capability.authoritative:
        yield sentences.ABSENCE_PROVES_NOTHING
