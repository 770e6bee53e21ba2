"""What is promised about effects at a provider: evidence, cancelling, looking up."""

from __future__ import annotations

from contextlib import ExitStack

from agentstop.states import Cancellation
from agentstop.words.sentences import Label
from website.demo.promises.scenes import Tell, shows
from website.demo.promises.signs import cancellation, finished, labelled
from website.demo.promises.stage import Stage, require


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
