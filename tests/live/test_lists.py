"""A list of tasks that keeps itself up to date."""

from __future__ import annotations

import re

import pytest
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from agentstop import lifecycle
from agentstop.models import Task
from agentstop.runs import begin
from agentstop.sending import in_domain
from agentstop.stop import stop
from tests.conftest import HANG_GUARD
from tests.live.conftest import APPLICATION, Socket, ids


def shown(user: User, tasks: object) -> str:
    request = HttpRequest()
    request.user = user
    template = Template("{% load agentstop %}{% agentstop_tasks tasks %}")
    return template.render(Context({"request": request, "tasks": tasks}))


async def listening(session: str, address: str) -> Socket:
    headers = [(b"host", b"testserver"), (b"origin", b"http://testserver")]
    communicator = WebsocketCommunicator(APPLICATION, address, [*headers, (b"cookie", f"sessionid={session}".encode())])
    assert (await communicator.connect(HANG_GUARD))[0]
    return Socket(communicator)


def test_a_list_shows_what_this_user_may_see(ann: User, ben: User) -> None:
    tasks = [lifecycle.create("Mine", owner=ann), lifecycle.create("<b>Other</b>", owner=ben)]
    text = shown(ann, tasks)
    assert "Mine" in text
    assert "Other" not in text
    assert f'href="/tasks/{tasks[0].pk}/"' in text
    assert "&lt;b&gt;Other" in shown(ben, tasks)


def test_an_empty_list_says_so_and_opens_no_socket(ann: User) -> None:
    text = shown(ann, [])
    assert "No tasks." in text
    assert "data-agentstop-socket" not in text


def test_a_long_list_takes_no_more_queries_than_a_short_one(ann: User) -> None:
    counts = []
    for many in (1, 30):
        tasks = [lifecycle.create(f"{number}", owner=ann) for number in range(many)]
        with CaptureQueriesContext(connection) as queries:
            shown(ann, tasks)
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.asyncio
async def test_a_list_gets_the_final_state_without_a_reload(ann: User, anns_session: str) -> None:
    runs = [await in_domain(begin, f"Report {number}", owner=ann) for number in range(3)]
    text = await in_domain(shown, ann, [await Task.objects.aget(pk=run.task_id) for run in runs])
    found = re.search(r'data-agentstop-socket="([^"]+)"', text)
    assert found
    socket = await listening(anns_session, found[1].replace("&amp;", "&"))
    seen: set[str] = set()
    while len(seen) < 3:
        seen.update(ids(await socket.frame()))
    assert seen == {f"agentstop-task-{run.task_id}-row" for run in runs}
    await in_domain(stop, runs[1].task_id, by=ann)
    frame = await socket.frame()
    assert ids(frame) == [f"agentstop-task-{runs[1].task_id}-row"]
    assert "stopped by <bdi>ann</bdi>" in frame
    await socket.communicator.disconnect(timeout=HANG_GUARD)


@pytest.mark.asyncio
async def test_a_list_that_names_somebody_elses_task_is_closed(ann: User, ben: User, anns_session: str) -> None:
    tasks = [await in_domain(lifecycle.create, "Secret", owner=owner) for owner in (ann, ben)]
    socket = await listening(anns_session, f"/ws/agentstop/tasks/?tasks={tasks[0].pk},{tasks[1].pk}")
    assert await socket.close_code() == 4404


@pytest.mark.asyncio
@pytest.mark.parametrize("named", ["", "x,,-1", "9" * 5000])
async def test_a_list_that_names_no_task_stays_empty(ann: User, anns_session: str, named: str) -> None:
    socket = await listening(anns_session, f"/ws/agentstop/tasks/?tasks={named}")
    assert await socket.quiet()
    await socket.communicator.disconnect(timeout=HANG_GUARD)
