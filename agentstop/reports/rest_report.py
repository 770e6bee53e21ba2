"""What is told of operations that are counted and not read one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentstop.accounts.account import Account
from agentstop.accounts.selection import Group
from agentstop.states import Cancellation, TaskState
from agentstop.words import rest_words, sentences, wording
from agentstop.words.sentences import Label


@dataclass(frozen=True, slots=True)
class Kind:
    """Operations that read alike. `show`: the word in the address of the pages that list them."""

    text: str
    show: str


@dataclass(frozen=True, slots=True)
class RestReport:
    """How many are not listed, what may still have its effect told apart; empty texts where there are none."""

    open_text: str
    open_kinds: tuple[Kind, ...]
    text: str
    kinds: tuple[Kind, ...]

    @property
    def any(self) -> bool:
        return bool(self.kinds or self.open_kinds)


def tell(found: Account) -> RestReport:
    """What is told of the rest of an account, undoings and all, in the active language."""
    opened = [group for group in found.rest.groups if group.is_open]
    others = [group for group in found.rest.groups if not group.is_open]
    return RestReport(
        open_text=_sentence(rest_words.OPEN_NOT_LISTED, opened),
        open_kinds=_kinds(found, opened),
        text=_sentence(rest_words.NOT_LISTED, others),
        kinds=_kinds(found, others),
    )


def counts(found: Account, *, undoing: bool) -> Mapping[Label, int]:
    """How many of the rest read how; those that undo others, or all but those."""
    return _counted(found, (group for group in found.rest.groups if group.undoing == undoing))


def failed(found: Account) -> Iterable[str]:
    """The actions of those that failed."""
    return (group.action for group in found.rest.groups if _label(found, group) is Label.FAILED)


def _counted(found: Account, groups: Iterable[Group]) -> Counter[Label]:
    counted: Counter[Label] = Counter()
    for group in groups:
        counted[_label(found, group)] += group.many
    return counted


def _label(found: Account, group: Group) -> Label:
    task = TaskState.ACTIVE if group.undoing else TaskState(found.task.state)
    asked = Cancellation.REQUESTED if group.asked else Cancellation.NONE
    return wording.label_of(group.state, task, asked, in_lease=True)


def _kinds(found: Account, groups: Iterable[Group]) -> tuple[Kind, ...]:
    counted = _counted(found, groups)
    texts = ((label, sentences.COUNTS[label] % {"count": counted[label]}) for label in Label if counted[label])
    return tuple(Kind(str(text), rest_words.shown_as(label)) for label, text in texts)


def _sentence(text: object, groups: Iterable[Group]) -> str:
    many = sum(group.many for group in groups)
    return str(text % {"count": many}) if many else ""  # type: ignore[operator]
