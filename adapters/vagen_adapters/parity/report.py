"""The report: which checks pass and fail, and the first difference."""

from __future__ import annotations

import html
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
        return f"{self.trainer}: {counts['pass']} pass, {counts['fail']} fail, {counts['skip']} skipped"

    def text(self) -> str:
        """The report as text."""
        lines = [self.summary, ""]
        for finding in self.findings:
            message = f"  {finding.message}" if finding.message else ""
            lines.append(f"{finding.verdict:4}  {finding.recording:12} {finding.check:10}{message}")
        return "\n".join(lines)

    def html(self) -> str:
        """The report as a self-contained HTML page."""
        recordings = list(dict.fromkeys(finding.recording for finding in self.findings))
        checks = list(dict.fromkeys(finding.check for finding in self.findings))
        by_place = {(finding.recording, finding.check): finding for finding in self.findings}
        head = "".join(f"<th>{html.escape(check)}</th>" for check in checks)
        rows = "".join(
            f"<tr><th>{html.escape(recording)}</th>"
            + "".join(_cell(by_place.get((recording, check))) for check in checks)
            + "</tr>"
            for recording in recordings
        )
        said = "".join(
            f"<li class={finding.verdict}><b>{html.escape(finding.recording)}, {html.escape(finding.check)}</b>: "
            f"<code>{html.escape(finding.message)}</code></li>"
            for finding in self.findings
            if finding.message
        )
        return PAGE.format(
            title=html.escape(self.trainer), summary=html.escape(self.summary), head=head, rows=rows, said=said
        )


def _cell(found: Finding | None) -> str:
    if found is None:
        return "<td></td>"
    return f'<td class={found.verdict} title="{html.escape(found.message, quote=True)}">{found.verdict}</td>'


PAGE = """<!doctype html><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>parity: {title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ padding: .35rem .6rem; text-align: left; border: 1px solid #ddd }}
td.pass {{ background: #e4f5e4 }} td.fail {{ background: #fadcd9; font-weight: 600 }}
td.skip {{ background: #f0f0f0; color: #555 }}
li {{ margin: .4rem 0 }} li.fail b {{ color: #a11 }} code {{ overflow-wrap: anywhere }}
</style>
<h1>{summary}</h1>
<p>Rows are recorded episodes, columns what is checked of the sequences that they are trained on.</p>
<table><tr><th></th>{head}</tr>{rows}</table>
<ul>{said}</ul>
"""
