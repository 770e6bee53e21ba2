"""The whole suite on SQLite, then all but browser and model on PostgreSQL; what could not run is named last.

python -m tests.everything [--require-all] [words for pytest …]
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.model import explore
from tests.postgres import QUICK, PostgresMissing, postgres

ROOT = Path(__file__).resolve().parent.parent
# What no database has a part in: run once, beside the first one.
WITHOUT_A_DATABASE = ("tests/bench", "tests/folding", "tests/providers", "tests/testing", "tests/wording")
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
SOME_FAILED = 1
NO_TEST_SELECTED = 5  # pytest's exit status; with `-k` it is no failure of a part


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a server started here is stopped
    require_all = "--require-all" in arguments
    words = [word for word in arguments if word != "--require-all"]
    report = Report()
    try:
        on_sqlite(words, report)
        on_postgresql(words, report)
    except KeyboardInterrupt:
        report.missing.append("THE REST, SINCE IT WAS INTERRUPTED. RUN: make test")
        require_all = True
    print("", *report.lines(), sep="\n", flush=True)
    return report.exit_status(require_all=require_all)


def on_sqlite(words: list[str], report: Report) -> None:
    browser = chromium()
    if browser is None and not any("not browser" in word for word in words):
        report.missing.append("THE BROWSER TESTS, SINCE NO CHROMIUM WAS FOUND. RUN: apt-get install chromium")
    if (absent := explore.missing()) and not any("not model" in word for word in words):
        why = f"THE MODEL, SINCE THERE IS NO {' AND NO '.join(absent).upper()}"
        report.missing.append(f"{why}. RUN: apt-get install {explore.PACKAGES}")
    selected = [] if browser else ["-m", "not browser"]
    run("SQLite", [*selected, *words], {"DATABASE_URL": "", "CHROMIUM": browser or ""}, report)


def on_postgresql(words: list[str], report: Report) -> None:
    try:
        with server() as url:
            apart = [f"--ignore={path}" for path in WITHOUT_A_DATABASE]
            run("PostgreSQL", ["-m", "not browser and not model", *apart, *words], {"DATABASE_URL": url}, report)
    except PostgresMissing:
        report.missing.append("EVERYTHING ON POSTGRESQL, SINCE NO SERVER WAS FOUND. RUN: apt-get install postgresql")


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


def run(part: str, words: list[str], environment: dict[str, str], report: Report) -> None:
    """One part; what fails is run once more, alone, and told of if it passes then: a fault, of the test at least."""
    print(f"\n=== {part} ===", flush=True)
    status = pytest_status(words, environment)
    if status == SOME_FAILED:
        print(f"\n=== {part}: what failed, once more ===", flush=True)
        status = pytest_status([*words, "--last-failed", "--last-failed-no-failures=none"], environment)
        if status == 0:
            report.unsteady.append(part)
    report.parts.append((part, status))


def pytest_status(words: list[str], environment: dict[str, str]) -> int:
    with subprocess.Popen([sys.executable, "-m", "pytest", *words], cwd=ROOT, env=os.environ | environment) as pytest:
        try:
            return pytest.wait()
        except KeyboardInterrupt:
            pytest.wait()  # it got the Ctrl-C too, and ends what its tests started
            raise
        except SystemExit:
            pytest.terminate()
            raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
