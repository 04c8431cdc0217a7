"""The report of a run. Episodes are packed in chunks that the page unpacks when one is opened.

The browser parses only the summary at first, so that thousands of episodes open quickly: a chunk is
gzip in base64 within an inert `<script>`, and a picture is a base64 block of its own, shared by
hash.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from markupsafe import Markup
from PIL import Image

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.report.pages import render
from vagen_benchmarks.results.cell import NOT_OWN
from vagen_benchmarks.results.labels import agent_settings, task_options, task_titles
from vagen_benchmarks.results.plan_table import LEGEND, plan_table
from vagen_benchmarks.results.play_errors import COUNTED_AS, ERRORS, errors_of
from vagen_benchmarks.results.summary import Summary
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import storing
from vagen_envs.core import State
from vagen_envs.errors import VagenError
from vagen_rewards.scores import PARTS

LARGEST_FILE = 8 * 2**20
"""Bytes of packed episodes and pictures in one file. Browsers read 8 MB within a second, and take
25 s for the 62 MB of 5,000 episodes; beyond it the report is a folder.
"""
_BLOCK = re.compile(
    r'<script type="text/plain" id="(\w+)"(?: data-kind="(\w+)")?>([^<]*)</script>\n'
)
CHUNK = 25
"""Episodes a chunk."""
TURN = (
    "observed",
    "reply",
    "parsed",
    "executed",
    "rewards",
    "metrics",
    "terminated",
    "truncated",
    "result",
)
"""What the page shows of a turn, besides its states."""
LARGE_PICTURE = 30_000
"""Bytes of a PNG beyond which the page holds it as WebP instead; the run folder keeps the PNG."""


def write_report(
    run: RunFolder,
    path: Path | None = None,
    *,
    part: str = ".part",
    progress: Callable[[], None] = lambda: None,
) -> Path:
    """Write the page of a run and return its path. The page needs no network.

    Takes memory for the summary only, however many episodes there are. Beyond `LARGEST_FILE` the
    report is a folder without the name's ending: `index.html`, and beside it the episodes in parts
    and the pictures, which the page reads when they are looked at.

    Args:
        run: any run.
        path: the run's `report.html` by default, or `report/index.html`.
        part: the ending of the file while it is written. Processes that write the same report need
            different ones.
        progress: called after each episode.
    """
    path = path or run.path / "report.html"
    folder = path.with_suffix("")
    beside = path.with_name(path.name + part)
    with storing(run.path), tempfile.TemporaryFile("w+", encoding="utf-8") as blocks:
        page = _write_blocks(run, blocks, progress)
        page["beside"] = blocks.tell() > LARGEST_FILE
        blocks.seek(0)
        if page["beside"]:
            _clear(beside)
            beside.mkdir()
            _write_files(blocks, beside)
            _write_page(run, page, (), beside / "index.html")
        else:
            _write_page(run, page, map(Markup, blocks), beside)
        _clear(path)
        _clear(folder)
        beside.replace(folder if page["beside"] else path)
    return folder / "index.html" if page["beside"] else path


def _write_page(run: RunFolder, page: dict[str, Any], blocks: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8") as out:
        render("report.html", out, **_header(run, page), page=page, blocks=blocks)


def _clear(path: Path) -> None:
    """Remove an earlier report, of either form. A folder that holds anything else stays."""
    if path.is_file():
        path.unlink()
    elif (path / "index.html").is_file():
        shutil.rmtree(path)


def _write_files(blocks: TextIO, folder: Path) -> None:
    """Write the blocks of a page as files: scripts that give a part its text, and pictures."""
    for line in blocks:
        found = _BLOCK.fullmatch(line)
        assert found is not None
        name, kind, data = found.groups()
        if kind:
            (folder / f"{name}.{kind}").write_bytes(base64.b64decode(data))
        else:
            (folder / f"{name}.js").write_text(f'parts.{name} = "{data}";\n', encoding="utf-8")


def _write_blocks(run: RunFolder, out: TextIO, progress: Callable[[], None]) -> dict[str, Any]:
    summary = Summary(run.protocol)
    index = []
    shown = set[str]()
    chunk: list[dict[str, Any]] = []
    missing = 0
    kinds: dict[str, str] = {}
    for episode in run.episodes():
        summary.add(episode)
        index.append(_entry(episode))
        chunk.append(_slim(episode))
        for name in sorted(episode.picture_names() - shown):
            shown.add(name)
            try:
                kind, data = _for_page(run.pictures.get(name))
                kinds[name[:20]] = kind
            except RunFolderError:
                missing += 1
                continue
            out.write(
                f'<script type="text/plain" id="p{name[:20]}" data-kind="{kind}">{data}</script>\n'
            )
        if len(chunk) == CHUNK:
            _write_chunk(out, len(index), chunk)
        progress()
    if chunk:
        _write_chunk(out, len(index), chunk)
    return {
        "title": run.path.resolve().name,
        "protocol": run.protocol.to_json(),
        "names": task_titles(run.protocol),
        "rows": summary.rows(),
        "episodes": index,
        "errors": ERRORS,
        "counted": COUNTED_AS,
        "judged": run.judged_by(),
        "chunk": CHUNK,
        "damaged": run.damaged,
        "missing_pictures": missing,
        "pictures": kinds,
        "planned": sum(
            1 for agent in run.protocol.agents for _ in run.protocol.keys(agent["name"])
        ),
    }


def _header(run: RunFolder, page: dict[str, Any]) -> dict[str, Any]:
    """What the page shows beside the facts that its script reads."""
    protocol = run.protocol
    plan = Plan.of(protocol)
    start = next((entry for entry in reversed(run.journal()) if entry["event"] == "start"), None)
    tasks = [dict(task) for task in page["protocol"]["tasks"]]
    for task in tasks:
        task.pop("system_prompt", None)
    conditions = {**page["protocol"], "tasks": tasks, "machine": start}
    labels = [task.label.removeprefix("vagen/") for task in protocol.tasks]
    options = list(zip(labels, map(task_options, protocol.tasks), strict=True))
    options += [(str(agent["name"]), agent_settings(agent)) for agent in protocol.agents]
    return {
        "agents": [str(agent["name"]) for agent in protocol.agents],
        "environments": list(dict.fromkeys(re.sub(r"-v\d+", "", label) for label in labels)),
        "options": [each for each in options if each[1]],
        "start": start,
        "plan": plan,
        "table": plan and plan_table(plan, page["rows"]),
        "legend": LEGEND,
        "conditions": json.dumps(conditions, indent=1, ensure_ascii=False),
    }


def _write_chunk(out: TextIO, written: int, episodes: list[dict[str, Any]]) -> None:
    packed = base64.b64encode(
        gzip.compress(json.dumps(episodes, separators=(",", ":")).encode(), 6, mtime=0)
    )
    out.write(
        f'<script type="text/plain" id="c{(written - 1) // CHUNK}">{packed.decode()}</script>\n'
    )
    episodes.clear()


def _entry(episode: Episode) -> list[Any]:
    """What the list of episodes shows of one, as short as can be: there may be thousands."""
    codes = {problem["code"] for turn in episode.turns for problem in turn["parsed"]["problems"]}
    endings = {
        f"ended by {call['ending']}" for call in episode.calls if call and call["ending"] != "stop"
    }
    return [
        *(getattr(episode, name) for name in ("task", "agent", "seed", "repeat")),
        episode.failure.kind if episode.failure else "",
        int(episode.success),
        round(episode.score, 4),
        len(episode.turns),
        sorted(codes | endings),
        []
        if episode.failure
        else [ERRORS.index(name) for name in ERRORS if name in errors_of(episode)],
    ]


def _slim(episode: Episode) -> dict[str, Any]:
    """An episode as the viewer wants it: nothing twice."""
    turns = []
    summaries = {summary["before"]: summary["text"] for summary in episode.summaries}
    for number, (turn, call) in enumerate(zip(episode.turns, episode.calls, strict=False)):
        kept = {name: turn[name] for name in TURN}
        kept["states"] = [_described(turn["before"]), _described(turn["after"])]
        kept["verdicts"] = [  # no value where the judge failed
            {
                "part": part,
                "value": turn["metrics"].get(part),
                "reason": turn["metrics"][f"{part}_reason"],
            }
            for part in PARTS
            if f"{part}_reason" in turn["metrics"]
        ]
        kept["own"] = {
            name: value for name, value in turn["metrics"].items() if name not in NOT_OWN
        }
        shown = call and {name: value for name, value in call.items() if name != "hidden"}
        turns.append({**kept, "call": shown, "summary": summaries.get(number)})
    level = episode.turns[0]["level"] if episode.turns else None
    return {"key": episode.key, "level": level, "ended": vars(episode.ended), "turns": turns}


def _described(state: dict[str, Any]) -> dict[str, Any]:
    """A state as a grid of symbols, where it has one, and field by field."""
    grid = None
    # A state of a package that isn't here, or no grid.
    with contextlib.suppress(VagenError, NotImplementedError):
        grid = State.from_json(state).symbolic()
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in state.items()
    }
    texts.pop("kind", None)
    return {"grid": grid, "fields": texts}


def _for_page(png: bytes) -> tuple[str, str]:
    """A picture's MIME subtype and base64. Large ones are turned into WebP of quality 90."""
    kind = "png"
    if len(png) > LARGE_PICTURE:
        buffer = io.BytesIO()
        with Image.open(io.BytesIO(png)) as image:
            # On seven pictures of the documentation method 0 takes 32 ms each for 228 kB in all, 2
            # takes 24 for 204, 4 takes 43 for 198, and 6 takes 70 for 195.
            image.convert("RGB").save(buffer, "WEBP", quality=90, method=2)
        if buffer.tell() < len(png):
            kind = "webp"
            png = buffer.getvalue()
    return kind, base64.b64encode(png).decode()
