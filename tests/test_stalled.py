"""Who holds a lock and does nothing, since its process is frozen or its machine gone, loses it on PostgreSQL.

R5, R22.
"""

from __future__ import annotations

import pytest
from django.db import Error, connection

from agentstop import database
from agentstop.models import Task
from agentstop.runs import begin
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="nothing takes a file's lock from one who sleeps"),
]


class Sleeper:
    """Locks a task and falls asleep, so often, until its session is over; then renames it."""

    def __init__(self, task: int, sleeps: int) -> None:
        self.task, self.sleeps, self.times = task, sleeps, 0

    @database.retried
    def rename(self, in_thread: InThread) -> None:
        with database.durable():
            task = database.locked(Task.objects.filter(pk=self.task)).get()
            self.times += 1
            if self.times <= self.sleeps:
                self.sleep(in_thread)
            Task.objects.filter(pk=task.pk).update(title="renamed")

    def sleep(self, in_thread: InThread) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (session,) = cursor.fetchone()
        in_thread(eventually, lambda: is_there(session), False).result(HANG_GUARD)


def is_there(session: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [session])
        return bool(cursor.fetchone()[0])


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "STALLED", 100)


def test_a_transaction_that_lay_idle_is_rolled_back_and_done_again(in_thread: InThread, soon: None) -> None:
    sleeper = Sleeper(begin("a task").task_id, sleeps=2)
    sleeper.rename(in_thread)
    assert (sleeper.times, Task.objects.get().title) == (3, "renamed")


def test_a_stop_waits_no_longer_than_that(in_thread: InThread, soon: None) -> None:
    """R5."""
    run = begin("a task")

    def asleep() -> None:
        with database.durable():
            database.locked(Task.objects.filter(pk=run.task_id)).get()
            report = in_thread(stop, run.task_id).result(HANG_GUARD)
            assert report.stopped
            Task.objects.update(title="too late")

    with pytest.raises(Error, match="idle-in-transaction"):
        asleep()
    task = Task.objects.get()
    assert (task.state, task.title) == ("stopped", "a task")


def test_without_the_limit_it_would_wait_for_as_long_as_the_sleep(
    in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the others can fail."""
    monkeypatch.setattr(database, "limit_idleness", lambda: None)
    run = begin("a task")
    with database.durable():
        database.locked(Task.objects.filter(pk=run.task_id)).get()
        pressed = in_thread(stop, run.task_id)
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('idle_in_transaction_session_timeout')")
            assert cursor.fetchone() == ("0",)
        in_thread(eventually, waits_for_a_lock, True).result(HANG_GUARD)
        assert not pressed.done()
    assert pressed.result(HANG_GUARD).stopped


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(cursor.fetchone()[0])
