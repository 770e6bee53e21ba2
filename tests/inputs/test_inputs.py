"""R10: what a person typed is held by a stop and never lost, and is sent only when a person says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from agentstop import inputs, lifecycle
from agentstop.exceptions import Denied, Finished, GateInTransaction, Paused, Stopped, Superseded, TaskNotFound
from agentstop.folds.input_states import InputState, Sent
from agentstop.inputs import LONGEST, aadd, add, arelease, awithdraw, release, withdraw
from agentstop.models import Decision, Input, InputEvent
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.inputs.reading import assert_verified, events, folded, sent, states

pytestmark = pytest.mark.django_db(transaction=True)

S = InputState


def texts(run: Run) -> list[str]:
    return [each.text for each in run.take_inputs()]


def test_a_live_run_takes_what_was_typed_once_and_in_order(ann: User) -> None:
    run = begin("Report", owner=ann)
    first, second = add(run.task_id, "also in French", by=ann), add(run.task_id, "and shorter", by=ann)
    assert run.take_input() == first
    assert run.take_inputs() == [second]
    assert (run.take_input(), run.take_inputs()) == (None, [])
    assert (first.text, first.by, first.task_id) == ("also in French", "ann", run.task_id)
    assert states(run.task_id) == [S.TAKEN, S.TAKEN]
    assert run.input_done(first) and run.input_done(second.id)
    assert not run.input_done(first)
    assert (states(run.task_id), sent(run.task_id)) == ([S.DONE, S.DONE], [Sent.SENT, Sent.SENT])
    assert_verified()


def test_a_stop_holds_all_that_waits_and_reports_it(ann: User) -> None:
    run = begin("Report", owner=ann)
    queued = [add(run.task_id, text, by=ann).id for text in ("one", "two", "three")]
    report = stop(run.task_id, by=ann)
    assert report.held == tuple(queued)
    assert (states(run.task_id), sent(run.task_id)) == ([S.HELD] * 3, [Sent.NEVER] * 3)
    assert set(InputEvent.objects.values_list("decision", flat=True)) == {report.decision}
    assert_verified()


def test_a_new_run_gets_what_was_typed_after_the_stop_and_not_what_is_held(ann: User) -> None:
    run = begin("Report", owner=ann)
    add(run.task_id, "held", by=ann)
    stop(run.task_id, by=ann)
    add(run.task_id, "after", by=ann)
    newer = begin(run.task_id, by=ann)
    assert texts(newer) == ["after"]
    assert states(run.task_id) == [S.HELD, S.TAKEN]


def test_what_is_released_goes_to_the_next_run_and_the_rest_stays_held(ann: User) -> None:
    run = begin("Report", owner=ann)
    one, two = add(run.task_id, "one", by=ann), add(run.task_id, "two", by=ann)
    stop(run.task_id, by=ann)
    assert release(two, by=ann)
    assert not release(two, by=ann)
    assert texts(begin(run.task_id, by=ann)) == ["two"]
    assert (folded(one.id).state, folded(two.id).state) == (S.HELD, S.TAKEN)
    assert_verified()


def test_what_is_released_while_a_run_is_live_goes_to_that_run(ann: User) -> None:
    run = begin("Report", owner=ann)
    held = add(run.task_id, "held", by=ann)
    stop(run.task_id, by=ann)
    newer = begin(run.task_id, by=ann)
    assert newer.take_input() is None
    assert release(held.id, by=ann)
    assert newer.take_input() == held


def test_no_code_alone_releases_what_is_held(ann: User) -> None:
    """R10: only a person says so."""
    run = begin("Report", owner=ann)
    held = add(run.task_id, "held", by=ann)
    stop(run.task_id, by=ann)
    with pytest.raises(ValueError, match="by names the person who says so"):
        release(held, by=None)
    with pytest.raises(ValueError, match="by names the person who says so"):
        asyncio.run(arelease(held, by=None))
    assert begin(run.task_id, by=ann).take_inputs() == []
    assert [became for became, _ in events(held.id)] == ["held"]


def test_what_is_released_is_held_again_by_the_next_stop(ann: User) -> None:
    run = begin("Report", owner=ann)
    one = add(run.task_id, "one", by=ann)
    stop(run.task_id)
    release(one, by=ann)
    begin(run.task_id, by=ann)
    assert stop(run.task_id).held == (one.id,)
    assert [became for became, _ in events(one.id)] == ["held", "released", "held"]


def test_what_a_run_took_and_did_not_finish_is_unknown_and_waits_for_a_person(ann: User) -> None:
    run = begin("Report", owner=ann)
    taken = add(run.task_id, "one", by=ann)
    run.take_input()
    assert stop(run.task_id, by=ann).held == ()
    assert (folded(taken.id).state, folded(taken.id).sent) == (S.UNKNOWN, Sent.UNKNOWN)
    newer = begin(run.task_id, by=ann)
    assert newer.take_inputs() == []
    assert release(taken, by=ann)
    assert newer.take_inputs() == [taken]
    assert_verified()


def test_a_late_word_of_the_stopped_run_keeps_it_from_being_sent_again(ann: User) -> None:
    """It was released because its outcome was unknown; then the old agent says that it has acted on it."""
    run = begin("Report", owner=ann)
    taken = add(run.task_id, "one", by=ann)
    run.take_input()
    stop(run.task_id, by=ann)
    release(taken, by=ann)
    assert run.input_done(taken)
    assert begin(run.task_id, by=ann).take_inputs() == []
    assert (folded(taken.id).state, folded(taken.id).sent) == (S.DONE, Sent.SENT)
    assert_verified()


def test_a_run_speaks_only_of_what_it_has_taken_itself(ann: User) -> None:
    run, other = begin("Report", owner=ann), begin("Other", owner=ann)
    typed = add(run.task_id, "one")
    for stranger in (run, other):
        with pytest.raises(ValueError, match="has not taken"):
            stranger.input_done(typed)
    run.take_input()
    newer = begin(run.task_id)
    for stranger in (newer, other):
        with pytest.raises(ValueError, match="has not taken"):
            stranger.input_done(typed)
    assert folded(typed.id).state is S.UNKNOWN


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda run: stop(run.task_id), Stopped),
        (lambda run: begin(run.task_id), Superseded),
        (lambda run: run.finish(), Finished),
        (lambda run: run.fail("broken"), Finished),
    ],
    ids=["stop", "begin", "finish", "fail"],
)
def test_a_run_that_is_over_takes_nothing(end: Callable[[Run], object], reason: type[Exception]) -> None:
    """R27."""
    run = begin("Report")
    end(run)
    typed = add(run.task_id, "one")
    with pytest.raises(reason, match="takes no input"):
        run.take_inputs()
    assert folded(typed.id).state is S.WAITING


def test_a_new_run_takes_what_waited_for_the_run_that_it_supersedes(ann: User) -> None:
    run = begin("Report", owner=ann)
    add(run.task_id, "one", by=ann)
    assert texts(begin(run.task_id)) == ["one"]


def test_a_run_that_finishes_leaves_what_was_typed_for_the_next_one(ann: User) -> None:
    run = begin("Report", owner=ann)
    add(run.task_id, "one", by=ann)
    run.finish()
    assert states(run.task_id) == [S.WAITING]
    assert texts(begin(run.task_id)) == ["one"]


def test_a_press_that_came_after_the_end_holds_what_still_waits(ann: User) -> None:
    """The run had finished a moment before: whoever pressed Stop meant that nothing more is done."""
    run = begin("Report", owner=ann)
    typed = add(run.task_id, "one", by=ann)
    run.finish()
    report = stop(run.task_id, by=ann)
    assert (report.stopped, report.why, report.held) == (False, "finished", (typed.id,))
    assert begin(run.task_id, by=ann).take_inputs() == []


def test_a_repeated_press_holds_nothing_that_was_typed_after_the_first(ann: User) -> None:
    run = begin("Report", owner=ann)
    stop(run.task_id, by=ann)
    typed = add(run.task_id, "for the next one", by=ann)
    assert stop(run.task_id, by=ann).held == ()
    assert folded(typed.id).state is S.WAITING


def test_a_press_about_an_older_run_holds_nothing(ann: User) -> None:
    """R4."""
    run = begin("Report", owner=ann)
    begin(run.task_id)
    typed = add(run.task_id, "one", by=ann)
    assert stop(run.task_id, by=ann, run=run.number).why == "newer_run"
    assert folded(typed.id).state is S.WAITING


def test_a_task_that_never_began_is_stopped_with_what_was_typed_for_it(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    typed = add(task, "one", by=ann)
    assert stop(task).held == (typed.id,)


def test_a_stop_holds_what_waits_for_those_that_are_stopped_with_it_and_for_no_other(ann: User) -> None:
    """R31."""
    run, other = begin("Report", owner=ann), begin("Other", owner=ann)
    child, detached = begin("child", serves=[run]), begin("detached", serves=[run], detached=True)
    below = begin("below", serves=[child])
    for each in (run, child, below, detached, other):
        add(each.task_id, "one", by=ann)
    stop(run.task_id, by=ann)
    assert [states(each.task_id) for each in (run, child, below, detached, other)] == [
        [S.HELD], [S.HELD], [S.HELD], [S.WAITING], [S.WAITING],
    ]  # fmt: skip
    for held in InputEvent.objects.select_related("input", "decision"):
        assert held.decision is not None and held.decision.task_id == held.input.task_id
    assert_verified()


def test_a_child_that_ends_with_a_superseded_run_has_its_input_held(ann: User) -> None:
    run = begin("Report", owner=ann)
    child, kept = begin("child", serves=[run]), begin("kept", serves=[run])
    for each in (run, child, kept):
        add(each.task_id, "one", by=ann)
    begin(run.task_id, keep=[kept.task_id])
    assert [states(each.task_id) for each in (run, child, kept)] == [[S.WAITING], [S.HELD], [S.WAITING]]


def test_a_paused_run_takes_nothing_until_it_is_resumed(ann: User) -> None:
    """R33."""
    run = begin("Report", owner=ann)
    typed = add(run.task_id, "one", by=ann)
    pause(run.task_id, by=ann)
    with pytest.raises(Paused):
        run.take_input()
    resume(run.task_id, by=ann)
    assert run.take_input() == typed


def test_withdrawn_input_is_kept_and_nobody_gets_it(ann: User) -> None:
    run = begin("Report", owner=ann)
    typed, held = add(run.task_id, "one", by=ann), add(run.task_id, "two", by=ann)
    assert withdraw(typed, by=ann)
    stop(run.task_id)
    assert withdraw(held.id, by=ann)
    assert not release(held, by=ann)
    assert begin(run.task_id, by=ann).take_inputs() == []
    assert (states(run.task_id), sent(run.task_id)) == ([S.WITHDRAWN] * 2, [Sent.NEVER] * 2)
    assert InputEvent.objects.filter(became="withdrawn", by=ann).count() == 2


def test_what_the_live_run_has_is_neither_withdrawn_nor_released(ann: User) -> None:
    run = begin("Report", owner=ann)
    typed = add(run.task_id, "one", by=ann)
    run.take_input()
    assert not withdraw(typed, by=ann)
    assert not release(typed, by=ann)
    assert events(typed.id) == [("taken", run.number)]


ACTS: list[Callable[[Run, int, User], Any]] = [
    lambda run, typed, user: add(run.task_id, "mine", by=user),
    lambda run, typed, user: release(typed, by=user),
    lambda run, typed, user: withdraw(typed, by=user),
]


@pytest.mark.parametrize(("act", "verb"), [*zip(ACTS, ["add", "release", "withdraw"], strict=True)])
def test_others_need_the_right_to_start_runs_and_what_they_tried_is_on_record(
    ann: User, ben: User, olga: User, act: Callable[[Run, int, User], Any], verb: str
) -> None:
    """R35: a stranger learns nothing, a viewer is told, an operator may."""
    run = begin("Report", owner=ann)
    typed = add(run.task_id, "one", by=ann).id
    stop(run.task_id, by=ann)
    with pytest.raises(TaskNotFound):
        act(run, typed, ben)
    denied = list(Decision.objects.filter(effect="denied").values_list("verb", "by__username"))
    assert denied == [(verb, "ben")]
    assert folded(typed).state is S.HELD and Input.objects.count() == 1
    assert act(run, typed, olga)


def test_a_viewer_is_told_what_they_may_not(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    olga.user_permissions.remove(*olga.user_permissions.filter(codename="start_run"))
    olga = User.objects.get(pk=olga.pk)
    with pytest.raises(Denied, match="not type for it"):
        add(run.task_id, "mine", by=olga)
    assert not Input.objects.exists()


@pytest.mark.parametrize(("text", "sentence"), [("", "empty"), (" \n", "empty"), ("x" * (LONGEST + 1), "100001")])
def test_what_cannot_be_kept_whole_is_refused_with_a_reason(text: str, sentence: str) -> None:
    run = begin("Report")
    with pytest.raises(ValueError, match=sentence):
        add(run.task_id, text)
    assert not Input.objects.exists()


def test_broken_characters_are_kept_as_what_a_database_can_hold() -> None:
    run = begin("Report")
    add(run.task_id, "a\x00b \ud800 <b>\u202e")
    assert texts(run) == ["a\N{REPLACEMENT CHARACTER}b ? <b>\u202e"]


def test_what_is_not_there_is_named(ann: User) -> None:
    for act in (lambda: add(10**9, "x"), lambda: release(10**9, by=ann), lambda: withdraw(10**9)):
        with pytest.raises(TaskNotFound, match="1000000000"):
            act()
    with pytest.raises(TaskNotFound):
        Run(10**9, 1).take_input()


def test_it_is_not_part_of_somebody_elses_transaction(ann: User) -> None:
    run = begin("Report", owner=ann)
    with transaction.atomic(), pytest.raises(GateInTransaction):
        add(run.task_id, "one")


def test_coroutines_have_twins(ann: User) -> None:
    async def agent(run: Run) -> list[bool]:
        typed = [await aadd(run.task_id, text, by=ann) for text in ("one", "two", "three")]
        first = await run.atake_input()
        assert first == typed[0]
        told = [await run.ainput_done(first), await awithdraw(typed[1], by=ann)]
        assert await run.atake_inputs() == typed[2:]
        return [*told, await arelease(typed[2], by=ann)]

    run = begin("Report", owner=ann)
    assert asyncio.run(agent(run)) == [True, True, False]
    assert states(run.task_id) == [S.DONE, S.WITHDRAWN, S.TAKEN]


def test_nothing_of_an_input_is_a_decision_about_the_task(ann: User) -> None:
    """Otherwise it would move the task's state."""
    run = begin("Report", owner=ann)
    typed = inputs.add(run.task_id, "one", by=ann)
    before = Decision.objects.count()
    inputs.withdraw(typed, by=ann)
    assert Decision.objects.count() == before
    assert_verified()
