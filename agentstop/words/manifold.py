"""What is told of an operation that has come back with several references: each job by its own, as its words stand."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from agentstop.states import Claim, Folded
from agentstop.words import sentences

__all__ = ["JOBS", "UNDOES_ONE_OF_SEVERAL", "UNDONE_ONE_OF_SEVERAL", "JobLine", "read_jobs"]

# What is known of each job, by its final word.
JOBS: dict[Claim | None, str] = {
    None: _("It may have its effect still, or have had it."),
    Claim.SUCCEEDED: _("It was done."),
    Claim.FAILED: _("It failed."),
    Claim.CANCELLED: _("It was cancelled."),
}
UNDONE_ONE_OF_SEVERAL = _("One effect of it was undone; it was perhaps done more than once.")
UNDOES_ONE_OF_SEVERAL = _("It was perhaps done more than once: only what is named here is undone.")


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
        said = [gettext(text) for text in (JOBS[job.said], cancellation) if text]
        lines.append(JobLine(job.ref, " ".join(said)))
    return tuple(lines)
