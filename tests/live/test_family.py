"""What becomes of a relative is pushed to whoever looks at a task, and so is a pause."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from agentstop.pause import pause, resume
from agentstop.runs import Run, begin
from agentstop.sending import in_domain
from agentstop.stop import stop
from tests.live.conftest import Open

pytestmark = [pytest.mark.asyncio, pytest.mark.django_db(transaction=True)]


def child_of(run: Run) -> Run:
    return begin("child", serves=[run])


async def test_a_child_that_is_born_and_ends_is_pushed_to_its_parents_page(
    open_socket: Open, run: Run, anns_session: str
) -> None:
    first = await in_domain(child_of, run)
    socket = await open_socket(run.task_id, anns_session)
    assert "1 running" in await socket.frame()
    await in_domain(first.finish)
    assert "It has finished." in await socket.frame_with("1 finished")
    second = await in_domain(child_of, run)
    await socket.frame_with("1 running · 1 finished")
    await in_domain(stop, second.task_id)
    assert "It was stopped by itself." in await socket.frame_with("1 stopped")


async def test_a_parent_that_is_over_is_pushed_to_its_childs_page(
    open_socket: Open, run: Run, anns_session: str
) -> None:
    child = await in_domain(child_of, run)
    socket = await open_socket(child.task_id, anns_session)
    assert "It works for run 1, which is live." in await socket.frame()
    await in_domain(run.finish)
    await socket.frame_with("It worked for run 1, which is over.")


async def test_a_pause_and_its_reason_are_pushed(open_socket: Open, run: Run, anns_session: str, ann: User) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    await in_domain(pause, run.task_id, by=ann, reason="let me look")
    assert "let me look" in await socket.frame_with("Paused by")
    await in_domain(resume, run.task_id, by=ann)
    assert "let me look" not in await socket.frame_with("Resume: it is not paused.")
