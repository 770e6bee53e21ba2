"""R28: the next run hears of every call that was left without an answer, and of nothing else of the old run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from agentstop import sending
from agentstop.compensate import compensate
from agentstop.dispatched import Dispatched
from agentstop.inheritance import Inherited
from agentstop.models import Operation
from agentstop.reconcile import look_up_now, work
from agentstop.runs import Run, begin
from agentstop.states import Claim, OperationState, Source
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words import handover
from agentstop.words.handover import Left, tell
from tests.conftest import HANG_GUARD, InThread
from tests.passing import let_pass
from tests.reports.acts import BLIND, NOTIFY, REPORT, UPLOAD, ask, operation
from tests.tools import Pending
from tests.wording.situations import every_situation, receipt, stopped

pytestmark = pytest.mark.django_db(transaction=True)

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
S = OperationState


def only(run: Run) -> Inherited:
    [told] = run.inherited()
    return told


def after_a_stop(run: Run, ann: User) -> Run:
    stop(run.task_id, by=ann)
    return begin(run.task_id, by=ann)


def fails(error: Exception) -> Callable[[Dispatched], None]:
    def tool(op: Dispatched) -> None:
        raise error

    return tool


def test_a_call_that_was_cut_off_may_have_been_done_and_is_told_as_done_once_that_is_known(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The dangling call: still at the provider when the next run begins."""
    run = begin("Upload", owner=ann)
    sandbox.hold("received", "file")
    in_thread(ask, run, "file", UPLOAD)
    sandbox.wait("received", "file")
    newer = after_a_stop(run, ann)
    told = only(newer)
    assert (told.key, told.run, told.action, told.state) == ("file", 1, UPLOAD, S.SENDING)
    assert told.sentence == (
        "May have been done. It was released to be sent; no answer has come yet. "
        "Cancelling it is not supported by this provider. Do not do it again before it is known what became of it."
    )
    sandbox.release("received", "file")
    sending.close()
    told = only(newer)
    assert told.state is S.SUCCEEDED
    assert re.fullmatch(
        rf"Done; known since {MOMENT}\. The provider reported that it was done\. "
        r"The result was kept out of run 1, which asked for it\.",
        told.sentence,
    )


def test_nothing_that_came_late_is_in_the_context_of_the_next_run(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The stale answer: a receipt of the old run's operation, and a sentence for the new one."""
    run = begin("Upload", owner=ann)
    sandbox.hold("received", "file")
    called = in_thread(ask, run, "file", UPLOAD)
    sandbox.wait("received", "file")
    newer = after_a_stop(run, ann)
    sandbox.release("received", "file")
    assert called.result(HANG_GUARD).ignored
    sending.close()
    assert (run.context(), newer.context()) == ([], [])
    result = operation(run, "file").receipts.get(claim="succeeded").body
    assert result and result not in only(newer).sentence
    assert ask(newer, "file", UPLOAD).accepted
    assert len(newer.context()) == 1


def test_no_error_of_the_old_run_is_repeated(tools: None, ann: User) -> None:
    """The old error: its words are the old run's, and what became of the effect is not known."""
    run = begin("Notify", owner=ann)
    assert run.call("post", connector="tools", key="k", send=fails(OSError("ECONNRESET 10.0.0.7"))).failed
    run.fail("the model gave up: 429 from upstream")
    newer = begin(run.task_id)
    told = only(newer)
    assert told.state is S.UNKNOWN
    assert told.sentence == (
        "May have been done. It was sent, or may have been; no usable answer came back. The provider is not asked "
        "again by itself. Do not do it again before it is known what became of it."
    )
    newer.check()


def test_a_failure_that_the_old_run_was_told_is_told_again_only_if_asked_and_without_its_words(
    tools: None, ann: User
) -> None:
    run = begin("Notify", owner=ann)

    def refused(op: Dispatched) -> None:
        op.failed("quota of ann@example.com exceeded")

    assert run.call("post", connector="tools", key="k", send=refused).failed
    newer = after_a_stop(run, ann)
    assert newer.inherited() == []
    assert newer.tool_results(["k"]) == {"k": "Not done: it failed. The provider reported that it failed."}


def test_what_the_gate_refused_and_what_was_only_listed_was_not_sent(tools: None, ann: User) -> None:
    run = begin("Notify", owner=ann)
    run.prepare("post", connector="tools", key="listed")
    stop(run.task_id, by=ann)
    assert run.call("post", connector="tools", key="late", send=lambda op: 1).ignored
    told = {each.key: each for each in begin(run.task_id, by=ann).inherited()}
    assert {key: (each.state, each.run) for key, each in told.items()} == {
        "listed": (S.PREPARED, None),
        "late": (S.NOT_SENT, 1),
    }
    assert told["listed"].sentence == "Not sent. It was listed, and nothing was sent for it."
    assert told["late"].sentence == "Not sent. Refused before it was sent: the task was stopped."


def test_what_never_reached_the_gate_is_named_in_the_history_and_told_as_not_sent(tools: None, ann: User) -> None:
    """The model had asked for three calls at once, and the stop came during the first."""
    run = begin("Notify", owner=ann)
    assert run.call("post", connector="tools", call_id="call_1", send=lambda op: 1).accepted
    run.call("post", connector="tools", call_id="call_2", send=fails(OSError("gone")))
    newer = after_a_stop(run, ann)
    told = newer.tool_results(["call_1", "call_2", "call_3"])
    assert told["call_1"].startswith("Done; known since ")
    assert told["call_1"].endswith("Run 1 has taken its result in.")
    assert told["call_2"].startswith("May have been done.")
    assert told["call_3"] == handover.NEVER_ASKED
    assert newer.tool_results() == {"call_2": told["call_2"]}
    assert (only(newer).call_id, only(newer).key) == ("call_2", "1:call_2")


def test_a_business_key_with_a_colon_is_no_call_id(tools: None, ann: User) -> None:
    run = begin("Notify", owner=ann)
    for key in ("2026:7", "mail:ann"):
        run.call("post", connector="tools", key=key, send=fails(OSError("gone")))
    newer = after_a_stop(run, ann)
    assert [(each.key, each.call_id) for each in newer.inherited()] == [("2026:7", ""), ("mail:ann", "")]
    assert set(newer.tool_results(["2026:7"])) == {"2026:7"}


def test_what_the_old_run_was_told_and_still_holds_is_left_out(tools: None, ann: User) -> None:
    run = begin("Notify", owner=ann)
    run.call("post", connector="tools", key="k", send=lambda op: "posted")
    with run.dispatch("post", connector="tools", key="by itself") as op:
        op.succeeded("posted")
    run.finish()
    assert begin(run.task_id).inherited() == []


def test_the_time_of_the_next_look_is_told_and_after_it_what_was_found(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Notify", owner=ann)
    assert ask(run, "note", NOTIFY, lose_response=True).failed
    newer = after_a_stop(run, ann)
    let_pass(run.task_id, 60)
    told = only(newer)
    assert told.state is S.UNKNOWN
    assert "The provider is to be asked what became of it." in told.sentence
    Operation.objects.update(follow_up_at=datetime(2030, 1, 1, tzinfo=UTC))
    assert "The provider is asked again at 2030-01-01T00:00:00Z." in only(newer).sentence
    look_up_now(operation(run, "note").pk, by=ann)
    told = only(newer)
    assert told.state is S.SUCCEEDED
    assert "The provider was asked, and says that it was done." in told.sentence


def test_a_provider_that_cannot_be_asked_is_said_not_to_be_asked(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Notify", owner=ann)
    assert ask(run, "note", BLIND, lose_response=True).failed
    assert "The provider is not asked again by itself." in only(after_a_stop(run, ann)).sentence


def test_what_was_cancelled_at_the_stop_was_not_done(sandbox: SandboxClient, in_thread: InThread, ann: User) -> None:
    run = begin("Report", owner=ann)
    sandbox.hold("working", "job")
    in_thread(ask, run, "job", REPORT)
    sandbox.wait("working", "job")
    newer = after_a_stop(run, ann)
    assert only(newer).sentence.startswith("May have been done.")
    for _ in range(100):
        work()
        if operation(run, "job").state == "cancelled":
            break
        let_pass(run.task_id, 5)
    assert only(newer).sentence.startswith("Not done: it was cancelled.")


@pytest.mark.parametrize(("action", "sentence"), [(UPLOAD, "It was undone."), (NOTIFY, "It was undone in part")])
def test_an_answer_that_no_longer_holds_is_told_anew(
    sandbox: SandboxClient, ann: User, action: str, sentence: str
) -> None:
    """The old run had the result; a person has undone the effect since."""
    run = begin("Upload", owner=ann)
    assert ask(run, "it", action).accepted
    stop(run.task_id, by=ann)
    compensate(operation(run, "it").pk, by=ann).future.result(HANG_GUARD)
    told = only(begin(run.task_id, by=ann))
    assert told.state is S.SUCCEEDED
    assert f"Run 1 has taken its result in. {sentence}" in told.sentence


def test_a_run_that_takes_over_hears_of_what_the_superseded_one_has_under_way(tools: None, in_thread: InThread) -> None:
    run, tool = begin("Notify"), Pending("late")
    in_thread(run.call, "post", connector="tools", key="k", send=tool)
    tool.wait_until_entered()
    newer = begin(run.task_id)
    assert only(newer).state is S.SENDING
    tool.release()
    sending.close()
    assert "The result was kept out of run 1, which asked for it." in only(newer).sentence


def test_each_later_run_hears_of_it_until_one_has_the_answer(tools: None, ann: User) -> None:
    run = begin("Notify", owner=ann)
    run.call("post", connector="tools", key="k", send=fails(OSError("gone")))
    second = after_a_stop(run, ann)
    third = after_a_stop(second, ann)
    assert [only(each).run for each in (second, third)] == [1, 1]


def test_a_run_hears_nothing_of_itself_nor_of_other_tasks(tools: None, ann: User) -> None:
    run, other = begin("Notify", owner=ann), begin("Other", owner=ann)
    for each in (run, other):
        each.call("post", connector="tools", key="k", send=fails(OSError("gone")))
    assert run.inherited() == []
    assert [each.run for each in after_a_stop(run, ann).inherited()] == [1]
    assert Run(10**9, 5).inherited() == []


def test_coroutines_have_twins(tools: None, ann: User) -> None:
    run = begin("Notify", owner=ann)
    run.call("post", connector="tools", key="k", send=fails(OSError("gone")))
    newer = after_a_stop(run, ann)

    async def agent() -> tuple[list[Inherited], dict[str, str]]:
        return await newer.ainherited(), await newer.atool_results(["k"])

    told, results = asyncio.run(agent())
    assert results == {"k": told[0].sentence}


def test_done_is_said_of_what_has_succeeded_alone_and_not_done_of_what_is_known_to_have_no_effect() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    leads = {
        S.PREPARED: "Not sent.", S.NOT_SENT: "Not sent.", S.SENDING: "May have been done.",
        S.ACCEPTED: "May have been done.", S.UNKNOWN: "May have been done.", S.SUCCEEDED: "Done; ",
        S.FAILED: "Not done: ", S.CANCELLED: "Not done: ",
    }  # fmt: skip
    for situation in every_situation():
        told = tell(Left(situation, 1, None, None, None, now))
        assert told.startswith(leads[situation.state]), told
        assert ("Do not do it again" in told) == told.startswith("May have been done."), told
    given_up = stopped(S.NOT_SENT, receipt(Claim.ENDED, Source.SENDER))  # not said not to have been sent
    assert tell(Left(given_up, 1, None, None, None, now)).startswith("Given up by its tool. Its tool ended")
