"""The demo's MCP server in a process of its own, and the demo's agent at work with its tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from agentstop import sending
from agentstop.exceptions import Stopped
from agentstop.models import Task
from agentstop.stop import stop
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import of_key
from website.demo import agent, queue, referee
from website.demo.agents import run_for
from website.demo.models import Job
from website.demo.notes_connector import notes_connector
from website.demo.notes_log import READY, NotesLog
from website.demo.referee import Line

ROOT = Path(__file__).parents[2]
WISHES: dict[str, Any] = {"kind": "note", "topic": "tea", "channel": "#team", "pace": 0.0, "troubled": "report"}


@pytest.fixture
def notes(tmp_path: Path, website: Any, ended: None) -> Iterator[tuple[str, NotesLog]]:
    """Its address and its own log; the connector `notes` leads to it."""
    words = [sys.executable, "-m", "website.demo.lifeline", "website.demo.notes", str(tmp_path), "0"]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        address = process.stdout.readline().removeprefix(READY).strip()
        website.AGENTSTOP_CONNECTORS = {"notes": notes_connector(address)}
        website.NOTES_ADDRESS = address
        yield address, NotesLog(tmp_path)
        sending.close()
        process.stdin.close()


def test_a_note_that_is_being_written_is_left_to_finish_and_its_answer_kept(
    ann: User, in_thread: InThread, notes: tuple[str, NotesLog]
) -> None:
    """R15, R17: the server's own log and the page tell the same."""
    address, log = notes
    log.hold("note:tea")
    job = queue.enqueue(ann, WISHES)
    taken = queue.take("one")
    assert taken is not None
    run = run_for(taken)

    def work() -> None:
        with pytest.raises(Stopped):
            agent.work(job, run)

    working = in_thread(work)
    label = f"task {job.task_id}"
    eventually(lambda: [each.what for each in log.of(label)][-1:], ["began to write"])
    assert referee.told(job) == [Line("tea", each.what) for each in log.of(label)]
    stop(job.task_id, by=ann)
    working.result(HANG_GUARD)
    assert Job.objects.get().outcomes == {"read": "accepted", "note": "ignored"}
    assert of_key(job.task_id, "note:tea").label is Label.STILL_ACTIVE
    log.release("note:tea")
    eventually(lambda: of_key(job.task_id, "note:tea").label, Label.COMPLETED_BEFORE)
    assert Task.objects.get().state == "stopped"
    told = httpx.get(f"{address}/", params={"task": label}, trust_env=False).text.splitlines()
    assert [line.split("  ")[-1].strip() for line in told] == ["tea"] * 4
    assert "wrote" in told[-1]
