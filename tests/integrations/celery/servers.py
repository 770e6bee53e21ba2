"""Workers in processes of their own, ended by their ids."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import redis

from tests.conftest import HANG_GUARD

ROOT = Path(__file__).resolve().parent.parent.parent.parent
APP = "tests.integrations.celery.app"


class Worker:
    """`celery worker` in a process group of its own, which ends with the tests however those end."""

    started = 0

    def __init__(self, broker: str, sandbox: str, database_url: str, **how: Any) -> None:
        Worker.started += 1
        self.name = f"worker{Worker.started}"
        pool, queue = how.pop("pool", "threads"), how.pop("queue", "jobs")
        at_once, settling = how.pop("at_once", 4), how.pop("settling", 2.0)
        environment = {
            "BROKER": broker, "SANDBOX": sandbox, "DATABASE_URL": database_url, "POOL": pool, "NAME": self.name,
            "SETTLING": str(settling), "SETTINGS": json.dumps(how), "DJANGO_SETTINGS_MODULE": "tests.settings",
        }  # fmt: skip
        words = ["worker", "--pool", pool, "-c", str(at_once), "-n", f"{self.name}@tests", "-Q", queue, "-l", "WARNING"]
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed at the end
        self._process = subprocess.Popen(
            [sys.executable, "-m", "website.demo.lifeline", "celery", "-A", APP, *words],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def until_ready(self, store: redis.Redis) -> None:
        if store.blpop([f"ready:{self.name}"], int(HANG_GUARD)) is None:
            raise AssertionError(f"the worker never was ready: {self.told()}")

    def kill(self) -> None:
        """All of it at once, as when the machine is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(HANG_GUARD)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(HANG_GUARD)
            except subprocess.TimeoutExpired:
                self.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.log.close()

    def told(self) -> str:
        self.log.seek(0)
        return self.log.read()
