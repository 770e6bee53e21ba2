"""Runs as an agent holds them: begin one, ask whether it is live, send through it, admit its results, end it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack

from django.core import signing
from django.db import models

from agentstop import approvals, calls, current, database, lifecycle, liveness, refusals, spawning
from agentstop import request as requests
from agentstop.admission import admitting
from agentstop.alive import beats
from agentstop.carry import Manner, OnStop, Tool
from agentstop.children import WaitsForChildren
from agentstop.dispatched import Dispatched
from agentstop.ending import Ending
from agentstop.exceptions import BadToken, Finished, Frozen, Paused, RunNotFound, Stale, Stopped, Superseded, Unanswered
from agentstop.inheritance import Inherits
from agentstop.models import ContextEntry, Task
from agentstop.outcomes import Classify, Outcome, any_value
from agentstop.questions import Asks
from agentstop.sending import in_domain
from agentstop.states import RunState
from agentstop.stop_signal import StopSignal, watch
from agentstop.taking import TakesInputs
from agentstop.waiting import auntil_resumed, until_resumed

__all__ = ["Run", "abegin", "begin", "current_run", "serve"]

R = TypeVar("R")

RUN_IS_OVER = (Stopped, Superseded, Finished, Stale)
LARGEST_ID, LARGEST_NUMBER = 2**63 - 1, 2**31 - 1  # that a database holds
TOKEN_SALT = "agentstop.run"  # noqa: S105  names the purpose of the signature


@dataclass(frozen=True, slots=True)
class Run(Asks, TakesInputs, Inherits, WaitsForChildren):
    """One execution of a task; the stored row is `models.Run`.

    As a `with` block it hears a stop at once, says that its process lives, is the `current_run`, and ends with the
    block: finished, halted by a refusal, or failed.
    The keyword arguments of a request: `connector`; `key`, which names the effect over retries and runs, or `call_id`,
    which names it within this run; `identify`, the arguments that must be equal when a key is used again (default:
    all); `deadline` in seconds.
    """

    task_id: int
    number: int

    def __post_init__(self) -> None:
        if type(self.task_id) is not int or not 0 < self.task_id <= LARGEST_ID:
            raise RunNotFound(f"There is no task of such a number: it is from 1 to {LARGEST_ID}. Nothing was done.")
        if type(self.number) is not int or not 0 <= self.number <= LARGEST_NUMBER:  # 0: of a task that has not begun
            raise RunNotFound(f"There is no run of such a number: it is from 1 to {LARGEST_NUMBER}. Nothing was done.")

    @property
    def token(self) -> str:
        """A signed name of this run for job headers; it does not expire, since the gate decides what it is worth."""
        return signing.dumps([self.task_id, self.number], salt=TOKEN_SALT)

    @classmethod
    def from_token(cls, token: str, *, task: int | None = None) -> Run:
        """The run that a token names; BadToken where it was altered, or names another task than the one expected."""
        try:
            task_id, number = signing.loads(token, salt=TOKEN_SALT)
            if not all(type(part) is int and part > 0 for part in (task_id, number)):
                raise ValueError("it names no run")
        except (signing.BadSignature, TypeError, ValueError) as error:
            raise BadToken("This run token was altered or is malformed. Pass the run.token of a run.") from error
        if task is not None and task != task_id:
            raise BadToken(f"This run token belongs to another task than {task}. Nothing was sent.")
        return cls(task_id, number)

    def check(self, *, wait: bool = False) -> None:
        """Raise Stopped, Superseded, Finished or Paused unless this run may go on. Call it before every model call.

        With `wait=True` it waits for the end of a pause instead of raising Paused.
        """
        while True:
            try:
                return liveness.check(self.task_id, self.number)
            except Paused:
                if not wait:
                    raise
                until_resumed(self.task_id)

    async def acheck(self, *, wait: bool = False) -> None:
        """As `check`."""
        while True:
            try:
                return await in_domain(liveness.check, self.task_id, self.number)
            except Paused:
                if not wait:
                    raise
                await auntil_resumed(self.task_id)

    def call(
        self,
        action: str,
        args: Mapping[str, Any] | None = None,
        *,
        send: Tool | None = None,
        classify: Classify = any_value,
        on_stop: OnStop = "finish",
        wait: bool = True,
        approve: str = "",
        **options: Unpack[requests.Options],
    ) -> Outcome:
        """One external effect: through the gate, sent once, its receipt kept, its result admitted if the run is live.

        `send(op)` sends by the caller's own code instead of the connector's provider. `classify` judges the answer.
        `on_stop="cancel"` is for reads and tools that give up cleanly; effects are left to finish. While the task is
        paused the call waits; with `wait=False` it raises Paused, for jobs that come back. `approve`: a question that a
        person has to say yes to before anything is sent; see `ask` for the waiting and what it raises.
        """
        request, manner = self._request(action, args, options), Manner(send, classify, on_stop, wait)
        return approvals.call(request, manner, approve) if approve else calls.call(request, manner)

    async def acall(
        self,
        action: str,
        args: Mapping[str, Any] | None = None,
        *,
        send: Tool | None = None,
        classify: Classify = any_value,
        on_stop: OnStop = "finish",
        wait: bool = True,
        approve: str = "",
        **options: Unpack[requests.Options],
    ) -> Outcome:
        """As `call`. A coroutine function given as `send` runs on agentstop's own loop, and outlives this one."""
        request, manner = self._request(action, args, options), Manner(send, classify, on_stop, wait)
        return await (approvals.acall(request, manner, approve) if approve else calls.acall(request, manner))

    def dispatch(
        self, action: str, args: Mapping[str, Any] | None = None, **options: Unpack[requests.Options]
    ) -> AbstractContextManager[Dispatched]:
        """For code that sends by itself: a block entered with a pass, which hands in receipts through its handle."""
        return calls.dispatch(self._request(action, args, options))

    @asynccontextmanager
    async def adispatch(
        self, action: str, args: Mapping[str, Any] | None = None, **options: Unpack[requests.Options]
    ) -> AsyncIterator[Dispatched]:
        """As `dispatch`, for coroutines: hand receipts in by `await op.asucceeded(...)`."""
        block = self.dispatch(action, args, **options)
        handle = await in_domain(block.__enter__)
        try:
            yield handle
        except BaseException as error:
            await in_domain(block.__exit__, type(error), error, error.__traceback__)
            raise
        await in_domain(block.__exit__, None, None, None)

    def prepare(self, action: str, args: Mapping[str, Any] | None = None, **options: Unpack[requests.Options]) -> int:
        """List an operation before its turn, so that a person sees what is coming; answers its id."""
        return refusals.prepare(self._request(action, args, options))

    async def aprepare(
        self, action: str, args: Mapping[str, Any] | None = None, **options: Unpack[requests.Options]
    ) -> int:
        """As `prepare`."""
        return await in_domain(refusals.prepare, self._request(action, args, options))

    def admitting(self, operation: int) -> AbstractContextManager[None]:
        """A transaction for the host's own sink: it commits only if this run is live then, else raises Stale."""
        return admitting(self.task_id, self.number, operation)

    async def aadmit(self, operation: int, write: Callable[[], R]) -> R:
        """Run `write` in such a transaction, on a thread of agentstop's; answers what it returns."""

        def admit() -> R:
            with self.admitting(operation):
                return write()

        return await in_domain(admit)

    def context(self) -> list[Any]:
        """What this run has admitted, in order."""
        entries = ContextEntry.objects.using(database.alias()).filter(task_id=self.task_id, run=self.number)
        return [entry.value for entry in entries.order_by("pk")]

    async def acontext(self) -> list[Any]:
        """As `context`."""
        return await in_domain(self.context)

    def finish(self) -> bool:
        """The run has reached its end. False where it was over before: that is noted, and changes nothing."""
        return liveness.end(self.task_id, self.number, RunState.FINISHED)

    def fail(self, error: object = "") -> bool:
        """The run has ended by a fault of its own. False where it was over before."""
        return liveness.end(self.task_id, self.number, RunState.FAILED, str(error))

    async def afinish(self) -> bool:
        """As `finish`."""
        return await in_domain(self.finish)

    async def afail(self, error: object = "") -> bool:
        """As `fail`."""
        return await in_domain(self.fail, error)

    def halted(self) -> None:
        """The agent's process has taken notice that the run is over, and goes no further."""
        liveness.halted(self.task_id, self.number)

    @property
    def stop_signal(self) -> StopSignal:
        """Within the run's `with` block: set the moment the run is over."""
        return watch().signal(self.task_id, self.number)

    def __enter__(self) -> Run:
        watch().hold(self.task_id, self.number)
        beats().hold(self.task_id, self.number)
        current.entered(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current.left(self)
        signal = self.stop_signal
        watch().release(signal)
        beats().release(self.task_id, self.number)
        if error is None:
            self.finish()
        elif isinstance(error, RUN_IS_OVER) and _is_over(signal):
            self.halted()
        elif not isinstance(error, Paused | Frozen | Unanswered):  # the run is still live: its job comes back
            self.fail(f"{type(error).__name__}: {error}")

    async def __aenter__(self) -> Run:
        await in_domain(self.__enter__)
        current.entered(self)  # the hop had a context of its own
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current.left(self)
        await in_domain(self.__exit__, kind, error, trace)

    def ending(
        self, *, on_finish: Callable[[Run], Any] | None = None, on_stop: Callable[[Run], Any] | None = None
    ) -> Ending[Run]:
        """This run's block with code of your own after it: `on_finish` if the run has finished, `on_stop` if stopped.

        Decided by what was committed, so never both and never the wrong one; neither after a failure, nor where a newer
        run has taken over. They are called with the run, for each block; coroutine functions in `async with` alone.
        """
        return Ending(self, on_finish, on_stop)

    def _request(self, action: str, args: Mapping[str, Any] | None, options: requests.Options) -> requests.Request:
        return requests.make(self.task_id, self.number, action, args, options)


current_run: ContextVar[Run | None] = current.current_run  # for which run the code at hand works


def _is_over(signal: StopSignal) -> bool:
    """Whether the run itself is: what its block is left by may be about another one, a child's for instance."""
    watch().look([signal])
    return signal.is_set()


class Beginning(TypedDict, total=False):
    """The keyword arguments of `begin`."""

    owner: Any  # of a new task; a child has its parent's
    subject: models.Model | None  # of a new task: any saved object of the host
    by: Any  # the person who begins it, checked for `start_run`; needed for a task that was stopped
    serves: Sequence[Run]  # the runs that it works for: it goes on while one of them is live
    detached: bool  # it serves them, and goes on without them
    keep: Sequence[int]  # the children of the superseded run, by task id, that the new run keeps
    run: int  # the last run that the person saw: where a newer one has begun since, it is left alone
    key: str  # of a new task that serves one run: in that run it names this child, however often it is spawned


def begin(task: Task | int | str, **options: Unpack[Beginning]) -> Run:
    """Begin a new run of a task, or of a new task with this title; the current run is superseded, and told so.

    With the old run ends what works for it alone. `by` is checked for the task, for those that it serves, and of a new
    task for its owner: the rule is asked about a task that is not saved.

    Raises Denied or TaskNotFound; Superseded where `run` is not the last one; Stopped where the task was stopped and no
    person begins it, or where no run that it would serve is live: then the task is there, born stopped.

    `key`: spawned under the same key in the same run, it is the same child. One that has not finished begins a new run;
    one that has is answered as it is, its run over; one that was stopped by itself raises ChildStopped.
    """
    found = lifecycle.begin(
        task,
        owner=options.get("owner"),
        subject=options.get("subject"),
        by=options.get("by"),
        serves=options.get("serves", ()),
        detached=options.get("detached", False),
        keep=options.get("keep", ()),
        key=options.get("key", ""),
        run=options.get("run"),
    )
    return Run(*found)


async def abegin(task: Task | int | str, **options: Unpack[Beginning]) -> Run:
    """As `begin`."""
    return await in_domain(partial(begin, task, **options))


def serve(child: Task | int, run: Run) -> None:
    """From now on the task works for this run too, and goes on as long as it is live; a ring is refused."""
    spawning.serve(child if isinstance(child, int) else child.pk, run)
