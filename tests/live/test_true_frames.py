"""R37: what travels to an open page is, byte by byte, what a fresh page shows, whatever was kept of earlier looks."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from agentstop import fragments, inputs, looks
from agentstop.accounts import account
from agentstop.answers import answer, decline
from agentstop.exceptions import AgentStopError
from agentstop.fragments import Picture, Piece
from agentstop.freeze import freeze, in_force, unfreeze
from agentstop.looks import Reader, Wanted
from agentstop.models import Input, Operation, Question, Task
from agentstop.pause import pause, resume
from agentstop.reports import report
from agentstop.reports.role import Role
from agentstop.runs import Run, begin
from agentstop.settlement import settle_by_hand
from agentstop.stop import stop

pytestmark = pytest.mark.usefixtures("tools", "ended")

STEPS = 25
ROW = '<li class="agentstop-operation"'


class Life:
    """Tasks of ann's to which anything may happen, in an order that a seed decides."""

    def __init__(self, seed: int, ann: User, olga: User) -> None:
        self.draw, self.ann, self.olga = random.Random(seed), ann, olga  # noqa: S311  a life that can be repeated
        self.runs = [begin(f"task {number}", owner=ann) for number in range(2)]
        self.moves: list[Callable[[Run], Any]] = [
            *[self.send] * 6, *[self.ask, self.type] * 2, self.pause, self.resume, self.stop, self.begin, self.child,
            self.reply, self.freeze, self.settle, self.promote, self.finish,
        ]  # fmt: skip

    def step(self) -> None:
        with suppress(AgentStopError, ValueError):  # what is refused is a fact too
            self.draw.choice(self.moves)(self.draw.choice(self.runs))

    def send(self, run: Run) -> None:
        def told(_: Any) -> Any:
            outcome = self.draw.choice(["done", {"url": "https://x.example/1"}, OSError("the line is dead")])
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        run.call("file.upload", {"n": 1}, connector="tools", key=f"k{self.draw.randrange(9)}", wait=False, send=told)

    def ask(self, run: Run) -> None:
        run.ask("Send <b>it</b>?", key=f"q{self.draw.randrange(3)}", wait=False)

    def type(self, run: Run) -> None:
        inputs.add(run.task_id, "and & then", by=self.ann)
        inputs.withdraw(self.draw.choice(list(Input.objects.all())).pk, by=self.ann)

    def pause(self, run: Run) -> None:
        pause(run.task_id, by=self.ann, reason="a moment")

    def resume(self, run: Run) -> None:
        resume(run.task_id, by=self.ann)

    def stop(self, run: Run) -> None:
        stop(run.task_id, by=self.draw.choice([self.ann, self.olga]))

    def begin(self, run: Run) -> None:
        self.runs[self.runs.index(run)] = begin(run.task_id, by=self.ann)

    def child(self, run: Run) -> None:
        begin("child", serves=[run])

    def reply(self, run: Run) -> None:
        for question in Question.objects.filter(task=run.task_id):
            (answer if self.draw.random() < 0.5 else decline)(question.pk, by=self.ann)

    def freeze(self, run: Run) -> None:
        held = in_force()
        unfreeze(held[0], by=self.olga) if held else freeze(connector="tools", by=self.olga, reason="checks")

    def settle(self, run: Run) -> None:
        for operation in Operation.objects.filter(task=run.task_id, state="unknown")[:1]:
            settle_by_hand(operation.pk, by=self.ann, outcome="succeeded", reason="I looked")

    def promote(self, run: Run) -> None:
        may = Permission.objects.get(codename="stop_task")
        held = self.olga.user_permissions
        held.remove(may) if held.filter(pk=may.pk).exists() else held.add(may)

    def finish(self, run: Run) -> None:
        run.finish()


class Page:
    """What a browser shows: the panel's parts by id, and its rows in their order."""

    def __init__(self) -> None:
        self.picture: Picture | None = None
        self.parts: dict[str, str] = {}
        self.rows: dict[str, str] = {}

    def take(self, new: Picture) -> None:
        pieces = fragments.difference(self.picture, new)
        assert fragments.frame(self.picture, new) == "".join(map(fragments.carried, pieces))
        for piece in pieces:
            self._put(piece)
        self.picture = new

    def _put(self, piece: Piece) -> None:
        name = _id(piece.html) if piece.how in ("morph", "delete") else ""
        if piece.how == "delete":
            self.rows.pop(name, None)
        elif piece.how.startswith("append:"):
            self.rows |= _rows(piece.html)
        elif name.endswith("-operations"):
            self.rows = _rows(piece.html)
        else:
            place = self.rows if name in self.rows else self.parts
            place[name] = piece.html.strip() if place is self.rows else piece.html

    def shows(self, fresh: Picture) -> None:
        alert = f"agentstop-task-{fresh.task}-alert"  # a failure that is known stays quiet in a snapshot
        assert {alert: fresh.parts["alert"]} | self.parts == {_id(html): html for html in fresh.parts.values()}
        assert list(self.rows.values()) == [html.strip() for html in fresh.rows.values()]


def _id(html: str) -> str:
    found = re.search(r' id="([^"]+)"', html)
    assert found is not None
    return found[1]


def _rows(html: str) -> dict[str, str]:
    cut = [ROW + row.rstrip().removesuffix("</ol>").rstrip() for row in html.split(ROW)[1:]]
    return {_id(row): row for row in cut}


def seen(tasks: Sequence[int], readers: Sequence[Reader], drawn: dict[int, Any]) -> dict[tuple[int, Reader], Picture]:
    """All tasks in one look, as open pages have it; what was drawn is kept for the next one."""
    found = looks.look({task: Wanted(readers, drawn.get(task, {})) for task in tasks})
    drawn |= {task: each.pictures for task, each in found.items()}
    return {(task, who): each.pictures[each.variants[who]] for task, each in found.items() for who in each.variants}


@pytest.mark.parametrize("seed", [1, 2])
def test_after_any_life_an_open_page_shows_what_a_fresh_one_does(ann: User, olga: User, seed: int) -> None:
    life = Life(seed, ann, olga)
    readers = [Reader(ann.pk, "en", "UTC"), Reader(olga.pk, "de", "Asia/Tokyo")]
    drawn: dict[int, Any] = {}
    pages: dict[tuple[int, Reader], Page] = {}
    for _ in range(STEPS):
        life.step()
        tasks = list(Task.objects.order_by("pk").values_list("pk", flat=True))
        for key, picture in seen(tasks, readers, drawn).items():
            page = pages.setdefault(key, Page())
            page.take(picture)
            [fresh] = seen([key[0]], [key[1]], {}).values()
            page.shows(fresh)
    assert any(page.rows for page in pages.values())


def test_a_part_that_were_kept_too_long_would_be_found(ann: User, olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments.Drawn, "is_of", lambda self, report: True)
    with pytest.raises(AssertionError):
        test_after_any_life_an_open_page_shows_what_a_fresh_one_does(ann, olga, 1)


def test_what_a_sites_own_tags_read_of_a_report_counts_as_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are Python, and read attributes."""
    monkeypatch.setattr(fragments, "render_to_string", lambda _, context: f"<p >{context['report'].title}</p>")

    def drawn(before: Picture | None) -> Picture:
        found = account.load(run.task_id)
        assert found is not None
        return fragments.draw(report.tell(found), Role(may_stop=True), before, whole=False)

    first = drawn(None)
    assert drawn(first).pieces["task"] is first.pieces["task"]
    Task.objects.filter(pk=run.task_id).update(title="another")
    assert drawn(first).in_lists == "<p >another</p>"
