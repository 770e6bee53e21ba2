"""What to look for on a page, in the words that the product itself uses."""

from __future__ import annotations

from collections.abc import Callable

from agentstop.states import Cancellation
from agentstop.words import sentences
from agentstop.words.sentences import Label
from website.demo.promises.panel import Seen

Sign = Callable[[Seen], bool]

NAMES = sentences.NAMES
ACTIVE = frozenset({NAMES[Label.STILL_ACTIVE], sentences.BEING_SENT})


def halted(seen: Seen) -> bool:
    """The agent's own process has said so."""
    return seen.agent.startswith(sentences.AGENT_HALTED)


def working(seen: Seen) -> bool:
    """The agent is at work."""
    return seen.state == "active" and seen.agent.startswith(sentences.AGENT_RUNNING)


def finished(seen: Seen) -> bool:
    """The agent reached its end."""
    return seen.state == "finished"


def labelled(step: str, label: Label) -> Sign:
    """The step's last operation has this label."""
    return lambda seen: seen.label(step) in (ACTIVE if label is Label.STILL_ACTIVE else {NAMES[label]})


def cancellation(step: str, word: Cancellation) -> Sign:
    """The step tells this of its cancel request."""
    return lambda seen: sentences.CANCELLATIONS[word] in seen.told(step)
