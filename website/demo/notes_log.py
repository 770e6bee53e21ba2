"""What the demo's MCP server has written down itself: the referee; and what it is to hold back for a check."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

DID_READ, DID_WRITE = "read", "wrote"
READY = "notes ready "  # what the server says when it is, and its address


class Noted(NamedTuple):
    """One line of the log."""

    at: datetime
    what: str
    label: str  # of the task
    text: str

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S.%f}  {self.label:12} {self.what:14}  {self.text}"


class NotesLog:
    """In a folder: the log, a line each, and a file that names what is held back, as in `note:a text`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "notes.log"
        self._held = folder / "notes.held"

    def note(self, what: str, label: str, text: str) -> None:
        line = json.dumps([datetime.now(UTC).isoformat(), what, label, text])
        with self.file.open("a") as log:
            log.write(f"{line}\n")

    def of(self, label: str = "") -> list[Noted]:
        """Everything that was done for a task, or for all, the oldest first."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        told = [Noted(datetime.fromisoformat(at), *rest) for at, *rest in map(json.loads, lines)]
        return [each for each in told if label in ("", each.label)]

    def hold(self, key: str) -> None:
        """It is not done until it is released."""
        with self._held.open("a") as held:
            held.write(f"{json.dumps([key, True])}\n")

    def release(self, key: str) -> None:
        with self._held.open("a") as held:
            held.write(f"{json.dumps([key, False])}\n")

    def is_held(self, key: str) -> bool:
        lines = self._held.read_text().splitlines() if self._held.exists() else []
        told: dict[str, bool] = dict(map(json.loads, lines))
        return told.get(key, False)
