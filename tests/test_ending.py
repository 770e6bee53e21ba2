"""R10: on-finish code never runs for a stop, nor on-stop code for a finish, whoever is faster."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from django.db import connection

from agentstop import ending
from agentstop.exceptions import Paused, Stopped
from agentstop.models import Run as RunRow
from agentstop.pause import pause
from agentstop.runs import Run, begin
from agentstop.states import RunState
from agentstop.stop import astop, stop
from tests.conftest import InThread
from tests.observed import task_of
from tests.pair import Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

SEEDS = 100


class Hooks:
    """What was called for which run, in order."""

    def __init__(self) -> None:
        self.called: list[tuple[str, int]] = []

    def finished(self, run: Run) -> None:
        self.called.append(("finish", run.task_id))

    def stopped(self, run: Run) -> None:
        self.called.append(("stop", run.task_id))

    async def afinished(self, run: Run) -> None:
        self.finished(run)

    async def astopped(self, run: Run) -> None:
        self.stopped(run)

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.called]


def lives(run: Run, hooks: Hooks, body: Callable[[Run], object] = lambda run: None) -> None:
    with suppress(Stopped, ValueError, Paused), run.ending(on_finish=hooks.finished, on_stop=hooks.stopped) as same:
        assert same == run
        body(run)


def stops(run: Run) -> None:
    stop(run.task_id)


def stops_and_hears(run: Run) -> None:
    stop(run.task_id)
    run.check()


def fails(run: Run) -> None:
    raise ValueError("broken")


def stops_and_fails(run: Run) -> None:
    stop(run.task_id)
    raise ValueError("broken by it")


def is_paused(run: Run) -> None:
    pause(run.task_id)
    run.check()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda run: None, ["finish"]),
        (lambda run: run.finish(), ["finish"]),
        (stops_and_hears, ["stop"]),
        (stops, ["stop"]),
        (stops_and_fails, ["stop"]),
        (fails, []),
        (lambda run: run.fail("broken"), []),
        (lambda run: begin(run.task_id), []),
        (is_paused, []),
    ],
    ids=["end", "finish", "heard", "not heard", "error at a stop", "error", "fail", "superseded", "paused"],
)
def test_the_committed_state_decides(body: Callable[[Run], object], words: list[str]) -> None:
    hooks = Hooks()
    lives(begin("a task"), hooks, body)
    assert hooks.words == words


def test_finish_against_stop_calls_one_of_them_and_the_right_one(in_thread: InThread) -> None:
    """A hundred seeds, behind a barrier; each gives one of the two another head start."""
    hooks, ends = Hooks(), set()

    def after(looks: int, run: Run) -> Run:
        for _ in range(looks):
            task_of(run)
        return run

    def finishes(run: Run) -> None:
        lives(run, hooks, lambda run: after(head_start[0], run))

    head_start = [0, 0]
    pair = Pair(in_thread, finishes, lambda run: stop(after(head_start[1], run).task_id))
    for seed in range(SEEDS):
        chance = random.Random(seed)  # noqa: S311  a seed, no secret
        head_start[:] = chance.choice([(0, 0), (chance.randrange(8), 0), (0, chance.randrange(8))])
        run = begin("a task")
        _, report = pair.race(run)
        [word] = [word for word, task in hooks.called if task == run.task_id]
        assert (word, task_of(run).state) == (("stop", "stopped") if report.stopped else ("finish", "finished"))
        ends.add(word)
    pair.end()
    assert (len(hooks.called), ends) == (SEEDS, {"finish", "stop"})


def test_decided_by_what_the_block_has_seen_the_wrong_one_would_be_called() -> None:
    """The fault that reading the committed state is there for: the agent was done, and the stop was faster."""
    hooks = Hooks()
    with mock.patch.object(ending, "state_of", lambda run: RunState.FINISHED):  # it left without an error
        lives(begin("a task"), hooks, stops)
    assert hooks.words == ["finish"]
    assert RunRow.objects.get().state == "stopped"


def test_the_end_is_committed_before_they_are_called() -> None:
    seen: list[Any] = []

    def look(run: Run) -> None:
        seen.append((task_of(run).state, connection.in_atomic_block))

    with begin("a task").ending(on_finish=look):
        pass
    assert seen == [("finished", False)]


def test_what_they_raise_is_raised_and_the_run_has_ended_all_the_same() -> None:
    def broken(run: Run) -> None:
        raise LookupError("no mail server")

    with pytest.raises(LookupError), begin("a task").ending(on_finish=broken):
        pass
    assert RunRow.objects.get().state == "finished"


def test_neither_has_to_be_given() -> None:
    with begin("a task").ending():
        pass
    with begin("another").ending(on_finish=fails) as run:
        stop(run.task_id)
    assert list(RunRow.objects.order_by("pk").values_list("state", flat=True)) == ["finished", "stopped"]


def test_coroutines_have_theirs_of_either_kind() -> None:
    hooks = Hooks()

    async def agent(run: Run, *, over: bool, **given: Any) -> None:
        async with run.ending(**given) as same:
            assert same == run
            if over:
                await astop(run.task_id)

    for over in (False, True):
        asyncio.run(agent(begin("a task"), over=over, on_finish=hooks.afinished, on_stop=hooks.astopped))
        asyncio.run(agent(begin("a task"), over=over, on_finish=hooks.finished, on_stop=hooks.stopped))
    assert hooks.words == ["finish", "finish", "stop", "stop"]


def test_a_plain_function_does_not_hold_the_loop_of_a_coroutine() -> None:
    threads: list[int] = []

    async def agent() -> None:
        async with run.ending(on_finish=lambda run: threads.append(threading.get_ident())):
            pass

    run = begin("a task")
    asyncio.run(agent())
    assert threads and threads[0] != threading.get_ident()
