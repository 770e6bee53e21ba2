"""How often a page is redrawn, and what brings it up to date when nobody tells."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import AutoField
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import fragments, live, looks, sockets
from agentstop.accounts import account
from agentstop.live import GAP, Board, Desk, Registry, Viewer
from agentstop.looks import Reader, Wanted
from agentstop.models import Attempt, Operation, Task
from agentstop.reports import report
from agentstop.runs import Run
from agentstop.sending import in_domain
from tests.conftest import InThread
from tests.live.conftest import Open

pytestmark = pytest.mark.asyncio


def send_many(run: Run, many: int) -> None:
    for number in range(many):
        run.call("file.upload", connector="tools", key=f"k{number}", send=lambda op: "done")


async def test_frames_keep_their_distance_however_fast_things_change(
    open_socket: Open, run: Run, anns_session: str, in_thread: InThread
) -> None:
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    began, frames = time.monotonic(), 0
    in_thread(send_many, run, 40)
    while "40 completed" not in await socket.frame():
        frames += 1
    assert time.monotonic() - began >= frames * GAP * 0.95  # timers may be early by their grain


async def test_a_task_is_read_once_for_all_viewers_and_drawn_once_for_each_kind_of_reader(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []

    def draw(*given: Any, **named: Any) -> Any:
        drawn.append(given)
        return fragments.draw(*given, **named)

    monkeypatch.setattr(looks, "draw", draw)
    owner = (await Task.objects.aget()).owner_id
    readers = [Reader(owner, language, zone) for language in ("en", "de") for zone in ("UTC", "Asia/Tokyo")]
    seen = await in_domain(looks.look, {run.task_id: Wanted(readers * 5, {})})
    assert len(seen[run.task_id].pictures) == len(drawn) == 4


async def test_a_silent_sender_turns_into_unknown_on_the_open_page_when_its_lease_ends(
    open_socket: Open, run: Run, anns_session: str
) -> None:
    operation = await in_domain(run.prepare, "file.upload", connector="tools", key="k")
    now = timezone.now()
    await Operation.objects.filter(pk=operation).aupdate(
        state="sending", attempts=1, lease_until=now + timedelta(seconds=2), due_at=now + timedelta(seconds=2)
    )
    await Attempt.objects.acreate(
        operation_id=operation,
        number=1,
        run=run.number,
        passed_at=now,
        lease_until=now + timedelta(seconds=2),
        settling=timedelta(0),
        max_age=timedelta(days=1),
    )
    socket = await open_socket(run.task_id, anns_session)
    frame = await socket.frame_with("unknown outcome")
    assert "Its sender did not report back in time" in frame


async def test_what_time_alone_has_changed_has_changed_when_it_was_due(run: Run) -> None:
    operation = await in_domain(run.prepare, "file.upload", connector="tools", key="k")
    past = timezone.now() - timedelta(minutes=10)
    await Operation.objects.filter(pk=operation).aupdate(state="sending", lease_until=past, due_at=past)
    await Attempt.objects.acreate(
        operation_id=operation,
        number=1,
        run=run.number,
        passed_at=past - timedelta(minutes=1),
        lease_until=past,
        settling=timedelta(0),
        max_age=timedelta(days=1),
    )

    def since() -> Any:
        found = account.load(run.task_id)
        assert found is not None
        return report.tell(found).operations[0].reading.since

    assert await in_domain(since) == past == await in_domain(since)


async def test_a_lost_wake_is_made_good_by_the_sweep(
    open_socket: Open, run: Run, anns_session: str, settings: Settings
) -> None:
    settings.AGENTSTOP_SWEEP = 0.2
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame()
    await Task.objects.filter(pk=run.task_id).aupdate(state="paused")
    assert "Paused since" in await socket.frame()


async def test_a_number_that_no_task_can_have_hides_no_change_of_others(run: Run) -> None:
    """Any address may be opened, and all that are open are swept together."""
    assert list(await in_domain(account.marks, [10**30, run.task_id])) == [run.task_id]


async def test_a_page_is_given_signs_of_life_when_nothing_happens(
    open_socket: Open, run: Run, anns_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "BEAT", 0.05)
    socket = await open_socket(run.task_id, anns_session)
    await socket.frame_with("Running since")
    for _ in range(3):
        assert await socket.frame() == "{}"  # nothing of it is put into the page


async def test_when_it_cannot_be_read_the_pages_are_told_to_come_back(
    open_socket: Open, run: Run, anns_session: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("the database is away")

    monkeypatch.setattr(live, "look", broken)
    socket = await open_socket(run.task_id, anns_session)
    assert await socket.close_code() == live.TRY_AGAIN
    assert "could not be shown" in caplog.text


async def test_a_viewer_that_takes_nothing_holds_one_picture_alone(run: Run) -> None:
    registry = Registry()
    owner = (await Task.objects.aget()).owner_id
    viewer = Viewer(Reader(owner, "en", "UTC"), asyncio.Event())
    await registry.join(run.task_id, viewer)
    await in_domain(send_many, run, 5)
    async with asyncio.timeout(60):
        while viewer.picture is None or len(viewer.picture.rows) < 5:
            viewer.changed.clear()
            await viewer.changed.wait()
    await registry.leave(run.task_id, viewer)


async def test_a_task_that_is_due_just_as_the_last_looks_end_is_looked_at(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are done before they are crossed off; whoever comes in between must not wait for a look that is over."""

    async def at_once(*_: Any) -> None: ...

    monkeypatch.setattr(Desk, "_look", at_once)
    desk, loop = Desk(), asyncio.get_running_loop()
    for task in range(live.LOOKS):
        desk.add(Board(task, desk.add))
    loop.call_soon(desk.add, Board(live.LOOKS, desk.add))  # after their only step, before their callbacks
    for _ in range(10):
        await asyncio.sleep(0)
    assert not desk._due


async def test_users_whose_keys_are_of_a_kind_of_the_hosts_own_are_looked_up_by_its_own_manager(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(AutoField):  # type: ignore[type-arg]
        pass

    monkeypatch.setattr(User._meta.pk, "__class__", Own)
    monkeypatch.setattr(looks, "_PEOPLE", None)
    reader = Reader((await Task.objects.aget()).owner_id, "en", "UTC")
    seen = await in_domain(looks.look, {run.task_id: Wanted([reader], {})})
    assert reader in seen[run.task_id].variants
