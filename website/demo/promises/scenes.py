"""Scenes: functions that show promises, each promise with one line of what was seen."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from website.demo.promises.stage import Stage

Tell = Callable[[str, str], None]
"""Called with a promise's numbers and what was seen of it."""

Play = Callable[[Stage, Tell], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """A function, and the promises that it is to tell of: numbers and sentence."""

    promises: dict[str, str]
    play: Play


SCENES: list[Scene] = []


def shows(promises: dict[str, str]) -> Callable[[Play], Play]:
    """Register a scene; the order of the file is the order of the show."""

    def register(play: Play) -> Play:
        SCENES.append(Scene(promises, play))
        return play

    return register


def perform(scene: Scene, stage: Stage, say: Callable[[str], None]) -> int:
    """Play it, one line a promise; how many are broken. What is not told of in the end is broken."""
    told: set[str] = set()

    def tell(numbers: str, seen: str) -> None:
        told.add(numbers)
        say(f"{numbers} {scene.promises[numbers]}: ok — {seen}")

    problem = "nothing was seen of it"
    try:
        scene.play(stage, tell)
    except Exception as error:  # one broken promise hides no other
        place = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{error or type(error).__name__} ({place.name}, line {place.lineno})"
    broken = [numbers for numbers in scene.promises if numbers not in told]
    for numbers in broken:
        say(f"{numbers} {scene.promises[numbers]}: BROKEN — {problem}")
    return len(broken)
