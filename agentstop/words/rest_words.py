"""The words about operations that a panel counts and does not list: a task may have thousands."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

from agentstop.words.sentences import Label

NOT_LISTED = ngettext_lazy(
    "%(count)d older operation is counted here and not listed:",
    "%(count)d older operations are counted here and not listed:",
    "count",
)
OPEN_NOT_LISTED = ngettext_lazy(
    "%(count)d more that may still have its effect is counted here and not listed:",
    "%(count)d more that may still have their effect are counted here and not listed:",
    "count",
)

# What a page of operations shows, by the word in its address: those that read like this.
SHOWN: dict[str, tuple[str, tuple[Label, ...]]] = {
    "": (_("All"), tuple(Label)),
    "active": (_("Under way"), (Label.STILL_ACTIVE, Label.IN_PROGRESS)),
    "unknown": (_("Unknown outcome"), (Label.UNKNOWN,)),
    "completed": (_("Completed"), (Label.COMPLETED_BEFORE, Label.COMPLETED)),
    "failed": (_("Failed"), (Label.FAILED,)),
    "cancelled": (_("Cancelled"), (Label.CANCELLED,)),
    "unsent": (_("Not sent"), (Label.NOT_SENT, Label.WAITING)),
}


def shown_as(label: Label) -> str:
    """The word in an address for operations that read like this."""
    return next(word for word, (_name, labels) in SHOWN.items() if word and label in labels)
