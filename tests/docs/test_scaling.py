"""What the page for several machines claims is backed by tests that exist, and its numbers are those of the code."""

from __future__ import annotations

import re

from django.utils.module_loading import import_string

from tests.docs.pages import ROOT, table
from tests.docs.test_integrations import TESTS

PAGE = ROOT / "docs" / "scaling.md"


def test_each_row_of_what_dies_names_tests_that_exist() -> None:
    for row in table(PAGE, "What happens when each dies"):
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named, f"no test backs {row[0]!r}"
        assert [name for name in named if name not in TESTS] == []


def test_the_numbers_are_those_of_the_code() -> None:
    rows = table(PAGE, "Numbers")
    assert {row[0]: row[1] for row in rows} == {row[0]: str(import_string(row[0].strip("`"))) for row in rows}
