"""A page as a tree of elements: found by id or class, read as text, swapped by id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
INLINE = frozenset({"a", "abbr", "b", "bdi", "code", "em", "i", "q", "small", "span", "strong", "time"})


@dataclass(eq=False)
class Node:
    """One element and what is in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node]:
        """This element and all in it, in their order."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    def by_id(self, name: str) -> Node | None:
        return next((node for node in self if node.get("id") == name), None)

    def by_class(self, name: str) -> Node | None:
        return next((node for node in self if name in node.get("class").split()), None)

    def by_tag(self, name: str) -> Node | None:
        return next((node for node in self if node.tag == name), None)

    @property
    def text(self) -> str:
        """What a person reads, with every run of white space as one blank."""
        return " ".join("".join(self._words()).split())

    def swap(self, piece: Node) -> None:
        """Put the piece where its `data-agentstop-swap` says, as the page's script does; nowhere if it is not there."""
        how, _, where = piece.get("data-agentstop-swap").partition(":#")
        target = self.by_id(where or piece.get("id"))
        if target is None:
            return
        if how == "append":
            target.children.extend(piece.children)
            return
        for node in (self, *self):
            node.children = [
                kept for child in node.children for kept in ([child] if child is not target else _instead(how, piece))
            ]

    def _words(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
                continue
            apart = "" if child.tag in INLINE else " "
            yield apart
            yield from child._words()
            yield apart


def _instead(how: str, piece: Node) -> list[str | Node]:
    return [] if how == "delete" else [piece]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self._open) - 1, 0, -1):
            if self._open[place].tag == tag:
                del self._open[place:]
                return

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def parse(html: str) -> Node:
    """The tree under a root without a name."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.root
