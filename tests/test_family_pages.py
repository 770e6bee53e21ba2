"""Families on the pages: who works for whom and why it goes on; pause, resume, new runs, by forms and by script."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from agentstop import starting
from agentstop.accounts import account, family_account
from agentstop.exceptions import Stopped, Superseded
from agentstop.lifecycle import create
from agentstop.models import Decision, ServingLink, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause
from agentstop.reports import report
from agentstop.reports.family_report import FamilyReport
from agentstop.runs import Run, begin, serve
from agentstop.stop import stop
from tests.observed import task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

SCRIPTED = {"Agentstop-Request": "panel"}
started: list[Run] = []


def runner(run: Run) -> None:
    """What the host does to start an agent."""
    started.append(run)


def broken_runner(run: Run) -> None:
    raise OSError("the queue is full")


@pytest.fixture(autouse=True)
def runs_agents(settings: Settings) -> None:
    settings.AGENTSTOP_RUNNER = "tests.test_family_pages.runner"
    started.clear()


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(user: User, task: int, path: str = "") -> str:
    answer = browser(user).get(f"/tasks/{task}/{path}")
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def press(user: User, task: int, what: str, *, scripted: bool = True, **data: Any) -> Any:
    return browser(user).post(f"/tasks/{task}/{what}/", data, headers=SCRIPTED if scripted else {})


def said(answer: Any) -> str:
    found = re.search(r'<p class="agentstop-message"[^>]*>(.*?)</p>', answer.content.decode(), re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def enabled(text: str) -> set[str]:
    """Which of the three do something."""
    buttons = re.findall(r'<button type="submit" form="[^"]*-(pause|resume|new-run)"', text)
    return set(buttons)


def reasons(text: str) -> str:
    found = re.search(r'<span class="[^"]*agentstop-why-not"[^>]*>(.*?)</span>', text)
    return found[1] if found else ""


def told(run: Run) -> FamilyReport:
    found = report.load(run.task_id, task_of(run).owner)
    return found[0].family


def whys(run: Run) -> dict[str, str]:
    return {child.task.title: child.why.value for child in told(run).children}


def active(ann: User) -> Run:
    return begin("Report", owner=ann)


def queued(ann: User) -> Run:
    return Run(create("Report", owner=ann).pk, 0)


def paused(ann: User) -> Run:
    run = active(ann)
    pause(run.task_id, by=ann)
    return run


def held(ann: User) -> Run:
    parent = begin("Parent", owner=ann)
    run = begin("Report", serves=[parent])
    pause(parent.task_id, by=ann, reason="let me look")
    return run


def held_twice(ann: User) -> Run:
    run = held(ann)
    pause(run.task_id, by=ann, reason="myself")
    return run


def stopped(ann: User) -> Run:
    run = active(ann)
    stop(run.task_id, by=ann)
    return run


def finished(ann: User) -> Run:
    run = active(ann)
    run.finish()
    return run


class TestButtons:
    @pytest.mark.parametrize(
        ("state", "works", "why"),
        [
            (queued, {"pause", "new-run"}, "Resume: it is not paused."),
            (active, {"pause", "new-run"}, "Resume: it is not paused."),
            (paused, {"resume"}, "Pause: it is paused already. New run: it is paused. Resume it first."),
            (
                held,
                {"pause"},
                "Resume: tasks that it works for are paused, and it goes on with them. "
                "New run: it is paused. Resume it first.",
            ),
            (held_twice, {"resume"}, "Pause: it is paused already. New run: it is paused. Resume it first."),
            (stopped, {"new-run"}, "Stop, Pause, Resume: it is stopped."),
            (finished, {"new-run"}, "Stop, Pause, Resume: it has finished."),
        ],
    )
    def test_each_works_in_its_states_and_says_why_it_does_not_in_others(
        self, ann: User, state: Callable[[User], Run], works: set[str], why: str
    ) -> None:
        """What is offered does something, and what is not offered would not."""
        run = state(ann)
        text = page(ann, run.task_id)
        assert (enabled(text), reasons(text)) == (works, why)
        for what in ("pause", "resume", "new-run"):
            run = state(ann)
            before = (task_of(run).state, task_of(run).last_run)
            causes = Decision.objects.filter(task=run.task_id, effect="applied").count()
            press(ann, run.task_id, what, run=run.number)
            task_of(run)
            applied = Decision.objects.filter(task=run.task_id, effect="applied").count()
            changed = before != (task_of(run).state, task_of(run).last_run) or applied > causes
            assert changed is (what in works), what

    def test_a_hold_says_who_and_why_and_through_whom(self, ann: User) -> None:
        text = page(ann, held_twice(ann).task_id)
        assert "Paused with <bdi>Parent</bdi> by <bdi>ann</bdi>" in text and "let me look" in text
        assert "Paused by <bdi>ann</bdi>" in text and "myself" in text

    @pytest.mark.parametrize("scripted", [True, False])
    def test_pause_and_resume_by_a_form(self, ann: User, scripted: bool) -> None:
        run = active(ann)
        answer = press(ann, run.task_id, "pause", scripted=scripted, next="/somewhere/")
        assert task_of(run).state == "paused"
        assert (answer.status_code, answer.get("Location")) == ((200, None) if scripted else (302, "/somewhere/"))
        answer = press(ann, run.task_id, "resume", scripted=scripted)
        assert task_of(run).state == "active"
        if scripted:
            assert enabled(html.unescape(answer.content.decode())) == {"pause", "new-run"}
            assert said(answer) == "Resume was pressed."

    def test_a_repeated_press_says_that_it_changed_nothing(self, ann: User) -> None:
        run = active(ann)
        press(ann, run.task_id, "pause")
        assert said(press(ann, run.task_id, "pause")) == "It was paused already, or is over: nothing was changed."
        press(ann, run.task_id, "resume")
        assert said(press(ann, run.task_id, "resume")) == "It was not paused by itself: nothing was changed."
        assert "goes on with that one" in said(press(ann, held_twice(ann).task_id, "resume"))

    @pytest.mark.parametrize("what", ["pause", "resume", "new-run"])
    def test_a_viewer_is_denied_on_record_and_a_stranger_finds_nothing(self, ann: User, ben: User, what: str) -> None:
        run = active(ann)
        assert press(ben, run.task_id, what, run="1").status_code == 404
        ben.user_permissions.add(Permission.objects.get(codename="view_task"))
        assert enabled(page(ben, run.task_id)) == set()
        assert "agentstop-controls" not in page(ben, run.task_id)
        assert press(ben, run.task_id, what, run="1").status_code == 403
        verb = {"new-run": "start"}.get(what, what)
        denied = Decision.objects.filter(task=run.task_id, effect="denied", by=ben)
        assert list(denied.values_list("verb", flat=True)) == [verb, verb]
        assert (task_of(run).state, task_of(run).last_run, started) == ("active", 1, [])

    @pytest.mark.parametrize("what", ["pause", "resume", "new-run"])
    def test_by_get_nothing_is_pressed(self, ann: User, what: str) -> None:
        assert browser(ann).get(f"/tasks/{active(ann).task_id}/{what}/").status_code == 405


class TestNewRuns:
    def test_a_new_run_is_begun_by_the_person_and_its_agent_started(self, ann: User) -> None:
        """R4, R25: restart by a person."""
        run = stopped(ann)
        answer = press(ann, run.task_id, "new-run", run=run.number)
        assert said(answer) == "A new run has begun."
        assert started == [Run(run.task_id, 2)]
        assert RunRow.objects.get(task=run.task_id, number=2).begun_by == ann
        started[0].check()

    def test_two_presses_on_the_same_page_begin_one(self, ann: User) -> None:
        run = stopped(ann)
        press(ann, run.task_id, "new-run", run=run.number)
        answer = press(ann, run.task_id, "new-run", run=run.number)
        assert said(answer) == "A newer run has begun since this page was drawn: no other was begun."
        assert (task_of(run).last_run, len(started)) == (2, 1)
        denied = Decision.objects.get(task=run.task_id, verb="start", effect="denied")
        assert denied.detail == {"why": "superseded"}

    def test_in_place_of_a_live_one_it_says_so(self, ann: User) -> None:
        run = active(ann)
        assert "New run, in place of this one" in page(ann, run.task_id)
        assert "New run, in place of this one" not in page(ann, stopped(ann).task_id)
        press(ann, run.task_id, "new-run", run=1)
        with pytest.raises(Superseded):
            run.check()

    def test_an_agent_that_cannot_be_started_leaves_a_run_that_has_failed(
        self, ann: User, settings: Settings, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings.AGENTSTOP_RUNNER = "tests.test_family_pages.broken_runner"
        run = stopped(ann)
        answer = press(ann, run.task_id, "new-run", run=run.number)
        assert "could not be started" in said(answer)
        row = RunRow.objects.get(task=run.task_id, number=2)
        assert (row.state, row.error) == ("failed", "The agent could not be started: OSError: the queue is full")
        assert [getattr(each, "action", "") for each in caplog.records if each.levelname == "ERROR"] == [
            "runner_failed"
        ]

    def test_where_the_site_starts_no_agents_there_is_no_button(self, ann: User, settings: Settings) -> None:
        settings.AGENTSTOP_RUNNER = ""
        run = stopped(ann)
        text = page(ann, run.task_id)
        assert (enabled(text), "new-run-button" in text, reasons(text)) == (
            set(), False, "Stop, Pause, Resume: it is stopped. New run: its agent is not started from here.",
        )  # fmt: skip
        assert "does not say how agents are started" in said(press(ann, run.task_id, "new-run", run=1))
        with pytest.raises(starting.NotStarted, match="AGENTSTOP_RUNNER"):
            starting.start(run.task_id, by=ann)
        assert task_of(run).last_run == 1

    @pytest.mark.parametrize("run", ["", "one", "-1", "9" * 10, "\x00"])
    def test_a_press_that_names_no_run_is_turned_down(self, ann: User, run: str) -> None:
        found = stopped(ann)
        assert press(ann, found.task_id, "new-run", run=run).status_code == 400
        assert task_of(found).last_run == 1

    def test_a_run_that_was_seen_is_of_an_old_task(self, ann: User) -> None:
        with pytest.raises(ValueError, match="a new task has none"):
            begin("new", owner=ann, run=1)


class TestFamily:
    def test_each_child_says_why_it_goes_on_or_not(self, ann: User) -> None:
        root, other = begin("root", owner=ann), begin("other", owner=ann)
        for title in ("works", "finished", "failed", "pressed", "paused"):
            begin(title, serves=[root])
        runs = {task.title: Run(task.pk, 1) for task in Task.objects.all()}
        begin("shared", serves=[root, other])
        begin("detached", serves=[root], detached=True)
        queued = create("queued", owner=ann)
        serve(queued, root)
        runs["finished"].finish()
        runs["failed"].fail("no idea")
        stop(runs["pressed"].task_id, by=ann)
        pause(runs["paused"].task_id, by=ann)
        assert whys(root) == {
            "works": "works", "finished": "finished", "failed": "failed", "pressed": "pressed", "paused": "paused",
            "shared": "works", "detached": "works", "queued": "queued",
        }  # fmt: skip
        stop(root.task_id, by=ann)
        assert whys(root) == {
            "works": "stopped_with", "finished": "finished", "failed": "failed", "pressed": "pressed",
            "paused": "stopped_with", "shared": "held", "detached": "detached", "queued": "stopped_with",
        }  # fmt: skip
        found = told(root)
        assert found.counts == "2 running · 4 stopped · 2 finished"
        assert found.stopped_with == "3 tasks that worked for it were stopped with it."
        shared = next(child for child in found.children if child.task.title == "shared")
        assert shared.holder is not None and shared.holder.title == "other"
        text = page(ann, root.task_id)
        assert "It goes on, since another task needs it." in text
        assert f'href="/tasks/{other.task_id}/"' in text

    def test_children_that_a_run_left_or_left_behind_or_that_were_born_late(self, ann: User) -> None:
        root = begin("root", owner=ann)
        begin("left", serves=[root])
        root.finish()
        assert whys(root) == {"left": "left"}
        again = begin(root.task_id)
        begin("behind", serves=[again])
        newer = begin(root.task_id)
        with pytest.raises(Stopped):
            begin("late", serves=[again])
        other = begin("other", owner=ann)
        shared = begin("shared", serves=[newer, other])
        newer.finish()
        stop(shared.task_id, by=ann)
        assert whys(root) == {
            "left": "left_behind",
            "behind": "left_behind",
            "late": "born_stopped",
            "shared": "pressed",
        }

    def test_a_grandchild_is_stopped_with_another_task(self, ann: User) -> None:
        root = begin("root", owner=ann)
        middle = begin("middle", serves=[root])
        begin("leaf", serves=[middle])
        stop(root.task_id, by=ann)
        assert (whys(root), whys(middle)) == ({"middle": "stopped_with"}, {"leaf": "stopped_elsewhere"})
        assert told(root).stopped_with == "2 tasks that worked for it were stopped with it."

    def test_the_parents_are_named_with_the_run_that_it_works_for(self, ann: User) -> None:
        one, two = begin("one", owner=ann), begin("two", owner=ann)
        child = begin("child", serves=[one, two])
        stop(two.task_id, by=ann)
        found = told(child).parents
        assert [(parent.task.title, parent.text) for parent in found] == [
            ("one", "It works for run 1, which is live."),
            ("two", "It worked for run 1, which is over."),
        ]
        text = page(ann, child.task_id)
        assert "It works for" in text and f'href="/tasks/{one.task_id}/"' in text

    def test_a_task_alone_has_no_family_and_costs_one_look(self, ann: User) -> None:
        run = active(ann)
        assert not told(run).any
        with CaptureQueriesContext(connection) as asked:
            found = account.load(run.task_id)
        assert found is not None and found.family == family_account.KnownFamily()
        assert len(asked) == 1  # that of the task tells whether there are links

    def test_a_finished_parent_whose_children_work_on_can_be_stopped_for_them(self, ann: User) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        root.finish()
        assert "Stop what still works for it" in page(ann, root.task_id)
        answer = press(ann, root.task_id, "stop", run=1)
        assert said(answer) == (
            "It had finished already. Only a person begins it again. 1 task that worked for it was stopped with it."
        )
        assert task_of(child).state == "stopped"
        assert "Stop what still works for it" not in page(ann, root.task_id)

    def test_the_answer_to_a_stop_counts_who_was_stopped_and_who_goes_on_and_why(self, ann: User) -> None:
        """R6."""
        root, other = begin("root", owner=ann), begin("other", owner=ann)
        for title in ("one", "two"):
            begin(title, serves=[root])
        begin("shared", serves=[root, other])
        begin("detached", serves=[root], detached=True)
        assert said(press(ann, root.task_id, "stop", run=1)) == (
            "2 tasks that worked for it were stopped with it. "
            "1 task below it goes on: it is detached, and has a Stop of its own. "
            "1 task below it goes on, since another task needs it."
        )
        again = said(press(ann, root.task_id, "stop", run=1))
        assert again.startswith("It was stopped already, by ann at") and "1 task below it goes on, since" in again
        begin(root.task_id, by=ann)
        assert said(press(ann, root.task_id, "stop", run=1)) == (
            "A newer run has begun since this page was drawn: nothing was stopped."
        )

    def test_the_answer_to_a_stop_counts_what_is_open_of_those_below(self, ann: User) -> None:
        """R6: nothing of the task itself is open, and what its child has sent goes on at its provider."""
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        with child.dispatch("job", connector="tools", key="k") as op:
            op.accepted("7")
        told = "1 operation of tasks below it has left and may still have its effect."
        answer = said(press(ann, root.task_id, "stop", run=1))
        assert answer == f"1 task that worked for it was stopped with it. {told}"
        assert told in said(press(ann, root.task_id, "stop", run=1))
        family = page(ann, root.task_id, "family/")
        assert told in family and "<p>1 operation open</p>" in family
        op.succeeded("done")
        assert told not in said(press(ann, root.task_id, "stop", run=1))
        family = page(ann, root.task_id, "family/")
        assert told not in family and "operation open" not in family

    def test_a_child_that_a_person_began_while_its_parent_was_over_is_told_as_being_on_its_own(self, ann: User) -> None:
        """R4: a press on its parent does not reach it, and none is offered for it."""
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        root.finish()
        press(ann, child.task_id, "new-run", run=1)
        assert whys(root) == {"child": "on_its_own"}
        text = page(ann, root.task_id)
        assert "It goes on by itself: a person began it anew, and it has a Stop of its own." in text
        assert "Stop what still works for it" not in text
        assert said(press(ann, root.task_id, "stop", run=1)).endswith(
            "1 task below it goes on: a person began it anew, and it has a Stop of its own."
        )
        assert task_of(child).state == "active"

    def test_titles_of_relatives_are_for_those_who_may_see_them(self, ann: User, ben: User, settings: Settings) -> None:
        """A reader of one task alone learns how many others there are, and no more."""
        root = begin("root", owner=ann)
        child = begin("secret child", serves=[root])
        settings.AGENTSTOP_MAY = "tests.test_family_pages.only_root"
        for user, told in ((ann, True), (ben, False)):
            for path in ("", "panel/", "family/"):
                assert ("secret child" in page(user, root.task_id, path)) is told, (user, path)
        assert "1 running" in page(ben, root.task_id)
        assert browser(ben).get(f"/tasks/{child.task_id}/").status_code == 404
        pause(root.task_id, by=ann)
        settings.AGENTSTOP_MAY = "tests.test_family_pages.all_but_root"
        text = page(ben, child.task_id)
        assert "Paused with a task that it works for" in text and "root" not in text

    def test_what_names_cannot_break_out_of_their_place(self, ann: User) -> None:
        root = begin("<script>alert(1)</script>", owner=ann)
        begin("<b>child</b>", serves=[root])
        text = browser(ann).get(f"/tasks/{root.task_id}/").content.decode()
        assert "<script>alert" not in text and "<b>child" not in text


class TestPages:
    def test_hundreds_of_children_are_counted_and_listed_in_pages(self, ann: User) -> None:
        """R6: what was stopped is counted, and named on pages of fifty."""
        root = begin("root", owner=ann)
        first = begin("child 0", serves=[root])
        task = task_of(first)
        tasks = Task.objects.bulk_create(
            Task(title=f"child {number}", owner=ann, family=task.family, state_since=task.state_since,
                 created_at=task.created_at)
            for number in range(1, 120)
        )  # fmt: skip
        ServingLink.objects.bulk_create(ServingLink(child=each, parent_id=root.task_id, parent_run=1) for each in tasks)
        text = page(ann, root.task_id)
        assert text.count('class="agentstop-relative"') == family_account.SHOWN
        assert "120 running" in text and "100 more children" in text
        assert said(press(ann, root.task_id, "stop", run=1)) == "120 tasks that worked for it were stopped with it."
        seen = set[str]()
        for number in (1, 2, 3):
            found = page(ann, root.task_id, f"family/?stopped={number}")
            stopped = found[found.index("Stopped with it") :]
            seen |= set(re.findall(r"<bdi>(child \d+)</bdi>", stopped))
            assert f"Page {number} of 3" in stopped
        assert len(seen) == 120
        assert "child 119" in page(ann, root.task_id, "family/?children=3")

    def test_it_is_nobodys_but_its_readers(self, ann: User, ben: User) -> None:
        run = active(ann)
        assert browser(ben).get(f"/tasks/{run.task_id}/family/").status_code == 404
        assert Client().get(f"/tasks/{run.task_id}/family/").status_code == 302
        assert "No tasks." in page(ann, run.task_id, "family/?children=x&stopped=-1")


def only_root(user: User, permission: str, task: Task) -> bool:
    return task.owner_id == user.pk or task.title == "root"


def all_but_root(user: User, permission: str, task: Task) -> bool:
    return task.owner_id == user.pk or task.title != "root"
