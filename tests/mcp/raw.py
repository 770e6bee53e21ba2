"""An MCP server by hand, over stdio, revision 2025-11-25, with tasks: it misbehaves as its tools are named.

`raw.py FOLDER`. A tool goes on once FOLDER/go-NAME is there, and writes what it did into FOLDER/ledger. Standard
library only, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
lock = threading.Lock()
tasks: dict[str, dict[str, Any]] = {}
doomed: set[Any] = set()  # the calls whose cancel ends the server
slow: list[Any] = []  # the calls for the probe, in their order
cancelled = threading.Event()  # a cancel has come
SLOW = 0.25  # seconds that a call for the probe takes, at least


def say(**message: Any) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(what: str, name: str) -> None:
    with lock, (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{what} {name}\n")


def until_told(name: str) -> None:
    while not (FOLDER / f"go-{name}").exists():
        time.sleep(0.01)


def text(told: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": told}]}


def call(identifier: Any, tool: str, name: str, token: Any) -> None:
    note("began", name)
    match tool:
        case "twice":
            say(id=identifier, result=text("first"))
            say(id=identifier, result=text("second"))
        case "other_id":
            say(id=999_999, result=text("whose?"))
        case "steps":
            for step in range(200):
                say(method="notifications/progress", params={"progressToken": token, "progress": step, "total": 200})
                if (FOLDER / f"go-{name}").exists():
                    break
                time.sleep(0.05)
            note("did", name)
            say(id=identifier, result=text("done in steps"))
        case "nonsense":
            with lock:
                sys.stdout.write("this is no JSON\n")
                sys.stdout.flush()
            say(id=identifier, result={"what": "is this"})
        case "wrong":
            say(id=identifier, error={"code": -32603, "message": "something broke"})
        case "huge":
            with lock:
                sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {identifier}, "result": {{"text": "')
                for _ in range(200):
                    sys.stdout.write("x" * 1_000_000)
                sys.stdout.write('"}}\n')
                sys.stdout.flush()
        case "errs":
            say(id=identifier, result={**text("it went wrong"), "isError": True})
        case "changes":
            say(method="notifications/tools/list_changed")
            say(id=identifier, result=text("changed"))
        case "dies_on_cancel":
            doomed.add(identifier)
        case "dies":
            note("did", name)
            os._exit(3)


def progress(token: Any, step: int) -> None:
    say(method="notifications/progress", params={"progressToken": token, "progress": step, "total": 2})


def probed(identifier: Any, tool: str, name: str, token: Any) -> None:
    """Has its effect and is answered after a while; the second call waits for its cancel, and ends as its tool says."""
    slow.append(identifier)
    second = len(slow) == 2
    if tool == "slow_progress":
        progress(token, 1)
    if second:
        cancelled.wait(60)
        if tool == "slow_dies":
            os._exit(3)
    if second and tool in {"slow_says_cancelled", "slow_gives_up"}:
        say(id=identifier, error={"code": -32800, "message": "Request cancelled"})
    if second and tool == "slow_progress":
        progress(token, 2)
    time.sleep(SLOW)
    if len(slow) > 1 and tool == "slow_fails_again":
        say(id=identifier, error={"code": -32603, "message": "something broke"})
    elif not second:
        note("did", name)
        say(id=identifier, result=text("done"))
    elif tool == "slow_says_cancelled":
        note("did", name)


def task(identifier: Any, tool: str, name: str) -> None:
    key = f"task-{name}"
    tasks[key] = {"taskId": key, "status": "working", "createdAt": "2026-01-01T00:00:00Z"}
    tasks[key] |= {"lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60000, "pollInterval": 50}
    threading.Thread(target=work, args=(key, tool, name), daemon=True).start()
    say(id=identifier, result={"task": dict(tasks[key])})


def work(key: str, tool: str, name: str) -> None:
    note("began", name)
    until_told(name)
    if tool == "forgotten_job":
        tasks.pop(key, None)
        return
    if tool == "job" and tasks[key]["status"] == "cancelled":
        return
    note("did", name)
    if tasks[key]["status"] != "cancelled":
        tasks[key]["status"] = "completed"


def about_task(identifier: Any, method: str, key: str) -> None:
    if key not in tasks:
        say(id=identifier, error={"code": -32602, "message": f"Task not found: {key}"})
    elif method == "tasks/result":
        say(id=identifier, result=text("the job is done"))
    elif method == "tasks/cancel" and tasks[key]["status"] != "working":
        say(id=identifier, error={"code": -32602, "message": "Cannot cancel task in terminal status"})
    else:
        if method == "tasks/cancel":
            tasks[key]["status"] = "cancelled"
            note("cancelled", key.removeprefix("task-"))
        say(id=identifier, result=dict(tasks[key]))


def answer(told: dict[str, Any]) -> None:
    method, params, identifier = told.get("method", ""), told.get("params") or {}, told.get("id")
    if method == "initialize":
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": {"cancel": {}}}}
        say(id=identifier, result={**hello, "serverInfo": {"name": "raw", "version": "1"}})
    elif method == "tools/list":
        say(id=identifier, result={"tools": listed()})
    elif method == "tools/call" and params["name"].startswith("slow_"):
        token = params.get("_meta", {}).get("progressToken")
        about = (identifier, params["name"], params["arguments"]["name"], token)
        threading.Thread(target=probed, args=about, daemon=True).start()
    elif method == "tools/call" and "task" in params:
        task(identifier, params["name"], params["arguments"]["name"])
    elif method == "tools/call":
        token = params.get("_meta", {}).get("progressToken")
        about = (identifier, params["name"], params["arguments"]["name"], token)
        threading.Thread(target=call, args=about, daemon=True).start()
    elif method.startswith("tasks/"):
        about_task(identifier, method, params["taskId"])
    elif method == "notifications/cancelled":
        note("asked", str(params.get("requestId")))
        cancelled.set()
        if params.get("requestId") in doomed:
            os._exit(3)
    elif identifier is not None:
        say(id=identifier, error={"code": -32601, "message": "no such method"})


def listed() -> list[dict[str, Any]]:
    """FOLDER/tools, a line each: its name, and whether it says that it only reads."""
    path = FOLDER / "tools"
    lines = path.read_text().splitlines() if path.exists() else []
    told = [line.split() for line in lines]
    schema = {"type": "object"}
    return [{"name": a, "inputSchema": schema, "annotations": {"readOnlyHint": b == "reads"}} for a, b in told]


def main() -> None:
    for line in sys.stdin:
        answer(json.loads(line))


if __name__ == "__main__":
    main()
