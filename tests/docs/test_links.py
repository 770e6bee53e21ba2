"""The documents hang together: every link leads somewhere, every page can be reached, every decision has its price."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, prose

EVERY = sorted({*DOCS, *ROOT.glob("*.md")})
INDEX = ROOT / "docs" / "index.md"
DECISIONS = ROOT / "docs" / "decisions.md"


@pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    broken = [link for link in links(page) if "://" not in link and not leads_somewhere(page, link)]
    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target))


def test_the_index_leads_to_every_page() -> None:
    reached = {(INDEX.parent / link.partition("#")[0]).resolve() for link in links(INDEX)}
    assert set(DOCS) - {INDEX} <= reached


def decisions() -> list[str]:
    return re.split(r"^## ", prose(DECISIONS), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("decision", decisions(), ids=lambda text: text.splitlines()[0])
def test_a_decision_has_a_date_a_context_and_a_price(decision: str) -> None:
    _, _, *lines = decision.strip().splitlines()
    assert re.match(r"\d{4}-\d{2}-\d{2}\. \*\*Context\.\*\* ", lines[0])
    assert re.findall(r"\*\*(\w+)\.\*\*", decision) == ["Context", "Decision", "Price"]
    assert len(lines) <= 7
