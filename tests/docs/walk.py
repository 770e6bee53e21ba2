"""Follows one page as its reader would: runs its Python blocks in order, and compares what they print.

    python -m tests.docs.walk docs/quickstart.md [ADDRESS OF THE SANDBOX]

Blocks share their names. One with a title is a file of the reader's project: it is imported under that name, except
for settings, URLs and the like, which the caller takes for itself. `await` may stand outside a function.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.docs.pages import Block, blocks

SANDBOX = "http://127.0.0.1:8710"  # what the pages call the address of the sandbox
OWN = ("settings.py", "urls.py", "asgi.py")

Put = Callable[[Block, dict[str, Any]], None]


class Wrong(AssertionError):
    """A block did not print what the page says."""


class Walk:
    """One reader at one page. `put` is called for blocks that are settings and the like, with the names they made."""

    def __init__(self, address: str, put: Put | None = None) -> None:
        self.address = address
        self.names: dict[str, Any] = {"__name__": "page"}
        self.put = put

    def run(self, found: Iterable[Block]) -> None:
        for block in found:
            if not block.title:
                self.step(block)
            elif not block.title.endswith(OWN):
                self.module(block)
            elif self.put is not None:
                self.put(block, self.executed(block, self.project()))

    def project(self) -> dict[str, Any]:
        """The names that settings and URLs of the reader's project hold before the page adds to them."""
        return {}

    def step(self, block: Block) -> None:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.executed(block, self.names)
        if block.prints is not None and said.getvalue() != block.prints:
            raise Wrong(f"{block} printed\n{said.getvalue()}and the page says\n{block.prints}")

    def module(self, block: Block) -> None:
        """Make the file importable, and its folders with it."""
        parts = block.title.removesuffix(".py").split("/")
        for depth in range(1, len(parts)):
            package = types.ModuleType(".".join(parts[:depth]))
            package.__path__ = []
            sys.modules.setdefault(package.__name__, package)
        module = types.ModuleType(".".join(parts))
        sys.modules[module.__name__] = module
        self.executed(block, module.__dict__)

    def executed(self, block: Block, names: dict[str, Any]) -> dict[str, Any]:
        source = "\n" * (block.line - 1) + block.text.replace(SANDBOX, self.address)
        code = compile(source, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))  # noqa: S307  our own page
        else:
            exec(code, names)  # noqa: S102  our own page
        return names


def python(page: Path, *, only: str = "") -> list[Block]:
    """The Python blocks of a page; those that bear a word, where one is given."""
    return [block for block in blocks(page) if block.language == "python" and (not only or only in block.words)]


def main(page: str, address: str = SANDBOX) -> None:
    import django

    django.setup()
    from agentstop import sending, wake

    Walk(address).run(python(Path(page)))
    sending.close()
    wake.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
