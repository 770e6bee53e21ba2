"""Three machines on one: network namespaces, of which the first is wired to both others; made and removed by root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

HUB = "10.77.0.1"  # where the first machine's services are reached, from all three
PREFIX = "agentstop"


@dataclass(frozen=True, slots=True)
class Machines:
    """Their names for `ip netns`. The second and third have the addresses 10.77.1.2 and 10.77.2.2."""

    one: str
    two: str
    three: str


def missing() -> str:
    """Why there can be none here; empty where there can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if shutil.which("ip") is None:
        return "there is no `ip`. Try: apt-get install iproute2"
    name = f"{PREFIX}-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespace can be made: {made.stderr.strip()}"
    ip("netns", "del", name)
    return ""


@contextmanager
def machines() -> Iterator[Machines]:
    """Up and wired; gone after the block, and with it what somebody has left who was killed in it."""
    names = [f"{PREFIX}-{os.getpid()}-{each}" for each in ("one", "two", "three")]
    _remove_left_over()
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", names[0], "addr", "add", f"{HUB}/32", "dev", "lo")
        for number, name in enumerate(names[1:], 1):
            _wire(names[0], name, number)
        yield Machines(*names)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _wire(hub: str, name: str, number: int) -> None:
    ip("link", "add", f"to-{number}", "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", name)
    for machine, device, last in ((hub, f"to-{number}", 1), (name, "eth0", 2)):
        ip("-n", machine, "addr", "add", f"10.77.{number}.{last}/30", "dev", device)
        ip("-n", machine, "link", "set", device, "up")
    ip("-n", name, "route", "add", HUB, "via", f"10.77.{number}.1")


def cut(number: int) -> None:
    """From within the first machine: the cable to another one is pulled. Who hangs on it is told nothing."""
    ip("link", "set", f"to-{number}", "down")


def mend(number: int) -> None:
    ip("link", "set", f"to-{number}", "up")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)


def _remove_left_over() -> None:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for name, pid in re.findall(rf"^({PREFIX}-(\d+)-\w+)", listed, re.MULTILINE):
        if not os.path.exists(f"/proc/{pid}"):
            ip("netns", "del", name)
