"""The Celery application of these tests: its jobs write to the sandbox, gated or not, and tell through Redis.

As a worker: `python -m celery -A tests.integrations.celery.app worker`, with BROKER and SANDBOX in the environment.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import django
import httpx
import redis
from celery import Celery
from celery.exceptions import Ignore, Reject
from celery.signals import worker_init, worker_process_init, worker_ready
from django.apps import apps
from django.conf import settings
from django.core.signals import setting_changed

if not apps.ready:  # in a worker this module is the first
    django.setup()

from agentstop import sending, wake
from agentstop.integrations.celery import GatedTask
from agentstop.runs import begin, current_run
from agentstop.testing.barriers import Barrier, held_at, shared_client
from agentstop.testing.sandbox.connector import sandbox_connector
from agentstop.tools import current_operation

PATIENCE = 60
POINTS = ("P1", "P2", "P8")
NOTIFY = "notify.post"

app = Celery("tests")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_default_queue="jobs",
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    worker_proc_alive_timeout=60.0,
    result_expires=600,
    broker_transport_options={"visibility_timeout": 3600},
)


def connect(broker: str) -> redis.Redis:
    """Where jobs are queued, and where they tell."""
    app.conf.broker_url = app.conf.result_backend = f"redis+socket://{broker}"
    return redis.Redis(unix_socket_path=broker, decode_responses=True)


store = connect(os.environ["BROKER"]) if "BROKER" in os.environ else redis.Redis()
_held = ExitStack()


class TestsBarrier(Barrier):
    """Holds what the test has named in Redis, and is opened there."""

    def __init__(self, point: str) -> None:
        super().__init__("", lambda: None)
        self.point = point

    def takes(self, key: str) -> bool:
        return bool(store.get(f"hold:{self.point}") == key)

    def pass_by(self) -> None:
        store.rpush(f"at:{self.point}", "here")
        store.blpop([f"go:{self.point}"], PATIENCE)

    async def apass_by(self) -> None:
        import asyncio

        await asyncio.to_thread(self.pass_by)


def prepare(**_: Any) -> None:
    """A process that works: its connectors, and the points at which it may be held."""
    if "SANDBOX" not in os.environ:
        return
    connector = sandbox_connector(os.environ["SANDBOX"], settling=timedelta(seconds=float(os.environ["SETTLING"])))
    settings.AGENTSTOP_CONNECTORS = {"sandbox": connector, "tools": {}}
    for name, value in json.loads(os.environ["SETTINGS"]).items():
        setattr(settings, f"AGENTSTOP_{name}", value)
    setting_changed.send(sender=None, setting="AGENTSTOP_CONNECTORS", value=connector, enter=True)
    for point in POINTS:
        _held.enter_context(held_at(point, TestsBarrier(point)))


@worker_init.connect(weak=False)
def alone(sender: Any = None, **_: Any) -> None:
    """In pools without processes of their own the worker itself works."""
    if os.environ["POOL"] != "prefork":
        prepare()


worker_process_init.connect(prepare, weak=False)


@worker_ready.connect(weak=False)
def ready(sender: Any = None, **_: Any) -> None:
    store.rpush(f"ready:{os.environ['NAME']}", "yes")


def words(label: str, **switches: Any) -> dict[str, Any]:
    return {"label": label, "text": label, "seconds": 0, "sandbox": switches}


def write(label: str, key: str = "", **switches: Any) -> None:
    """The effect itself, as a client library would make it."""
    headers = {"Idempotency-Key": key} if key else {}
    sandbox = os.environ.get("SANDBOX", settings.SANDBOX_ADDRESS)
    answer = httpx.post(f"{sandbox}/notifications", json=words(label, **switches), headers=headers, timeout=PATIENCE)
    answer.raise_for_status()


@app.task
def ungated(label: str) -> None:
    """What all this is for: the same effect without a gate."""
    store.rpush(f"pid:{label}", os.getpid())
    write(label)


@app.task(bind=True, autoretry_for=(Exception,), retry_kwargs={"countdown": 0, "max_retries": 3})
def ungated_retry(self: Any, label: str) -> None:
    store.rpush(f"tried:{label}", self.request.retries)
    if self.request.retries == 0:
        store.blpop([f"go:{label}"], PATIENCE)
        raise ConnectionRefusedError("the first try")
    write(label)


@app.task(base=GatedTask, connector="sandbox", action=NOTIFY, key="{label}", comes_back=1.0)
def notify(label: str) -> str:
    """One job, one operation."""
    op = current_operation.get()
    store.rpush(f"pid:{label}", os.getpid())
    assert op is not None
    write(label, op.idempotency_key)
    return f"told {label}"


@app.task(base=GatedTask, connector="sandbox", action=NOTIFY, key="{label}")
def whole(label: str, text: str, seconds: float, sandbox: dict[str, Any]) -> None:
    """One job, one operation, which asks for what a provider's own send would."""
    op = current_operation.get()
    assert op is not None
    write(label, op.idempotency_key, **sandbox)


@app.task(
    base=GatedTask, bind=True, connector="sandbox", action=NOTIFY, key="{label}", comes_back=1.0,
    autoretry_for=(Exception,), retry_kwargs={"countdown": 0, "max_retries": 3},
)  # fmt: skip
def retrying(self: Any, label: str) -> str:
    """Its first try is proven not to have been sent, and waits for the test before it says so."""
    op = current_operation.get()
    assert op is not None
    store.rpush(f"tried:{label}", self.request.retries)
    if self.request.retries == 0:
        store.blpop([f"go:{label}"], PATIENCE)
        op.unsent("no connection")
        raise ConnectionRefusedError("the first try")
    write(label, op.idempotency_key)
    return f"told {label}"


@app.task(
    base=GatedTask, bind=True, connector="sandbox", action=NOTIFY, key="{label}", comes_back=1.0, says_unsent=True
)
def controlled(self: Any, label: str, how: str) -> str:
    """Celery's control flow, as its documentation has it."""
    if self.request.retries == 0:
        if how == "retry":
            raise self.retry(countdown=0)
        if how == "ignore":
            raise Ignore()
        if how == "reject":
            raise Reject("not here", requeue=False)
        try:
            raise TimeoutError("no answer")
        except TimeoutError as error:
            raise self.retry(exc=error, countdown=0) from error
    return "done"


def send_and_retry(self: Any, label: str) -> None:
    """A Retry without an error, after something was sent."""
    op = current_operation.get()
    assert op is not None
    write(label, op.idempotency_key)
    store.rpush(f"tried:{label}", "sent")
    store.blpop([f"go:{label}"], PATIENCE)
    raise self.retry(countdown=0)


SENDS = {"base": GatedTask, "bind": True, "connector": "sandbox", "action": NOTIFY, "key": "{label}"}
sent_and_retried = app.task(name="sent_and_retried", **SENDS)(send_and_retry)
falsely_unsent = app.task(name="falsely_unsent", says_unsent=True, **SENDS)(send_and_retry)


@app.task(base=GatedTask, check_first=False)
def ask(name: str, action: str, args: dict[str, Any], key: str) -> dict[str, str]:
    """A job whose own call is the gate; tells what it got."""
    run = current_run.get()
    assert run is not None
    try:
        outcome = run.call(action, args, connector="sandbox", key=key)
        refusal = outcome.refusal.reason if outcome.refusal is not None else ""
        told = {"outcome": str(outcome.outcome), "refusal": refusal}
    except BaseException as error:
        told = {"outcome": f"raised {error!r}", "refusal": ""}
        raise
    finally:
        store.rpush(f"got:{name}", json.dumps(told))
    return told


@app.task(base=GatedTask)
def several(labels: list[str]) -> list[str]:
    """Several effects, each through the gate, with the test between them."""
    run = current_run.get()
    assert run is not None
    got = []
    for label in labels:
        outcome = run.call(NOTIFY, words(label), connector="sandbox", key=label)
        got.append(str(outcome.outcome))
        store.rpush(f"done:{label}", "yes")
        store.blpop([f"go:{label}"], PATIENCE)
    return got


@app.task(base=GatedTask)
def step(told: Any, label: str, wait: bool = False) -> str:
    """A step of a canvas."""
    run = current_run.get()
    assert run is not None
    store.rpush(f"begun:{label}", "yes")
    run.call(NOTIFY, words(label), connector="sandbox", key=label)
    if wait:
        store.rpush(f"at:{label}", "here")
        store.blpop([f"go:{label}"], PATIENCE)
    return label


@app.task
def between(told: Any) -> Any:
    """A task that knows nothing of agentstop."""
    return told


@app.task(base=GatedTask)
def parent(label: str, countdown: float = 0) -> str:
    """Sends a child by the task, and one by its name."""
    notify.apply_async((f"{label} child",), countdown=countdown)
    app.send_task("tests.integrations.celery.app.notify", (f"{label} by name",), countdown=countdown)
    return label


@app.task(base=GatedTask)
def hears(name: str) -> bool:
    """Works until it hears of the stop."""
    run = current_run.get()
    assert run is not None
    store.rpush(f"begun:{name}", "yes")
    heard = run.stop_signal.wait(PATIENCE)
    store.rpush(f"heard:{name}", str(heard))
    return heard


@app.task(base=GatedTask, check_first=False)
def heard() -> bool:
    """The process has heard that the run is over."""
    run = current_run.get()
    assert run is not None
    return run.stop_signal.wait(PATIENCE)


@app.task
def client() -> int:
    """Which HTTP client all tasks of this process share."""
    return shared_client()


@app.task
def rest() -> None:
    """Everything that this process sends comes to its end."""
    sending.close()
    wake.close()


@app.task(base=GatedTask, ends_run=True)
def agent(fails: bool) -> str:
    """A whole run."""
    if fails:
        raise ValueError("no idea")
    return "done"


@app.task(base=GatedTask, ends_run=True)
def finishes_late() -> str:
    """An agent that asks nobody whether its run is live, and says that it has finished."""
    store.rpush("at:finish", "here")
    store.blpop(["go:finish"], PATIENCE)
    return "done"


@app.task(base=GatedTask, check_first=False)
def follow_up() -> list[str]:
    """Does what people have typed, with the hooks of an agent around it."""
    run = current_run.get()
    assert run is not None
    said: list[str] = []
    hooks = run.ending(on_finish=lambda _: said.append("finished"), on_stop=lambda _: said.append("stopped"))
    try:
        with hooks:
            run.call(NOTIFY, words("first"), connector="sandbox", key="first")
            while (typed := run.take_input()) is not None:
                run.call(NOTIFY, words(typed.text), connector="sandbox", key=f"input:{typed.id}")
                run.input_done(typed)
    finally:
        store.rpush("told:hooks", json.dumps(said))
    return said


@app.task(base=GatedTask)
def spawns(title: str) -> str:
    """An agent that hands work to a child run."""
    run = current_run.get()
    assert run is not None
    return begin(title, serves=[run], key=title).token
