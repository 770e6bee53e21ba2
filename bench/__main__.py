"""Measures the gate beside peers, a large family, HTTP and MCP calls, jobs and open pages, on databases of its own.

python -m bench [--rounds 25] [--calls 24] [--seconds 150] [--descendants 10000] [--prepared] [--json]
"""

from __future__ import annotations

import argparse
import signal
import sys

from bench import families, http, live, mcp, queues
from bench.gate import report, run


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server started here is stopped
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=25, help="each subject is measured once a round, in turn")
    parser.add_argument("--calls", type=positive, default=24, help="calls of each subject in a round")
    parser.add_argument("--seconds", type=float, default=150.0, help="no round of the gate is begun after so long")
    parser.add_argument("--descendants", type=positive, default=10_000, help="of the task that is stopped")
    parser.add_argument(
        "--prepared", action="store_true", help="Django prepares statements (two OPTIONS of PostgreSQL)"
    )
    parser.add_argument("--json", action="store_true", help="the figures for a program")
    wanted = parser.parse_args(arguments)
    found = run.everything(wanted.rounds, wanted.calls, wanted.seconds, prepared=wanted.prepared)
    found += families.everything(wanted.descendants)
    found += http.everything(wanted.rounds, wanted.calls)
    found += mcp.everything(wanted.rounds, wanted.calls)
    found += queues.everything(wanted.rounds, wanted.calls)
    found += live.everything(wanted.rounds, min(wanted.calls, live.MOST))
    print(report.as_json(found) if wanted.json else report.as_text(found))
    return 0


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
