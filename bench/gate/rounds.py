"""One database's rounds, in a process of its own; prints its figures as JSON.

DATABASE_URL=… python -m bench.gate.rounds ROUNDS CALLS SECONDS
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from bench.gate import dbos_step, pgbench
from bench.gate.figures import Figures, Part, Subject

CALLERS = 8
WARM_UP = 5  # calls of each subject that are not counted
DBOS_MISSING = "No figures of DBOS: it is not installed. Run: make bench"
PGBENCH_MISSING = "No pgbench beside this PostgreSQL: compared with Django's INSERT. Run: apt-get install postgresql"


def main(rounds: int, calls: int, seconds: float) -> Part:
    """Every subject once a round, in turn, so that noise of the machine meets all of them alike."""
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    part = Part(version())
    until = time.monotonic() + seconds
    with subjects(part) as found:
        part.figures = [Figures(subject.name, subject.callers) for subject in found]
        for subject in found:
            subject.measure(WARM_UP)
        for _ in part.rounds(rounds, until):
            for figures, subject in zip(part.figures, found, strict=True):
                figures.rounds.append(list(subject.measure(calls)))
    end()
    return part


@contextmanager
def subjects(part: Part) -> Iterator[Sequence[Subject]]:
    """Those of one caller, then those of many; each group begins with its limit."""
    from django.db import connection

    from bench.gate import ours

    with ExitStack() as stack:
        if connection.vendor != "postgresql":
            yield stack.enter_context(ours.subjects(1))
            return
        found = stack.enter_context(ours.subjects(CALLERS))
        url = os.environ["DATABASE_URL"]
        if (program := pgbench.find()) is not None:
            found = [pgbench.subject(program, url, callers) for callers in (1, CALLERS)] + found
        else:
            part.missing.append(PGBENCH_MISSING)
        if dbos_step.installed():
            found.append(stack.enter_context(dbos_step.subject(url.rpartition("/")[0] + "/dbos")))
        else:
            part.missing.append(DBOS_MISSING)
        yield sorted(found, key=lambda subject: subject.callers)


def version() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SHOW server_version")
            return f"PostgreSQL {cursor.fetchone()[0].split()[0]}"
        cursor.execute("SELECT sqlite_version()")
        return f"SQLite {cursor.fetchone()[0]}"


def end() -> None:
    from agentstop import sending, wake

    sending.close()
    wake.close()


if __name__ == "__main__":
    found = main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(asdict(found)))
