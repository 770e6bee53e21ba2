"""Mail to those who had left when the outcome of something that they stopped, or own, was settled.

It says what became of each operation, and nothing of what was asked for, sent or answered: that stands on the page.
"""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import send_mail
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
from django.utils.translation import ngettext

from agentstop.accounts import selection
from agentstop.exceptions import TaskNotFound
from agentstop.models import Task
from agentstop.reports import report
from agentstop.signals import unknowns_settled

logger = logging.getLogger(__name__)

NAMED = 20  # operations in one mail
LONGEST = 60  # characters of a title in a subject


def switch_on() -> None:
    unknowns_settled.connect(send, sender=Task, dispatch_uid="website.notices")


def send(sender: object, *, task: int, operations: tuple[int, ...], people: tuple[Any, ...], **_: Any) -> None:
    """One mail to each of them who has an address; one that cannot be sent keeps back no other."""
    for user in get_user_model()._default_manager.filter(pk__in=people, is_active=True).exclude(email=""):
        try:
            with translation.override(settings.LANGUAGE_CODE):
                subject, text = compose(task, operations, user)
            send_mail(subject, text, None, [user.email])
        except TaskNotFound:
            continue  # they may not see it any more
        except Exception:
            logger.exception("a mail could not be sent", extra={"action": "mail_failed", "task": task})


def compose(task: int, operations: tuple[int, ...], user: Any) -> tuple[str, str]:
    """Subject and text, in the active language."""
    told, _ = report.load(task, user, selection.only(operations[:NAMED]))
    became = [each for each in told.operations if each.id in operations]
    named = {"count": len(operations), "title": _line(told.title)}
    subject = ngettext(
        "%(count)d unknown outcome was settled: %(title)s", "%(count)d unknown outcomes were settled: %(title)s",
        len(operations),
    ) % named  # fmt: skip
    context = {
        "told": told,
        "title": _line(told.title),
        "became": became,
        "more": len(operations) - len(became),
        "stopped_by_you": told.stop is not None and Task.objects.filter(pk=task, stopped_by=user).exists(),
        "address": _address(task),
    }
    return subject, render_to_string("mail/settled.txt", context).strip() + "\n"


def _address(task: int) -> str:
    """The task's page; empty where this site does not know its own name."""
    site: str = getattr(settings, "SITE_ADDRESS", "")
    return site + reverse("task", args=[task]) if site else ""


def _line(title: str) -> str:
    """In one line and not long: subjects have no others."""
    text = " ".join(title.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
