"""The project's documents as a test sees them: their code blocks, links, anchors and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
README = ROOT / "README.md"

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `title` names the file of the reader's project that it belongs to, where it does to one."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    title: str
    text: str
    prints: str | None  # the `text` block right below it

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The page's blocks in order."""
    return list(_blocks(page, page.read_text()))


def _blocks(page: Path, text: str) -> Iterator[Block]:
    found = list(FENCE.finditer(text))
    for number, fence in enumerate(found):
        title = TITLE.search(fence["info"])
        language, *words = TITLE.sub("", fence["info"]).split() or [""]
        below = found[number + 1] if number + 1 < len(found) else None
        touches = below is not None and not text[fence.end() : below.start()].strip()
        prints = below["text"] if below is not None and touches and below["info"].strip() == "text" else None
        line = text.count("\n", 0, fence.start("text")) + 1
        yield Block(page, line, language, tuple(words), title[1] if title else "", fence["text"], prints)


def prose(page: Path) -> str:
    """The page without its blocks."""
    return FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    return LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The names by which the page's headings are linked to."""
    return {anchor(heading) for heading in HEADING.findall(prose(page))}


def anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def table(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head; backticks are taken off whole cells."""
    text = prose(page)
    _, found, rest = text.partition(f"# {heading}\n")
    assert found, f"{page.name} has no heading {heading!r}"
    section = re.split(r"^#{1,6} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert len(lines) > 2, f"{page.name} has no table under {heading!r}"
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def words(cell: str) -> list[str]:
    """What stands between backticks in a cell."""
    return re.findall(r"`([^`]*)`", cell)
