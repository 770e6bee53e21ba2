"""What a person reads about one input: labels and sentences, and the pure function that chooses them."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from agentstop.folds.input_states import Became, FoldedInput, InputState, Sent
from agentstop.words.sentences import Tone

NAMES = {
    (InputState.WAITING, Sent.NEVER): _("waiting, not sent yet"),
    (InputState.WAITING, Sent.UNKNOWN): _("waiting to be sent again"),
    (InputState.HELD, Sent.NEVER): _("held, never sent"),
    (InputState.HELD, Sent.UNKNOWN): _("held, unknown whether it was acted on"),
    (InputState.TAKEN, Sent.UNKNOWN): _("with the agent"),
    (InputState.DONE, Sent.SENT): _("sent"),
    (InputState.UNKNOWN, Sent.UNKNOWN): _("held, unknown whether it was acted on"),
    (InputState.WITHDRAWN, Sent.NEVER): _("withdrawn, never sent"),
    (InputState.WITHDRAWN, Sent.UNKNOWN): _("withdrawn, unknown whether it was acted on"),
}
TONES = {
    InputState.WAITING: Tone.QUIET,
    InputState.HELD: Tone.NOTICE,
    InputState.TAKEN: Tone.BUSY,
    InputState.DONE: Tone.GOOD,
    InputState.UNKNOWN: Tone.UNSURE,
    InputState.WITHDRAWN: Tone.QUIET,
}

FOR_THE_LIVE_RUN = _("The agent gets it when it asks next.")
FOR_THE_NEXT_RUN = _("The next run gets it.")
EVIDENCE = {
    InputState.HELD: _("An agent gets it only if somebody releases it."),
    InputState.TAKEN: _("Run %(run)s has it, and has not said that it is done with it."),
    InputState.DONE: _("Run %(run)s had it, and says that it is done with it."),
    InputState.UNKNOWN: _("Run %(run)s had it, and ended before it said that it was done with it."),
    InputState.WITHDRAWN: _("No agent gets it any more."),
}
HAD_BEFORE = _("Run %(run)s had it before, and did not say that it was done with it.")
PERHAPS_TWICE = _("Sent again, it may be acted on twice.")
BY_WHOM = {
    Became.RELEASED: _("Released by %(who)s."),
    Became.WITHDRAWN: _("Withdrawn by %(who)s."),
}

# What the answer to a press says. It stays on the page, so it says nothing of what is to come: the list does.
ADDED = _("What you typed was kept.")
RELEASED = _("It was released.")
WITHDRAWN = _("It was withdrawn.")
NOT_RELEASED = _("It was not held any more: nothing was changed.")
NOT_WITHDRAWN = _("An agent has it already, or it was withdrawn: nothing was changed.")
EMPTY = _("Nothing was typed, so nothing was kept.")
TOO_LONG = _("That is too long: at most %(longest)s characters are kept. Nothing was kept.")


@dataclass(frozen=True, slots=True)
class InputReading:
    """What a person reads about one input."""

    name: str
    tone: Tone
    evidence: str


def read_input(folded: FoldedInput, *, live: bool, last: Became | None = None, who: str = "") -> InputReading:
    """In the active language. `live`: a run is; `last`: its last fact, and `who` made it, where that was a person."""
    parts = [_evidence(folded, live), _before(folded)]
    if last in BY_WHOM and who:
        parts.append(gettext(BY_WHOM[last]) % {"who": who})
    text = " ".join(part for part in parts if part)
    return InputReading(gettext(NAMES[folded.state, folded.sent]), TONES[folded.state], text)


def _evidence(folded: FoldedInput, live: bool) -> str:
    if folded.state is InputState.WAITING:
        return gettext(FOR_THE_LIVE_RUN if live else FOR_THE_NEXT_RUN)
    return gettext(EVIDENCE[folded.state]) % {"run": folded.run}


def _before(folded: FoldedInput) -> str:
    """What is known of an earlier run that had it, where it may be, or was not, sent again."""
    if folded.sent is not Sent.UNKNOWN or folded.state is InputState.TAKEN:
        return ""
    parts = [] if folded.state is InputState.UNKNOWN else [gettext(HAD_BEFORE) % {"run": folded.run}]
    if folded.state is not InputState.WITHDRAWN:
        parts.append(gettext(PERHAPS_TWICE))
    return " ".join(parts)
