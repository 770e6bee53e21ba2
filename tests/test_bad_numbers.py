"""Numbers that name nothing, of an altered message or a careless caller: clear errors, nothing written (R27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import signing

from agentstop import inputs
from agentstop.exceptions import BadToken, RunNotFound, TaskNotFound
from agentstop.models import Decision, Operation
from agentstop.pause import pause, resume
from agentstop.runs import TOKEN_SALT, Run, begin
from agentstop.stop import stop
from tests.observed import task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

NONE_AT_ALL: list[Any] = [-1, 2**31, 10**30, 10**5000, True, None, "1", 1.0]
VERBS: dict[str, Callable[[Any, User], Any]] = {
    "stop": lambda task, by: stop(task, by=by),
    "pause": lambda task, by: pause(task, by=by),
    "resume": lambda task, by: resume(task, by=by),
    "begin": lambda task, by: begin(task, by=by),
    "add": lambda task, by: inputs.add(task, "more", by=by),
}


@pytest.mark.parametrize("number", range(len(NONE_AT_ALL)))
def test_a_run_that_cannot_be_is_none(number: int, ann: User) -> None:
    run = begin("x", owner=ann)
    before = Decision.objects.count()
    with pytest.raises(RunNotFound, match="There is no run of such a number"):
        Run(run.task_id, NONE_AT_ALL[number])
    with pytest.raises((RunNotFound, BadToken)):
        Run.from_token(signing.dumps([run.task_id, 2**31], salt=TOKEN_SALT))
    assert (Decision.objects.count(), Operation.objects.count()) == (before, 0)
    run.check()


@pytest.mark.parametrize("verb", VERBS)
def test_a_task_that_cannot_be_is_none(verb: str, ann: User) -> None:
    run = begin("x", owner=ann)
    before = Decision.objects.count()
    for task in (None, 1.0, b"1", True):
        with pytest.raises(TypeError, match="Pass a task"):
            VERBS[verb](task, ann)
    for task in (0, -1, 10**30):
        with pytest.raises(TaskNotFound):
            VERBS[verb](task, ann)
    assert (Decision.objects.count(), task_of(run).state) == (before, "active")
