"""Three machines: a stop holds and tells the truth while a worker is killed and one cut off (R1, R10, R20-R22, R37).

What is played and judged is in `play`; the provider's ledger, a process of its own, is the referee.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection  # noqa: F401  read by the mark below

from tests.postgres import PostgresMissing, find_binaries
from tests.redis_server import redis_program
from tests.scaling import machines
from tests.scaling.site import Process

SEEN = 6  # sentences, each of which has held


def why_not() -> str:
    try:
        find_binaries()
    except PostgresMissing as missing:
        return str(missing)
    return machines.missing() or ("" if redis_program() else "There is no redis-server here.")


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="about PostgreSQL")
def test_on_three_machines_a_stop_holds_while_one_worker_is_killed_and_one_is_cut_off(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(f"Three machines cannot be made here: {reason}")
    tmp_path.chmod(0o755)
    with machines.machines() as made:
        words = ["tests.scaling.trial", str(tmp_path), made.two, made.three]
        trial = Process(words, {}, "nothing more to see", ["ip", "netns", "exec", made.one])
        trial.wait()
        told = [line for line in trial.said if line.startswith("seen: ")]
        assert len(told) == SEEN, "".join(trial.said)
