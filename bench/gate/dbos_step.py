"""A step of DBOS, measured in a process of its own: it writes each step's result down too, and has threads of its own.

python -m bench.gate.dbos_step URL     reads numbers of steps, answers with their seconds, both a line each
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.gate.figures import Subject

NAME = "step of a DBOS workflow"


def installed() -> bool:
    return importlib.util.find_spec("dbos") is not None


@contextmanager
def subject(url: str) -> Iterator[Subject]:
    command = [sys.executable, "-m", "bench.gate.dbos_step", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        asked, answered = process.stdin, process.stdout

        def measure(calls: int) -> Sequence[float]:
            print(calls, file=asked, flush=True)
            line = answered.readline()
            if not line:
                raise RuntimeError("the process that measures DBOS has ended; its last lines are above")
            took: list[float] = json.loads(line)
            return took

        try:
            yield Subject(NAME, 1, measure)
        finally:
            asked.close()  # it ends by itself then
            process.wait(30)


def serve(url: str) -> None:
    from dbos import DBOS

    DBOS(config={"name": "measured", "system_database_url": url, "log_level": "ERROR"})

    @DBOS.step()  # type: ignore[untyped-decorator,unused-ignore]
    def step(number: int) -> int:
        return number

    @DBOS.workflow()  # type: ignore[untyped-decorator,unused-ignore]
    def workflow(calls: int) -> list[float]:
        took = []
        for number in range(calls):
            began = time.perf_counter()
            step(number)
            took.append(time.perf_counter() - began)
        return took

    DBOS.launch()
    try:
        for line in sys.stdin:
            print(json.dumps(workflow(int(line))), flush=True)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    serve(sys.argv[1])
