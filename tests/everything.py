"""The whole suite on SQLite and, beside it, all but browser and model on PostgreSQL; what could not run is named last.

python -m tests.everything [--require-all] [words for pytest …]

Most tests wait: for sockets, processes and locks. So both parts run at the same time. What the second one prints is
kept in `.cache/tests/`, and shown when the first one is through.
"""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parent.parent
PRINTED = ROOT / ".cache" / "tests"
# What no database has a part in: run once, beside the first one.
WITHOUT_A_DATABASE = ("tests/bench", "tests/folding", "tests/providers", "tests/testing", "tests/wording")
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
    require_all = "--require-all" in arguments
    words = [word for word in arguments if word != "--require-all"]
    report = Report()
    try:
        with ExitStack() as servers:
            run([part for part in (on_sqlite(words, report), on_postgresql(words, report, servers)) if part], report)
    except KeyboardInterrupt:
        report.missing.append("THE REST, SINCE IT WAS INTERRUPTED. RUN: make test")
        require_all = True
    print("", *report.lines(), sep="\n", flush=True)
    return report.exit_status(require_all=require_all)


def on_sqlite(words: list[str], report: Report) -> Part:
    browser = chromium()
    if browser is None and not any("not browser" in word for word in words):
        report.missing.append("THE BROWSER TESTS, SINCE NO CHROMIUM WAS FOUND. RUN: apt-get install chromium")
    if (absent := explore.missing()) and not any("not model" in word for word in words):
        why = f"THE MODEL, SINCE THERE IS NO {' AND NO '.join(absent).upper()}"
        report.missing.append(f"{why}. RUN: apt-get install {explore.PACKAGES}")
    if redis_program() is None:
        report.missing.append("EVERYTHING ON CELERY, SINCE NO REDIS WAS FOUND. RUN: apt-get install redis-server")
    selected = [] if browser else ["-m", "not browser"]
    return Part("SQLite", [*selected, *words], {"DATABASE_URL": "", "CHROMIUM": browser or ""})


def on_postgresql(words: list[str], report: Report, servers: ExitStack) -> Part | None:
    try:
        url = servers.enter_context(server())
    except PostgresMissing:
        report.missing.append("EVERYTHING ON POSTGRESQL, SINCE NO SERVER WAS FOUND. RUN: apt-get install postgresql")
        return None
    apart = [f"--ignore={path}" for path in WITHOUT_A_DATABASE]
    return Part("PostgreSQL", ["-m", "not browser and not model", *apart, *words], {"DATABASE_URL": url})


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
