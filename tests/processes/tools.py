"""Tools that run in processes of their own: each says where it is, and waits there until the test lets it go on."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from multiprocessing.connection import Client
from typing import Any

from agentstop.dispatched import Accepted, Dispatched


def meet(place: str, *told: Any) -> None:
    """Tell the test the process's number and more, and wait for its word."""
    with Client(place) as test:
        test.send((os.getpid(), *told))
        test.recv()


def returns(op: Dispatched, value: Any = "done") -> Any:
    return value


async def returns_async(op: Dispatched, place: str) -> str:
    await asyncio.to_thread(meet, place)
    await op.aprogress(0.5)
    await op.aaccepted("7")
    settled = await op.asucceeded("done", ref="7")
    return f"not used: {settled.outcome}"


def raises(op: Dispatched) -> None:
    raise ValueError("not my day")


def raises_system_exit(op: Dispatched) -> None:
    sys.exit(3)


def returns_what_cannot_be_passed_on(op: Dispatched) -> Any:
    return threading.Lock()


def ends_by_itself(op: Dispatched) -> None:
    os._exit(3)


def violates_the_memory(op: Dispatched) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what the system prints of it is not for the test's output
    ctypes.string_at(0)


def is_ended_by_the_system(op: Dispatched) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # as when the memory runs out


def computes(op: Dispatched, place: str) -> None:
    meet(place)
    while True:
        pass


def computes_in_c(op: Dispatched, place: str) -> None:
    """No other thread of the process ever runs again."""
    meet(place)
    re.match(r"(a+)+$", "a" * 64 + "b")


def ignores_requests_to_end(op: Dispatched, place: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    computes(op, place)


def has_a_program_compute(op: Dispatched, place: str) -> None:
    program = [sys.executable, "-c", "import time\nwhile True: time.sleep(1)"]
    with subprocess.Popen(program) as process:
        meet(place, process.pid)
        process.wait()


def gives_up_when_told(op: Dispatched, place: str) -> None:
    meet(place)
    op.stop_signal.wait()
    op.stop_signal.raise_if_set()


def send(address: str, key: str, text: str) -> Any:
    """One request to the sandbox."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    body = json.dumps({"text": text, "label": text, "seconds": 0, "sandbox": {}}).encode()
    request = urllib.request.Request(f"{address}/notifications", body, headers)  # noqa: S310  the test's own sandbox
    with urllib.request.urlopen(request) as reply:  # noqa: S310  the same
        return json.load(reply)


def posts(op: Dispatched, place: str, address: str, text: str, before: str) -> Any:
    """Sends, after it has met the test before its check or right before the write; or nowhere."""
    if before == "the check":
        meet(place)
    op.check()
    if before == "the write":
        meet(place)
    return send(address, op.idempotency_key, text)


def posts_after_the_stop(op: Dispatched, place: str, address: str, text: str) -> Any:
    """It was let through, hears of the stop, and sends all the same."""
    op.check()
    meet(place)
    assert op.stop_signal.wait(60)
    return send(address, op.idempotency_key, text)


def hands_in_and_computes(op: Dispatched, place: str, claim: str) -> None:
    if claim == "accepted":
        op.accepted("7")
    elif claim == "succeeded":
        op.succeeded("done", ref="7")
    else:
        op.failed("no")
    computes(op, place)


def tries_after_the_stop(op: Dispatched, place: str) -> Accepted:
    meet(place)
    assert op.stop_signal.wait(60)
    op.check()
    return op.accepted("never")


class Held:
    """An argument whose arrival in the child is held by the test: the function is not called yet."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __setstate__(self, state: dict[str, str]) -> None:
        self.place = state["place"]
        meet(self.place)


def needs(op: Dispatched, argument: Held) -> str:
    return "was called"
