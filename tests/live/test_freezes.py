"""R37, R45: an open page of an affected task says that it is held, and that it is so no more, without a reload."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agentstop.freeze import freeze, unfreeze
from agentstop.runs import Run, begin
from agentstop.sending import in_domain
from tests.conftest import InThread
from tests.live.conftest import Open, ids, in_another_process, session_of

pytestmark = pytest.mark.asyncio


async def test_a_freeze_in_another_process_arrives_and_so_does_its_end(
    open_socket: Open, run: Run, anns_session: str, database_url: str
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    statements = "from agentstop.freeze import freeze; freeze(reason='posts twice', policy='error rate')"
    await in_domain(in_another_process, database_url, statements)
    frame = await socket.frame_with("Held: all dispatch.")
    assert "error rate" in frame
    assert frame.count('role="status"') == 1  # its line is announced, once
    statements = "from agentstop.freeze import in_force, unfreeze; unfreeze(in_force()[0])"
    await in_domain(in_another_process, database_url, statements)
    assert "Held" not in await socket.frame_with(f"agentstop-task-{run.task_id}-state")


async def test_its_end_by_time_arrives_when_it_has_come(
    open_socket: Open, run: Run, anns_session: str, in_thread: InThread
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    in_thread(freeze, reason="x", until=timezone.now() + timedelta(seconds=4))
    await socket.frame_with("Held: all dispatch.")
    assert "Held" not in await socket.frame_with(f"agentstop-task-{run.task_id}-state")


async def test_who_is_not_affected_is_told_nothing(
    open_socket: Open, run: Run, anns_session: str, ben: User, in_thread: InThread
) -> None:
    other = await in_domain(begin, "of ben", owner=ben)
    mine = await open_socket(run.task_id, anns_session)
    his = await open_socket(other.task_id, await in_domain(session_of, ben))
    for socket in (mine, his):
        assert f"agentstop-task-{(run if socket is mine else other).task_id}-state" in ids(await socket.frame())
    held = in_thread(freeze, owner=ben, reason="x")
    await his.frame_with("Held: all dispatch for ben.")
    assert await mine.quiet()
    in_thread(unfreeze, held.result())
    await his.frame_with("Running.")
    assert await mine.quiet()
