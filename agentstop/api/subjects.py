"""Objects of the host's by name: `app.model:pk`."""

from __future__ import annotations

from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import QuerySet

from agentstop.api.problems import Problem
from agentstop.models import Task


def about(tasks: QuerySet[Task], subject: str) -> QuerySet[Task]:
    """Those of the tasks that are about it."""
    kind, pk = _parts(subject)
    return tasks.filter(subject_type=kind, subject_id=pk)


def found(subject: str) -> models.Model | None:
    """The object itself; None where no subject is named."""
    if not subject:
        return None
    kind, pk = _parts(subject)
    model = kind.model_class()
    try:
        row = model._default_manager.filter(pk=pk).first() if model is not None else None
    except (ValueError, ValidationError, OverflowError):
        row = None
    if row is None:
        raise Problem("invalid", f"subject: there is no {subject}.")
    return row


def _parts(subject: str) -> tuple[ContentType, str]:
    label, colon, pk = subject.partition(":")
    app, _, model = label.partition(".")
    kind = ContentType.objects.filter(app_label=app, model=model.lower()).first() if colon and pk else None
    if kind is None:
        raise Problem("invalid", "subject: name it as app.model:pk, as in tickets.ticket:17.")
    return kind, pk
