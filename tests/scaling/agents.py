"""What the workers of that site run."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready


@worker_ready.connect(weak=False)
def ready(**_: Any) -> None:
    print("worker ready", flush=True)
