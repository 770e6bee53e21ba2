"""What a person reads about a task's family and about pausing, resuming and beginning it again, as tables."""

from __future__ import annotations

from enum import StrEnum

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

from agentstop.states import TaskState


class Why(StrEnum):
    """Why a child goes on, or does not."""

    QUEUED = "queued"
    WORKS = "works"
    DETACHED = "detached"
    ON_ITS_OWN = "on_its_own"
    HELD = "held"
    LEFT = "left"
    PAUSED = "paused"
    STOPPED_WITH = "stopped_with"
    LEFT_BEHIND = "left_behind"
    PRESSED = "pressed"
    STOPPED_ELSEWHERE = "stopped_elsewhere"
    BORN_STOPPED = "born_stopped"
    FINISHED = "finished"
    FAILED = "failed"


WHY = {
    Why.QUEUED: _("Its agent has not started."),
    Why.WORKS: _("It works for the run that is live."),
    Why.DETACHED: _("It goes on by itself: it is detached, and has a Stop of its own."),
    Why.ON_ITS_OWN: _("It goes on by itself: a person began it anew, and it has a Stop of its own."),
    Why.HELD: _("It goes on, since another task needs it."),
    Why.LEFT: _("It goes on: the run that it worked for has ended by itself."),
    Why.PAUSED: _("It is paused: nothing is sent until it is resumed."),
    Why.STOPPED_WITH: _("It was stopped with this task."),
    Why.LEFT_BEHIND: _("It worked for a run that a newer one has taken over from, and was stopped with it."),
    Why.PRESSED: _("It was stopped by itself."),
    Why.STOPPED_ELSEWHERE: _("It was stopped with another task that it worked for."),
    Why.BORN_STOPPED: _("It was born stopped: the run that it would work for was over."),
    Why.FINISHED: _("It has finished."),
    Why.FAILED: _("Its agent ended with an error."),
}

CHILDREN = {
    TaskState.ACTIVE: ngettext_lazy("%(count)d running", "%(count)d running", "count"),
    TaskState.PAUSED: ngettext_lazy("%(count)d paused", "%(count)d paused", "count"),
    TaskState.STOPPED: ngettext_lazy("%(count)d stopped", "%(count)d stopped", "count"),
    TaskState.FINISHED: ngettext_lazy("%(count)d finished", "%(count)d finished", "count"),
}
LIVE_RUN = _("It works for run %(run)s, which is live.")
OVER_RUN = _("It worked for run %(run)s, which is over.")
STOPPED_WITH_IT = ngettext_lazy(
    "%(count)d task that worked for it was stopped with it.",
    "%(count)d tasks that worked for it were stopped with it.",
    "count",
)
OPEN = ngettext_lazy("%(number)s operation open", "%(number)s operations open", "number")
OPEN_BELOW = ngettext_lazy(
    "%(count)d operation of tasks below it has left and may still have its effect.",
    "%(count)d operations of tasks below it have left and may still have their effect.",
    "count",
)

# What the answer to a Stop says of the tasks below it that go on: keyed by `why` of a GoesOn.
GOES_ON = {
    "detached": ngettext_lazy(
        "%(count)d task below it goes on: it is detached, and has a Stop of its own.",
        "%(count)d tasks below it go on: they are detached, and have a Stop of their own.",
        "count",
    ),
    "on_its_own": ngettext_lazy(
        "%(count)d task below it goes on: a person began it anew, and it has a Stop of its own.",
        "%(count)d tasks below it go on: persons began them anew, and they have a Stop of their own.",
        "count",
    ),
    "held": ngettext_lazy(
        "%(count)d task below it goes on, since another task needs it.",
        "%(count)d tasks below it go on, since other tasks need them.",
        "count",
    ),
    "left": ngettext_lazy(
        "%(count)d task below it goes on: the run that it worked for has ended by itself.",
        "%(count)d tasks below it go on: the runs that they worked for have ended by themselves.",
        "count",
    ),
}

MORE_GO_ON = _("There are more that go on.")
HAD_FINISHED = _("It had finished already. Only a person begins it again.")

# Why a button does nothing now.
IS_STOPPED = _("it is stopped.")
HAS_FINISHED = _("it has finished.")
ASKED_TO_CANCEL = _("it has finished, and what is under way was asked to cancel.")
STARTED_ELSEWHERE = _("its agent is not started from here.")
IS_PAUSED = _("it is paused already.")
NOT_PAUSED = _("it is not paused.")
HELD_BY_OTHERS = _("tasks that it works for are paused, and it goes on with them.")
RESUME_FIRST = _("it is paused. Resume it first.")

# What the answer to a press says where the state alone does not. It names no state: the page does.
PAUSED_NOW = _("Pause was pressed: what had left goes on, nothing new is sent.")
NOT_PAUSED_NOW = _("It was paused already, or is over: nothing was changed.")
RESUMED_NOW = _("Resume was pressed.")
STILL_HELD = _("Resume was pressed. A task that it works for is paused too: it goes on with that one.")
NOT_RESUMED_NOW = _("It was not paused by itself: nothing was changed.")
BEGUN_NOW = _("A new run has begun.")
NEWER_BEGUN = _("A newer run has begun since this page was drawn: no other was begun.")
NOT_BEGUN_PAUSED = _("It is paused: resume it before a new run is begun.")
NOT_STARTED = _("A new run has begun, and its agent could not be started: the run has failed.")
NO_RUNNER = _("This site does not say how agents are started: no run was begun.")
