"""What is told of a task's family, in the active language: each relative with its state and why it goes on or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from agentstop.accounts import family_account
from agentstop.accounts.account import Account
from agentstop.accounts.family_account import KnownChild, KnownFamily, KnownParent
from agentstop.models import Decision, Task
from agentstop.models.facts import Decided
from agentstop.reports.remedies import name_of
from agentstop.states import TaskState
from agentstop.stop import NAMED, StopReport
from agentstop.words import family_words, sentences
from agentstop.words.family_words import Why


@dataclass(frozen=True, slots=True)
class Relative:
    """Another task, to be linked."""

    id: int
    title: str
    state: TaskState
    name: str  # of the state
    since: datetime


@dataclass(frozen=True, slots=True)
class Child:
    """What is told of a child. `holder`: the other task that needs it, where that is why it goes on."""

    task: Relative
    why: Why
    text: str
    holder: Relative | None


@dataclass(frozen=True, slots=True)
class Parent:
    """What is told of a task that this one works for."""

    task: Relative
    text: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause that holds the task: by whom, why, and where it is not its own, through which task."""

    by: str
    reason: str
    at: datetime
    through: Relative | None


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """The first relatives of each kind; `counts` is of all children, in words, `more` of those that are not named."""

    children: tuple[Child, ...]
    counts: str
    more: int
    parents: tuple[Parent, ...]
    more_parents: int
    stopped_with: str
    reached: bool  # a Stop of the task stops some of them
    holds: tuple[Hold, ...]

    @property
    def any(self) -> bool:
        return bool(self.children or self.parents or self.stopped_with)


def tell(found: Account) -> FamilyReport:
    """The family of an account."""
    known = found.family
    stopped = known.stopped_with
    return FamilyReport(
        children=tuple(tell_child(child, found.task) for child in known.children),
        counts=_counts(known),
        more=sum(known.counts.values()) - len(known.children),
        parents=tuple(map(tell_parent, known.parents)),
        more_parents=known.more_parents,
        stopped_with=str(family_words.STOPPED_WITH_IT % {"count": stopped}) if stopped else "",
        reached=known.reached,
        holds=tuple(map(_hold, known.holds)),
    )


def tell_child(known: KnownChild, parent: Task) -> Child:
    why = why_of(known, parent)
    holder = relative(known.holder) if why is Why.HELD and known.holder is not None else None
    return Child(relative(known.task), why, gettext(family_words.WHY[why]), holder)


def tell_parent(known: KnownParent) -> Parent:
    text = family_words.LIVE_RUN if known.live else family_words.OVER_RUN
    return Parent(relative(known.task), gettext(text) % {"run": known.run})


def relative(task: Task) -> Relative:
    state = TaskState(task.state)
    return Relative(task.pk, task.title, state, gettext(sentences.TASK_NAMES[state]), task.state_since)


def why_of(known: KnownChild, parent: Task) -> Why:
    """Why the child goes on, or does not."""
    child = known.task
    if child.state == TaskState.FINISHED:
        return Why.FAILED if known.failed else Why.FINISHED
    if child.state == TaskState.STOPPED:
        return _why_stopped(known, parent)
    if child.state == TaskState.PAUSED:
        return Why.PAUSED
    return _why_going_on(known)


def _why_stopped(known: KnownChild, parent: Task) -> Why:
    stop = known.task.stop_decision
    if known.pressed or stop is None:
        return Why.PRESSED
    if stop.task_id == known.task.pk:
        return Why.BORN_STOPPED
    if stop.task_id != parent.pk:
        return Why.STOPPED_ELSEWHERE
    return Why.STOPPED_WITH if stop.verb == Decided.STOP else Why.LEFT_BEHIND


def _why_going_on(known: KnownChild) -> Why:
    if known.works:
        return Why.QUEUED if known.task.live_run is None else Why.WORKS
    if known.task.detached:
        return Why.DETACHED
    if known.task.on_its_own:
        return Why.ON_ITS_OWN
    return Why.HELD if known.holder is not None else Why.LEFT


def _counts(known: KnownFamily) -> str:
    told = ((text, known.counts.get(state.value, 0)) for state, text in family_words.CHILDREN.items())
    return " · ".join(str(text % {"count": count}) for text, count in told if count)


def _hold(hold: Decision) -> Hold:
    root = family_account.root(hold)
    through = None if family_account.is_own(hold) else relative(root.task)
    return Hold(name_of(root.by) or root.policy, root.reason, hold.at, through)


def tell_open(many: int) -> str:
    """How many operations of a task may still have their effect; nothing where none may."""
    return str(family_words.OPEN % {"number": many}) if many else ""


def tell_open_below(many: int) -> str:
    """As `tell_open`, of all tasks below one that was stopped."""
    return str(family_words.OPEN_BELOW % {"count": many}) if many else ""


def press(done: StopReport) -> str:
    """The sentence for a press that has stopped nothing of the task itself, not translated yet."""
    if done.why == "finished" and done.descendants:
        return family_words.HAD_FINISHED
    return sentences.PRESSES[done.why]


def tell_press(done: StopReport) -> list[str]:
    """What a press did to others: how many were stopped with the task, what they have open, who goes on and why."""
    if done.why == "newer_run":
        return []
    told = [str(family_words.STOPPED_WITH_IT % {"count": done.descendants})] if done.descendants else []
    told += [tell_open_below(len(done.open_below))] if done.open_below else []
    goes_on = Counter(one.why for one in done.goes_on)
    told += [str(text % {"count": goes_on[why]}) for why, text in family_words.GOES_ON.items() if goes_on[why]]
    return [*told, gettext(family_words.MORE_GO_ON)] if len(done.goes_on) == NAMED else told
