"""Questions at open pages: they come, are answered and are closed while somebody looks."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from agentstop.answers import aanswer
from agentstop.exceptions import Unanswered
from agentstop.models import Question
from agentstop.reports import report
from agentstop.runs import Run
from agentstop.sending import in_domain
from agentstop.stop import astop
from tests.conftest import HANG_GUARD
from tests.live.conftest import Open

pytestmark = pytest.mark.asyncio


async def put(run: Run, **options: float) -> int:
    with pytest.raises(Unanswered):
        await run.aask("Send it?", key="send", kind="approve", wait=False, **options)  # type: ignore[arg-type]
    return int((await in_domain(Question.objects.get)).pk)


async def test_a_question_its_answer_and_that_it_was_taken_arrive(
    open_socket: Open, run: Run, anns_session: str, ann: User
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    question = await put(run)
    frame = await socket.frame_with("Send it?")
    assert 'name="approve"' in frame and "1 question waits for an answer." in frame
    await aanswer(question, by=ann)
    await socket.frame_with("The agent has not taken the answer yet.")
    await run.aask("Send it?", key="send", kind="approve")
    await socket.frame_with("The agent has taken the answer.")


async def test_a_stop_closes_it_on_the_page(open_socket: Open, run: Run, anns_session: str, ann: User) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await put(run)
    await socket.frame_with("Send it?")
    await astop(run.task_id, by=ann)
    frame = await socket.frame_with("Closed: the task was stopped")
    assert "Stopped by" in frame


async def test_its_end_in_time_is_shown_when_it_has_come(open_socket: Open, run: Run, anns_session: str) -> None:
    """Nothing is committed at that moment."""
    socket = await open_socket(run.task_id, anns_session)
    await put(run, within=1.0)
    await socket.frame_with("It can be answered until")
    await socket.frame_with("Nobody answered in time")


@pytest.mark.parametrize("state", ["pending", "answered", "applied"])
async def test_a_page_that_goes_away_changes_nothing(
    open_socket: Open, run: Run, anns_session: str, ann: User, state: str
) -> None:
    """R32: only a stop closes, whatever becomes of whoever looks."""
    socket = await open_socket(run.task_id, anns_session)
    question = await put(run)
    if state != "pending":
        await aanswer(question, by=ann)
    if state == "applied":
        await run.aask("Send it?", key="send", kind="approve")
    await socket.frame_with("Send it?")
    await socket.communicator.disconnect(timeout=HANG_GUARD)
    told, _ = await in_domain(report.load, run.task_id, ann)
    assert [each.state for each in told.questions] == [state]
    assert told.state == "active"
