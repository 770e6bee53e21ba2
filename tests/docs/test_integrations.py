"""Each row of what the integrations promise is backed by a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS, ROOT, table

[PAGE] = [page for page in DOCS if page.name == "integrations.md"]
DEFINED = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
TESTS = {name for path in (ROOT / "tests").rglob("test_*.py") for name in DEFINED.findall(path.read_text())}


@pytest.mark.parametrize("heading", re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE))
def test_each_row_names_tests_that_exist(heading: str) -> None:
    for row in table(PAGE, heading):
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named, f"no test backs {row[0]!r}"
        assert [name for name in named if name not in TESTS] == []
