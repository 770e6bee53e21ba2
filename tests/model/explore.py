"""Explores the model with spin, every state of it.

python -m tests.model.explore [--long]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.model.scenes import FAULTS, LONG_SCENES, PRINTED, SCENES, Promise, Scene

MODEL = Path(__file__).with_name("agentstop.pml")
PROGRAMS = ("spin", "gcc")
PACKAGES = "spin gcc libc6-dev"
AT_ONCE = 2
HANG_GUARD = 1800.0
MEGABYTES = 4000
DEEPEST = 50_000  # steps; the longest execution has some 260


@dataclass(frozen=True, slots=True)
class Found:
    """What spin says of one scene."""

    scene: Scene
    states: int
    seconds: float
    complete: bool  # every state was seen
    broken: Promise | None
    output: str

    @property
    def as_expected(self) -> bool:
        return self.broken is self.scene.breaks and (self.complete or self.broken is not None)

    @property
    def line(self) -> str:
        said = f"BREAKS: {self.broken}" if self.broken else "all promises hold" if self.complete else "NOT ALL WAS SEEN"
        return f"{self.states:>12,} states {self.seconds:>6.1f} s  {self.scene.name}: {said}"


def missing() -> list[str]:
    """The programs that are not there."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def explore(scene: Scene) -> Found:
    """Translate the model for this scene, compile it, and search all of its states."""
    with tempfile.TemporaryDirectory(prefix="agentstop-model-") as folder:
        shutil.copy(MODEL, folder)
        began = time.monotonic()
        _run(folder, "spin", *(f"-D{define}" for define in scene.defines), "-a", MODEL.name)
        search = ["-DNP", "-DNFAIR=3"] if scene.fair else ["-DSAFETY"]
        level = "-O0" if scene.breaks else "-O1"  # more costs more of the compiler's time than it saves
        # spin's own C text draws warnings about what it generates.
        _run(folder, "gcc", "-w", level, *search, "-DCOLLAPSE", f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c")
        output = _run(folder, "./pan", *(["-l", "-f"] if scene.fair else []), f"-m{DEEPEST}")
        return understood(scene, output, time.monotonic() - began)


def _run(folder: str, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def understood(scene: Scene, output: str, seconds: float) -> Found:
    """What the output of a search says; a RuntimeError where that is not known."""
    states = re.search(r"(\d+) states, stored", output)
    errors = re.search(r"errors: (\d+)", output)
    if states is None or errors is None:
        raise RuntimeError(f"spin said something else than what is known of it:\n{output}")
    broken = _promise(output) if int(errors[1]) else None
    whole = not re.search(r"Search not completed|max search depth|reached -DMEMLIM|out of memory", output)
    return Found(scene, int(states[1]), seconds, whole, broken, output)


def _promise(output: str) -> Promise:
    told = re.search(r"^pan:1: (?:assertion violated )?(.*?)(?: \(at depth \d+\))?$", output, re.MULTILINE)
    said = " ".join(told[1].split()) if told else ""
    for printed, promise in PRINTED.items():
        if said.startswith(printed):
            return promise
    raise RuntimeError(f"spin found an error that is none of the promises: {said}\n{output}")


def main(arguments: list[str]) -> int:
    if absent := missing():
        sys.stderr.write(f"There is no {' and no '.join(absent)} here. Run: apt-get install {PACKAGES}\n")
        return 1
    scenes = [*SCENES, *(LONG_SCENES if "--long" in arguments else ()), *FAULTS]
    unexpected = [found for found in _all(scenes) if not _told(found)]
    return int(bool(unexpected))


def _all(scenes: Iterable[Scene]) -> Iterable[Found]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(explore, scenes)


def _told(found: Found) -> bool:
    print(found.line, "" if found.as_expected else "  <-- UNEXPECTED", sep="", flush=True)
    return found.as_expected


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
