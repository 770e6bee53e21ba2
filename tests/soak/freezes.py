"""The commands about freezes, and what must come of them."""

from __future__ import annotations

from typing import Any

from agentstop.freeze import freeze, unfreeze
from tests.soak.driver import Episode, Step
from tests.soak.mirror import Freeze, Mirror
from tests.soak.model import Person, expected
from tests.soak.moves import move, name
from tests.soak.world import CONNECTOR, PROFILES, hours

MOST = 2  # that hold at once, so that something is sent besides


def holding(mirror: Mirror) -> list[Freeze]:
    return [one for one in mirror.all(Freeze) if one.holds_at(mirror.at)]


def _may(person: Person) -> bool:
    return "freeze_dispatch" in person.rights


@move(3, shared=True)
def press_freeze(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """Hold everything, an action, or what somebody owns; for some hours, or until it is lifted."""
    if len(holding(episode.mirror)) >= MOST:
        return None
    person = episode.pick_person(b)
    undoings = [PROFILES[action].compensation for action in episode.actions]
    actions = ("", "", *episode.actions, *(way.action for way in undoings if way is not None))
    scope: dict[str, Any] = {
        "connector": ("", CONNECTOR)[a % 2],
        "action": actions[a // 2 % len(actions)],
        "owner": (None, None, episode.people.ann.user, episode.people.ben.user)[c % 4],
    }
    until = episode.clock.now() + hours(4.75) if c // 4 % 2 else None  # never at the moment of a look

    def act() -> str:
        made = freeze(**scope, by=person.user, reason="it misbehaves", until=until)
        return "in force" if made.in_force_at is not None else "lifted meanwhile"

    expect = expected("in force", "freeze applied") if _may(person) else expected("Denied", "freeze denied")
    return Step(f"{name(person)} freezes {scope} until {until}", act, expect)


@move(3, shared=True)
def press_lift(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """Lift one; now and then one that is over."""
    applied = [one for one in episode.mirror.all(Freeze) if one.epoch is not None]
    chosen = (applied if c % 8 == 0 else holding(episode.mirror)) or applied
    if not chosen:
        return None
    one, person = chosen[a % len(chosen)], episode.pick_person(b)

    def act() -> str:
        return str(unfreeze(one.id, by=person.user))

    does = one.holds_at(episode.mirror.at)
    allowed = expected(str(does), f"lift {'applied' if does else 'noted'}")
    expect = allowed if _may(person) else expected("Denied", "lift denied")
    return Step(f"{name(person)} lifts freeze {one.id}", act, expect)
