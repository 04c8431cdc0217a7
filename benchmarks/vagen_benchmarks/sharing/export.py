"""A run as data for others: a table of turns for analysis, or chat samples for supervised
fine-tuning.

Parquet files are read by pandas, polars and Hugging Face `datasets` (pictures arrive decoded
there); JSON lines by everything else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from vagen_adapters.context import ContextPolicy, Message, chat_messages, summary_request
from vagen_benchmarks.clients.base import encodable
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.cell import OWN_METRICS
from vagen_benchmarks.results.play_errors import STOPS, errors_of
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.results.table import column_of, results_table
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import Task
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.parquet import CALL, write_parquet
from vagen_benchmarks.sharing.table_files import as_csv
from vagen_envs.pictures import Picture
from vagen_envs.turn import IMAGE_PLACEHOLDER, Turn

Form = Literal["turns", "chat", "episodes", "summary"]


def export(
    run: RunFolder,
    path: Path,
    form: Form,
    *,
    keep: Callable[[Episode], bool] = lambda _: True,
    context: ContextPolicy | None = None,
) -> int:
    """Write the episodes that `keep` keeps, and return how many rows there are. Only scored ones
    but for `"episodes"`.

    Args:
        run: what is written.
        path: ends with `.parquet`, which `datasets` reads with its pictures, with `.jsonl`, or with
            `.csv` for `"episodes"` and `"summary"`, which are also `.csv` alone.
        form: `"summary"`, the run's rows of `vagen table`; `"episodes"`, a row an episode, failed
            ones included; `"turns"`, a row a turn; or `"chat"`, a row a sample: the whole episode,
            the turns between two summaries with the summary, or each turn with what it showed.
            Contents are parts, `{"type": "text", "text": …}` and `{"type": "image"}`, the latter
            for the next of the sample's `images`, as TRL's SFTTrainer and chat templates take them.
        keep: which episodes.
        context: for `"chat"`; the whole past by default. One with summaries needs a run that was
            played with it.

    Raises:
        ProtocolError: the path has another ending, or Parquet is asked for without pyarrow.
    """
    if form in ("summary", "episodes"):
        return _write_csv(run, path, form, keep)
    episodes = (episode for episode in run.episodes() if episode.failure is None and keep(episode))
    if form == "turns":
        made = _turns(episodes)
    else:
        made = _samples(run, episodes, context or ContextPolicy())
    rows = map(encodable, made)
    if path.suffix == ".jsonl":
        return _write_lines(rows, path)
    if path.suffix == ".parquet":
        return write_parquet(rows, path, chat=form == "chat")
    raise ProtocolError(f"{path} has no ending that says how to write it: use .parquet or .jsonl")


def _write_csv(run: RunFolder, path: Path, form: Form, keep: Callable[[Episode], bool]) -> int:
    if path.suffix != ".csv":
        raise ProtocolError(f"{path}: the form {form} is written as .csv")
    if form == "summary":
        rows = [row.to_json() for row in results_table([run]).rows]
    else:
        tasks = {task.label: task for task in run.protocol.tasks}
        kept = (episode for episode in run.episodes() if keep(episode))
        rows = [_episode_row(episode, tasks[episode.task]) for episode in kept]
    path.write_text(as_csv(encodable(row) for row in rows), encoding="utf-8")
    return len(rows)


def _episode_row(episode: Episode, task: Task) -> dict[str, Any]:
    """An episode as one flat row."""
    calls = episode.all_calls
    turns = episode.turns
    errors = errors_of(episode)
    own = turns[-1]["metrics"] if turns else {}
    return {
        **_facts(episode),
        **column_of(task).to_json(),
        "repeat": episode.repeat,
        "level": episode.content,
        "ended": episode.ended.kind.value,
        "scored": episode.failure is None,
        "success": episode.success,
        "return": episode.score,
        "turns": len(turns),
        "valid_turns": sum(bool(turn["metrics"]["action_is_valid"]) for turn in turns),
        **{name.replace(" ", "_"): name in errors for name in STOPS},
        **(_sums(calls) if calls else {}),
        "attempts": sum(call["attempts"] for call in calls),
        "served": " | ".join(dict.fromkeys(call["served"] for call in calls if call["served"])),
        **{name: value for name, value in own.items() if name not in OWN_METRICS},
    }


SUMMED = ("prompt_tokens", "completion_tokens", "dollars", "seconds")
"""What an episode's row adds up of its calls."""


def _sums(calls: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    sums = {}
    for name in SUMMED:
        sums[name] = sum(call[name] or 0 for call in calls)
    return sums


def _facts(episode: Episode) -> dict[str, Any]:
    return {name: getattr(episode, name) for name in ("agent", "task", "split", "seed")}


def _turns(episodes: Iterable[Episode]) -> Iterator[dict[str, Any]]:
    for episode in episodes:
        for turn, call in zip(episode.turns, episode.calls, strict=True):
            yield {
                **_facts(episode),
                "repeat": episode.repeat,
                "turn": turn["index"],
                **{name: turn[name] for name in ("reply", "terminated", "truncated")},
                "reward": sum(term["value"] for term in turn["rewards"]),
                "rewards": json.dumps({term["name"]: term["value"] for term in turn["rewards"]}),
                "executed": [each["text"] for each in turn["executed"]],
                "problems": [problem["code"] for problem in turn["parsed"]["problems"]],
                "well_formed": turn["parsed"]["well_formed"],
                **{name: turn["metrics"][name] for name in sorted(OWN_METRICS)},
                "metrics": json.dumps(
                    {k: v for k, v in turn["metrics"].items() if k not in OWN_METRICS}
                ),
                **{name: json.dumps(turn[name]) for name in ("before", "after")},
                "ended": episode.ended.kind,
                **{name: call and call[name] for name in CALL},
                "tokens_counted_by_us": call and call["estimated"],
            }


def _samples(
    run: RunFolder, episodes: Iterable[Episode], context: ContextPolicy
) -> Iterator[dict[str, Any]]:
    prompts = {task.label: task.system_prompt for task in run.protocol.tasks}
    for episode in episodes:
        if not episode.turns:  # it ended before its first
            continue
        pictures = {
            name: Picture.from_png(run.pictures.get(name)) for name in episode.picture_names()
        }
        turns = [Turn.from_json(turn, pictures) for turn in episode.turns]
        summaries = {each["before"]: each["text"] for each in episode.summaries}
        for _, end in context.sequences(len(turns)):
            messages = chat_messages(
                prompts[episode.task], turns[:end], context=context, summaries=summaries
            )
            if context.summarises_before(end) and end in summaries:
                asked = {
                    "role": "user",
                    "content": [{"type": "text", "text": summary_request(context)}],
                }
                messages += [asked, {"role": "assistant", "content": summaries[end]}]
            yield {
                **_flat(messages),
                **_facts(episode),
                "success": episode.success,
                "return": episode.score,
            }


def _flat(messages: list[Message]) -> dict[str, Any]:
    """Messages with their pictures taken out, and these in order."""
    images: list[dict[str, Any]] = []
    texts = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            shown = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
            images += [
                {"bytes": base64.b64decode(url.partition(",")[2]), "path": None} for url in shown
            ]
            parts = [
                {"type": "text", "text": part["text"]} if part["type"] == "text" else _IMAGE
                for part in content
            ]
        else:  # a reply that quotes a placeholder shows no picture
            parts = [{"type": "text", "text": content.replace(IMAGE_PLACEHOLDER, "")}]
        texts.append({"role": message["role"], "content": parts})
    return {"messages": texts, "images": images}


_IMAGE = {"type": "image", "text": None}


def marked(run: RunFolder) -> list[str]:
    """Return one line per cell of a run with too many failed or missing episodes for a score."""
    return [
        f"{row['task']}, {row['agent']}: {row['failed']} episodes failed and {row['missing']} "
        f"were never played, of {row['played'] + row['failed'] + row['missing']}"
        for row in summarise(run).rows()
        if row["flagged"]
    ]


def _write_lines(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            count += 1
            images = [base64.b64encode(image["bytes"]).decode() for image in row.get("images", ())]
            file.write(
                json.dumps({**row, **({"images": images} if "images" in row else {})}) + "\n"
            )
    return count
