"""Stop everything of mine, or all that a filter shows: counted before, answered for each task after."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import OperationalError
from django.test import Client

from agentstop import lifecycle
from agentstop.bulk import stop_all
from agentstop.models import Decision, Task
from agentstop.runs import begin
from agentstop.stop import StopReport, stop
from agentstop.views import list_views
from tests.lists.many import in_doubt, many_tasks, under_way
from tests.test_views import browser, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

MINE = "/tasks/stop/?mine=1"


def named(asked: Any) -> str:
    """What the form of the question names."""
    found = re.search(r'name="tasks" value="([^"]*)"', text_of(asked))
    return str(found[1]) if found else ""


def confirm(client: Client, asked: Any, address: str = MINE, **data: str) -> Any:
    return client.post(address, {"tasks": named(asked), **data})


def state(title: str) -> Any:
    return Task.objects.get(title=title).state


@pytest.fixture
def some(ann: User, ben: User) -> None:
    lifecycle.create("queued", owner=ann)
    under_way(ann, "accepted")
    in_doubt(ann, "in doubt")
    stop(begin("stopped", owner=ann).task_id, by=ann)
    begin("finished", owner=ann).finish()
    begin("of ben", owner=ben)


def test_it_asks_first_and_counts(ann: User, some: None) -> None:
    before = Decision.objects.count()
    text = text_of(browser(ann).get(MINE))
    assert "Stop everything of yours?" in text
    assert "3 tasks will be stopped." in text
    assert "2 operations are open" in text
    assert "Stop 3 tasks" in text
    assert "stopped</bdi>" not in text and "of ben" not in text
    assert Decision.objects.count() == before


def test_a_task_that_is_named_without_its_run_is_an_error(ann: User, some: None) -> None:
    """A press names what it saw: with no number it would stop whatever runs now."""
    task = Task.objects.get(title="queued").pk
    with pytest.raises(ValueError, match=f"no run of task {task}"):
        stop_all(ann, by=ann, seen={task: None})  # type: ignore[dict-item]
    assert state("queued") == state("accepted") == "active"


def test_what_was_confirmed_is_stopped_and_each_task_answers(ann: User, some: None) -> None:
    client = browser(ann)
    answered = confirm(client, client.get(MINE), reason="enough for today")
    text = text_of(answered)
    assert (answered.status_code, "3 tasks stopped" in text) == (200, True)
    assert text.count("Stopped. Nothing new will be sent.") == 3
    assert text.count("1 operation has left and may still have its effect.") == 2
    assert [state(title) for title in ("queued", "accepted", "in doubt", "finished", "of ben")] == [
        "stopped", "stopped", "stopped", "finished", "active"
    ]  # fmt: skip
    assert Task.objects.get(title="queued").stop_reason == "enough for today"
    assert "Nothing of it is running" in text_of(client.get(MINE))


def test_one_failure_hides_no_answer_and_comes_first(ann: User, some: None, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Task.objects.get(title="accepted").pk

    def breaking(task: int, **options: Any) -> StopReport:
        if task == failing:
            raise OperationalError("the server closed the connection")
        return stop(task, **options)

    client = browser(ann)
    asked = client.get(MINE)
    monkeypatch.setattr("agentstop.reports.bulk_report.stop", breaking)
    text = text_of(confirm(client, asked))
    assert "1 task not stopped · 2 tasks stopped" in text
    assert text.index("Not stopped: OperationalError.") < text.index("Stopped. Nothing new will be sent.")
    assert [state(title) for title in ("queued", "accepted", "in doubt")] == ["stopped", "active", "stopped"]


def test_what_finished_and_still_has_something_under_way_is_cancelled_too(ann: User) -> None:
    run = begin("finished", owner=ann)
    with run.dispatch("file.upload", connector="tools", key="k") as op:
        op.accepted(ref="r")
    run.finish()
    client = browser(ann)
    asked = client.get(MINE)
    assert "1 task has finished already." in text_of(asked)
    assert "It had finished before; what is under way is to be cancelled" in text_of(confirm(client, asked))
    assert Decision.objects.filter(verb="cancel").count() == 1
    assert named(client.get(MINE)) == ""


def test_only_what_the_filter_and_the_search_show_is_stopped(ann: User, some: None) -> None:
    client = browser(ann)
    address = "/tasks/stop/?show=unknown&q=DOUBT"
    asked = client.get(address)
    assert "Unknown outcome" in text_of(asked) and "<bdi>DOUBT</bdi>" in text_of(asked)
    assert "1 task will be stopped." in text_of(asked)
    confirm(client, asked, address)
    assert [state(title) for title in ("queued", "accepted", "in doubt")] == ["active", "active", "stopped"]


def test_an_operator_stops_what_a_filter_shows_of_others_and_mine_is_only_their_own(olga: User, some: None) -> None:
    client = browser(olga)
    assert named(client.get(MINE)) == ""
    address = "/tasks/stop/?q=ben"
    confirm(client, client.get(address), address)
    assert state("of ben") == "stopped"
    stopped = Task.objects.get(title="of ben")
    assert stopped.stopped_by == olga


def test_who_may_see_and_not_stop_is_told_before_and_after_and_it_is_recorded(olga: User, some: None) -> None:
    olga.user_permissions.remove(*Permission.objects.filter(codename="stop_task"))
    client = browser(User.objects.get(pk=olga.pk))
    address = "/tasks/stop/?q=ben"
    asked = client.get(address)
    assert "No task will be stopped." in text_of(asked)
    assert "1 task you may not stop; the try will be recorded." in text_of(asked)
    assert "1 task not stopped" in text_of(confirm(client, asked, address))
    assert state("of ben") == "active"
    assert Decision.objects.filter(verb="stop", effect="denied", by=olga).count() == 1


def test_tasks_of_others_that_a_form_names_stay_secret_and_untouched(ben: User, some: None) -> None:
    secret = Task.objects.get(title="accepted")
    text = text_of(browser(ben).post(MINE, {"tasks": f"{secret.pk}:1 999999:1"}))
    assert "2 tasks not stopped" in text
    assert "accepted" not in text
    assert state("accepted") == "active"


def test_a_run_that_began_after_the_question_is_not_stopped(ann: User) -> None:
    run = begin("Report", owner=ann)
    client = browser(ann)
    asked = client.get(MINE)
    stop(run.task_id, by=ann)
    begin(run.task_id, by=ann)
    assert "a newer run has begun since you looked" in text_of(confirm(client, asked))
    assert state("Report") == "active"


def test_more_than_one_press_can_stop_are_counted_and_stopped_in_turn(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_views, "MOST", 3)
    many_tasks(lifecycle.create("Report 0", owner=ann), 6)
    client = browser(ann)
    assert "4 more are left after that, to be stopped next." in text_of(client.get(MINE))
    for left in (4, 1, 0):
        answered = confirm(client, client.get(MINE))
        assert f'href="{MINE.replace("&", "&amp;")}"' in text_of(answered)
        assert Task.objects.filter(state="active").count() == left


@pytest.mark.parametrize("tasks", ["", "x", "1", "1:1,2:2", "1:1  2:2", "1:" + "9" * 10, "٣:1", "1:1\n"])
def test_a_press_that_names_no_tasks_is_turned_down(ann: User, some: None, tasks: str) -> None:
    assert browser(ann).post(MINE, {"tasks": tasks}).status_code == 400
    assert state("queued") == "active"


def test_a_press_that_names_too_many_is_turned_down(ann: User) -> None:
    named = " ".join(f"{number}:1" for number in range(list_views.MOST + 1))
    assert browser(ann).post(MINE, {"tasks": named}).status_code == 400


def test_a_form_without_its_token_and_a_stranger_stop_nothing(ann: User, some: None) -> None:
    asked = browser(ann).get(MINE)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ann)
    assert confirm(strict, asked).status_code == 403
    answer = confirm(Client(), asked)
    assert (answer.status_code, answer["Location"].startswith("/accounts/login/?next=")) == (302, True)
    assert state("queued") == "active"


def test_who_leaves_it_goes_back_to_where_they_came_from_and_nowhere_else(ann: User, some: None) -> None:
    client = browser(ann)
    assert 'href="/somewhere/?show=open"' in text_of(client.get(f"{MINE}&next=/somewhere/%3Fshow%3Dopen"))
    assert 'href="/tasks/"' in text_of(client.get(f"{MINE}&next=https://evil.example/"))
