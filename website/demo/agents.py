"""The demo's agents at work: takes queued jobs and runs an agent for each, so many at once, in threads."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid

from django.db import close_old_connections, connections

from agentstop import wake
from agentstop.exceptions import Finished, Refused, Stale, Stopped, Superseded
from agentstop.runs import Run, begin
from website.demo import agent, handed_over, queue
from website.demo.models import Job, JobState

logger = logging.getLogger(__name__)

TICK = 1.0  # seconds between two looks at the queue where nothing was heard
HEARTBEAT = 2.0  # seconds between two signs of life; not at each wake, since they would wake everyone in turn
WORKER_ENDED = "The worker was ended while the agent was at work."
FAREWELL = 10.0  # seconds that ending agents are waited for


class Agents:
    """One for a worker process; a context manager that ends them all."""

    def __init__(self, most: int) -> None:
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._most = most
        self._lock = threading.Lock()
        self._working: dict[threading.Thread, tuple[Job, Run | None]] = {}
        self._ending = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._main, name="agents", daemon=True)

    def __enter__(self) -> Agents:
        self._unsubscribe = wake.subscribe(lambda task_ids, over: self._woken.set())
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """End every run that is under way, as failed: its agent hears it, and goes no further."""
        self._ending.set()
        self._woken.set()
        self._unsubscribe()
        self._thread.join(FAREWELL)
        with self._lock:
            working = dict(self._working)
        for _, run in working.values():
            if run is not None:
                run.fail(WORKER_ENDED)
        for thread in working:
            thread.join(FAREWELL)

    def _main(self) -> None:
        heard = 0.0
        while not self._ending.is_set():
            self._woken.clear()
            try:
                close_old_connections()
                if time.monotonic() - heard > HEARTBEAT:
                    heard = time.monotonic()
                    self._heartbeat()
                self._take_all()
            except Exception:
                logger.exception("the queue could not be read; trying again")
            self._woken.wait(TICK)
        connections.close_all()

    def _take_all(self) -> None:
        while self._free() and not self._ending.is_set():
            job = queue.take(self._name)
            if job is None:
                return
            thread = threading.Thread(target=self._work, args=[job], name=f"agent-{job.pk}", daemon=True)
            with self._lock:
                self._working[thread] = (job, None)
            thread.start()

    def _free(self) -> bool:
        with self._lock:
            return len(self._working) < self._most

    def _heartbeat(self) -> None:
        """Keep the jobs of this process, and tell that its agents are alive while they wait for a provider."""
        with self._lock:
            working = list(self._working.values())
        if working:
            queue.renew(self._name, [job.pk for job, _ in working])
        for _, run in working:
            try:
                if run is not None:
                    run.check()
            except Refused:
                pass  # its agent hears it too

    def _work(self, job: Job) -> None:
        try:
            queue.over(job, self._outcome(job))
        except Exception:
            logger.exception("job %s is left to its lease", job.pk)
        finally:
            connections.close_all()
            with self._lock:
                self._working.pop(threading.current_thread())
            self._woken.set()

    def _outcome(self, job: Job) -> str:
        """Run the agent; how the job ended, in words."""
        try:
            run = run_for(job)
            with self._lock:
                self._working[threading.current_thread()] = (job, run)
            if self._ending.is_set():
                run.fail(WORKER_ENDED)
            if job.kind in handed_over.WAYS:
                return handed_over.start(job, run)
            agent.work(job, run)
        except (Refused, Stale) as refused:
            return str(refused)
        except Exception as error:
            logger.warning("the agent of job %s failed: %s", job.pk, error)
            return f"{type(error).__name__}: {error}"
        return "finished"


def run_for(job: Job) -> Run:
    """The run that a person began, or a new one; a Refused where the task was stopped, or the run is over.

    A job whose worker died gets a new run, which supersedes the one that was left behind.
    """
    if job.run is not None:
        run = Run(job.task_id, job.run)
        if job.state == JobState.QUEUED:
            return _taken_up(run)
        run.check()
    run = begin(job.task)
    with queue.kept_or_failed(run):
        queue.set_run(job, run.number)
    return run


def _taken_up(run: Run) -> Run:
    """The run that waited for a worker; where it is over by now nobody was ever at work in it, and that is said."""
    try:
        run.check()
    except (Stopped, Superseded, Finished):
        run.halted()
        raise
    return run
