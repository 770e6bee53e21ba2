"""The sandbox provider, for other machines too: `python -m tests.scaling.provider LEDGER ADDRESS`."""

from __future__ import annotations

import sys

from agentstop.testing.sandbox.app import Sandbox
from agentstop.testing.sandbox.ledger import Ledger
from agentstop.testing.sandbox.server import serve

if __name__ == "__main__":
    path, address = sys.argv[1:]
    sys.exit(serve(Sandbox(Ledger(path)), port=0, exit_with_parent=False, interface=address))
