"""R14, R17, R18: each sentence says what the evidence says, why, and what can be done."""

from __future__ import annotations

import pytest

from agentstop import exceptions
from agentstop.providers.base import Cancel, Capability, LookUp, SubmitIdempotency
from agentstop.states import Cancellation, Claim, OperationState, ReceiptFact, Source, TaskState
from agentstop.words import sentences
from agentstop.words.wording import Label, Situation, Tone, read
from tests.wording.situations import (
    AFTER,
    BEFORE,
    CAPABLE,
    DECIDING,
    PRESS,
    UNABLE,
    C,
    S,
    T,
    receipt,
    stopped,
)


def test_sending_after_a_stop_reads_still_active_being_sent() -> None:
    reading = read(stopped(S.SENDING, in_lease=True, cancellation=C.REQUESTED))
    assert (reading.name, reading.tone) == ("still active (being sent)", Tone.NOTICE)
    assert reading.evidence == "It was released to be sent; no answer has come yet."
    assert reading.cancellation == "Cancel requested, not delivered yet."


def test_sending_past_its_lease_is_not_called_active() -> None:
    reading = read(stopped(S.SENDING, in_lease=False))
    assert (reading.label, reading.evidence) == (Label.UNKNOWN, sentences.SENDER_SILENT)


def test_what_was_prepared_when_the_task_was_stopped_is_not_sent_since_the_press() -> None:
    reading = read(stopped(S.PREPARED, since=BEFORE))
    assert (reading.name, reading.since) == ("not sent", PRESS)
    assert reading.next_step == "To have it sent, start the task again."


@pytest.mark.parametrize(
    ("word", "moment"),
    [
        (receipt(Claim.SUCCEEDED, Source.PROVIDER, BEFORE), sentences.ANSWERED_BEFORE),
        (receipt(Claim.SUCCEEDED, Source.PROVIDER, AFTER, BEFORE), sentences.CLOCK_BEFORE),
        (receipt(Claim.SUCCEEDED, Source.READ_BACK, AFTER, AFTER), sentences.CLOCK_AFTER),
        (receipt(Claim.SUCCEEDED, Source.READ_BACK, AFTER), sentences.MOMENT_UNKNOWN),
        (receipt(Claim.SUCCEEDED, Source.PERSON, BEFORE), sentences.MOMENT_UNKNOWN),
    ],
)
def test_completed_before_cancellation_says_what_is_known_about_the_moment(word: ReceiptFact, moment: str) -> None:
    reading = read(stopped(S.SUCCEEDED, word, cancellation=C.MOOT))
    assert reading.name == "completed before cancellation"
    assert reading.evidence.endswith(moment)
    assert (reading.since, reading.provider_at) == (word.seen_at, word.provider_at)


def test_a_completed_operation_of_a_running_task_says_nothing_about_a_press() -> None:
    reading = read(Situation(S.SUCCEEDED, T.ACTIVE, decided_by=(DECIDING[S.SUCCEEDED],)))
    assert (reading.name, reading.evidence) == ("completed", "The provider reported that it was done.")


CANCELLATION_SENTENCES = {
    C.WAITING: "Cancel requested; it waits for the provider's reference, which is not known yet.",
    C.REQUESTED: "Cancel requested, not delivered yet.",
    C.SENT: "A cancel request was sent, or may have been; the provider has not answered it.",
    C.ACKNOWLEDGED: "Cancel acknowledged, not confirmed: the effect may still happen.",
    C.REFUSED: "The provider refused to cancel it.",
    C.UNDELIVERABLE: "The cancel request could not be delivered, and is no longer tried.",
    C.UNSUPPORTED: "Cancelling it is not supported by this provider.",
}


@pytest.mark.parametrize("cancellation", CANCELLATION_SENTENCES)
def test_what_is_still_active_after_a_stop_says_how_far_cancelling_got(cancellation: Cancellation) -> None:
    reading = read(stopped(S.ACCEPTED, DECIDING[S.ACCEPTED], cancellation=cancellation))
    assert (reading.name, reading.evidence) == ("still active", "The provider accepted it.")
    assert reading.cancellation == CANCELLATION_SENTENCES[cancellation]


@pytest.mark.parametrize(
    ("decided_by", "why"),
    [
        ((), sentences.SENDER_SILENT),
        ((receipt(Claim.LOST, Source.SENDER),), "It was sent, or may have been; no usable answer came back."),
        ((receipt(Claim.ACCEPTED, Source.PROVIDER),), sentences.SIGN_TOO_OLD),
        (
            (receipt(Claim.ACCEPTED, Source.PROVIDER, BEFORE), receipt(Claim.NOT_FOUND, Source.READ_BACK)),
            sentences.FORGOTTEN,
        ),
        (
            (receipt(Claim.ACCEPTED, Source.PROVIDER, BEFORE), receipt(Claim.CANCELLED, Source.INTERMEDIARY)),
            "An intermediary reported it cancelled; the provider has not confirmed it.",
        ),
    ],
)
def test_an_unknown_outcome_says_why_it_is_unknown(decided_by: tuple[ReceiptFact, ...], why: str) -> None:
    assert read(stopped(S.UNKNOWN, *decided_by)).evidence == why


def test_a_contradiction_is_shown_also_where_a_person_settled_it() -> None:
    words = (receipt(Claim.CANCELLED, Source.PROVIDER), receipt(Claim.SUCCEEDED, Source.PROVIDER))
    assert read(stopped(S.UNKNOWN, *words, contradictory=True)).evidence == sentences.CONTRADICTORY
    settled = read(stopped(S.CANCELLED, receipt(Claim.CANCELLED, Source.PERSON), contradictory=True))
    assert settled.evidence == f"{sentences.CONTRADICTORY} A person settled it as cancelled."


def test_different_references_of_one_key_read_perhaps_done_twice() -> None:
    assert read(stopped(S.SUCCEEDED, DECIDING[S.SUCCEEDED], doubled=True)).evidence.endswith("perhaps done twice.")


def test_the_word_about_one_attempt_is_not_covered_by_the_absence_of_another() -> None:
    words = (receipt(Claim.CANCELLED, Source.PROVIDER), receipt(Claim.NOT_FOUND, Source.READ_BACK))
    assert read(stopped(S.CANCELLED, *words)).evidence == "The provider reported that it was cancelled."


REASONS = {
    error.reason
    for error in vars(exceptions).values()
    if isinstance(error, type) and issubclass(error, exceptions.Refused)
} - {each.reason for each in (exceptions.ChildStopped, exceptions.Expired, exceptions.Unanswered)}  # not by the gate


def test_every_reason_of_the_gate_has_its_words_and_a_way_forward() -> None:
    assert set(sentences.REFUSALS) == set(sentences.AFTER_REFUSAL) == REASONS


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_a_refused_operation_says_why_and_what_can_be_done(reason: str) -> None:
    running = read(Situation(S.NOT_SENT, T.ACTIVE, refusal=reason))
    assert (running.evidence, running.next_step) == (sentences.REFUSALS[reason], sentences.AFTER_REFUSAL[reason])
    assert read(stopped(S.NOT_SENT, refusal=reason)).next_step == sentences.START_AGAIN


def test_proven_unsent_reads_otherwise_than_refused() -> None:
    reading = read(stopped(S.NOT_SENT, receipt(Claim.UNSENT, Source.SENDER)))
    assert reading.evidence == "Nothing left: no connection was made, or the pass to send had ended."


def test_what_its_tool_declares_reads_as_declared_and_not_as_proven() -> None:
    """A request of it may have left: that nothing did would be more than is known."""
    reading = read(stopped(S.NOT_SENT, receipt(Claim.ENDED, Source.SENDER)))
    assert (reading.label, reading.name) == (Label.GIVEN_UP, "given up by its tool")
    assert (
        reading.evidence == "Its tool ended when the run was over, and declares that a try that ends so has no effect."
    )
    assert reading.next_step == sentences.START_AGAIN


def limit_of(state: OperationState, task: TaskState = T.STOPPED, **more: object) -> str:
    values: dict[str, object] = {"stopped_at": PRESS, "in_lease": True, **more}
    return read(Situation(state, task, **values)).limit  # type: ignore[arg-type]  # the fields are those of Situation


@pytest.mark.parametrize(
    ("limit", "parts"),
    [
        (limit_of(S.ACCEPTED, capability=CAPABLE, cancellation=C.SENT), []),
        (limit_of(S.ACCEPTED, T.ACTIVE, capability=CAPABLE), []),
        (limit_of(S.SENDING, T.ACTIVE, capability=UNABLE), [sentences.GOES_ON_AFTER_STOP]),
        (
            limit_of(S.ACCEPTED, capability=UNABLE, cancellation=C.UNSUPPORTED),
            [sentences.END_IT_THERE, sentences.CANNOT_BE_ASKED],
        ),
        (
            limit_of(S.ACCEPTED, capability=Capability(look_up=LookUp.BY_REF, cancel=Cancel.UNTIL_STARTED),
                     cancellation=C.REFUSED, has_ref=True),
            [sentences.CANCELS_UNTIL_STARTED, sentences.END_IT_THERE],
        ),
        (limit_of(S.ACCEPTED, capability=CAPABLE, cancellation=C.ACKNOWLEDGED), [sentences.ACK_PROVES_NOTHING]),
        (limit_of(S.UNKNOWN, capability=CAPABLE), []),
        (limit_of(S.UNKNOWN, capability=UNABLE), [sentences.CANNOT_BE_ASKED, sentences.MIGHT_BE_DONE_TWICE]),
        (
            limit_of(S.UNKNOWN, capability=Capability(look_up=LookUp.BY_REF, submit=SubmitIdempotency.NATURAL)),
            [sentences.ASKED_BY_REF_ONLY],
        ),
        (
            limit_of(S.UNKNOWN, capability=Capability(look_up=LookUp.BY_KEY, submit=SubmitIdempotency.NATURAL)),
            [sentences.ABSENCE_PROVES_NOTHING],
        ),
        (limit_of(S.CANCELLED, capability=UNABLE), []),
        (limit_of(S.NOT_SENT, capability=UNABLE), []),
    ],
)  # fmt: skip
def test_a_limit_of_the_provider_stands_only_where_it_matters(limit: str, parts: list[str]) -> None:
    assert limit == " ".join(parts)


@pytest.mark.parametrize("state", [S.UNKNOWN, S.ACCEPTED])
def test_a_look_up_is_promised_only_where_the_provider_can_be_asked(state: OperationState) -> None:
    by_ref = Capability(look_up=LookUp.BY_REF)
    assert read(stopped(state, capability=by_ref, has_ref=True)).next_step == sentences.LOOK_UP_DUE
    for capability in (by_ref, UNABLE):
        assert read(stopped(state, capability=capability)).next_step != sentences.LOOK_UP_DUE
