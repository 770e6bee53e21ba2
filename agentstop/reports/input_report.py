"""What is told of a task's inputs, in the active language: held and unknown ones, what waits, and what is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from agentstop.accounts import input_account
from agentstop.accounts.account import Account
from agentstop.accounts.input_account import KnownInput
from agentstop.folds.input_states import RELEASABLE, WITHDRAWABLE, Became, InputState, fold_input
from agentstop.reports.remedies import name_of
from agentstop.words.evidence_words import ERASED
from agentstop.words.input_wording import InputReading, read_input


@dataclass(frozen=True, slots=True)
class InputReport:
    """One text that a person typed. `since`: when it became what it is."""

    id: int
    text: str
    cut: bool  # the text goes on
    by: str
    at: datetime
    state: InputState
    reading: InputReading
    since: datetime
    can_release: bool
    can_withdraw: bool


@dataclass(frozen=True, slots=True)
class InputsReport:
    """Those that a stop holds, or whose outcome is unknown; those that a run has or gets; the last that are over."""

    held: tuple[InputReport, ...]
    waiting: tuple[InputReport, ...]
    over: tuple[InputReport, ...]
    more: bool  # open ones that are older than these

    @property
    def any(self) -> bool:
        return bool(self.held or self.waiting or self.over)


def tell(found: Account) -> InputsReport:
    """The inputs of an account."""
    told = [_tell(known, found.task.live_run) for known in found.inputs.known]
    return InputsReport(
        held=tuple(each for each in told if each.state in RELEASABLE),
        waiting=tuple(each for each in told if each.state in (InputState.WAITING, InputState.TAKEN)),
        over=tuple(each for each in told if each.state in (InputState.DONE, InputState.WITHDRAWN)),
        more=found.inputs.more,
    )


def _tell(known: KnownInput, live_run: int | None) -> InputReport:
    row, folded = known.row, fold_input(known.facts, live_run)
    last = known.events[-1] if known.events else None
    became = Became(last.became) if last is not None else None
    who = name_of(last.by) if last is not None else ""
    return InputReport(
        id=row.pk,
        text=known.head[: input_account.SHOWN] or gettext(ERASED),
        cut=known.cut,
        by=name_of(row.by),
        at=row.at,
        state=folded.state,
        reading=read_input(folded, live=live_run is not None, last=became, who=who),
        since=last.at if last is not None else row.at,
        can_release=folded.state in RELEASABLE,
        can_withdraw=folded.state in WITHDRAWABLE,
    )
