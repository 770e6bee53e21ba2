"""What a record claims is told, and no more (R18)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentstop.providers.base import (
    Cancel,
    Capability,
    Compensation,
    Disconnect,
    Extent,
    LookUp,
    Stage,
    SubmitIdempotency,
)
from agentstop.states import Cancellation, OperationState, TaskState
from agentstop.words import capability_words as words
from agentstop.words import sentences
from agentstop.words.wording import Situation, read


def told(capability: Capability) -> dict[str, str]:
    return {each.subject: each.text for each in words.describe(capability)}


def test_a_record_that_claims_nothing_promises_nothing() -> None:
    assert told(Capability()) == {
        words.SENDING_AGAIN: sentences.MIGHT_BE_DONE_TWICE,
        words.ASKING: sentences.CANNOT_BE_ASKED,
        words.CANCELLING: words.NEVER_CANCELS,
        words.LOST_CONNECTION: words.DISCONNECTS[Disconnect.UNKNOWN],
        words.UNDOING: words.NOT_UNDONE_HERE,
    }


@pytest.mark.parametrize(
    ("record", "subject", "sentence"),
    [
        ({"submit": SubmitIdempotency.KEY}, words.SENDING_AGAIN, words.KEY_NOT_RELIED_ON),
        ({"submit": SubmitIdempotency.NATURAL}, words.SENDING_AGAIN, words.NAMES_ITSELF),
        ({"look_up": LookUp.SEARCH}, words.ASKING, words.ASKED[LookUp.SEARCH]),
        ({"look_up": LookUp.SEARCH}, words.ASKING, sentences.ABSENCE_PROVES_NOTHING),
        ({"look_up": LookUp.BY_KEY, "authoritative": True}, words.ASKING, words.ABSENCE_PROVES),
        ({"cancel": Cancel.UNTIL_STARTED}, words.CANCELLING, words.NOT_ONCE_STARTED),
        ({"cancel": Cancel.BEST_EFFORT, "ack_is_final": True}, words.CANCELLING, words.ACK_PROVES),
        ({"cancel": Cancel.BEST_EFFORT, "cancel_ends_answer": True}, words.CANCELLING, words.ENDS_ANSWER),
        ({"disconnect": Disconnect.CANCELS}, words.LOST_CONNECTION, words.DISCONNECTS[Disconnect.CANCELS]),
        ({"compensation": Compensation("x.undo", Extent.PARTIAL)}, words.UNDOING, sentences.EXTENTS["partial"]),
        ({"compensation": Compensation("x.undo", consequences="Sad.")}, words.UNDOING, "Sad."),
    ],
)
def test_what_a_record_claims_is_said(record: dict[str, object], subject: str, sentence: str) -> None:
    assert sentence in told(Capability(**record))[subject]  # type: ignore[arg-type]
    assert sentence not in told(Capability())[subject]


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (timedelta(days=1), "1 day"),
        (timedelta(days=30), "30 days"),
        (timedelta(hours=36), "36 hours"),
        (timedelta(minutes=1), "1 minute"),
        (timedelta(seconds=90), "90 seconds"),
        (timedelta(seconds=1), "1 second"),
        (timedelta(seconds=0.5), "0.5 seconds"),
    ],
)
def test_a_time_is_told_in_its_largest_whole_unit(time: timedelta, text: str) -> None:
    assert words.lasting(time) == text


@pytest.mark.parametrize(
    ("cancel", "needs_ref", "possible"),
    [
        (Cancel.NEVER, True, set()),
        (Cancel.UNTIL_STARTED, True, {Stage.ACCEPTED}),
        (Cancel.UNTIL_STARTED, False, {Stage.UNANSWERED, Stage.ACCEPTED}),
        (Cancel.BEST_EFFORT, True, {Stage.ACCEPTED, Stage.STARTED}),
        (Cancel.BEST_EFFORT, False, set(Stage)),
    ],
)
def test_cancelling_goes_by_stage(cancel: Cancel, needs_ref: bool, possible: set[Stage]) -> None:
    record = Capability(cancel=cancel, cancel_needs_ref=needs_ref)
    assert {stage for stage in Stage if record.cancellable_at(stage)} == possible
    text = told(record)[words.CANCELLING]
    assert {stage for stage, sentence in words.STAGES.items() if sentence in text} == possible


def test_a_lost_connection_that_may_have_cancelled_is_told_where_the_outcome_is_unknown() -> None:
    record = Capability(disconnect=Disconnect.CANCELS)
    unknown = Situation(OperationState.UNKNOWN, TaskState.STOPPED, capability=record)
    assert words.LOST_MAY_HAVE_CANCELLED in read(unknown).limit
    known = Situation(OperationState.SUCCEEDED, TaskState.STOPPED, capability=record)
    assert words.LOST_MAY_HAVE_CANCELLED not in read(known).limit


def test_that_a_cancel_gives_up_the_answer_is_told_once_it_was_asked() -> None:
    record = Capability(cancel=Cancel.BEST_EFFORT, cancel_ends_answer=True)
    asked = Situation(OperationState.ACCEPTED, TaskState.STOPPED, Cancellation.ACKNOWLEDGED, capability=record)
    assert words.ENDS_ANSWER in read(asked).limit


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (Capability(key_life=timedelta(days=1)), "submit is not key"),
        (Capability(authoritative=True), "does not have"),
        (Capability(authoritative=True, look_up=LookUp.SEARCH), "authoritative at once"),
        (Capability(ack_is_final=True), "cancel is never"),
        (Capability(cancel_ends_answer=True), "cancel is never"),
    ],
)
def test_a_record_that_contradicts_itself_is_told(record: Capability, sentence: str) -> None:
    assert sentence in " ".join(record.problems())


def test_a_record_that_is_sound_has_no_problems() -> None:
    assert list(Capability().problems()) == []
    sound = Capability(look_up=LookUp.SEARCH, authoritative=True, settling=timedelta(minutes=1))
    assert list(sound.problems()) == []
