"""The run token in a job's headers: put there once, and handed on to whatever that job sends to the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery._state import get_current_worker_task
from celery.signals import before_task_publish, worker_process_shutdown

from agentstop import sending, wake
from agentstop.runs import Run, current_run

HEADER = "agentstop_run"


def token_of(request: Any) -> str:
    """The token that a job came with, or an empty text."""
    return request.get(HEADER) or (request.headers or {}).get(HEADER) or ""


def stamped(headers: Mapping[str, Any] | None, run: Run | None = None) -> dict[str, Any]:
    """The headers with a token: of the run that is named, else the one that is there, else of the run at hand."""
    known = dict(headers or {})
    token = run.token if run is not None else known.get(HEADER) or _at_hand()
    return {**known, HEADER: token} if token else known


def _at_hand() -> str:
    """Of the current run, or of the job whose callbacks and next steps are being sent: its block is over by then."""
    run = current_run.get()
    if run is not None:
        return run.token
    task = get_current_worker_task()
    return token_of(task.request) if task is not None else ""


def _carry_on(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Jobs that are sent by name, and those of Celery's own that a canvas is made of, carry the token too."""
    if headers is not None:
        headers.update(stamped(headers))


def _drain(**_: Any) -> None:
    """A process of the pool ends without the interpreter's end, at which what is under way would be waited for."""
    sending.close()
    wake.close()


before_task_publish.connect(_carry_on, weak=False, dispatch_uid="agentstop.carry_on")
worker_process_shutdown.connect(_drain, weak=False, dispatch_uid="agentstop.drain")
