"""The embedding page names what a site can set and hear, and no more than there is."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, prose, table, words

PAGE = ROOT / "docs" / "embedding.md"
STATIC = ROOT / "agentstop" / "static" / "agentstop"
FRAGMENTS = ROOT / "agentstop" / "templates"


def test_the_properties_are_those_that_the_style_sheets_read() -> None:
    """By custom properties alone a panel takes the look of its site."""
    sheets = "".join(sheet.read_text() for sheet in STATIC.glob("*.css"))
    told = [name for row in table(PAGE, "Looks") for name in words(row[0])]
    assert sorted(told) == sorted(set(re.findall(r"var\((--agentstop-[a-z-]+)", sheets)))


def test_the_events_are_those_that_the_script_sends() -> None:
    """Facts by their kind, and what it says of the connection and of presses; each with what it carries."""
    script = (STATIC / "panel.js").read_text()
    named = re.findall(r'tell\((?:this\.)?root, ("?)(\w+)\1, \{ ([^}]*) \}', script)
    assert len(named) == len(re.findall(r"\btell\(", script)) - 1  # but for the function itself
    kinds = {
        kind
        for page in FRAGMENTS.rglob("*.html")
        for kind in re.findall(r'data-agentstop-fact="(\w+):', page.read_text())
    }
    sent = {name: _details(given) for quoted, name, given in named if quoted}
    [fact] = [_details(given) for quoted, _, given in named if not quoted]
    told = {words(row[0])[0].removeprefix("agentstop:"): set(words(row[1])) for row in table(PAGE, "Your scripts")}
    assert told == sent | dict.fromkeys(kinds, fact)
    states = re.search(r"the connection: (.*?), `over`", prose(PAGE))
    assert states and all(f'"{state}"' in script for state in [*words(states[0])])


def _details(given: str) -> set[str]:
    return {each.partition(":")[0].strip() for each in given.split(",")}
