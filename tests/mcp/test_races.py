"""The race runner plays an agent of MCP calls: on each transport, in each revision, the server's own log as referee."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop.outcomes import Outcome
from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.runs import Run
from agentstop.testing.races.rows import ROWS
from agentstop.testing.races.stage import LedgerStage
from tests.counted import eventually
from tests.mcp.conftest import Referee
from tests.mcp.playing import TOOLS, Playing

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

POINTS = ("received", "accepted", "effect")
# Not P7: this server always answers. Nor P5 and P9 to P12: no call of a plain tool is accepted before it is done.
# These are played below, with the server by hand and its tasks.
PLAYED = [each for each in ROWS if each.name.split()[0] in ("P0", "P1", "P2", "P3", "P4", "P6", "P8")]
ASKED = [("stdio", "2026-07-28"), ("http", "2025-11-25")]
DONE, NOT_SENT = ["completed before cancellation"], ["not sent"]


@dataclass
class ServerStage(LedgerStage):
    """The server of these tests: it is held at its own points, and its ledger is what its tool has written down."""

    can_hold: bool = True
    referee: Referee = field(kw_only=True)

    @property
    def ledger(self) -> list[str]:
        path = self.referee.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def reset(self, misbehave: Mapping[str, Any]) -> None:
        super().reset(misbehave)
        assert not misbehave
        for point in POINTS:
            self.release(point)
        self.seen = len(self.ledger)

    def hold(self, point: str) -> None:
        (self.referee.folder / f"hold-{point}").touch()

    def reached(self, point: str, seconds: float) -> bool:
        eventually(lambda: any(line.startswith(f"at-{point} ") for line in self.ledger[self.seen :]), True)
        return True

    def release(self, point: str) -> None:
        (self.referee.folder / f"hold-{point}").unlink(missing_ok=True)

    def settled(self, key: str) -> None:
        """Whatever has begun here has come to its end: a plain function always does."""
        begun = self.referee.did(key).count("at-received")
        eventually(lambda: self.referee.did(key).count("answers"), begun)

    def submits(self, key: str) -> int:
        return self.referee.did(key).count("at-received")


@dataclass
class ScriptedStage(ServerStage):
    """The server by hand: held also while it works and is asked to cancel; it misbehaves as told."""

    referee: Playing = field(kw_only=True)  # type: ignore[assignment]

    def reset(self, misbehave: Mapping[str, Any]) -> None:
        super().reset({})
        for point in ("working", "cancel"):
            self.release(point)
        (self.referee.folder / "misbehave").write_text(json.dumps(dict(misbehave)))

    def behave(self) -> None:
        (self.referee.folder / "misbehave").write_text("{}")

    def settled(self, key: str) -> None:
        self.referee.settled(key)

    def submits(self, key: str) -> int:
        return self.referee.count("asked", key)


def note(run: Run) -> Outcome:
    return run.call("raced", {}, connector="mcp", key="note")


def stage_of(referee: Referee, settings: Settings, policy: str) -> ServerStage:
    tool = McpTool(cancel=policy, key_argument="name")
    provider = referee.connect(settings, tools={"raced": tool})
    assert isinstance(provider, McpProvider)
    return ServerStage(effects=lambda key: referee.did(key).count("did"), referee=referee)


def test_every_race_with_a_tool_that_is_left_to_finish(
    referee: Referee, ann: User, settings: Settings, agentstop_races: Any
) -> None:
    """R7, R15, R25, R41: nothing leaves after the stop, what had left is told as the log has it, nothing is stale."""
    stage = stage_of(referee, settings, "never")
    races = agentstop_races(note, owner=ann, stage=stage, beside=note, patience=30.0)
    result = races.play(PLAYED).check()
    ends = {(each.row[:2], each.when): (each.ends, each.writes) for each in result.played}
    assert ends["P0", "before"] == ends["P2", "before"] == (NOT_SENT, 0)
    for point in ("P3", "P4", "P6", "P8"):
        assert ends[point, "before"] == ends[point, "after"] == (DONE, 1), str(result)
    assert (result.stale, len(result.played)) == (0, 13)


@pytest.mark.parametrize("referee", ASKED, ids=["stdio-2026", "http-2025"], indirect=True)
def test_a_tool_that_was_asked_to_give_up_is_told_as_what_is_known(
    referee: Referee, ann: User, settings: Settings, agentstop_races: Any
) -> None:
    """R14: it writes all the same, and the protocol's silence or "cancelled" is never shown as cancelled."""
    stage = stage_of(referee, settings, "ask")
    rows = [each for each in PLAYED if each.name.startswith("P3")]
    result = agentstop_races(note, owner=ann, stage=stage, patience=30.0).play(rows).check()
    assert {each.writes for each in result.played} == {1}
    before = [each.ends for each in result.played if each.when == "before"]
    assert all(ends in (["unknown outcome"], ["still active"], DONE) for ends in before), str(result)


TASK_ROWS = [each for each in ROWS if each.name.split()[0] in ("P5", "P7", "P9", "P10", "P11", "P12")]
BOTH = [("stdio", "2025-11-25"), ("http", "2026-07-28")]
UNKNOWN, ACTIVE = ["unknown outcome"], ["still active"]


def job(run: Run) -> Outcome:
    return run.call("job", {}, connector="mcp", key="job", deadline=1.0)


@pytest.mark.parametrize("playing", BOTH, ids=["stdio-2025", "http-2026"], indirect=True)
def test_every_race_with_a_task(playing: Playing, ann: User, settings: Settings, agentstop_races: Any) -> None:
    """R11, R14, R20, R41: the effect follows the server, and "cancelled" of a task's status is never believed."""
    options = {**playing.way, "tools": TOOLS}
    settings.AGENTSTOP_CONNECTORS = {"mcp": {"PROVIDER": "agentstop.providers.mcp.McpProvider", "OPTIONS": options}}
    playing.folder.mkdir()
    stage = ScriptedStage(effects=lambda key: playing.count("did", key), referee=playing)
    result = agentstop_races(job, owner=ann, stage=stage, beside=job, patience=30.0).play(TASK_ROWS).check()
    ends = {(each.row, each.when): (each.ends, each.writes) for each in result.played}
    told = {(row.partition(" ")[0], when): end for (row, when), end in ends.items() if "fails" not in row}
    assert told["P5", "before"] == told["P9", "before"] == (UNKNOWN, 0), str(result)
    assert told["P5", "after"] == told["P10", "before"] == (DONE, 1), str(result)
    for when in ("before", "after"):
        assert told["P7", when] in ((UNKNOWN, 1), (ACTIVE, 1)), str(result)
    assert ends["P10 cancel request fails", "before"] in ((DONE, 1), (UNKNOWN, 0)), str(result)  # it is sent again
    acknowledged = DONE if playing.revision == "2026-07-28" else UNKNOWN  # before, the status has to say "cancelled"
    assert told["P11", "before"] == (acknowledged, 1), str(result)
    assert told["P12", "before"] == (UNKNOWN, 1), str(result)
    assert (result.stale, [each.row for each in result.played if each.skipped]) == (0, [])
