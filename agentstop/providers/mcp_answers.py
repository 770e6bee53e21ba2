"""What an MCP server's messages say about an effect, and what they leave open."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from agentstop.bodies import safe
from agentstop.providers.base import Answer
from agentstop.providers.mcp_tool import McpTool, ToolErrors
from agentstop.states import Claim, Source

# Unparsable, no such method or tool, bad arguments, headers, capability or revision. A tool can raise the same after it
# has acted, so for a call they prove that nothing was done only where the tool's errors do.
TURNED_DOWN = frozenset({-32600, -32601, -32602, -32020, -32021, -32022})
CANCELLED = -32800  # "request cancelled": said by the protocol's machinery, which cannot know what the tool has done
UNCLEAR = frozenset({408, 409, 425, 429})  # as for every provider over HTTP
# In an error's data: our own transport says the HTTP status, or that nothing left. No server knows the name.
OF_TRANSPORT = f"agentstop.transport.{secrets.token_hex(8)}"
NOTHING_LEFT = "nothing left"

STATUSES = {
    "working": Claim.RUNNING,
    "input_required": Claim.RUNNING,
    "completed": Claim.SUCCEEDED,
    "failed": Claim.FAILED,
    "cancelled": Claim.CANCELLED,
}


def result_answer(tool: McpTool, result: Any) -> Answer:
    """The answer in the result of a call: done, failed by the tool's own word, or the ticket of a task."""
    told = result if isinstance(result, Mapping) else {}
    task = _task_in(told)
    if task is not None:
        return task_answer(tool, task, source=Source.PROVIDER, asked=False)
    body = _text(result)
    if told.get("resultType", "complete") != "complete" or not isinstance(told.get("content"), list):
        why = "it asks for input" if told.get("resultType") == "input_required" else "it is not the result of a tool"
        return Answer(Claim.LOST, Source.PROVIDER, body=f"The server's answer proves nothing: {why}. {body}")
    if told.get("isError") is True:
        return _tool_error(tool, body)
    return Answer(Claim.SUCCEEDED, body=body, result=_usable(told))


def answer_in(tool: McpTool, message: Mapping[str, Any]) -> Answer:
    """The answer to a call in a JSON-RPC response, be it a result or an error."""
    error = message.get("error")
    return error_answer(error, tool=tool) if isinstance(error, Mapping) else result_answer(tool, message.get("result"))


def _tool_error(tool: McpTool, body: str) -> Answer:
    """A crash looks the same as an argument that was turned down: whether it had acted by then is not told."""
    return Answer(Claim.FAILED if tool.errors == ToolErrors.FAILED else Claim.LOST, body=body)


def error_answer(error: Mapping[str, Any], *, tool: McpTool | None = None) -> Answer:
    """The answer in a JSON-RPC error: turned down, or nothing that is proven. `tool`: it is about a call of it."""
    code, message, data = error.get("code"), error.get("message"), error.get("data")
    body = safe(f"{code} {message}" + (f": {_text(data)}" if data not in (None, "") else ""))
    if isinstance(data, Mapping) and OF_TRANSPORT in data:
        status = data[OF_TRANSPORT]
        if status == NOTHING_LEFT:
            return Answer(Claim.UNSENT, Source.SENDER, body=safe(str(message)))
        refused = isinstance(status, int) and 400 <= status < 500 and status not in UNCLEAR
        return Answer(Claim.REFUSED if refused else Claim.LOST, body=safe(str(message)))
    if code == CANCELLED:
        return Answer(Claim.CANCELLED, Source.INTERMEDIARY, body=body)
    believed = tool is None or tool.errors == ToolErrors.FAILED
    return Answer(Claim.REFUSED if believed and code in TURNED_DOWN else Claim.LOST, body=body)


def task_answer(tool: McpTool, task: Mapping[str, Any], *, source: Source, asked: bool = True) -> Answer:
    """What a task's status says. "Cancelled" is the task server's word: the tool may go on, or be done already."""
    claim = STATUSES.get(str(task.get("status")))
    ref, body, wait = str(task.get("taskId", "")), _text(task), _poll(task)
    if claim is None:
        return Answer(Claim.LOST, Source.PROVIDER, ref=ref, body=body)
    result = task.get("result")
    over_without_result = claim is Claim.SUCCEEDED and not isinstance(result, Mapping)
    if not asked and (claim is Claim.RUNNING or over_without_result):  # a ticket: what became of it is asked for
        return Answer(Claim.ACCEPTED, ref=ref, body=body, retry_after=wait)
    if claim is Claim.CANCELLED:
        return Answer(claim, Source.INTERMEDIARY, ref=ref, body=body)
    if claim is Claim.SUCCEEDED and isinstance(result, Mapping):
        return _of_task(result_answer(tool, result), source, ref)
    if claim is Claim.FAILED and tool.errors != ToolErrors.FAILED:
        claim = Claim.LOST
    return Answer(claim, source, ref=ref, body=body, retry_after=wait)


def _of_task(answer: Answer, source: Source, ref: str) -> Answer:
    return Answer(answer.claim, source, ref=ref, body=answer.body, result=answer.result)


def progress_answer(params: Mapping[str, Any]) -> Answer:
    """A sign of life, with how far it got where that can be told."""
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    told = [one for one in (done, total) if isinstance(one, int | float) and not isinstance(one, bool)]
    fraction = min(max(told[0] / told[1], 0.0), 1.0) if len(told) == 2 and told[1] > 0 else None
    return Answer(Claim.RUNNING, body=safe(str(message or "")), progress=fraction)


def is_over(task: Mapping[str, Any]) -> bool:
    return task.get("status") in {"completed", "failed", "cancelled"}


def _task_in(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The task that a result is the ticket of: nested in 2025-11-25, flat in 2026-07-28."""
    task = result.get("task")
    if isinstance(task, Mapping) and "taskId" in task:
        return task
    return result if result.get("resultType") == "task" and "taskId" in result else None


def _poll(task: Mapping[str, Any]) -> float | None:
    told = task.get("pollIntervalMs", task.get("pollInterval"))
    fits = isinstance(told, int | float) and not isinstance(told, bool) and told >= 0
    return min(float(told), 60_000.0) / 1000 if fits else None


def _usable(result: Mapping[str, Any]) -> Any:
    """What the agent gets: the structured content where there is some, texts as a text, else the blocks as they are."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    blocks = result["content"]
    if all(isinstance(block, Mapping) and block.get("type") == "text" for block in blocks):
        return "\n".join(str(block.get("text", "")) for block in blocks)
    return blocks


def _text(value: Any) -> str:
    if isinstance(value, str):
        return safe(value)
    try:
        return safe(json.dumps(value, ensure_ascii=False, default=str))
    except (TypeError, ValueError, RecursionError):
        return safe(repr(value)[:10_000])
