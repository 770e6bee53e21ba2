"""`python -m agentstop.testing.sandbox --port 8710 --ledger sandbox.sqlite3`"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from pathlib import Path

from agentstop.testing.sandbox.app import Sandbox
from agentstop.testing.sandbox.ledger import Ledger


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m agentstop.testing.sandbox", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one, told in the line that says ready")
    parser.add_argument("--ledger", type=Path, required=True, help="SQLite file that keeps what happened")
    parser.add_argument("--exit-with-parent", action="store_true", help="end when the process that started it ends")
    options = parser.parse_args()
    try:
        ledger = Ledger(options.ledger)
    except sqlite3.Error as problem:
        sys.stderr.write(
            f"The ledger {options.ledger} cannot be opened ({problem}): pass a file that can be written.\n"
        )
        return 1
    try:
        from agentstop.testing.sandbox.server import serve
    except ImportError as problem:
        sys.stderr.write(f"The sandbox needs daphne ({problem}): install agentstop[live].\n")
        return 1
    try:
        return serve(Sandbox(ledger), port=options.port, exit_with_parent=options.exit_with_parent)
    finally:
        ledger.close()


sys.exit(main())
