"""The questions that are put to an MCP server, in the order in which they build on each other."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from mcp_types import CancelledNotification, CancelledNotificationParams

from agentstop.probe.findings import AS_TASK, CONTROL, SAID, SPOKEN, Report, Verdict
from agentstop.probe.record import Learned
from agentstop.probe.tasks import TASKS, as_task
from agentstop.probe.trial import Subject, begin, is_proof
from agentstop.providers.base import Answer
from agentstop.providers.mcp_link import Link
from agentstop.states import Claim, Source

BURST = 5
SOON = 0.2  # seconds
ON_ITS_WAY = 0.2  # seconds after a cancel in which a sign of life may come that was sent before the cancel was read
CALLS = 6 + BURST + TASKS  # of the tool, at most
OTHERS = "Do other calls on the connection survive, under a burst of cancels?"
STRANGE = "Are cancels of unknown and of finished ids harmless?"
OTHER_SESSION = "Can another session cancel a call?"
DISCONNECTED = "Does the effect happen after a disconnect?"
AGAIN = "Has a second call with the same key a second effect?"
YES, NO, TOLD, UNDETERMINED = Verdict.YES, Verdict.NO, Verdict.TOLD, Verdict.UNDETERMINED


@dataclass(frozen=True, slots=True)
class Control:
    """The undisturbed call: how many seconds it took, and whether the referee saw its effect."""

    took: float
    seen: bool


async def probe(subject: Subject, name: str) -> Report:
    """Put all questions; raises only where the server cannot be connected to."""
    report, learned = Report(name, subject.tool), Learned()
    link = await subject.open()
    try:
        _say_who(report, subject, link)
        learned.revision = link.revision  # an ended connection tells none
        control = await _control(report, subject, link)
        if control is None:
            report.add(
                "Is a cancel noticed?",
                UNDETERMINED,
                "Without a call that takes a while and succeeds nothing can be told apart.",
            )
        else:
            took, learned.called = control.took, True
            # A referee that is blind to the effect of an undisturbed call proves nothing by seeing none.
            subject = subject if control.seen else replace(subject, effects="")
            learned.noticed = await _ask(report, link, "Is a cancel noticed?", _cancelled(report, subject, link, took))
            await _ask(report, link, OTHERS, _others(report, subject, link, took))
            await _ask(report, link, STRANGE, _strange_ids(report, link))
            await _ask(report, link, OTHER_SESSION, _other_session(report, subject, link, took))
            learned.went_on = await _ask(report, link, DISCONNECTED, _disconnected(report, subject, took))
            learned.once = await _ask(report, link, AGAIN, _again(report, subject, link, took))
    finally:
        await link.close()
    await _ask(report, None, AS_TASK, as_task(report, subject, learned))
    report.record = learned.as_settings(subject.tool)
    return report


async def _ask(
    report: Report, link: Link | None, question: str, asking: Coroutine[Any, Any, bool | None]
) -> bool | None:
    """Put one question: what goes wrong with it is said of it, and the report keeps all that was found before."""
    if link is not None and not link.usable:
        asking.close()
        report.add(question, UNDETERMINED, "The connection had ended before.")
        return None
    try:
        return await asking
    except Exception as error:
        report.add(question, UNDETERMINED, f"It could not be asked: {type(error).__name__}: {error}"[:300])
        return None


def _say_who(report: Report, subject: Subject, link: Link) -> None:
    how = "streamable HTTP" if link.is_http else "stdio"
    means = "notifications/cancelled" if link.notified else "closing the response stream"
    report.add(SPOKEN, TOLD, f"revision {link.revision} over {how}; a call is given up by {means}")
    hints = link.hints.get(subject.tool)
    report.add(SAID, TOLD, f"{hints}" if hints else "it does not list it")


async def _control(report: Report, subject: Subject, link: Link) -> Control | None:
    """A call that nobody disturbs: how long it takes, and whether the referee sees its effect."""
    before = subject.seen()
    watched = begin(subject, link)
    answer = await watched.answered(subject.longest)
    took = time.monotonic() - watched.began
    if answer is not None and answer.claim is Claim.ACCEPTED:
        report.add(CONTROL, UNDETERMINED, "The server made a task of it: see there.")
        return None
    if not is_proof(answer):
        said = f"{answer.claim}: {answer.body[:200]}" if answer is not None else f"no answer in {subject.longest:g} s"
        report.add(CONTROL, UNDETERMINED, said)
        return None
    saw = before is not None and subject.seen() != before
    seen = "" if before is None else f"; the referee {'saw' if saw else 'did not see'} its effect"
    signs = len(watched.heard)
    seen += "; too soon to cancel it on the way: pass slower arguments" if took < SOON else ""
    report.add(CONTROL, YES, f"after {took:.2f} s, with {signs} signs of life{seen}")
    return None if took < SOON else Control(took, saw)


async def _cancelled(report: Report, subject: Subject, link: Link, took: float) -> bool | None:
    """Cancel in the middle; True where the tool is known to have given up, False where it is known to have gone on."""
    before, notified = subject.seen(), link.notified
    watched = begin(subject, link)
    alive = await watched.alive(took / 3)
    if watched.call.answer.done():
        report.add("Is a cancel noticed?", UNDETERMINED, "The call had ended before it could be cancelled.")
        return None
    begun_effect = before is not None and subject.seen() != before
    await link.give_up(watched.call, lambda: None)
    asked = time.monotonic()
    await asyncio.sleep(2 * took + 2.0)  # whatever is answered: the effect may come after the answer
    waited = time.monotonic() - asked
    answer = await watched.answered(0) if notified else None
    answer = None if answer is not None and answer.source is Source.SENDER else answer  # nobody's but our own
    late = [heard for heard in watched.after(asked) if heard.claim is Claim.RUNNING]
    went_on = any(heard.claim is Claim.RUNNING for heard in watched.after(asked + ON_ITS_WAY))
    went_on = went_on or is_proof(answer) or any(is_proof(heard) for heard in watched.after(asked))
    after = subject.seen()
    made = None if before is None or after is None else after != before
    _tell_answer(report, notified, answer, waited)
    if not link.usable:
        report.add("Does the connection outlive a cancel?", NO, "the server ended with the cancel", wrong=True)
    report.add(
        "Does progress come after the cancel?",
        YES if late else UNDETERMINED,
        (f"{len(late)} kept signs of life" if late else f"none was heard for {waited:.1f} s, which proves nothing"),
    )
    if begun_effect:
        report.add("Does the effect still happen?", UNDETERMINED, "It had happened before the cancel was sent.")
        return False if went_on else None
    noticed = _noticed(answer, went_on=went_on, made=made)
    _tell_effect(report, made, waited)
    after_s = watched.answered_at - asked if answer is not None and watched.answered_at is not None else None
    _tell_noticed(report, noticed, answer, alive=alive, after=after_s)
    return noticed


def _noticed(answer: Answer | None, *, went_on: bool, made: bool | None) -> bool | None:
    """Only an answer that names the cancel shows it, with no effect seen: a call may also fail, or hang, by itself."""
    if went_on or made:
        return False
    return True if made is False and _names_the_cancel(answer) else None


def _names_the_cancel(answer: Answer | None) -> bool:
    return answer is not None and answer.claim is Claim.CANCELLED


def _tell_answer(report: Report, notified: bool, answer: Answer | None, waited: float) -> None:
    question = "Is an answer sent after the cancel?"
    if not notified:
        report.add(question, UNDETERMINED, "Its stream was closed, so that none could be heard.")
    elif answer is None:
        report.add(question, NO, f"none was heard for {waited:.1f} s")
    else:
        report.add(question, YES, f"{answer.claim}: {answer.body[:150]}")


async def _again(report: Report, subject: Subject, link: Link, took: float) -> bool | None:
    """The same call twice with one key; True where the second had no effect, and the first had."""
    if subject.seen() is None:
        report.add(AGAIN, UNDETERMINED, "Nobody but the server knows: pass --effects.")
        return None
    key, saw = str(uuid.uuid4()), []
    for _ in range(2):
        before = subject.seen()
        answer = await begin(subject, link, key=key).answered(subject.longest)
        if not is_proof(answer):
            report.add(AGAIN, UNDETERMINED, "One of the two calls did not succeed.")
            return None
        await asyncio.sleep(took + 1.0)
        saw.append(subject.seen() != before)
    if not saw[0]:
        report.add(AGAIN, UNDETERMINED, "The referee did not see the effect of the first.")
        return None
    told = "The referee saw a second effect." if saw[1] else f"The referee saw none for {took + 1.0:.1f} s."
    report.add(AGAIN, YES if saw[1] else NO, told)
    return not saw[1]


def _tell_effect(report: Report, made: bool | None, waited: float) -> None:
    effect = {None: UNDETERMINED, True: YES, False: NO}[made]
    why = {
        None: "Nobody but the server knows: pass --effects with a command whose output each effect changes.",
        True: "The referee saw it after the cancel.",
        False: f"The referee saw none for {waited:.1f} s, and had seen that of the undisturbed call.",
    }[made]
    report.add("Does the effect still happen?", effect, why)


def _tell_noticed(
    report: Report, noticed: bool | None, answer: Answer | None, *, alive: bool, after: float | None
) -> None:
    when = f" {max(after, 0.0):.2f} s after the cancel" if after is not None else ""
    started = "it had begun (progress)" if alive else "that it had begun is not known"
    unclear = "silence, which proves nothing"
    if _names_the_cancel(answer):
        unclear = "it says so, and whether the effect came nobody saw"
    elif answer is not None:
        unclear = "it ended with an answer that does not name the cancel, which may have another cause"
    told = {True: f"it says so{when}, and no effect followed", False: "it went on", None: unclear}[noticed]
    verdict = {True: YES, False: NO, None: UNDETERMINED}[noticed]
    report.add("Is a cancel noticed?", verdict, f"{told}; {started}")


async def _others(report: Report, subject: Subject, link: Link, took: float) -> None:
    """A burst of calls, all but one given up at once: the one must still be answered."""
    burst = [begin(subject, link) for _ in range(BURST)]
    await burst[0].alive(took / 3)
    for watched in burst[1:]:
        if link.usable and watched.call.begun and not watched.call.answer.done():
            await link.give_up(watched.call, lambda: None)
    answer = await burst[0].answered(subject.longest)
    question = OTHERS
    if is_proof(answer):
        report.add(question, YES, f"{BURST - 1} of {BURST} were given up, the other was answered")
    elif answer is None:
        report.add(question, UNDETERMINED, f"the other had no answer in {subject.longest:g} s")
    else:
        # It may fail by itself: only one that ends as cancelled, or with its connection, was harmed by the cancels.
        harmed = _names_the_cancel(answer) or not link.usable
        verdict = NO if harmed else UNDETERMINED
        report.add(question, verdict, f"the other ended as {answer.claim}: {answer.body[:150]}", wrong=harmed)


async def _strange_ids(report: Report, link: Link) -> None:
    question = STRANGE
    if not link.notified:
        report.add(question, UNDETERMINED, "There is no such message in this revision over HTTP.")
        return
    for wire_id in ("no-such-request", 1):
        await _notify(link, wire_id)
    try:
        async with asyncio.timeout(10):
            await link.client.session.list_tools()  # type: ignore[union-attr]
        report.add(question, YES, "the server lists its tools afterwards")
    except Exception as error:
        report.add(question, NO, f"afterwards it does not list its tools: {type(error).__name__}", wrong=True)


async def _notify(link: Link, wire_id: int | str) -> None:
    params = CancelledNotificationParams(request_id=wire_id)
    await link.client.session.send_notification(CancelledNotification(params=params))  # type: ignore[union-attr]


async def _other_session(report: Report, subject: Subject, link: Link, took: float) -> None:
    question = OTHER_SESSION
    if not link.is_http or not link.notified:
        report.add(question, UNDETERMINED, "There is no such way over this transport in this revision.")
        return
    other = await subject.open()
    try:
        watched = begin(subject, link)
        await watched.alive(took / 3)
        if watched.call.wire_id is not None:
            await _notify(other, watched.call.wire_id)
        answer = await watched.answered(took * 2 + 5)
    finally:
        await other.close()
    if is_proof(answer):
        report.add(question, NO, "the call was answered all the same")
    else:
        report.add(question, UNDETERMINED, f"the call had no result: {answer.body[:100] if answer else 'silence'}")


async def _disconnected(report: Report, subject: Subject, took: float) -> bool | None:
    """True where the effect is known to have come after it; that none came proves nothing."""
    question = DISCONNECTED
    before = subject.seen()
    if before is None:
        report.add(question, UNDETERMINED, "Nobody but the server knows: pass --effects.")
        return None
    await asyncio.sleep(2 * took + 1.0)  # what earlier calls still do must not be counted here
    before = subject.seen()
    link = await subject.open()
    watched = begin(subject, link)
    await watched.alive(took / 3)
    early = subject.seen() != before
    await link.close()
    await asyncio.sleep(2 * took + 1.0)
    if early:
        report.add(question, UNDETERMINED, "It had happened before the connection was closed.")
    elif subject.seen() != before:
        report.add(question, YES, "The referee saw it after the connection was closed.")
        return True
    else:
        report.add(question, NO, f"The referee saw none for {2 * took + 1.0:.1f} s.")
    return None
