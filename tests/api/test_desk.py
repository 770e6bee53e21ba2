"""What people and operators do over HTTP besides stopping one task: settle, undo, type, freeze, stop many."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import database
from agentstop.freeze import freeze, unfreeze
from agentstop.models import Decision, Freeze, Operation, Receipt, Task
from agentstop.providers.base import Answer, Capability, LookUp, Provider, Submission
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.waiting import until
from tests.admin.conftest import granted
from tests.api.conftest import SHOP, Caller, RunAt, begun
from tests.api.test_agent import expire
from tests.conftest import HANG_GUARD

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop(tools: None, settings: Settings) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "shop": SHOP}


def test_a_person_settles_what_is_unknown_and_an_application_does_not(run: RunAt, ann: User) -> None:
    """R23: with a reason, and about what they have seen."""
    number = run.gate().body["operation"]
    path, person = f"/operations/{number}/settle", Caller(user=ann)
    word = {"outcome": "succeeded", "reason": "It is in the mailbox."}
    assert person.post(path, **word).reason == "not_settled"  # it is on its way
    expire(number)
    assert run.agent.post(path, **word).reason == "not_for_applications"
    for wrong in ({"reason": " "}, {"outcome": "unknown"}, {"by": "olga"}):
        assert person.post(path, **word | wrong).reason == "invalid"
    assert person.post(path, **word, attempts=0).reason == "sent_again"
    assert not Receipt.objects.exists() and not Decision.objects.filter(verb="settle").exists()
    told = person.post(path, **word, attempts=1)
    assert (told.status, told.body["state"], told.body["can_settle"]) == (200, "succeeded", False)
    assert Decision.objects.get(verb="settle").by == ann


class Archive(Provider):
    """Can be asked by the key, and knows of everything."""

    def capability(self, action: str) -> Capability:
        return Capability(look_up=LookUp.BY_KEY)

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        return Answer(Claim.SUCCEEDED, Source.READ_BACK, ref="a-1")


def test_a_look_up_asks_the_provider_now_and_tells_what_it_said(run: RunAt, ann: User, settings: Settings) -> None:
    """R20, R21: after a stop as well, by an application or a person; who cannot be asked is told as such."""
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "archive": {"PROVIDER": f"{__name__}.Archive"}}
    lost, mute = run.gate("file:1", connector="archive").body["operation"], run.gate("mail:1").body["operation"]
    for operation in (lost, mute):
        expire(operation)
    stop(run.task, by=ann)
    told = run.agent.post(f"/operations/{lost}/look-up").body
    assert (told["asked"], told["operation"]["state"]) == (True, "succeeded")
    assert Receipt.objects.get(operation=lost, claim="succeeded").source == "read_back"
    told = Caller(user=ann).post(f"/operations/{mute}/look-up").body
    assert (told["asked"], told["operation"]["state"]) == (False, "unknown")


def test_a_person_undoes_what_is_done_once_and_reads_the_consequences(run: RunAt, ann: User, shop: None) -> None:
    """R24: an operation of its own; never by an application, never twice, not while it is frozen."""
    passed = run.gate("order:1", action="order", connector="shop")
    number, person = passed.body["operation"], Caller(user=ann)
    assert person.post(f"/operations/{number}/undo").reason == "cannot_compensate"  # not known to be there
    run.heard(passed, "succeeded", ref="o-1")
    told = person.get(f"/operations/{number}").body
    assert told["can_undo"] and told["undo"].startswith("The money comes back")
    assert run.agent.post(f"/operations/{number}/undo").reason == "not_for_applications"
    held = freeze(action="give back", reason="x")
    assert person.post(f"/operations/{number}/undo").reason == "frozen"
    unfreeze(held)
    undoing = person.post(f"/operations/{number}/undo", reason="twice too many")
    assert (undoing.status, undoing.body["undoes"]) == (201, number)
    by = undoing.body["operation"]
    until(lambda: Operation.objects.get(pk=by).state == "succeeded" or None, run.task, timeout=HANG_GUARD)
    assert person.get(f"/operations/{by}").body["undoes"] == number
    assert person.get(f"/operations/{number}").body["undone"]
    assert person.post(f"/operations/{number}/undo").reason == "in_flight"
    assert Operation.objects.filter(compensates=number).count() == 1


def test_an_operator_holds_dispatch_and_lets_it_go(run: RunAt, ann: User, olga: User) -> None:
    """R45: in force when it is answered; tasks of others only, with an end, for those who may."""
    operator, later = Caller(user=olga), database.now() + timedelta(hours=1)
    assert Caller(user=ann).post("/freezes", reason="x").reason == "denied"
    assert Freeze.objects.get().effect == "denied"
    for wrong in (
        {"reason": " "},
        {"reason": "x", "owner": "nobody"},
        {"reason": "x", "until": "2001-01-01T00:00:00Z"},
        {"reason": "x", "until": "tomorrow"},
        {"reason": "x", "connector": "nowhere"},
    ):
        assert operator.post("/freezes", **wrong).reason == "invalid", wrong
    made = operator.post("/freezes", owner="ann", connector="tools", reason="too many", until=later.isoformat())
    assert made.status == 201 and made.body["in_force_at"] and made.body["by"] == "olga"
    refused = run.gate()
    assert refused.reason == "frozen" and refused.body["until"][:19] == made.body["until"][:19]
    assert [each["id"] for each in operator.get("/freezes").body["freezes"]] == [made.body["id"]]
    lift = f"/freezes/{made.body['id']}/lift"
    assert Caller(user=ann).post(lift).reason == Caller(user=ann).post("/freezes/999/lift").reason == "denied"
    assert run.gate().reason == "frozen"
    assert operator.post(lift).body == {"done": True} and operator.post(lift).body == {"done": False}
    assert operator.post("/freezes/999/lift").reason == "not_found"
    assert run.gate().status == 201


def test_many_are_stopped_and_each_answers(agent: Caller, ann: User, ben: User) -> None:
    """R35: of those that one may not stop nothing is hidden, and nothing happens to them."""
    own, others = begun(agent), begun(agent)
    Task.objects.filter(pk=own.task).update(owner=granted(ben, "view_task"))
    person = Caller(user=User.objects.get(pk=ben.pk))
    for wrong in ({}, {"mine": True, "tasks": [own.task]}, {"tasks": [0]}, {"subject": "no.where:1"}):
        assert person.post("/stops", **wrong).reason == "invalid", wrong
    told = person.post("/stops", tasks=[own.task, others.task, 10**9], reason="all of it").body
    assert [each["task"] for each in told["stops"]] == [own.task]
    assert [(each["task"], each["reason"]) for each in told["failed"]] == [(others.task, "denied")]
    assert Task.objects.get(pk=others.task).state == "active"
    assert [each["task"] for each in agent.post("/stops", mine=True).body["stops"]] == [others.task]
    assert agent.post("/stops", mine=True).reason == "not_found"


def test_what_a_person_types_is_held_by_a_stop_and_released_by_a_person(run: RunAt, ann: User) -> None:
    """R10: taken once; an application neither releases it nor takes it for a run that is over."""
    person = Caller(user=ann)
    typed = person.post(f"/tasks/{run.task}/inputs", text="Add Ben")
    assert (typed.status, typed.body["by"]) == (201, "ann")
    assert person.post(f"/tasks/{run.task}/inputs", text=" ").reason == "invalid"
    second = run.agent.post(f"/tasks/{run.task}/inputs", text="And Carl").body["id"]
    first = typed.body["id"]
    assert [each["id"] for each in run.agent.post(f"{run.path}/inputs", most=1).body["inputs"]] == [first]
    assert run.agent.post(f"{run.path}/inputs/{first}/done").body == {"done": True}
    assert run.agent.post(f"{run.path}/inputs/{first}/done").body == {"done": False}
    assert run.agent.post(f"{run.path}/inputs/{second}/done").reason == "invalid"
    stop(run.task, by=ann)
    assert run.agent.post(f"{run.path}/inputs").reason == "stopped"
    shown = {each["id"]: each for each in person.get(f"/tasks/{run.task}").body["inputs"]}
    assert (shown[first]["state"], shown[second]["state"]) == ("done", "held") and shown[second]["can_release"]
    assert run.agent.post(f"/inputs/{second}/release").reason == "not_for_applications"
    assert person.post(f"/inputs/{second}/release").body == {"done": True}
    assert run.agent.post(f"/inputs/{second}/withdraw").body == {"done": True}
    assert person.post("/inputs/999/release").reason == "not_found"
