"""Writes the page. Episodes are packed in chunks that the page unpacks when one is looked at.

Thousands of episodes stay quick since the browser parses only the summary at first: a chunk is
gzip in base64 within an inert `<script>`, and a picture a base64 block of its own, shared by hash.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from PIL import Image

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.results.plan_table import plan_table
from vagen_benchmarks.results.summary import ERRORS, NOT_OWN, Summary, errors_of
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.runs.run_folder import RunFolder, storing
from vagen_envs.core import State
from vagen_envs.errors import VagenError
from vagen_rewards.scores import PARTS

HERE = Path(__file__).parent
TABLES = HERE / "tables.css"
"""The style of pages of tables."""
CHUNK = 25
"""Episodes a chunk."""
TURN = ("observed", "reply", "parsed", "executed", "rewards", "metrics", "terminated", "truncated", "result")
"""What the page shows of a turn, besides its states."""
LARGE_PICTURE = 30_000
"""Bytes of a PNG beyond which the page holds it as WebP instead; the run folder keeps the PNG."""


def write_report(run: RunFolder, path: Path | None = None, *, part: str = ".part") -> Path:
    """Write the page of a run, by default to its `report.html`, and return its path.

    It is written beside, under a name with `part` at its end: who looks on needs another than who plays.

    Takes memory for the summary only, however many episodes there are. The page needs no network.
    """
    path = path or run.report
    beside = path.with_name(path.name + part)
    before, after = (HERE / "page.html").read_text(encoding="utf-8").split("<!-- data -->")
    style, plots, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "plots.js", "page.js"))
    with storing(run.path), beside.open("w", encoding="utf-8") as out:
        out.write(before.replace("/* style */", style).replace("<!-- title -->", _escape(run.path.resolve().name)))
        _write_data(run, out)
        out.write(after.replace("/* script */", f"{plots}\n{script}"))
    beside.replace(path)
    return path


def _write_data(run: RunFolder, out: TextIO) -> None:
    summary, index, shown = Summary(run.protocol), [], set[str]()
    chunk: list[dict[str, Any]] = []
    chunks = 0
    missing = 0
    for episode in run.episodes():
        summary.add(episode)
        index.append(_entry(episode))
        chunk.append(_slim(episode))
        for name in sorted(episode.picture_names() - shown):
            shown.add(name)
            try:
                kind, data = _for_page(run.picture(name))
            except RunFolderError:
                missing += 1
                continue
            out.write(f'<script type="text/plain" id="p{name[:20]}" data-kind="{kind}">{data}</script>\n')
        if len(chunk) == CHUNK:
            _write_chunk(out, chunks, chunk)
            chunks, chunk = chunks + 1, []
    if chunk:
        _write_chunk(out, chunks, chunk)
    protocol, rows = run.protocol.to_json(), summary.rows()
    starts = [entry for entry in run.journal() if entry["event"] == "start"]
    page = {
        "title": run.path.resolve().name,
        "protocol": protocol,
        "rows": rows,
        "plan": _plan(protocol["plan"], rows),
        "episodes": index,
        "errors": ERRORS,
        "judged": run.judged_by(),
        "chunk": CHUNK,
        "start": starts[-1] if starts else None,
        "damaged": run.damaged,
        "missing_pictures": missing,
        "planned": sum(1 for agent in run.protocol.agents for _ in run.protocol.keys(agent["name"])),
    }
    out.write(f'<script type="application/json" id="page">{_inert(json.dumps(page))}</script>\n')


def _plan(said: dict[str, Any] | None, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The table of the run's protocol file, beside what was published."""
    if said is None:
        return None
    plan = Plan(said["name"], said)
    return {
        "name": plan.name,
        "altered": plan.altered(),
        "about": plan.data.get("about", ""),
        **asdict(plan_table(plan, rows)),
    }


def _write_chunk(out: TextIO, number: int, episodes: list[dict[str, Any]]) -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(episodes, separators=(",", ":")).encode(), 6, mtime=0))
    out.write(f'<script type="text/plain" id="c{number}">{packed.decode()}</script>\n')


def _entry(episode: Episode) -> list[Any]:
    """What the list of episodes shows of one, as short as can be: there may be thousands."""
    codes = {problem["code"] for turn in episode.turns for problem in turn["parsed"]["problems"]}
    endings = {f"ended by {call['ending']}" for call in episode.calls if call and call["ending"] != "stop"}
    problems = sorted(codes | endings)
    return [
        episode.task,
        episode.agent,
        episode.seed,
        episode.repeat,
        episode.failure.kind if episode.failure else "",
        int(episode.success),
        round(episode.score, 4),
        len(episode.turns),
        problems,
        [] if episode.failure else [ERRORS.index(name) for name in ERRORS if name in errors_of(episode)],
    ]


def _slim(episode: Episode) -> dict[str, Any]:
    """An episode as the viewer wants it: nothing twice."""
    turns = []
    for turn, call in zip(episode.turns, episode.calls, strict=False):
        kept = {name: turn[name] for name in TURN}
        kept["states"] = [_described(turn["before"]), _described(turn["after"])]
        kept["verdicts"] = [_verdict(part, turn["metrics"]) for part in PARTS if f"{part}_reason" in turn["metrics"]]
        kept["own"] = {name: value for name, value in turn["metrics"].items() if name not in NOT_OWN}
        turns.append({**kept, "call": call})
    level = episode.turns[0]["level"] if episode.turns else None
    return {"key": episode.key, "level": level, "ended": vars(episode.ended), "turns": turns}


def _verdict(part: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What a judge found of one part of a reply; no value where it failed."""
    return {"part": part, "value": metrics.get(part), "reason": metrics[f"{part}_reason"]}


def _described(state: dict[str, Any]) -> dict[str, Any]:
    """A state as a grid of symbols, where it has one, and field by field."""
    grid = None
    with contextlib.suppress(VagenError, NotImplementedError):  # a state of a package that isn't here, or no grid
        grid = State.from_json(state).symbolic()
    fields = {name: _told(value) for name, value in state.items() if name != "kind"}
    return {"grid": grid, "fields": fields}


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _for_page(png: bytes) -> tuple[str, str]:
    """A picture's MIME subtype and base64. Large ones are turned into WebP of quality 90."""
    kind = "png"
    if len(png) > LARGE_PICTURE:
        buffer = io.BytesIO()
        with Image.open(io.BytesIO(png)) as image:
            # On seven pictures of the documentation method 0 takes 32 ms each for 228 kB in all, 2 takes 24 for 204,
            # 4 takes 43 for 198, and 6 takes 70 for 195.
            image.convert("RGB").save(buffer, "WEBP", quality=90, method=2)
        if buffer.tell() < len(png):
            kind, png = "webp", buffer.getvalue()
    return kind, base64.b64encode(png).decode()


def _inert(text: str) -> str:
    """JSON that can stand in a script element, whatever a model wrote."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
