"""A process of its own that has a tool compute in a child: python -m tests.processes.host TOKEN PLACE TOOL [forks].

`forks`: it has a forked copy of itself, which lives on and has all of its open files.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from multiprocessing.connection import Connection


def main(token: str, place: str, tool: str, *words: str) -> None:
    import django

    django.setup()
    from agentstop.processes import in_process
    from agentstop.runs import Run
    from tests.processes import tools

    run = Run.from_token(token)
    send = in_process(partial(getattr(tools, tool), place=place), kill_after=1_000.0)
    threading.Thread(
        target=run.call, args=("compute",), kwargs={"connector": "tools", "key": "k", "send": send}
    ).start()
    if "forks" in words:
        sys.stdin.readline()
        copy = os.fork()
        if not copy:
            signal.pause()
        sys.stdout.write(f"{copy}\n")
        sys.stdout.flush()
    signal.pause()


def is_refused(tell: Connection) -> None:
    """What a daemonic process is told."""
    import django

    django.setup()
    from agentstop.exceptions import AgentStopError
    from agentstop.processes import in_process

    try:
        in_process(len).require_startable()
    except AgentStopError as error:
        tell.send(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
