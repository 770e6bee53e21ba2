"""What is told of an operation that has come back with several references: each job by its own, as its words stand."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext

from agentstop import sentences
from agentstop.states import Folded

__all__ = ["JobLine", "read_jobs"]


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job: the provider's reference, and what is known of it."""

    ref: str
    text: str


def read_jobs(folded: Folded) -> tuple[JobLine, ...]:
    """A line for each job, the newest first; none where there is only one, of which all else speaks."""
    if len(folded.jobs) < 2:
        return ()
    asked = dict(folded.cancel_of_jobs)
    lines = []
    for job in folded.jobs:
        cancellation = sentences.CANCELLATIONS[asked[job.ref]] if job.ref in asked else ""
        said = [gettext(text) for text in (sentences.JOBS[job.said], cancellation) if text]
        lines.append(JobLine(job.ref, " ".join(said)))
    return tuple(lines)
