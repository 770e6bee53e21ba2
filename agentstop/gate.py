"""The gate: the only way by which an operation leaves.

One statement under the task's lock tests that the run is live, and that no freeze has reached the task of which this
process does not know; it lists the operation and records the attempt. So a stop either sees the attempt or the attempt
is refused. What is refused is recorded too, by `refusals`.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from agentstop import bodies, conf, database, frozen, settle, storing, telemetry, wake
from agentstop.exceptions import Refused
from agentstop.models import Attempt, Operation, Task
from agentstop.passes import Lease, Pass
from agentstop.refusals import Replay, explain
from agentstop.request import Request
from agentstop.stop_signal import StopSignal


def sender_name() -> str:
    """Which process sends, for people who look for it."""
    return f"{socket.gethostname()}:{os.getpid()}"[:255]


POSTGRESQL = """
WITH t AS MATERIALIZED (
  SELECT id, live_run FROM {task}
  WHERE id = %(task)s AND state = 'active' AND live_run = %(run)s AND freeze_epoch <= %(epoch)s
  FOR NO KEY UPDATE),
c AS MATERIALIZED (
  SELECT id, live_run, clock_timestamp() AS now FROM t),
o AS (
  INSERT INTO {operation} AS op (
    task_id, key, incarnation, connector, action, digest, summary, idempotency_key, attempts, lease_until, resend_until,
    state, state_since, cancellation, contradictory, doubled, ref, folded_at, due_at, follow_up_at, follow_ups,
    created_at)
  SELECT id, %(key)s, %(incarnation)s, %(connector)s, %(action)s, %(digest)s, %(summary)s, %(idempotency_key)s, 1,
    now + %(lease)s, now + %(key_life)s, 'sending', now, 'none', false, false, '', now, now + %(lease)s,
    now + %(lease)s, 0, now
  FROM c
  ON CONFLICT (task_id, key, incarnation) DO UPDATE
    SET state = 'sending', state_since = EXCLUDED.state_since, cancellation = 'none', cancel_lease_until = NULL,
      attempts = op.attempts + 1,
      lease_until = EXCLUDED.lease_until, resend_until = coalesce(op.resend_until, EXCLUDED.resend_until),
      folded_at = EXCLUDED.folded_at, due_at = EXCLUDED.due_at, follow_up_at = EXCLUDED.follow_up_at, follow_ups = 0
    WHERE op.digest = EXCLUDED.digest AND {may_advance}
  RETURNING op.id, op.attempts, op.idempotency_key, op.lease_until)
INSERT INTO {attempt} (operation_id, verb, number, run, passed_at, lease_until, settling, max_age, sender, trace)
SELECT o.id, 'submit', o.attempts, c.live_run, c.now, o.lease_until, %(settling)s, %(max_age)s, %(sender)s, %(trace)s
FROM o, c
RETURNING operation_id, number, id, passed_at, (SELECT idempotency_key FROM o)
"""

SQLITE = """
INSERT INTO {operation} AS op (
  task_id, key, incarnation, connector, action, digest, summary, idempotency_key, attempts, lease_until, resend_until,
  state, state_since, cancellation, contradictory, doubled, ref, folded_at, due_at, follow_up_at, follow_ups,
  created_at)
SELECT id, %(key)s, %(incarnation)s, %(connector)s, %(action)s, %(digest)s, %(summary)s, %(idempotency_key)s, 1,
  %(lease_until)s, %(resend_until)s, 'sending', %(now)s, 'none', false, false, '', %(now)s, %(lease_until)s,
  %(lease_until)s, 0, %(now)s
FROM {task} WHERE id = %(task)s AND state = 'active' AND live_run = %(run)s AND freeze_epoch <= %(epoch)s
ON CONFLICT (task_id, key, incarnation) DO UPDATE
  SET state = 'sending', state_since = excluded.state_since, cancellation = 'none', cancel_lease_until = NULL,
    attempts = op.attempts + 1,
    lease_until = excluded.lease_until, resend_until = coalesce(op.resend_until, excluded.resend_until),
    folded_at = excluded.folded_at, due_at = excluded.due_at, follow_up_at = excluded.follow_up_at, follow_ups = 0
  WHERE op.digest = excluded.digest AND {may_advance}
RETURNING id, attempts, idempotency_key
"""

# An operation may leave (again) when nothing is under way, or when its outcome is unknown, sending again with the same
# key is known to be harmless (resend_until is set only then) for as long as it takes to arrive, as
# `Request.arrives_while_honoured` has it, and nobody is cancelling it. An incarnation that was followed by the next is
# over, whatever is heard of it later. A cancel request that may still arrive would give up what is sent now.
MAY_ADVANCE = """(op.state IN ('prepared', 'not_sent', 'failed')
      OR op.state = 'unknown' AND op.lease_until < {now} AND op.resend_until > {arrives}
         AND op.cancellation NOT IN ('waiting', 'requested', 'sent', 'acknowledged'))
    AND NOT EXISTS (SELECT 1 FROM {operation} AS later
      WHERE later.task_id = op.task_id AND later.key = op.key AND later.incarnation > op.incarnation)
    AND (op.cancel_lease_until IS NULL OR op.cancel_lease_until < {now})"""


def open_gate(request: Request, signal: StopSignal | None = None) -> Pass | Replay:
    """Let the operation leave, once: a Pass for this attempt, or the Replay of an answer that is already there.

    Raises a Refused that says why not, GateInTransaction, UnsafeDatabase or TaskNotFound. Nothing has been sent then.
    """
    try:
        found = _open(request, signal)
    except Refused as refusal:
        telemetry.refused(request.connector, request.action, refusal.reason)
        raise
    if isinstance(found, Pass):
        telemetry.passed(request.connector, request.action)
    return found


def _open(request: Request, signal: StopSignal | None) -> Pass | Replay:
    for _ in range(5):  # facts may move between the two transactions; each turn looks anew
        passed = try_gate(request, signal)
        if passed is not None:
            if passed.attempt > 1:  # what was heard of the first may say more than "sending"
                settle.refold_one(passed.operation)
            wake.announce(request.task)
            return passed
        found = explain(request)
        if isinstance(found, Replay):
            return found
        if request.approved and found != request.incarnation:
            break
        request = replace(request, incarnation=found)
    raise Refused(
        f"Operation {request.key!r} of task {request.task} kept changing while the gate was asked. "
        "Nothing was sent; ask again."
    )


@database.retried
def try_gate(request: Request, signal: StopSignal | None = None) -> Pass | None:
    """One statement, committed when it returns; None where it let nothing pass."""
    database.require_own_transaction()
    known = frozen.known()
    if known.holding(request.connector, request.action, lambda: frozen.owner_of(request.task)):
        return None  # it may have been lifted since: `explain` reads anew
    lease = Lease(request.lease)
    values = _values(request, known.epoch)
    row = _pass_postgresql(values) if database.is_postgresql() else _pass_sqlite(values)
    if row is None:
        return None
    operation, attempt, attempt_id, passed_at, idempotency_key = row
    return Pass(request, operation, attempt, attempt_id, str(idempotency_key), passed_at, lease, signal)


def _values(request: Request, epoch: int) -> dict[str, Any]:
    capability = request.capability
    return {
        "task": request.task,
        "run": request.run,
        "epoch": epoch,
        "key": request.key,
        "incarnation": request.incarnation,
        "connector": request.connector,
        "action": request.action,
        "digest": request.digest,
        "summary": bodies.summarise(request.args),
        "idempotency_key": uuid.uuid4(),
        "lease": timedelta(seconds=request.lease + conf.LEASE_MARGIN),
        "key_life": capability.resend_life,
        "on_its_way": request.on_its_way,
        "settling": capability.settling,
        "max_age": capability.max_age,
        "sender": sender_name(),
        "trace": telemetry.traceparent(),
    }


_Row = tuple[int, int, int, datetime, uuid.UUID]


def _tables() -> dict[str, str]:
    return {
        "task": Task._meta.db_table,
        "operation": Operation._meta.db_table,
        "attempt": Attempt._meta.db_table,
    }


def _pass_postgresql(values: dict[str, Any]) -> _Row | None:
    now = "EXCLUDED.folded_at"
    may_advance = MAY_ADVANCE.format(now=now, arrives=f"{now} + %(on_its_way)s", **_tables())
    sql = POSTGRESQL.format(**_tables(), may_advance=may_advance)
    with database.connection().cursor() as cursor:
        cursor.execute(sql, values)
        row: _Row | None = cursor.fetchone()
    return row


def _pass_sqlite(values: dict[str, Any]) -> _Row | None:
    may_advance = MAY_ADVANCE.format(now="excluded.folded_at", arrives="%(arrives)s", **_tables())
    sql = SQLITE.format(**_tables(), may_advance=may_advance)
    with transaction.atomic(using=database.alias()):
        now = datetime.now(UTC)  # after BEGIN IMMEDIATE: whoever had to wait reads the time after the wait
        lease_until = now + values["lease"]
        times = {
            "now": now,
            "lease_until": lease_until,
            "arrives": now + values["on_its_way"],
            "resend_until": now + values["key_life"] if values["key_life"] is not None else None,
        }
        adapted = {name: _adapt(value) for name, value in {**values, **times}.items() if name not in _DURATIONS}
        with database.connection().cursor() as cursor:
            cursor.execute(sql, adapted)
            row = cursor.fetchone()
        if row is None:
            return None
        attempt = Attempt(
            operation_id=row[0],
            number=row[1],
            run=values["run"],
            passed_at=now,
            lease_until=lease_until,
            settling=values["settling"],
            max_age=values["max_age"],
            sender=values["sender"],
            trace=values["trace"],
        )
        attempt_id = storing.add(attempt)
    return row[0], row[1], attempt_id, now, uuid.UUID(row[2])


_DURATIONS = frozenset({"lease", "key_life", "on_its_way", "settling", "max_age", "sender", "trace"})


def _adapt(value: Any) -> Any:
    if isinstance(value, datetime):
        return database.connection().ops.adapt_datetimefield_value(value)
    return value.hex if isinstance(value, uuid.UUID) else value
