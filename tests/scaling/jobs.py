"""The Celery application of that site, as its documentation has it: it knows no models, and is loaded before them."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("scaling")
app.conf.update(
    broker_url=os.environ["BROKER"],
    result_backend=os.environ["BROKER"],
    imports=["tests.scaling.agents"],
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_default_queue="jobs",
    task_routes={"agentstop.follow_up": {"queue": "follow_up"}},
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3600, "socket_connect_timeout": 2, "socket_timeout": 5},
    result_backend_transport_options={"socket_connect_timeout": 2, "socket_timeout": 5},
)
