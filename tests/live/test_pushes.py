"""What arrives at an open page, and when."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from agentstop.models import Task
from agentstop.runs import Run
from agentstop.sending import in_domain
from agentstop.stop import stop
from tests.conftest import InThread
from tests.live.conftest import Open, ids, in_another_process, session_of

pytestmark = pytest.mark.asyncio


async def test_a_new_page_gets_a_snapshot(open_socket: Open, run: Run, anns_session: str) -> None:
    socket = await open_socket(run.task_id, anns_session)
    prefix = f"agentstop-task-{run.task_id}"
    parts = ("state", "line", "questions", "rest", "inputs", "family", "operations")
    assert ids(await socket.frame()) == [f"{prefix}-{part}" for part in parts]


async def test_a_stop_on_another_connection_arrives(
    open_socket: Open, run: Run, anns_session: str, in_thread: InThread, ann: User
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    in_thread(stop, run.task_id, by=ann)
    frame = await socket.frame_with("Stopped by")
    assert ids(frame) == [f"agentstop-task-{run.task_id}-state", f"agentstop-task-{run.task_id}-line"]


async def test_a_stop_in_another_process_arrives(
    open_socket: Open, run: Run, anns_session: str, database_url: str
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    statements = f"from agentstop.stop import stop; stop({run.task_id}, policy='nightly')"
    await in_domain(in_another_process, database_url, statements)
    assert "nightly" in await socket.frame_with("Stopped by")


async def test_an_operation_of_another_process_arrives_as_a_new_row_and_its_changes_as_that_row(
    open_socket: Open, run: Run, anns_session: str, database_url: str
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    statements = f"""
from django.conf import settings
settings.AGENTSTOP_CONNECTORS = {{"tools": {{}}}}
from agentstop.runs import Run
run = Run({run.task_id}, {run.number})
run.prepare("file.upload", connector="tools", key="k")
"""
    await in_domain(in_another_process, database_url, statements)
    frame = await socket.frame_with("file.upload")
    assert f'<ol data-agentstop-swap="append:#agentstop-task-{run.task_id}-operations" ><li' in frame
    assert f"agentstop-task-{run.task_id}-operations" not in ids(frame)
    await in_domain(run.call, "file.upload", connector="tools", key="k", send=lambda op: "done")
    frame = await socket.frame_with("The provider reported that it was done.")
    assert not any(each.endswith("-operations") for each in ids(frame))
    assert any(each.startswith("agentstop-operation-") for each in ids(frame))


async def test_nothing_is_announced_that_is_not_committed(
    open_socket: Open, run: Run, anns_session: str, in_thread: InThread
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    wrote, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def change_and_roll_back() -> None:
        with transaction.atomic():
            Task.objects.filter(pk=run.task_id).update(state="paused")
            loop.call_soon_threadsafe(wrote.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(60)
            transaction.set_rollback(True)

    changing = in_thread(change_and_roll_back)
    await wrote.wait()
    assert await socket.quiet()
    go_on.set()
    await asyncio.wrap_future(changing)
    assert await socket.quiet()


async def test_one_change_is_one_frame_with_one_announcement(
    open_socket: Open, run: Run, anns_session: str, in_thread: InThread, ann: User
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    in_thread(stop, run.task_id, by=ann)
    frame = await socket.frame_with("Stopped by")
    assert frame.count('role="status"') == 1
    assert 'role="alert"' not in frame
    assert await socket.quiet()


async def test_a_page_that_comes_back_is_told_nothing_it_has_announced(
    open_socket: Open, run: Run, anns_session: str
) -> None:
    await in_domain(run.call, "file.upload", connector="tools", key="k", send=lambda op: 1 / 0)
    first, second = await open_socket(run.task_id, anns_session), await open_socket(run.task_id, anns_session)
    one, other = await first.frame(), await second.frame()
    assert one == other
    assert 'role="alert"' not in one


async def test_readers_with_and_without_the_right_to_stop_get_their_own_picture(
    open_socket: Open, run: Run, anns_session: str, olga: User
) -> None:
    presses = ["stop_task", "pause_task"]
    await olga.user_permissions.filter(codename__in=presses).adelete()
    await olga.user_permissions.through.objects.filter(permission__codename__in=presses).adelete()
    owner = await open_socket(run.task_id, anns_session)
    watcher = await open_socket(run.task_id, await in_domain(session_of, olga))
    assert 'type="submit"' in await owner.frame()
    frame = await watcher.frame()
    assert 'type="submit"' not in frame
    assert "You may watch this task, and not stop it." in frame
