"""Runs that ask, and when they have come to wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import questions
from agentstop.models import Question, Task
from agentstop.questions import Answered
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread

Ask = Callable[..., Answered]
Waiting = Callable[..., Future[Any]]

SEND_IT = "Send the report to the customer?"


def ask(run: Run, text: str = SEND_IT, *, wait: bool = True, **options: Any) -> Answered:
    return run.ask(text, **{"key": "send", "kind": "approve", **options}, wait=wait)


def aask(run: Run, text: str = SEND_IT, *, wait: bool = True, **options: Any) -> Answered:
    return asyncio.run(run.aask(text, **{"key": "send", "kind": "approve", **options}, wait=wait))


both = pytest.mark.parametrize("asks", [ask, aask])


@pytest.fixture
def run(ann: User) -> Run:
    return begin("Report", owner=ann)


@pytest.fixture
def waiting(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """Starts a function that asks, in a thread, and answers when it waits for a person; none waits for ever."""
    waits, look = threading.Semaphore(0), questions._look

    def looked(question: Question) -> Answered | None:
        found = look(question)
        if found is None:
            waits.release()
        return found

    monkeypatch.setattr(questions, "_look", looked)

    def start(function: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        future = in_thread(partial(function, *args, **options))
        assert waits.acquire(timeout=HANG_GUARD), "nobody waits"
        return future

    yield start
    for task in Task.objects.filter(state__in=["active", "paused"]):
        stop(task)


def question_of(run: Run, key: str = "send") -> Question:
    return Question.objects.get(task=run.task_id, run=run.number, key=key)
