"""The timeline as HTML for a page, and as an SVG file that stands alone with its own styles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone

import agentstop
from agentstop.story import Kind
from agentstop.timeline import chronicle
from agentstop.timeline.layout import layout

FOLDER = Path(agentstop.__file__).parent / "static" / "agentstop"
COLOUR = re.compile(r"--([\w-]+): var\(--agentstop-[\w-]+, (?:light-dark\(([^,]+), ([^)]+)\)|([^)]+))\)")
USE = re.compile(r"var\(--([\w-]+)\)")
HEADING = 84.0  # height of what a file says above the picture
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def context(task_id: int, user: Any) -> dict[str, Any]:
    """What the timeline's templates are given, for this user; TaskNotFound where there is nothing for them."""
    told, story = chronicle.load(task_id, user)
    picture = layout(story, timezone.get_current_timezone())
    facts = sorted(chain(*([(fact, row) for fact in row.facts] for row in story.rows)), key=lambda pair: pair[0].at)
    return {
        "report": told,
        "story": story,
        "picture": picture,
        "height": picture.height,
        "facts": facts,
        "unsettled": [row for row in story.operations if all(fact.kind is not Kind.SETTLED for fact in row.facts)],
    }


def file(task_id: int, user: Any) -> str:
    """The same picture as an SVG document, for reports and for print."""
    shown = context(task_id, user)
    shown |= {"alone": True, "style": style(), "height": shown["picture"].height + HEADING, "heading": HEADING}
    return NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", render_to_string("agentstop/timeline.svg", shown))


@cache
def style() -> str:
    """The picture's style sheet with the panel's colours in their places: not every program knows custom properties."""
    rules = (FOLDER / "timeline.css").read_text()
    light, dark = _colours((FOLDER / "panel.css").read_text())
    return f"{_coloured(rules, light)}\n@media screen and (prefers-color-scheme: dark) {{\n{_coloured(rules, dark)}}}\n"


def _colours(sheet: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    found = COLOUR.findall(sheet)
    return {name: light or both for name, light, _, both in found}, {
        name: dark or both for name, _, dark, both in found
    }


def _coloured(rules: str, colours: Mapping[str, str]) -> str:
    return USE.sub(lambda use: colours[use[1]], rules)
