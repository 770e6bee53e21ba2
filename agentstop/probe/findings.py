"""What a probe has found, each with its evidence. Silence is no evidence: what could not be told is not determined."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from xml.sax.saxutils import quoteattr

# What is asked before anything is cancelled: an answer to these alone has taught nothing of a cancel.
SPOKEN, SAID = "What is spoken?", "What does the server say of the tool?"
CONTROL, AS_TASK = "Does an undisturbed call succeed?", "Can it be called as a task?"
LOOKED_UP = "Can the task be looked up?"
BEFOREHAND = frozenset({SPOKEN, SAID, CONTROL, AS_TASK, LOOKED_UP})


class Verdict(StrEnum):
    YES = "yes"
    NO = "no"
    TOLD = "told"  # a fact that is neither
    UNDETERMINED = "not determined"


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question, and what was seen that shows it."""

    question: str
    verdict: Verdict
    evidence: str
    wrong: bool = False  # it harms others, or breaks the protocol


@dataclass(slots=True)
class Report:
    """All findings about one tool, and the record to put into the settings."""

    server: str
    tool: str
    findings: list[Finding] = field(default_factory=list)
    record: str = ""

    def add(self, question: str, verdict: Verdict, evidence: str, *, wrong: bool = False) -> None:
        self.findings.append(Finding(question, verdict, evidence, wrong))

    @property
    def wrong(self) -> bool:
        return any(finding.wrong for finding in self.findings)

    @property
    def learned(self) -> bool:
        """Whether any question about a cancel has an answer."""
        asked = [finding for finding in self.findings if finding.question not in BEFOREHAND]
        return any(finding.verdict is not Verdict.UNDETERMINED for finding in asked)

    @property
    def undetermined(self) -> bool:
        return any(finding.verdict is Verdict.UNDETERMINED for finding in self.findings)

    def as_text(self) -> str:
        lines = [f"{self.tool} at {self.server}", ""]
        for finding in self.findings:
            mark = " (WRONG)" if finding.wrong else ""
            lines += [f"{finding.question} {finding.verdict}{mark}", f"    {finding.evidence}"]
        return "\n".join([*lines, "", "For the settings:", "", self.record, ""])

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def as_junit(self) -> str:
        """What is wrong as a failure, what is not determined as skipped, an error where nothing was learned at all."""
        vain = "" if self.learned else CONTROL
        errors = sum(finding.question == vain for finding in self.findings)
        failed = sum(finding.wrong for finding in self.findings)
        skipped = sum(f.verdict is Verdict.UNDETERMINED and not f.wrong and f.question != vain for f in self.findings)
        head = (
            f'<testsuite name={_quoted(self.tool)} tests="{len(self.findings)}" failures="{failed}" errors="{errors}"'
        )
        cases = "".join(_case(finding, error=finding.question == vain) for finding in self.findings)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{head} skipped="{skipped}">{cases}\n</testsuite>\n'


def _case(finding: Finding, *, error: bool) -> str:
    told = _quoted(f"{finding.verdict}: {finding.evidence}")
    inside = f"<system-out>{told[1:-1]}</system-out>"
    if finding.wrong:
        inside = f"<failure message={told}/>"
    elif error:
        inside = f"<error message={told}/>"
    elif finding.verdict is Verdict.UNDETERMINED:
        inside = f"<skipped message={told}/>"
    return f"\n  <testcase name={_quoted(finding.question)}>{inside}</testcase>"


def _quoted(text: str) -> str:
    """An attribute, without the characters that XML has none for."""
    return quoteattr("".join(c for c in text if c in "\t\n" or c >= " "), {'"': "&quot;"})
