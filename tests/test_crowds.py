"""R37: a task with ten thousand operations stays usable: few rows are read of it, and nothing goes uncounted."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agentstop import database
from agentstop.accounts import account, selection
from agentstop.accounts.selection import PANEL
from agentstop.models import Attempt, Operation, Run, Task
from agentstop.reports import operation_pages, report
from agentstop.reports.report import TaskReport
from agentstop.states import Cancellation, OperationState
from agentstop.stop import stop
from tests.crowd import add, crowd
from tests.test_report import fill

pytestmark = pytest.mark.usefixtures("tools")

MOST_QUERIES = 12  # of a request for a panel, session and user among them
SMALL = selection.Choice(open=4, others=3)


def told(task: Task, choice: selection.Choice = SMALL) -> TaskReport:
    found = account.load(task.pk, choice)
    assert found is not None
    return report.tell(found)


def page(user: User, address: str) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("many", [1_000, 10_000])
def test_a_panel_takes_few_queries_and_reads_few_rows_however_many_operations(ann: User, many: int) -> None:
    task = crowd(ann, succeeded=many - 600, failed=100, unknown=300, accepted=200)
    stop(task.pk, by=ann) if many == 1_000 else None  # a stop of hundreds that are open takes its time
    client = Client()
    client.force_login(ann)
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(f"/tasks/{task.pk}/panel/")
    assert len(queries) <= MOST_QUERIES
    text = answer.content.decode()
    assert len(re.findall(r'<li class="agentstop-operation"', text)) == (PANEL.open or 0) + (PANEL.others or 0)
    assert len(text) < 1_000_000


def test_all_that_is_not_listed_is_counted_by_how_it_reads_and_what_is_open_is_named_apart(ann: User) -> None:
    task = crowd(ann, succeeded=20, failed=5, unknown=6, prepared=2)
    found = told(task)
    assert [each.state for each in found.operations] == ["failed"] + ["unknown"] * 4 + ["prepared"] * 2
    assert found.summary == told(task, selection.WHOLE).summary
    assert found.rest.open_text == "2 more that may still have their effect are counted here and not listed:"
    assert [(kind.text, kind.show) for kind in found.rest.open_kinds] == [("2 unknown outcomes", "unknown")]
    assert found.rest.text == "24 older operations are counted here and not listed:"
    assert [(kind.text, kind.show) for kind in found.rest.kinds] == [
        ("4 failed", "failed"),
        ("20 completed", "completed"),
    ]


@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_told_of_the_whole_task_does_not_depend_on_what_is_listed(ann: User, stopped: bool) -> None:
    task = crowd(ann, failed=3, prepared=4, succeeded=9, accepted=5, unknown=5)
    Operation.objects.filter(task=task, state="accepted").update(follow_up_at=database.now() - timedelta(hours=1))
    if stopped:
        stop(task.pk, by=ann)
        task.refresh_from_db()
    folded, whole = told(task), told(task, selection.WHOLE)
    assert len(folded.operations) < len(whole.operations)
    for name in ("summary", "failures", "overdue", "stoppable", "goes_on", "unsure", "agent", "state", "controls"):
        assert getattr(folded, name) == getattr(whole, name), name
    assert folded.changes_at == whole.changes_at


def test_what_is_under_way_for_too_long_counts_as_unknown_where_nobody_has_looked(ann: User) -> None:
    task = crowd(ann, accepted=9, succeeded=1)
    due = database.now() - timedelta(minutes=1)
    Attempt.objects.filter(operation__task=task).update(max_age=timedelta(hours=1))
    Operation.objects.filter(task=task, state="accepted").update(due_at=due)
    found = told(task)
    assert found.summary == told(task, selection.WHOLE).summary == "Running. 9 unknown outcomes · 1 completed"
    assert [kind.text for kind in found.rest.open_kinds] == ["5 unknown outcomes"]


def test_an_operation_that_was_sent_last_is_a_sign_of_life_whether_it_is_listed_or_not(ann: User) -> None:
    task = crowd(ann, succeeded=8)
    past = database.now() - timedelta(hours=1)
    Run.objects.filter(task=task).update(began_at=past, seen_at=past)
    first = Operation.objects.filter(task=task).earliest("pk")
    at = database.now() - timedelta(seconds=2)
    first.tries.update(passed_at=at, lease_until=at + timedelta(seconds=1))
    Operation.objects.filter(pk=first.pk).update(lease_until=at + timedelta(seconds=1))
    assert first.pk not in [each.id for each in told(task).operations]
    assert told(task).agent == told(task, selection.WHOLE).agent
    assert told(task).agent.since == at


def test_a_list_counts_and_reads_none_of_them(ann: User) -> None:
    task = crowd(ann, succeeded=3, unknown=2)
    [(row, _)] = report.load_all([task], ann)
    assert (row.operations, row.goes_on, row.unsure) == ((), True, True)
    assert row.summary == told(task, selection.WHOLE).summary


def test_what_undoes_an_operation_that_is_not_listed_still_says_what_it_undoes(ann: User) -> None:
    task = crowd(ann, succeeded=8)
    first, last = (Operation.objects.filter(task=task).order_by(order).first() for order in ("pk", "-pk"))
    assert first is not None and last is not None
    Operation.objects.filter(pk=last.pk).update(compensates=first)
    found = told(task)
    assert first.pk not in [each.id for each in found.operations]
    assert [each.undoes.key for each in found.operations if each.undoes is not None] == [first.key]
    assert found.summary == told(task, selection.WHOLE).summary == "Running. 7 completed · undoing: 1 completed"


def test_each_kind_that_is_counted_leads_to_pages_that_list_all_of_it(ann: User) -> None:
    task = crowd(ann, succeeded=60, failed=5, accepted=2, unknown=3, prepared=1)
    for show, many in {"completed": 60, "failed": 5, "active": 2, "unknown": 3, "unsent": 1, "": 71}.items():
        seen: list[int] = []
        before = None
        while True:
            found = operation_pages.page(task.pk, ann, show, before)
            seen += [each.id for each in found.operations]
            before = found.older
            if before is None:
                break
        assert len(seen) == len(set(seen)) == many, show
        assert seen == sorted(seen, reverse=True)


def test_the_pages_work_by_links_and_tell_strangers_nothing(ann: User, ben: User) -> None:
    task = crowd(ann, succeeded=PANEL.others or 0, failed=60)
    text = page(ann, f"/tasks/{task.pk}/")
    assert "60 older operations are counted here and not listed:" in text
    [address] = re.findall(r'href="([^"]+)" id="[^"]+-rest-completed"', text)
    text = page(ann, address)
    assert text.count('<li class="agentstop-operation"') == operation_pages.SIZE
    [older] = re.findall(r'href="([^"]+)" rel="next"', text)
    text = page(ann, f"/tasks/{task.pk}/operations/{older}".replace("&amp;", "&"))
    assert text.count('<li class="agentstop-operation"') == (PANEL.others or 0) - operation_pages.SIZE
    for wrong in ("?show=nonsense", "?before=x", "?before=" + "9" * 30, "?show=%00"):
        assert 'class="agentstop-operation"' in page(ann, f"/tasks/{task.pk}/operations/{wrong}")
    client = Client()
    client.force_login(ben)
    assert client.get(f"/tasks/{task.pk}/operations/").status_code == 404


def test_an_operation_that_is_not_listed_can_be_settled_by_hand(ann: User) -> None:
    task = crowd(ann, unknown=(PANEL.open or 0) + 1)
    first = Operation.objects.filter(task=task).earliest("pk")
    assert f'id="agentstop-operation-{first.pk}"' not in page(ann, f"/tasks/{task.pk}/panel/")
    assert first.key in page(ann, f"/operations/{first.pk}/settle/")


def test_what_is_open_is_listed_before_what_is_new(ann: User) -> None:
    task = crowd(ann, unknown=1, succeeded=40)
    assert [each.state for each in told(task).operations] == ["unknown", *["succeeded"] * 3]


def test_groups_have_nothing_of_what_is_read(ann: User) -> None:
    task = crowd(ann, succeeded=2)
    fill(task, 3)
    add(task.pk, "unknown", 5)
    found = account.load(task.pk, SMALL)
    assert found is not None
    assert sum(group.many for group in found.rest.groups) + len(found.operations) == 10
    assert {group.state for group in found.rest.groups} == {
        OperationState.SUCCEEDED,
        OperationState.UNKNOWN,
    }
    assert all(known.folded.cancellation is Cancellation.NONE for known in found.operations)
