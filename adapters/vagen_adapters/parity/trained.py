"""The input and the output of a trainer's adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from vagen_adapters.parity.recordings import RecordedEnv, Recording
from vagen_adapters.parity.reference_model import ReferenceModel
from vagen_adapters.parity.sampler import RecordedSampler


@dataclass(frozen=True, eq=False)
class Playback:
    """One recording, ready to be played.

    Attributes:
        model: `model.folder` is a checkpoint, `model.model` the loaded model.
        recording: the recording to play.
        env: a Gymnasium environment with observations `{"image": …, "text": …}` and `info["turn"]`;
            `reset` starts the recording's level.
        sampler: call it for every reply, with exactly what the trainer passes to its sampler.
        room: maximum number of tokens after the first prompt; None for no limit.
    """

    model: ReferenceModel
    recording: Recording
    env: RecordedEnv
    sampler: RecordedSampler
    room: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedSequence:
    """A sequence as the trainer's forward pass receives it, without padding.

    Attributes:
        input_ids: L tokens.
        mask: L, true where the policy is trained.
        forward: all other inputs of the forward pass, for a batch of this sequence: `pixel_values`,
            `image_grid_thw`, `mm_token_type_ids`, `position_ids` …
        logprobs: L, the sampler's log-probabilities as the trainer stores them; None if it
            recomputes them.
        rewards: L, for a trainer with rewards per token, else None.
        reward: of the episode, for a trainer with one reward per episode, else None.
        terminated: as the trainer stores it; None if it doesn't.
        truncated: the same.
        turns: the turns that are trained; None for all.
    """

    input_ids: Sequence[int]
    mask: Sequence[bool]
    forward: dict[str, Tensor] = field(default_factory=dict)
    logprobs: Sequence[float] | None = None
    rewards: Sequence[float] | None = None
    reward: float | None = None
    terminated: bool | None = None
    truncated: bool | None = None
    turns: Sequence[int] | None = None


class Trainer(Protocol):
    """The adapter of a trainer.

    Attributes:
        name: for the report.
        refusals: how the library refuses episodes that it may refuse, by the recording's name: a
            part of `ErrorType: message`, or of `the episode is left out`. Any other exception is
            a failure: a trainer that stumbles doesn't refuse.
    """

    name: str
    refusals: Mapping[str, str]

    def play(self, playback: Playback) -> Sequence[TrainedSequence]:
        """Play the episode with the trainer's own rollout code and return the sequences that it
        would train on.

        Return an empty list if the episode is left out. Exceptions count as the trainer's
        behaviour.
        """
