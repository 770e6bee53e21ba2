"""A process says of the runs that it holds that it lives; where nobody says so, the run counts as silent (R22)."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import alive, silence
from agentstop.accounts import account
from agentstop.dispatched import Dispatched
from agentstop.exceptions import Paused, Stopped
from agentstop.models import Attempt, Decision, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD
from tests.counted import eventually
from tests.observed import task_of
from tests.passing import let_pass

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 3600.0


def row(run: Run) -> RunRow:
    return RunRow.objects.get(task=run.task_id, number=run.number)


def unheard(run: Run) -> None:
    """As if nobody had heard of its process for an hour."""
    let_pass(run.task_id, LONG)


def is_heard(run: Run) -> bool:
    return timezone.now() - row(run).seen_at < timedelta(seconds=LONG / 2)


def line(run: Run) -> Any:
    found = account.load(run.task_id)
    assert found is not None
    return report.tell(found).agent


def page(user: User, address: str) -> str:
    client = Client()
    client.force_login(user)
    return str(client.get(address).content.decode())


@pytest.fixture
def beaten(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Beats come ten times a second, and each is counted."""
    settings.AGENTSTOP_SILENCE = 0.4
    count, beat = threading.Semaphore(0), alive.beat

    def counted(runs: Iterable[alive.RunKey]) -> None:
        beat(runs)
        count.release()

    monkeypatch.setattr(alive, "beat", counted)
    yield count
    alive.close()


def one_more(beaten: threading.Semaphore) -> None:
    """Wait for a beat that begins from now on."""
    while beaten.acquire(blocking=False):
        pass
    for _ in range(2):
        assert beaten.acquire(timeout=HANG_GUARD)


class TestARunThatIsHeld:
    def test_is_said_to_be_alive_without_a_word_of_its_agent(self, beaten: threading.Semaphore) -> None:
        run = begin("Long")
        with run:
            for _ in range(2):
                unheard(run)
                one_more(beaten)
                assert is_heard(run)

    def test_in_an_async_block_too(self, beaten: threading.Semaphore) -> None:
        import asyncio

        run = begin("Long")

        async def agent() -> None:
            async with run:
                await asyncio.to_thread(one_more, beaten)

        asyncio.run(agent())
        assert row(run).state == "finished"

    def test_is_heard_of_the_moment_it_is_held(self) -> None:
        """A job that waited in a queue for an hour has not been silent once it is there."""
        run = begin("Queued for long")
        unheard(run)
        with run:
            assert is_heard(run)

    def test_nothing_is_said_before_and_after(self, beaten: threading.Semaphore) -> None:
        run, other = begin("Not held"), begin("Held")
        with other:
            unheard(run)
            one_more(beaten)
            assert not is_heard(run)
        with pytest.raises(Paused), run:
            raise Paused("its job comes back")
        unheard(run)
        eventually(lambda: [t.name for t in threading.enumerate() if t.name == "agentstop-beat"], [])
        assert (alive.beats()._held, is_heard(run)) == ({}, False)

    def test_that_two_blocks_hold_is_alive_until_both_are_left(self, beaten: threading.Semaphore) -> None:
        run = begin("Twice")
        with run:
            with pytest.raises(Paused), run:
                raise Paused("the inner one")
            unheard(run)
            one_more(beaten)
            assert is_heard(run)

    def test_a_sign_of_life_that_cannot_be_stored_ends_nothing(
        self, beaten: threading.Semaphore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        run, tried, note = begin("Long"), threading.Event(), alive._note

        def fails(number: int, tasks: list[int]) -> None:
            if tried.is_set():
                return note(number, tasks)
            tried.set()
            raise DatabaseError("gone")

        with caplog.at_level(logging.WARNING, "agentstop.alive"):
            monkeypatch.setattr(alive, "_note", fails)
            with run:
                unheard(run)
                one_more(beaten)
                assert is_heard(run)
        assert [getattr(record, "action", "") for record in caplog.records] == ["beat_failed"]

    def test_a_process_that_is_killed_is_heard_of_no_more(self, database_url: str, settings: Settings) -> None:
        """Worker gone: by its missing heartbeat, though it was neither sending nor asking anything."""
        settings.AGENTSTOP_SILENCE = 2.0
        run = begin("Elsewhere")
        unheard(run)
        code = (
            "import sys, django; django.setup()\n"
            "from django.conf import settings\n"
            "settings.AGENTSTOP_SILENCE = 0.4\n"
            "from agentstop.runs import Run\n"
            f"with Run({run.task_id}, {run.number}):\n"
            "    print('held', flush=True); sys.stdin.read()\n"
        )
        environment = os.environ | {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        with subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None and worker.stdout.readline() == "held\n"
            unheard(run)
            eventually(lambda: is_heard(run), True)
            worker.kill()
            worker.wait(HANG_GUARD)
        unheard(run)
        assert (line(run).silent, task_of(run).state) == (True, "active")
        assert stop(run.task_id).stopped


class TestASignOfLife:
    def test_after_a_stop_says_that_the_agent_runs_on_and_changes_nothing_else(self, ann: User) -> None:
        run = begin("Report", owner=ann)
        stop(run.task_id, by=ann)
        before = task_of(run), Decision.objects.count()
        RunRow.objects.update(seen_at=timezone.now() - timedelta(seconds=30))
        alive.beat([(run.task_id, run.number)])
        assert line(run).text == "The agent is still running; it can send nothing new."
        after = row(run)
        assert (after.state, after.halted_at) == ("stopped", None)
        task = task_of(run)
        assert all(getattr(before[0], each.attname) == getattr(task, each.attname) for each in Task._meta.fields)
        assert Decision.objects.count() == before[1]
        with pytest.raises(Stopped):
            run.check()
        assert list(differences()) == []

    def test_of_a_process_that_said_it_has_ended_is_not_noted(self, ann: User) -> None:
        run = begin("Report", owner=ann)
        stop(run.task_id, by=ann)
        run.halted()
        unheard(run)
        alive.beat([(run.task_id, run.number)])
        assert not is_heard(run)

    def test_of_an_old_run_is_none_of_the_new_one(self, ann: User) -> None:
        old = begin("Report", owner=ann)
        new = begin(old.task_id)
        unheard(new)
        alive.beat([(old.task_id, old.number)])
        assert (is_heard(old), is_heard(new)) == (True, False)

    def test_of_what_never_was_is_nothing(self) -> None:
        alive.beat([(10**9, 1), (10**9, 10**6)])

    def test_counts_from_the_clock_as_it_is_when_that_was_set_back(self) -> None:
        run = begin("Report")
        RunRow.objects.update(seen_at=timezone.now() + timedelta(hours=1))
        alive.beat([(run.task_id, run.number)])
        assert row(run).seen_at <= timezone.now() + timedelta(seconds=1)

    def test_of_a_thousand_runs_takes_a_few_statements(self) -> None:
        runs = [begin("One")]
        keys = [(runs[0].task_id + number, 1) for number in range(1000)]
        with CaptureQueriesContext(connection) as asked:
            alive.beat(keys)
        assert len(asked) <= 4


def quiet(run: Run) -> None:
    pass


def sends(run: Run) -> None:
    run.call("work", connector="tools", key="k", send=lambda op: "done")


def checks(run: Run) -> None:
    run.check()


def pauses(run: Run) -> None:
    pause(run.task_id)
    RunRow.objects.update(seen_at=timezone.now() - timedelta(hours=1))


def begins_again(run: Run) -> None:
    begin(run.task_id)


@pytest.mark.usefixtures("tools")
class TestSilence:
    @pytest.mark.parametrize(
        ("does", "silent"),
        [
            (quiet, True),
            (sends, False),
            (checks, False),
            (pauses, True),
            (begins_again, False),
            (Run.finish, False),
            (lambda run: stop(run.task_id), False),
        ],
        ids=["nothing", "sends", "checks", "paused", "begins again", "finishes", "stopped"],
    )
    def test_the_list_and_the_page_agree_on_it(self, does: Callable[[Run], object], silent: bool) -> None:
        run = begin("Report")
        unheard(run)
        does(run)
        assert silence.silent(Task.objects.all()).exists() is silent
        assert line(run).silent is silent

    def test_who_waits_for_an_answer_is_not_silent(self) -> None:
        run = begin("Report")

        def slow(op: Dispatched) -> str:
            RunRow.objects.update(seen_at=timezone.now() - timedelta(hours=1))
            Attempt.objects.update(passed_at=timezone.now() - timedelta(hours=1))
            assert not silence.silent(Task.objects.all()).exists()
            assert not line(run).silent
            return "done"

        assert run.call("work", connector="tools", key="k", send=slow).accepted

    def test_page_and_lists_say_since_when_and_can_be_filtered_by_it(self, ann: User, olga: User) -> None:
        olga.user_permissions.add(Permission.objects.get(codename="view_run"))
        olga.user_permissions.add(Permission.objects.get(codename="view_decision"))
        silent, other = begin("Left alone", owner=ann), begin("At work", owner=ann)
        unheard(silent)
        assert "no sign of life since" in page(ann, f"/tasks/{silent.task_id}/")
        assert "no sign of life since" not in page(ann, f"/tasks/{other.task_id}/")
        for address in ("/admin/agentstop/task/?agent=silent", "/admin/agentstop/run/?agent=silent"):
            found = page(olga, address)
            assert ("Left alone" in found, "At work" in found) == (True, False), address
        for address in ("/admin/agentstop/task/", "/admin/agentstop/run/"):
            found = page(olga, address)
            assert ("Left alone" in found, "At work" in found) == (True, True), address
