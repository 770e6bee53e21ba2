"""The operators' desk: what waits for them, counted, with the way to each row (R35, R37)."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agentstop import boards, database
from agentstop.boards import Board
from agentstop.freeze import freeze
from agentstop.models import Operation
from agentstop.models import Run as RunRow
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.admin.conftest import Login

pytestmark = pytest.mark.django_db(transaction=True)

DESK = "admin:agentstop_desk"


def test_each_number_leads_to_as_many_rows(login: Login, root: User, running: Run) -> None:
    stop(running.task_id)
    lost = Operation.objects.get(key="notify")
    Operation.objects.filter(pk=lost.pk).update(
        contradictory=True, cancellation="undeliverable", follow_up_at=database.now() - timedelta(hours=1)
    )
    freeze(reason="maintenance")
    client = login(root)
    shown = client.get(reverse(DESK)).content.decode()
    ways = re.findall(r'<a href="(/admin/agentstop/[^"]+\?(?:board|agent|standing)=[^"]+)">(\d+)</a>', shown)
    assert len(ways) == sum(each.count > 0 for each in boards.standings()) == len(Board) - 1
    for way, count in ways:
        assert client.get(way).context["cl"].result_count == int(count), way


def test_a_silent_run_leads_to_its_task(login: Login, root: User) -> None:
    run = begin("Quarterly report")
    RunRow.objects.filter(task=run.task_id).update(seen_at=database.now() - timedelta(hours=2))
    running_task = f"{reverse('admin:agentstop_task_changelist')}?agent=silent"
    client = login(root)
    assert f'href="{running_task}"' in client.get(reverse(DESK)).content.decode()


def test_who_may_not_read_the_desk_is_refused(login: Login, stranger: User, ann: User, viewer: User) -> None:
    assert login(stranger).get(reverse(DESK)).status_code == 403
    assert login(ann).get(reverse(DESK)).status_code == 302
    assert login(viewer).get(reverse(DESK)).status_code == 200


def test_every_list_leads_to_the_desk(login: Login, viewer: User) -> None:
    client = login(viewer)
    for name in ("task", "operation", "run", "receipt"):
        assert reverse(DESK) in client.get(reverse(f"admin:agentstop_{name}_changelist")).content.decode()
