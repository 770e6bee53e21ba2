"""What is read about the facts of one operation: what was sent, who said what, and whose result it is. Pure."""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from agentstop.states import OPEN_STATES, OperationState, Source, Verb
from agentstop.words import sentences

SOURCES = {
    Source.READ_BACK: _("the provider, when it was asked"),
    Source.PROVIDER: _("the provider"),
    Source.PERSON: _("a person"),
    Source.INTERMEDIARY: _("an intermediary, not the provider itself"),
    Source.ACK: _("the answer to a cancel request"),
    Source.SENDER: _("the process that sent it"),
}
PASSED = {
    Verb.SUBMIT: _("Attempt %(number)s was released to be sent, for run %(run)s."),
    Verb.CANCEL: _("Cancel request %(number)s was sent, or may have been."),
}
ERASED = _("(erased)")  # in place of what somebody had said
CANCEL_ASKED = _("It was decided to cancel it.")

# What became of the request of one run for its result.
FAILED_CALL = _("Run %(run)s got no usable result.")
NOT_YET_KEPT_OUT = _("Run %(run)s is over: if a result comes, it is kept out of it.")
NOBODYS = _("No run has taken its result in.")


def read_admission(state: OperationState, taken_by: int | None, kept_from: int | None, *, live: bool) -> str:
    """Whose context holds the result, or why none does; empty while nothing can be said. `live`: a run of the task is.

    `taken_by`: the last run that took it in; `kept_from`: the last one that asked for it and was over.
    """
    if taken_by is not None:
        return gettext(sentences.TAKEN_IN) % {"run": taken_by}
    if state is OperationState.SUCCEEDED:
        if kept_from is not None:
            return gettext(sentences.KEPT_OUT) % {"run": kept_from}
        return "" if live else gettext(NOBODYS)
    if kept_from is not None and state in OPEN_STATES:
        return gettext(NOT_YET_KEPT_OUT) % {"run": kept_from}
    return ""
