"""Pause, Resume and New run as a person finds them: each possible now, or the reason why it is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from agentstop import starting
from agentstop.accounts import family_account
from agentstop.accounts.account import Account
from agentstop.reports.role import Role
from agentstop.states import OPEN_STATES, TaskState
from agentstop.words import family_words

OVER = {TaskState.STOPPED: family_words.IS_STOPPED, TaskState.FINISHED: family_words.HAS_FINISHED}


@dataclass(frozen=True, slots=True)
class Controls:
    """For each the reason why it does nothing now; empty where it works. `can_start`: this site starts agents."""

    not_stopped: str
    not_paused: str
    not_resumed: str
    not_begun: str
    can_start: bool

    def why_not(self, role: Role) -> str:
        """Why each that this reader may press does nothing now, in one line; empty where all of them work."""
        named = [
            (gettext("Stop"), self.not_stopped, role.may_stop),
            (gettext("Pause"), self.not_paused, role.may_pause),
            (gettext("Resume"), self.not_resumed, role.may_pause),
            (gettext("New run"), self.not_begun, role.may_start),
        ]
        return _reasons([(name, why) for name, why, may in named if may])


def of(found: Account, *, stoppable: bool) -> Controls:
    """The controls of an account, in the active language. `stoppable`: there is something that a stop would end."""
    state = TaskState(found.task.state)
    own = any(map(family_account.is_own, found.family.holds))
    can_start = starting.can_start()
    return Controls(
        not_stopped="" if stoppable else _said(_not_stopped(state, found)),
        not_paused=_said(_not_paused(state, own)),
        not_resumed=_said(_not_resumed(state, own)),
        not_begun=_said(_not_begun(state, can_start=can_start)),
        can_start=can_start,
    )


def _not_stopped(state: TaskState, found: Account) -> str:
    if state is TaskState.FINISHED and any(known.folded.state in OPEN_STATES for known in found.operations):
        return family_words.ASKED_TO_CANCEL
    return OVER.get(state, "")


def _not_begun(state: TaskState, *, can_start: bool) -> str:
    if not can_start:
        return family_words.STARTED_ELSEWHERE if state in OVER else ""
    return family_words.RESUME_FIRST if state is TaskState.PAUSED else ""


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
