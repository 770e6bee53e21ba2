"""Jobs of `django.tasks` that work for a run: `@gated_task`, on any backend, of Django 6 or of the backport."""

from agentstop.integrations.django_tasks.refusal import Refusal, refusal_of
from agentstop.integrations.django_tasks.task import GatedTask, gated_task

__all__ = ["GatedTask", "Refusal", "gated_task", "refusal_of"]
