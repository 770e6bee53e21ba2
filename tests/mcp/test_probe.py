"""The probe against real servers: what it finds is so, and what cannot be told it does not find (R42)."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agentstop.probe.__main__ import FOUND, UNABLE, VAIN, WRONG, main
from agentstop.probe.findings import Report, Verdict
from agentstop.probe.mcp import OTHER_SESSION, _noticed
from agentstop.probe.record import NOTHING, Learned
from agentstop.providers.base import Answer, Capability, Context, Disconnect, Submission, SubmitIdempotency
from agentstop.providers.mcp import McpProvider
from agentstop.providers.mcp_calls import Call
from agentstop.providers.mcp_tool import McpTool
from agentstop.states import Claim
from tests.mcp.playing import Playing
from tests.providers.calls import closed_port

ROOT = Path(__file__).parent.parent.parent


def probed(
    tool: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str, seconds: float = 0.4, status: int = FOUND
) -> dict[str, str]:
    """The verdicts by question."""
    monkeypatch.chdir(ROOT)
    (folder / "ledger").touch()
    server = shlex.join([sys.executable, "-m", "tests.mcp.server", "stdio", str(folder)])
    arguments = json.dumps({"seconds": seconds})
    files = ["--json", str(folder / "report.json"), "--junit", str(folder / "report.xml")]
    assert main(["mcp", server, "--tool", tool, "--arguments", arguments, *files, *more]) == status
    told = json.loads((folder / "report.json").read_text())
    assert ElementTree.parse(folder / "report.xml").getroot().get("tests") == str(len(told["findings"]))  # noqa: S314  our own
    return {finding["question"]: finding["verdict"] for finding in told["findings"]} | {"record": told["record"]}


@pytest.mark.parametrize(
    "tool, noticed, effect, revision",
    [("slow_sync", "no", "yes", "2025-11-25"), ("slow_async", "not determined", "no", "2026-07-28")],
)
def test_whether_a_cancel_is_noticed_is_told_by_the_effect(
    tool: str, noticed: str, effect: str, revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = f"wc -c {shlex.quote(str(tmp_path / 'ledger'))}"
    found = probed(tool, tmp_path, monkeypatch, "--effects", effects, "--revision", revision)
    assert found["Is a cancel noticed?"] == noticed
    assert found["Does the effect still happen?"] == effect
    assert found["Do other calls on the connection survive, under a burst of cancels?"] == "yes"
    assert 'cancel="never"' in found["record"]


NAMES = {each.__name__: each for each in (McpTool, Capability, SubmitIdempotency, Disconnect, timedelta)}


def pasted(record: str) -> McpTool:
    """The tool as the record has it, accepted by the provider."""
    options = eval("{" + record + "}", NAMES)  # noqa: S307  as an operator pastes it
    provider = McpProvider(command=["server"], **options)
    assert provider.tools is not None
    return next(iter(provider.tools.values()))


@pytest.mark.parametrize("playing", [("http", "2025-11-25")], ids=["http-2025"], indirect=True)
def test_over_http_the_record_holds_what_was_learned_and_can_be_pasted(
    playing: Playing, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server by hand whose key is honoured, whose calls outlive a lost connection, and that says when it gives up."""
    playing.folder.mkdir()
    (playing.folder / "ledger").touch()
    effects = f"grep -c ^did {shlex.quote(str(playing.folder / 'ledger'))} || true"
    about = ["--tool", "play", "--arguments", '{"how": "slow"}', "--effects", effects, "--revision", playing.revision]
    assert main(["mcp", playing.way["url"], *about]) == FOUND
    told = capsys.readouterr().out
    assert "Has a second call with the same key a second effect? no" in told
    assert re.search(r"it says so \d+\.\d\d s after the cancel, and no effect followed", told)
    tool = pasted(told.partition("For the settings:")[2])
    assert (tool.cancel, tool.task) == ("ask", False)
    assert tool.capability is not None
    assert (tool.capability.submit, tool.capability.disconnect) == (SubmitIdempotency.KEY, Disconnect.GOES_ON)


def test_a_record_of_a_task_says_that_it_is_one() -> None:
    learned = Learned("2025-11-25", task=True, task_noticed=False)
    assert pasted(learned.as_settings("job")) == McpTool(cancel="never", task=True)
    assert Learned().as_settings("job") == NOTHING


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the question that takes longest and that the raw server has nothing to say to."""

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr("agentstop.probe.mcp._disconnected", nothing)
    monkeypatch.setattr("agentstop.probe.mcp._again", nothing)


def found_of_raw(tool: str, folder: Path, *more: str) -> tuple[int, dict[str, Verdict], str]:
    """Exit status, verdicts by question and everything that was reported, of a server that speaks by hand."""
    (folder / "ledger").touch()
    server = shlex.join([sys.executable, str(ROOT / "tests" / "mcp" / "raw.py"), str(folder)])
    files = ["--json", str(folder / "report.json"), "--junit", str(folder / "report.xml")]
    effects = ["--effects", f"grep -c did {shlex.quote(str(folder / 'ledger'))} || true"]
    arguments = json.dumps({"name": "it"})
    status = main(["mcp", server, "--tool", tool, "--arguments", arguments, *files, *effects, *more])
    told = (folder / "report.json").read_text()
    return status, {one["question"]: one["verdict"] for one in json.loads(told)["findings"]}, told


def test_a_server_that_says_cancelled_and_goes_on_is_found_out(tmp_path: Path, shorter: None) -> None:
    _, found, told = found_of_raw("slow_says_cancelled", tmp_path, "--revision", "2025-11-25")
    assert found["Is an answer sent after the cancel?"] == "yes"
    assert found["Does the effect still happen?"] == "yes"
    assert found["Is a cancel noticed?"] == "no"
    assert 'cancel=\\"never\\"' in told


def test_an_answer_that_names_the_cancel_and_no_effect_are_a_proof(tmp_path: Path, shorter: None) -> None:
    status, found, told = found_of_raw("slow_gives_up", tmp_path, "--revision", "2025-11-25")
    assert found["Is a cancel noticed?"] == "yes"
    assert found["Do other calls on the connection survive, under a burst of cancels?"] == "yes"
    assert status == FOUND and 'cancel=\\"ask\\"' in told


def test_a_call_that_fails_by_itself_was_neither_cancelled_nor_harmed(tmp_path: Path, shorter: None) -> None:
    status, found, told = found_of_raw("slow_fails_again", tmp_path, "--revision", "2025-11-25")
    assert found["Is an answer sent after the cancel?"] == "yes"
    assert found["Does the effect still happen?"] == "no"
    assert found["Is a cancel noticed?"] == "not determined"
    assert found["Do other calls on the connection survive, under a burst of cancels?"] == "not determined"
    assert status == FOUND and 'cancel=\\"never\\"' in told


def test_a_server_that_ends_with_the_cancel_is_told_of_with_all_that_was_seen_before(tmp_path: Path) -> None:
    status, found, told = found_of_raw("slow_dies", tmp_path, "--revision", "2025-11-25")
    assert found["Does an undisturbed call succeed?"] == "yes"
    assert found["Is an answer sent after the cancel?"] == "no"
    assert found["Does the connection outlive a cancel?"] == "no" and "the server ended with the cancel" in told
    later = list(found.values())[list(found).index("Is a cancel noticed?") : list(found).index(OTHER_SESSION) + 1]
    assert later == ["not determined"] * 4
    assert status == WRONG and 'cancel=\\"never\\"' in told


def test_progress_that_comes_at_once_after_the_cancel_is_heard(tmp_path: Path, shorter: None) -> None:
    _, found, told = found_of_raw("slow_progress", tmp_path, "--revision", "2025-11-25")
    assert found["Does progress come after the cancel?"] == "yes" and "1 kept signs of life" in told
    assert found["Is a cancel noticed?"] == "not determined"  # it may have been on its way


def test_of_many_signs_of_life_the_first_after_a_cancel_is_kept() -> None:
    kept: list[Answer] = []

    async def hear() -> None:
        context = Context(before_write=lambda: None, deadline=1.0, heard=kept.append)
        call = Call.of(McpTool(), Submission(0, "x", {}, "key"), context)
        call.progressed(Answer(Claim.RUNNING, body="first"))
        call.progressed(Answer(Claim.RUNNING, body="too soon"))
        call.told_to_give_up = True
        call.progressed(Answer(Claim.RUNNING, body="first after"))
        call.progressed(Answer(Claim.RUNNING, body="too soon again"))

    asyncio.run(hear())
    assert [answer.body for answer in kept] == ["first", "first after"]


@pytest.mark.parametrize(
    "claim, made, noticed",
    [
        (Claim.CANCELLED, False, True),
        (Claim.CANCELLED, None, None),
        (Claim.CANCELLED, True, False),
        *((claim, False, None) for claim in (Claim.LOST, Claim.FAILED, Claim.REFUSED)),
        (None, False, None),
    ],
)
def test_only_what_names_the_cancel_shows_that_it_was_noticed(
    claim: Claim | None, made: bool | None, noticed: bool | None
) -> None:
    answer = Answer(claim) if claim is not None else None
    assert _noticed(answer, went_on=False, made=made) is noticed
    assert _noticed(answer, went_on=True, made=made) is False


@pytest.mark.parametrize("more", [(), ("--effects", "echo always the same")])
def test_without_a_referee_that_sees_silence_is_not_determined(
    more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probed("slow_async", tmp_path, monkeypatch, *more)
    for question in ("Is a cancel noticed?", "Does the effect still happen?", "Does progress come after the cancel?"):
        assert found[question] == "not determined"
    assert 'cancel="never"' in found["record"]


def test_a_call_that_ends_too_soon_is_not_counted_as_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = probed("slow_async", tmp_path, monkeypatch, seconds=0.0, status=VAIN)
    assert found["Is a cancel noticed?"] == "not determined"
    assert found["record"] == "# nothing is claimed"


def test_a_tool_that_is_not_there_teaches_nothing_and_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probed("no_such_tool", tmp_path, monkeypatch, status=VAIN)
    assert found["record"] == "# nothing is claimed"
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()  # noqa: S314  our own
    assert suite.get("errors") == "1" and suite.find("testcase/error") is not None


def test_it_picks_no_tool_and_says_what_it_cannot_begin(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mcp", "http://127.0.0.1:9/mcp", "--arguments", "{}"])
    assert "--tool" in capsys.readouterr().err
    assert main(["mcp", "http://127.0.0.1:9/mcp", "--tool", "x", "--arguments", "[1]"]) == UNABLE
    assert "JSON object" in capsys.readouterr().err
    nobody = f"{closed_port()}/mcp"
    assert main(["mcp", nobody, "--tool", "x", "--arguments", "{}", "--revision", "2025-11-25"]) == UNABLE
    assert "could not be probed" in capsys.readouterr().err


def test_what_harms_others_is_a_failure_and_what_is_not_known_is_no_success() -> None:
    report = Report("a server", "a <tool>")
    report.add("Good?", Verdict.YES, "seen")
    report.add("Known?", Verdict.UNDETERMINED, "silence & more")
    report.add("Others?", Verdict.NO, "ended\x01 too", wrong=True)
    suite = ElementTree.fromstring(report.as_junit())  # noqa: S314  our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert report.wrong and report.undetermined
