"""Signals for the host's own code: what has happened, in the past tense, sent once and only when it is committed.

Receivers run in the thread that has committed, before its function returns: hand on to a queue what takes long. One
that raises is logged, and keeps neither the others nor agentstop from going on. In a receiver the whole of agentstop
may be called. A process that dies between the commit and the signal has sent none: what must not be missed is read
from the decisions.

    from django.dispatch import receiver
    from agentstop.signals import operation_settled

    @receiver(operation_settled)
    def tell_the_owner(sender, *, task, operation, before, after, stopped_at, **kwargs): ...

Take `**kwargs`, as for all signals of Django: arguments may be added.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger(__name__)

run_begun = Signal()
"""A run is live. Sender: `models.Run`.

`task`, `run`: ids; `by`: the user who has begun it, or None; `superseded`: the number of the run that it took over
from, or None; `at`: when.
"""

run_ended = Signal()
"""The agent has said that its run has ended. Sender: `models.Run`. A run that was stopped or superseded ends without.

`task`, `run`: ids; `state`: "finished" or "failed"; `error`: the agent's own words where it failed; `at`: when.
"""

tasks_stopped = Signal()
"""Tasks were stopped in one commit. Sender: `models.Task`.

`tasks`: their ids, the pressed one first where it was running; the others worked for it alone. `decision`: the id of
the decision that stopped them: a press, or the start of a run that left children behind; `task`: the task that this was
about; `by`: the user or None, `policy`: what decided where no user did; `reason`; `at`: when.
"""

tasks_paused = Signal()
"""Tasks were held in one commit. Sender: `models.Task`. Arguments as those of `tasks_stopped`."""

tasks_resumed = Signal()
"""Tasks go on, since nothing holds them any more. Sender: `models.Task`. Arguments as those of `tasks_stopped`."""

operation_settled = Signal()
"""An operation that had left was settled, or is known to have ended otherwise than was thought. Sender:
`models.Operation`.

`task`, `operation`: ids; `before`, `after`: states; `stopped_at`: since when the task is stopped, or None. So an
unknown that was settled after a stop is `before == "unknown" and stopped_at`. `after` is "unknown" where what was
settled is contradicted. `at`: when.
"""

unknowns_settled = Signal()
"""Unknown outcomes of a task that is over were settled, and somebody whom it concerns was not looking: tell them.
Sender: `models.Task`. Sent by the worker, once for a task and a burst of settlements, twenty seconds after the last one
(five minutes after the first at the latest).

`task`: its id; `operations`: the ids of those that were settled; `people`: the ids of who stopped the task and of its
owner, without those who had a live page of it open when it was settled; `at`: when the last was.
"""

question_asked = Signal()
"""A run waits for a person: tell them. Sender: `models.Question`.

`task`, `run`, `question`: ids; `kind`: "approve" or "answer"; `text`; `until`: when it expires, or None; `at`: when.
"""

question_answered = Signal()
"""The answer or decline that counts was saved. Sender: `models.Question`.

`task`, `run`, `question`: ids; `declined`: whether it was; `by`: the user; `at`: when. What they said is in the
decision.
"""

decision_denied = Signal()
"""A user has tried what they may not. Sender: `models.Decision`; `models.Freeze` where it was to freeze or to unfreeze.

`task`: its id, None of a freeze; `verb`: what was tried; `by`: the user, or None where nobody was logged in; `reason`:
what they gave as theirs; `at`: when.
"""


def tell(signal: Signal, sender: type, **facts: Any) -> None:
    """Send it now. Whatever a receiver raises goes to the log, its traceback to that of Django's dispatcher."""
    for receiver, answer in signal.send_robust(sender, **facts):
        if isinstance(answer, Exception):
            name = getattr(receiver, "__qualname__", repr(receiver))
            logger.error("the receiver %s of a signal failed: %r", name, answer, extra={"action": "receiver_failed"})
