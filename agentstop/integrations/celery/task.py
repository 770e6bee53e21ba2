"""The base of tasks whose jobs work for a run: gated below the retries, refused for good, held while it is paused."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from celery import Task
from celery.exceptions import Ignore, Reject, Retry, TaskPredicate

from agentstop import request as requests
from agentstop.exceptions import NoRun, Refused
from agentstop.integrations import jobs
from agentstop.integrations.celery.headers import stamped, token_of
from agentstop.outcomes import Classify, any_value
from agentstop.request import Request
from agentstop.runs import Run, current_run
from agentstop.tools.asked import Key, arguments, key_of
from agentstop.working import working

logger = logging.getLogger(__name__)

REFUSED = "REFUSED"  # the state of a job that may not go on: no failure, and not retried


class Halted(Ignore):  # type: ignore[misc]
    """Carries a refusal past Celery's automatic retries, which let an Ignore pass."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class GatedTask(Task):  # type: ignore[misc]
    """`@app.task(base=GatedTask)`: its jobs work for the run at hand where they are sent, or `apply_async(run=run)`.

    With `connector` a job is one operation: `key` names its effect, as for `agentstop.tools.tool`, else the job's own
    id does, over retries and redelivery. Without it the job's code gates each effect by itself, with `run.call` or
    tools. A job of a run that is over ends as REFUSED. One that is held, by a pause or since its operation is under way
    elsewhere, is sent again `comes_back` seconds later, which is none of its retries.
    """

    abstract = True

    connector: str = ""
    key: Key = ""
    action: str = ""  # for people; default: the task's name
    identify: Iterable[str] | None = None
    deadline: float | None = None  # seconds
    classify: Classify = staticmethod(any_value)
    check_first: bool = True  # False: the run is not asked about before the job's own calls are, which record refusals
    ends_run: bool = False  # the run ends with a job that has succeeded or failed for good
    comes_back: float = 10.0  # seconds
    says_unsent: bool = False  # a Retry, Ignore or Reject without an error is the job's word that it has sent nothing

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Put the gate around the task's own function: below the retries that Celery puts around it next."""
        super().on_bound(app)
        if "_ungated" not in cls.__dict__ and "run" in cls.__dict__:
            cls._ungated = cls.__dict__["run"]
            _wrap(cls)

    def apply_async(self, args: Any = None, kwargs: Any = None, *, run: Run | None = None, **options: Any) -> Any:
        """As Celery's; `run`: for which the job works, if not for the run at hand."""
        options["headers"] = stamped(options.get("headers"), run)
        return super().apply_async(args, kwargs, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        token = token_of(self.request)
        if self.request.called_directly or not token:
            return super().__call__(*args, **kwargs)
        run = Run.from_token(token)
        try:
            with working(run):
                return self._worked(run, args, kwargs)
        except Halted as halted:
            self._halt(halted.refusal)

    def _worked(self, run: Run, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        try:
            if self.check_first and not self.connector:
                _asked(run)
            result = self.run(*args, **kwargs)
        except Halted as halted:
            if self.ends_run:
                jobs.refused(run, halted.refusal)
            raise
        except TaskPredicate:
            raise
        except Exception as error:
            if self.ends_run:
                run.fail(f"{type(error).__name__}: {error}")
            raise
        if self.ends_run:
            run.finish()
        return result

    def _halt(self, refusal: Exception) -> NoReturn:
        if isinstance(refusal, jobs.COMES_BACK) and not self.request.is_eager:
            self._come_back(refusal)
        logger.info("%s[%s] goes no further: %s", self.name, self.request.id, refusal, extra={"action": "job_refused"})
        if not self.request.is_eager:
            reason = getattr(refusal, "reason", "stale")
            self.update_state(state=REFUSED, meta={"reason": reason, "words": str(refusal)})
        raise Ignore(str(refusal)) from refusal

    def _come_back(self, refusal: Exception) -> NoReturn:
        """Again later, as the same job with the same number of retries."""
        again = self.signature_from_request(self.request, countdown=self.comes_back, retries=self.request.retries)
        try:
            again.apply_async()
        except Exception as error:
            raise Reject(error, requeue=True) from error
        raise Retry(exc=refusal, when=self.comes_back, sig=again)

    def _gated(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The task's own function, as one operation where it is one; a refusal gets past Celery's retries."""
        try:
            return self._operation(function, args, kwargs) if self.connector else function(*args, **kwargs)
        except jobs.REFUSALS as refusal:
            if self.request.called_directly:
                raise
            raise Halted(refusal) from refusal

    def _operation(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        request, work = self._asks(function, args, kwargs), functools.partial(function, *args, **kwargs)
        return jobs.as_operation(request, work, self.classify, lambda error: self.says_unsent and is_word(error))

    def _asks(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Request:
        run = current_run.get()
        if run is None:
            raise NoRun(f"{self.name} was sent for no run: send it within `with working(run):`. Nothing was done.")
        named = arguments(inspect.signature(function), args, kwargs)
        options: requests.Options = {
            "connector": self.connector,
            "call_id": self.request.id or "",
            "key": key_of(self.key, named, self.name) if self.key else "",
            "identify": self.identify,
            "deadline": self.deadline,
        }
        return requests.make(run.task_id, run.number, self.action or self.name, named, options)


def _wrap(cls: type[GatedTask]) -> None:
    plain = cls.__dict__["_ungated"]
    if isinstance(plain, staticmethod):  # a task without `self`

        @functools.wraps(plain.__func__)
        def alone(*args: Any, **kwargs: Any) -> Any:
            task = cls.app.tasks[cls.name]
            return task._gated(plain.__func__, args, kwargs)

        cls.run = staticmethod(alone)
        return

    @functools.wraps(plain)
    def bound(self: GatedTask, *args: Any, **kwargs: Any) -> Any:
        return self._gated(functools.partial(plain, self), args, kwargs)

    cls.run = bound


def _asked(run: Run) -> None:
    try:
        run.check()
    except Refused as refusal:
        raise Halted(refusal) from refusal


def is_word(error: BaseException) -> bool:
    """Whether Retry, Ignore or Reject is the job's own word, and not that of an error that made it say so."""
    if not isinstance(error, TaskPredicate):
        return False
    told = getattr(error, "exc", None) or getattr(error, "reason", None)
    return not isinstance(told or error.__cause__ or error.__context__, BaseException)
