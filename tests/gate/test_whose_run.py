"""The facts of the run gate about runs: who may send, whose result it is (rows 1 to 5 and 16; R9, R10, R25, R27).

Through the sync and the async door, with sync and async tools. What a tool wrote is counted by the tool itself.
"""

from __future__ import annotations

import pytest
from django.core import signing

from agentstop.exceptions import BadToken, Stopped, Superseded
from agentstop.runs import TOKEN_SALT, Run, begin
from agentstop.states import OperationState
from agentstop.stop import stop
from agentstop.stop_signal import held
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD
from tests.gate.conftest import Call, Style
from tests.observed import of_key, task_of
from tests.tools import Counting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def again(run: Run) -> Run:
    """A new run of the same task, which supersedes the one before."""
    return begin(task_of(run))


def test_rows_1_and_2_a_returned_value_is_accepted_into_the_context(run: Run, call: Call, style: Style) -> None:
    outcome = call(run, style(Counting("a")))
    assert outcome.accepted and outcome.result == "a"
    assert run.context() == ["a"]
    assert of_key(run.task_id, "k").label is Label.COMPLETED


def test_row_3_a_stopped_run_calls_no_tool(run: Run, call: Call, style: Style) -> None:
    tool = Counting()
    stop(run.task_id)
    outcome = call(run, style(tool))
    assert outcome.ignored and isinstance(outcome.refusal, Stopped)
    assert (tool.writes, run.context()) == (0, [])
    seen = of_key(run.task_id, "k")
    assert (seen.label, seen.refusal) == (Label.NOT_SENT, "stopped")


def test_row_4_a_superseded_run_calls_no_tool(run: Run, call: Call, style: Style) -> None:
    tool = Counting()
    again(run)
    outcome = call(run, style(tool))
    assert outcome.ignored and isinstance(outcome.refusal, Superseded)
    assert (tool.writes, run.context()) == (0, [])
    seen = of_key(run.task_id, "k")
    assert (seen.label, seen.refusal) == (Label.NOT_SENT, "superseded")


def test_row_5_a_new_run_supersedes_and_signals_the_old_one_and_starts_clean(run: Run, call: Call) -> None:
    assert call(run, Counting("old")).accepted
    with held(run.task_id, run.number) as signal:
        newer = again(run)
        assert signal.wait(HANG_GUARD)
        assert signal.reason is Superseded
    assert newer.number == run.number + 1
    states = dict(task_of(run).runs.values_list("number", "state"))
    assert states == {run.number: "superseded", newer.number: "live"}
    assert (run.context(), newer.context()) == (["old"], [])
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.SUCCEEDED
    assert seen.operation.tries.get().run == run.number


def test_row_16_what_was_admitted_stays_and_no_token_opens_the_gate_again(run: Run, call: Call) -> None:
    assert call(run, Counting("kept"), key="kept").accepted
    token = run.token
    other = begin("another task")
    stop(run.task_id)
    tool = Counting()
    late = call(Run.from_token(token), tool)
    assert late.ignored and isinstance(late.refusal, Stopped)
    payload, signature = token.rsplit(":", 1)
    altered = signing.dumps([run.task_id, run.number + 1], salt=TOKEN_SALT, key="not ours")
    foreign_payload = signing.dumps([run.task_id, run.number + 1], salt="another purpose")
    for bad in [altered, foreign_payload, f"{payload}:{signature[::-1]}", payload, "", "\x00", "é", token + "x"]:
        with pytest.raises(BadToken):
            Run.from_token(bad)
    with pytest.raises(BadToken, match="another task"):
        Run.from_token(other.token, task=run.task_id)
    forged = Run(run.task_id, run.number + 1)  # as if the signature had been right
    assert call(forged, tool, key="forged").ignored
    assert tool.writes == 0
    assert Run.from_token(token).context() == ["kept"]
