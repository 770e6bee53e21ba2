"""A run whose steps are jobs of a queue: one job a step, each with the run's token, and the last one ends the run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from agentstop.exceptions import Refused, Stale
from agentstop.integrations.jobs import refused
from agentstop.runs import Run, current_run
from agentstop.working import working
from website.demo import agent, queue
from website.demo.models import Job
from website.demo.steps import Kind

WAYS = {Kind.CHAIN: "website.demo.celery_jobs", Kind.TASKS: "website.demo.django_jobs"}  # imported where installed


def start(job: Job, run: Run) -> str:
    """List the steps and send the first job, or all; what is said of the demo's own job then."""
    send: Callable[[int, int], None] = import_module(WAYS[Kind(job.kind)]).send
    with queue.kept_or_failed(run):
        agent.prepare(job, run)
        with working(run):
            send(job.pk, len(job.effects()))
    return "handed over"


def work(job_id: int, number: int, link: str) -> str:
    """One step, in a worker of that queue: as the agent does it. Answers the link that the next one needs."""
    job, run = Job.objects.get(pk=job_id), current_run.get()
    if run is None:
        raise RuntimeError("The jobs of the demo's agents are sent for a run.")
    effects = job.effects()
    try:
        link = agent.step(job, run, effects[number], link)
    except (Refused, Stale) as refusal:
        refused(run, refusal)
        raise
    except Exception as error:
        run.fail(f"{type(error).__name__}: {error}")
        raise
    if number == len(effects) - 1:
        run.finish()
    return link
