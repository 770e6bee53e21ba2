"""Every Python block of the documents runs, on a real database against a real provider, and prints what it says."""

from __future__ import annotations

import copy
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from pytest_django.fixtures import Settings

from agentstop.testing.sandbox.client import SandboxClient
from tests.docs.pages import DOCS, README, Block, blocks
from tests.docs.walk import SANDBOX, Put, Walk, Wrong, python

PAGES = [page for page in DOCS if python(page)]


@pytest.fixture
def walk(
    transactional_db: None,
    sandbox: SandboxClient,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Walk]:
    """A reader whose settings are those of the tests, with what a page adds to them."""

    def put(block: Block, names: dict[str, Any]) -> None:
        if block.title.endswith("settings.py"):
            for name, value in names.items():
                if name.startswith("AGENTSTOP_"):
                    setattr(settings, name, value)

    before = set(sys.modules)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)}
    monkeypatch.syspath_prepend(tmp_path)
    yield SiteWalk(sandbox.address, put, tmp_path)
    for number, handler in handlers.items():  # a worker on a page takes them
        signal.signal(number, handler)
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "mysite":
            del sys.modules[name]


def site() -> dict[str, Any]:
    """The names in settings and URLs that the blocks of a page go on from, as in the reader's own project."""
    databases = copy.deepcopy({"default": django_settings.DATABASES["default"]})
    folders = {"TEMPLATES": copy.deepcopy(django_settings.TEMPLATES), "BASE_DIR": Path()}
    return folders | {"INSTALLED_APPS": list(django_settings.INSTALLED_APPS), "DATABASES": databases, "urlpatterns": []}


class SiteWalk(Walk):
    """A reader who has a project already."""

    def __init__(self, address: str, put: Put, folder: Path) -> None:
        super().__init__(address, put)
        self.folder = folder
        self.names |= site()

    def module(self, block: Block) -> None:
        """Also as a file, since a process of its own imports it from there."""
        written = self.folder / block.title
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(block.text.replace(SANDBOX, self.address))
        super().module(block)

    def project(self) -> dict[str, Any]:
        return site()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_and_prints_what_the_page_says(walk: Walk, page: Path) -> None:
    walk.run(python(page))


def test_the_blocks_of_the_readme_that_are_marked_as_runnable_run(walk: Walk) -> None:
    if README.exists():
        walk.run(python(README, only="runnable"))


def test_a_block_that_prints_something_else_is_found_out() -> None:
    block = Block(README, 1, "python", (), "", "print(1)\n", "2\n")
    with pytest.raises(Wrong, match=r"README\.md:1 printed"):
        Walk("").run([block])


def test_an_output_belongs_to_the_block_right_above_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\na\n```\n\n```text\nb\n```\n\n```python\nc\n```\n\nwords\n\n```text\nd\n```\n")
    assert [(block.text, block.prints) for block in blocks(page)][::2] == [("a\n", "b\n"), ("c\n", None)]
