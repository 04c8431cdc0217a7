"""What a trainer's adapter is given, and what it hands over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from vagen_adapters.parity.recordings import Recording, Watched
from vagen_adapters.parity.sampler import RecordedSampler
from vagen_adapters.parity.stage import Stage


@dataclass(frozen=True, eq=False)
class Scene:
    """One recording, set up to be played.

    Attributes:
        stage: the model: `stage.folder` is a checkpoint, `stage.model` the same loaded.
        recording: what is played.
        env: a Gymnasium environment with observations `{"image": …, "text": …}` and `info["turn"]`; `reset` gives the
            recording's level.
        sampler: to be asked for every reply, with what the trainer shows its sampler.
        room: tokens that the sequence may have after its first prompt; `None` for enough.
    """

    stage: Stage
    recording: Recording
    env: Watched
    sampler: RecordedSampler
    room: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained:
    """A sequence as the trainer's forward pass gets it, without padding.

    Attributes:
        input_ids: L tokens.
        mask: L, true where the policy is trained.
        forward: whatever else the model's forward pass gets, for a batch of this one: `pixel_values`,
            `image_grid_thw`, `mm_token_type_ids`, `position_ids` …
        logprobs: L, the sampler's as the trainer keeps them; `None` if it computes its own.
        rewards: L, for a trainer with rewards at tokens, else `None`.
        reward: of the episode, for a trainer that has no more than that, else `None`.
        terminated, truncated: as the trainer keeps them; `None` if it makes no difference between ends.
        turns: which turns it is trained on; `None` for all that were played.
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
    """The adapter of a trainer."""

    name: str

    def play(self, scene: Scene) -> Sequence[Trained]:
        """Play the scene's episode by the trainer's own rollout code; what it would train on.

        An episode that isn't trained on is no sequences. Whatever is raised is taken for what the trainer does.
        """
