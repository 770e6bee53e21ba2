"""What the server does, whatever it is spoken to by: one tool whose calls and tasks play what they are asked to.

All that it did is in FOLDER/ledger, a line each, "what key": the referee. FOLDER/hold-POINT holds everyone there.
FOLDER/misbehave is a JSON object of switches for all that begins from now on; a task keeps those that it began with.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

OLD, NEW = "2025-11-25", "2026-07-28"
VERSION, KEY = "io.modelcontextprotocol/protocolVersion", "agentstop/idempotency-key"
TURNED_DOWN, BROKEN, CANCELLED = -32602, -32603, -32800
LOOK = 0.01  # seconds between two looks at a hold
SLOW = 0.6  # seconds
HUNG = 120.0  # seconds after which nobody waits for it any more

Message = dict[str, Any]
Say = Callable[[Message], None]


class Lost(Exception):
    """The answer is never to arrive."""


class Desk:
    """One ledger, and the calls and tasks that are under way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._calls: dict[Any, threading.Event] = {}  # by the id of the request
        self._tasks: dict[str, Message] = {}
        self._given_up: dict[str, threading.Event] = {}  # by the id of the task
        self._wrong: dict[str, Mapping[str, Any]] = {}  # the switches of a task, as it began
        self._errors: dict[str, int] = {}
        folder.mkdir(exist_ok=True)

    def note(self, what: str, key: str) -> None:
        with self._lock, (self.folder / "ledger").open("a") as ledger:
            ledger.write(f"{what} {key}\n")

    def has(self, what: str, key: str) -> bool:
        path = self.folder / "ledger"
        return path.exists() and f"{what} {key}" in path.read_text().splitlines()

    def switches(self) -> Mapping[str, Any]:
        path = self.folder / "misbehave"
        told: Mapping[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return told

    def pass_point(self, point: str, key: str, given_up: threading.Event | None = None) -> None:
        """Say that somebody has come there, and go on when nothing holds them; those who are given up, at once."""
        self.note(f"at-{point}", key)
        until = time.monotonic() + HUNG
        while (self.folder / f"hold-{point}").exists() and time.monotonic() < until:
            if given_up is not None and given_up.is_set():
                return
            time.sleep(LOOK)

    def call(self, request: Message, say: Say, given_up: threading.Event) -> None:
        """Answer a `tools/call`, or raise `Lost`."""
        params, identifier = request["params"], request["id"]
        key, how = params.get("_meta", {}).get(KEY, ""), params.get("arguments", {}).get("how", "")
        wrong = self.switches()
        with self._lock:
            self._calls[identifier] = given_up
        self.note("asked", key)
        self.pass_point("received", key)
        if how == "refuse":
            say({"error": {"code": TURNED_DOWN, "message": "Invalid params: refused"}})
            return
        if how == "hang":
            given_up.wait(HUNG)
            return
        if params["name"] == "job":
            self._job(request, key, how, say, wrong)
            return
        self.note("began", key)
        self.pass_point("accepted", key)
        done = self._work(key, how, given_up)
        if done and (how == "lose" or wrong.get("lose_response")):
            raise Lost
        if done:
            say({"result": told(f"done {key}", request)})
        if done and how == "twice":
            self.pass_point("second", key)
            say({"result": {**told("on second thoughts", request), "isError": True}})

    def _job(self, request: Message, key: str, how: str, say: Say, wrong: Mapping[str, Any]) -> None:
        """Make a task of it, once for each key."""
        ref, new = f"task-{key}", version(request) == NEW
        with self._lock:
            known = ref in self._tasks
            self._tasks.setdefault(ref, {"taskId": ref, "status": "working", **STAMPS[new]})
            self._wrong.setdefault(ref, wrong)
            given_up = self._given_up.setdefault(ref, threading.Event())
        if not known:
            self.note("began", key)
        self.pass_point("accepted", key)
        working = threading.Thread(target=self._finish, args=(ref, key, how, given_up), daemon=True)
        if not known:
            working.start()
        if (how == "lose" or wrong.get("lose_response")) and not known:
            working.join(HUNG)
            raise Lost
        ticket = dict(self._tasks[ref])
        say({"result": {"resultType": "task", **ticket} if new else {"task": ticket}})

    def _finish(self, ref: str, key: str, how: str, given_up: threading.Event) -> None:
        done = self._work(key, how, given_up)
        with self._lock:
            if done and self._tasks[ref]["status"] == "working":
                self._tasks[ref]["status"] = "completed"

    def _work(self, key: str, how: str, given_up: threading.Event) -> bool:
        """Have the effect, once for each key; False where it was given up before."""
        self.pass_point("working", key, given_up)
        if how == "last":
            given_up.wait(HUNG)
        if how == "slow":
            given_up.wait(SLOW)
        with self._lock:
            done = not given_up.is_set()
            if done and not self.has("did", key):
                self.note("did", key)
        if done:
            self.pass_point("effect", key)
        self.note("over", key)
        return done

    def give_up(self, identifier: Any) -> None:
        """A call's cancel; unknown ids harm nobody."""
        with self._lock:
            found = self._calls.get(identifier)
        if found is not None:
            found.set()

    def about_task(self, request: Message) -> Message:
        """The reply to `tasks/get`, `tasks/result` and `tasks/cancel`."""
        ref, new, method = request["params"]["taskId"], version(request) == NEW, request["method"]
        key = ref.removeprefix("task-")
        task = self._tasks.get(ref)
        if task is None:
            return {"error": {"code": TURNED_DOWN, "message": f"Task not found: {ref}"}}
        if method == "tasks/cancel":
            return self._cancel(task, key, new=new)
        if method == "tasks/result":
            return {"result": told(f"done {key}", request)}
        inlined = {"result": told(f"done {key}", request)} if new and task["status"] == "completed" else {}
        return {"result": {**task, **inlined}}

    def _cancel(self, task: Message, key: str, *, new: bool) -> Message:
        self.note("asked-to-cancel", key)
        self.pass_point("cancel", key)
        wrong = self._wrong[task["taskId"]]
        with self._lock:
            if self._errors.get(key, 0) < wrong.get("cancel_error", 0):
                self._errors[key] = self._errors.get(key, 0) + 1
                return {"error": {"code": BROKEN, "message": "an error, nothing was cancelled"}}
            if wrong.get("refuse_cancel") or (task["status"] != "working" and not new):
                return {"error": {"code": TURNED_DOWN, "message": "Cannot cancel task in terminal status"}}
            if task["status"] == "working" and not (new and wrong.get("ack_and_complete")):
                task["status"] = "cancelled"  # 2025-11-25: before it replies, whatever the work does
            if not wrong.get("ack_and_complete") and not wrong.get("confirm_and_complete"):
                self._given_up[task["taskId"]].set()
            return {"result": {"resultType": "complete"} if new else dict(task)}


STAMPS: dict[bool, Message] = {
    new: {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", **wait}
    for new, wait in ((False, {"ttl": 60000, "pollInterval": 50}), (True, {"ttlMs": 60000, "pollIntervalMs": 50}))
}


def version(request: Message) -> str:
    """The revision that it is spoken to in: the new one says so in every request."""
    return str(request.get("params", {}).get("_meta", {}).get(VERSION, OLD))


def told(text: str, request: Message) -> Message:
    """The result of the tool, with the login that came with the request, as careless servers say it."""
    login = request.get("login", "")
    result: Message = {"content": [{"type": "text", "text": f"{text} {login}".strip()}]}
    return {"resultType": "complete", **result} if version(request) == NEW else result


def answered(desk: Desk, request: Message) -> Message | None:
    """The reply to all but `tools/call`; None to what has none."""
    method, params = request.get("method", ""), request.get("params") or {}
    if method == "notifications/cancelled":
        desk.give_up(params.get("requestId"))
    if "id" not in request:
        return None
    if method == "initialize":
        abilities: Message = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
        about = {"protocolVersion": OLD, "capabilities": abilities, "serverInfo": {"name": "scripted", "version": "1"}}
        return {"result": about}
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("play", "job")]
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if version(request) == NEW else {}
        return {"result": {"tools": tools, **more}}
    if method.startswith("tasks/"):
        return desk.about_task(request)
    return {"error": {"code": -32601, "message": f"no such method: {method}"}}
