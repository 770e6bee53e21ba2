"""The agent's steps as jobs of Django's tasks, each enqueued by the one before it; and their workers, in threads."""

from __future__ import annotations

import threading
import uuid

from django.db import connections
from django_tasks_db.management.commands.db_worker import Worker

from agentstop.integrations.django_tasks import gated_task
from website.demo import handed_over
from website.demo.models import Job

EVERY = 1.0  # seconds between two looks at the queue
FAREWELL = 5.0  # seconds that a job under way is waited for


@gated_task(check_first=False)  # the step itself asks, and says that the agent has heard of the stop
def step(job_id: int, number: int, link: str) -> None:
    link = handed_over.work(job_id, number, link)
    if number + 1 < len(Job.objects.get(pk=job_id).effects()):
        step.enqueue(job_id, number + 1, link)


def send(job_id: int, steps: int) -> None:
    """The first step, which sends the next."""
    step.enqueue(job_id, 0, "")


class Workers:
    """So many of the backend's own workers; a context manager that lets each end its job."""

    def __init__(self, count: int) -> None:
        self._workers = [
            Worker(
                queue_names=["*"],
                interval=EVERY,
                batch=False,
                backend_name="default",
                startup_delay=True,
                max_tasks=None,
                worker_id=uuid.uuid4().hex,
                excluded_queue_names=[],
            )
            for _ in range(count)
        ]
        self._threads = [threading.Thread(target=_work, args=[worker], daemon=True) for worker in self._workers]

    def __enter__(self) -> Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers:
            worker.running = False
        for thread in self._threads:
            thread.join(FAREWELL)


def _work(worker: Worker) -> None:
    try:
        worker.run()
    finally:
        connections.close_all()
