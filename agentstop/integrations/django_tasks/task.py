"""Tasks whose jobs work for a run: gated where a worker calls them, whatever the backend; none is retried or lost."""

from __future__ import annotations

import inspect
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone

from agentstop import request as requests
from agentstop.exceptions import NoRun
from agentstop.integrations import jobs
from agentstop.integrations.django_tasks.framework import AnyTask, Task, task_backends
from agentstop.integrations.django_tasks.refusal import Refusal
from agentstop.outcomes import Classify, any_value
from agentstop.request import Request
from agentstop.runs import Run, current_run
from agentstop.tools.asked import Key, arguments, key_of, names
from agentstop.working import working

logger = logging.getLogger(__name__)

STAMP = "_agentstop"  # the argument that carries the run's token and the job's own id: a job has no headers
Arguments = tuple[Any, ...]
Named = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedTask(AnyTask):
    """Made by `gated_task`; a backend's `task_class` where all its tasks are to be gated.

    `using(run=…)` names the run that the jobs work for; else it is the run at hand where they are sent.
    """

    connector: str = ""
    key: Key = ""
    action: str = ""
    identify: tuple[str, ...] | None = None
    deadline: float | None = None
    classify: Classify = any_value
    check_first: bool = True
    ends_run: bool = False
    comes_back: float = 10.0
    token: str = ""  # of the run named by `using`

    def using(self, *, run: Run | None = None, **changes: Any) -> GatedTask:
        """As Django's; `run`: for which the jobs work."""
        task: Any = Task.using(self, **changes)
        gated: GatedTask = task if run is None else replace(task, token=run.token)
        return gated

    def enqueue(self, *args: Any, **kwargs: Any) -> Any:
        return Task.enqueue(self, *args, **self._stamped(kwargs))

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Any:
        return await Task.aenqueue(self, *args, **self._stamped(kwargs))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What a worker does with a job."""
        stamp = kwargs.pop(STAMP, None)
        if stamp is None:
            return self._gated(args, kwargs, "")
        run = Run.from_token(stamp["run"])
        try:
            with working(run):
                return self._worked(run, args, kwargs, stamp["job"])
        except jobs.REFUSALS as refusal:
            return self._refused(refusal, args, {**kwargs, STAMP: stamp})

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """The same, in a thread with connections of its own."""

        def aside() -> Any:
            try:
                return self.call(*args, **kwargs)
            finally:
                connections.close_all()

        return await sync_to_async(aside, thread_sensitive=False)()

    def _stamped(self, kwargs: Named) -> dict[str, Any]:
        run = current_run.get()
        token = self.token or (run.token if run is not None else "")
        if STAMP in kwargs or not token:
            return dict(kwargs)
        return {**kwargs, STAMP: {"run": token, "job": uuid.uuid4().hex}}

    def _worked(self, run: Run, args: Arguments, kwargs: Named, job: str) -> Any:
        try:
            if self.check_first and not self.connector:
                run.check()
            result = self._gated(args, kwargs, job)
        except jobs.REFUSALS as refusal:
            if self.ends_run:
                jobs.refused(run, refusal)
            raise
        except Exception as error:
            if self.ends_run:
                run.fail(f"{type(error).__name__}: {error}")
            raise
        if self.ends_run:
            run.finish()
        return result

    def _gated(self, args: Arguments, kwargs: Named, job: str) -> Any:
        """The task's own function, as one operation where it is one."""

        def function() -> Any:
            return Task.call(self, *args, **kwargs)

        if not self.connector:
            return function()
        return jobs.as_operation(self._asks(args, kwargs, job), function, self.classify)

    def _asks(self, args: Arguments, kwargs: Named, job: str) -> Request:
        run = current_run.get()
        if run is None:
            raise NoRun(f"{self.name} was sent for no run: send it within `with working(run):`. Nothing was done.")
        named = arguments(inspect.signature(self.func), args, kwargs)
        if self.takes_context:
            del named["context"]
        options: requests.Options = {
            "connector": self.connector,
            "call_id": job or uuid.uuid4().hex,
            "key": key_of(self.key, named, self.name) if self.key else "",
            "identify": self.identify,
            "deadline": self.deadline,
        }
        return requests.make(run.task_id, run.number, self.action or self.name, named, options)

    def _refused(self, refusal: Exception, args: Arguments, kwargs: Named) -> dict[str, Any]:
        logger.info("%s goes no further: %s", self.name, refusal, extra={"action": "job_refused"})
        comes_back = isinstance(refusal, jobs.COMES_BACK) and self.get_backend().supports_defer
        again = self._again(args[1:] if self.takes_context else args, kwargs) if comes_back else ""
        return Refusal(getattr(refusal, "reason", "stale"), str(refusal), again).as_value()

    def _again(self, args: Arguments, kwargs: Named) -> str:
        """Later, as the same job to the gate; the queue has a new one."""
        later = self.using(run_after=timezone.now() + timedelta(seconds=self.comes_back))
        return str(later.enqueue(*args, **kwargs).id)


class Wishes(TypedDict, total=False):
    """The keyword arguments of `gated_task`."""

    priority: int
    queue_name: str
    takes_context: bool
    connector: str  # the job is one operation of it; without, its code gates each effect by itself
    key: Key  # names its effect, as for `agentstop.tools.tool`; default: the job's own id
    action: str  # for people; default: the function's name
    identify: Iterable[str] | None
    deadline: float | None  # seconds
    classify: Classify
    check_first: bool  # False: the run is not asked about before the job's own calls are, which record refusals
    ends_run: bool  # the run ends with a job that has succeeded or failed for good
    comes_back: float  # seconds after which a job that is held is sent again; default 10


def gated_task(*, backend: str = "default", **wishes: Unpack[Wishes]) -> Callable[[Callable[..., Any]], GatedTask]:
    """As Django's `@task(...)`; its jobs work for the run at hand where they are enqueued, or for `using(run=run)`.

    With `connector` a job is one operation; without it the job's code gates each effect, with `run.call` or tools. A
    job of a run that is over returns a Refusal, which `refusal_of(result)` reads: it is no failure. One that is held,
    by a pause or since its operation is under way elsewhere, is enqueued again `comes_back` seconds later, where the
    backend can wait. A TypeError where the backend has a task class of its own that is no GatedTask.
    """
    made: dict[str, Any] = {**wishes, "backend": backend, "identify": names(wishes.get("identify"))}

    def decorate(function: Callable[..., Any]) -> GatedTask:
        return _class_of(backend)(func=function, **made)

    return decorate


def _class_of(backend: str) -> type[GatedTask]:
    own: type = task_backends[backend].task_class
    if own is Task:
        return GatedTask
    if not issubclass(own, GatedTask):
        raise TypeError(f"The tasks of backend {backend!r} are {own.__qualname__}: derive that class from GatedTask.")
    return own
