"""What a list shows: filters that do not lie, search, pages by id, and what it costs with a hundred thousand tasks."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import lifecycle, listing
from agentstop.answers import answer
from agentstop.exceptions import Unanswered
from agentstop.listing import FILTERS, SIZE, Asked, page
from agentstop.models import Attempt, Operation, Question, Receipt, Run, Task
from agentstop.pause import pause
from agentstop.runs import begin
from agentstop.states import TaskState
from agentstop.stop import stop
from tests.lists.many import in_doubt, many_tasks, one_operation_each, under_way

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

NONE_THERE = ("unknown", "silent", "asking")  # among the many
AN_HOUR = timedelta(hours=1)
STATES = " ".join(f"WHEN {number} THEN '{state}'" for number, state in enumerate(TaskState))


def titles(user: User, **query: str) -> list[str]:
    return [told.title for told, _ in page(user, Asked.of(query)).rows]


@pytest.fixture
def each(ann: User) -> None:
    """A task in every state that a filter knows."""
    begin("active", owner=ann)
    pause(begin("paused", owner=ann).task_id, by=ann)
    stop(begin("stopped", owner=ann).task_id, by=ann)
    begin("finished", owner=ann).finish()
    under_way(ann, "accepted")
    in_doubt(ann, "in doubt")


def test_a_filter_shows_what_it_says_newest_first(ann: User, each: None) -> None:
    assert titles(ann) == ["in doubt", "accepted", "finished", "stopped", "paused", "active"]
    assert titles(ann, show="active") == ["in doubt", "accepted", "active"]
    assert titles(ann, show="paused") == ["paused"]
    assert titles(ann, show="stopped") == ["stopped"]
    assert titles(ann, show="finished") == ["finished"]
    assert titles(ann, show="open") == ["in doubt", "accepted"]
    assert titles(ann, show="unknown") == ["in doubt"]


def test_an_accepted_operation_that_was_silent_for_too_long_is_unknown_though_nobody_has_looked(ann: User) -> None:
    """The stored state is a cache: past `due_at` a filter must not believe it."""
    task = under_way(ann, "silent")
    make_old(task, AN_HOUR, max_age=AN_HOUR / 2)
    assert Operation.objects.get().state == "accepted"
    assert titles(ann, show="unknown") == titles(ann, show="open") == ["silent"]


def test_an_operation_whose_stored_state_is_due_and_still_true_is_not_shown_as_unknown(ann: User) -> None:
    """`due_at` may be about its cancellation: what is folded again decides, not that something was due."""
    under_way(ann, "alive")
    Operation.objects.update(due_at=timezone.now() - AN_HOUR)
    assert titles(ann, show="unknown") == []
    assert titles(ann, show="open") == ["alive"]


def make_old(task: Task, age: timedelta, max_age: timedelta) -> None:
    """As if everything about its operation had happened so much earlier, and nobody had folded it since."""
    before = timezone.now() - age
    Attempt.objects.filter(operation__task=task).update(passed_at=before, lease_until=before, max_age=max_age)
    Receipt.objects.filter(operation__task=task).update(asked_at=before, seen_at=before)
    Operation.objects.filter(task=task).update(due_at=before + max_age)


def test_a_run_without_a_sign_of_life_is_found(ann: User, each: None) -> None:
    assert titles(ann, show="silent") == []
    Run.objects.filter(task__title="active").update(seen_at=timezone.now() - AN_HOUR)
    assert titles(ann, show="silent") == ["active"]


def test_a_task_that_waits_for_a_person_is_found_until_it_is_answered_or_over(ann: User) -> None:
    first, second = begin("first", owner=ann), begin("second", owner=ann)
    for run in (first, second):
        with pytest.raises(Unanswered):
            run.ask("Send it?", key="send", kind="approve", wait=False)
    assert titles(ann, show="asking") == ["second", "first"]
    answer(Question.objects.get(task=first.task_id), by=ann)
    assert titles(ann, show="asking") == ["second"]
    stop(second.task_id, by=ann)
    assert titles(ann, show="asking") == []


def test_a_search_looks_into_titles_with_any_case_and_no_wildcards(ann: User) -> None:
    for title in ("Quarterly report", "50% off", "under_score", "<b>Bold</b>"):
        lifecycle.create(title, owner=ann)
    assert titles(ann, q="REPORT") == ["Quarterly report"]
    assert titles(ann, q="%") == ["50% off"]
    assert titles(ann, q="_") == ["under_score"]
    assert titles(ann, q="  <b>  ") == ["<b>Bold</b>"]
    assert titles(ann, q="report", show="stopped") == []


@pytest.mark.parametrize(
    "query",
    [
        {"show": "nonsense"},
        {"show": "unknown' OR 1=1"},
        {"before": "x"},
        {"before": "-1"},
        {"before": "9" * 30},
        {"before": "१"},
        {"after": ""},
        {"q": ""},
    ],
    ids=repr,
)
def test_what_is_asked_in_vain_is_left_out(ann: User, query: dict[str, str]) -> None:
    lifecycle.create("there", owner=ann)
    assert titles(ann, **query) == ["there"]


@pytest.mark.parametrize("text", ["\x00", "\ud800", "x" * 100_000, "\\", "'"])
def test_a_search_for_anything_is_answered(ann: User, text: str) -> None:
    lifecycle.create("there", owner=ann)
    assert titles(ann, q=text) == []


def test_others_see_their_own_and_an_operator_sees_all(ann: User, ben: User, olga: User) -> None:
    lifecycle.create("anns", owner=ann)
    lifecycle.create("bens", owner=ben)
    assert titles(ann) == ["anns"]
    assert titles(olga) == ["bens", "anns"]


def test_pages_go_to_and_fro_and_miss_and_repeat_nothing(ann: User) -> None:
    many_tasks(lifecycle.create("Report 0", owner=ann), 59)
    seen, there = [], [page(ann, Asked())]
    while there[-1].older:
        there.append(page(ann, Asked.of(query_of(there[-1].older))))
    for one in there:
        seen += [told.title for told, _ in one.rows]
    assert [len(one.rows) for one in there] == [SIZE, SIZE, 10]
    assert len(set(seen)) == 60
    back = [there[-1]]
    while back[-1].newer:
        back.append(page(ann, Asked.of(query_of(back[-1].newer))))
    assert [[told.id for told, _ in one.rows] for one in back] == [
        [told.id for told, _ in one.rows] for one in there[::-1]
    ]
    assert not there[0].newer and not there[-1].older


def query_of(address: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in address.removeprefix("?").split("&"))


def test_a_page_between_two_others_stays_where_it_is_when_new_tasks_come(ann: User) -> None:
    many_tasks(lifecycle.create("Report 0", owner=ann), 59)
    second = page(ann, Asked()).older
    before = [told.id for told, _ in page(ann, Asked.of(query_of(second))).rows]
    many_tasks(Task.objects.earliest("pk"), 30)
    assert [told.id for told, _ in page(ann, Asked.of(query_of(second))).rows] == before


def test_a_page_that_is_empty_leads_to_the_first_one(ann: User) -> None:
    task = lifecycle.create("there", owner=ann)
    found = page(ann, Asked(show="active", before=task.pk))
    assert (found.rows, found.older, found.newer) == ((), "", "?show=active")


def test_an_address_keeps_the_filter_and_the_text(ann: User) -> None:
    assert Asked("open", "a & b", before=7).address(after=9) == "?show=open&q=a+%26+b&after=9"
    assert Asked().address() == "?"


def test_a_hundred_thousand_tasks_take_as_many_queries_as_a_hundred_and_none_counts_them(
    ann: User, each: None, settings: Settings
) -> None:
    settings.AGENTSTOP_SILENCE = 86_400  # nobody falls silent because this takes long
    counts = []
    for many in (100, 900, 99_000):
        many_tasks(Task.objects.get(title="stopped"), many, state=f"CASE n - n / 4 * 4 {STATES} END")
        one_operation_each(Operation.objects.get(task__title="accepted"))
        counts.append(
            {
                query: queries_of(ann, *query)
                for query in product(FILTERS, ("", "report"), ("before", "after", "neither"))
            }
        )
    hundred, thousand, very_many = counts
    assert Task.objects.count() > 100_000
    # What happens to be on a page makes it one or two more or fewer: tasks of which no run has begun take a query each.
    assert max(very_many.values()) <= max(thousand.values()) <= max(hundred.values()) <= 15


def queries_of(user: User, show: str, text: str, place: str) -> int:
    """How many queries a page takes, none of which counts."""
    middle = str(Task.objects.order_by("pk")[Task.objects.count() // 2].pk)
    asked = Asked.of({"show": show, "q": text, place: middle})
    with CaptureQueriesContext(connection) as queries:
        assert page(User.objects.get(pk=user.pk), asked).rows or show in ("unknown", "silent", "asking"), (
            "none is there"
        )
    counting = [each["sql"] for each in queries if "COUNT(" in each["sql"].upper()]
    assert not [sql for sql in counting if "GROUP BY" not in sql], (
        "other than the operations of the tasks that are shown"
    )
    return len(queries)


@pytest.mark.parametrize("show", sorted(FILTERS))
def test_what_a_stop_would_end_is_what_the_panel_says(ann: User, each: None, show: str) -> None:
    run = begin("finished, and something goes on", owner=ann)
    with run.dispatch("file.upload", connector="tools", key="k") as op:
        op.accepted(ref="r")
    run.finish()
    asked = Asked(show=show)
    told = {report.title for report, _ in page(ann, asked).rows if report.stoppable}
    assert {task.title for task in listing.stoppable(listing.matching(ann, asked))} == told
