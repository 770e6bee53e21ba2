"""That our own threads keep their database connections while there is work, and give them up when there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections

from agentstop import database
from agentstop.pool import Pool
from tests.conftest import HANG_GUARD
from tests.counted import eventually

pytestmark = pytest.mark.django_db(transaction=True)

Make = Callable[[float | None], Pool]


@pytest.fixture
def pool_that_keeps(transactional_db: None) -> Iterator[Make]:
    """Makes pools of one thread, which have ended with the test."""
    made = []

    def make(keep: float | None) -> Pool:
        made.append(Pool("test", 1, keep=keep))
        return made[-1]

    yield make
    for pool in made:
        pool.close(HANG_GUARD)


def query() -> Any:
    """Use the thread's connection; the answer tells it from another one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return connection.connection


def fail() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM WHERE")


def leave_a_transaction_open() -> None:
    connection.set_autocommit(False)
    query()


def is_given_back() -> bool:
    """Within a job: whether a connection that a pool has lent is closed, which gives it back."""
    closed = []
    query()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict["OPTIONS"], "pool", True)
        patch.setattr(connections[connection.alias], "close", lambda: closed.append(True))
        database.close_spent_connections()
    return closed == [True]


def test_a_connection_is_kept_from_job_to_job_though_requests_close_theirs(pool_that_keeps: Make) -> None:
    assert connection.settings_dict["CONN_MAX_AGE"] == 0
    pool = pool_that_keeps(HANG_GUARD)
    assert pool.submit(query).result(HANG_GUARD) is pool.submit(query).result(HANG_GUARD)


def test_an_idle_thread_gives_its_connection_up(pool_that_keeps: Make) -> None:
    pool = pool_that_keeps(0.0)
    pool.submit(query).result(HANG_GUARD)
    eventually(lambda: pool.submit(database.has_connections).result(HANG_GUARD), False)
    assert pool.submit(query).result(HANG_GUARD) is not None


def test_where_nothing_is_kept_each_job_has_a_connection_of_its_own(pool_that_keeps: Make) -> None:
    pool = pool_that_keeps(None)
    assert pool.submit(query).result(HANG_GUARD) is not pool.submit(query).result(HANG_GUARD)


def test_after_an_error_the_next_job_has_a_usable_connection(pool_that_keeps: Make) -> None:
    pool = pool_that_keeps(HANG_GUARD)
    with pytest.raises(DatabaseError):
        pool.submit(fail).result(HANG_GUARD)
    assert pool.submit(query).result(HANG_GUARD) is not None


def test_a_transaction_left_open_is_not_handed_to_the_next_job(pool_that_keeps: Make) -> None:
    pool = pool_that_keeps(HANG_GUARD)
    pool.submit(leave_a_transaction_open).result(HANG_GUARD)
    assert pool.submit(connection.get_autocommit).result(HANG_GUARD) is True


def test_a_connection_lent_by_a_pool_is_given_back_at_once(pool_that_keeps: Make) -> None:
    assert pool_that_keeps(HANG_GUARD).submit(is_given_back).result(HANG_GUARD)
