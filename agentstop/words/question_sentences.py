"""Every sentence that a person reads about questions, as tables to be translated. Times stand beside them."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

from agentstop.folds.question_states import QuestionState
from agentstop.states import RunState
from agentstop.words.sentences import Tone

TONES = {
    QuestionState.PENDING: Tone.NOTICE,
    QuestionState.ANSWERED: Tone.BUSY,
    QuestionState.APPLIED: Tone.GOOD,
    QuestionState.DECLINED: Tone.GOOD,
    QuestionState.CLOSED: Tone.QUIET,
    QuestionState.EXPIRED: Tone.QUIET,
}

# What became of it. Of an answer and a decline, the name and the moment stand beside them.
STATES = {
    QuestionState.PENDING: _("It waits for an answer."),
    QuestionState.ANSWERED: _("The agent has not taken the answer yet."),
    QuestionState.APPLIED: _("The agent has taken the answer."),
    QuestionState.DECLINED: _("The agent is told no."),
    QuestionState.EXPIRED: _("Nobody answered in time; an answer is no longer taken."),
}
_ENDED = _("Closed: its agent ended before it had taken an answer.")
CLOSED = {
    RunState.STOPPED: _("Closed: the task was stopped before the agent had taken an answer."),
    RunState.SUPERSEDED: _("Closed: a newer run has begun before an answer was taken."),
    RunState.FINISHED: _ENDED,
    RunState.FAILED: _ENDED,
}

# What a press did: a decline, an answer, or, by `why` of a NotOpen, nothing.
APPROVED = _("It was approved. Whether the agent has taken that stands beside the question.")
SAVED = _("Your answer was saved. Whether the agent has taken it stands beside the question.")
DECLINED = _("It was declined: the agent is told no.")
NOT_TAKEN = {
    "stopped": _("The task was stopped before that: your answer was not taken."),
    "superseded": _("A newer run has begun before that: your answer was not taken."),
    "finished": _("The agent had ended before that: your answer was not taken."),
    "expired": _("That was too late: your answer was not taken."),
    "answered": _("It was answered already, by %(who)s: your answer changed nothing."),
    "declined": _("It was declined already, by %(who)s: your answer changed nothing."),
}
NO_ANSWER = _("Write an answer, or choose one: nothing was saved.")

# For the task as a whole, and for its agent.
OPEN = ngettext_lazy("%(count)d question waits for an answer.", "%(count)d questions wait for an answer.", "count")
AGENT_WAITS = _("The agent is waiting for a person.")
AGENT_SILENT = _("The agent has asked a person, and has not been heard of since: it may come back for the answer.")
WAITS_FOR_APPROVAL = _("It waits until a person has approved it.")
