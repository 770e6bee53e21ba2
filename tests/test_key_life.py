"""The end of a key's life: what is sent again has arrived before the provider forgets the key, or is not sent (R11).

The provider's ledger is the referee: it honours a key for exactly `key_life` from its first request, and after that
takes a request with it for a new one.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from agentstop import gate, heartbeat, passes, refusals, settle
from agentstop.exceptions import OutcomeUnknown
from agentstop.passes import Pass
from agentstop.request import Request, make
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from tests.soak import connector
from tests.soak.clock import Clock
from tests.soak.driver import DEADLINE, ON_ITS_WAY, SETTINGS
from tests.soak.world import KEY_LIFE, Sent, World, hours

pytestmark = pytest.mark.django_db(transaction=True)

LAST_CHANCE = KEY_LIFE - ON_ITS_WAY
MOMENT = timedelta(minutes=30)


@pytest.fixture
def world(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> World:
    """A provider with a ledger, and a clock that can be moved on."""
    for name, value in SETTINGS.items():
        setattr(settings, name, value)
    clock = Clock()
    monkeypatch.setattr(passes, "ticks", clock.ticks)
    world = World(clock, calm=True)
    connector.install(world)
    return world


def wish(run: Run) -> Request:
    options = {"connector": "world", "key": "k", "deadline": DEADLINE.total_seconds()}
    return make(run.task_id, run.number, "keyed", {}, options)  # type: ignore[arg-type]


def let_through(run: Run) -> Pass:
    found = gate.open_gate(wish(run))
    assert isinstance(found, Pass)
    return found


def written(world: World, passed: Pass) -> Sent:
    """The bytes leave right after the last check; what they meet is up to the network."""
    passed.check()
    sent = Sent(passed.operation, passed.attempt, "keyed", passed.idempotency_key.replace("-", ""))
    world.flights.append(sent)
    return sent


def first_attempt(world: World, run: Run) -> Pass:
    """It arrives at once, and its answer is lost."""
    passed = let_through(run)
    world.arrive(written(world, passed), world.clock.virtual())
    settle.record(passed.operation, [Heard(Claim.LOST, Source.SENDER, passed.passed_at, passed.attempt_id)])
    return passed


def slowest(world: World, passed: Pass) -> None:
    """Its sender keeps its lease, writes at the very end of its deadline, and the network takes all its time."""
    for _ in range(6):
        world.clock.travel(hours(1))
        assert heartbeat.renew(passed)
        passed.lease.renew(world.clock.ticks())
    sent = written(world, passed)
    world.clock.travel(ON_ITS_WAY - hours(6) - MOMENT / 2)
    world.arrive(sent, world.clock.virtual())


def test_the_last_attempt_that_passes_arrives_while_its_key_is_honoured(world: World) -> None:
    run = begin("Report")
    first = first_attempt(world, run)
    world.clock.travel(LAST_CHANCE - MOMENT / 4)
    second = let_through(run)
    assert (second.operation, second.attempt, second.idempotency_key) == (first.operation, 2, first.idempotency_key)
    slowest(world, second)
    assert (world.submits, len(world.jobs)) == (2, 1)


def test_an_attempt_that_might_arrive_after_that_is_refused(world: World) -> None:
    run = begin("Report")
    first_attempt(world, run)
    world.clock.travel(LAST_CHANCE + MOMENT / 4)
    with pytest.raises(OutcomeUnknown):
        let_through(run)
    assert (world.submits, len(world.jobs)) == (1, 1)


def test_without_that_condition_an_effect_is_made_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate as it would be if it asked only whether the key still lives."""
    monkeypatch.setattr(gate, "MAY_ADVANCE", gate.MAY_ADVANCE.replace("> {arrives}", "> {now}"))
    run = begin("Report")
    first_attempt(world, run)
    world.clock.travel(KEY_LIFE - MOMENT / 4)
    slowest(world, let_through(run))
    assert (world.submits, len(world.jobs)) == (2, 2)


@pytest.mark.parametrize("moment", [-MOMENT / 4, MOMENT / 4], ids=["just in time", "just too late"])
def test_the_gate_and_its_reasons_follow_one_rule(world: World, moment: timedelta) -> None:
    """Where the gate lets nothing pass its reason is recorded; where it would, no reason is found."""
    run = begin("Report")
    first_attempt(world, run)
    world.clock.travel(LAST_CHANCE + moment)
    if moment > timedelta(0):
        assert gate.try_gate(wish(run)) is None
        with pytest.raises(OutcomeUnknown):
            refusals.explain(wish(run))
    else:
        assert refusals.explain(wish(run)) == 1
        assert gate.try_gate(wish(run)) is not None


def test_what_honours_no_key_is_never_sent_again(world: World) -> None:
    wanted, now = wish(begin("Report")), world.clock.now()
    assert wanted.on_its_way == ON_ITS_WAY
    assert [wanted.arrives_while_honoured(until, now) for until in (None, now, now + ON_ITS_WAY)] == [False] * 3
    assert wanted.arrives_while_honoured(now + ON_ITS_WAY + MOMENT, now)
