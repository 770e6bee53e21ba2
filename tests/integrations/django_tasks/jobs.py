"""The tasks of these tests: their jobs write to the sandbox, gated or not."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import django
import httpx
from django.conf import settings

from agentstop.integrations.django_tasks import gated_task
from agentstop.runs import current_run
from agentstop.tools import current_operation
from tests.conftest import HANG_GUARD
from tests.races.sender import tell

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import task as task
else:
    from django_tasks import task

NOTIFY = "notify.post"
AT: dict[str, threading.Event] = defaultdict(threading.Event)  # told by a job of this process
GO: dict[str, threading.Event] = defaultdict(threading.Event)  # what it waits for


def words(label: str, **switches: Any) -> dict[str, Any]:
    return {"label": label, "text": label, "seconds": 0, "sandbox": switches}


def write(label: str, key: str = "") -> None:
    """The effect itself, as a client library would make it."""
    headers = {"Idempotency-Key": key} if key else {}
    address = f"{settings.SANDBOX_ADDRESS}/notifications"
    httpx.post(address, json=words(label), headers=headers, timeout=HANG_GUARD).raise_for_status()


def meet(name: str) -> None:
    AT[name].set()
    assert GO[name].wait(HANG_GUARD)


def own_key() -> str:
    op = current_operation.get()
    assert op is not None
    return op.idempotency_key


@task
def ungated(label: str) -> None:
    """What all this is for: the same effect without a gate."""
    write(label)


@gated_task(connector="sandbox", action=NOTIFY, key="{label}", comes_back=0.0)
def notify(label: str) -> str:
    """One job, one operation."""
    write(label, own_key())
    return f"told {label}"


@gated_task(connector="sandbox", action=NOTIFY)
def nameless(label: str) -> str:
    """Its operation has the job's own id for a key."""
    write(label, own_key())
    return label


@gated_task(connector="sandbox", action=NOTIFY, key="{label}", takes_context=True, comes_back=0.0)
def with_context(context: Any, label: str) -> int:
    write(label, own_key())
    attempt: int = context.attempt
    return attempt


@gated_task(connector="sandbox", action=NOTIFY, key="{label}")
async def coroutine(label: str) -> str:
    write(label, own_key())
    return f"told {label}"


@gated_task(backend="immediate", connector="sandbox", action=NOTIFY, key="{label}")
def at_once(label: str) -> str:
    write(label, own_key())
    return f"told {label}"


@gated_task(connector="sandbox", action=NOTIFY, key="{label}")
def fails(label: str) -> None:
    raise TimeoutError("no answer")


@gated_task()
def several(labels: list[str]) -> list[str]:
    """Several effects, each through the gate, with the test between them."""
    run = current_run.get()
    assert run is not None
    got = []
    for label in labels:
        got.append(str(run.call(NOTIFY, words(label), connector="sandbox", key=label).outcome))
        meet(label)
    return got


@gated_task()
def parent(label: str) -> str:
    """Sends a child."""
    return str(notify.enqueue(f"{label} child").id)


@gated_task()
def hears(name: str) -> bool:
    """Works until it hears of the stop."""
    run = current_run.get()
    assert run is not None
    AT[name].set()
    return run.stop_signal.wait(HANG_GUARD)


@gated_task(ends_run=True)
def agent(how: str) -> str:
    """A whole run."""
    if how == "fails":
        raise ValueError("no idea")
    if how == "waits":
        meet("agent")
        run = current_run.get()
        assert run is not None
        run.check()
    return "done"


@gated_task(check_first=False)
def ask(name: str, action: str, args: dict[str, Any], key: str) -> None:
    """In a process of its own: its own call is the gate. Tells what it got."""
    run = current_run.get()
    assert run is not None
    try:
        outcome = run.call(action, args, connector="sandbox", key=key)
        tell(ended=name, outcome=outcome.outcome, refusal=outcome.refusal.reason if outcome.refusal else "")
    except BaseException as error:
        tell(ended=name, outcome=f"raised {error!r}", refusal="")
        raise
