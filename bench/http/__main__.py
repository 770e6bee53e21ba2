"""Measures a gated HTTP call beside a bare one, on a socket of this machine, and the memory after cancelled calls.

python -m bench.http [--rounds 25] [--calls 24] [--seconds 60] [--cancelled 10000] [--json]
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys

from bench.__main__ import positive
from bench.gate import report
from bench.gate.run import ROOT, on_both


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server started here is stopped
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=25, help="each subject is measured once a round, in turn")
    parser.add_argument("--calls", type=positive, default=24, help="calls of each subject in a round")
    parser.add_argument("--seconds", type=float, default=60.0, help="no round is begun after so long")
    parser.add_argument("--cancelled", type=positive, default=10_000, help="calls that are cancelled, on SQLite")
    parser.add_argument("--json", action="store_true", help="the figures for a program")
    wanted = parser.parse_args(arguments)
    found = on_both("bench.http.rounds", [wanted.rounds, wanted.calls], wanted.seconds)
    print(report.as_json(found) if wanted.json else report.as_text(found))
    if not wanted.json:
        command = [sys.executable, "-m", "bench.http.cancelled", str(wanted.cancelled)]
        subprocess.run(command, cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
