"""The agent's steps as a chain of Celery jobs. As a worker: celery -A website.demo.celery_jobs worker"""

from __future__ import annotations

import django
from celery import Celery, chain
from celery.signals import worker_ready
from django.apps import apps
from django.conf import settings

if not apps.ready:  # in a worker this module is the first
    django.setup()

from agentstop.integrations.celery import GatedTask
from website.demo import handed_over

READY = "celery worker: ready"

app = Celery("demo", broker=settings.BROKER)
app.conf.update(
    task_acks_late=True,
    task_default_queue="demo",
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(base=GatedTask, check_first=False)  # the step itself asks, and says that the agent has heard of the stop
def step(link: str, job_id: int, number: int) -> str:
    return handed_over.work(job_id, number, link)


def send(job_id: int, steps: int) -> None:
    """All steps, each sent by the one before it."""
    chain(step.s("", job_id, 0), *(step.s(job_id, number) for number in range(1, steps))).apply_async()


@worker_ready.connect(weak=False)
def _ready(**_: object) -> None:
    print(READY, flush=True)  # noqa: T201  the demo waits for it
