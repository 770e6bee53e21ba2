"""What the site's pages show, and to whom."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agentstop import lifecycle, listing
from agentstop.models import Decision, Task
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from website.csp import POLICY
from website.demo import agent
from website.demo.models import Job, JobState

Wishes = Callable[..., dict[str, Any]]


def test_a_stranger_is_sent_to_the_login_page_and_back(client: Client) -> None:
    answer = client.get("/tasks/1/")
    assert (answer.status_code, answer["location"]) == (302, "/login/?next=/tasks/1/")


def test_the_login_page_leads_to_the_tasks(client: Client, ann: User) -> None:
    answer = client.post("/login/", {"username": "ann", "password": "ann"})
    assert (answer.status_code, answer["location"]) == (302, "/")


@pytest.mark.parametrize("path", ["/", "/login/", "/nothing/here/", "/static/nothing.css"])
def test_every_response_has_the_strict_policy(browser: Client, path: str) -> None:
    assert browser.get(path)["content-security-policy"] == POLICY


def test_no_page_holds_inline_script_or_style(browser: Client, ann: User, wishes: Wishes) -> None:
    task = browser.post("/start/", wishes())["location"]
    for path in ("/", task, "/nothing/"):
        text = browser.get(path).content.decode()
        assert "style=" not in text
        assert "<style" not in text
        assert all(" src=" in tag for tag in text.split("<script")[1:])


def test_starting_a_task_queues_a_job_and_leads_to_its_page(browser: Client, ann: User, wishes: Wishes) -> None:
    answer = browser.post("/start/", wishes(topic="sales", troubles=["slow", "drop"]))
    job = Job.objects.get()
    assert answer["location"] == f"/tasks/{job.task_id}/"
    assert (job.task.owner, job.task.title, job.run, job.state) == (ann, "sales", None, JobState.QUEUED)
    page = browser.get(answer["location"]).content.decode()
    assert "drops the connection after accepting" in page
    assert f"http://127.0.0.1:9/?task=task%20{job.task_id}" in page


def test_a_note_is_asked_of_the_mcp_server_and_its_log_stands_beside_it(
    browser: Client, website: Any, wishes: Wishes
) -> None:
    website.NOTES_ADDRESS = "http://127.0.0.1:10"
    assert 'value="note"' in browser.get("/").content.decode()
    answer = browser.post("/start/", wishes(kind="note"))
    job = Job.objects.get()
    assert [each.action for each in job.effects()] == ["read_sources", "write_note"]
    assert f"http://127.0.0.1:10/?task=task%20{job.task_id}" in browser.get(answer["location"]).content.decode()
    refused = browser.post("/start/", wishes(kind="note", troubles=["drop"]))
    assert (refused.status_code, Job.objects.count()) == (422, 1)


def test_a_queue_is_offered_where_it_runs_and_said_to_be_absent_where_it_does_not(
    browser: Client, website: Any, wishes: Wishes
) -> None:
    website.HAS_DJANGO_TASKS = True
    without = browser.get("/").content.decode()
    assert 'value="tasks"' in without and 'value="chain"' not in without and "install redis-server" in without
    assert browser.post("/start/", wishes(kind="chain")).status_code == 422
    website.BROKER = "redis://127.0.0.1:10"
    both = browser.get("/").content.decode()
    assert 'value="chain"' in both and "install redis-server" not in both
    page = browser.get(browser.post("/start/", wishes(kind="chain"))["location"]).content.decode()
    assert "a chain of Celery jobs" in page and Job.objects.get().kind == "chain"


@pytest.mark.parametrize(
    "bad",
    [
        {"topic": ""},
        {"topic": "x" * 101},
        {"topic": "nul \0"},
        {"channel": ""},
        {"pace": "-1"},
        {"pace": "nan"},
        {"pace": "1e9"},
        {"troubled": "lunch"},
        {"kind": "lunch"},
        {"troubles": ["lunch"]},
        {"troubled": "upload", "troubles": ["refuse_cancel"]},
    ],
    ids=repr,
)
def test_bad_input_is_told_on_the_form_and_starts_nothing(
    browser: Client, wishes: Wishes, bad: dict[str, Any], settings: Any
) -> None:
    settings.NOTES_ADDRESS = "http://127.0.0.1:10"
    answer = browser.post("/start/", wishes(**bad))
    assert answer.status_code == 422
    assert 'class="errorlist"' in answer.content.decode()
    assert not Task.objects.exists()


def test_a_form_without_its_token_starts_nothing(ann: User, wishes: Wishes) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    answer = client.post("/start/", wishes())
    assert answer.status_code == 403
    assert "without the token" in answer.content.decode()
    assert not Task.objects.exists()


def test_others_get_the_same_answer_for_a_task_as_for_none(
    client: Client, ben: User, ann: User, wishes: Wishes
) -> None:
    task = lifecycle.create("a secret title", owner=ann)
    client.force_login(ben)
    for number in (task.pk, 999_999_999):
        for answer in (client.get(f"/tasks/{number}/"), client.post(f"/tasks/{number}/start/", wishes())):
            assert answer.status_code == 404
            assert "There is nothing here" in answer.content.decode()
    assert "secret title" not in client.get("/").content.decode()


def test_an_operator_sees_the_tasks_of_all_and_whose_they_are(client: Client, olga: User, ann: User) -> None:
    task = lifecycle.create("quarterly", owner=ann)
    client.force_login(olga)
    page = client.get("/").content.decode()
    assert "quarterly" in page
    assert "ann" in page
    assert client.get(f"/tasks/{task.pk}/").status_code == 200


def test_the_list_of_the_site_is_that_of_the_package(browser: Client, ann: User) -> None:
    for number in range(listing.SIZE + 2):
        lifecycle.create(f"task number {number}", owner=ann)
    first = browser.get("/").content.decode()
    assert f"task number {listing.SIZE + 1}" in first
    assert "task number 1<" not in first
    assert "task number 1<" in browser.get(f"/?before={Task.objects.earliest('pk').pk + 2}").content.decode()
    assert browser.get("/?before=nonsense&show=nonsense").status_code == 200
    assert 'name="next" value="/?show=active"' in browser.get("/?show=active").content.decode()


def told(browser: Client, page: str) -> str:
    """By the ledger, as a part of this page."""
    return browser.get(f"{page}ledger/").content.decode()


class TestTheLedgerBesideThePanel:
    """The provider's own word, asked anew at each look, so that a person can compare."""

    def test_it_is_what_the_provider_has_and_nothing_of_others(
        self, browser: Client, wishes: Wishes, website: Any, sandbox: SandboxClient, in_thread: InThread
    ) -> None:
        website.SANDBOX_ADDRESS = sandbox.address
        page = browser.post("/start/", wishes())["location"]
        assert "has nothing of this task" in told(browser, page)
        sandbox.hold("accepted", "figures")
        job = Job.objects.get()
        working = in_thread(agent.work, job, Run(job.task_id, begin(job.task).number))
        sandbox.wait("accepted", "figures")
        assert re.findall(r"report \d+: figures|running", told(browser, page))[1:] == ["running"]
        sandbox.release("accepted", "figures")
        working.result(HANG_GUARD)
        assert told(browser, page).count("succeeded") == 3
        other = browser.post("/start/", wishes(topic="others"))["location"]
        assert "has nothing of this task" in told(browser, other)

    def test_a_provider_that_does_not_answer_is_told_of_and_nothing_is_claimed(
        self, browser: Client, wishes: Wishes
    ) -> None:
        page = browser.post("/start/", wishes())["location"]
        assert "does not answer now" in told(browser, page)

    def test_a_stranger_gets_none_and_who_is_logged_out_nothing(self, browser: Client, wishes: Wishes) -> None:
        page = browser.post("/start/", wishes())["location"]
        browser.logout()
        assert browser.get(f"{page}ledger/").status_code == 204, "else the login page would stand in the page"
        browser.force_login(User.objects.create_user("stranger"))
        assert browser.get(f"{page}ledger/").status_code == 404


def test_a_stopped_task_is_started_again_by_its_owner(browser: Client, ann: User, wishes: Wishes) -> None:
    task = Task.objects.get(pk=begin("figures", owner=ann).task_id)
    stop(task, by=ann)
    answer = browser.post(f"/tasks/{task.pk}/start/", wishes())
    task.refresh_from_db()
    assert (answer.status_code, task.state, task.live_run) == (302, "active", 2)
    assert Job.objects.get().run == 2


def test_a_task_that_is_under_way_is_not_started_again(browser: Client, ann: User, wishes: Wishes) -> None:
    run = begin("figures", owner=ann)
    answer = browser.post(f"/tasks/{run.task_id}/start/", wishes(), follow=True)
    assert "is under way" in answer.content.decode()
    assert not Job.objects.exists()
    run.check()


def test_who_may_not_start_runs_is_told_so_and_it_is_recorded(
    client: Client, olga: User, ann: User, wishes: Wishes
) -> None:
    olga.user_permissions.remove(*olga.user_permissions.filter(codename="start_run"))
    run = begin("figures", owner=ann)
    stop(run.task_id, by=ann)
    client.force_login(olga)
    answer = client.post(f"/tasks/{run.task_id}/start/", wishes())
    assert answer.status_code == 403
    assert "not start it" in answer.content.decode()
    assert Decision.objects.filter(verb="start", effect="denied", by=olga).exists()


def test_stop_pressed_on_the_sites_page_leads_back_to_it(browser: Client, ann: User) -> None:
    run = begin("figures", owner=ann)
    path = f"/tasks/{run.task_id}/"
    answer = browser.post(f"/tasks/{run.task_id}/stop/", {"run": run.number, "next": path})
    assert answer["location"] == path
    assert "Stopped by" in browser.get(path).content.decode()


def test_without_a_provider_the_page_says_how_to_get_one(browser: Client, website: Any) -> None:
    website.SANDBOX_ADDRESS = ""
    page = browser.get("/").content.decode()
    assert "make demo" in page
    assert 'action="/start/"' not in page


def test_the_package_leads_to_the_sites_own_page_of_a_task(browser: Client, ann: User) -> None:
    run = begin("figures", owner=ann)
    assert reverse("agentstop:task", args=[run.task_id]) == reverse("task", args=[run.task_id])
    page = browser.get(reverse("agentstop:task", args=[run.task_id])).content.decode()
    assert 'class="brand"' in page
    assert "What really happened" in page


def test_the_packages_own_pages_look_like_the_sites(client: Client, olga: User, ann: User) -> None:
    olga.user_permissions.remove(*olga.user_permissions.filter(codename="stop_task"))
    run = begin("figures", owner=ann)
    client.force_login(olga)
    answer = client.post(f"/tasks/{run.task_id}/stop/", {"run": run.number})
    assert answer.status_code == 403
    assert 'class="brand"' in answer.content.decode()
