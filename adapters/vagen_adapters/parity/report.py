"""One page: what passes, what fails, and the first thing that differs."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Finding:
    """What a check says of a recording."""

    recording: str
    check: str
    verdict: Verdict
    says: str = ""


@dataclass(frozen=True)
class Report:
    """Of a trainer."""

    trainer: str
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that are failures."""
        return tuple(each for each in self.findings if each.verdict == "fail")

    @property
    def summary(self) -> str:
        """In a line."""
        counts = Counter(each.verdict for each in self.findings)
        return f"{self.trainer}: {counts['pass']} pass, {counts['fail']} fail, {counts['skip']} skipped"

    def text(self) -> str:
        """For a terminal."""
        lines = [self.summary, ""]
        for each in self.findings:
            said = f"  {each.says}" if each.says else ""
            lines.append(f"{each.verdict:4}  {each.recording:12} {each.check:10}{said}")
        return "\n".join(lines)

    def html(self) -> str:
        """A page that needs nothing else."""
        recordings = list(dict.fromkeys(each.recording for each in self.findings))
        checks = list(dict.fromkeys(each.check for each in self.findings))
        by_place = {(each.recording, each.check): each for each in self.findings}
        head = "".join(f"<th>{html.escape(check)}</th>" for check in checks)
        rows = "".join(
            f"<tr><th>{html.escape(recording)}</th>"
            + "".join(_cell(by_place.get((recording, check))) for check in checks)
            + "</tr>"
            for recording in recordings
        )
        said = "".join(
            f"<li class={each.verdict}><b>{html.escape(each.recording)}, {html.escape(each.check)}</b>: "
            f"<code>{html.escape(each.says)}</code></li>"
            for each in self.findings
            if each.says
        )
        return PAGE.format(
            title=html.escape(self.trainer), summary=html.escape(self.summary), head=head, rows=rows, said=said
        )


def _cell(found: Finding | None) -> str:
    if found is None:
        return "<td></td>"
    return f'<td class={found.verdict} title="{html.escape(found.says, quote=True)}">{found.verdict}</td>'


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
