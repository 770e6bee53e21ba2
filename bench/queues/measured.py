"""What both queues have in common: a process, a run, and the job's work, which does nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import django

from bench.gate.figures import Part
from bench.http.rounds import Subjects, in_turn


def set_up() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.queues.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def part(name: str, subjects: Callable[[Any], Subjects], rounds: int, calls: int, seconds: float) -> Part:
    """In turn: the job of the queue alone, the gated one, and the same function as a tool, in no queue."""
    from agentstop.runs import begin
    from agentstop.tools import tool
    from bench.gate.ours import fresh_key
    from bench.gate.rounds import end, version

    until = time.monotonic() + seconds
    found = Part(f"{version()}, {name}")
    bare = tool(connector="tools", key="tool:{number}")(work)

    def in_no_queue() -> None:
        bare(fresh_key())

    with begin("measured") as run:
        in_turn(found, [*subjects(run), ("@tool, in no queue", in_no_queue)], rounds, calls, until)
    end()
    return found


def work(number: str) -> str:
    return number
