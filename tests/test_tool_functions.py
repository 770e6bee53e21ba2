"""Any Python function as a tool: sync, async, yielding, nested; each call gated for the run at hand.

R7, R19, R26, R29.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import sending
from agentstop.exceptions import AgentStopError, NoRun, Stale, Stopped, ToolFailed
from agentstop.models import Operation, Receipt
from agentstop.outcomes import text_only
from agentstop.runs import abegin, begin, current_run
from agentstop.sending import in_domain
from agentstop.stop import astop, stop
from agentstop.tools import current_operation, tool
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import of_key
from tests.tools import Pending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def label(task: int, key: str) -> Label:
    return of_key(task, key).label


def last_body(task: int, key: str) -> Any:
    operation = Operation.objects.get(task=task, key=key)
    return Receipt.objects.filter(operation=operation).order_by("-pk").values_list("body", flat=True)[0]


def test_a_function_is_called_as_before_and_each_call_is_an_operation() -> None:
    sent: list[str] = []

    @tool(connector="tools", key="notify:{quarter}", identify=["quarter"])
    def notify(quarter: str, text: str = "out") -> str:
        """Tells the channel."""
        sent.append(text)
        assert current_operation.get() is not None
        return f"{quarter} is {text}"

    with begin("Notify") as run:
        assert notify("q3") == "q3 is out"
        assert notify("q3", text="in other words") == "q3 is out"  # the same effect: answered from the record
        assert run.context() == ["q3 is out"]
    assert sent == ["out"]
    operation = Operation.objects.get(task=run.task_id)
    assert (operation.key, operation.action, operation.connector) == ("notify:q3", "notify", "tools")
    assert (notify.__name__, notify.__doc__) == ("notify", "Tells the channel.")


def test_a_function_of_the_arguments_can_name_the_effect_and_a_method_is_named_without_its_object() -> None:
    class Mailer:
        @tool(connector="tools", key=lambda to, text: f"mail:{to}")
        def mail(self, to: str, text: str) -> int:
            return len(text)

    with begin("Mail") as run:
        assert Mailer().mail("ann", text="hello") == 5
    assert Operation.objects.get(task=run.task_id).key == "mail:ann"
    assert Operation.objects.get(task=run.task_id).summary == '{"to": "ann", "text": "hello"}'


def test_outside_of_a_run_nothing_is_called_and_a_key_that_names_no_argument_is_told() -> None:
    called: list[int] = []

    @tool(connector="tools", key="x:{nothing}")
    def post(number: int) -> None:
        called.append(number)

    with pytest.raises(NoRun, match="post was called outside of a run"):
        post(1)
    with begin("Post"), pytest.raises(ValueError, match=r"names 'nothing', which its arguments \(number\)"):
        post(1)
    assert called == [] and not Operation.objects.exists()


def test_what_the_function_raises_is_raised_and_its_outcome_is_unknown() -> None:
    """R12. An error proves nothing about what was sent."""

    @tool(connector="tools", key="post")
    def post() -> None:
        raise ConnectionResetError("reset by peer")

    run = begin("Post")
    with pytest.raises(ConnectionResetError, match="reset by peer"), run:
        post()
    assert label(run.task_id, "post") is Label.UNKNOWN


def test_a_result_that_cannot_be_used_is_no_success_of_the_call() -> None:
    @tool(connector="tools", key="post", classify=text_only)
    def post() -> int:
        return 1

    with begin("Post") as run, pytest.raises(ToolFailed, match="gave no usable result"):
        post()
    assert label(run.task_id, "post") is Label.COMPLETED


def test_after_a_stop_a_call_is_refused_and_one_under_way_frees_its_caller(in_thread: InThread) -> None:
    """R26. The function goes on in its thread; its result is kept as a receipt, and is nobody's context."""
    pending, run = Pending("sent"), begin("Post")

    @tool(connector="tools", key="post:{number}")
    def post(number: int) -> Any:
        return pending(None)  # type: ignore[arg-type]

    def agent() -> list[str]:
        got = []
        with run:
            for number in (1, 2):
                try:
                    post(number)
                except (Stale, Stopped) as error:
                    got.append(type(error).__name__)
        return got

    told = in_thread(agent)
    pending.wait_until_entered()
    stop(run.task_id, policy="test")
    assert told.result(HANG_GUARD) == ["Stale", "Stopped"]
    assert pending.pending
    pending.release()
    sending.close()
    assert (pending.writes, run.context()) == (1, [])
    assert [label(run.task_id, f"post:{n}") for n in (1, 2)] == [Label.COMPLETED_BEFORE, Label.NOT_SENT]


def test_the_run_at_hand_is_that_of_the_innermost_block_and_each_context_has_its_own(in_thread: InThread) -> None:
    outer, inner = begin("Outer"), begin("Inner")
    assert current_run.get() is None
    with outer:
        with inner:
            assert current_run.get() == inner
            assert in_thread(current_run.get).result(HANG_GUARD) is None
        assert current_run.get() == outer
        with pytest.raises(KeyError), begin("Broken"):
            raise KeyError
        assert current_run.get() == outer
    assert current_run.get() is None


@pytest.mark.asyncio
async def test_blocks_of_coroutines_that_take_turns_do_not_mix() -> None:
    line = asyncio.Barrier(2)

    async def agent(title: str) -> bool:
        run = await abegin(title)
        async with run:
            await line.wait()
            mine = current_run.get() == run
            await line.wait()
        return mine and current_run.get() is None

    assert all(await asyncio.gather(agent("One"), agent("Two")))


def test_tools_within_a_tool_inherit_the_run_are_listed_and_wait_for_no_thread(
    in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads of the pool are taken by tools that wait for tools: those still get a thread."""
    many = 2
    monkeypatch.setattr(sending, "BLOCKING_THREADS", many)
    line = threading.Barrier(many)

    @tool(connector="tools", key="inner:{number}")
    def inner(number: int) -> int:
        return number

    @tool(connector="tools", key="outer:{number}")
    def outer(number: int) -> int:
        line.wait(HANG_GUARD)
        return inner(number) + 1

    def agent(number: int) -> int:
        with run_of[number]:
            return outer(number)

    run_of = [begin(f"Nested {number}") for number in range(many)]
    told = [in_thread(agent, number) for number in range(many)]
    assert [each.result(HANG_GUARD) for each in told] == [number + 1 for number in range(many)]
    listed = Operation.objects.filter(state="succeeded").values_list("task", "key")
    assert set(listed) == {(run_of[n].task_id, f"{kind}:{n}") for n in range(many) for kind in ("inner", "outer")}


@pytest.mark.asyncio
async def test_coroutines_within_coroutines_too_and_a_sync_tool_there_is_told_instead_of_hanging() -> None:
    @tool(connector="tools", key="blocking")
    def blocking() -> None:
        raise AssertionError("never called")

    @tool(connector="tools", key="inner")
    async def inner() -> str:
        return "deep"

    @tool(connector="tools", key="outer")
    async def outer() -> str:
        with pytest.raises(AgentStopError, match="called without await on agentstop's own loop"):
            blocking()
        deep: str = await inner()
        return f"{deep}er"

    async with await abegin("Nested") as run:
        assert await outer() == "deeper"
    keys = Operation.objects.filter(task=run.task_id).values_list("key", flat=True)
    assert set(await in_domain(list, keys)) == {"inner", "outer"}


def test_an_inner_tool_is_refused_after_the_stop_though_the_outer_one_goes_on(in_thread: InThread) -> None:
    pending, run, sent = Pending(), begin("Nested"), list[str]()

    @tool(connector="tools", key="inner")
    def inner() -> None:
        sent.append("inner")

    @tool(connector="tools", key="outer")
    def outer() -> None:
        pending(None)  # type: ignore[arg-type]
        inner()

    def agent() -> None:
        with pytest.raises(Stale), run:
            outer()

    told = in_thread(agent)
    pending.wait_until_entered()
    stop(run.task_id, policy="test")
    told.result(HANG_GUARD)
    pending.release()
    sending.close()
    assert sent == []
    assert of_key(run.task_id, "inner").refusal == "stopped"


def numbers(gate: Callable[[int], None] = lambda _: None, **options: Any) -> Callable[..., Iterator[int]]:
    @tool(connector="tools", key="numbers", **options)
    def numbers(end: int) -> Iterator[int]:
        for number in range(end):
            gate(number)
            yield number

    return numbers


def test_a_generator_gives_each_piece_when_it_is_asked_for_and_all_of_them_are_the_result() -> None:
    made: list[int] = []
    with begin("Stream") as run:
        pieces = numbers(made.append)(3)
        assert made == []
        assert (next(pieces), made) == (0, [0])
        assert list(pieces) == [1, 2]
        assert list(numbers(made.append)(3)) == [0, 1, 2]  # from the record
        assert run.context() == [[0, 1, 2]]
    assert made == [0, 1, 2]
    assert label(run.task_id, "numbers") is Label.COMPLETED


@pytest.mark.parametrize(("on_stop", "shown"), [("finish", Label.UNKNOWN), ("cancel", Label.GIVEN_UP)])
def test_a_stop_at_half_of_a_stream_keeps_the_half_marked_partial(on_stop: str, shown: Label) -> None:
    """R15. What came before the stop is neither lost nor taken for the whole."""
    run, got = begin("Stream"), list[int]()
    with pytest.raises(Stale), run:
        for piece in numbers(on_stop=on_stop)(10):
            got.append(piece)
            if piece == 2:
                stop(run.task_id, policy="test")
                assert run.stop_signal.wait(HANG_GUARD)
    sending.close()
    assert got[:3] == [0, 1, 2] and len(got) < 10
    assert last_body(run.task_id, "numbers") == f'{{"partial":true,"streamed":{got}}}'.replace(", ", ",")
    assert run.context() == []
    assert label(run.task_id, "numbers") is shown


def test_a_stop_frees_the_reader_of_a_generator_that_is_stuck(in_thread: InThread) -> None:
    stuck, run = Pending(), begin("Stream")

    def read() -> list[int]:
        got = []
        with pytest.raises(Stale), run:
            for piece in numbers(lambda number: stuck(None) if number else None)(3):  # type: ignore[arg-type]
                got.append(piece)
        return got

    told = in_thread(read)
    stuck.wait_until_entered()
    stop(run.task_id, policy="test")
    assert told.result(HANG_GUARD) == [0]
    stuck.release()
    sending.close()
    assert last_body(run.task_id, "numbers").startswith('{"partial":true')


def test_a_reader_that_leaves_early_closes_the_generator_and_the_rest_is_not_claimed() -> None:
    closed = threading.Event()

    @tool(connector="tools", key="numbers")
    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.set()

    with begin("Stream") as run:
        pieces = numbers()
        assert next(pieces) == 0
        pieces.close()  # type: ignore[attr-defined]
        assert closed.wait(HANG_GUARD)
        sending.close()
    assert label(run.task_id, "numbers") is Label.UNKNOWN
    assert last_body(run.task_id, "numbers") == '{"partial":true,"streamed":[0]}'


def test_a_generator_that_breaks_is_partial_too_and_its_error_reaches_the_reader() -> None:
    def broken(number: int) -> None:
        if number == 2:
            raise ConnectionError("gone")

    run, got = begin("Stream"), list[int]()
    with pytest.raises(ConnectionError, match="gone"), run:
        for piece in numbers(broken)(9):
            got.append(piece)
    assert got == [0, 1]
    assert last_body(run.task_id, "numbers") == '{"partial":true,"streamed":[0,1],"error":"ConnectionError: gone"}'


@pytest.mark.parametrize("on_stop", ["finish", "cancel"])
@pytest.mark.asyncio
async def test_an_async_generator_is_gated_and_keeps_its_half_as_well(on_stop: Any, ann: User) -> None:
    @tool(connector="tools", key="words:{times}", on_stop=on_stop)
    async def words(times: int) -> AsyncIterator[str]:
        for _ in range(times):
            await asyncio.sleep(0)
            yield "so"
        if times > 2:
            await asyncio.Event().wait()

    run, got = await abegin("Stream", owner=ann), list[str]()
    async with run:
        assert [piece async for piece in words(2)] == ["so", "so"]
        with pytest.raises(Stale):
            async for piece in words(3):
                got.append(piece)
                if len(got) == 2:
                    await astop(run.task_id, by=ann)
        with pytest.raises(Stopped):
            [piece async for piece in words(1)]
    await asyncio.to_thread(sending.close)
    assert got[:2] == ["so", "so"]
    body = await in_domain(last_body, run.task_id, "words:3")
    assert body.startswith('{"partial":true,"streamed":["so","so"')
    assert await run.acontext() == [["so", "so"]]
