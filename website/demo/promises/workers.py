"""What is promised when workers die, and of what was stored in the end."""

from __future__ import annotations

from agentstop import verify
from agentstop.words.sentences import Label
from website.demo.models import Job, JobState
from website.demo.promises.scenes import Tell, shows
from website.demo.promises.signs import finished, labelled
from website.demo.promises.stage import Stage, require, wait_for


@shows(
    {
        "R22": "a sender that died is noticed, and its operation settled",
        "R5": "a task is stopped while it waits in the queue, or while its worker is dead",
    },
    alone=True,
)
def the_worker_is_killed(stage: Stage, tell: Tell) -> None:
    with (
        stage.started("killed and left", point="accepted") as left,
        stage.started("killed and stopped", point="accepted") as stopped,
    ):
        stage.system.children["worker"].kill()
        queued = stage.ann.start("never begun")
        for task in (stopped.task, queued):
            require(stage.ann.stop(task).state == "stopped", f"task {task} could not be stopped without a worker")
        left.until("unknown outcome", labelled("report", Label.UNKNOWN))
        stage.system.start_worker().wait_ready()
        stage.release("accepted", "killed and left")
        left.until("the task is finished", finished)
        counts = stage.counts(left.task, "report")
        require(counts["writes"] == 1, f"the provider counted {counts}")
        tell(
            "R22",
            "killed in mid-send: unknown outcome when its lease was over, then looked up; the next worker completed "
            f"the task; requests under one key: {counts['submits']}, effects in the ledger: {counts['writes']}",
        )
    over = Job.objects.filter(task__in=[stopped.task, queued], state=JobState.OVER)
    wait_for("both jobs taken from the queue, and ended", lambda: over.count() == 2)
    effects = len(stage.effects(queued)) + len(stage.effects(stopped.task))
    sent = stage.sent_after_stop(queued) + stage.sent_after_stop(stopped.task)
    require(effects == 1 and not sent, f"{effects} effects at the provider, sent after the stop: {sent}")
    tell("R5", "both jobs were given to the new worker, which began neither; nothing was sent for them after the stop")


@shows({"R36": "states follow from the stored facts"}, alone=True)
def facts_and_states(stage: Stage, tell: Tell) -> None:
    differences = list(verify.differences(None))
    operations, tasks = verify.counted(None)
    require(not differences, "; ".join(map(str, differences)))
    tell("R36", f"{operations} operations and {tasks} tasks folded again from their facts: 0 differences")
