"""The facts of the run gate about a stop while a tool is under way (rows 6 to 9, 12 and 15; R12, R15, R26).

Through the sync and the async door, with sync and async tools. What a tool wrote is counted by the tool itself.
"""

from __future__ import annotations

import gc
import json
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import sending, settle
from agentstop.admin.reading import reads_as
from agentstop.exceptions import PassExpired
from agentstop.models import Receipt
from agentstop.runs import Run, begin
from agentstop.states import Claim, OperationState, Source
from agentstop.stop import stop
from agentstop.words.sentences import MOMENT_UNKNOWN, RECEIPTS
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD
from tests.gate.conftest import Call, Start, Style
from tests.observed import call_outcomes, claims, of_key, task_of
from tests.tools import Cooperative, Counting, Pending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def test_rows_6_and_7_the_caller_is_freed_at_the_stop_and_the_late_write_is_counted(
    run: Run, start: Start, style: Style
) -> None:
    tool = Pending("old tool result")
    caller = start(run, style(tool))
    tool.wait_until_entered()
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    assert tool.pending and tool.writes == 0
    seen = of_key(run.task_id, "k")
    assert (seen.label, seen.reading.name) == (Label.STILL_ACTIVE, "still active (being sent)")

    tool.release()
    sending.close()
    assert tool.writes == 1
    assert run.context() == []
    seen = of_key(run.task_id, "k")
    assert seen.label is Label.COMPLETED_BEFORE and MOMENT_UNKNOWN in seen.reading.evidence
    assert call_outcomes(seen.operation.pk) == [(run.number, "ignored")]


def test_row_8_the_old_answer_is_kept_as_a_receipt_and_out_of_the_new_context(
    run: Run, start: Start, call: Call, style: Style
) -> None:
    tool = Pending("old tool result")
    caller = start(run, style(tool))
    tool.wait_until_entered()
    newer = begin(task_of(run))
    assert caller.result(HANG_GUARD).ignored
    assert call(newer, Counting("fresh result"), key="fresh").accepted
    tool.release()
    sending.close()
    assert tool.writes == 1
    assert (run.context(), newer.context()) == ([], ["fresh result"])
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.SUCCEEDED
    assert claims(seen.operation.pk) == [("succeeded", "provider")]


@pytest.mark.parametrize(
    ("error", "label"),
    [(OSError("the line broke"), Label.UNKNOWN), (PassExpired("the run is over"), Label.NOT_SENT)],
    ids=["proves nothing", "proves that nothing was sent"],
)
def test_row_9_an_error_after_the_stop_is_kept_and_disturbs_nobody(
    run: Run, start: Start, style: Style, error: Exception, label: Label, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Pending()
    caller = start(run, style(tool))
    tool.wait_until_entered()
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    tool.fail(error)
    sending.close()
    gc.collect()  # a future whose error nobody has taken complains when it is collected
    assert [record for record in caplog.records if record.name in {"asyncio", "concurrent.futures"}] == []
    assert (tool.writes, run.context()) == (0, [])
    seen = of_key(run.task_id, "k")
    assert seen.label is label
    assert str(error) in Receipt.objects.get(operation=seen.operation).body


@pytest.mark.parametrize(("on_stop", "label"), [("cancel", Label.GIVEN_UP), ("finish", Label.UNKNOWN)])
def test_row_12_a_cooperative_tool_gives_up_before_its_write(
    run: Run, start: Start, on_stop: str, label: Label, style: Style
) -> None:
    tool = Cooperative()
    if on_stop == "finish":
        style = lambda tool: tool  # noqa: E731  a coroutine that is left to finish hears by its signal as a thread does
    caller = start(run, style(tool), on_stop=on_stop)
    assert tool.entered.wait(HANG_GUARD)
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    sending.close()
    assert (tool.writes, tool.heard) == (0, "stopped")
    seen = of_key(run.task_id, "k")
    assert seen.label is label
    assert reads_as(seen.operation) == seen.reading.name  # at the desk, too
    declared = RECEIPTS[Claim.ENDED, Source.SENDER]  # its request may have left: that nothing did would claim too much
    assert (seen.reading.evidence == declared) == (on_stop == "cancel")


def test_row_15_a_result_that_is_ready_when_the_stop_commits_is_kept_out(
    run: Run, start: Start, style: Style, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, stopped = threading.Event(), threading.Event()
    record = settle.record

    def held_before_admission(*args: Any, **kwargs: Any) -> Any:
        ready.set()
        assert stopped.wait(HANG_GUARD)
        return record(*args, **kwargs)

    monkeypatch.setattr(settle, "record", held_before_admission)
    caller = start(run, style(Counting("a")))
    assert ready.wait(HANG_GUARD)
    stop(run.task_id)
    stopped.set()
    assert caller.result(HANG_GUARD).ignored
    assert run.context() == []
    assert of_key(run.task_id, "k").label is Label.COMPLETED_BEFORE


def test_both_numbers_are_told_from_one_run(
    ann: User, start: Start, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """R41: stale results admitted, and external writes after the stop, whatever they really were."""
    run, tool = begin("write a report", owner=ann), Pending("old tool result")
    caller = start(run, tool)
    tool.wait_until_entered()
    stop(run.task_id)
    written = tool.writes
    outcome = caller.result(HANG_GUARD)
    newer = begin(task_of(run), by=ann)
    assert call(newer, Counting("fresh result"), key="fresh").accepted
    tool.release()
    sending.close()
    print(f"caller outcome: {outcome.outcome}")  # noqa: T201  the report that refuses to flatter
    print(f"external writes after stop: {tool.writes - written}")  # noqa: T201
    print(f"old context entries: {len(run.context())}")  # noqa: T201
    print(f"new context: {json.dumps(newer.context())}")  # noqa: T201
    assert capsys.readouterr().out.splitlines() == [
        "caller outcome: ignored",
        "external writes after stop: 1",
        "old context entries: 0",
        'new context: ["fresh result"]',
    ]
