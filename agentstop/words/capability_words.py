"""What a provider's capability record says, as sentences for people: the same on pages, in the admin and the docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_noop as _

from agentstop.providers.base import Cancel, Capability, Disconnect, LookUp, Stage, SubmitIdempotency
from agentstop.words import sentences

SENDING_AGAIN = _("Sending it again")
ASKING = _("Asking what became of it")
CANCELLING = _("Cancelling it")
LOST_CONNECTION = _("When the connection is lost")
UNDOING = _("Undoing it")

KEY_HONOURED = _("Sent again with the same key within %(life)s, it is done only once.")
KEY_NOT_RELIED_ON = _("It takes a key, but does not say for how long: sending it again might do it twice.")
NAMES_ITSELF = _("The request names what it makes: sent again, it makes nothing more.")

ASKED = {
    LookUp.BY_KEY: _("It can be asked by the key that was sent along."),
    LookUp.BY_CLIENT_REF: _("It can be asked by a name that was sent along."),
    LookUp.BY_REF: _("It can be asked by its own reference, once that is known."),
    LookUp.SEARCH: _("It can only be searched for what was sent along."),
    LookUp.NONE: sentences.CANNOT_BE_ASKED,
}
ABSENCE_PROVES = _("When it finds nothing, nothing was done.")
ABSENCE_AFTER_ALL = _("When it knows that reference no more, nobody knows what became of it.")
ABSENCE_PROVES_LATER = _("When it finds nothing later than %(lag)s after sending, nothing was done.")
LAG = _("It may take %(lag)s until it finds what it has accepted.")

NEVER_CANCELS = _("It cannot cancel: once sent, it goes on even if the task is stopped.")
STAGES = {
    Stage.UNANSWERED: _("It can be asked to cancel as soon as it was sent."),
    Stage.ACCEPTED: _("It can be asked to cancel once it has answered with its reference, and before it has started."),
    Stage.STARTED: _("It can be asked to cancel while it works, and does what it can."),
}
NOT_ONCE_STARTED = _("Once it has started, it does not cancel any more.")
ACK_PROVES = _("When it acknowledges the cancel, nothing happens any more.")
ENDS_ANSWER = _("Once asked to cancel, it answers no more: whether it was done may then stay unknown.")

DISCONNECTS = {
    Disconnect.UNKNOWN: _("It is not said what it does then: it may go on or end."),
    Disconnect.GOES_ON: _("It goes on as if nothing had happened."),
    Disconnect.CANCELS: _("It takes that for a request to cancel, which does not prove that nothing happens."),
}

LOST_MAY_HAVE_CANCELLED = _(
    "This provider takes a lost connection for a request to cancel: it may have ended it or not."
)

EVERY_ACTION = _("Every action")
EVERY_OTHER_ACTION = _("Every other action")

NOT_UNDONE_HERE = _("It cannot be undone here.")


@dataclass(frozen=True, slots=True)
class Described:
    """What a record says about one subject."""

    subject: str
    text: str


def describe(capability: Capability) -> tuple[Described, ...]:
    """Everything that the record says, in the active language, in the order in which an operation meets it."""
    told = (
        (SENDING_AGAIN, _sending_again(capability)),
        (ASKING, _asking(capability)),
        (CANCELLING, _cancelling(capability)),
        (LOST_CONNECTION, iter([gettext(DISCONNECTS[capability.disconnect])])),
        (UNDOING, _undoing(capability)),
    )
    return tuple(Described(gettext(subject), " ".join(filter(None, parts))) for subject, parts in told)


def _sending_again(capability: Capability) -> Iterator[str]:
    if capability.submit is SubmitIdempotency.NATURAL:
        yield gettext(NAMES_ITSELF)
    elif capability.submit is SubmitIdempotency.NONE:
        yield gettext(sentences.MIGHT_BE_DONE_TWICE)
    elif capability.key_life:
        yield gettext(KEY_HONOURED) % {"life": lasting(capability.key_life)}
    else:
        yield gettext(KEY_NOT_RELIED_ON)


def _asking(capability: Capability) -> Iterator[str]:
    yield gettext(ASKED[capability.look_up])
    if capability.look_up is LookUp.NONE:
        return
    lag = {"lag": lasting(capability.settling)}
    if not capability.authoritative:
        yield gettext(sentences.ABSENCE_PROVES_NOTHING)
        yield gettext(LAG) % lag if capability.settling else ""
    elif capability.look_up is LookUp.BY_REF:  # it has been heard of, so it is not "never sent"
        yield gettext(ABSENCE_AFTER_ALL)
    else:
        yield gettext(ABSENCE_PROVES_LATER) % lag if capability.settling else gettext(ABSENCE_PROVES)


def _cancelling(capability: Capability) -> Iterator[str]:
    if not capability.cancellable:
        yield gettext(NEVER_CANCELS)
        return
    yield from (gettext(text) for stage, text in STAGES.items() if capability.cancellable_at(stage))
    if capability.cancel is Cancel.UNTIL_STARTED:
        yield gettext(NOT_ONCE_STARTED)
    yield gettext(ACK_PROVES if capability.ack_is_final else sentences.ACK_PROVES_NOTHING)
    yield gettext(ENDS_ANSWER) if capability.cancel_ends_answer else ""


def _undoing(capability: Capability) -> Iterator[str]:
    way = capability.compensation
    if way is None:
        yield gettext(NOT_UNDONE_HERE)
        return
    yield gettext(sentences.EXTENTS[way.extent])
    yield way.consequences or gettext(sentences.NO_CONSEQUENCES)


def lasting(time: timedelta) -> str:
    """A length of time in its largest whole unit."""
    seconds = time.total_seconds()
    units = (
        (86400, ngettext("%(count)s day", "%(count)s days", int(seconds // 86400))),
        (3600, ngettext("%(count)s hour", "%(count)s hours", int(seconds // 3600))),
        (60, ngettext("%(count)s minute", "%(count)s minutes", int(seconds // 60))),
    )
    for size, text in units:
        if seconds >= size and not seconds % size:
            return text % {"count": int(seconds // size)}
    return ngettext("%(count)s second", "%(count)s seconds", 1 if seconds == 1 else 2) % {"count": f"{seconds:g}"}
