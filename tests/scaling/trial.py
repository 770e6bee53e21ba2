"""The trial on three machines, told by the first one: `python -m tests.scaling.trial FOLDER TWO THREE`.

Machine one: PostgreSQL, Redis, the provider with its ledger, a web process, a worker, beat. Two: a web process, and the
worker that is killed. Three: the worker that is cut off and comes back. Prints what it has seen; any fault ends it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.postgres import QUICK, free_port, postgres
from tests.redis_server import redis_program
from tests.scaling.machines import HUB
from tests.scaling.site import Process, beat, worker

LIMITS = {"DEADLINE": 2.0, "LEASE": 2.0, "LEASE_MARGIN": 1.0, "FOLLOW_UP_BASE": 0.3, "FOLLOW_UP_CAP": 1.0}
PORT = "8000"


class Site:
    """The processes on three machines."""

    def __init__(self, folder: Path, two: str, three: str, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        other = {"two": two, "three": three}
        self._within = {machine: ["ip", "netns", "exec", name] for machine, name in other.items()}
        self.environment = {"DJANGO_SETTINGS_MODULE": "tests.scaling.settings", "SECRET_KEY": "of the trial"}
        self.environment |= {"QUICK": json.dumps(LIMITS), "ALLOWED_HOSTS": f"{HUB},10.77.1.2", "HELD": str(folder)}
        self.environment["WEBSITE_FOLDER"] = str(folder)

    def start(self, words: list[str], ready: str, machine: str = "one") -> Process:
        process = Process(words, self.environment, ready, self._within.get(machine, ()))
        self._stack.callback(process.kill)  # some of them may be cut off
        return process

    def web(self, machine: str) -> Process:
        words = ["daphne", "-b", HUB if machine == "one" else "10.77.1.2", "-p", PORT, "--ping-interval", "10"]
        return self.start([*words, "--ping-timeout", "15", "website.asgi:application"], "Listening on TCP", machine)

    def worker(self, machine: str, queues: str) -> Process:
        return self.start(worker(machine, "-Q", queues), "worker ready", machine)


@contextmanager
def broker() -> Iterator[str]:
    program, port = redis_program(), free_port()
    assert program is not None
    words = [program, "--port", str(port), "--bind", HUB, "--protected-mode", "no", "--save", ""]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            yield f"redis://{HUB}:{port}"
        finally:
            server.terminate()


def main(folder: Path, two: str, three: str) -> None:
    with ExitStack() as stack:
        site = Site(folder, two, three, stack)
        provider = site.start(["tests.scaling.provider", str(folder / "ledger.sqlite3"), HUB], "sandbox ready ")
        site.environment["BROKER"] = stack.enter_context(broker())
        site.environment["DATABASE_URL"] = stack.enter_context(postgres(settings=QUICK, address=HUB))
        site.environment["SANDBOX_ADDRESS"] = provider.until_ready().removeprefix("sandbox ready ").strip()
        os.environ.update(site.environment)
        queues = {"one": "one", "two": "two,follow_up", "three": "three"}  # so it is known who cancels
        workers = {machine: site.worker(machine, each) for machine, each in queues.items()}
        webs = [site.web("one"), site.web("two")]

        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)  # before anything is asked of the others
        for process in (*workers.values(), *webs, site.start(beat(folder), "beat: Starting...")):
            process.until_ready()
        from tests.scaling.play import play

        for line in play(site, workers["two"]):
            print(f"seen: {line}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
