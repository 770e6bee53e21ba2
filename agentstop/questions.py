"""A run asks a person, and waits for the answer; it takes the answer only while it is live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, Required, TypedDict, Unpack

from agentstop import bodies, database, liveness, question_facts, telling, waiting, wake
from agentstop.exceptions import Declined, Expired, KeyReused, Refused, TaskNotFound, Unanswered
from agentstop.folds.question_states import Kind, QuestionState
from agentstop.models import Question, Task
from agentstop.question_facts import Asked
from agentstop.sending import in_domain
from agentstop.stop_signal import reason_over

APPROVED = "approved"  # the answer to a question of kind "approve"
LONGEST = bodies.LONGEST_REASON  # characters of a question, and of the details that are kept
LONGEST_CHOICE = 200
MOST_CHOICES = 50
LONGEST_WAIT = 366 * 24 * 3600.0  # seconds


class Options(TypedDict, total=False):
    """The keyword arguments by which a run describes its question."""

    key: Required[str]  # asked again with it by the same run, it is the same question
    kind: Literal["approve", "answer"]  # yes or no; or, which is the default, a text
    choices: Sequence[str]  # the answers that are possible
    details: Mapping[str, Any]  # what it is about: what would be sent; secrets in it are masked
    within: float  # seconds in which it has to be answered


@dataclass(frozen=True, slots=True)
class Answered:
    """What a person has answered: a text, one of the choices, or "approved"; `by` is their primary key."""

    value: str
    by: Any
    at: datetime


@dataclass(frozen=True, slots=True)
class Wish:
    """A checked question, as it is stored."""

    task: int
    run: int
    key: str
    kind: Kind
    text: str
    choices: tuple[str, ...] = ()
    details: str = ""
    cut: bool = False
    within: float | None = None
    operation: int | None = None
    connector: str = ""
    action: str = ""

    @property
    def words(self) -> dict[str, Any]:
        """What a person reads, and what must be equal when it is asked again."""
        return {
            "kind": self.kind.value,
            "text": self.text,
            "choices": list(self.choices),
            "details": self.details,
            "connector": self.connector,
            "action": self.action,
        }


class Asks:
    """The methods of a run by which its agent asks a person."""

    __slots__ = ()

    task_id: int
    number: int

    def ask(self, text: str, *, wait: bool = True, **options: Unpack[Options]) -> Answered:
        """Ask a person, and wait for their answer; asked again by the same `key`, it is the same question.

        `kind="approve"` wants a yes or no, else a text, or one of `choices`. Raises Declined, Expired, and Stopped,
        Superseded or Finished once the run is over; with `wait=False` Unanswered, for jobs that come back.
        """
        return ask(make(self.task_id, self.number, text, options), wait=wait)

    async def aask(self, text: str, *, wait: bool = True, **options: Unpack[Options]) -> Answered:
        """As `ask`."""
        return await aask(make(self.task_id, self.number, text, options), wait=wait)


def make(task: int, run: int, text: str, options: Options) -> Wish:
    """The checked question: a ValueError says which argument is unusable and what to pass instead."""
    kind, within = options.get("kind", Kind.ANSWER.value), options.get("within")
    if kind not in list(Kind):
        raise ValueError(f"kind must be 'approve' or 'answer', not {kind!r}.")
    if within is not None and not 0 < within <= LONGEST_WAIT:
        raise ValueError(f"within must be a number of seconds above 0, at most {LONGEST_WAIT:.0f}, not {within!r}.")
    choices = _choices(options.get("choices", ()), Kind(kind))
    details, cut = describe(options.get("details") or {})
    key = bodies.one_line(options.get("key", ""), "key")
    return Wish(task, run, key, Kind(kind), clean(text), choices, details, cut, within)


def clean(text: str) -> str:
    """The text of a question, checked: a person has to see the whole of what they answer."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"A question must be a text that is not empty, not {text!r}.")
    if len(text) > LONGEST:
        raise ValueError(f"The question is {len(text)} characters long; at most {LONGEST} are kept. Shorten it.")
    return bodies.safe(text)


def describe(details: Mapping[str, Any]) -> tuple[str, bool]:
    """What would be sent, for people: its secrets masked; and whether it is only the beginning."""
    if not details:
        return "", False
    text = bodies.summarise(details, cap=LONGEST + 1)
    if not text:
        raise ValueError("details cannot be shown to a person. Pass texts as names, and values that JSON knows.")
    return text[:LONGEST], len(text) > LONGEST


def _choices(given: Sequence[str], kind: Kind) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ValueError(f"choices must be a list of texts, not the text {given!r}.")
    if given and kind is Kind.APPROVE:
        raise ValueError("choices belong to a question of kind 'answer': an approval is yes or no.")
    choices = tuple(bodies.one_line(choice, "a choice", LONGEST_CHOICE) for choice in given)
    if len(set(choices)) < len(choices) or len(choices) > MOST_CHOICES:
        raise ValueError(f"choices must be different from each other, and at most {MOST_CHOICES}: {choices!r}.")
    return choices


def ask(wish: Wish, *, wait: bool = True) -> Answered:
    """Put the question, and block until it is answered; with `wait=False` raise Unanswered while it is not.

    Raises Declined, Expired, KeyReused where the key names another question, and Stopped, Superseded or Finished.
    """
    question, left = put(wish)
    look = partial(_look, question)
    if not wait:
        return _now(wish, question, look())
    try:
        return waiting.until(look, wish.task, timeout=left)
    except TimeoutError:  # by our own clock: what it finds by the database's decides
        return waiting.until(look, wish.task)


async def aask(wish: Wish, *, wait: bool = True) -> Answered:
    """As `ask`."""
    question, left = await in_domain(put, wish)
    look = partial(_look, question)
    if not wait:
        return _now(wish, question, await in_domain(look))
    try:
        return await waiting.auntil(look, wish.task, timeout=left)
    except TimeoutError:
        return await waiting.auntil(look, wish.task)


def _now(wish: Wish, question: Question, found: Answered | None) -> Answered:
    if found is None:
        error = Unanswered(f"Question {wish.key!r} of task {wish.task} is not answered yet. Ask again later.")
        error.question = question.pk
        raise error
    return found


def put(wish: Wish) -> tuple[Question, float | None]:
    """The question, asked now or before by this run, and in how many seconds it expires; raises where the run is over.

    KeyReused where its key names another question.
    """
    found, new = _put(wish)
    if isinstance(found, Refused):
        raise found
    if new:
        wake.announce(wish.task)
    return found, (found.until - database.now()).total_seconds() if found.until is not None else None


@database.retried
def _put(wish: Wish) -> tuple[Question | Refused, bool]:
    with database.durable():
        task = _locked(wish.task)
        over = reason_over(task.state, task.live_run, task.last_run, wish.run)
        if over is not None:
            return over(f"Run {wish.run} of task {wish.task} is over ({over.reason}): nobody was asked."), False
        questions = Question.objects.using(database.alias())
        found = questions.filter(task=task, run=wish.run, key=wish.key).first()
        if found is not None:
            return _same(found, wish), False
        now = database.now()
        until = now + timedelta(seconds=wish.within) if wish.within is not None else None
        named = {"task": task, "run": wish.run, "key": wish.key, "operation_id": wish.operation}
        asked = questions.create(**named, **wish.words, cut=wish.cut, asked_at=now, until=until)
        telling.of_question(asked)
        return asked, True


def _same(found: Question, wish: Wish) -> Question | Refused:
    """What was asked before, if it is the same: nobody's answer may stand for a question that they have not read."""
    different = [name for name, value in wish.words.items() if getattr(found, name) != value]
    if different:
        return KeyReused(
            f"Key {wish.key!r} of run {wish.run} names another question ({', '.join(different)} differ). Use another "
            "key for another question."
        )
    return found


def _look(question: Question) -> Answered | None:
    """The answer, taken for the run; None while there is none. The look is a sign of life of the agent."""
    liveness.still_live(question.task_id, question.run)
    if _asked(question.pk).state is QuestionState.PENDING:
        return None
    found = _take(question)
    if isinstance(found, Refused):
        raise found
    wake.announce(question.task_id)
    return found


@database.retried
def _take(question: Question) -> Answered | Refused | None:
    """Under the task's lock: either the answer is taken before the run ends, or not at all."""
    with database.durable():
        task = _locked(question.task_id)
        over = reason_over(task.state, task.live_run, task.last_run, question.run)
        if over is not None:
            return over(f"Run {question.run} of task {task.pk} is over ({over.reason}): no answer was taken.")
        asked = _asked(question.pk)
        if asked.state is QuestionState.ANSWERED:
            row = Question.objects.using(database.alias()).filter(pk=question.pk, applied_at__isnull=True)
            row.update(applied_at=database.now())
        return _told(asked)


def _told(asked: Asked) -> Answered | Refused | None:
    """What the run that has asked is told."""
    if asked.state is QuestionState.PENDING:
        return None
    if asked.state is QuestionState.EXPIRED:
        return Expired(f"Nobody has answered question {asked.row.key!r} of task {asked.row.task_id} in time.")
    reply = asked.reply
    if reply is None or asked.state is QuestionState.CLOSED:
        raise AssertionError(f"question {asked.row.pk} of a live run is {asked.state}")
    if asked.state is QuestionState.DECLINED:
        why = f": {reply.reason}" if reply.reason else "."
        return Declined(f"A person has declined question {asked.row.key!r} of task {asked.row.task_id}{why}")
    return Answered(asked.answer, reply.by_id, reply.at)


def _asked(question: int) -> Asked:
    (found,) = question_facts.read(Question.objects.filter(pk=question), database.now())
    return found


def _locked(task_id: int) -> Task:
    task = database.locked(Task.objects.filter(pk=task_id)).first()
    if task is None:
        raise TaskNotFound(f"There is no task {task_id}. Nobody was asked.")
    return task
