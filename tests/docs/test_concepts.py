"""The concepts page says what the code does: its pictures, its tables and its numbered rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import pytest
from django.utils.translation import override

from agentstop.folds import evidence, folding
from agentstop.folds.folding import fold
from agentstop.folds.histories import DecisionFact, fold_task
from agentstop.folds.input_states import InputState
from agentstop.states import (
    Cancellation,
    Claim,
    OperationFacts,
    OperationState,
    RunState,
    Source,
    TaskState,
)
from agentstop.words import sentences
from agentstop.words.input_wording import NAMES
from agentstop.words.wording import Situation, read
from tests.docs.pages import ROOT, blocks, prose, table, words
from tests.folding.scenes import answer, at, attempt, facts, lost, push, read_back, receipt, unsent

PAGE = ROOT / "docs" / "concepts.md"
START = "[*]"

ONE = attempt(1, 1, 5, 6)  # its lease is over at 50
TWO = attempt(2, 40, 1000, 1001)  # being sent at 50
NEW = attempt(1, 1, 1000, 1001)

NOTHING = facts([])
REFUSED = facts([], refused=True)
SENDING = facts([NEW])
ACCEPTED = facts([ONE], [answer("accepted", 2)])
SUCCEEDED = facts([ONE], [answer("succeeded", 2)])
CANCELLED = facts([ONE], [answer("accepted", 2), push("cancelled", 9)])
FAILED = facts([ONE], [answer("failed", 2)])
UNKNOWN = facts([ONE], [lost(2)])

# For each arrow of the picture: facts before, and those with more or at a later time.
MOVES: Mapping[tuple[str, str], tuple[OperationFacts, OperationFacts]] = {
    ("prepared", "sending"): (NOTHING, SENDING),
    ("prepared", "not_sent"): (NOTHING, REFUSED),
    ("not_sent", "sending"): (facts([ONE], [unsent(2)]), facts([ONE, TWO], [unsent(2)])),
    ("failed", "sending"): (FAILED, facts([ONE, TWO], [answer("failed", 2)])),
    ("unknown", "sending"): (UNKNOWN, facts([ONE, TWO], [lost(2)])),
    ("sending", "not_sent"): (SENDING, facts([NEW], [unsent(2)])),
    ("sending", "accepted"): (SENDING, facts([NEW], [answer("accepted", 2)])),
    ("sending", "succeeded"): (SENDING, facts([NEW], [answer("succeeded", 2)])),
    ("sending", "failed"): (SENDING, facts([NEW], [answer("refused", 2)])),
    ("sending", "unknown"): (SENDING, facts([NEW], [lost(2)])),
    ("accepted", "succeeded"): (ACCEPTED, facts([ONE], [answer("accepted", 2), read_back("succeeded", 9)])),
    ("accepted", "failed"): (ACCEPTED, facts([ONE], [answer("accepted", 2), read_back("failed", 9)])),
    ("accepted", "cancelled"): (ACCEPTED, CANCELLED),
    ("accepted", "unknown"): (ACCEPTED, facts([ONE], [answer("accepted", 2), read_back("not_found", 9)])),
    ("unknown", "not_sent"): (UNKNOWN, facts([ONE], [lost(2), read_back("not_found", 9)])),
    ("unknown", "accepted"): (UNKNOWN, facts([ONE], [lost(2), read_back("running", 9)])),
    ("unknown", "succeeded"): (UNKNOWN, facts([ONE], [lost(2), read_back("succeeded", 9)])),
    ("unknown", "failed"): (UNKNOWN, facts([ONE], [lost(2), read_back("failed", 9)])),
    ("unknown", "cancelled"): (UNKNOWN, facts([ONE], [lost(2), read_back("cancelled", 9)])),
    ("succeeded", "unknown"): (SUCCEEDED, facts([ONE], [answer("succeeded", 2), push("cancelled", 9)])),
    ("cancelled", "unknown"): (
        CANCELLED, facts([ONE], [answer("accepted", 2), push("cancelled", 9), push("succeeded", 12)]),
    ),
}  # fmt: skip
BEGINNINGS = {"prepared": NOTHING, "sending": SENDING, "not_sent": REFUSED}

VERBS = {
    (START, "active"): ([], []),
    ("active", "finished"): (["start"], ["start", "fail"]),
    ("active", "stopped"): (["start"], ["start", "stop"]),
    ("active", "paused"): (["start"], ["start", "pause"]),
    ("paused", "active"): (["start", "pause"], ["start", "pause", "resume"]),
    ("paused", "stopped"): (["start", "pause"], ["start", "pause", "stop"]),
    ("finished", "active"): (["start", "finish"], ["start", "finish", "start"]),
    ("stopped", "active"): (["start", "stop"], ["start", "stop", "start"]),
}


def pictures() -> list[set[tuple[str, str]]]:
    found = [block.text for block in blocks(PAGE) if block.language == "mermaid"]
    return [set(re.findall(r"^ *(\S+) --> (\S+) : \S", text, re.MULTILINE)) for text in found]


def states_in(picture: set[tuple[str, str]]) -> set[str]:
    return {state for arrow in picture for state in arrow} - {START}


def test_the_picture_of_operations_has_every_state_and_only_ways_that_the_fold_goes() -> None:
    picture, _ = pictures()
    assert states_in(picture) == set(OperationState)
    assert picture == set(MOVES) | {(START, state) for state in BEGINNINGS}
    for (before, after), pair in MOVES.items():
        assert [fold(each, at(50)).state for each in pair] == [before, after]
    for state, known in BEGINNINGS.items():
        assert fold(known, at(50)).state == state


def test_the_picture_of_tasks_has_every_state_and_only_ways_that_the_fold_goes() -> None:
    _, picture = pictures()
    assert states_in(picture) == set(TaskState)
    assert picture == set(VERBS)
    for (before, after), verbs in VERBS.items():
        told = [fold_task(DecisionFact(verb) for verb in each).state for each in verbs]
        assert told == ["active" if before == START else before, after]


@pytest.mark.parametrize(("heading", "vocabulary"), [("Operation", OperationState), ("Task", TaskState)])
def test_every_state_is_explained(heading: str, vocabulary: type[OperationState | TaskState]) -> None:
    assert [words(row[0]) for row in table(PAGE, heading)] == [[word] for word in vocabulary]


def test_every_end_of_a_run_is_named() -> None:
    section = prose(PAGE).split("### Run\n")[1].split("\n#")[0]
    assert set(RunState) <= set(words(section))


def test_every_claim_and_source_is_explained() -> None:
    text = prose(PAGE).split("## Evidence\n")[1]
    rows = re.findall(r"^\| ([^|]+) \|", text.split("### ")[0], re.MULTILINE)
    assert [word for row in rows for word in words(row)] == [*Claim, *Source]


def one_receipt(claim: str, source: str) -> str:
    of_a_send = claim in (Claim.UNSENT, Claim.ENDED, Claim.LOST, Claim.REFUSED) or source == Source.PROVIDER
    known = facts([ONE], [receipt(claim, source, 10, 11, 1 if of_a_send else None)])
    return fold(known, at(50)).state


def test_the_table_of_evidence_is_what_the_fold_says_of_one_receipt() -> None:
    rows = table(PAGE, "What one receipt proves")
    assert [words(row[0]) for row in rows] == [[claim] for claim in Claim]
    for row in rows:
        [claim] = words(row[0])
        told = dict(zip(Source, row[1:], strict=True))
        assert {source: one_receipt(claim, source) for source in Source} == {
            source: "unknown" if cell == "-" else cell for source, cell in told.items()
        }, claim


def test_the_rules_that_the_code_refers_to_are_on_the_page() -> None:
    told = {int(number) for number in re.findall(r"^### Rule (\d+)$", PAGE.read_text(), re.MULTILINE)}
    source = "".join(map(inspect.getsource, MODULES))
    meant = {int(number) for number in re.findall(r"\b[Rr]ule (\d+)", source)}
    assert told == set(range(1, 9))
    assert meant <= told and len(meant) >= 7


MODULES = (folding, evidence)


def test_every_word_of_cancellation_is_told_with_the_sentence_that_the_page_shows() -> None:
    rows = {words(row[0])[0]: row[2] for row in table(PAGE, "Cancellation")}
    assert rows == {str(word): sentence for word, sentence in sentences.CANCELLATIONS.items()}
    assert set(rows) == set(Cancellation)


def test_the_table_of_labels_is_what_a_person_reads() -> None:
    columns = [TaskState.ACTIVE, TaskState.STOPPED, TaskState.FINISHED]
    rows = table(PAGE, "What is shown")
    assert {words(row[0])[0] for row in rows} == set(OperationState)
    for first, *labels in rows:
        state, in_lease = OperationState(words(first)[0]), "over" not in first
        with override("en"):
            read_now = [read(Situation(state, task, in_lease=in_lease)).name for task in columns]
        assert labels == read_now, first


def test_what_the_page_quotes_of_the_moment_is_what_the_page_says() -> None:
    quoted = re.findall(r'"(Whether [^"]+)"', " ".join(prose(PAGE).split()))
    assert quoted == [sentences.MOMENT_UNKNOWN]


def test_every_state_of_an_input_is_explained_and_how_far_it_was_sent() -> None:
    rows = table(PAGE, "Input")
    assert [words(row[0]) for row in rows] == [[state] for state in InputState]
    told = {words(row[0])[0]: row[2] for row in rows}
    for state, sent in NAMES:
        if state is not InputState.TAKEN:
            assert sent.value in told[state], (state, sent)
