"""The tables of proof name tests that there are; that of the races leaves none out."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tests.docs.pages import ROOT, table, words
from tests.races import (
    test_both_sides,
    test_cancelling,
    test_contradicted,
    test_killed,
    test_late_cancels,
    test_workers,
)

PLAYED = (test_both_sides, test_cancelling, test_contradicted, test_killed, test_late_cancels, test_workers)
POINT = re.compile(r"\bP\d+\b")


def played() -> Iterator[Callable[..., Any]]:
    for module in PLAYED:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                yield function


def points_of(test: Callable[..., Any]) -> set[str]:
    """The points of the rows that a test is called with; else those that its name or docstring tells."""
    rows = [mark.args[1] for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    told = [str(getattr(row, "row", row)) for each in rows for row in each]
    told = told or [test.__name__.replace("_", " ").upper(), inspect.getdoc(test) or ""]
    return {found[0] for text in told if (found := POINT.search(text))}


def test_the_table_of_races_names_the_tests_that_play_each_point() -> None:
    named: dict[str, set[str]] = defaultdict(set)
    for point, *cells in table(ROOT / "docs" / "proof.md", "Both sides of each race"):
        for test in words(" ".join(cells)):
            named[test].add(point)
    assert dict(named) == {test.__name__: points_of(test) for test in played()}


def test_every_point_is_in_the_table() -> None:
    rows = table(ROOT / "docs" / "proof.md", "Both sides of each race")
    assert [row[0] for row in rows] == [f"P{number}" for number in range(13)]


DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)


def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Each case of what went wrong elsewhere, with the tests that are named for it."""
    page = (ROOT / "docs" / "proof.md").read_text()
    section = page.split("\n## What went wrong elsewhere\n")[1].split("\n## ")[0]
    for heading in re.findall(r"^### (.+)$", section, re.MULTILINE):
        for case, tests in table(ROOT / "docs" / "proof.md", heading):
            yield case, words(tests)


def test_each_case_of_what_went_wrong_elsewhere_names_tests_that_there_are() -> None:
    defined = {name for file in (ROOT / "tests").rglob("test_*.py") for name in DEFINED.findall(file.read_text())}
    cases = list(elsewhere())
    assert len(cases) > 15
    assert [case for case, tests in cases if not tests] == []
    assert [name for _, tests in cases for name in tests if name not in defined] == []
