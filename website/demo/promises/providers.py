"""What is promised about effects at a provider: evidence, cancelling, looking up."""

from __future__ import annotations

from contextlib import ExitStack

from agentstop.states import Cancellation
from agentstop.words.sentences import Label
from website.demo.notes_log import DID_WRITE
from website.demo.promises.scenes import Tell, shows
from website.demo.promises.signs import cancellation, finished, halted, labelled
from website.demo.promises.stage import Stage, require
from website.demo.steps import label


@shows(
    {"R13 R14": "cancel asked, acknowledged and confirmed are told apart, and “cancelled” is the provider's own word"}
)
def cancel_three_ways(stage: Stage, tell: Tell) -> None:
    for topic, switch, word in (
        ("cancel refused", "refuse_cancel", Cancellation.REFUSED),
        ("cancel acknowledged", "ack_and_complete", Cancellation.ACKNOWLEDGED),
    ):
        with stage.started(topic, point="working", troubles=[switch]) as page:
            page.until("in progress", labelled("report", Label.IN_PROGRESS))
            stage.ann.stop(page.task)
            seen = page.until(f"cancel {word}", cancellation("report", word))
            stage.require_active(page.task, seen)
            stage.release("working", topic)
            page.until("completed before cancellation", labelled("report", Label.COMPLETED_BEFORE))
            require(stage.writes(page.task) == 1, f"the provider did not make the report “{topic}”")
    with stage.started("cancel confirmed", point="working") as page:
        page.until("in progress", labelled("report", Label.IN_PROGRESS))
        stage.ann.stop(page.task)
        page.until("cancelled", labelled("report", Label.CANCELLED))
        states = [effect["status"] for effect in stage.effects(page.task)]
        require(states == ["cancelled"], f"the provider's ledger says {states}")
    tell(
        "R13 R14",
        "refused, and acknowledged: still active, then completed, as the ledger has it; "
        "confirmed: cancelled, as the ledger has it",
    )


@shows({"R11 R20": "what is unknown is looked up, and never sent again blindly"})
def answers_get_lost(stage: Stage, tell: Tell) -> None:
    counted = {}
    for topic, switch in (("connection dropped", "drop"), ("response lost", "lose_response")):
        with stage.started(topic, troubles=[switch], point="accepted") as page:
            stage.release("accepted", topic)
            page.until("unknown outcome", labelled("report", Label.UNKNOWN))
            page.until("the agent is done", finished)
            counts = counted[topic] = stage.counts(page.task, "report")
            require((counts["submits"], counts["writes"]) == (1, 1), f"{topic}: the provider counted {counts}")
    told = "; ".join(
        f"{topic}: unknown outcome, looked up, then completed; the ledger counts 1 request and 1 effect"
        for topic, counts in counted.items()
    )
    tell("R11 R20", told)


@shows(
    {
        "R15 R30": "over MCP, what cannot be interrupted is accounted for, and others on the connection go on",
        "R14 R19": "over MCP, a protocol's “cancelled” is not believed",
    }
)
def over_mcp(stage: Stage, tell: Tell) -> None:
    with ExitStack() as held:
        read = held.enter_context(stage.noted("to read", held="read:to read"))
        written, other = (held.enter_context(stage.noted(each, held=f"note:{each}")) for each in ("to write", "other"))
        stage.noted_by_then(read.task, "began to read")
        stage.ann.stop(read.task)
        unknown = read.until("unknown outcome", labelled("read", Label.UNKNOWN))
        stage.noted_by_then(read.task, "gave up")
        stage.noted_by_then(written.task, "began to write")
        seen = stage.ann.stop(written.task)
        require(cancellation("note", Cancellation.UNSUPPORTED)(seen), f"a note that cannot be cancelled: {seen}")
        written.until("the agent has halted", halted)
        stage.notes.release("note:to write")
        late = written.until("completed before cancellation", labelled("note", Label.COMPLETED_BEFORE))
        stage.notes.release("note:other")
        other.until("the other task is finished", finished)
    stopped_at = stage.stopped_at(written.task)
    after = [each.what for each in stage.notes.of(label(written.task)) if each.at > stopped_at]
    require(after == [DID_WRITE], f"the server's own log has after the stop: {after}")
    tell(
        "R15 R30",
        f"after the stop its log has: {', '.join(after)}; the page: “{late.label('note')}”; another task finished",
    )
    tell("R14 R19", f"its log has: gave up; the page: “{unknown.label('read')}” (“{unknown.evidence('read')}”)")


@shows({"R12": "what provably never left is “not sent”, what may have left is “unknown outcome”"}, alone=True)
def nobody_listens(stage: Stage, tell: Tell) -> None:
    with stage.started("dropped", point="accepted", troubles=["drop"]) as page:
        stage.release("accepted", "dropped")
        unknown = page.until("unknown outcome", labelled("report", Label.UNKNOWN))
        stage.ann.stop(page.task)
    port = int(stage.system.sandbox.rpartition(":")[2])
    stage.system.children["sandbox"].end()
    with ExitStack() as away:
        away.callback(stage.system.start_sandbox, port)
        page = away.enter_context(stage.started("nobody there"))
        unsent = page.until("not sent", labelled("report", Label.NOT_SENT))
    tell(
        "R12",
        f"no connection: “{unsent.evidence('report')}”; connection dropped: “{unknown.evidence('report')}”",
    )
