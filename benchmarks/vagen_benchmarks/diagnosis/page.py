"""A diagnosis as one self-contained page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from vagen_benchmarks.diagnosis.attribution import CAUSES, Diagnosis, Share
from vagen_benchmarks.diagnosis.playing import CONDITIONS

_MEANING = {
    "sight": "lost with the picture, but not with the true symbols",
    "prediction": "lost with the true symbols, the outcome foretold wrongly",
    "planning": "lost with the true symbols, the outcome known",
    "format": "turns in which no action could be read",
}
_SHOWN = {"picture": "the picture", "truth": "the true symbols", "own": "its own words for the picture"}

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #667080; --line: #dfe3e8; --paper: #fff;
  --sight: #0b6bb8; --prediction: #c77700; --planning: #6f42b5; --format: #7a8591; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7ec; --soft: #97a1ae; --line: #30363d; --paper: #14181d;
  --sight: #6cb6ff; --prediction: #e8a350; --planning: #b79af0; --format: #97a1ae; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 860px; padding: 8px 20px 40px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 18px 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 34px 0 4px; overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 22px 0 0; color: var(--soft); }
p { margin: 4px 0 12px; color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-weight: 600; text-align: left; }
th small { font-weight: 400; color: var(--soft); }
th.figure { text-align: right; color: var(--soft); }
td, th { padding: 5px 8px 5px 0; border-bottom: 1px solid var(--line); vertical-align: middle; }
td.figure { text-align: right; white-space: nowrap; width: 9.5em; }
td.figure small { color: var(--soft); }
td.bar { width: 34%; } td small { color: var(--soft); }
svg { display: block; width: 100%; height: 18px; }
@media (max-width: 620px) { td.bar { display: none; } td.figure { width: 8em; } }
"""


def page(diagnoses: Sequence[Diagnosis]) -> str:
    """HTML with a part for each diagnosis."""
    parts = "".join(map(_part, diagnoses))
    agents = html.escape(", ".join(dict.fromkeys(each.agent for each in diagnoses)))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Where {agents} fails</title><style>{_STYLE}</style><h1>Where {agents} fails</h1>"
        "<p>The same levels, shown in three ways. The thin brackets are 95 % intervals over levels.</p>"
        f"{parts}</html>"
    )


def _part(one: Diagnosis) -> str:
    lost = one.lost["picture"].value
    said = "It lost nothing." if one.main_cause is None else f"Most is lost by <b>{one.main_cause}</b>."
    facts = f"{one.levels} levels; {lost:.2f} actions lost a turn with the picture. {said}"
    if one.unjudged > 0:
        facts += f" {one.unjudged:.0%} of what it said could not be judged and counts for nothing."
    causes = "".join(
        f"<tr><th>{name}<br><small>{_MEANING[name]}</small></th><td class=bar>{_bar(one.causes[name], name)}</td>"
        f"<td class=figure>{_percent(one.causes[name])}</td></tr>"
        for name in CAUSES
    )
    played = "".join(
        f"<tr><th>{_SHOWN[name]}</th><td class=figure>{_percent(one.success[name])}</td>"
        f"<td class=figure>{_number(one.lost[name])}</td></tr>"
        for name in CONDITIONS
    )
    true = _rows(
        ("what it says of the picture", one.saw),
        ("what it foretells of its own actions", one.foresaw),
        ("its answers to one-step questions", one.answered),
    )
    return (
        f"<h2>{html.escape(one.agent)} on {html.escape(one.env_id)}</h2><p>{facts}</p><table>{causes}</table>"
        "<h3>Played with</h3><table><tr><th></th><th class=figure>solved</th><th class=figure>lost a turn</th></tr>"
        f"{played}</table>"
        f"<h3>True of what it said</h3><table>{true}</table>"
    )


def _rows(*rows: tuple[str, Share]) -> str:
    return "".join(
        f"<tr><th>{name}</th><td class=bar>{_bar(share, 'format')}</td><td class=figure>{_percent(share)}</td></tr>"
        for name, share in rows
    )


def _bar(share: Share, colour: str) -> str:
    if math.isnan(share.value):
        return ""
    wide, low, high = (100 * each for each in (share.value, share.low, share.high))
    return (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{share.value:.0%}">'
        '<rect width="100" height="10" fill="var(--line)" opacity=".5"/>'
        f'<rect width="{wide:.1f}" height="10" fill="var(--{colour})"/>'
        f'<path d="M{low:.1f} 5H{high:.1f}M{low:.1f} 2.5V7.5M{high:.1f} 2.5V7.5" stroke="var(--ink)" '
        'vector-effect="non-scaling-stroke" fill="none"/></svg>'
    )


def _percent(share: Share) -> str:
    if math.isnan(share.value):
        return "<small>nothing to judge</small>"
    return f"{share.value:.0%} <small>{share.low:.0%} to {share.high:.0%}</small>"


def _number(share: Share) -> str:
    return f"{share.value:.2f} <small>{share.low:.2f} to {share.high:.2f}</small>"
