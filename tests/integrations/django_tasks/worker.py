"""The database backend's own worker, job by job: in a thread of this process, or in one of its own."""

from __future__ import annotations

import threading
from typing import Any

from django.conf import settings
from django.db import connections
from django_tasks_db.management.commands.db_worker import Worker

from tests.races.sender import Stage


def work(jobs: int = 1) -> None:
    """What `db_worker --batch --max-tasks` does."""
    try:
        Worker(
            queue_names=["*"],
            interval=0.05,
            batch=True,
            backend_name="default",
            startup_delay=False,
            max_tasks=jobs,
            worker_id=threading.current_thread().name,
            excluded_queue_names=[],
        ).run()
    finally:
        connections.close_all()


class Works(Stage):
    """The other process of the races, which also works off jobs."""

    def obey(self, told: dict[str, Any]) -> None:
        if told["do"] == "job":
            threading.Thread(target=work).start()
            return
        if told["do"] == "set":
            settings.SANDBOX_ADDRESS = told["sandbox"]
        super().obey(told)
