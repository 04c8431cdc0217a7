"""The episodes that are played through a trainer, and their environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.parity.reference_model import ENV_ID, OPTIONS, Pixels, ReferenceModel
from vagen_envs.core import Turn
from vagen_envs.errors import SimulatorError

SAFE = ("Left", "Up", "Down")
"""Moves that don't end the episode on level 1."""

INJECTED = "injected failure of the recording"
"""What the environment of `broken` raises."""


@dataclass(frozen=True)
class Recording:
    """An episode with fixed replies, spelled in tokens that no tokenizer would choose.

    Attributes:
        name: short, for the report.
        why: the fault that such an episode reveals.
        seed: of the level, in split `train`.
        moves: of the turns, in order.
        max_turns: of the environment.
        cut: the turn whose reply is cut before its end token.
        image_token: the turn whose reply contains an image token.
        video_token: the turn whose reply contains a video token.
        breaks: the turn in which the environment breaks.
        room: whether the sequence has too little room for the last observation.
        refusable: whether a trainer may refuse the episode, see `Trainer.refusals`.
    """

    name: str
    why: str
    seed: int = 1
    moves: tuple[str, ...] = SAFE
    max_turns: int = 3
    cut: int | None = None
    image_token: int | None = None
    video_token: int | None = None
    breaks: int | None = None
    room: bool = False
    refusable: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the environment, as for `gym.make`."""
        return {**OPTIONS, "max_turns": self.max_turns}

    def reply_ids(self, turn: int, model: ReferenceModel) -> tuple[int, ...]:
        """Return the tokens of a reply, spelled letter by letter."""
        thought = f"I go {self.moves[turn].lower()}."
        answer = f"<answer>{self.moves[turn]}</answer>"
        if model.encoder.thought_end_id is None:
            ids = _spelled(f"<think>{thought}</think>{answer}", model)
        else:
            ids = [*_spelled(thought, model), model.encoder.thought_end_id]
            ids += _spelled(f"\n\n{answer}", model)
        if turn == self.image_token:
            ids.insert(len(ids) // 2, model.image_token)
        if turn == self.video_token:
            ids.insert(len(ids) // 2, model.video_token)
        return (*ids, *(() if turn == self.cut else (model.end_token,)))

    def summary_ids(self, turn: int, model: ReferenceModel) -> tuple[int, ...]:
        """Return the tokens of a summary before a turn, spelled letter by letter."""
        return (
            *_spelled(f"{turn} turns, and now I go {self.moves[turn].lower()}.", model),
            model.end_token,
        )


def _spelled(text: str, model: ReferenceModel) -> list[int]:
    tokenizer = model.encoder.tokenizer
    return [
        token for letter in text for token in tokenizer.encode(letter, add_special_tokens=False)
    ]


RECORDINGS = (
    Recording(
        "solved",
        "the plain case: pictures, several turns, a terminal state",
        seed=0,
        moves=(),
        max_turns=9,
    ),
    Recording("truncated", "the turns are used up; the value of the last state is unknown, not 0"),
    Recording(
        "cut reply",
        "a reply has no end token, and the template writes one that wasn't sampled",
        cut=1,
    ),
    Recording(
        "image token",
        "the model samples the token that stands for pictures (verl-agent #202)",
        image_token=1,
        refusable=True,
    ),
    Recording(
        "video token",
        "the model samples the token that stands for videos, and there is none",
        video_token=1,
        refusable=True,
    ),
    Recording(
        "no room",
        "the next observation doesn't fit, and its picture must not stay (verl #4050)",
        room=True,
        refusable=True,
    ),
    Recording(
        "broken",
        "the environment fails in the second turn, which must not be scored as 0",
        breaks=1,
        refusable=True,
    ),
)
"""In the order of the report. The oracle plays `solved`."""


class RecordedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """A recording's environment. It stores what it showed and played, and breaks in the recording's
    `breaks` turn.

    Attributes:
        turns: that were played.
        shown: pictures, one more than turns.
        texts: of the observations, one more than turns.
        played: replies, as they were given to `step`.
        is_over: whether the episode has ended.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(gym.make(ENV_ID, disable_env_checker=True, **recording.options).unwrapped)
        self.recording = recording
        self.turns: list[Turn] = []
        self.shown: list[Pixels] = []
        self.texts: list[str] = []
        self.played: list[str] = []
        self.is_over = False

    def reset(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the recording's level, whatever the arguments."""
        observation, info = self.env.reset(seed=self.recording.seed, options={"split": "train"})
        self.turns = []
        self.played = []
        self.is_over = False
        self.shown = [observation["image"]]
        self.texts = [observation["text"]]
        return observation, info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play a turn."""
        if len(self.turns) == self.recording.breaks:
            raise SimulatorError(INJECTED)
        self.played.append(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.turns.append(info["turn"])
        self.shown.append(observation["image"])
        self.texts.append(observation["text"])
        self.is_over = terminated or truncated
        return observation, reward, terminated, truncated, info


def solved(recording: Recording) -> Recording:
    """Return the recording with the oracle's moves if it has none."""
    if recording.moves:
        return recording
    env = gym.make(ENV_ID, disable_env_checker=True, **recording.options)
    env.reset(seed=recording.seed, options={"split": "train"})
    moves: list[str] = []
    over = False
    while not over:
        (move,) = env.unwrapped.plan()[:1]  # type: ignore[attr-defined]
        moves.append(move)
        _, _, terminated, truncated, _ = env.step(
            f"<think>I go {move.lower()}.</think><answer>{move}</answer>"
        )
        over = terminated or truncated
    return replace(recording, moves=tuple(moves))
