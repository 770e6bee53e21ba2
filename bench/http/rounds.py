"""One database's rounds, in a process of its own; prints its figures as JSON.

DATABASE_URL=… python -m bench.http.rounds ROUNDS CALLS SECONDS
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from bench.gate.figures import Figures, Part
from bench.http.server import serving

WARM_UP = 5  # calls of each subject that are not counted
BODY = {"amount": 700, "currency": "eur"}

Subjects = Sequence[tuple[str, Callable[[], None]]]


def set_up() -> None:
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def main(rounds: int, calls: int, seconds: float) -> Part:
    """A bare POST, the same through the gate, and within an operation that has passed already, in turn."""
    set_up()
    from agentstop.runs import begin
    from bench.gate.rounds import end, version

    until = time.monotonic() + seconds
    part = Part(f"{version()}, HTTP")
    with serving() as address, begin("measured") as run:
        subjects, close = _subjects(address, run)
        in_turn(part, subjects, rounds, calls, until)
        close()
    end()
    return part


def in_turn(part: Part, subjects: Subjects, rounds: int, calls: int, until: float) -> None:
    """So many calls of each subject in each round, until there is no time left."""
    from bench.gate.ours import timed

    part.figures = [Figures(name, 1) for name, _ in subjects]
    for _, call in subjects:
        timed(call, WARM_UP)
    for _ in part.rounds(rounds, until):
        for figures, (_, call) in zip(part.figures, subjects, strict=True):
            figures.rounds.append(timed(call, calls))


def _subjects(address: str, run: Any) -> tuple[Subjects, Callable[[], None]]:
    import httpx

    from agentstop.integrations.http.for_httpx import GatedTransport
    from agentstop.integrations.http.scope import through
    from bench.gate.ours import fresh_key

    bare = httpx.Client(base_url=address)
    gated = httpx.Client(base_url=address, transport=GatedTransport("tools"))

    def write(client: httpx.Client) -> None:
        assert client.post("/charges", json=BODY).status_code == 200

    def write_gated() -> None:
        with through(run, key=fresh_key()):
            write(gated)

    def write_within() -> None:
        with run.dispatch("charge", BODY, key=fresh_key(), connector="tools") as op, through(op):
            write(gated)
            op.succeeded("sent")

    def read_gated() -> None:
        assert gated.get("/charges").status_code == 200

    def close() -> None:
        bare.close()
        gated.close()

    subjects = [
        ("bare POST by httpx", lambda: write(bare)),
        ("gated POST", write_gated),
        ("POST within an operation", write_within),
        ("GET by the gated client", read_gated),
    ]
    return subjects, close


if __name__ == "__main__":
    found = main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(asdict(found)))
