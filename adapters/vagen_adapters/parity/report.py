"""The report: which checks pass and fail, and the first difference."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Finding:
    """The result of one check on one recording."""

    recording: str
    check: str
    verdict: Verdict
    message: str = ""


@dataclass(frozen=True)
class Report:
    """All findings about a trainer."""

    trainer: str
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that are failures."""
        return tuple(finding for finding in self.findings if finding.verdict == "fail")

    @property
    def summary(self) -> str:
        """One line with the number of passed, failed and skipped checks."""
        counts = Counter(finding.verdict for finding in self.findings)
        return (
            f"{self.trainer}: {counts['pass']} pass, {counts['fail']} fail, {counts['skip']} "
            "skipped"
        )

    def text(self) -> str:
        """The report as text."""
        found = (
            f"{each.verdict:4}  {each.recording:12} {each.check:10}  {each.message}"
            for each in self.findings
        )
        return "\n".join([self.summary, "", *map(str.rstrip, found)])
