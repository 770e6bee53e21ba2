"""What a tool called as a task does: what its server says of it, and what the acknowledgement of a cancel is worth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp import MCPError

from agentstop.probe.findings import AS_TASK, LOOKED_UP, Report, Verdict
from agentstop.probe.record import Learned
from agentstop.probe.trial import Subject, begin
from agentstop.providers.mcp_answers import is_over
from agentstop.providers.mcp_link import Link
from agentstop.states import Claim

TASKS = 2  # calls as a task
LOOK = 0.2  # seconds between two looks at a task
EFFECTS = {None: "whether it had its effect is not known", True: "IT HAD ITS EFFECT", False: "no effect was seen"}


async def as_task(report: Report, subject: Subject, learned: Learned) -> None:
    """One task that nobody disturbs, and one that is cancelled on its way; where the server makes tasks at all."""
    link = await subject.open()
    try:
        ref, said = await _ticket(subject, link)
        if not ref:
            report.add(AS_TASK, Verdict.UNDETERMINED, "The server made no task of it.")
            return
        report.add(AS_TASK, Verdict.YES, said[:200])
        took, saw = await _undisturbed(report, subject, link, ref)
        learned.task = True
        # A referee that is blind to the effect of an undisturbed task proves nothing by seeing none.
        seeing = subject if saw else replace(subject, effects="")
        learned.task_noticed = await _cancelled(report, seeing, link, took)
    except MCPError as error:
        report.add("Can the task be cancelled?", Verdict.UNDETERMINED, f"{error.error.code} {error.error.message}")
    finally:
        await link.close()


async def _ticket(subject: Subject, link: Link) -> tuple[str, str]:
    """The id of a new task, and what the server said; empty where it made none."""
    answer = await begin(subject, link, task=True).answered(10)
    return (answer.ref, answer.body) if answer is not None and answer.claim is Claim.ACCEPTED else ("", "")


async def _undisturbed(report: Report, subject: Subject, link: Link, ref: str) -> tuple[float, bool]:
    before, began = subject.seen(), time.monotonic()
    found = await link.about_task("tasks/get", ref)
    while not is_over(found) and time.monotonic() - began < subject.longest:
        await asyncio.sleep(LOOK)
        found = await link.about_task("tasks/get", ref)
    took = time.monotonic() - began
    saw = before is not None and subject.seen() != before
    seen = "" if before is None else f"; the referee {'saw' if saw else 'did not see'} its effect"
    status = f"undisturbed, it was {found.get('status')} after {took:.1f} s{seen}"
    report.add(LOOKED_UP, Verdict.YES, status)
    return took, saw


async def _cancelled(report: Report, subject: Subject, link: Link, took: float) -> bool | None:
    """Whether its cancel is known to be noticed: the server calls it cancelled, and no effect came."""
    before = subject.seen()
    ref, _ = await _ticket(subject, link)
    await asyncio.sleep(took / 3)
    early = subject.seen() != before
    reply: Mapping[str, Any] = await link.about_task("tasks/cancel", ref)
    soon = await link.about_task("tasks/get", ref)
    await asyncio.sleep(2 * took + 2.0)
    late = await link.about_task("tasks/get", ref)
    made = None if before is None or early else subject.seen() != before
    told = f"tasks/cancel said {reply.get('status', 'nothing')}, then it was {soon.get('status')}"
    told += f" and at the end {late.get('status')}; {EFFECTS[made]}"
    report.add("What is an acknowledged cancel worth?", Verdict.TOLD, told)
    return None if made is None else not made and late.get("status") == "cancelled"
