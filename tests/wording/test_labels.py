"""R17: what an operation is called, in every combination of states."""

from __future__ import annotations

import pytest

from agentstop.states import Cancellation, OperationState, TaskState
from agentstop.words.wording import Label, label_of, read
from tests.wording.situations import (
    C,
    S,
    T,
    every_situation,
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
        Label.GIVEN_UP: {S.NOT_SENT},
        Label.UNKNOWN: {S.UNKNOWN, S.SENDING},
    }
    for situation in every_situation():
        label = read(situation).label
        assert label not in states or situation.state in states[label], situation


@pytest.mark.parametrize("state", S)
def test_what_rests_on_its_tools_word_is_never_called_not_sent(state: OperationState) -> None:
    """A request of it may have left."""
    told = [label_of(state, task, C.NONE, in_lease=False, given_up=True) for task in T]
    assert (Label.GIVEN_UP in told) == (state is S.NOT_SENT)
    assert Label.NOT_SENT not in told or state is S.PREPARED


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
