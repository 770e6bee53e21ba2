"""Celery jobs that work for a run: `@app.task(base=GatedTask)`. Importing it lets every job carry its run on."""

from agentstop.integrations.celery.headers import HEADER
from agentstop.integrations.celery.task import REFUSED, GatedTask

__all__ = ["HEADER", "REFUSED", "GatedTask"]
