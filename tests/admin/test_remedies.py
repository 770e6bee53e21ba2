"""Check, settle and undo at the desk: counted first, by selection or filter, each by itself (R20, R23, R24, R35)."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop import asking, database, per_operation
from agentstop.models import Attempt, Decision, Operation, Task
from agentstop.runs import Run, begin
from agentstop.settle import Heard, record
from agentstop.settlement import settle_by_hand
from agentstop.states import Claim, Source
from tests.admin.conftest import VIEWS, Login, granted, lose

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

LIST = "admin:agentstop_operation_changelist"


@pytest.fixture
def remedier(transactional_db: None) -> User:
    """Staff who may read everything, settle and undo."""
    rights = ("settle_operation", "compensate_operation")
    return granted(User.objects.create_user("rita", is_staff=True), *VIEWS, *rights)


def select(client: Client, action: str, *operations: Operation, query: str = "", everything: bool = False) -> Any:
    """What the list sends when an action is chosen, in what `query` filters."""
    across = {"select_across": "1"} if everything else {}
    ids = [each.pk for each in operations]
    sent = {"action": f"{action}_operations", "index": "0", "_selected_action": ids, **across}
    return client.post(reverse(LIST) + query, sent)


def confirm(client: Client, asked: Any, **fields: str) -> Any:
    choice = asked.context["choice"]
    return client.post(asked.context["address"], {"operations": choice.value, **fields})


def kinds(answered: Any) -> list[str]:
    return [answer.kind for answer, _ in answered.context["answers"]]


def lost(run: Run, *keys: str) -> list[Operation]:
    for key in keys:
        run.call("chat.post", {"text": key}, connector="tools", key=key, send=lose)
    return [Operation.objects.get(task=run.task_id, key=key) for key in keys]


def states(*operations: Operation) -> list[str]:
    now = Operation.objects.in_bulk([each.pk for each in operations])
    return [now[each.pk].state for each in operations]


class TestSettle:
    def test_each_has_a_word_of_its_own_or_the_one_for_all(self, login: Login, remedier: User, running: Run) -> None:
        one, two, three = lost(running, "one", "two", "three")
        done = Operation.objects.get(key="report")
        client, before = login(remedier), Decision.objects.count()
        asked = select(client, "settle", one, two, three, done)
        assert "3 operations are settled by your word." in asked.text
        assert "1 is settled by evidence" in asked.text
        assert Decision.objects.count() == before
        own = {f"outcome-{one.pk}": "succeeded", f"reason-{one.pk}": "seen in the channel"}
        answered = confirm(client, asked, outcome="failed", reason="not in the channel's export", **own)
        assert kinds(answered) == ["success"] * 3
        assert states(one, two, three, done) == ["succeeded", "failed", "failed", "succeeded"]
        words = {each: each.receipts.get(source="person") for each in (one, two)}
        assert [word.body for word in words.values()] == ["seen in the channel", "not in the channel's export"]
        assert {word.by for word in words.values()} == {remedier}

    def test_everything_that_matches_the_filter_and_nothing_else(self, login: Login, remedier: User, ann: User) -> None:
        run = begin("Many", owner=ann)
        many = [*lost(run, *(f"k{number}" for number in range(55)))]
        settled = many[0]
        settle_by_hand(settled.pk, by=ann, outcome="cancelled", reason="seen")
        client = login(remedier)
        asked = select(client, "settle", many[1], query="?board=unknown", everything=True)
        assert "54 operations are settled by your word." in asked.text
        assert asked.context["form"].rows == ()
        assert kinds(confirm(client, asked, outcome="failed", reason="none arrived")) == ["success"] * 54
        assert states(*many) == ["cancelled", *["failed"] * 54]

    def test_one_failure_hides_no_answer(
        self, login: Login, remedier: User, running: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, two, three = lost(running, "one", "two", "three")
        client = login(remedier)
        asked = select(client, "settle", one, two, three)
        record(three.pk, [Heard(Claim.SUCCEEDED, Source.PROVIDER, database.now())])  # the answer, late

        def failing(operation: int, **how: Any) -> Any:
            if operation == one.pk:
                raise OperationalError("disk full")
            return settle_by_hand(operation, **how)

        monkeypatch.setattr("agentstop.reports.remedy_report.settle_by_hand", failing)
        answered = confirm(client, asked, outcome="failed", reason="not there")
        assert kinds(answered) == ["error", "success", "info"]
        assert "Not done: OperationalError." in answered.text
        assert "1 failed · 1 done · 1 unchanged or under way" in answered.text
        assert states(one, two, three) == ["unknown", "failed", "succeeded"]

    def test_what_was_sent_again_since_is_not_settled_by_what_was_known_before(
        self, login: Login, remedier: User, running: Run
    ) -> None:
        [one] = lost(running, "one")
        client = login(remedier)
        asked = select(client, "settle", one)
        Operation.objects.filter(pk=one.pk).update(attempts=2)
        first = Attempt.objects.get(operation=one)
        Attempt.objects.create(
            operation=one, verb="submit", number=2, run=1, passed_at=database.now(), sender="",
            lease_until=first.lease_until, settling=first.settling, max_age=first.max_age,
        )  # fmt: skip
        answered = confirm(client, asked, outcome="failed", reason="not there")
        assert kinds(answered) == ["error"]
        assert "it was sent again since you looked" in answered.text
        assert not one.receipts.filter(source="person").exists()

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({}, "Say what became of them"),
            ({"outcome": "failed"}, "Say on what evidence it is settled"),
            ({"outcome": "failed", "reason": "   "}, "Say on what evidence it is settled"),
            ({"reason": "seen"}, "Choose what became of it."),
            ({"outcome": "unknown", "reason": "seen"}, "Select a valid choice"),
            ({"outcome": "failed", "reason": "x" * 2001}, "at most 2000 characters"),
        ],
    )
    def test_without_outcome_and_evidence_it_is_asked_again(
        self, fields: dict[str, str], said: str, login: Login, remedier: User, running: Run
    ) -> None:
        [one] = lost(running, "one")
        client = login(remedier)
        assert said in confirm(client, select(client, "settle", one), **fields).text
        assert states(one) == ["unknown"]


class TestCheck:
    def test_providers_are_asked_and_each_answer_is_told(
        self, login: Login, viewer: User, sandbox: Any, running: Run
    ) -> None:
        running.call("file.upload", {"name": "a"}, connector="sandbox", key="up")
        up, notify = Operation.objects.get(key="up"), Operation.objects.get(key="notify")
        client = login(viewer)
        asked = select(client, "check", up, notify)
        assert "The provider of 1 operation is asked" in asked.text
        assert "1 cannot be asked about" in asked.text
        assert kinds(confirm(client, asked)) == ["success"]
        assert up.receipts.filter(source="read_back").count() == 1
        assert Decision.objects.get(verb="look_up").by == viewer

    def test_whose_turn_does_not_come_in_time_is_told_so(
        self, login: Login, viewer: User, sandbox: Any, running: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running.call("file.upload", {"name": "a"}, connector="sandbox", key="up")
        client = login(viewer)
        asked = select(client, "check", Operation.objects.get(key="up"))
        monkeypatch.setattr(per_operation, "PATIENCE", 0.0)
        answered = confirm(client, asked)
        assert kinds(answered) == ["error"]
        assert "Its turn did not come" in answered.text
        assert not Decision.objects.filter(verb="look_up").exists()

    def test_a_provider_that_gives_no_answer_is_not_told_as_asked_well(
        self, login: Login, viewer: User, sandbox: Any, running: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running.call("file.upload", {"name": "a"}, connector="sandbox", key="up")
        client = login(viewer)
        asked = select(client, "check", Operation.objects.get(key="up"))

        async def nothing(operation: Operation) -> None:
            return None

        monkeypatch.setattr(asking, "look", nothing)
        answered = confirm(client, asked)
        assert kinds(answered) == ["error"]
        assert "gave no usable answer" in answered.text


class TestUndo:
    def test_the_consequences_are_named_and_each_is_undone_once(
        self, login: Login, remedier: User, sandbox: Any, running: Run
    ) -> None:
        for key in ("a", "b"):
            running.call("file.upload", {"name": key}, connector="sandbox", key=key)
        both = [Operation.objects.get(key=key) for key in ("a", "b")]
        client = login(remedier)
        asked = select(client, "undo", *both, Operation.objects.get(key="report"))
        assert "2 operations are undone, each by another operation at its provider." in asked.text
        assert "1 cannot be undone" in asked.text
        [consequence] = asked.context["choice"].consequences
        assert consequence.what == "2 of file.upload at sandbox"
        assert consequence.consequences in asked.text
        assert not Operation.objects.filter(compensates__isnull=False).exists()
        assert kinds(confirm(client, asked, reason="wrong files")) == ["success", "success"]
        assert sorted(Operation.objects.filter(compensates__isnull=False).values_list("state", flat=True)) == [
            "succeeded",
            "succeeded",
        ]
        assert kinds(confirm(client, asked, reason="again")) == ["info", "info"]
        assert Operation.objects.filter(compensates__isnull=False).count() == 2
        assert "None of them: nothing would happen." in select(client, "undo", *both).text


class TestWhoMay:
    def test_a_viewer_is_offered_neither_and_a_forged_press_is_recorded(
        self, login: Login, viewer: User, running: Run
    ) -> None:
        [one] = lost(running, "one")
        client = login(viewer)
        shown = client.get(reverse(LIST)).text
        assert "check_operations" in shown
        assert "settle_operations" not in shown
        assert "undo_operations" not in shown
        page = client.get(reverse("admin:agentstop_operation_change", args=[one.pk])).text
        assert reverse("admin:agentstop_operation_settle_many") not in page
        sent = {"operations": f"{one.pk}:1", "outcome": "failed", "reason": "mine"}
        answered = client.post(reverse("admin:agentstop_operation_settle_many"), sent)
        assert kinds(answered) == ["error"]
        denied = Decision.objects.get(effect="denied")
        assert (denied.verb, denied.by, denied.reason) == ("settle", viewer, "mine")
        assert states(one) == ["unknown"]

    def test_an_operations_page_leads_to_the_question_about_it(
        self, login: Login, remedier: User, running: Run
    ) -> None:
        [one] = lost(running, "one")
        client = login(remedier)
        address = f"{reverse('admin:agentstop_operation_settle_many')}?operation={one.pk}"
        assert address in client.get(reverse("admin:agentstop_operation_change", args=[one.pk])).text
        assert "1 operation is settled by your word." in client.get(address).text

    def test_the_sites_own_rule_decides_for_each_and_hides(
        self, login: Login, remedier: User, running: Run, ann: User, settings: Settings
    ) -> None:
        settings.AGENTSTOP_MAY = f"{__name__}.not_secret"
        others = {}
        for title in ("Secret", "Locked"):
            [others[title]] = lost(begin(title, owner=ann), title)
        [one] = lost(running, "one")
        client = login(remedier)
        asked = select(client, "settle", one, *others.values())
        assert "1 operation is settled by your word." in asked.text
        assert "1 you may not settle." in asked.text
        assert "(Secret)" not in asked.text
        sent = {"operations": " ".join(f"{each.pk}:1" for each in (one, *others.values()))}
        settle_many = reverse("admin:agentstop_operation_settle_many")
        answered = client.post(settle_many, {**sent, "outcome": "failed", "reason": "seen"})
        assert kinds(answered) == ["error", "error", "success"]
        assert "(Secret)" not in answered.text
        assert states(*others.values(), one) == ["unknown", "unknown", "failed"]
        hidden = client.get(settle_many, {"operation": others["Secret"].pk}, follow=True)
        assert "No such operation." in hidden.text

    def test_a_stranger_learns_nothing_and_the_try_is_kept(self, login: Login, stranger: User, running: Run) -> None:
        [one] = lost(running, "one")
        for remedy in ("check", "settle", "undo"):
            address = reverse(f"admin:agentstop_operation_{remedy}_many")
            assert login(stranger).get(address, {"operation": one.pk}).status_code == 404
            sent = {"operations": f"{one.pk}:1", "outcome": "failed", "reason": "mine"}
            assert login(stranger).post(address, sent).status_code == 404
        denied = Decision.objects.filter(effect="denied", by=stranger).order_by("pk")
        assert list(denied.values_list("verb", flat=True)) == ["look_up", "settle", "compensate"]
        assert states(one) == ["unknown"]

    @pytest.mark.parametrize("sent", ["", "x", "1", "1:1;2:2", "9" * 30 + ":1"])
    def test_a_press_that_names_none_does_nothing_and_says_so(
        self, sent: str, login: Login, remedier: User, running: Run
    ) -> None:
        for remedy in ("check", "settle", "undo"):
            address = reverse(f"admin:agentstop_operation_{remedy}_many")
            assert "No such operation." in login(remedier).post(address, {"operations": sent}, follow=True).text


def not_secret(user: Any, permission: str, task: Task) -> bool:
    if task.title == "Secret":
        return False
    return task.title != "Locked" or permission == "agentstop.view_task"
