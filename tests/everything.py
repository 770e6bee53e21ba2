"""The suite on SQLite, on PostgreSQL, and with a browser and the model; what could not run is named last.

python -m tests.everything [--require-all] [words for pytest …]

Most tests wait: for sockets, processes and locks. So all parts run at the same time. The first one is shown as it
goes; what the others print is kept in `.cache/tests/`, and shown when those before them are through.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.model import explore
from tests.postgres import QUICK, PostgresMissing, postgres
from tests.redis_server import redis_program
from tests.scaling import machines

ROOT = Path(__file__).resolve().parent.parent
PRINTED = ROOT / ".cache" / "tests"
# What no database has a part in, or SQLite alone: run once, beside the first one.
WITHOUT_A_DATABASE = (
    "tests/bench",
    "tests/docs",
    "tests/embedding/test_from_the_wheel.py",
    "tests/folding",
    "tests/mcp/test_contract.py",
    "tests/mcp/test_memory.py",
    "tests/mcp/test_probe.py",
    "tests/providers",
    "tests/testing",
    "tests/wording",
)
NEITHER = "not browser and not model"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
SOME_FAILED = 1
NO_TEST_SELECTED = 5  # pytest's exit status; with `-k` it is no failure of a part


@dataclass
class Part:
    """The suite on one database."""

    name: str
    words: list[str]
    environment: dict[str, str]
    pytest: subprocess.Popen[bytes] | None = None
    printed: Path | None = None

    def begin(self, *, shown: bool, again: bool = False) -> None:
        """Starts pytest. What fails is run once more, alone: so each part remembers by itself what failed."""
        PRINTED.mkdir(parents=True, exist_ok=True)
        self.printed = None if shown else PRINTED / f"{self.name}.txt"
        memory = ["-o", f"cache_dir={PRINTED / self.name}"]
        once_more = ["--last-failed", "--last-failed-no-failures=none"] if again else []
        command = [sys.executable, "-m", "pytest", *memory, *self.words, *once_more]
        if shown:
            print(f"\n=== {self.name}{': what failed, once more' if again else ''} ===", flush=True)
        with ExitStack() as files:
            out = files.enter_context(self.printed.open("wb")) if self.printed else None
            self.pytest = subprocess.Popen(command, cwd=ROOT, env=os.environ | self.environment, stdout=out, stderr=out)

    def end(self, report: Report) -> None:
        """Waits, shows, and tells of what passed only at a second try: a fault, of the test at least."""
        status = self._status()
        if status == SOME_FAILED:
            self.begin(shown=True, again=True)
            status = self._status()
            if status == 0:
                report.unsteady.append(self.name)
        report.parts.append((self.name, status))

    def give_up(self) -> None:
        """Ends what still runs; a Ctrl-C reached pytest too, which then ends what its tests started."""
        if self.pytest is None or self.pytest.poll() is not None:
            return
        if not isinstance(sys.exception(), KeyboardInterrupt):
            self.pytest.terminate()
        self.pytest.wait()

    def _status(self) -> int:
        assert self.pytest is not None
        status = self.pytest.wait()
        if self.printed is not None:
            print(f"\n=== {self.name} ===", self.printed.read_text(errors="replace"), sep="\n", flush=True)
        return status


@dataclass
class Report:
    """What the last lines say."""

    parts: list[tuple[str, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def exit_status(self, *, require_all: bool) -> int:
        statuses = [status for _, status in self.parts]
        broken = any(status not in (0, NO_TEST_SELECTED) for status in statuses)
        nothing_ran = all(status == NO_TEST_SELECTED for status in statuses)
        return int(broken or nothing_ran or (require_all and bool(self.missing)))

    def lines(self) -> Iterator[str]:
        words = {0: "passed", NO_TEST_SELECTED: "no test selected"}
        for part, status in self.parts:
            yield f"{part}: {words.get(status, 'FAILED')}"
        for part in self.unsteady:
            yield f"UNSTEADY: SOME TESTS ON {part.upper()} PASSED ONLY AT A SECOND TRY. THEY ARE NAMED ABOVE."
        for sentence in self.missing:
            yield f"NOT RUN: {sentence}"


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all that was started here is stopped
    asked, words = asked_for(arguments)
    require_all = asked.require_all
    report = Report()
    try:
        with ExitStack() as servers:
            select = Select(asked.m, words)
            found = (on_sqlite(select, report), with_a_browser(select, report), on_postgresql(select, report, servers))
            run([part for part in found if part], report)
    except KeyboardInterrupt:
        report.missing.append("THE REST, SINCE IT WAS INTERRUPTED. RUN: make test")
        require_all = True
    print("", *report.lines(), sep="\n", flush=True)
    return report.exit_status(require_all=require_all)


def asked_for(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What this module reads itself, and the words for pytest in their order."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--require-all", action="store_true")
    parser.add_argument("-m", default="")
    return parser.parse_known_args(arguments)


@dataclass(frozen=True)
class Select:
    """The tests of a part: those with its own marks, of those that were asked for."""

    marks: str
    words: list[str]

    def of(self, own: str, *more: str) -> list[str]:
        return ["-m", f"({own}) and ({self.marks})" if self.marks else own, *more, *self.words]


def on_sqlite(select: Select, report: Report) -> Part:
    if redis_program() is None:
        report.missing.append("EVERYTHING ON CELERY, SINCE NO REDIS WAS FOUND. RUN: apt-get install redis-server")
    return Part("SQLite", select.of(NEITHER), {"DATABASE_URL": ""})


def with_a_browser(select: Select, report: Report) -> Part | None:
    """The pages in Chromium, and every state of the model: what is run once, on SQLite or on no database."""
    browser, absent = chromium(), explore.missing()
    if browser is None:
        report.missing.append("THE BROWSER TESTS, SINCE NO CHROMIUM WAS FOUND. RUN: apt-get install chromium")
    if absent:
        why = f"THE MODEL, SINCE THERE IS NO {' AND NO '.join(absent).upper()}"
        report.missing.append(f"{why}. RUN: apt-get install {explore.PACKAGES}")
    marks = [*(["browser"] if browser else []), *([] if absent else ["model"])]
    if not marks:
        return None
    return Part("Browser and model", select.of(" or ".join(marks)), {"DATABASE_URL": "", "CHROMIUM": browser or ""})


def on_postgresql(select: Select, report: Report, servers: ExitStack) -> Part | None:
    try:
        url = servers.enter_context(server())
    except PostgresMissing:
        report.missing.append("EVERYTHING ON POSTGRESQL, SINCE NO SERVER WAS FOUND. RUN: apt-get install postgresql")
        return None
    if reason := machines.missing():
        report.missing.append(f"THE TRIAL ON THREE MACHINES, SINCE {reason.upper()}")
    apart = [f"--ignore={path}" for path in WITHOUT_A_DATABASE]
    return Part("PostgreSQL", select.of(NEITHER, *apart), {"DATABASE_URL": url})


@contextmanager
def server() -> Iterator[str]:
    given = os.environ.get("DATABASE_URL", "")
    if given.startswith(("postgres:", "postgresql:")):
        yield given
        return
    with postgres(settings=QUICK) as url:
        yield url


def chromium() -> str | None:
    """The program that `CHROMIUM` names, else the first of the usual names on the PATH."""
    names = [os.environ["CHROMIUM"]] if os.environ.get("CHROMIUM") else CHROMIUMS
    return next(filter(None, map(shutil.which, names)), None)


def run(parts: list[Part], report: Report) -> None:
    """All parts at once. The first prints as it goes, each other one when those before it are through."""
    try:
        for part in parts:
            part.begin(shown=part is parts[0])
        for part in parts:
            part.end(report)
    finally:
        for part in parts:
            part.give_up()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
