"""R2, R3: the one line of a task and the line of its agent; and the tables of sentences as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from agentstop.states import RunState, TaskState
from agentstop.words import sentences, wording
from agentstop.words.agent_wording import read_agent
from agentstop.words.wording import Label, Reading, Situation, count, read, summarise
from tests.wording.situations import (
    AFTER,
    BEFORE,
    CAPABLE,
    DECIDING,
    PRESS,
    UNABLE,
    C,
    S,
    T,
    stopped,
)


def test_one_line_says_that_nothing_new_will_be_sent_and_counts_the_rest() -> None:
    counts = {Label.NOT_SENT: 3, Label.CANCELLED: 1, Label.STILL_ACTIVE: 1, Label.UNKNOWN: 2}
    assert summarise(T.STOPPED, counts) == (
        "Stopped. Nothing new will be sent. 1 still active · 1 cancelled · 2 unknown outcomes · 3 not sent"
    )
    assert summarise(T.STOPPED, {}) == "Stopped. Nothing new will be sent. No operations."
    assert summarise(T.ACTIVE, {Label.IN_PROGRESS: 1, Label.UNKNOWN: 0}) == "Running. 1 in progress"


def test_undoings_are_counted_apart() -> None:
    undoings = count({Label.COMPLETED: 1, Label.FAILED: 2})
    assert summarise(T.STOPPED, {Label.COMPLETED_BEFORE: 3}, undoings=undoings) == (
        "Stopped. Nothing new will be sent. 3 completed before cancellation · undoing: 2 failed · 1 completed"
    )
    assert count({}) == count({Label.FAILED: 0}) == ""


@pytest.mark.parametrize(
    ("run", "task", "more", "text", "since"),
    [
        (None, T.ACTIVE, {}, sentences.NO_AGENT, None),
        (RunState.LIVE, T.ACTIVE, {"heard_at": BEFORE}, sentences.AGENT_RUNNING, BEFORE),
        (RunState.LIVE, T.ACTIVE, {"heard_at": BEFORE, "silent": True}, sentences.AGENT_SILENT, BEFORE),
        (RunState.STOPPED, T.STOPPED, {"heard_at": BEFORE}, sentences.AGENT_NOT_HEARD_OF, BEFORE),
        (RunState.STOPPED, T.STOPPED, {"heard_at": AFTER}, sentences.AGENT_STILL_RUNNING, AFTER),
        (RunState.STOPPED, T.STOPPED, {"heard_at": AFTER, "halted_at": AFTER}, sentences.AGENT_HALTED, AFTER),
        (RunState.STOPPED, T.STOPPED, {}, sentences.AGENT_NOT_HEARD_OF, None),
        (RunState.FINISHED, T.FINISHED, {"heard_at": BEFORE}, "The agent has finished.", BEFORE),
        (RunState.FAILED, T.FINISHED, {"heard_at": BEFORE}, "The agent ended with an error.", BEFORE),
    ],
)
def test_the_agents_own_line_says_what_its_process_said_and_no_more(
    run: RunState | None, task: TaskState, more: dict[str, object], text: str, since: datetime | None
) -> None:
    line = read_agent(run, task, stopped_at=PRESS, **more)  # type: ignore[arg-type]  # the keywords of read_agent
    assert (line.text, line.since) == (text, since)


def test_every_run_has_a_line_of_its_agent() -> None:
    for run, task in product([None, *RunState], T):
        assert read_agent(run, task).text


def test_the_language_that_is_active_when_it_is_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "gettext", lambda text: f"<{text}>")
    reading = read(stopped(S.ACCEPTED, DECIDING[S.ACCEPTED], cancellation=C.SENT, capability=UNABLE))
    shown = [reading.name, reading.evidence, reading.cancellation, reading.next_step, reading.limit]
    assert all(text.startswith("<") and text.endswith(">") for text in shown)


def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    reading: Reading = read(Situation(S.SENDING, T.ACTIVE, in_lease=True, capability=CAPABLE))
    assert (reading.cancellation, reading.limit) == ("", "")


def test_no_sentence_holds_a_time_or_ends_without_a_full_stop() -> None:
    tables: list[Mapping[Any, str]] = [
        sentences.RECEIPTS,
        sentences.CANCELLATIONS,
        sentences.REFUSALS,
        sentences.AFTER_REFUSAL,
        sentences.TASKS,
        sentences.EXTENTS,
        sentences.NOT_UNDONE,
        sentences.SAID_SINCE,
        {state: text for state, (text, _) in sentences.UNDOINGS.items()},
    ]
    said = [text for table in tables for text in table.values() if text]
    said += [text for name, text in vars(sentences).items() if name.isupper() and isinstance(text, str)]
    parts = (sentences.BEING_SENT, sentences.SOMEBODY, sentences.A_PERSON, sentences.UNDOING_COUNTED)
    filled = re.compile(r"%\((?:operations|seconds|counts|percent|run)\)s(?: %%)?")
    for text in said:
        assert text in parts or text.endswith("."), text
        assert "%" not in filled.sub("", text), text


def test_the_labels_are_written_nowhere_else() -> None:
    names = {text for text in sentences.NAMES.values() if " " in text}
    for path in Path(sentences.__file__).parent.rglob("*.py"):
        if path.name != "sentences.py":
            written = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not names & written, path
