"""The figures as a table for people, or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from bench.gate.figures import Figures, Part

PACKAGES = ("django", "psycopg", "dbos")


def as_json(parts: Sequence[Part]) -> str:
    found = [
        {"database": part.database, "figures": [row(part, each) for each in part.figures], "missing": part.missing}
        for part in parts
    ]
    return json.dumps({"conditions": conditions(), "databases": found}, indent=2)


def row(part: Part, figures: Figures) -> dict[str, object]:
    limit = part.limit_of(figures)
    return {
        "subject": figures.name,
        "callers": figures.callers,
        "p50_ms": round(figures.quantile(0.5), 3),
        "p99_ms": round(figures.quantile(0.99), 3),
        "times_the_limit": round(figures.times(limit), 2),
        "limit": limit.name,
    }


def as_text(parts: Sequence[Part]) -> str:
    return "\n".join([conditions(), *(line for part in parts for line in lines(part))])


def lines(part: Part) -> list[str]:
    found = []
    for callers in sorted({each.callers for each in part.figures}):
        by = "one caller" if callers == 1 else f"{callers} callers at once on one task"
        found += ["", f"{part.database}, {by}:", f"{'':35}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}"]
        found += [line(part, each) for each in part.figures if each.callers == callers]
    return [*found, *("", *part.missing)] if part.missing else found


def line(part: Part, figures: Figures) -> str:
    cells = row(part, figures)
    return f"{cells['subject']:35}{cells['p50_ms']:9.3f}{cells['p99_ms']:9.3f}{cells['times_the_limit']:8.2f}"


def conditions() -> str:
    """What the figures depend on, in general words."""
    packages = ", ".join(filter(None, map(versioned, PACKAGES)))
    return f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {packages}"


def versioned(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""
