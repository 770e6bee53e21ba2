"""What a probe has found, each with its evidence. Silence is no evidence: what could not be told is not determined."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from xml.sax.saxutils import quoteattr


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
        """What is wrong as a failure, what is not determined as skipped: neither counts as passed."""
        failed = sum(finding.wrong for finding in self.findings)
        skipped = sum(f.verdict is Verdict.UNDETERMINED and not f.wrong for f in self.findings)
        head = f'<testsuite name={_quoted(self.tool)} tests="{len(self.findings)}" failures="{failed}"'
        cases = "".join(_case(finding) for finding in self.findings)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{head} skipped="{skipped}">{cases}\n</testsuite>\n'


def _case(finding: Finding) -> str:
    told = _quoted(f"{finding.verdict}: {finding.evidence}")
    inside = f"<system-out>{told[1:-1]}</system-out>"
    if finding.wrong:
        inside = f"<failure message={told}/>"
    elif finding.verdict is Verdict.UNDETERMINED:
        inside = f"<skipped message={told}/>"
    return f"\n  <testcase name={_quoted(finding.question)}>{inside}</testcase>"


def _quoted(text: str) -> str:
    """An attribute, without the characters that XML has none for."""
    return quoteattr("".join(c for c in text if c in "\t\n" or c >= " "), {'"': "&quot;"})
