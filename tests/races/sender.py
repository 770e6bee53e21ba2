"""A process of its own that sends: python -m tests.races.sender, told what to do by JSON lines, telling by JSON lines.

{"do": "set", "sandbox": address, "settling": seconds, "settings": {...}}   {"do": "hold", "point": "P2", "key": "main"}
{"do": "call", "name": "main", "token": ..., "action": ..., "args": {...}, "key": ...}   {"do": "go"}
{"do": "hear", "token": ...}   {"do": "client"}   {"do": "rest"}
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import django

OUT = threading.Lock()
PATIENCE = 60.0


def tell(**message: Any) -> None:
    with OUT:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def main() -> None:
    django.setup()
    from agentstop.testing.sandbox.connector import sandbox_connector
    from tests.races.barriers import Barrier, held_at, shared_client

    held, barriers = ExitStack(), list[Barrier]()
    for line in sys.stdin:
        told = json.loads(line)
        match told["do"]:
            case "set":
                configure(sandbox_connector(told["sandbox"], settling=timedelta(seconds=told["settling"])), told)
            case "hold":
                point = told["point"]
                barriers.append(Barrier(told["key"], lambda point=point: tell(at=point)))  # type: ignore[misc]
                held.enter_context(held_at(point, barriers[-1]))
            case "call":
                threading.Thread(target=call, args=(told,)).start()
            case "hear":
                hear(told["token"])
            case "client":
                tell(client=shared_client())
            case "go":
                for barrier in barriers:
                    barrier.open()
            case "rest":
                rest(held)
                barriers.clear()
                tell(rested=True)


def configure(connector: dict[str, Any], told: dict[str, Any]) -> None:
    from django.conf import settings
    from django.core.signals import setting_changed

    settings.AGENTSTOP_CONNECTORS = {"sandbox": connector}
    setting_changed.send(sender=None, setting="AGENTSTOP_CONNECTORS", value=connector, enter=True)
    for name, value in told["settings"].items():
        setattr(settings, f"AGENTSTOP_{name}", value)
    tell(ready=True)


def call(told: dict[str, Any]) -> None:
    from django.db import connections

    from agentstop.runs import Run

    try:
        run = Run.from_token(told["token"])
        outcome = run.call(told["action"], told["args"], connector="sandbox", key=told["key"])
        refusal = outcome.refusal.reason if outcome.refusal is not None else ""
        tell(ended=told["name"], outcome=outcome.outcome, refusal=refusal)
    except BaseException as error:
        tell(ended=told["name"], outcome=f"raised {error!r}", refusal="")
        raise
    finally:
        connections.close_all()


def hear(token: str) -> None:
    from agentstop.runs import Run
    from agentstop.stop_signal import watch

    run = Run.from_token(token)
    tell(heard=watch().signal(run.task_id, run.number).wait(PATIENCE))


def rest(held: ExitStack) -> None:
    """Let everything under way come to its end, and hold nobody any more."""
    from django.db import connections

    from agentstop import sending, wake

    sending.close()
    wake.close()
    held.close()
    connections.close_all()


if __name__ == "__main__":
    main()
