"""What Stop itself promises."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from agentstop.words.sentences import Label
from website.demo.promises.scenes import Tell, shows
from website.demo.promises.signs import halted, labelled, working
from website.demo.promises.stage import Stage, require


@shows(
    {
        "R3": "“Stopped” is shown at once, and waits for no provider",
        "R2 R26": "the agent is freed at once, while the provider still works",
        "R1 R7 R10": "after the committed stop nothing of the task is sent any more",
    }
)
def stop_in_the_middle(stage: Stage, tell: Tell) -> None:
    topics = [f"in the middle {number}" for number in range(4)]
    with ExitStack() as held:
        pages = [held.enter_context(stage.started(topic, point="accepted")) for topic in topics]
        after_the_press = [stage.ann.stop(page.task) for page in pages]
        require(all(seen.state == "stopped" for seen in after_the_press), f"not stopped: {after_the_press}")
        tell("R3", f"{len(pages)} of {len(pages)} pages said so while the provider had answered none of the requests")
        ends = [page.until("the agent has halted", halted) for page in pages]
        for page, seen in zip(pages, ends, strict=True):
            stage.require_active(page.task, seen)
        tell("R2 R26", f"{len(ends)} agents had halted; their reports were still shown as active")
        for topic in topics:
            stage.release("accepted", topic)
            stage.sandbox.settled(topic)
        passed = [fact for page in pages for fact in stage.sent_after_stop(page.task)]
        sent = [effect for page in pages for effect in stage.effects(page.task) if effect["kind"] != "report"]
        require(not passed and not sent, f"passed the gate: {passed}; reached the provider: {sent}")
        to_come = sum(len(seen.operations) - 1 for seen in ends)
        tell("R1 R7 R10", f"nothing passed the gate after the stop: {len(sent)} of {to_come} steps that were to come")


@shows({"R4": "pressed twice, from two tabs at once, and by a stale page: one stop, and no newer run is stopped"})
def press_again(stage: Stage, tell: Tell) -> None:
    with stage.started("pressed again", pace="30") as page:
        page.until("the agent works", working)
        tabs = [(tab, tab.stop_form(page.task)) for tab in (stage.ann, stage.visitor("ann"))]
        with ThreadPoolExecutor() as both:
            list(both.map(lambda tab: tab[0].press(tab[1]), tabs))
        stage.ann.press(tabs[0][1])
        presses = stage.facts(page.task, "decision", what="stop")
        applied = [press for press in presses if press["how"] == "applied"]
        require(len(applied) == 1 and len(presses) == 3, f"of 3 presses {len(applied)} were applied: {presses}")
        page.until("the agent has halted", halted)
        stage.ann.start_again(page.task, "pressed again", pace="30")
        page.until("a new run works", working)
        stage.ann.press(tabs[0][1])
        seen = stage.ann.read(page.task)
        require(seen.state == "active", f"a press on the page of run 1 stopped run 2: {seen}")
        require(stage.ann.stop(page.task).state == "stopped", "a press on the page of run 2 did not stop it")
        page.until("the agent has halted", halted)
    tell("R4", "1 of 3 presses was applied, 2 were noted; the page of run 1 could not stop run 2, that of run 2 could")


@shows(
    {
        "R15": "a success that comes after the stop is kept, and changes nothing else",
        "R25": "what an old run asked for enters no context; a new run has its own results alone",
    }
)
def late_result(stage: Stage, tell: Tell) -> None:
    with stage.started("old result", point="accepted", troubles=["refuse_cancel"]) as page:
        stage.ann.stop(page.task)
        page.until("the agent has halted", halted)
        before = stage.writes(page.task)
        stage.release("accepted", "old result")
        seen = page.until("completed before cancellation", labelled("report", Label.COMPLETED_BEFORE))
        after = stage.writes(page.task, after=stage.stopped_at(page.task))
        require((before, after) == (0, 1), f"the provider wrote {before} before and {after} after the release")
        require(seen.state == "stopped", f"a late success changed the task: {seen}")
        tell("R15", f"the provider wrote {after} after the stop: “{seen.label('report')}”; the task remains stopped")
        caller = stage.outcome(page.task, "report")
        with stage.held("received", "fresh result.pdf"):
            stage.ann.start_again(page.task, "fresh result")
            stage.sandbox.wait("received", "fresh result.pdf")
            old, fresh = stage.context(page.task, run=1), stage.context(page.task, run=2)
        numbers = (
            f"caller outcome: {caller}",
            f"external writes after stop: {after}",
            f"old context entries: {len(old)}",
            f"new context: {json.dumps(fresh)}",
        )
        require((caller, old, fresh) == ("ignored", [], ["fresh result"]), "; ".join(numbers))
        tell("R25", "both numbers from one run:\n    " + "\n    ".join(numbers))


@shows({"R17": "the four endings of a stopped step are told apart, each with its evidence"})
def four_endings(stage: Stage, tell: Tell) -> None:
    with ExitStack() as held:
        pages = {
            label: held.enter_context(stage.started(topic, point=point, troubles=troubles))
            for label, topic, point, troubles in (
                (Label.STILL_ACTIVE, "goes on", "working", ["refuse_cancel"]),
                (Label.CANCELLED, "is cancelled", "working", []),
                (Label.UNKNOWN, "is unknown", "accepted", ["drop"]),
            )
        }
        held.enter_context(stage.held("received", "was done.pdf"))
        pages[Label.COMPLETED_BEFORE] = held.enter_context(stage.started("was done"))
        for label in (Label.STILL_ACTIVE, Label.CANCELLED):
            pages[label].until("in progress", labelled("report", Label.IN_PROGRESS))
        stage.sandbox.wait("received", "was done.pdf")
        for page in pages.values():
            stage.ann.stop(page.task)
        stage.release("accepted", "is unknown")
        ends = [page.until(label, labelled("report", label)) for label, page in pages.items()]
    tell("R17", "; ".join(f"{seen.label('report')} (“{seen.evidence('report')}”)" for seen in ends))
