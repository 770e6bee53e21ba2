"""The catalogues of translations: read from the sources anew, written and compiled without gettext.

    python -m tests.wording.catalogues

brings each `django.po` up to date and compiles it; what has no translation yet is listed. A person writes the
translations into the `.po` file, and runs it again.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_file
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).parents[2]
KEYWORDS: dict[str, tuple[int, ...] | None] = {
    "_": None, "gettext": None, "gettext_lazy": None, "gettext_noop": None,
    "ngettext": (1, 2), "ngettext_lazy": (1, 2),
}  # fmt: skip
STRING = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
MARKED = re.compile(rf"\b(?:n?gettext|_)\(({STRING}(?:, {STRING})?)(?:, count)?\)")
LANGUAGE = "de"
NEVER = datetime(2000, 1, 1, tzinfo=UTC)  # a date in the file would make it another one at each run


@dataclass(frozen=True, slots=True)
class Domain:
    """What is translated together."""

    name: str
    sources: tuple[str, ...]  # patterns below the root
    folder: str

    @property
    def po(self) -> Path:
        return ROOT / self.folder / LANGUAGE / "LC_MESSAGES" / "django.po"

    @property
    def mo(self) -> Path:
        return self.po.with_suffix(".mo")


DOMAINS = (
    Domain("agentstop", ("agentstop/**/*.py", "agentstop/templates/**/*.html", "agentstop/templates/**/*.svg"),
           "agentstop/locale"),
    Domain("website", ("website/**/*.py", "templates/**/*.html", "templates/**/*.txt"), "website/locale"),
)  # fmt: skip


def extracted(domain: Domain) -> Catalog:
    """All that is marked for translation in the sources, without translations."""
    found = Catalog(locale=LANGUAGE, project=domain.name, creation_date=NEVER, revision_date=NEVER, fuzzy=False)
    found.header_comment = f"# {domain.name} in German. Written by hand; see tests/wording/catalogues.py."
    for path in sorted({path for pattern in domain.sources for path in ROOT.glob(pattern)}):
        name = path.relative_to(ROOT).as_posix()
        for said in _python(path) if path.suffix == ".py" else _template(path):
            found.add(said, locations=[(name, 0)])
    return found


def _python(path: Path) -> Iterator[str | tuple[str, ...]]:
    for _, said, _, _ in extract_from_file("python", path, keywords=KEYWORDS):
        yield said


def _template(path: Path) -> Iterator[str | tuple[str, ...]]:
    for strings in MARKED.findall(templatize(path.read_text())):
        said = tuple(ast.literal_eval(string) for string in re.findall(STRING, strings))
        yield said if len(said) > 1 else said[0]


def stored(domain: Domain) -> Catalog:
    """What the `.po` file holds."""
    if not domain.po.exists():
        return Catalog(locale=LANGUAGE)
    with domain.po.open("rb") as file:
        return read_po(file, locale=LANGUAGE)


def compiled(domain: Domain) -> Catalog:
    """What the `.mo` file holds, which is what is read when the app runs."""
    with domain.mo.open("rb") as file:
        return read_mo(file)


def translations(message: Message) -> tuple[str, ...]:
    """One for a sentence, as many as the language has plurals for a count."""
    told = message.string or ""
    return (told,) if isinstance(told, str) else tuple(told)


def missing(catalog: Catalog) -> list[Message]:
    """What has no translation, or one that nobody has looked at."""
    return [message for message in catalog if message.id and (message.fuzzy or not all(translations(message)))]


def up_to_date(domain: Domain) -> Catalog:
    """The sources' messages with the stored translations; what is in the sources no more is left out."""
    found, before = extracted(domain), stored(domain)
    for message in found:
        known = before.get(message.id)
        if message.id and known is not None:
            message.string, message.user_comments = known.string, known.user_comments
    return found


def main() -> int:
    left = 0
    for domain in DOMAINS:
        catalog = up_to_date(domain)
        domain.po.parent.mkdir(parents=True, exist_ok=True)
        with domain.po.open("wb") as po, domain.mo.open("wb") as mo:
            write_po(po, catalog, width=120, include_lineno=False, sort_output=True)
            write_mo(mo, catalog)
        for message in missing(catalog):
            left += 1
            sys.stdout.write(f"{domain.name}: {message.id!r}\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
