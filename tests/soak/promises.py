"""What must hold after every step, whatever happened and in whatever order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from agentstop.passes import Pass
from agentstop.providers.base import LookUp
from tests.soak import reading
from tests.soak.mirror import (
    Attempt,
    Call,
    ContextEntry,
    Decision,
    Freeze,
    Mirror,
    Operation,
    Receipt,
    Run,
    Task,
    Violation,
)
from tests.soak.world import CONNECTOR, PROFILES, Job, Sent, World


def require(holds: bool, words: str) -> None:
    if not holds:
        raise Violation(words)


def require_fenced(mirror: Mirror) -> None:
    """R1, R7, R25, R27: at most one run is live; nothing passes or is admitted once its run is over."""
    runs = {(run.task_id, run.number): run for run in mirror.all(Run)}
    live = Counter(run.task_id for run in mirror.all(Run) if run.state == "live")
    for task in mirror.all(Task):
        require(live[task.id] <= 1, f"{task} has {live[task.id]} live runs")
        run = runs.get((task.id, task.last_run))
        number = run.number if run is not None and run.state == "live" else None
        require(task.live_run == number, f"{task} and {run} disagree about which run is live")
    held = {task.id: _pauses(mirror, task.id) for task in mirror.all(Task)}
    for attempt in mirror.all(Attempt):
        if attempt.run is not None:
            of = mirror.get(Operation, attempt.operation_id).task_id
            run = runs.get((of, attempt.run))
            require(run is not None and run.began_at <= attempt.passed_at, f"{attempt!r} passed before {run} began")
            over = run is not None and run.ended_at is not None and attempt.passed_at > run.ended_at
            require(not over, f"{attempt!r} passed the gate after {run} was over")
            paused = any(since < attempt.passed_at < (until or mirror.at) for since, until in held[of])
            require(not paused, f"{attempt!r} passed the gate while its task was paused")
    for entry in mirror.all(ContextEntry):
        call = mirror.get(Call, entry.call_id)
        require((call.outcome, call.run) == ("accepted", entry.run), f"{entry} was admitted by {call!r}")
    for call in mirror.all(Call):
        run = runs.get((mirror.get(Operation, call.operation_id).task_id, call.run))
        if call.admitted_at is not None:
            require(run is not None, f"{call!r} was admitted for a run that there never was")
            over = run is not None and run.ended_at is not None and call.admitted_at > run.ended_at
            require(not over, f"{call!r} was admitted after {run} was over")


def require_frozen(mirror: Mirror) -> None:
    """R45: nothing that a freeze covers passes from when it says to be in force until it is lifted or over."""
    for held in mirror.all(Freeze):
        if held.in_force_at is None:
            continue
        end = min(end for end in (held.lifted_at, held.until, mirror.at) if end is not None)
        for operation in mirror.all(Operation):
            if held.covers(CONNECTOR, operation.action, mirror.get(Task, operation.task_id).owner_id):
                for attempt in mirror.submits(operation.id):
                    passed = held.in_force_at <= attempt.passed_at < end
                    require(not passed, f"{attempt!r} of {operation} passed while it was held by {held!r}")


def require_own_pass(mirror: Mirror, passes: Iterable[Pass]) -> None:
    """R7, R27: what passed is listed as an attempt of the run that asked, and of no other."""
    listed = {(one.operation_id, one.number): one.run for one in mirror.all(Attempt) if one.verb == "submit"}
    for passed in passes:
        run = listed.get((passed.operation, passed.attempt))
        asked = passed.request.run
        require(run == asked, f"run {asked} was let pass as attempt {passed.attempt} of run {run}: {passed!r}")


def _pauses(mirror: Mirror, task: int) -> list[tuple[datetime, datetime | None]]:
    """From when until when the task was held."""
    found: list[tuple[datetime, datetime | None]] = []
    for decision in mirror.all(Decision):
        if decision.task_id == task and decision.operation_id is None and decision.effect == "applied":
            if found and found[-1][1] is None:
                found[-1] = (found[-1][0], decision.at)
            if decision.verb == "pause":
                found.append((decision.at, None))
    return found


def require_states(mirror: Mirror) -> None:
    """R36: the stored states are what the facts say, read by other code than the product's, and time is minded."""
    for operation in mirror.all(Operation):
        stored = reading.Reading(
            operation.state,
            operation.cancellation,
            operation.contradictory,
            operation.another_open,
            operation.doubled,
        )
        folded = reading.read(mirror, operation, operation.folded_at)
        require(stored == folded, f"{operation} is stored as {stored}, and its facts said {folded}")
        if operation.due_at is None or operation.due_at > mirror.at:
            now = reading.read(mirror, operation, mirror.at)
            require(stored == now, f"{operation} is {stored}, its facts say {now} now, and it is not due")
        require(operation.attempts == len(mirror.submits(operation.id)), f"{operation} miscounts its attempts")


def require_truth(mirror: Mirror, world: World, may_write: set[int]) -> None:
    """R12, R14, R15: no label is false of what the provider's ledger holds. `may_write`: whose senders still can."""
    for operation in mirror.all(Operation):
        state = reading.read(mirror, operation, mirror.at).state
        jobs = world.of_key(operation.idempotency_key)
        comes = operation.id in may_write or world.coming(operation.id)
        why = lie(state, jobs, comes=comes)
        if why:
            raise Violation(f"{operation} reads as {state}, but {why}: {jobs}")


def lie(state: str, jobs: list[Job], *, comes: bool) -> str:
    """Why a label is false; empty where it is true."""
    how = {job.state for job in jobs}
    if state == "not_sent" and (jobs or comes):
        return "it was made" if jobs else "it may still be made"
    if state in ("failed", "cancelled") and (how & {"running", "succeeded"} or comes):
        return "it runs, has succeeded or may still be made"
    if state in ("succeeded", "cancelled") and state not in how:
        return f"nothing of it has {state}"
    return ""


def require_no_double(mirror: Mirror, world: World) -> None:
    """R8, R9, R11, R24: an effect is of a listed attempt, a key has one effect at a time, an effect one undoing."""
    operations = {operation.idempotency_key: operation for operation in mirror.all(Operation)}
    standing: dict[tuple[int, str], list[Job]] = defaultdict(list)
    undoings: dict[str, list[Job]] = defaultdict(list)
    for job in world.jobs:
        require(_is_listed(mirror, operations, job.sent), f"{job} is of no listed attempt")
        operation = operations[job.sent.key]
        if job.stands and job.undoes is None:
            standing[operation.task_id, operation.key].append(job)
        if job.stands and job.undoes is not None:
            undoings[job.undoes.ref].append(job)
    for (task, key), jobs in standing.items():
        require(len(jobs) == 1, f"{key} of task {task} has several effects: {jobs}")
    for ref, jobs in undoings.items():
        require(len(jobs) == 1, f"{ref} is undone several times: {jobs}")


def _is_listed(mirror: Mirror, operations: dict[str, Operation], sent: Sent) -> bool:
    operation = operations.get(sent.key)
    return operation is not None and any(a.number == sent.number for a in mirror.submits(operation.id))


def require_one_open_incarnation(mirror: Mirror) -> None:
    """An incarnation that was followed by the next is never sent again."""
    for operation in mirror.all(Operation):
        later = [
            o for o in mirror.incarnations(operation.task_id, operation.key) if o.incarnation > operation.incarnation
        ]
        for following in later:
            sent = [a for a in mirror.submits(operation.id) if a.passed_at > following.created_at]
            require(not sent, f"{operation} was sent again after {following} was opened")


def require_convergence(mirror: Mirror, world: World) -> None:
    """R20, R22: after all the waiting everything is final, or unknown because nobody can be asked."""
    for operation in mirror.all(Operation):
        state = reading.read(mirror, operation, mirror.at).state
        allowed = _ends(mirror, world, operation)
        require(operation.state == state, f"{operation} is stored as {operation.state} and reads as {state}")
        require(state in allowed, f"{operation} ends as {state} and not as {' or '.join(sorted(allowed))}")
        require(
            state in ("unknown", "accepted") or operation.another_open or operation.follow_up_at is None,
            f"{operation} is looked at for ever",
        )


def _ends(mirror: Mirror, world: World, operation: Operation) -> set[str]:
    """Every true word; unknown only where the provider cannot be asked, or has forgotten, or was never asked of it."""
    if not operation.attempts:
        return {"prepared", "not_sent"}
    jobs = world.of_key(operation.idempotency_key)
    true = {state for state in ("not_sent", "failed", "cancelled", "succeeded") if not lie(state, jobs, comes=False)}
    return true | ({"unknown"} if _excused(mirror, world, operation, jobs) else set())


def _excused(mirror: Mirror, world: World, operation: Operation, jobs: list[Job]) -> bool:
    capability = PROFILES[operation.action]
    by_ref = capability.look_up is LookUp.BY_REF
    if capability.look_up is LookUp.NONE or (by_ref and not operation.ref):
        return True
    if by_ref and operation.attempts > 1:
        return True  # an attempt that has returned no reference cannot be asked about
    if not jobs:
        hearsay = any(receipt.source == "intermediary" for receipt in mirror.of(Receipt, operation.id))
        return hearsay or by_ref or not capability.authoritative
    gone = jobs[-1].forgotten or (jobs[-1].undone and world.undone_reads_as != "succeeded")
    return gone or len(jobs) > 1  # of the earlier ones nothing is told any more
