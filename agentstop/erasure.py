"""Erasing what was said in tasks that are over. That something was decided, sent and heard, and when, stays."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from agentstop import bodies, database, family, holding, wake
from agentstop.bodies import Form
from agentstop.closing import MAY_GO_ON
from agentstop.folds.input_states import WITHDRAWABLE, Became, fold_input
from agentstop.models import Call, ContextEntry, Decision, Input, InputEvent, Operation, Question, Receipt, Run, Task
from agentstop.models.facts import Decided
from agentstop.states import TaskState

logger = logging.getLogger(__name__)

OVER = (TaskState.STOPPED, TaskState.FINISHED)
SAID = ("answer", "why")  # what a person has answered to a question, in the detail of a decision


@dataclass(frozen=True, slots=True)
class Erasure:
    """What became of the tasks, by id. `kept`: they are at work, or something of them may still have its effect."""

    erased: tuple[int, ...]
    kept: tuple[int, ...]


def due(tasks: QuerySet[Task], before: datetime | None = None) -> QuerySet[Task]:
    """Those of the tasks that can be erased: over (since before this time), and nothing of them open."""
    still_open = Operation.objects.filter(MAY_GO_ON, task=OuterRef("pk"))
    over = tasks.filter(~Exists(still_open), state__in=OVER)
    return over if before is None else over.filter(state_since__lt=before)


def erase(tasks: QuerySet[Task], *, before: datetime | None = None, titles: bool = False, reason: str = "") -> Erasure:
    """Erase results, requests, inputs, questions and errors of these tasks, each task in a commit of its own.

    `before`: only of tasks that have been over since then, or longer. `titles`: titles and the reasons of decisions,
    too. A result that is erased is never given again: whoever asks for it hears that it is gone, and nothing is sent a
    second time. Keys and references stay, since they say which effect is meant.
    """
    wanted = list(tasks.order_by("pk").values_list("pk", flat=True))
    ripe = set(due(tasks, before).values_list("pk", flat=True))
    erased = [pk for pk in wanted if pk in ripe and _erase(pk, titles, bodies.reason(reason))]
    logger.info("what was said in %s tasks was erased", len(erased), extra={"action": "erase"})
    return Erasure(tuple(erased), tuple(sorted(set(wanted) - set(erased))))


@database.retried
def _erase(task_id: int, titles: bool, reason: str) -> bool:
    with database.durable():
        task = family.locked_task(task_id)
        if task is None or not due(Task.objects.using(database.alias()).filter(pk=task_id)).exists():
            return False  # it began again, or was deleted, meanwhile
        _erase_bodies(task_id)
        if titles:
            _erase_titles(task_id)
        Decision.objects.using(database.alias()).create(
            task=task,
            verb=Decided.ERASE,
            policy="retention",
            reason=reason,
            detail={"titles": titles},
            at=database.now(),
        )
        wake.notify_on_commit([task_id])
    wake.announce(task_id)
    return True


def _erase_bodies(task_id: int) -> None:
    of_task, of_operation = Q(task=task_id), Q(operation__task=task_id)
    using = database.alias()
    gone = {"body": "", "form": Form.ERASED}
    Receipt.objects.using(using).filter(of_operation).exclude(body="").update(**gone)
    ContextEntry.objects.using(using).filter(of_task).update(**gone)
    Operation.objects.using(using).filter(of_task).update(summary="")
    _withdraw_inputs(task_id)
    Input.objects.using(using).filter(of_task).update(body="")
    Question.objects.using(using).filter(of_task).update(text="", details="", choices=[])
    Run.objects.using(using).filter(of_task).update(error="")
    Call.objects.using(using).filter(of_operation).update(error="")
    answers = Decision.objects.using(using).filter(of_task, question__isnull=False)
    answers.update(reason="")
    for answer in answers.exclude(detail={}):
        answer.detail = {name: value for name, value in answer.detail.items() if name not in SAID}
        answer.save(using=using, update_fields=["detail"])


def _withdraw_inputs(task_id: int) -> None:
    """What nobody can read any more must not be sent either."""
    inputs = {row.pk: row for row in Input.objects.using(database.alias()).filter(task=task_id)}
    facts = holding.facts_of(list(inputs))
    left = [row for pk, row in inputs.items() if fold_input(facts[pk], None).state in WITHDRAWABLE]
    now = database.now()
    InputEvent.objects.using(database.alias()).bulk_create(
        [InputEvent(input=row, became=Became.WITHDRAWN, at=now) for row in left], batch_size=500
    )
    holding.set_waits(left, waits=False)


def _erase_titles(task_id: int) -> None:
    using = database.alias()
    Decision.objects.using(using).filter(task=task_id).exclude(verb=Decided.REFUSE).update(reason="")
    Task.objects.using(using).filter(pk=task_id).update(title=f"#{task_id}", stop_reason="")
