"""What is played on the three machines, and what the ledger, the database and a person's page say of it."""

from __future__ import annotations

from collections.abc import Iterator

from celery.result import AsyncResult
from django.contrib.auth.models import User
from django.core.management import call_command

from agentstop.integrations.celery import REFUSED
from agentstop.models import Attempt, Decision, Operation
from agentstop.runs import Run, begin
from agentstop.states import Verb
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.wording import Label
from tests.counted import eventually
from tests.observed import of_key
from tests.scaling.agents import LATE, THINKS, WILD, many, send, thinks, ungated
from tests.scaling.jobs import app
from tests.scaling.machines import HUB, cut, mend
from tests.scaling.site import HANG_GUARD, Process
from tests.scaling.trial import PORT, Site
from website.demo.promises.visitor import Visitor
from website.demo.promises.watching import Watching

REPORT, KILLED, HELD = "report", "killed", "held"
WORDS = {
    REPORT: (Label.CANCELLED, "cancelled"),  # accepted, and cancelled after the stop
    KILLED: (Label.COMPLETED_BEFORE, "completed before cancellation"),  # its sender was killed before the answer
    HELD: (Label.COMPLETED_BEFORE, "completed before cancellation"),  # its sender was cut off before the answer
    LATE: (Label.NOT_SENT, "not sent"),  # had passed the gate, and was cut off before the first byte
}
MADE = {Label.COMPLETED_BEFORE: 1, Label.CANCELLED: 0, Label.NOT_SENT: 0}


def play(site: Site, victim: Process) -> Iterator[str]:
    """Each line is something that has held."""
    sandbox, at = SandboxClient(site.environment["SANDBOX_ADDRESS"]), site.folder
    ann = User.objects.create_user("ann", password="ann")
    run = begin("Tell everybody", owner=ann)
    for point, label in (("working", REPORT), ("effect", KILLED), ("effect", HELD), ("cancel", REPORT)):
        sandbox.hold(point, label)
    jobs = started(run)
    for point, label in (("working", REPORT), ("effect", KILLED), ("effect", HELD)):
        sandbox.wait(point, label, seconds=HANG_GUARD / 2)
    eventually(lambda: all((at / f"at-{each}").exists() for each in (LATE, WILD, THINKS)), True)
    eventually(lambda: Operation.objects.filter(task=run.task_id, key__startswith="many:").count() > 2, True)
    eventually(lambda: of_key(run.task_id, REPORT).state, "accepted")
    yield "the agent works on three machines"

    presses, looks = Visitor(f"http://{HUB}:{PORT}", "ann", "ann"), Visitor(f"http://10.77.1.2:{PORT}", "ann", "ann")
    with Watching(looks, run.task_id) as page:
        assert page.seen.state == "active"
        form = presses.stop_form(run.task_id)
        cut(2)
        assert presses.press(form).status_code == 302
        page.until("stopped", lambda seen: seen.state == "stopped")
        yield "pressed at the first web process, shown live by the second, with one worker cut off"

        sandbox.wait("cancel", REPORT, seconds=HANG_GUARD / 2)  # by the only one that follows up now
        victim.kill()
        yield "the worker that cancels is killed in the middle of it"

        for queue in ("follow_up", "two"):
            app.control.add_consumer(queue, destination=["one@scaling"], reply=True, timeout=HANG_GUARD / 10)
        for point, label in (("cancel", REPORT), ("effect", KILLED), ("effect", HELD)):
            sandbox.release(point, label)
        for key, (_, words) in WORDS.items():
            page.until(f"{key}: {words}", lambda seen, key=key, words=words: seen.label(key) == words)  # type: ignore[misc]
        yield "each operation has its end on the second web process's page, while one machine is still cut off"

        mend(2)
        for each in (LATE, WILD):
            (at / f"go-{each}").touch()
        jobs[WILD].get(timeout=HANG_GUARD)
        deliver_again()
        after = send.apply_async(("notify.post", "after"), run=run, queue="three")
        for name, job in {**jobs, "after": after}.items():
            if name != WILD:
                eventually(lambda job=job: job.state in (REFUSED, "SUCCESS"), True)  # type: ignore[misc]
        assert (after.state, after.info["reason"]) == (REFUSED, "stopped")
        assert jobs[THINKS].state == REFUSED, "delivered again, to another worker"
        yield "who was cut off is back; its jobs, new ones, and those of who was killed are refused"
        judge(run, sandbox, page)
    yield "the ledger has nothing that was dispatched after the stop but what had no gate, and confirms each label"


def started(run: Run) -> dict[str, AsyncResult]:
    jobs = {"many": many.apply_async(run=run, queue="one")}
    for key, action, queue in (
        (REPORT, "report.by_key", "two"), (KILLED, "notify.post", "two"),
        (HELD, "notify.post", "three"), (LATE, "notify.post", "three"),
    ):  # fmt: skip
        jobs[key] = send.apply_async((action, key), run=run, queue=queue)
    jobs[THINKS] = thinks.apply_async(run=run, queue="two")
    return {**jobs, WILD: ungated.apply_async(queue="three")}


def judge(run: Run, sandbox: SandboxClient, page: Watching) -> None:
    """The provider is the referee."""
    stopped = Decision.objects.get(task=run.task_id, verb="stop", effect="applied").at
    sent = Attempt.objects.filter(operation__task=run.task_id, verb=Verb.SUBMIT)
    assert not sent.filter(passed_at__gt=stopped).exists()
    effects = {each["label"]: each for each in sandbox.ledger()["effects"]}
    known = set(Operation.objects.filter(task=run.task_id, attempts__gt=0).values_list("key", flat=True))
    assert set(effects) - known == {WILD}
    assert effects[WILD]["accepted_at"] > stopped.isoformat(), "the referee would have seen one"
    for key in sorted(known):
        told = of_key(run.task_id, key)
        wanted = WORDS[key][0] if key in WORDS else Label.COMPLETED_BEFORE
        assert told.label is wanted, f"{key}: {told.label}"
        assert sandbox.writes(task=key) == MADE[told.label], key
        assert sandbox.counts(str(told.operation.idempotency_key))["submits"] == (0 if key == LATE else 1), key
    assert sandbox.effects(str(of_key(run.task_id, REPORT).operation.idempotency_key))[0]["status"] == "cancelled"
    for key, (_, words) in WORDS.items():
        assert page.seen.label(key) == words
    call_command("agentstop_verify")


def deliver_again() -> None:
    """What is not acknowledged is as old as if the visibility time-out were over, and its queue has it back."""
    with app.connection_for_write() as broker:
        channel = broker.default_channel
        for tag, _ in channel.client.zscan_iter("unacked_index"):
            channel.client.zadd("unacked_index", {tag: 1.0})
        channel.qos.restore_visible(num=100)
