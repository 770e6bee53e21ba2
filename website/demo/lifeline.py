"""Runs a module as a program that ends when the process that started it ends, however that happens.

python -m website.demo.lifeline MODULE [words …]      with a pipe as standard input, whose other end the parent holds
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

GRACE = 10.0  # seconds to end in order once the parent is gone


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, name="lifeline", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
