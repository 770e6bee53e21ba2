"""The demo's agent: a report, an upload and a message, or sources and a note; each step through the gate.

This is all that an agent has to do: begin a run, `check()` between steps, send through `run.call`; and, where people
may type for it, `take_input()` between steps.
"""

from __future__ import annotations

from typing import Any

from agentstop import settle
from agentstop.exceptions import Declined, Frozen, InFlight, OutcomeUnknown
from agentstop.models import Operation
from agentstop.runs import Run
from website.demo import queue
from website.demo.models import Job
from website.demo.steps import IDENTIFY, Effect, NoteStep, Step

HEARTBEAT = 1.0  # seconds between two signs of life while it thinks
PATIENCE = 1.0  # seconds between two looks at an outcome that is not known yet


class StepFailed(Exception):
    """The provider says that a step had no effect."""


def work(job: Job, run: Run) -> None:
    """Do the steps in order. Leaving the block says how the run ended: finished, halted by a stop, or failed."""
    with run:
        prepare(job, run)
        link = ""
        for effect in job.effects():
            link = step(job, run, effect, link)


def prepare(job: Job, run: Run) -> None:
    """List the steps before their turns, so that a person sees what is coming."""
    for effect in job.effects():
        run.prepare(effect.action, effect.args, key=effect.key, connector=effect.connector, identify=IDENTIFY)


def step(job: Job, run: Run, effect: Effect, link: str) -> str:
    """Think and do one step; the link to what it made, else to what the step before has made."""
    think(run, job.pace)
    if link:
        effect.args["link"] = link
    try:
        link = carry_out(job, run, effect, approve=question(job, effect))["link"]
    except Declined:  # the other steps do not need it
        queue.heard(job, effect.kind, "declined")
    follow_up(job, run)
    return link


def question(job: Job, effect: Effect) -> str:
    """What a person is asked before this step; empty where nobody is."""
    asked = {
        Step.NOTIFY: f"May I tell {job.channel} that the report is ready?",
        NoteStep.NOTE: f"May I write the note about {job.topic}?",
    }
    return asked.get(effect.step, "") if job.asks else ""


def follow_up(job: Job, run: Run) -> None:
    """What a person typed meanwhile is posted to the channel, each text once; a stop holds what was not taken."""
    while (typed := run.take_input()) is not None:
        carry_out(job, run, job.follow_up(typed.id, typed.text))
        run.input_done(typed)


def think(run: Run, seconds: float) -> None:
    """Stands for the model call; ends at once with Stopped or Superseded when the run is over."""
    run.check()
    while seconds > 0:
        run.stop_signal.wait(min(HEARTBEAT, seconds))
        seconds -= HEARTBEAT
        run.check()


def carry_out(job: Job, run: Run, effect: Effect, *, approve: str = "") -> Any:
    """The result of one step. Where its outcome is not known, wait until it is: never send it a second time blindly.

    `approve`: what a person is asked before; nothing is sent until they say yes.
    Where an operator holds it, ask again until it is lifted; a job of a queue would be put back until then.
    """
    while True:
        run.check()
        try:
            outcome = run.call(
                effect.action,
                effect.args,
                key=effect.key,
                connector=effect.connector,
                identify=IDENTIFY,
                approve=approve,
            )
        except (Frozen, InFlight, OutcomeUnknown):
            run.stop_signal.wait(PATIENCE)
            continue
        queue.heard(job, effect.kind, outcome.outcome)
        if outcome.accepted:
            return outcome.result
        run.check()
        if outcome.operation is None or _is_settled(outcome.operation):
            raise StepFailed(f"{effect.step.label}: {outcome.error}")


def _is_settled(operation_id: int) -> bool:
    operation = Operation.objects.get(pk=operation_id)
    settle.fresh([operation])
    return operation.is_final and operation.state != "succeeded"
