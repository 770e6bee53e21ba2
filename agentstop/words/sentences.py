"""Every label and sentence that a person reads about operations, tasks and agents, as tables to be translated.

Sentences hold no times: the datetimes stand beside them, so that a template shows them in the reader's zone.
"""

from __future__ import annotations

from enum import StrEnum

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

from agentstop.states import Cancellation, Claim, OperationState, RunState, Source, TaskState


class Label(StrEnum):
    """What an operation is called, in the order in which a task's line counts them."""

    STILL_ACTIVE = "still_active"
    CANCELLED = "cancelled"
    COMPLETED_BEFORE = "completed_before"
    UNKNOWN = "unknown"
    NOT_SENT = "not_sent"
    GIVEN_UP = "given_up"
    FAILED = "failed"
    WAITING = "waiting"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class Tone(StrEnum):
    """How loud a reading is; a style sheet may give each a colour, never as the only sign."""

    QUIET = "quiet"
    BUSY = "busy"
    GOOD = "good"
    NOTICE = "notice"  # it was stopped, and all the same goes on or is done
    UNSURE = "unsure"
    BAD = "bad"


TONES = {
    Label.STILL_ACTIVE: Tone.NOTICE,
    Label.CANCELLED: Tone.GOOD,
    Label.COMPLETED_BEFORE: Tone.NOTICE,
    Label.UNKNOWN: Tone.UNSURE,
    Label.NOT_SENT: Tone.QUIET,
    Label.GIVEN_UP: Tone.QUIET,
    Label.FAILED: Tone.BAD,
    Label.WAITING: Tone.QUIET,
    Label.IN_PROGRESS: Tone.BUSY,
    Label.COMPLETED: Tone.GOOD,
}

NAMES = {
    Label.STILL_ACTIVE: _("still active"),
    Label.CANCELLED: _("cancelled"),
    Label.COMPLETED_BEFORE: _("completed before cancellation"),
    Label.UNKNOWN: _("unknown outcome"),
    Label.NOT_SENT: _("not sent"),
    Label.GIVEN_UP: _("given up by its tool"),
    Label.FAILED: _("failed"),
    Label.WAITING: _("waiting"),
    Label.IN_PROGRESS: _("in progress"),
    Label.COMPLETED: _("completed"),
}
BEING_SENT = _("still active (being sent)")

COUNTS = {
    Label.STILL_ACTIVE: ngettext_lazy("%(count)d still active", "%(count)d still active", "count"),
    Label.CANCELLED: ngettext_lazy("%(count)d cancelled", "%(count)d cancelled", "count"),
    Label.COMPLETED_BEFORE: ngettext_lazy(
        "%(count)d completed before cancellation", "%(count)d completed before cancellation", "count"
    ),
    Label.UNKNOWN: ngettext_lazy("%(count)d unknown outcome", "%(count)d unknown outcomes", "count"),
    Label.NOT_SENT: ngettext_lazy("%(count)d not sent", "%(count)d not sent", "count"),
    Label.GIVEN_UP: ngettext_lazy("%(count)d given up by its tool", "%(count)d given up by their tools", "count"),
    Label.FAILED: ngettext_lazy("%(count)d failed", "%(count)d failed", "count"),
    Label.WAITING: ngettext_lazy("%(count)d waiting", "%(count)d waiting", "count"),
    Label.IN_PROGRESS: ngettext_lazy("%(count)d in progress", "%(count)d in progress", "count"),
    Label.COMPLETED: ngettext_lazy("%(count)d completed", "%(count)d completed", "count"),
}

TASKS = {
    TaskState.ACTIVE: _("Running."),
    TaskState.PAUSED: _("Paused. Nothing new will be sent until it is resumed."),
    TaskState.STOPPED: _("Stopped. Nothing new will be sent."),
    TaskState.FINISHED: _("Finished."),
}

SHUT = _("Stop was pressed after that: only a person begins it again, and no job that is delivered anew.")
SHUT_WITH_OTHERS = _("What it worked for is over: no job that is delivered anew begins it.")

TASK_NAMES = {
    TaskState.ACTIVE: _("running"),
    TaskState.PAUSED: _("paused"),
    TaskState.STOPPED: _("stopped"),
    TaskState.FINISHED: _("finished"),
}
UNDOING_COUNTED = _("undoing: %(counts)s")
PROGRESS = _("The provider last said that it was %(percent)s %% done.")
FAILED_OPERATIONS = _("Failed: %(operations)s.")

# How fast a stop took hold: the last dispatch beside the press, by the database's clock.
NEVER_DISPATCHED = _("Nothing had been dispatched before the press, and nothing was after it.")
DISPATCHED_BEFORE = _("The last dispatch was %(seconds)s s before the press; none came after it.")
DISPATCHED_AFTER = _("The last dispatch came %(seconds)s s after the press, while the stop was stored; none since.")

# What a press did, where the state alone does not say it: keyed by `why` of a StopReport.
PRESSES = {
    "": "",
    "already_stopped": _("It was stopped already, by %(who)s at %(at)s. This press changed nothing."),
    "finished": _("It had finished already: there was nothing left to stop. Only a person begins it again."),
    "newer_run": _("A newer run has begun since this page was drawn: nothing was stopped."),
}
SOMEBODY = _("the system")
ASKED_NOW = _("The provider was asked just now; what it said is shown.")
NOT_ASKED = _("The provider cannot be asked about this operation.")

# How far cancelling got. Confirmed is said by the evidence, which knows by whom.
CANCELLATIONS = {
    Cancellation.NONE: "",
    Cancellation.WAITING: _("Cancel requested; it waits for the provider's reference, which is not known yet."),
    Cancellation.REQUESTED: _("Cancel requested, not delivered yet."),
    Cancellation.SENT: _("A cancel request was sent, or may have been; the provider has not answered it."),
    Cancellation.ACKNOWLEDGED: _("Cancel acknowledged, not confirmed: the effect may still happen."),
    Cancellation.CONFIRMED: "",
    Cancellation.REFUSED: _("The provider refused to cancel it."),
    Cancellation.UNDELIVERABLE: _("The cancel request could not be delivered, and is no longer tried."),
    Cancellation.UNSUPPORTED: _("Cancelling it is not supported by this provider."),
    Cancellation.MOOT: "",
}

# What one receipt says.
_REPORTED_ALIVE = _("An intermediary says that it goes on; the provider itself has not said so.")
_ACKNOWLEDGED_ALIVE = _("The answer to the cancel request says that it goes on.")
RECEIPTS = {
    (Claim.SUCCEEDED, Source.READ_BACK): _("The provider was asked, and says that it was done."),
    (Claim.SUCCEEDED, Source.PROVIDER): _("The provider reported that it was done."),
    (Claim.SUCCEEDED, Source.PERSON): _("A person settled it as completed."),
    (Claim.SUCCEEDED, Source.INTERMEDIARY): _(
        "An intermediary reported it completed; the provider has not confirmed it."
    ),
    (Claim.FAILED, Source.READ_BACK): _("The provider was asked, and says that it failed."),
    (Claim.FAILED, Source.PROVIDER): _("The provider reported that it failed."),
    (Claim.FAILED, Source.PERSON): _("A person settled it as failed."),
    (Claim.FAILED, Source.INTERMEDIARY): _("An intermediary reported it failed; the provider has not confirmed it."),
    (Claim.CANCELLED, Source.READ_BACK): _("The provider was asked, and says that it was cancelled."),
    (Claim.CANCELLED, Source.PROVIDER): _("The provider reported that it was cancelled."),
    (Claim.CANCELLED, Source.PERSON): _("A person settled it as cancelled."),
    (Claim.CANCELLED, Source.INTERMEDIARY): _(
        "An intermediary reported it cancelled; the provider has not confirmed it."
    ),
    (Claim.REFUSED, Source.PROVIDER): _("The provider turned the request down."),
    (Claim.UNSENT, Source.SENDER): _("Nothing left: no connection was made, or the pass to send had ended."),
    (Claim.UNSENT, Source.PROVIDER): _("Nothing left: no connection was made, or the pass to send had ended."),
    (Claim.ENDED, Source.SENDER): _(
        "Its tool ended when the run was over, and declares that a try that ends so has no effect."
    ),
    (Claim.LOST, Source.SENDER): _("It was sent, or may have been; no usable answer came back."),
    (Claim.LOST, Source.PROVIDER): _("It was sent, or may have been; no usable answer came back."),
    (Claim.NOT_FOUND, Source.READ_BACK): _("The provider was asked afterwards, and has nothing of it."),
    (Claim.ACCEPTED, Source.READ_BACK): _("The provider was asked, and says that it has accepted it."),
    (Claim.ACCEPTED, Source.PROVIDER): _("The provider accepted it."),
    (Claim.RUNNING, Source.READ_BACK): _("The provider was asked, and says that it is running."),
    (Claim.RUNNING, Source.PROVIDER): _("The provider reported that it is running."),
    (Claim.PROGRESS, Source.READ_BACK): _("The provider was asked, and reported progress."),
    (Claim.PROGRESS, Source.PROVIDER): _("The provider reported progress."),
    (Claim.ACCEPTED, Source.INTERMEDIARY): _REPORTED_ALIVE,
    (Claim.RUNNING, Source.INTERMEDIARY): _REPORTED_ALIVE,
    (Claim.PROGRESS, Source.INTERMEDIARY): _REPORTED_ALIVE,
    (Claim.ACCEPTED, Source.ACK): _ACKNOWLEDGED_ALIVE,
    (Claim.RUNNING, Source.ACK): _ACKNOWLEDGED_ALIVE,
    (Claim.PROGRESS, Source.ACK): _ACKNOWLEDGED_ALIVE,
}

# What several of them, or their absence, say.
NOT_AT_THE_GATE = _("It was listed, and nothing was sent for it.")
NOT_HEARD_YET = _("It was released to be sent; no answer has come yet.")
SENDER_SILENT = _("Its sender did not report back in time: it may have been sent or not.")
CONTRADICTORY = _("The provider's own words about it exclude each other.")
FORGOTTEN = _("The provider was heard about it before; asked since, it has nothing of it.")
SIGN_TOO_OLD = _("The last sign of life is too long ago.")
DOUBLED = _("Different references came back for one key: it was perhaps done twice.")

# What is known about the moment of something completed before cancellation.
ANSWERED_BEFORE = _("That was answered before Stop was pressed.")
CLOCK_BEFORE = _("By the provider's own clock it was done before Stop was pressed.")
CLOCK_AFTER = _("By the provider's own clock it was done after Stop was pressed.")
MOMENT_UNKNOWN = _("Whether it was done before or after Stop was pressed cannot be told.")

# Why the gate refused, and what to do about it: keyed by `reason` of the exceptions.
REFUSALS = {
    "stopped": _("Refused before it was sent: the task was stopped."),
    "superseded": _("Refused before it was sent: a newer run of the task had begun."),
    "paused": _("Refused before it was sent: the task was paused."),
    "finished": _("Refused before it was sent: the task or its run had ended."),
    "frozen": _("Refused before it was sent: an operator holds it."),
    "outcome_unknown": _("Refused before it was sent: an earlier attempt may have had its effect."),
    "in_flight": _("Refused before it was sent: the same operation was being sent, cancelled or undone."),
    "declined": _("Refused before it was sent: a person has declined it."),
    "key_reused": _("Refused before it was sent: its key names an operation with other arguments."),
    "refused": _("Refused before it was sent."),
}
AFTER_REFUSAL = {
    "stopped": _("To have it sent, start the task again."),
    "superseded": _("The newer run can ask for it."),
    "paused": _("It can be asked for again once the task is resumed."),
    "finished": _("To have it sent, start the task again."),
    "frozen": _("It can be asked for again when nothing holds it."),
    "outcome_unknown": _("Find out first what the earlier attempt did."),
    "in_flight": _("It can be asked for again once that has ended."),
    "declined": _("A new run may ask for it again."),
    "key_reused": _("Give it a key of its own."),
    "refused": _("It can be asked for again."),
}

# What can be done next.
START_AGAIN = _("To have it sent, start the task again.")
ASK_AGAIN = _("It can be asked for again.")
WAITS_FOR_RESUME = _("It waits until the task is resumed.")
WAITS_FOR_GATE = _("Its agent has not asked to send it yet.")
STOP_WILL_CANCEL = _("If the task is stopped, the provider is asked to cancel it.")
ANSWER_IS_KEPT = _("Its answer is kept when it comes.")
LOOK_UP_DUE = _("The provider is to be asked what became of it.")
LOOK_YOURSELF = _("Look at the provider itself to see what became of it.")
SEE_ANSWER = _("See what the provider answered.")
UNDO = _("Stopping does not undo it; that takes another action.")
UNDO_THERE = _("Stopping does not undo it, and its provider names no way to: that can be done only there.")
NOTHING_LEFT_TO_DO = _("Nothing is left to do.")

# What undoing it came to, by the state of the last operation that undoes it.
_BEING_UNDONE = (_("It is being undone."), Tone.BUSY)
UNDOINGS = {
    OperationState.PREPARED: _BEING_UNDONE,
    OperationState.SENDING: _BEING_UNDONE,
    OperationState.ACCEPTED: _BEING_UNDONE,
    OperationState.UNKNOWN: (_("Whether it was undone is not known."), Tone.UNSURE),
    OperationState.SUCCEEDED: (_("It was undone."), Tone.GOOD),
    OperationState.FAILED: (_("Undoing it failed."), Tone.BAD),
    OperationState.CANCELLED: (_("Undoing it was cancelled."), Tone.BAD),
    OperationState.NOT_SENT: (_("Undoing it failed: nothing left."), Tone.BAD),
}
UNDONE_IN_PART = _("It was undone in part: something of it stays.")

# Before somebody undoes or settles it, and after. How much an undoing takes back is keyed by a provider's `extent`.
EXTENTS = {
    "full": _("By what this provider says, it takes back all of it."),
    "partial": _("It takes back only a part: something of it stays."),
}
NO_CONSEQUENCES = _("This provider does not say what the consequences are. Look there before you do it.")
STAYS_DONE = _("That it was done stays on record: undone is not the same as never done.")
UNDOING_BEGAN = _("Undoing it has begun; what it comes to is shown beside it.")
NOT_UNDONE = {
    "in_flight": _("It was undone already, or is being undone: nothing more was sent."),
    "frozen": _("What would undo it is held by an operator: nothing was sent. Try again when it is lifted."),
    "cannot_compensate": _("It cannot be undone: it is not known to have been done, or its provider names no way."),
}
ASK_FIRST = _("Its provider can be asked what became of it: do that first.")
WORD_OF_A_PERSON = _("Your word decides until the provider itself says something else; that is then shown beside it.")
SETTLED_NOW = _("It was settled; who did so and why is shown beside it.")
NOT_SETTLED = _("It is settled by evidence, or on its way: nothing was changed.")
WHICH_OUTCOME = _("Choose what became of it.")
WHICH_EVIDENCE = _("Say on what evidence it is settled: others will read that beside it.")

# Who settled it, as what, and what the provider has said since that differs.
A_PERSON = _("a person")
OUTCOMES = {
    Claim.SUCCEEDED: NAMES[Label.COMPLETED],
    Claim.FAILED: NAMES[Label.FAILED],
    Claim.CANCELLED: NAMES[Label.CANCELLED],
}
_GOES_ON = _("The provider has said since that it goes on.")
SAID_SINCE = {
    Claim.SUCCEEDED: _("The provider has said since that it was done."),
    Claim.FAILED: _("The provider has said since that it failed."),
    Claim.CANCELLED: _("The provider has said since that it was cancelled."),
    Claim.REFUSED: _("The provider has said since that it turned the request down."),
    Claim.NOT_FOUND: _("The provider was asked since, and has nothing of it."),
    Claim.ACCEPTED: _GOES_ON,
    Claim.RUNNING: _GOES_ON,
    Claim.PROGRESS: _GOES_ON,
}

# What this provider cannot do.
GOES_ON_AFTER_STOP = _("This provider cannot cancel it: once sent, it goes on even if the task is stopped.")
END_IT_THERE = _("It can be ended only at the provider itself.")
CANCELS_UNTIL_STARTED = _("This provider cancels only what it has not started.")
ACK_PROVES_NOTHING = _("At this provider an acknowledged cancel does not prove that nothing happens.")
CANNOT_BE_ASKED = _("This provider cannot be asked what became of it.")
ASKED_BY_REF_ONLY = _("This provider can be asked only by its reference, which is not known.")
ABSENCE_PROVES_NOTHING = _("When this provider finds nothing, that does not prove that nothing was done.")
MIGHT_BE_DONE_TWICE = _("Sending it again might do it twice.")

# Whose result it is.
KEPT_OUT = _("The result was kept out of run %(run)s, which asked for it.")
TAKEN_IN = _("Run %(run)s has taken its result in.")

# The agent's own process.
NO_AGENT = _("No agent has started.")
AGENT_RUNNING = _("The agent is running.")
AGENT_SILENT = _("The run is live, and nothing was heard of its agent for a while.")
AGENT_HALTED = _("The agent has halted.")
AGENT_STILL_RUNNING = _("The agent is still running; it can send nothing new.")
AGENT_NOT_HEARD_OF = _("The agent has not been heard of since the stop.")
AGENT_ENDED = {
    RunState.FINISHED: (_("The agent has finished."), Tone.GOOD),
    RunState.FAILED: (_("The agent ended with an error."), Tone.BAD),
    RunState.SUPERSEDED: (_("A newer run has taken over."), Tone.QUIET),
}

NO_OPERATIONS = _("No operations.")
