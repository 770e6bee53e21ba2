"""What an operator reads before operations are checked, settled or undone, and then of each. To be translated."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

QUESTIONS = {
    "check": _("Ask their providers now?"),
    "settle": _("What became of them?"),
    "undo": _("Undo these?"),
}
BUTTONS = {"check": _("Ask now"), "settle": _("Settle"), "undo": _("Undo")}

# How many it can be done to, and why not to the others.
CAN: dict[str, Any] = {
    "check": ngettext_lazy(
        "The provider of %(count)d operation is asked what became of it. That has no effect there.",
        "The providers of %(count)d operations are asked what became of them. That has no effect there.",
        "count",
    ),
    "settle": ngettext_lazy(
        "%(count)d operation is settled by your word.", "%(count)d operations are settled by your word.", "count"
    ),
    "undo": ngettext_lazy(
        "%(count)d operation is undone, by another operation at its provider.",
        "%(count)d operations are undone, each by another operation at its provider.",
        "count",
    ),
}
CANNOT: dict[str, Any] = {
    "check": ngettext_lazy(
        "%(count)d cannot be asked about: nothing was sent, or its provider has no way to.",
        "%(count)d cannot be asked about: nothing was sent, or their providers have no way to.",
        "count",
    ),
    "settle": ngettext_lazy(
        "%(count)d is settled by evidence, or on its way: your word would add nothing.",
        "%(count)d are settled by evidence, or on their way: your word would add nothing.",
        "count",
    ),
    "undo": ngettext_lazy(
        "%(count)d cannot be undone: it is not known to have been done, was undone, or its provider names no way.",
        "%(count)d cannot be undone: they are not known to have been done, were undone, or no provider names a way.",
        "count",
    ),
}
MAY_NOT: dict[str, Any] = {
    "settle": ngettext_lazy("%(count)d you may not settle.", "%(count)d you may not settle.", "count"),
    "undo": ngettext_lazy("%(count)d you may not undo.", "%(count)d you may not undo.", "count"),
}
NOTHING_TO_DO = _("None of them: nothing would happen.")
UNDOES = ngettext_lazy("%(count)d of %(action)s at %(connector)s", "%(count)d of %(action)s at %(connector)s", "count")
HELD = _("It is held now, and would not be sent: %(what)s")

# The form by which they are settled.
OUTCOME = _("Outcome")
EVIDENCE = _("On what evidence")
SAME_FOR_ALL = _("The same for all that have no word of their own below.")
NO_OUTCOME = _("Nothing is said of it")
SAY_SOMETHING = _("Say what became of them, and on what evidence: here for all, or below for each.")

# What each of them answered.
ASKED = _("The provider was asked; what it said is among the receipts.")
NO_ANSWER = _("The provider was asked, and gave no usable answer.")
STILL_ASKED = _("The provider is being asked; its answer is kept when it comes.")
CANNOT_BE_ASKED = _("Its provider cannot be asked about it. Nothing was sent.")
SETTLED = _("Settled; your word is kept among its receipts.")
SENT_AGAIN = _("Not settled: it was sent again since you looked. Look again first.")
UNSAID = _("Nothing was said of it, and nothing was changed.")
NOT_REACHED = _("Its turn did not come: providers take long to answer. Nothing was done; ask again for it.")
NO_SUCH_OPERATION = _("There is no operation %(operation)s for you. Nothing was done.")
NOT_ALLOWED = _("Not done: you may see it, and not do this. Ask its owner or an operator.")
FAILED = _("Not done: %(error)s. Try it again; the details are in the log.")

# How many went which way, failures first.
ANSWERED: dict[str, Any] = {
    "error": ngettext_lazy("%(count)d failed", "%(count)d failed", "count"),
    "success": ngettext_lazy("%(count)d done", "%(count)d done", "count"),
    "info": ngettext_lazy("%(count)d unchanged or under way", "%(count)d unchanged or under way", "count"),
}
