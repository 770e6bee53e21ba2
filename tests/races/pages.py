"""A task's page as its owner reads it, beside what the domain tells: the same words, in the same places."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from agentstop.accounts import account
from agentstop.reports import report

ROW = re.compile(r'<li class="agentstop-operation" id="agentstop-operation-(\d+)"(.*?)</li>', re.DOTALL)
PARTS = (
    re.compile(r'<p class="agentstop-label"><strong>(.*?)</strong>', re.DOTALL),
    re.compile(r'<p class="agentstop-evidence">(.*?)(?: <span|</p>)', re.DOTALL),
    re.compile(r'<p class="agentstop-cancellation">(.*?)</p>', re.DOTALL),
)
STATE = re.compile(r'class="agentstop-state" data-state="(\w+)"')
WHY = re.compile(r'<p class="agentstop-who".*?<q><bdi>(.*?)</bdi></q>', re.DOTALL)
LINE = re.compile(r'class="agentstop-line"[^>]*>(.*?)</p>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shown:
    """What one reads of a task: its state, why it was stopped, its line, and of each operation what became of it."""

    state: str
    reason: str
    line: str
    operations: tuple[tuple[str, ...], ...]  # of each: id, name, evidence, cancellation


def told(task_id: int) -> Shown:
    """As the domain's own report has it."""
    found = account.load(task_id)
    assert found is not None
    task = report.tell(found)
    return Shown(
        task.state,
        task.stop.reason if task.stop is not None else "",
        task.summary,
        tuple(
            (str(one.id), one.reading.name, one.reading.evidence, one.reading.cancellation) for one in task.operations
        ),
    )


def on_the_page(page: str) -> Shown:
    """As a browser shows it."""
    rows = tuple((str(number), *(_first(part, row) for part in PARTS)) for number, row in ROW.findall(page))
    return Shown(_first(STATE, page), _first(WHY, page), _first(LINE, page), rows)


def _first(pattern: re.Pattern[str], page: str) -> str:
    found = pattern.search(page)
    return html.unescape(found[1]) if found else ""
