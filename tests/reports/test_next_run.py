"""What a stop leaves to the next run: what people typed, held or not, and the calls of the old one (R10, R28).

Shown elsewhere:

| case | where |
|---|---|
| an input is held or taken, never both and never lost, whoever is faster | `inputs/test_races.py` |
| on-finish and on-stop code against each other, a hundred seeds | `test_ending.py` |
| an old tool ends while a new run works: out of its context | `gate/test_under_way.py`, row 8; `test_late_results.py` |
| the new run is not disturbed by the old one's call and agent | `test_work_goes_on.py` |
| each text, by every way in which a call can be left | `test_inheritance.py` |
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.exceptions import Stopped, Unanswered
from agentstop.folds.input_states import InputState
from agentstop.models import Receipt
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.inputs.reading import states
from tests.observed import call_outcomes, task_of
from tests.reports.acts import NOTIFY, UPLOAD, ask, ask_as_before, assert_agrees, operation, page, seen, words

pytestmark = pytest.mark.django_db(transaction=True)


def press(user: User, run: Run, what: str, /, **data: Any) -> None:
    """As somebody does it on the page."""
    client = Client()
    client.force_login(user)
    assert client.post(f"/tasks/{run.task_id}/{what}/", data).status_code == 302


def follow_up(run: Run) -> None:
    """An agent acts on what was typed, one text after the other."""
    while (typed := run.take_input()) is not None:
        if run.call(NOTIFY, words(typed.text), connector="sandbox", key=f"input:{typed.id}").accepted:
            run.input_done(typed)


def posted(sandbox: SandboxClient) -> list[str]:
    return [effect["text"] for effect in sandbox.ledger()["effects"]]


def test_of_three_queued_follow_ups_none_is_sent_and_all_are_shown_as_held(
    sandbox: SandboxClient, in_thread: InThread, ann: User, settings: Settings
) -> None:
    """R10: they were typed while the agent was busy; the stop comes before it asks for them."""
    settings.AGENTSTOP_TAKES_INPUT = True
    run, ended = begin("Notify", owner=ann), list[str]()
    sandbox.hold("received", "first")

    def agent() -> None:
        with run.ending(on_finish=lambda run: ended.append("finish"), on_stop=lambda run: ended.append("stop")):
            ask(run, "first")
            follow_up(run)

    working = in_thread(pytest.raises, Stopped, agent)
    sandbox.wait("received", "first")
    for text in ("also this", "and that", "and those"):
        press(ann, run, "input", text=text)
    press(ann, run, "stop", run=run.number)
    working.result(HANG_GUARD)
    sandbox.release("received", "first")
    sending.close()
    assert posted(sandbox) in (["first"], [])
    assert ended == ["stop"]
    shown = page(ann, run)
    assert shown.count("held, never sent") == 3
    assert all(text in shown for text in ("also this", "and that", "and those"))
    newer = begin(run.task_id, by=ann)
    with newer.ending(on_finish=lambda run: ended.append("finish")):
        follow_up(newer)
    assert set(posted(sandbox)) <= {"first"}
    assert states(run.task_id) == [InputState.HELD] * 3
    assert ended == ["stop", "finish"]
    assert_agrees(sandbox, run)


def test_of_what_is_held_only_what_a_person_releases_is_sent(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Notify", owner=ann)
    for text in ("one", "two"):
        press(ann, run, "input", text=text)
    press(ann, run, "stop", run=run.number)
    held = list(task_of(run).inputs.order_by("pk").values_list("pk", flat=True))
    press(ann, run, "input/release", input=held[1])
    assert posted(sandbox) == []
    follow_up(begin(run.task_id, by=ann))
    assert posted(sandbox) == ["two"]
    assert states(run.task_id) == [InputState.HELD, InputState.DONE]
    assert_agrees(sandbox, run)


def test_what_was_taken_when_the_stop_came_is_unknown_and_not_sent_again_by_itself(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The agent was acting on the first of two when it was stopped."""
    run = begin("Notify", owner=ann)
    for text in ("one", "two"):
        press(ann, run, "input", text=text)
    sandbox.hold("received", "one")
    working = in_thread(pytest.raises, Stopped, follow_up, run)
    sandbox.wait("received", "one")
    press(ann, run, "stop", run=run.number)
    working.result(HANG_GUARD)
    shown = page(ann, run)
    assert "held, unknown whether it was acted on" in shown and "held, never sent" in shown
    assert states(run.task_id) == [InputState.UNKNOWN, InputState.HELD]
    sandbox.release("received", "one")
    newer = begin(run.task_id, by=ann)
    follow_up(newer)
    sending.close()
    assert set(posted(sandbox)) <= {"one"}
    press(ann, run, "input/release", input=task_of(run).inputs.earliest("pk").pk)
    follow_up(newer)
    assert posted(sandbox) == ["one"]  # its key names the effect: it is not done twice
    assert states(run.task_id) == [InputState.DONE, InputState.HELD]
    assert_agrees(sandbox, run)


def test_the_text_typed_after_a_stop_is_the_next_runs_input_and_nobody_elses(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The old agent is still there, and asks once more when the text has been typed."""
    run, typed = begin("Notify", owner=ann), threading.Event()

    def old_agent() -> None:
        assert typed.wait(HANG_GUARD)
        follow_up(run)

    asking = in_thread(pytest.raises, Stopped, old_agent)
    press(ann, run, "stop", run=run.number)
    press(ann, run, "input", text="do this instead")
    typed.set()
    asking.result(HANG_GUARD)
    shown = page(ann, run)
    assert "waiting, not sent yet" in shown and "The next run gets it." in shown
    assert "held, never sent" not in shown
    newer = begin(run.task_id, by=ann)
    follow_up(newer)
    assert posted(sandbox) == ["do this instead"]
    assert operation(newer, f"input:{task_of(run).inputs.get().pk}").tries.get().run == newer.number
    assert_agrees(sandbox, run)


def test_the_text_typed_after_a_stop_answers_no_question_of_the_stopped_run(tools: None, ann: User) -> None:
    """The agent had asked something and waited when it was stopped; what is typed then is no answer to it."""
    run = begin("Notify", owner=ann)
    with pytest.raises(Unanswered):
        run.ask("Which channel?", key="channel", wait=False)
    press(ann, run, "stop", run=run.number)
    press(ann, run, "input", text="the team's")
    with pytest.raises(Stopped):
        run.ask("Which channel?", key="channel", wait=False)
    newer = begin(run.task_id, by=ann)
    with pytest.raises(Unanswered):
        newer.ask("Which channel?", key="channel", wait=False)
    assert [typed.text for typed in newer.take_inputs()] == ["the team's"]


def test_an_old_tool_that_ends_during_the_next_run_is_told_to_it_and_is_none_of_its_results(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """R28: nothing of it in the new context, the receipt on the old run, and the truth in place of the answer."""
    run = begin("Upload", owner=ann)
    sandbox.hold("effect", "file")
    called = in_thread(ask, run, "file", UPLOAD)
    sandbox.wait("effect", "file")
    press(ann, run, "stop", run=run.number)
    assert called.result(HANG_GUARD).ignored
    newer = begin(run.task_id, by=ann)
    assert newer.tool_results(["file"])["file"].startswith("May have been done.")
    sandbox.release("effect", "file")
    sending.close()
    assert newer.context() == []
    assert call_outcomes(operation(run, "file").pk) == [(run.number, "ignored")]
    attempt = Receipt.objects.get(operation=operation(run, "file"), claim="succeeded").attempt
    assert attempt is not None and attempt.run == run.number
    told = newer.tool_results(["file"])["file"]
    assert told.startswith("Done; known since ") and "kept out of run 1" in told
    assert_agrees(sandbox, run)


def test_a_new_run_begun_at_once_shows_no_error_of_the_old_one(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The old call loses its connection while the new run is at work on the same connector."""
    run = begin("Notify", owner=ann)
    sandbox.hold("accepted", "old")
    called = in_thread(ask_as_before, run, "old", NOTIFY, lose_response=True)
    sandbox.wait("accepted", "old")
    press(ann, run, "stop", run=run.number, reason="again, please")
    newer = begin(run.task_id, by=ann)
    sandbox.release("accepted", "old")
    assert called.result(HANG_GUARD).ignored
    sending.close()
    with newer:
        newer.check()
        assert ask(newer, "new").accepted
        assert newer.context() and "old" not in str(newer.context())
        assert "reset" not in str(newer.inherited()) and "disconnected" not in str(newer.inherited()).lower()
    shown = page(ann, run)
    assert f'role="alert" id="agentstop-task-{run.task_id}-alert"></p>' in shown
    assert "The agent has finished." in shown
    assert not task_of(newer).runs.exclude(error="").exists()
    assert seen(run, "old").label.value in {"unknown", "completed"}
    assert_agrees(sandbox, run)


def test_a_stop_pressed_twice_holds_once_and_says_so(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Notify", owner=ann)
    press(ann, run, "input", text="one")
    assert len(stop(run.task_id, by=ann).held) == 1
    assert stop(run.task_id, by=ann).held == ()
