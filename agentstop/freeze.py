"""Freeze: an operator holds a connector, an action, an owner or everything, tasks that are yet to begin included.

It holds what would have a new effect: what the gate lets leave, and compensations. Look-ups, cancel requests, receipts
and stops go on, and so does what has passed the gate before.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agentstop import bodies, connectors, database, frozen, telling, wake
from agentstop.descendants import ALIVE
from agentstop.exceptions import AgentStopError, Denied
from agentstop.models import Freeze, Operation, Task
from agentstop.models.facts import Effect
from agentstop.sending import in_domain

logger = logging.getLogger(__name__)

BATCH = 500  # tasks that one transaction reaches
PERMISSION = "agentstop.freeze_dispatch"
CODE = "code"  # who decided, where neither a person nor a policy is named

# Tasks that are over become active only with the clock's epoch. The words are literal, so that the index of those that
# are alive serves.
REACH = """
WITH reached AS MATERIALIZED (
  SELECT id FROM {task} WHERE id > %(after)s AND state IN ('active', 'paused') AND freeze_epoch < %(epoch)s {of_owner}
  ORDER BY id LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE {task} AS task SET freeze_epoch = %(epoch)s FROM reached WHERE task.id = reached.id RETURNING task.id
"""
REACH_SQLITE = """
UPDATE {task} SET freeze_epoch = %(epoch)s WHERE id IN (
  SELECT id FROM {task} WHERE id > %(after)s AND state IN ('active', 'paused') AND freeze_epoch < %(epoch)s {of_owner}
  ORDER BY id LIMIT %(most)s) RETURNING id
"""


class NoSuchFreeze(AgentStopError):
    """There is no freeze of that number."""


def freeze(
    *,
    connector: str = "",
    action: str = "",
    owner: Any = None,
    by: Any = None,
    reason: str,
    until: datetime | None = None,
    policy: str = "",
) -> Freeze:
    """Hold dispatch of this connector, action and owner (what is left out: of any) until it is lifted, or `until`.

    When it returns, nothing that it covers passes the gate any more, in any process; what has passed before goes on.
    `by`: the person, checked for `freeze_dispatch`; `policy` names what decided where no person did. Raises Denied, or
    ValueError for a scope that holds nothing, a missing reason or an end that is over.
    """
    asked = _asked(by, policy, reason, until)
    made = Freeze(connector=_cut(connector), action=_cut(action), of_owner=owner is not None, owner=owner, **asked)
    _require(by, made)
    require_meaning(connector, action)
    if not made.reason:
        raise ValueError("Say why: reason= is what the owners of what is held read. Nothing was frozen.")
    if until is not None and until <= made.at:
        raise ValueError(f"until is over: {until} is not after {made.at}. Nothing was frozen.")
    _begin(made)
    wake.announce_any()
    return put_in_force(made)


def unfreeze(freeze: Freeze | int, *, by: Any = None, reason: str = "", policy: str = "") -> bool:
    """Lift it; False where it holds nothing any more, which is noted. Raises Denied or NoSuchFreeze."""
    number = freeze if isinstance(freeze, int) else freeze.pk
    if not Freeze.objects.using(database.alias()).filter(pk=number, epoch__isnull=False).exists():
        raise NoSuchFreeze(f"There is no freeze {number}. Nothing was lifted.")
    asked = _asked(by, policy, reason)
    _require(by, Freeze(lifts_id=number, **asked))
    lifted = _lift(number, asked)
    logger.info("freeze %s: %s", number, "lifted" if lifted else "was over", extra={"action": "unfreeze"})
    wake.announce_any()
    return lifted


def in_force() -> list[Freeze]:
    """What is held now; `in_force_at` is empty where the last task was not reached yet."""
    return list(frozen.in_force(database.now()))


async def afreeze(
    *,
    connector: str = "",
    action: str = "",
    owner: Any = None,
    by: Any = None,
    reason: str,
    until: datetime | None = None,
    policy: str = "",
) -> Freeze:
    """As `freeze`."""
    scope = {"connector": connector, "action": action, "owner": owner}
    return await in_domain(freeze, **scope, by=by, reason=reason, until=until, policy=policy)


async def aunfreeze(freeze: Freeze | int, *, by: Any = None, reason: str = "", policy: str = "") -> bool:
    """As `unfreeze`."""
    return await in_domain(unfreeze, freeze, by=by, reason=reason, policy=policy)


async def ain_force() -> list[Freeze]:
    """As `in_force`."""
    return await in_domain(in_force)


def may_freeze(user: Any) -> bool:
    """Whether this person may hold dispatch, and lift what others hold. There is no task whose owner could."""
    return bool(user.is_active and user.has_perm(PERMISSION))


def affected(connector: str, action: str, owner: Any) -> QuerySet[Task]:
    """The tasks that are not over and have asked for what such a freeze would hold; others are once they ask for it.

    Where it names neither connector nor action: all of them, or all of the owner's.
    """
    tasks = Task.objects.using(database.alias()).filter(state__in=ALIVE)
    if owner is not None:
        tasks = tasks.filter(owner=owner)
    named = {name: value for name, value in (("connector", connector), ("action", action)) if value}
    return tasks.filter(Exists(Operation.objects.filter(task=OuterRef("pk"), **named))) if named else tasks


def complete() -> int:
    """Put in force what a process has left half done; answers how many that were. The worker does it."""
    found = list(frozen.in_force(database.now()).filter(in_force_at__isnull=True))
    for one in found:
        put_in_force(one)
    return len(found)


def put_in_force(freeze: Freeze) -> Freeze:
    """Reach every task that it could be about, then say that it is in force. May be done again, and by several at once.

    A batch takes only tasks that nobody holds; those are waited for one by one, with nothing held: so nobody who stops
    or links tasks, in whatever order, can wait for a freeze that waits for them.
    """
    after = 0
    while reached := _reach(freeze, after):
        after = max(reached)
    while left := _left(freeze):
        for task_id in left:
            _reach_one(task_id, freeze)
    _say_in_force(freeze.pk)
    freeze.refresh_from_db()
    logger.info("freeze %s is in force: %s", freeze.pk, freeze, extra={"action": "freeze"})
    wake.announce_any()
    return freeze


def _asked(by: Any, policy: str, reason: str, until: datetime | None = None) -> dict[str, Any]:
    """The columns of who asked, why, until when, and when."""
    if until is not None and timezone.is_naive(until):
        raise ValueError(f"until must say its time zone, and {until!r} does not. Use django.utils.timezone.")
    person = by if getattr(by, "is_authenticated", False) else None
    who = policy if by is not None or policy else CODE
    return {
        "by": person,
        "policy": who,
        "reason": bodies.reason(reason).strip(),
        "until": until,
        "at": database.now(),
    }


def _cut(name: str) -> str:
    return bodies.safe(name)[:255]


def _require(by: Any, wanted: Freeze) -> None:
    """Pass, or keep what was denied, and raise."""
    if by is None or may_freeze(by):
        return
    wanted.effect = Effect.DENIED
    wanted.save(using=database.alias())
    telling.of_denied_freeze(wanted)
    raise Denied("You may not hold dispatch for others, nor lift what holds it. Ask an operator.")


def require_meaning(connector: str, action: str) -> None:
    """A name that is misspelt would hold nothing while everybody believes that it does."""
    if action:
        bodies.one_line(action, "action")
    if not connector:
        return
    provider = connectors.get(bodies.one_line(connector, "connector"))
    try:
        if action:
            provider.capability(action)
    except LookupError as error:
        raise ValueError(f"Connector {connector!r} has {error}. Nothing was frozen.") from error


@database.retried
def _begin(made: Freeze) -> None:
    """From this commit on, whoever reads anew holds it, and a task that becomes active says so."""
    with database.durable():
        made.epoch, made.at = frozen.move_clock()
        made.pk = None  # where this is tried again
        made.save(using=database.alias(), force_insert=True)
        wake.notify_any_on_commit()


def _reach(freeze: Freeze, after: int) -> list[int]:
    values = {"after": after, "epoch": freeze.epoch, "most": BATCH, "owner": freeze.owner_id}
    return _reach_batch(freeze.of_owner, values)


@database.retried
def _reach_batch(of_owner: bool, values: dict[str, Any]) -> list[int]:
    sql = REACH if database.is_postgresql() else REACH_SQLITE
    sql = sql.format(task=Task._meta.db_table, of_owner="AND owner_id = %(owner)s" if of_owner else "")
    if values["owner"] is not None:
        values = {**values, "owner": _owner_column(values["owner"])}
    with database.durable(), database.connection().cursor() as cursor:
        cursor.execute(sql, values)
        return [row[0] for row in cursor.fetchall()]


def _owner_column(owner_id: Any) -> Any:
    """The owner's id as the column holds it, whatever type the host's users have."""
    return Task._meta.get_field("owner").get_db_prep_value(owner_id, database.connection())


def _left(freeze: Freeze) -> list[int]:
    """Tasks that somebody held: the oldest of them."""
    tasks = Task.objects.using(database.alias()).filter(state__in=ALIVE, freeze_epoch__lt=freeze.epoch)
    if freeze.of_owner:
        tasks = tasks.filter(owner=freeze.owner_id, owner__isnull=False)
    return list(tasks.order_by("pk").values_list("pk", flat=True)[:BATCH])


@database.retried
def _reach_one(task_id: int, freeze: Freeze) -> None:
    with database.durable():
        Task.objects.using(database.alias()).filter(pk=task_id, freeze_epoch__lt=freeze.epoch).update(
            freeze_epoch=freeze.epoch
        )


@database.retried
def _say_in_force(number: int) -> None:
    with database.durable():
        rows = Freeze.objects.using(database.alias()).filter(pk=number, lifted_at__isnull=True)
        rows.filter(in_force_at__isnull=True).update(in_force_at=database.now())
        wake.notify_any_on_commit()


@database.retried
def _lift(number: int, asked: dict[str, Any]) -> bool:
    with database.durable():
        held = database.locked(Freeze.objects.filter(pk=number)).get()
        now = database.now()
        holds = held.lifted_at is None and not held.has_ended(now)
        Freeze.objects.using(database.alias()).create(
            lifts=held, effect=Effect.APPLIED if holds else Effect.NOTED, **{**asked, "at": now}
        )
        if holds:
            Freeze.objects.using(database.alias()).filter(pk=number).update(lifted_at=now)
        wake.notify_any_on_commit()
    return holds
