"""Reads questions with what became of them, in two queries however many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Now

from agentstop import database
from agentstop.composed import Composed
from agentstop.folds.question_states import QuestionFacts, QuestionState, fold_question
from agentstop.models import Decision, Question, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.states import RunState


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as its facts tell it at a moment."""

    row: Question
    reply: Decision | None  # the answer or decline that counts
    ended: RunState | None  # how its run has ended; None: it is live
    state: QuestionState

    @property
    def answer(self) -> str:
        """What the person has answered; empty where nobody has."""
        return str(self.reply.detail.get("answer", "")) if self.reply is not None else ""

    @property
    def changes_at(self) -> datetime | None:
        """When time alone will change its state."""
        return self.row.until if self.state is QuestionState.PENDING else None


def read(rows: QuerySet[Question], now: datetime) -> list[Asked]:
    """These questions at this moment, in the order in which they were asked."""
    return [told(row, now) for row in with_facts(rows.using(database.alias())).order_by("pk")]


def with_facts(rows: QuerySet[Question]) -> QuerySet[Any]:
    """Questions together with what `told` needs; `read_at` is the database's time."""
    run = Run.objects.filter(task=OuterRef("task"), number=OuterRef("run"))
    counting = Decision.objects.filter(effect=Effect.APPLIED).select_related("by")
    ends: QuerySet[Any] = rows.annotate(
        ended=Subquery(run.values("state")), over_at=Subquery(run.values("ended_at")), read_at=Now()
    )
    return ends.prefetch_related(Prefetch("decisions", counting, to_attr="replies"))


def told(row: Any, now: datetime) -> Asked:
    """What the facts of a row tell that was read by `with_facts`."""
    reply = next(iter(row.replies), None)
    said = {reply.verb: reply.at} if reply is not None else {}
    facts = QuestionFacts(
        until=row.until,
        answered_at=said.get(Decided.ANSWER),
        declined_at=said.get(Decided.DECLINE),
        applied_at=row.applied_at,
        over_at=row.over_at,
    )
    ended = RunState(row.ended) if row.over_at is not None else None
    return Asked(row, reply, ended, fold_question(facts, now))


def by_task(tasks: Mapping[int, Task], now: datetime) -> Mapping[int, Sequence[Asked]]:
    """The questions of each of these tasks, as old as the tasks' rows: none is closed before its task is over."""
    found: dict[int, list[Asked]] = defaultdict(list)
    for row in _OF.rows(list(tasks), database.alias()):
        if tasks[row.task_id].live_run == row.run:  # where it has ended since, a newer picture will say so
            row.ended, row.over_at = RunState.LIVE, None
        found[row.task_id].append(told(row, now))
    return found


_OF = Composed(lambda tasks: with_facts(Question.objects.filter(task__in=tasks)).order_by("pk"))


def marks(task_ids: Iterable[int]) -> Mapping[int, tuple[Any, ...]]:
    """For each task that has questions a value that is another one whenever something about them is."""
    rows = Question.objects.using(database.alias()).filter(task__in=list(task_ids)).values("task")
    said = rows.annotate(last=Max("pk"), reply=Max("decisions"), taken=Max("applied_at"))
    return {row[0]: row for row in said.values_list("task", "last", "reply", "taken")}
