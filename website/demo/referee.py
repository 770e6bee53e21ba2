"""What a provider of the demo itself has written down of a task: asked anew each time, and nothing of it kept here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
from django.conf import settings

from website.demo.models import Job
from website.demo.steps import label

PATIENCE = 2.0  # seconds: a page waits for it
MOST = 50  # lines, the newest


@dataclass(frozen=True, slots=True)
class Line:
    """One effect, in the provider's own words."""

    what: str
    state: str = ""


def address_of(job: Job | None) -> str:
    """Where the provider of this job shows its ledger to people; empty where none runs."""
    return str(settings.NOTES_ADDRESS if job is not None and job.is_note else settings.SANDBOX_ADDRESS)


def told(job: Job) -> list[Line] | None:
    """The oldest line first; None where the provider does not answer, or not in a way that can be read."""
    try:
        lines = _notes(job) if job.is_note else _sandbox(job)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return None
    return lines[-MOST:]


def _sandbox(job: Job) -> list[Line]:
    effects = _asked(f"{address_of(job)}/ledger", job).json()["effects"]
    return [Line(f"{effect['kind']} {effect['id']}: {effect['text']}", _state(effect)) for effect in effects]


def _state(effect: dict[str, Any]) -> str:
    return f"{effect['state']}, undone" if effect["undone_at"] else str(effect["state"])


def _notes(job: Job) -> list[Line]:
    lines = _asked(f"{address_of(job)}/ledger", job).json()
    return [Line(line["text"], line["what"]) for line in lines]


def _asked(address: str, job: Job) -> httpx.Response:
    answer = httpx.get(address, params={"task": label(job.task_id)}, timeout=PATIENCE, trust_env=False)
    return answer.raise_for_status()
