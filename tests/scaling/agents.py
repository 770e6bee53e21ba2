"""What the workers of that site run. A job may be held on its own machine, by a file: no network is needed for that."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from celery import shared_task
from celery.signals import worker_ready
from django.conf import settings

from agentstop.integrations.celery import GatedTask
from agentstop.runs import current_run
from agentstop.testing.barriers import PATIENCE, Barrier, held_at

LATE, WILD = "late", "wild"  # passes the gate, and is held before its first byte; has no gate
THINKS = "thinks"  # about what it sends next
LONG = 60.0  # seconds that a send may take, on a busy machine too
_held = ExitStack()


class File(Barrier):
    """Holds what has this key, and tells and is told by files."""

    def __init__(self, key: str) -> None:
        super().__init__(key, lambda: None)

    def pass_by(self) -> None:
        folder = Path(os.environ["HELD"])
        (folder / f"at-{self.key}").touch()
        give_up = time.monotonic() + PATIENCE
        while not (folder / f"go-{self.key}").exists():
            assert time.monotonic() < give_up, f"{self.key} was held too long"
            time.sleep(0.02)

    async def apass_by(self) -> None:
        import asyncio

        await asyncio.to_thread(self.pass_by)


def words(label: str) -> dict[str, Any]:
    return {"label": label, "text": label, "seconds": 0}


@shared_task(base=GatedTask)
def send(action: str, key: str) -> str:
    """One effect."""
    run = current_run.get()
    assert run is not None
    return str(run.call(action, words(key), connector="sandbox", key=key, deadline=LONG).outcome)


@shared_task(base=GatedTask)
def many() -> None:
    """One after the other, until the run is over."""
    run = current_run.get()
    assert run is not None
    for number in range(1000):
        run.check()
        run.call("notify.post", words(f"many:{number}"), connector="sandbox", key=f"many:{number}", deadline=LONG)
        time.sleep(1.0)


@shared_task(base=GatedTask)
def thinks() -> str:
    """An agent between two effects."""
    File(THINKS).pass_by()
    return str(send.run("notify.post", THINKS))


@shared_task
def ungated() -> None:
    """What all this is for."""
    File(WILD).pass_by()
    with httpx.Client(transport=httpx.HTTPTransport(retries=6), timeout=LONG) as client:  # as SDKs do
        client.post(f"{settings.SANDBOX_ADDRESS}/notifications", json=words(WILD)).raise_for_status()


@worker_ready.connect(weak=False)
def ready(**_: Any) -> None:
    if "HELD" in os.environ:
        _held.enter_context(held_at("P2", File(LATE)))
    print("worker ready", flush=True)
