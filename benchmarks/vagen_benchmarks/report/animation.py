"""An episode as an animated GIF: what the agent saw, and under it what it did."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.errors import did_you_mean

SMALLEST = 320
"""Pixels that a picture is enlarged to, by a whole factor."""
CAPTION = 44
"""Pixels below a picture for two lines of text."""


def find_episode(run: RunFolder, agent: str | None, task: str | None, seed: int) -> Episode:
    """The first episode of that agent, task (a part of its label) and seed. Raises ProtocolError if there is none."""
    for episode in run.episodes():
        fits = (agent in (None, episode.agent), (task or "").lower() in episode.task.lower(), seed == episode.seed)
        if all(fits):
            return episode
    agents = [str(each["name"]) for each in run.protocol.agents]
    hint = did_you_mean(agent, agents) if agent is not None and agent not in agents else ""
    raise ProtocolError(f"{run.path} has no episode of agent {agent}, task {task}, seed {seed}.{hint}")


def write_gif(run: RunFolder, episode: Episode, path: Path, seconds: float = 1.5) -> int:
    """Write the episode's pictures, one a turn and the last result, and return how many there are.

    Raises:
        ProtocolError: the episode has no pictures.
    """
    shown = [(turn["observed"], _before(turn)) for turn in episode.turns]
    if episode.turns:
        last = episode.turns[-1]
        end = "solved" if episode.success else "not solved"
        shown.append((last["result"], f"{end}, return {episode.score:.2f}"))
    frames = [
        _frame(run.picture(observation["picture"]["sha256"]), f"{episode.agent} · seed {episode.seed}", caption)
        for observation, caption in shown
        if observation["picture"]
    ]
    if not frames:
        raise ProtocolError(f"episode {episode.key} has no pictures to show")
    first, *rest = frames
    first.save(path, "GIF", save_all=True, append_images=rest, duration=int(seconds * 1000), loop=0)
    return len(frames)


def _before(turn: dict[str, Any]) -> str:
    done = ", ".join(each["text"] for each in turn["executed"]) or "nothing was executed"
    return f"turn {turn['index'] + 1}: {done}"


def _frame(png: bytes, *lines: str) -> Image.Image:
    with Image.open(io.BytesIO(png)) as image:
        picture = image.convert("RGB")
    factor = max(1, -(-SMALLEST // max(picture.size)))
    picture = picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    frame = Image.new("RGB", (picture.width, picture.height + CAPTION), "white")
    frame.paste(picture)
    draw, font = ImageDraw.Draw(frame), ImageFont.load_default(14)
    for i, line in enumerate(lines):
        draw.text((6, picture.height + 4 + 19 * i), line[:60], fill="black", font=font)
    return frame
