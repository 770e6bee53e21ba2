"""Pause, Resume and New run as a person finds them: each possible now, or the reason why it is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from agentstop import starting
from agentstop.accounts import family_account
from agentstop.accounts.account import Account
from agentstop.states import TaskState
from agentstop.words import family_words

OVER = {TaskState.STOPPED: family_words.IS_STOPPED, TaskState.FINISHED: family_words.HAS_FINISHED}


@dataclass(frozen=True, slots=True)
class Controls:
    """For each the reason why it does nothing now; empty where it works. `can_start`: this site starts agents."""

    not_paused: str
    not_resumed: str
    not_begun: str
    can_start: bool

    @property
    def reasons_to_pause(self) -> str:
        """Why Pause and Resume do nothing now, in one line."""
        return _reasons([(gettext("Pause"), self.not_paused), (gettext("Resume"), self.not_resumed)])

    @property
    def reasons_to_start(self) -> str:
        """Why New run does nothing now."""
        return _reasons([(gettext("New run"), self.not_begun)] if self.can_start else [])

    @property
    def all_reasons(self) -> str:
        """All of them, for those who may do all."""
        return " ".join(text for text in (self.reasons_to_pause, self.reasons_to_start) if text)


def of(found: Account) -> Controls:
    """The controls of an account, in the active language."""
    state = TaskState(found.task.state)
    own = any(map(family_account.is_own, found.family.holds))
    return Controls(
        not_paused=_said(_not_paused(state, own)),
        not_resumed=_said(_not_resumed(state, own)),
        not_begun=_said(family_words.RESUME_FIRST if state is TaskState.PAUSED else ""),
        can_start=starting.can_start(),
    )


def _not_paused(state: TaskState, own: bool) -> str:
    return family_words.IS_PAUSED if own else OVER.get(state, "")


def _not_resumed(state: TaskState, own: bool) -> str:
    if own:
        return ""
    return family_words.HELD_BY_OTHERS if state is TaskState.PAUSED else OVER.get(state, family_words.NOT_PAUSED)


def _said(text: str) -> str:
    return gettext(text) if text else ""  # an empty text has a translation: the catalogue's head


def _reasons(named: Sequence[tuple[str, str]]) -> str:
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, why in named:
        if why:
            reasons[why].append(name)
    return " ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
