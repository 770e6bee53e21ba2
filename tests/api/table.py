"""Who may do what over HTTP: each verb is tried by each kind of caller, and what came of it is written down.

python -m pytest tests/api/test_roles.py, with SECURITY=write in the environment, writes docs/security.md anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.api.conftest import Answer, Caller
from tests.api.test_webhooks import event, signed

CALLERS = {
    "anonymous": "nobody is logged in",
    "stranger": "a person without any right",
    "viewer": "a person with `view_task`",
    "owner": "the owner of the task",
    "operator": "a person with `view_task`, `stop_task`, `pause_task`, `start_run`, `settle_operation`, "
    "`compensate_operation`, `freeze_dispatch`",
    "no scope": "a token of the owner without the scope",
    "other's token": "a token with every scope, of a person without any right",
    "agent": "a token with every scope, of the owner",
}


@dataclass(frozen=True)
class Scene:
    """What the verbs are about: a live run with one operation whose pass is held, and what else a verb is about."""

    task: int
    run: int
    operation: int
    held: str
    question: int
    input: int = 0
    child: int = 0
    done: int = 0
    freeze: int = 0
    printed: int = 0


@dataclass(frozen=True)
class Verb:
    """One address as it is asked, and the scope that a token needs for it."""

    name: str
    method: str
    path: str
    scope: str
    body: Callable[[Scene], Mapping[str, Any]] = lambda _: {}
    about: str = ""  # what it needs that its path does not name

    def ask(self, caller: Caller, scene: Scene) -> Answer:
        path = self.path.format(**vars(scene))
        if self.about == PRINTED:
            body = event(job=f"job-{scene.printed}")
            return caller.send("post", path, body, **(signed(body) if "signed" in self.name else {}))
        return caller.get(path) if self.method == "get" else caller.post(path, **self.body(scene))


PRINTED = "{printed}"
GATE = {"action": "mail.send", "connector": "tools", "key": "another"}
SETTLED = {"outcome": "failed", "reason": "The mailbox is empty."}
VERBS = [
    Verb("find tasks", "get", "/tasks", "read"),
    Verb("read a task", "get", "/tasks/{task}", "read"),
    Verb("read its state", "get", "/tasks/{task}/state", "read"),
    Verb("read an operation", "get", "/operations/{operation}", "read"),
    Verb("wait for changes", "get", "/tasks/{task}/events", "read"),
    Verb("read a question", "get", "/questions/{question}", "read"),
    Verb("answer", "post", "/questions/{question}/answer", "read"),
    Verb("decline", "post", "/questions/{question}/decline", "read"),
    Verb("create a task", "post", "/tasks", "create", lambda _: {"title": "x"}),
    Verb("stop", "post", "/tasks/{task}/stop", "control"),
    Verb("pause", "post", "/tasks/{task}/pause", "control"),
    Verb("resume", "post", "/tasks/{task}/resume", "control"),
    Verb("look up", "post", "/operations/{operation}/look-up", "control"),
    Verb("stop many", "post", "/stops", "control", lambda scene: {"tasks": [scene.task]}),
    Verb("settle", "post", "/operations/{operation}/settle", "control", lambda _: SETTLED),
    Verb("undo", "post", "/operations/{done}/undo", "control"),
    Verb("type for the agent", "post", "/tasks/{task}/inputs", "control", lambda _: {"text": "Wait"}),
    Verb("release an input", "post", "/inputs/{input}/release", "control"),
    Verb("withdraw an input", "post", "/inputs/{input}/withdraw", "control"),
    Verb("find freezes", "get", "/freezes", "freeze"),
    Verb("freeze", "post", "/freezes", "freeze", lambda _: {"action": "nothing", "reason": "x"}),
    Verb("lift a freeze", "post", "/freezes/{freeze}/lift", "freeze"),
    Verb("begin a run", "post", "/tasks/{task}/runs", "run"),
    Verb("check", "get", "/tasks/{task}/runs/{run}", "run"),
    Verb("heartbeat", "post", "/tasks/{task}/runs/{run}/heartbeat", "run"),
    Verb("gate", "post", "/tasks/{task}/runs/{run}/operations", "run", lambda _: GATE),
    Verb("ask a person", "post", "/tasks/{task}/runs/{run}/questions", "run", lambda _: {"key": "k", "text": "Now?"}),
    Verb(
        "receipt",
        "post",
        "/operations/{operation}/receipts",
        "run",
        lambda scene: {"pass": scene.held, "claim": "succeeded"},
    ),
    Verb("take inputs", "post", "/tasks/{task}/runs/{run}/inputs", "run"),
    Verb("input done", "post", "/tasks/{task}/runs/{run}/inputs/{input}/done", "run"),
    Verb("begin a child", "post", "/tasks/{task}/runs/{run}/children", "run", lambda _: {"title": "y"}),
    Verb("link a child", "post", "/tasks/{task}/runs/{run}/children/{child}", "run"),
    Verb("wait for a child", "get", "/tasks/{task}/runs/{run}/children/{child}", "run"),
    Verb("finish", "post", "/tasks/{task}/runs/{run}/finish", "run"),
    Verb("fail", "post", "/tasks/{task}/runs/{run}/fail", "run"),
    Verb("halted", "post", "/tasks/{task}/runs/{run}/halted", "run"),
    Verb("webhook", "post", "/webhooks/printer", "read", about=PRINTED),
    Verb("webhook, signed", "post", "/webhooks/printer", "read", about=PRINTED),
]


def told(found: Mapping[tuple[str, str], Answer]) -> str:
    """The page."""
    head = f"| verb | {' | '.join(CALLERS)} |\n|{'---|' * (len(CALLERS) + 1)}\n"
    rows = [f"| {verb.name} | {' | '.join(cell(found[verb.name, who]) for who in CALLERS)} |" for verb in VERBS]
    meanings = "\n".join(f"- **{who}**: {what}" for who, what in CALLERS.items())
    return f"{TOP}\n{meanings}\n\n{head}" + "\n".join(rows) + "\n"


def cell(answer: Answer) -> str:
    return str(answer.status) if answer.status < 400 else f"{answer.status} {answer.reason}"


TOP = """# Security

What each caller of the [HTTP API](http-api.md) is answered, verb by verb. The table is written by the test that tries
it, and fails where it is not current. Who may not see a task learns nothing of it: 404, as for what does not exist.
A webhook is let in by the signature that its connector checks, and by nothing else, whoever sends it.
"""
