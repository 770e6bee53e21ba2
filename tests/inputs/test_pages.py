"""What people type, on the task's page: with and without JavaScript, for the owner, an operator and everybody else."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape
from pytest_django.fixtures import Settings

from agentstop import lifecycle
from agentstop.accounts import account, input_account
from agentstop.folds.input_states import Became, FoldedInput, InputFact, InputState, Sent, fold_input
from agentstop.inputs import LONGEST, add, release, withdraw
from agentstop.models import Decision, Input, InputEvent
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.words.input_wording import NAMES, read_input
from tests.inputs.reading import folded

SCRIPTED = {"Agentstop-Request": "panel"}
NASTY = "<script>alert(1)</script> \u202etxt.exe"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def takes_input(settings: Settings) -> None:
    settings.AGENTSTOP_TAKES_INPUT = True


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def post(user: User, task: int, what: str, *, scripted: bool = False, **data: Any) -> Any:
    address = f"/tasks/{task}/input/{what}/" if what else f"/tasks/{task}/input/"
    return browser(user).post(address, data, headers=SCRIPTED if scripted else {})


def page(user: User, task: int) -> str:
    answer = browser(user).get(f"/tasks/{task}/")
    assert answer.status_code == 200
    return answer.content.decode()


def section(text: str, task: int, name: str) -> str:
    """One of the lists, as it stands on the page."""
    found = re.search(rf'<p [^>]*id="agentstop-task-{task}-{name}">.*?</ul>', text, re.S)
    return found.group() if found else ""


def test_what_is_typed_waits_is_taken_and_is_done(ann: User) -> None:
    run = begin("Report", owner=ann)
    answer = post(ann, run.task_id, "", text="also in French\r\nand shorter", next="/somewhere/")
    assert (answer.status_code, answer["Location"]) == (302, "/somewhere/")
    assert Input.objects.get().body == "also in French\nand shorter"
    waiting = section(page(ann, run.task_id), run.task_id, "waiting")
    assert "also in French<br>and shorter" in waiting
    assert "waiting, not sent yet" in waiting and "The agent gets it when it asks next." in waiting
    taken = run.take_input()
    assert taken is not None
    assert "with the agent" in section(page(ann, run.task_id), run.task_id, "waiting")
    run.input_done(taken)
    assert "says that it is done with it" in section(page(ann, run.task_id), run.task_id, "over")


def test_after_a_stop_each_text_is_shown_as_held_and_how_far_it_got(ann: User) -> None:
    """R10."""
    run = begin("Report", owner=ann)
    for text in ("first", "second", "third", "fourth"):
        post(ann, run.task_id, "", text=text)
    first, _second = run.take_input(), run.take_input()
    assert first is not None and run.input_done(first)
    browser(ann).post(f"/tasks/{run.task_id}/stop/", {"run": "1"})
    post(ann, run.task_id, "", text="typed after the stop")
    text = page(ann, run.task_id)
    held, waiting, over = (section(text, run.task_id, name) for name in ("held", "waiting", "over"))
    assert [word in held for word in ("first", "second", "third", "fourth", "typed after")] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert held.count("held, never sent") == 2
    assert held.count("held, unknown whether it was acted on") == 1
    assert "typed after the stop" in waiting and "The next run gets it." in waiting
    assert "first" in over


def test_release_and_withdraw_work_without_javascript_and_say_what_happens(ann: User) -> None:
    run = begin("Report", owner=ann)
    one, two = add(run.task_id, "one", by=ann), add(run.task_id, "two", by=ann)
    stop(run.task_id, by=ann)
    text = page(ann, run.task_id)
    for name, action in (("release", "release/"), ("withdraw", "withdraw/")):
        assert (
            f'id="agentstop-task-{run.task_id}-{name}" method="post" action="/tasks/{run.task_id}/input/{action}"'
            in text
        )
        assert f'form="agentstop-task-{run.task_id}-{name}" name="input" value="{one.id}"' in text
    assert post(ann, run.task_id, "release", input=one.id).status_code == 302
    assert post(ann, run.task_id, "withdraw", input=two.id).status_code == 302
    assert [folded(each.id).state for each in (one, two)] == [InputState.WAITING, InputState.WITHDRAWN]
    text = page(ann, run.task_id)
    assert "Released by ann." in section(text, run.task_id, "waiting")
    assert "Withdrawn by ann." in section(text, run.task_id, "over")
    assert section(text, run.task_id, "held") == ""


def test_by_the_script_the_answer_is_the_body_with_a_word_about_the_press(ann: User) -> None:
    run = begin("Report", owner=ann)
    told = post(ann, run.task_id, "", text="one", scripted=True).content.decode()
    assert "What you typed was kept." in told and "The agent gets it when it asks next." in told
    typed = Input.objects.get().pk
    assert "nothing was changed" in post(ann, run.task_id, "release", input=typed, scripted=True).content.decode()
    assert "It was withdrawn." in post(ann, run.task_id, "withdraw", input=typed, scripted=True).content.decode()
    assert "nothing was changed" in post(ann, run.task_id, "withdraw", input=typed, scripted=True).content.decode()
    run.finish()
    told = post(ann, run.task_id, "", text="two", scripted=True).content.decode()
    assert "The next run gets it." in told
    assert "csrfmiddlewaretoken" not in told and "<textarea" not in told


def test_what_cannot_be_kept_is_said_and_not_kept(ann: User) -> None:
    run = begin("Report", owner=ann)
    assert "Nothing was typed" in post(ann, run.task_id, "", text=" \r\n", scripted=True).content.decode()
    assert "at most 100" in post(ann, run.task_id, "", text="x" * (LONGEST + 1), scripted=True).content.decode()
    assert not Input.objects.exists()


@pytest.mark.parametrize("number", ["", "x", "-1", "9" * 30, "999999"])
@pytest.mark.parametrize("what", ["release", "withdraw"])
def test_a_number_that_is_none_of_the_task_is_not_found(ann: User, what: str, number: str) -> None:
    run = begin("Report", owner=ann)
    assert post(ann, run.task_id, what, input=number).status_code == 404


def test_input_of_another_task_is_not_found_by_its_number(ann: User) -> None:
    run, other = begin("Report", owner=ann), begin("Other", owner=ann)
    held = add(other.task_id, "one", by=ann)
    stop(other.task_id, by=ann)
    assert post(ann, run.task_id, "release", input=held.id).status_code == 404
    assert folded(held.id).state is InputState.HELD


@pytest.mark.parametrize("what", ["", "release", "withdraw"])
def test_a_stranger_finds_nothing_and_a_viewer_is_refused_on_record(
    ann: User, ben: User, olga: User, what: str
) -> None:
    """R35."""
    run = begin("Report", owner=ann)
    held = add(run.task_id, "one", by=ann)
    stop(run.task_id, by=ann)
    data: dict[str, Any] = {"text": "mine", "input": held.id}
    assert post(ben, run.task_id, what, **data).status_code == 404
    olga.user_permissions.remove(*olga.user_permissions.filter(codename="start_run"))
    assert post(olga, run.task_id, what, **data).status_code == 403
    denied = Decision.objects.filter(effect="denied").order_by("pk")
    assert list(denied.values_list("verb", "by__username")) == [(what or "add", "ben"), (what or "add", "olga")]
    assert (folded(held.id).state, Input.objects.count()) == (InputState.HELD, 1)
    text = page(olga, run.task_id)
    assert "held, never sent" in text
    assert "data-agentstop-add" not in text and f'name="input" value="{held.id}"' not in text


def test_who_is_not_logged_in_is_asked_to(ann: User) -> None:
    run = begin("Report", owner=ann)
    answer = Client().post(f"/tasks/{run.task_id}/input/", {"text": "x"})
    assert answer.status_code == 302 and answer["Location"].startswith("/accounts/login/")
    assert Client().get(f"/tasks/{run.task_id}/input/").status_code in (302, 405)
    assert browser(ann).get(f"/tasks/{run.task_id}/input/").status_code == 405


def test_the_field_is_there_only_where_agents_take_input(ann: User, settings: Settings) -> None:
    run = begin("Report", owner=ann)
    assert "data-agentstop-add" in page(ann, run.task_id)
    settings.AGENTSTOP_TAKES_INPUT = False
    assert "data-agentstop-add" not in page(ann, run.task_id)
    add(run.task_id, "one", by=ann)
    assert "waiting, not sent yet" in page(ann, run.task_id)


def test_what_is_typed_cannot_act_on_the_page(ann: User) -> None:
    run = begin("Report", owner=ann)
    add(run.task_id, NASTY, by=ann)
    text = page(ann, run.task_id)
    assert NASTY not in text
    assert f"<bdi>{escape(NASTY)}</bdi>" in text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", text)


def test_a_long_text_is_shown_by_its_beginning_and_many_by_the_newest(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    add(task, "y" * (input_account.SHOWN + 1), by=ann)
    told = report.load(task.pk, ann)[0].inputs.waiting[0]
    assert (len(told.text), told.cut) == (input_account.SHOWN, True)
    assert "it goes on" in page(ann, task.pk)
    for number in range(input_account.OPEN):
        add(task, f"n{number}", by=ann)
    inputs = report.load(task.pk, ann)[0].inputs
    assert (len(inputs.waiting), inputs.waiting[0].text, inputs.more) == (input_account.OPEN, "n0", True)
    assert "Older ones are kept too" in page(ann, task.pk)


def test_many_take_no_more_queries_than_one(ann: User) -> None:
    counts = []
    for many in (1, 30):
        run = begin("Report", owner=ann)
        for number in range(many):
            add(run.task_id, f"{number}", by=ann)
        for each in run.take_inputs()[::2]:
            run.input_done(each)
        with CaptureQueriesContext(connection) as queries:
            assert report.load(run.task_id, ann)[0].inputs.any
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_each_change_is_seen_by_those_who_look_for_changes(ann: User) -> None:
    run = begin("Report", owner=ann)
    seen: list[Any] = [account.marks([run.task_id])]

    def changed() -> bool:
        seen.append(account.marks([run.task_id]))
        return bool(seen[-1] != seen[-2])

    one = add(run.task_id, "one")
    assert changed()
    two = add(run.task_id, "two")
    assert changed()
    assert run.take_input() == one and changed()
    run.input_done(one)
    assert changed()
    stop(run.task_id)
    assert changed()
    release(two, by=ann)
    assert changed()
    withdraw(two)
    assert changed()
    assert not changed()


def test_equal_words_have_an_equal_digest_and_others_another(ann: User) -> None:
    run = begin("Report", owner=ann)
    first = report.load(run.task_id, ann)[0].digest
    add(run.task_id, "one", by=ann)
    second = report.load(run.task_id, ann)[0].digest
    assert first != second == report.load(run.task_id, ann)[0].digest


def test_every_state_has_words_and_none_claims_more_than_is_known() -> None:
    for (state, sent), name in NAMES.items():
        for live in (True, False):
            reading = read_input(FoldedInput(state, sent, 1 if sent is not Sent.NEVER else None), live=live)
            assert reading.name and reading.evidence and "None" not in reading.evidence
            assert ("never sent" in name or "not sent yet" in name) == (sent is Sent.NEVER)
            assert (state is InputState.DONE) == (name == "sent")
            if state in (InputState.HELD, InputState.UNKNOWN, InputState.WAITING) and sent is Sent.UNKNOWN:
                assert "twice" in reading.evidence


def test_every_state_that_the_fold_gives_has_a_name() -> None:
    words = [InputFact(each) for each in (Became.HELD, Became.RELEASED, Became.WITHDRAWN)]
    words += [InputFact(each, run) for each in (Became.TAKEN, Became.DONE) for run in (1, 2)]
    found = {
        (each.state, each.sent)
        for many in range(5)
        for facts in product(words, repeat=many)
        for each in [fold_input(facts, 2)]
    }
    assert found == set(NAMES)


def test_an_event_belongs_to_what_it_says(ann: User) -> None:
    """The database itself refuses a stop that holds nothing, and a taking by no run."""
    run = begin("Report", owner=ann)
    typed = add(run.task_id, "one").id
    for wrong in ({"became": "held"}, {"became": "taken"}, {"became": "released", "run": 1}, {"became": "nonsense"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            InputEvent.objects.create(input_id=typed, at=timezone.now(), **wrong)


def test_a_run_handle_of_another_process_takes_as_well(ann: User) -> None:
    run = begin("Report", owner=ann)
    typed = add(run.task_id, "one", by=ann)
    assert Run.from_token(run.token).take_input() == typed
