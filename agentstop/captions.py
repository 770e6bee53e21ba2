"""The words of timelines and lists, as tables to be translated; those about single operations are in `sentences`."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

from agentstop.states import RunState
from agentstop.story import Extent, Kind

# What each sign stands for, in a legend.
KINDS = {
    Kind.BEGUN: _("a run began"),
    Kind.RESUMED: _("resumed"),
    Kind.REFUSED: _("refused by the gate"),
    Kind.PASSED: _("passed the gate"),
    Kind.UNSENT: _("nothing left"),
    Kind.LOST: _("no usable answer"),
    Kind.ALIVE: _("accepted or running"),
    Kind.CANCEL_SENT: _("cancel request sent"),
    Kind.ACKNOWLEDGED: _("cancel acknowledged"),
    Kind.CANCEL_FAILED: _("cancel refused or not heard"),
    Kind.ABSENT: _("asked, and not there"),
    Kind.BY_HAND: _("settled by a person"),
    Kind.ANSWERED: _("answered"),
    Kind.SETTLED: _("settled"),
    Kind.PAUSED: _("paused"),
    Kind.STOPPED: _("stopped"),
    Kind.PRESSED: _("Stop pressed after its end"),
    Kind.ENDED: _("a run ended"),
    Extent.UNDER_WAY: _("under way, or may have been"),
    Extent.UNSURE: _("nobody knows"),
    Extent.DISPATCH: _("one of its operations passed"),
}

# What one fact says.
PASSED = _("It passed the gate: attempt %(number)s.")
SETTLED = _("Settled: %(outcome)s.")
CANCEL_SENT = _("A cancel request was sent, or may have been.")
HEARD = _("Something was heard about it.")
CANCEL_ANSWERS = {
    "cancelled": _("The provider acknowledged the cancel request; that alone confirms nothing."),
    "refused": _("The provider refused to cancel it."),
    "failed": _("The provider could not cancel it: an error there."),
    "lost": _("The cancel request got no usable answer."),
    "unsent": _("The cancel request did not leave: no connection was made."),
}

# What happened to a task. Keyed by the verb of a decision; `who` is a person, or what decided where none did.
DECISIONS = {
    "start": (Kind.BEGUN, _("Run %(run)s began."), _("Run %(run)s began, by %(who)s.")),
    "stop": (Kind.STOPPED, _("Stopped."), _("Stopped by %(who)s.")),
    "pause": (Kind.PAUSED, _("Paused."), _("Paused by %(who)s.")),
    "resume": (Kind.RESUMED, _("Resumed."), _("Resumed by %(who)s.")),
    "finish": (Kind.ENDED, _("Run %(run)s finished."), _("Run %(run)s finished.")),
    "fail": (Kind.ENDED, _("Run %(run)s ended with an error."), _("Run %(run)s ended with an error.")),
}
LATE_STOP = (
    Kind.PRESSED,
    _("Stop was pressed; it had ended before."),
    _("Stop was pressed by %(who)s; it had ended before."),
)
LATE_STOP_OF_FAMILY = (Kind.PRESSED, _("What it worked for is over."), _("What it worked for is over."))
BY_FAMILY = _("a task that it worked for")
REASON = _("%(sentence)s Reason: %(reason)s")

THE_TASK = _("The task")
UNDOES = _("undoes %(key)s")
RUN = _("run %(number)s")
RUNS = {
    RunState.LIVE: _("run %(number)s, live"),
    RunState.FINISHED: _("run %(number)s, finished"),
    RunState.FAILED: _("run %(number)s, failed"),
    RunState.STOPPED: _("run %(number)s, stopped"),
    RunState.SUPERSEDED: _("run %(number)s, superseded"),
}
A_PAUSE = _("paused")

# Lengths of time, by their two largest units.
UNITS = (
    (86_400_000, _("%(count)s d")),
    (3_600_000, _("%(count)s h")),
    (60_000, _("%(count)s min")),
    (1_000, _("%(count)s s")),
    (1, _("%(count)s ms")),
)

# What a list shows, by the word in its address.
FILTERS = {
    "": _("All"),
    "active": _("Running"),
    "paused": _("Paused"),
    "stopped": _("Stopped"),
    "finished": _("Finished"),
    "open": _("Something open"),
    "unknown": _("Unknown outcome"),
    "asking": _("Waiting for a person"),
    "silent": _("No sign of life"),
}

# Before many tasks are stopped.
GOING = ngettext_lazy(
    "%(count)d task will be stopped. Nothing new will be sent for it.",
    "%(count)d tasks will be stopped. Nothing new will be sent for them.",
    "count",
)
NONE_GOING = _("No task will be stopped.")
ASIDE = (
    ngettext_lazy("%(count)d task is stopped already.", "%(count)d tasks are stopped already.", "count"),
    ngettext_lazy("%(count)d task has finished already.", "%(count)d tasks have finished already.", "count"),
    ngettext_lazy(
        "%(count)d task you may not stop; the try will be recorded.",
        "%(count)d tasks you may not stop; the try will be recorded.",
        "count",
    ),
)
STILL_OPEN = ngettext_lazy(
    "%(count)d operation is open: it has left and may still have its effect. Where its provider can, it is asked to "
    "cancel.",
    "%(count)d operations are open: they have left and may still have their effect. Where their providers can, they "
    "are asked to cancel.",
    "count",
)
NONE_OPEN = _("No operation is open.")

# What each of them answered: by `why` of a StopReport, and how many went which way, failures first.
STOPS = {
    "": _("Stopped. Nothing new will be sent."),
    "already_stopped": _("It was stopped before; this press is noted."),
    "finished": _("It had finished before; there was nothing to stop. Only a person begins it again."),
    "newer_run": _("Not stopped: a newer run has begun since you looked. Look again before you stop it."),
}
FINISHED_OPEN = _("It had finished before; what is under way is to be cancelled where its provider can.")
NO_SUCH_TASK = _("There is no task %(task)s for you. Nothing was stopped.")
NOT_ALLOWED = _("Not stopped: you may see this task, and not stop it. Ask its owner or an operator.")
STOP_FAILED = _("Not stopped: %(error)s. Try it again; the details are in the log.")
HAVE_LEFT = ngettext_lazy(
    "%(count)d operation has left and may still have its effect.",
    "%(count)d operations have left and may still have their effect.",
    "count",
)
NEVER_SENT = ngettext_lazy(
    "%(count)d was listed and will not be sent.", "%(count)d were listed and will not be sent.", "count"
)
ANSWERED = {
    "error": ngettext_lazy("%(count)d task not stopped", "%(count)d tasks not stopped", "count"),
    "success": ngettext_lazy("%(count)d task stopped", "%(count)d tasks stopped", "count"),
    "info": ngettext_lazy("%(count)d had nothing to stop", "%(count)d had nothing to stop", "count"),
}
MORE_CHILDREN = ngettext_lazy("%(number)s more task works for it.", "%(number)s more tasks work for it.", "number")
