"""A person answers or declines what a run asks: exactly one of them counts, and only while the run is live."""

from __future__ import annotations

import logging
from typing import Any

from agentstop import bodies, database, permissions, question_facts, telling, wake
from agentstop.exceptions import NotOpen, TaskNotFound
from agentstop.folds.question_states import Kind, QuestionState
from agentstop.models import Decision, Question, Task
from agentstop.models.facts import Decided, Effect
from agentstop.question_facts import Asked
from agentstop.questions import APPROVED, LONGEST
from agentstop.sending import in_domain
from agentstop.stop_signal import reason_over

logger = logging.getLogger(__name__)

WHY_NOT = {
    "stopped": "task {task} was stopped",
    "superseded": "a newer run of task {task} has begun",
    "finished": "the run that has asked has ended",
    "expired": "it is too late",
    "answered": "it was answered already, by {who}",
    "declined": "it was declined already, by {who}",
}


def answer(question: Question | int, value: str = APPROVED, *, by: Any) -> None:
    """Save a person's answer: a text, one of the choices, or nothing for an approval. The run takes it when it looks.

    Raises NotOpen where the question takes no answer any more, ValueError where this is none, TaskNotFound or Denied.
    """
    found = _found(question)
    _require(by, found, Decided.ANSWER)
    _reply(found, Decided.ANSWER, by, answer=usable(found, value))


def decline(question: Question | int, *, by: Any, reason: str = "") -> None:
    """Say no: the run is told, and sends nothing for it. Raises NotOpen, TaskNotFound or Denied."""
    found, reason = _found(question), bodies.reason(reason)
    _require(by, found, Decided.DECLINE, reason)
    _reply(found, Decided.DECLINE, by, reason=reason)


async def aanswer(question: Question | int, value: str = APPROVED, *, by: Any) -> None:
    """As `answer`."""
    await in_domain(answer, question, value, by=by)


async def adecline(question: Question | int, *, by: Any, reason: str = "") -> None:
    """As `decline`."""
    await in_domain(decline, question, by=by, reason=reason)


def usable(question: Question, value: str) -> str:
    """The value, checked to be an answer to this question."""
    if question.kind == Kind.APPROVE:
        if value != APPROVED:
            raise ValueError(f"Question {question.pk} is approved or declined: it takes no other answer.")
        return value
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"An answer must be a text that is not empty, not {value!r}.")
    if question.choices and value not in question.choices:
        raise ValueError(f"The answer must be one of {', '.join(map(repr, question.choices))}, not {value!r}.")
    if len(value) > LONGEST:
        raise ValueError(f"The answer is {len(value)} characters long; at most {LONGEST} are kept. Shorten it.")
    return bodies.safe(value)


def _found(question: Question | int) -> Question:
    number = question if isinstance(question, int) else question.pk
    found = Question.objects.using(database.alias()).select_related("task").filter(pk=number).first()
    if found is None:
        raise TaskNotFound(f"There is no question {number}. Nothing was answered.")
    return found


def _require(by: Any, question: Question, verb: Decided, reason: str = "") -> None:
    if by is None:
        raise ValueError("by must be the person who answers: a question is answered by nobody else.")
    permissions.require(by, "answer_question", question.task, verb, reason=reason, question=question)


def _reply(question: Question, verb: Decided, by: Any, *, answer: str = "", reason: str = "") -> None:
    refusal = _store(question, verb, by, answer, reason)
    wake.announce(question.task_id)
    what = refusal.why if refusal is not None else "saved"
    extra = {"action": "answer", "task": question.task_id, "question": question.pk}
    logger.info("%s to question %s: %s", verb, question.pk, what, extra=extra)
    if refusal is not None:
        raise refusal


@database.retried
def _store(question: Question, verb: Decided, by: Any, answer: str, reason: str) -> NotOpen | None:
    """Under the task's lock, so that what the person is told is what the stop, or another person, finds."""
    with database.durable():
        task, now = _locked(question), database.now()
        (asked,) = question_facts.read(Question.objects.filter(pk=question.pk), now)
        why = _why_not(task, asked)
        reply = Decision.objects.using(database.alias()).create(
            task=task,
            question=question,
            run=question.run,
            verb=verb,
            effect=Effect.NOTED if why else Effect.APPLIED,
            by=by,
            reason=reason,
            detail={name: value for name, value in (("answer", answer), ("why", why)) if value},
            at=now,
        )
        if not why:
            telling.of_reply(question, reply)
    return _refused(asked, why) if why else None


def _locked(question: Question) -> Task:
    return database.locked(Task.objects.filter(pk=question.task_id)).get()


def _why_not(task: Task, asked: Asked) -> str:
    """Why the question takes no answer, in a word; empty where it does."""
    if asked.state in (QuestionState.ANSWERED, QuestionState.APPLIED):
        return "answered"
    if asked.state in (QuestionState.DECLINED, QuestionState.EXPIRED):
        return asked.state.value
    over = reason_over(task.state, task.live_run, task.last_run, asked.row.run)
    return over.reason if over is not None else ""


def _refused(asked: Asked, why: str) -> NotOpen:
    who = asked.reply.by if asked.reply is not None and asked.reply.by is not None else "a person"
    said = WHY_NOT[why].format(task=asked.row.task_id, who=who)
    refusal = NotOpen(f"Question {asked.row.pk} takes no answer any more: {said}. Nothing was changed.")
    refusal.why = why
    return refusal
