"""A process of its own that sends, or that works: python -m tests.races, told what to do and telling by JSON lines.

{"do": "set", "sandbox": address, "settling": seconds, "settings": {...}}   {"do": "hold", "point": "P2", "key": "main"}
{"do": "call", "name": "main", "token": ..., "action": ..., "args": {...}, "key": ...}   {"do": "go"}
{"do": "hear", "token": ...}   {"do": "client"}   {"do": "rest"}   {"do": "work", "once": true}, as agentstop_worker
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.signals import setting_changed
from django.db import connections

from agentstop import sending, wake
from agentstop.runs import Run
from agentstop.stop_signal import watch
from agentstop.testing.barriers import Barrier, held_at, shared_client
from agentstop.testing.sandbox.connector import sandbox_connector

OUT = threading.Lock()
PATIENCE = 60.0


def tell(**message: Any) -> None:
    with OUT:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


class Stage:
    """What this process was told to hold."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._barriers: list[Barrier] = []

    def obey(self, told: dict[str, Any]) -> None:
        match told["do"]:
            case "set":
                configure(sandbox_connector(told["sandbox"], settling=timedelta(seconds=told["settling"])), told)
            case "hold":
                self._hold(told["point"], told["key"])
            case "call":
                threading.Thread(target=call, args=(told,)).start()
            case "hear":
                hear(told["token"])
            case "client":
                tell(client=shared_client())
            case "go":
                for barrier in self._barriers:
                    barrier.open()
            case "rest":
                rest(self._held)
                self._barriers.clear()
                tell(rested=True)

    def _hold(self, point: str, key: str) -> None:
        self._barriers.append(Barrier(key, lambda: tell(at=point)))
        self._held.enter_context(held_at(point, self._barriers[-1]))

    def listen(self) -> None:
        for line in sys.stdin:
            self.obey(json.loads(line))


def main() -> None:
    stage = Stage()
    for line in sys.stdin:
        told = json.loads(line)
        if told["do"] == "work":
            return work(stage, once=told["once"])
        stage.obey(told)
    return None


def work(stage: Stage, *, once: bool) -> None:
    """`manage.py agentstop_worker`, which wants the main thread: another one listens until there is nothing to hear."""

    def listen() -> None:
        stage.listen()
        if not once:
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=listen).start()
    call_command("agentstop_worker", once=once, stdout=io.StringIO())
    tell(worked=True)


def configure(connector: dict[str, Any], told: dict[str, Any]) -> None:

    settings.AGENTSTOP_CONNECTORS = {"sandbox": connector}
    setting_changed.send(sender=None, setting="AGENTSTOP_CONNECTORS", value=connector, enter=True)
    for name, value in told["settings"].items():
        setattr(settings, f"AGENTSTOP_{name}", value)
    tell(ready=True)


def call(told: dict[str, Any]) -> None:

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

    run = Run.from_token(token)
    tell(heard=watch().signal(run.task_id, run.number).wait(PATIENCE))


def rest(held: ExitStack) -> None:
    """Let everything under way come to its end, and hold nobody any more."""

    sending.close()
    wake.close()
    held.close()
    connections.close_all()
