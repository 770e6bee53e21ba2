"""Scenes: functions that show promises, each promise with one line of what was seen."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from types import ModuleType

from django.db import connections

from website.demo.promises.panel import TooSlow
from website.demo.promises.stage import Stage

TRIES = 3  # of a scene for which this machine was too slow
AT_ONCE = 4  # scenes that are played beside each other: they wait most of the time

Tell = Callable[[str, str], None]
"""Called with a promise's numbers and what was seen of it."""

Play = Callable[[Stage, Tell], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """A function, and the promises that it is to tell of: numbers and sentence."""

    promises: dict[str, str]
    play: Play
    alone: bool  # it ends processes that the others need


SCENES: list[Scene] = []


def shows(promises: dict[str, str], *, alone: bool = False) -> Callable[[Play], Play]:
    """Register a scene; it is played beside others unless it is to be alone."""

    def register(play: Play) -> Play:
        SCENES.append(Scene(promises, play, alone))
        return play

    return register


def scenes_of(module: ModuleType) -> list[Scene]:
    """The scenes of a module, in the order in which they stand there."""
    return [scene for scene in SCENES if scene.play.__module__ == module.__name__]


def perform(scenes: list[Scene], stage: Stage, say: Callable[[str], None]) -> int:
    """Play them all, one line a promise; how many promises are broken."""
    broken = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        beside = pool.map(lambda scene: _play(scene, stage), [scene for scene in scenes if not scene.alone])
        alone = (_play(scene, stage) for scene in scenes if scene.alone)
        for lines, failures in chain(beside, alone):
            say("\n".join(lines))
            broken += failures
    return broken


def _play(scene: Scene, stage: Stage) -> tuple[list[str], int]:
    """The lines, and how many promises are broken: also those of which nothing was told."""
    told: dict[str, str] = {}
    problem = ""
    for _ in range(TRIES):
        told.clear()
        problem, again = _once(scene, stage, told)
        if not again:
            break
    lines = [
        f"{numbers} {promise}: " + (f"ok — {told[numbers]}" if numbers in told else f"BROKEN — {problem}")
        for numbers, promise in scene.promises.items()
    ]
    return lines, len(scene.promises) - len(told)


def _once(scene: Scene, stage: Stage, told: dict[str, str]) -> tuple[str, bool]:
    """What went wrong, and whether that says nothing about the promises, so that it is to be played again."""
    try:
        scene.play(stage, told.__setitem__)
    except Exception as error:  # one broken promise hides no other
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{error or type(error).__name__} ({place.name}, line {place.lineno})", isinstance(error, TooSlow)
    finally:
        connections.close_all()
    return "nothing was seen of it", False
