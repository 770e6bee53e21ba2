"""What a person reads about a freeze: its sentences, to be translated, and how they are put together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

# What is held: is a connector named, an action, an owner?
WHAT = {
    (False, False, False): _("all dispatch"),
    (True, False, False): _("dispatch to %(connector)s"),
    (False, True, False): _("dispatch of %(action)s"),
    (True, True, False): _("dispatch of %(action)s to %(connector)s"),
    (False, False, True): _("all dispatch for %(owner)s"),
    (True, False, True): _("dispatch to %(connector)s for %(owner)s"),
    (False, True, True): _("dispatch of %(action)s for %(owner)s"),
    (True, True, True): _("dispatch of %(action)s to %(connector)s for %(owner)s"),
}
HELD = _("Held: %(what)s.")
ABOUT_TO_BE_HELD = _("About to be held: %(what)s.")
NOT_YET = _("It is not in force everywhere yet: something may still be sent.")
NOBODY = _("nobody any more")  # the owner's account is gone

# What an operator reads of a row: a freeze, a lift of one, or a try that was denied.
IN_FORCE = _("in force")
BEING_PUT_IN_FORCE = _("being put in force")
LIFTED = _("lifted")
ENDED = _("ended")
DENIED = _("denied")
DONE = _("done")
NOTED = _("noted: it was over before")
LIFT = _("lift of: %(what)s")
LIFTED_NOW = _("It was lifted: what asks again is let pass, unless another freeze holds it.")
WAS_OVER = _("It was over before; that you lifted it is noted.")


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of a freeze that holds, or is about to."""

    id: int
    connector: str
    action: str
    owner: str | None  # the name; empty: an owner whose account is gone; None: whoever owns it
    by: str
    at: datetime
    in_force_at: datetime | None
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class HeldTold:
    """What a person reads about it; the times stand beside it."""

    id: int
    text: str
    by: str
    since: datetime
    until: datetime | None
    reason: str
    not_yet: str


def what(connector: str, action: str, owner: str | None) -> str:
    """What is held, in the active language."""
    text = WHAT[bool(connector), bool(action), owner is not None]
    return gettext(text) % {"connector": connector, "action": action, "owner": owner or gettext(NOBODY)}


def read(held: Held) -> HeldTold:
    """What a person reads about it, in the active language."""
    in_force = held.in_force_at is not None
    return HeldTold(
        id=held.id,
        text=gettext(HELD if in_force else ABOUT_TO_BE_HELD) % {"what": what(held.connector, held.action, held.owner)},
        by=held.by,
        since=held.in_force_at or held.at,
        until=held.until,
        reason=held.reason,
        not_yet="" if in_force else gettext(NOT_YET),
    )
