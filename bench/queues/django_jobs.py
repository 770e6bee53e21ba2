"""The jobs of the bench of Django's tasks, and the database backend's own worker for one of them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import django
from django_tasks_db.management.commands.db_worker import Worker

from agentstop.integrations.django_tasks import gated_task

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def alone(number: str) -> str:
    return number


@gated_task(connector="tools", key="job:{number}")
def gated(number: str) -> str:
    return number


def worker() -> Worker:
    return Worker(
        queue_names=["*"],
        interval=1.0,
        batch=True,
        backend_name="default",
        startup_delay=False,
        max_tasks=1,
        worker_id=uuid.uuid4().hex,
        excluded_queue_names=[],
    )
