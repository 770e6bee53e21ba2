"""Retention and erasure: what was said goes, and that something was decided, sent and heard stays (R36)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from agentstop import database, erasure, export
from agentstop.answers import answer, decline
from agentstop.erasure import erase
from agentstop.exceptions import Unanswered
from agentstop.inputs import add, release
from agentstop.models import Decision, Input, Operation, Question, Receipt, Task
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.settlement import settle_by_hand
from agentstop.stop import stop
from agentstop.verify import differences

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

SECRET = "kakapo"  # in everything that anybody says in these tests


def tasks(*runs: Run) -> Any:
    return Task.objects.filter(pk__in=[run.task_id for run in runs])


def everything() -> Iterator[str]:
    """Every text of every table of agentstop's, as the database has it."""
    for model in apps.get_app_config("agentstop").get_models():
        for row in model._default_manager.values():
            yield from (f"{model.__name__}.{name}: {value}" for name, value in row.items() if SECRET in str(value))


def lived(ann: User, title: str = SECRET) -> Run:
    """A task in which somebody has said something in every place in which something can be said."""
    run = begin(title, owner=ann)
    run.call("post", {"text": SECRET}, connector="tools", key="post", send=lambda op: {"said": SECRET})
    run.call("post", {"text": SECRET}, connector="tools", key="fails", send=lambda op: op.failed(SECRET))
    for kind in ("answer", "approve"):
        with pytest.raises(Unanswered):
            run.ask(SECRET, key=kind, kind=kind, wait=False)
    answer(Question.objects.get(task=run.task_id, key="answer"), SECRET, by=ann)
    decline(Question.objects.get(task=run.task_id, key="approve"), by=ann, reason=SECRET)
    add(run.task_id, SECRET, by=ann)
    stop(run.task_id, by=ann, reason=SECRET)
    return run


@pytest.fixture
def done(ann: User) -> Run:
    return lived(ann)


def test_nothing_that_was_said_is_left_in_any_table(done: Run) -> None:
    assert len({line.split(":")[0] for line in everything()}) >= 9
    facts = len(export.facts(tasks(done).get()))
    found = erase(tasks(done), titles=True, reason="their wish")
    assert (found.erased, found.kept) == ((done.task_id,), ())
    assert list(everything()) == []
    assert len(export.facts(tasks(done).get())) == facts + 2  # the input was withdrawn; and what was decided here
    decided = Decision.objects.get(verb="erase")
    assert (decided.policy, decided.reason, decided.detail) == ("retention", "their wish", {"titles": True})
    assert list(differences()) == []


def test_titles_and_reasons_stay_unless_asked_for(done: Run) -> None:
    erase(tasks(done))
    assert {line.split(":")[0] for line in everything()} == {
        "Task.title",
        "Task.stop_reason",
        "Decision.reason",
    }


def test_the_page_says_that_it_is_erased_and_what_became_of_each_operation(done: Run, ann: User) -> None:
    [before] = [report.load(done.task_id, ann)[0]]
    erase(tasks(done), titles=True)
    [after] = [report.load(done.task_id, ann)[0]]
    assert [one.reading.name for one in after.operations] == [one.reading.name for one in before.operations]
    assert [one.text for one in after.inputs.over] == ["(erased)"]
    assert after.title == f"#{done.task_id}"


def test_the_page_of_an_operation_says_what_is_erased_beside_what_stays(done: Run, ann: User) -> None:
    operation = Operation.objects.get(key="post")
    client = Client()
    client.force_login(ann)
    address = reverse("agentstop:operation", args=[operation.pk])
    assert SECRET in client.get(address).content.decode()
    erase(tasks(done), titles=True)
    shown = client.get(address).content.decode()
    assert SECRET not in shown
    assert "(erased)" in shown
    assert "Attempt 1 was released to be sent, for run 1." in shown


def test_whoever_settled_by_hand_is_still_named_and_as_what(ann: User) -> None:
    def lost(op: object) -> None:
        raise OSError(SECRET)

    run = begin(SECRET, owner=ann)
    run.call("post", connector="tools", key="k", send=lost)
    settle_by_hand(Operation.objects.get().pk, by=ann, outcome="failed", reason=SECRET)
    stop(run.task_id)
    erase(tasks(run))
    [told] = report.load(run.task_id, ann)[0].operations
    assert told.settling is not None
    assert (told.settling.by, told.settling.reason) == ("ann", "(erased)")


def test_a_result_that_is_gone_is_not_given_again_and_nothing_is_sent_a_second_time(done: Run, ann: User) -> None:
    erase(tasks(done))
    sent: list[object] = []
    again = begin(tasks(done).get(), by=ann)
    outcome = again.call("post", {"text": SECRET}, connector="tools", key="post", send=sent.append)
    assert (outcome.outcome, outcome.result, sent) == ("failed", None, [])
    assert "was erased since, and nothing is sent a second time" in outcome.error


def test_what_was_typed_and_not_sent_is_sent_to_nobody(done: Run, ann: User) -> None:
    held = Input.objects.get()
    erase(tasks(done))
    assert release(held.pk, by=ann) is False
    assert begin(tasks(done).get(), by=ann).take_input() is None


def test_what_is_at_work_open_or_too_young_is_kept(ann: User) -> None:
    def lost(op: object) -> None:
        raise OSError(SECRET)

    working, unknown, young, old = begin(SECRET, owner=ann), begin("unknown"), lived(ann), lived(ann)
    unknown.call("post", connector="tools", key="k", send=lost)
    stop(unknown.task_id)
    month = database.now() - timedelta(days=30)
    tasks(old).update(state_since=month - timedelta(days=1))
    found = erase(Task.objects.all(), before=month)
    assert found.erased == (old.task_id,)
    assert found.kept == (working.task_id, unknown.task_id, young.task_id)
    assert Receipt.objects.filter(operation__task=unknown.task_id).exclude(body="").exists()
    assert Receipt.objects.filter(operation__task=young.task_id).exclude(body="").exists()


def test_one_that_begins_again_meanwhile_is_kept_whole(done: Run, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    one = erasure._erase

    def after_a_new_run(*arguments: Any) -> bool:
        begin(tasks(done).get(), by=ann)
        return one(*arguments)

    before = set(everything())
    monkeypatch.setattr(erasure, "_erase", after_a_new_run)
    assert erase(tasks(done)).kept == (done.task_id,)
    assert {line for line in before if "Task." not in line} <= set(everything())


def test_erasing_again_erases_what_came_late(done: Run, ann: User) -> None:
    erase(tasks(done))
    operation = Operation.objects.get(key="post")
    receipt = operation.receipts.latest("pk")
    Receipt.objects.filter(pk=receipt.pk).update(body=SECRET, form="text")
    assert erase(tasks(done), titles=True).erased == (done.task_id,)
    assert list(everything()) == []


class TestCommand:
    def told(self, capsys: pytest.CaptureFixture[str], *words: object) -> Any:
        capsys.readouterr()
        call_command("agentstop_purge", *map(str, words), "--json")
        return json.loads(capsys.readouterr().out)

    def test_it_counts_first_and_erases_then(self, capsys: pytest.CaptureFixture[str], done: Run, ann: User) -> None:
        begin("at work", owner=ann)
        assert self.told(capsys, "--owner", "ann", "--dry-run") == {"would_erase": 1, "would_keep": 0}
        assert list(everything())
        assert self.told(capsys, "--all", "--older-than", 1) == {"erased": 0, "kept": 1}
        assert self.told(capsys, done.task_id, "--titles") == {"erased": 1, "kept": 0}
        assert list(everything()) == []

    def test_for_people(self, capsys: pytest.CaptureFixture[str], done: Run) -> None:
        call_command("agentstop_purge", done.task_id)
        assert (
            capsys.readouterr().out == "erased: 1 tasks, kept: 0 tasks. What is at work, open or too young is kept.\n"
        )

    @pytest.mark.parametrize("words", [[], ["999999999"], ["--all", "--older-than", "-1"], ["--all", "--owner", "ann"]])
    def test_bad_words_erase_nothing(self, done: Run, words: list[str]) -> None:
        before = list(everything())
        with pytest.raises(CommandError, match=r"Nothing was erased\.$"):
            call_command("agentstop_purge", *words)
        assert list(everything()) == before
