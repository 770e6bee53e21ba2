"""The wake: a stop is heard wherever its run is held, from whatever process, and what is lost is made good."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction
from pytest_django.fixtures import Settings

from agentstop import wake
from agentstop.exceptions import Stopped, Superseded
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.stop_signal import held, watch
from tests.conftest import HANG_GUARD
from tests.counted import database_connections, eventually
from tests.test_leaving import leave

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = connection.vendor == "postgresql"


@pytest.fixture
def run() -> Run:
    return begin("a task")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """As if what this process commits were committed by another one: it is not announced here."""
    monkeypatch.setattr(wake, "announce", lambda *task_ids, over=False: None)


def listening() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "agentstop-wake"]


def test_a_stop_in_another_process_is_heard(run: Run, database_url: str) -> None:
    with held(run.task_id, run.number) as signal:
        assert leave("stops", database_url, run) == 0
        assert signal.wait(HANG_GUARD) and signal.reason is Stopped


@pytest.mark.parametrize(("end", "reason"), [(stop, Stopped), (begin, Superseded)])
def test_the_database_alone_passes_it_on(
    run: Run, elsewhere: None, end: Callable[[int], object], reason: type[Exception], settings: Settings
) -> None:
    settings.AGENTSTOP_SWEEP = HANG_GUARD * 10  # so it is not the sweep
    with held(run.task_id, run.number) as signal:
        end(run.task_id)
        assert signal.wait(HANG_GUARD) and signal.reason is reason


def test_nothing_is_heard_of_what_is_rolled_back(run: Run, settings: Settings) -> None:
    settings.AGENTSTOP_SWEEP = HANG_GUARD * 10
    woken: list[frozenset[int] | None] = []
    forget = wake.subscribe(lambda tasks, over: woken.append(tasks) if over and tasks is not None else None)
    try:
        with transaction.atomic():
            wake.notify_on_commit([run.task_id])
            transaction.set_rollback(True)
        other = begin("another")
        stop(other.task_id)
        eventually(lambda: frozenset({other.task_id}) in woken, True)
        assert frozenset({run.task_id}) not in woken
    finally:
        forget()


def test_after_the_connection_was_cut_it_listens_again_and_misses_nothing(
    run: Run, elsewhere: None, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.AGENTSTOP_SWEEP = HANG_GUARD * 10
    with held(run.task_id, run.number) as signal:
        if on_postgresql:
            assert cut_listeners() == 1
        stop(run.task_id)  # perhaps while nobody listens: whoever listens again looks first
        assert signal.wait(HANG_GUARD)
    if on_postgresql:
        assert "listening for wakes failed" in caplog.text


class Unhurried(threading.Event):
    """Notes for how long it would have been waited, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        return self.is_set()


def test_it_tries_again_later_and_later_without_end_and_soon_again_after_it_has_listened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database that is away for hours: the pauses end to grow, and the listener lives."""
    hub, closed = wake.Hub(), Unhurried()
    hub._closed = closed
    tries = iter([*["away"] * 2000, "cut", "away", "well"])

    def listen(ready: Callable[[], None], *_: object) -> None:
        found = next(tries)
        if found != "away":
            ready()
        if found != "well":
            raise OSError("the database is away")

    monkeypatch.setattr(wake, "_listen_postgresql", listen)
    monkeypatch.setattr(wake, "_watch_sqlite", listen)
    hub._subscribers[0] = lambda tasks, over: None
    hub._listen()
    assert next(tries, None) is None
    assert closed.waited[:7] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert closed.waited[1999:] == [5.0, 0.2, 0.4]


def cut_listeners() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_a_wake_that_was_lost_is_made_good_by_the_sweep(
    run: Run, elsewhere: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AGENTSTOP_SWEEP = 0.1
    monkeypatch.setattr(wake, "notify_on_commit", lambda task_ids, over=True: None)
    monkeypatch.setattr(wake, "_data_version", lambda conn: 0)
    with held(run.task_id, run.number) as signal:
        stop(run.task_id)
        assert signal.wait(HANG_GUARD)


def test_a_subscriber_that_fails_keeps_nobody_from_hearing(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def fails(tasks: frozenset[int] | None, over: bool) -> None:
        raise ValueError("not my day")

    forget = wake.subscribe(fails)
    try:
        with held(run.task_id, run.number) as signal:
            stop(run.task_id)
            assert signal.wait(HANG_GUARD)
    finally:
        forget()
    assert "a subscriber of wakes failed" in caplog.text


def test_a_signal_whose_callback_fails_still_tells_the_others(run: Run) -> None:
    told = threading.Event()

    def fails() -> None:
        raise ValueError("not my day")

    with held(run.task_id, run.number) as signal:
        signal.on_set(fails)
        signal.on_set(told.set)
        stop(run.task_id)
        assert told.wait(HANG_GUARD)


def test_it_listens_only_while_somebody_wants_to_hear(run: Run) -> None:
    wake.close()
    connections = database_connections()
    with held(run.task_id, run.number), held(run.task_id, run.number):
        assert len(listening()) == 1
    assert watch()._signals == {}
    eventually(listening, [])
    eventually(lambda: database_connections() <= connections, True)  # fewer, where one was just being closed
    with held(run.task_id, run.number) as signal:  # and begins anew
        stop(run.task_id)
        assert signal.wait(HANG_GUARD)


def test_many_runs_are_heard_by_one_listener() -> None:
    runs = [begin(f"task {number}") for number in range(20)]
    signals = [watch().hold(run.task_id, run.number) for run in runs]
    assert len(listening()) == 1
    for run in runs[::2]:
        stop(run.task_id)
    for signal in signals[::2]:
        assert signal.wait(HANG_GUARD)
    assert not any(signal.is_set() for signal in signals[1::2])
    for signal in signals:
        watch().release(signal)
