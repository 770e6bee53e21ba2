"""What really happened: every effect of the sandbox in an SQLite file, and how often each key was asked about."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentstop.testing.sandbox.switches import Switches

SCHEMA = """
CREATE TABLE IF NOT EXISTS effect (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    label TEXT NOT NULL,
    text TEXT NOT NULL,
    digest TEXT NOT NULL,
    seconds REAL NOT NULL,
    switches TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'running',
    accepted_at TEXT NOT NULL,
    started_at TEXT,
    done_at TEXT,
    cancelled_at TEXT,
    undoes TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX IF NOT EXISTS one_effect_a_key ON effect (key) WHERE key <> '';
CREATE UNIQUE INDEX IF NOT EXISTS one_undoing_an_effect ON effect (undoes)
    WHERE undoes <> '' AND state IN ('running', 'succeeded');
CREATE TABLE IF NOT EXISTS asked (
    key TEXT NOT NULL,
    verb TEXT NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (key, verb)
);
"""
HEARD = "Whoever was notified has been notified already."
VERBS = ("submits", "reads", "cancels")
INSERT = """
INSERT INTO effect (kind, key, label, text, digest, seconds, switches, accepted_at, undoes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *
"""
# When an effect was undone is told by the effect that undid it, so the two cannot differ.
SELECT = """
SELECT effect.*, (
    SELECT done_at FROM effect AS undoing
    WHERE undoing.state = 'succeeded' AND undoing.undoes = '/' || effect.kind || 's/' || effect.id
) AS undone_at FROM effect
"""


class KeyReused(Exception):
    """The idempotency key belongs to another request."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the ledger. States: running, succeeded, failed, cancelled."""

    id: int
    kind: str
    key: str
    label: str
    text: str
    digest: str
    seconds: float
    switches: Switches
    state: str
    accepted_at: str
    started_at: str | None
    done_at: str | None
    cancelled_at: str | None
    undoes: str = ""  # the reference of the effect that this one takes back
    undone_at: str | None = None

    @property
    def ref(self) -> str:
        return f"/{self.kind}s/{self.id}"

    @property
    def names(self) -> dict[str, str]:
        """What a barrier can hold it by."""
        return {"key": self.key, "label": self.label, "text": self.text}

    def as_json(self) -> dict[str, Any]:
        """The effect as the API tells it: never its switches, which a real provider would not tell either."""
        told = {"id": self.id, "kind": self.kind, "ref": self.ref, **self.names, "status": self.state}
        told |= {"progress": self._progress(), "accepted_at": self.accepted_at, "started_at": self.started_at}
        told |= {"done_at": self.done_at, "cancelled_at": self.cancelled_at, "undone_at": self.undone_at}
        told |= {"undoes": self.undoes} if self.undoes else {}
        told["at"] = self.cancelled_at or self.done_at or self.accepted_at
        told["result"] = self._result() if self.state == "succeeded" else None
        return told

    def _result(self) -> dict[str, str]:
        if not self.undoes:
            return {"link": self.ref, "text": self.text}
        return {"undone": self.undoes, "remains": HEARD if self.undoes.startswith("/notifications/") else ""}

    def _progress(self) -> float:
        if self.state == "succeeded":
            return 1.0
        if self.started_at is None or not self.seconds:
            return 0.0
        ran = (datetime.now(UTC) - datetime.fromisoformat(self.started_at)).total_seconds()
        return round(min(max(ran / self.seconds, 0.0), 0.99), 2)


class Ledger:
    """The file. One thread uses it, and every statement is its own transaction."""

    def __init__(self, path: Path | str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    def accept(
        self, kind: str, key: str, body: Mapping[str, Any], *, seconds: float, switches: Switches, undoes: str = ""
    ) -> Effect:
        """The effect of this request: a new one, or the one that has the key already."""
        digest = _digest(kind, body)
        known = self.by_key(key)
        if known is None:
            told = (str(body.get("label", "")), str(body.get("text", "")), digest)
            kept = (seconds, json.dumps(switches.as_json()), _now(), undoes)
            return _effect(self._db.execute(INSERT, (kind, key, *told, *kept)).fetchone())
        if known.digest != digest:
            raise KeyReused(f"the key {key!r} was used for another request")
        return known

    def by_key(self, key: str) -> Effect | None:
        return self._one("key <> '' AND key = ?", key)

    def by_id(self, kind: str, number: int) -> Effect | None:
        return self._one("kind = ? AND id = ?", kind, number)

    def by_ref(self, ref: str) -> Effect | None:
        return self._one("'/' || kind || 's/' || id = ?", ref)

    def undoing(self, ref: str) -> Effect | None:
        """The effect that takes this one back, or is about to."""
        return self._one("undoes = ? AND state IN ('running', 'succeeded')", ref)

    def started(self, number: int) -> None:
        self._db.execute("UPDATE effect SET started_at = ? WHERE id = ? AND started_at IS NULL", (_now(), number))

    def finished(self, number: int, *, failed: bool) -> bool:
        """Settle it; False where it was cancelled before."""
        return self._settle(number, "failed" if failed else "succeeded", "done_at")

    def cancelled(self, number: int) -> bool:
        """Settle it as cancelled; False where it was done before."""
        return self._settle(number, "cancelled", "cancelled_at")

    def asked(self, key: str, verb: str) -> None:
        """Count one request about a key."""
        self._db.execute(
            "INSERT INTO asked VALUES (?, ?, 1) ON CONFLICT (key, verb) DO UPDATE SET times = times + 1", (key, verb)
        )

    def effects(self, *, keys: Iterable[str] = (), label: str = "") -> list[Effect]:
        """All effects, oldest first, or those of some keys or of one label."""
        keys = list(keys)
        where, values = "1", list[str]()
        if keys:
            where, values = f"key IN ({', '.join('?' * len(keys))})", keys
        if label:
            where, values = f"{where} AND label = ?", [*values, label]
        rows = self._db.execute(f"{SELECT} WHERE {where} ORDER BY id", values)
        return [_effect(row) for row in rows]

    def counts(self) -> dict[str, dict[str, int]]:
        """For each key: submits, reads and cancels that arrived, and writes, the effects that were really made."""
        counted: dict[str, dict[str, int]] = {}
        for key, verb, times in self._db.execute("SELECT key, verb, times FROM asked"):
            counted.setdefault(key, dict.fromkeys((*VERBS, "writes"), 0))[verb] = times
        for key, writes in self._db.execute("SELECT key, count(*) FROM effect WHERE state = 'succeeded' GROUP BY key"):
            counted.setdefault(key, dict.fromkeys((*VERBS, "writes"), 0))["writes"] = writes
        return counted

    def clear(self) -> None:
        self._db.executescript("DELETE FROM effect; DELETE FROM asked;")

    def _one(self, where: str, *values: Any) -> Effect | None:
        row = self._db.execute(f"{SELECT} WHERE {where}", values).fetchone()
        return _effect(row) if row else None

    def _settle(self, number: int, state: str, column: str) -> bool:
        changed = self._db.execute(
            f"UPDATE effect SET state = ?, {column} = ? WHERE id = ? AND state = 'running'",  # noqa: S608
            (state, _now(), number),
        )
        return changed.rowcount == 1


def _effect(row: sqlite3.Row) -> Effect:
    return Effect(**{**dict(row), "switches": Switches(**json.loads(row["switches"]))})


def _digest(kind: str, body: Mapping[str, Any]) -> str:
    identity = {name: value for name, value in body.items() if name != "sandbox"}
    return hashlib.sha256(json.dumps([kind, identity], sort_keys=True).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
