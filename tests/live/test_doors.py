"""Who is let in to a websocket, and what ends it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone

from agentstop import sessions, sockets, wake
from agentstop.live import registry
from agentstop.models import Decision, Task
from agentstop.runs import Run
from agentstop.sending import in_domain
from agentstop.stop import astop
from tests.live.conftest import APPLICATION, Open, session_of

pytestmark = pytest.mark.asyncio


async def test_without_a_login_it_is_closed_with_4401(open_socket: Open, run: Run) -> None:
    socket = await open_socket(run.task_id)
    assert await socket.close_code() == 4401


async def test_for_somebody_elses_task_it_is_closed_with_4404(open_socket: Open, run: Run, ben: User) -> None:
    socket = await open_socket(run.task_id, await in_domain(session_of, ben))
    assert await socket.close_code() == 4404


@pytest.mark.parametrize("task", [0, 999_999, 10**30])
async def test_for_a_task_that_is_not_there_it_is_closed_with_4404(
    open_socket: Open, anns_session: str, task: int
) -> None:
    socket = await open_socket(task, anns_session)
    assert await socket.close_code() == 4404


async def test_from_another_origin_it_is_never_opened(run: Run, anns_session: str) -> None:
    headers = [
        (b"host", b"testserver"),
        (b"origin", b"http://elsewhere.example"),
        (b"cookie", f"sessionid={anns_session}".encode()),
    ]
    communicator = WebsocketCommunicator(APPLICATION, f"/ws/agentstop/tasks/{run.task_id}/", headers)
    connected, _ = await communicator.connect(60)
    assert not connected


async def test_a_right_that_is_taken_away_closes_it_with_the_next_change(
    open_socket: Open, run: Run, olga: User
) -> None:
    socket = await open_socket(run.task_id, await in_domain(session_of, olga))
    await socket.frame()
    await olga.user_permissions.through.objects.filter(user=olga).adelete()
    await in_domain(wake.announce, run.task_id)
    assert await socket.close_code() == 4404


async def test_a_user_who_is_switched_off_is_shown_nothing_more(
    open_socket: Open, run: Run, anns_session: str, ann: User
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    await User.objects.filter(pk=ann.pk).aupdate(is_active=False)
    await in_domain(wake.announce, run.task_id)
    assert await socket.close_code() == 4404


async def test_it_is_closed_with_4403_when_the_session_ends(open_socket: Open, run: Run, anns_session: str) -> None:
    until = timezone.now() + timedelta(seconds=3)
    await Session.objects.filter(pk=anns_session).aupdate(expire_date=until)
    socket = await open_socket(run.task_id, anns_session)
    assert await socket.close_code() == 4403
    assert timezone.now() >= until


async def test_it_is_closed_with_4403_after_a_logout_elsewhere(
    open_socket: Open, run: Run, anns_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "CHECK", 0.1)
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    await Session.objects.filter(pk=anns_session).adelete()
    assert await socket.close_code() == 4403


async def test_it_is_closed_with_4403_after_a_new_password(
    open_socket: Open, run: Run, anns_session: str, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "CHECK", 0.1)
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    ann.set_password("another")
    await ann.asave()
    assert await socket.close_code() == 4403


async def test_a_flood_of_frames_closes_it(open_socket: Open, run: Run, anns_session: str) -> None:
    socket = await open_socket(run.task_id, anns_session)
    for _ in range(30):
        await socket.communicator.send_to(text_data="{}")
    assert await socket.close_code() == 1008


async def test_one_person_can_open_so_many_and_others_are_let_in_all_the_same(
    open_socket: Open, run: Run, anns_session: str, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one too many may come back; one that goes makes room."""
    monkeypatch.setattr(sockets, "MOST_OPEN", 2)
    first, second = [await open_socket(run.task_id, anns_session) for _ in range(2)]
    third = await open_socket(run.task_id, anns_session)
    assert await third.close_code() == 1013
    await (await open_socket(run.task_id, await in_domain(session_of, olga))).frame()
    await first.communicator.disconnect(timeout=60)
    await third.communicator.disconnect(timeout=60)
    await (await open_socket(run.task_id, anns_session)).frame()
    assert await (await open_socket(run.task_id, anns_session)).close_code() == 1013
    assert "Running since" in await second.frame()


@pytest.mark.parametrize("frame", [{"text_data": "x" * 2000}, {"bytes_data": b"\xff" * 2000}])
async def test_a_huge_frame_closes_it(
    open_socket: Open, run: Run, anns_session: str, frame: dict[str, str | bytes]
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.communicator.send_to(**frame)
    assert await socket.close_code() == 1008


@pytest.mark.parametrize("query", ["?language=xx-nope&zone=Mars/Phobos", "?language=%00&zone=../../etc/passwd", "?%ff"])
async def test_a_language_or_zone_that_is_not_known_does_no_harm(
    open_socket: Open, run: Run, anns_session: str, query: str
) -> None:
    socket = await open_socket(run.task_id, anns_session, query=query)
    assert "Running since" in await socket.frame()


async def test_a_page_that_goes_away_leaves_nothing_behind(open_socket: Open, run: Run, anns_session: str) -> None:
    before = len(asyncio.all_tasks())
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    await socket.communicator.disconnect(timeout=60)
    assert not registry().boards
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= before


async def test_a_page_that_goes_away_stops_nothing_and_a_stop_needs_no_page(
    open_socket: Open, run: Run, anns_session: str, ann: User
) -> None:
    """R32: one is closed, one takes nothing any more."""
    closed, _stalled = [await open_socket(run.task_id, anns_session) for _ in range(2)]
    await closed.frame()
    await closed.communicator.disconnect(timeout=60)
    before = await in_domain(Task.objects.get, pk=run.task_id)
    assert (before.state, before.live_run) == ("active", run.number)
    await in_domain(run.check)
    assert not await in_domain(Decision.objects.exclude(verb="start").exists)
    assert (await astop(run.task_id, by=ann)).stopped
    assert (await in_domain(Task.objects.get, pk=run.task_id)).state == "stopped"
