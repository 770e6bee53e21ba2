"""R14, R17, R18: what a person reads, in every combination of states, and never more than the evidence says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from agentstop import exceptions, sentences, wording
from agentstop.providers.base import Cancel, Capability, LookUp, SubmitIdempotency
from agentstop.states import Cancellation, Claim, OperationState, ReceiptFact, RunState, Source, TaskState
from agentstop.wording import Label, Reading, Situation, Tone, label_of, read, read_agent, summarise

PRESS = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = PRESS - timedelta(minutes=1), PRESS + timedelta(minutes=1)
CAPABLE = Capability(submit=SubmitIdempotency.KEY, look_up=LookUp.BY_KEY, authoritative=True, cancel=Cancel.BEST_EFFORT)
UNABLE = Capability()
S, T, C = OperationState, TaskState, Cancellation


def receipt(claim: Claim, source: Source, seen: datetime = AFTER, provider_at: datetime | None = None) -> ReceiptFact:
    return ReceiptFact(claim, source, seen, seen, provider_at=provider_at)


def stopped(state: OperationState, *decided_by: ReceiptFact, **more: object) -> Situation:
    values: dict[str, object] = {"stopped_at": PRESS, "decided_by": decided_by, "capability": CAPABLE, **more}
    return Situation(state, T.STOPPED, **values)  # type: ignore[arg-type]  # the fields are those of Situation


DECIDING = {
    S.ACCEPTED: receipt(Claim.ACCEPTED, Source.PROVIDER),
    S.SUCCEEDED: receipt(Claim.SUCCEEDED, Source.PROVIDER),
    S.FAILED: receipt(Claim.FAILED, Source.PROVIDER),
    S.CANCELLED: receipt(Claim.CANCELLED, Source.READ_BACK),
}


def every_situation() -> Iterator[Situation]:
    flags = product([False, True], [None, PRESS], [False, True], [CAPABLE, UNABLE])
    for state, task, cancellation, more in product(S, T, C, list(flags)):
        in_lease, stopped_at, contradictory, capability = more
        decided_by = (DECIDING[state],) if state in DECIDING else ()
        yield Situation(
            state,
            task,
            cancellation,
            in_lease=in_lease,
            stopped_at=stopped_at,
            decided_by=decided_by,
            contradictory=contradictory,
            capability=capability,
        )


def test_every_state_cancellation_and_task_state_has_a_label_a_name_evidence_and_a_next_step() -> None:
    for situation in every_situation():
        reading = read(situation)
        assert all([reading.label, reading.name, reading.tone, reading.evidence, reading.next_step]), situation


def test_cancelled_is_the_label_of_cancelled_operations_and_of_no_others() -> None:
    for situation in every_situation():
        assert (read(situation).label is Label.CANCELLED) == (situation.state is S.CANCELLED), situation


def test_no_label_claims_an_end_that_the_state_does_not_have() -> None:
    states = {
        Label.COMPLETED: {S.SUCCEEDED},
        Label.COMPLETED_BEFORE: {S.SUCCEEDED},
        Label.FAILED: {S.FAILED},
        Label.NOT_SENT: {S.NOT_SENT, S.PREPARED},
        Label.UNKNOWN: {S.UNKNOWN, S.SENDING},
    }
    for situation in every_situation():
        label = read(situation).label
        assert label not in states or situation.state in states[label], situation


def test_nothing_reads_as_waiting_or_in_progress_once_its_task_was_stopped() -> None:
    running = {Label.WAITING, Label.IN_PROGRESS, Label.COMPLETED}
    for situation in every_situation():
        assert situation.task is not T.STOPPED or read(situation).label not in running, situation


@pytest.mark.parametrize(
    ("state", "task", "cancellation", "label"),
    [
        (S.PREPARED, T.ACTIVE, C.NONE, Label.WAITING),
        (S.PREPARED, T.PAUSED, C.NONE, Label.WAITING),
        (S.PREPARED, T.STOPPED, C.MOOT, Label.NOT_SENT),
        (S.PREPARED, T.FINISHED, C.NONE, Label.NOT_SENT),
        (S.NOT_SENT, T.ACTIVE, C.NONE, Label.NOT_SENT),
        (S.SENDING, T.ACTIVE, C.NONE, Label.IN_PROGRESS),
        (S.SENDING, T.STOPPED, C.REQUESTED, Label.STILL_ACTIVE),
        (S.ACCEPTED, T.ACTIVE, C.NONE, Label.IN_PROGRESS),
        (S.ACCEPTED, T.PAUSED, C.NONE, Label.IN_PROGRESS),
        (S.ACCEPTED, T.ACTIVE, C.REQUESTED, Label.STILL_ACTIVE),
        (S.ACCEPTED, T.STOPPED, C.ACKNOWLEDGED, Label.STILL_ACTIVE),
        (S.ACCEPTED, T.FINISHED, C.NONE, Label.STILL_ACTIVE),
        (S.SUCCEEDED, T.ACTIVE, C.NONE, Label.COMPLETED),
        (S.SUCCEEDED, T.FINISHED, C.NONE, Label.COMPLETED),
        (S.SUCCEEDED, T.STOPPED, C.MOOT, Label.COMPLETED_BEFORE),
        (S.SUCCEEDED, T.ACTIVE, C.MOOT, Label.COMPLETED_BEFORE),
        (S.UNKNOWN, T.ACTIVE, C.NONE, Label.UNKNOWN),
        (S.UNKNOWN, T.STOPPED, C.SENT, Label.UNKNOWN),
    ],
)
def test_a_label_follows_from_the_states_of_operation_task_and_cancellation(
    state: OperationState, task: TaskState, cancellation: Cancellation, label: Label
) -> None:
    assert label_of(state, task, cancellation, in_lease=True) is label


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
}


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
            limit_of(S.UNKNOWN, capability=Capability(look_up=LookUp.BY_REF, submit=SubmitIdempotency.KEY)),
            [sentences.ASKED_BY_REF_ONLY],
        ),
        (
            limit_of(S.UNKNOWN, capability=Capability(look_up=LookUp.BY_KEY, submit=SubmitIdempotency.KEY)),
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


def test_one_line_says_that_nothing_new_will_be_sent_and_counts_the_rest() -> None:
    counts = {Label.NOT_SENT: 3, Label.CANCELLED: 1, Label.STILL_ACTIVE: 1, Label.UNKNOWN: 2}
    assert summarise(T.STOPPED, counts) == (
        "Stopped. Nothing new will be sent. 1 still active · 1 cancelled · 2 unknown outcomes · 3 not sent"
    )
    assert summarise(T.STOPPED, {}) == "Stopped. Nothing new will be sent. No operations."
    assert summarise(T.ACTIVE, {Label.IN_PROGRESS: 1, Label.UNKNOWN: 0}) == "Running. 1 in progress"


@pytest.mark.parametrize(
    ("run", "task", "more", "text", "since"),
    [
        (None, T.ACTIVE, {}, sentences.NO_AGENT, None),
        (RunState.LIVE, T.ACTIVE, {"heard_at": BEFORE}, sentences.AGENT_RUNNING, BEFORE),
        (RunState.LIVE, T.ACTIVE, {"heard_at": BEFORE, "silent": True}, sentences.AGENT_SILENT, BEFORE),
        (RunState.STOPPED, T.STOPPED, {"heard_at": BEFORE}, sentences.AGENT_NOT_HEARD_OF, BEFORE),
        (RunState.STOPPED, T.STOPPED, {"heard_at": AFTER}, sentences.AGENT_STILL_RUNNING, AFTER),
        (RunState.STOPPED, T.STOPPED, {"heard_at": AFTER, "halted_at": AFTER}, sentences.AGENT_HALTED, AFTER),
        (RunState.STOPPED, T.STOPPED, {}, sentences.AGENT_NOT_HEARD_OF, None),
        (RunState.FINISHED, T.FINISHED, {"heard_at": BEFORE}, "The agent has finished.", BEFORE),
        (RunState.FAILED, T.FINISHED, {"heard_at": BEFORE}, "The agent ended with an error.", BEFORE),
    ],
)
def test_the_agents_own_line_says_what_its_process_said_and_no_more(
    run: RunState | None, task: TaskState, more: dict[str, object], text: str, since: datetime | None
) -> None:
    line = read_agent(run, task, stopped_at=PRESS, **more)  # type: ignore[arg-type]  # the keywords of read_agent
    assert (line.text, line.since) == (text, since)


def test_every_run_has_a_line_of_its_agent() -> None:
    for run, task in product([None, *RunState], T):
        assert read_agent(run, task).text


def test_the_language_that_is_active_when_it_is_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "gettext", lambda text: f"<{text}>")
    reading = read(stopped(S.ACCEPTED, DECIDING[S.ACCEPTED], cancellation=C.SENT, capability=UNABLE))
    shown = [reading.name, reading.evidence, reading.cancellation, reading.next_step, reading.limit]
    assert all(text.startswith("<") and text.endswith(">") for text in shown)


def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    reading: Reading = read(Situation(S.SENDING, T.ACTIVE, in_lease=True, capability=CAPABLE))
    assert (reading.cancellation, reading.limit) == ("", "")


def test_no_sentence_holds_a_time_or_ends_without_a_full_stop() -> None:
    tables: list[Mapping[Any, str]] = [
        sentences.RECEIPTS,
        sentences.CANCELLATIONS,
        sentences.REFUSALS,
        sentences.AFTER_REFUSAL,
        sentences.TASKS,
    ]
    said = [text for table in tables for text in table.values() if text]
    said += [text for name, text in vars(sentences).items() if name.isupper() and isinstance(text, str)]
    for text in said:
        assert text == sentences.BEING_SENT or text.endswith("."), text
        assert "%" not in text, text


def test_the_labels_are_written_nowhere_else() -> None:
    names = {text for text in sentences.NAMES.values() if " " in text}
    for path in Path(sentences.__file__).parent.rglob("*.py"):
        if path.name != "sentences.py":
            written = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not names & written, path
