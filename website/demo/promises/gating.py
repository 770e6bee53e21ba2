"""What the gate promises: what is recorded, under which key, for which run, and what an answer is worth."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User

from agentstop import sending
from agentstop.models import Operation
from agentstop.runs import Run, begin
from agentstop.words.sentences import Label
from website.demo.promises.scenes import Tell, shows
from website.demo.promises.signs import NAMES, finished, halted
from website.demo.promises.stage import Stage, require
from website.demo.steps import label


@shows(
    {
        "R6": "the answer names what will never be sent, and what has left and may still have its effect",
        "R8": "an operation is recorded before the provider has it",
    }
)
def answer(stage: Stage, tell: Tell) -> None:
    with stage.started("named", point="received") as page:
        attempts = stage.facts(page.task, "attempt")
        require(len(attempts) == 1 and not stage.effects(page.task), f"attempts {attempts}")
        seen = stage.ann.stop(page.task)
        steps = {step: seen.label(step) for step in ("report", "upload", "notify")}
        stage.require_active(page.task, seen)
        require(steps["upload"] == steps["notify"] == NAMES[Label.NOT_SENT], f"{steps}")
        tell("R6", "; ".join(f"{step}: {text}" for step, text in steps.items()))
        page.until("the agent has halted", halted)
        stage.release("received", "named")
        stage.sandbox.settled("named")
        [effect] = stage.effects(page.task)
        recorded, accepted = (datetime.fromisoformat(at) for at in (attempts[0]["at"], effect["accepted_at"]))
        require(recorded < accepted, f"recorded {recorded}, accepted {accepted}")
        tell("R8", f"recorded {(accepted - recorded).total_seconds():.3f} s before the provider accepted it")


@shows(
    {
        "R9": "one key is one effect, over stops and new runs",
        "R27": "the name of an old run sends nothing, in whatever process",
    }
)
def one_key(stage: Stage, tell: Tell) -> None:
    with stage.started("one effect") as page:
        page.until("the task is finished", finished)
        stage.ann.start_again(page.task, "one effect")
        page.until(
            "its second run is finished", lambda seen: finished(seen) and stage.outcome(page.task, "notify") != ""
        )
        counts = {kind: stage.counts(page.task, kind)["writes"] for kind in ("report", "upload", "notification")}
        require(set(counts.values()) == {1}, f"the provider made {counts}")
        tell("R9", f"two runs asked for each of {len(counts)} effects; the provider made each once")
        old = Run.from_token(Run(page.task, 1).token)
        outcome = old.call("notify.post", {"text": "from an old run"}, connector="sandbox", key="old")
        effects = [effect for effect in stage.effects(page.task) if effect["text"] == "from an old run"]
        require(outcome.ignored and not effects, f"{outcome}, {effects}")
        tell("R27", f"its token, from another process: {outcome.outcome}; effects in the ledger: {len(effects)}")


@shows({"R19": "a returned value is not a success: the answer itself is read"})
def returned_value(stage: Stage, tell: Tell) -> None:
    owner = User.objects.get(username="ann")
    with begin("A failure with status 200", owner=owner) as run:
        args = {"text": "fails", "label": label(run.task_id), "sandbox": {"fail": True}}
        outcome = run.call("file.upload", args, connector="sandbox", key="fails")
    sending.close()
    [effect] = stage.effects(run.task_id)
    state = Operation.objects.get(task=run.task_id).state
    require(outcome.failed and state == effect["status"] == "failed", f"{outcome}; {state}; {effect}")
    tell("R19", f"the provider answered, and said: {effect['status']}; the call: {outcome.outcome}, the step: {state}")
