"""The figures as a table for people, or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from bench.gate.figures import Figures, Part

HEAD = f"{'':35}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}{'undisturbed':>13}"
EXPLANATION = """
ratio: times as long as the first line of its group, by the medians of each round; the middle of the rounds
undisturbed: the same by the fastest tenth of all calls, where the machine was least busy with something else"""
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
        "times_the_limit": round(figures.times(limit), 1),
        "times_the_limit_undisturbed": round(figures.times_undisturbed(limit), 1),
        "limit": limit.name,
    }


def as_text(parts: Sequence[Part]) -> str:
    return "\n".join([conditions(), *(line for part in parts for line in lines(part)), EXPLANATION])


def lines(part: Part) -> list[str]:
    found = []
    for callers in sorted({each.callers for each in part.figures}):
        by = "one caller" if callers == 1 else f"{callers} callers at once on one task"
        found += ["", f"{part.database}, {by}:", HEAD]
        found += [line(part, each) for each in part.figures if each.callers == callers]
    return [*found, *("", *part.missing)] if part.missing else found


def line(part: Part, figures: Figures) -> str:
    cells = row(part, figures)
    times = f"{cells['times_the_limit']:8.1f}{cells['times_the_limit_undisturbed']:13.1f}"
    return f"{cells['subject']:35}{cells['p50_ms']:9.3f}{cells['p99_ms']:9.3f}{times}"


def conditions() -> str:
    """What the figures depend on, in general words."""
    packages = ", ".join(filter(None, map(versioned, PACKAGES)))
    return f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {packages}"


def versioned(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""
