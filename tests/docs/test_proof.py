"""The table of races names the tests that play each point, and leaves none out."""

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
