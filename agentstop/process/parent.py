"""The parent's side of a tool in a process of its own: what it hears of it, and how it sees to its end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any, ClassVar

from django.conf import settings

from agentstop.dispatched import Accepted, Dispatched
from agentstop.exceptions import AgentStopError, PassExpired
from agentstop.passes import ticks
from agentstop.process import child as process_child
from agentstop.process.line import portable
from agentstop.providers.base import Answer
from agentstop.states import Claim, Source

LAST_WORDS = 1.0  # seconds between SIGTERM and SIGKILL
LOOK = 1.0  # seconds between two looks at a process that says nothing
SOON = 0.05  # seconds between two looks at one that was killed


class ProcessEnded(AgentStopError):
    """The tool's process ended, or was ended, without a word about its effect: nothing is known of it."""


class Child:
    """A process that runs one tool, from its start until nothing of it is left."""

    _all: ClassVar[set[Child]] = set()

    def __init__(
        self, op: Dispatched, function: Callable[[Dispatched], Any], *, kill_after: float, checks: bool
    ) -> None:
        self.op = op
        self.kill_after = kill_after
        self.checks = checks
        self._begun = False  # the function was called: from here on it may have sent
        self._told_at: float | None = None  # of the end of its run
        self._ended_at: float | None = None  # by our signal
        self._buried = False
        spawn = multiprocessing.get_context("spawn")  # a forked copy of this process would hold its locks and sockets
        self._pipe, pipe = spawn.Pipe()
        self._woken, self._waker = spawn.Pipe(duplex=False)
        life, self._life = spawn.Pipe(duplex=False)  # written to by nobody: its end is that of this process
        arguments = (pipe, life, str(settings.SETTINGS_MODULE or ""), pickle.dumps((function, op.passed_on())))
        self.process = spawn.Process(target=process_child.main, args=arguments, name=f"agentstop-operation-{op.id}")
        try:
            self.process.start()
        except BaseException:
            self.let_go()
            raise
        finally:
            pipe.close()
            life.close()
        self._all.add(self)

    @classmethod
    def all(cls) -> list[Child]:
        """Those of which something is left."""
        return list(cls._all)

    def heard_out(self) -> Any:
        """What the tool has returned; raises what it has refused, or how it ended where it has said nothing."""
        forget = self.op.stop_signal.on_set(self._wake)
        try:
            while (said := self._next()) is not None:
                kind, *rest = said
                if kind == "ready":
                    self._let_begin()
                elif kind == "asks":
                    self._answer(*rest)
                else:
                    return _final(kind, *rest)
            return self._without_a_word()
        finally:
            forget()

    def kill(self) -> None:
        """At once, with all that it has started."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    def bury(self) -> None:
        """Wait until it has ended by itself, `kill_after` seconds at the most, and leave nothing of it behind."""
        self._exit_code(self.kill_after)
        self.let_go()

    def let_go(self) -> None:
        """Close this process's ends of all pipes."""
        self._all.discard(self)
        for end in (self._pipe, self._woken, self._waker, self._life):
            end.close()

    def _next(self) -> tuple[Any, ...] | None:
        """The next message of the process; None where it has ended and said all."""
        while True:
            self._see_to_its_end()
            ready = wait([self._pipe, self._woken, self.process.sentinel], self._patience())
            if self._pipe in ready or self._pipe.poll():
                try:
                    message: tuple[Any, ...] = self._pipe.recv()
                except (EOFError, OSError):
                    return None
                return message
            if self._woken in ready:
                self._woken.recv_bytes()
            if self.process.sentinel in ready:
                return None

    def _see_to_its_end(self) -> None:
        """Do what is due: tell it of the end of its run, then ask it to end, then kill it."""
        if self._told_at is None and self.op.stop_signal.is_set():
            self._told_at = ticks()
            self._send("stop", self.op.stop_signal.reason)
        if self._left() > 0:
            return
        if self._ended_at is None:
            self._ended_at = ticks()
            self._signal(signal.SIGTERM)
        elif ticks() >= self._ended_at + LAST_WORDS:
            self.kill()

    def _left(self) -> float:
        """Seconds that it still has."""
        left = self.op.seconds_left
        return left if self._told_at is None else min(left, self._told_at + self.kill_after - ticks())

    def _patience(self) -> float:
        due = self._left() if self._ended_at is None else self._ended_at + LAST_WORDS - ticks()
        return min(LOOK, max(SOON, due))

    def _wake(self) -> None:
        try:
            self._waker.send_bytes(b"!")
        except OSError:
            pass  # it has ended meanwhile

    def _let_begin(self) -> None:
        """It took a while to start: the run may be over by now, and then the function is not called."""
        try:
            self.op.require()
        except PassExpired:
            self.kill()
            raise
        self._begun = True
        self._send("go")

    def _answer(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        asked: dict[str, Callable[..., Any]] = {"check": self.op.check, "hand_in": self.op.hand_in}
        try:
            self._send("answer", number, True, asked[name](*arguments))
        except Exception as error:
            self._send("answer", number, False, portable(error))

    def _send(self, *message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            pass  # it has ended, which is heard of by itself

    def _signal(self, number: int) -> None:
        """To the process and all that it has started, as far as that has stayed in its group."""
        if self._buried or self.process.pid is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except (AttributeError, OSError):  # there are no groups here, or it leads none yet
            self.process.kill()

    def _exit_code(self, patience: float) -> int | None:
        """Wait for its end so long, then end it; all that it has started is killed before its number is given away."""
        if not self._buried:
            wait([self.process.sentinel], patience)
            self.kill()
            self.process.join()
            self._buried = True
        return self.process.exitcode

    def _without_a_word(self) -> Any:
        """It ended, or was ended: what it has handed in before counts, what it cannot have done was not done."""
        last = self.op.last
        if last is not None:
            return Accepted(last.ref) if last.claim is Claim.ACCEPTED else None
        how = f"Operation {self.op.id}: its process {self._how_it_ended()}"
        if not self._begun or (self.checks and not self.op.let_through):
            raise PassExpired(f"{how} before anything was sent.")
        raise ProcessEnded(f"{how} without a word about its effect.")

    def _how_it_ended(self) -> str:
        code = self._exit_code(LAST_WORDS) or 0
        if self._ended_at is not None:
            return "was killed after the end of its run" if self.op.seconds_left else "was killed at its deadline"
        return f"ended by signal {-code}" if code < 0 else f"ended with code {code}"


def _final(kind: str, told: Any) -> Any:
    if kind == "not begun":
        raise PassExpired(f"The tool's process could not call its function ({told}). Not sent.")
    if kind == "refused":
        raise pickle.loads(told)  # noqa: S301  of our own child
    if kind == "raised":
        return Answer(Claim.LOST, Source.SENDER, body=told)
    if kind == "unusable":  # it has returned: only what it has returned cannot be passed on
        return Answer(Claim.SUCCEEDED, result=told, cut=True)
    return pickle.loads(told)  # noqa: S301  of our own child


def _forked() -> None:
    """A fork must not keep another process's children alive by its copies of the pipes."""
    for child in Child.all():
        child.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
