"""What a person reads about service tokens."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

SCOPES = {
    "read": _("read: see tasks, operations and questions"),
    "create": _("create: create tasks"),
    "control": _("control: stop, pause, resume, look up, type for the agent"),
    "freeze": _("freeze: hold dispatch for everybody, and lift what holds it"),
    "run": _("run: be the agent, with gate, receipts and questions to people"),
}
REVOKED = _("It was revoked: it lets nobody in any more.")
