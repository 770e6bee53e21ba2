"""The facts of the run gate about what a tool gives back or raises, and what is left (rows 10, 11, 13 and 14; R19).

Through the sync and the async door, with sync and async tools. What a tool wrote is counted by the tool itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentstop import sending, wake
from agentstop.dispatched import Dispatched
from agentstop.models import Receipt
from agentstop.outcomes import text_only
from agentstop.runs import Run
from agentstop.states import OperationState
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD
from tests.counted import database_connections, eventually, left_over, threads
from tests.gate.conftest import Call, Start, Style
from tests.observed import of_key
from tests.tools import Counting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def raising(op: Dispatched) -> None:
    raise OSError("the line broke")


async def araising(op: Dispatched) -> None:
    await asyncio.sleep(0)
    raise OSError("the line broke")


async def araising_at_once(op: Dispatched) -> None:
    raise OSError("the line broke")


def said_to_have_failed(op: Dispatched) -> None:
    op.failed("no such channel")
    raise OSError("no such channel")


@pytest.mark.parametrize(
    ("tool", "label"),
    [
        (raising, Label.UNKNOWN),
        (araising, Label.UNKNOWN),
        (araising_at_once, Label.UNKNOWN),
        (said_to_have_failed, Label.FAILED),
    ],
)
def test_rows_10_and_11_an_error_fails_the_call_and_the_run_goes_on(
    run: Run, call: Call, tool: Callable[[Dispatched], Any], label: Label
) -> None:
    outcome = call(run, tool)
    assert outcome.failed and outcome.error
    assert run.context() == []
    seen = of_key(run.task_id, "k")
    assert seen.label is label
    assert Receipt.objects.filter(operation=seen.operation, body__contains=outcome.error.split(": ")[-1]).exists()
    assert left_over() == {}
    assert call(run, Counting("next"), key="next").accepted
    assert run.context() == ["next"]


def test_row_14_what_is_no_text_fails_the_call_and_not_the_effect(run: Run, call: Call, style: Style) -> None:
    values: list[Any] = [None, 1, {}, ["a"], b"bytes"]
    for number, value in enumerate(values):
        tool = Counting(value)
        outcome = call(run, style(tool), key=f"k{number}", classify=text_only)
        assert outcome.failed and outcome.error
        seen = of_key(run.task_id, f"k{number}")
        assert (tool.writes, seen.state) == (1, OperationState.SUCCEEDED)
    assert run.context() == []


def test_row_13_nothing_is_left_over(run: Run, start: Start, style: Style) -> None:
    before, connections = threads(), database_connections()
    for number in range(20):
        assert start(run, style(Counting("a")), key=f"k{number}").result(HANG_GUARD).accepted
    assert start(run, araising, key="bad").result(HANG_GUARD).failed
    assert left_over() == {}
    sending.close()
    wake.close()

    def ours() -> list[str]:
        return [thread.name for thread in threads() - before if thread.name.startswith("agentstop-")]

    # One is for the process, and waits for its end; a thread that was told to end may take a moment.
    eventually(lambda: ours() in ([], ["agentstop-exit"]), True)
    eventually(lambda: database_connections() <= connections, True)  # fewer, where one was just being closed
