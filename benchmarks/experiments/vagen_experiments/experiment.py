"""The TOML file of an experiment.

about, env                  a description, and the environment's id
recipes, seeds              every recipe or variant is trained with every seed, from one initial
                            checkpoint
baseline                    the recipe that the others are compared with, level by level
extends                     another file whose entries these override
reasoning_reward            false omits the reasoning reward of a recipe
[options]                   of the environment
[checkpoint]                how the initial checkpoint is made; or `checkpoint = "NAME"`: env,
                            options and checkpoint of another experiment
[settings]                  of the trainer, on top of the tiny recipes'
[variants.NAME]             `recipe`, and on top of it `settings`, `options` of the environment and
                            `reward`, options of the reasoning reward
[evaluation]                episodes of the test split; greedy: whether the most likely replies are
                            played beside sampled ones; shuffled_images: whether to play them once
                            more with the images of other levels; contexts: the policies of memory
                            under which every model plays, whichever it was trained with;
                            own_options: whether models play with their variants' options of the
                            environment, and the start with those of each variant
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vagen_envs.errors import did_you_mean

ROOT = Path(__file__).parents[1]
CONFIGS, CHECKPOINTS, RESULTS = ROOT / "configs", ROOT / "checkpoints", ROOT / "results"


class ExperimentError(ValueError):
    """An experiment that does not exist, cannot be read, or does not match the folder of its
    results.
    """


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """How the initial checkpoint is made: imitation of scripted play, then a pretrained critic.

    Attributes:
        weights: a folder of `checkpoints/` to start from; empty for a model with random weights.
        vision_updates: in which the vision tower learns the relations of the objects in the
            imitated images.
        episodes: of scripted play.
        passes: over them.
        contexts: policies of memory under which the n-th episode is read in turn, so that one start
            knows all of them.
        oracle_share: share of turns in which the oracle acts; actions are random in the others.
        aim_noise: largest error of each number in the oracle's actions.
        word_noise: probability that a sentence of a reply describes another level instead.
        learning_rate: of the policy, at its peak.
        critic_episodes: of further scripted play that the critic learns from; 0 where no recipe has
            a critic.
        critic_oracle_share: as `oracle_share`; choose it so that this play succeeds about as often
            as the policy.
        critic_continuations: Monte Carlo continuations from every state for its value; 0 uses the
            rewards to go.
        critic_convolutions: layers of the attention-pooling head over the image tokens.
        critic_updates: of 512 states each.
        critic_learning_rate: at its peak.
        processes: that play ahead of the imitation; they change no result.
        sight_updates: of a pretrained language model (`fine_tuning`), which is the start where
            these are given, in which its vision tower learns to see. Most of the above is the tiny
            models'.
        replies_updates: in which it learns the oracle's replies.
    """

    weights: str = ""
    vision_updates: int = 0
    episodes: int = 0
    passes: int = 1
    contexts: Sequence[str] = ("all",)
    oracle_share: float = 0.0
    aim_noise: int = 0
    word_noise: float = 0.0
    learning_rate: float = 1e-3
    critic_episodes: int = 0
    critic_oracle_share: float = 0.0
    critic_continuations: int = 16
    critic_convolutions: int = 0
    critic_updates: int = 1500
    critic_learning_rate: float = 2e-3
    processes: int = 0
    sight_updates: int = 0
    replies_updates: int = 0

    @property
    def is_pretrained(self) -> bool:
        """Whether the start is a pretrained language model."""
        return self.replies_updates > 0


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A recipe with other settings, options of the environment or of the reasoning reward."""

    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    reward: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The held-out levels."""

    episodes: int = 256
    shuffled_images: bool = False
    contexts: Sequence[str] = ()
    own_options: bool = False
    greedy: bool = True


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment file."""

    name: str
    about: str = ""
    env: str
    recipes: Sequence[str]
    seeds: Sequence[int]
    checkpoint: Checkpoint
    baseline: str = ""
    reasoning_reward: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)

    def variant(self, name: str) -> Variant:
        """The variant of that name, or the plain recipe."""
        return self.variants.get(name, Variant(recipe=name))


def experiment_names() -> list[str]:
    """The experiments of this folder; a file without results is only a base for others."""
    return sorted(
        path.stem for path in CONFIGS.glob("*.toml") if (RESULTS / f"{path.stem}.json").is_file()
    )


def load_experiment(name_or_path: str) -> Experiment:
    """Read an experiment of this folder by name, or any file by path.

    Raises:
        ExperimentError: it does not exist, or an entry is unknown or missing.
    """
    path = _find(name_or_path)
    data = _read(path)
    try:
        return Experiment(
            name=path.stem,
            **data
            | {
                "checkpoint": Checkpoint(**data.get("checkpoint", {})),
                "variants": {
                    name: Variant(**entry) for name, entry in data.get("variants", {}).items()
                },
                "evaluation": Evaluation(**data.get("evaluation", {})),
            },
        )
    except TypeError as error:  # the dataclasses' own message names the entry
        raise ExperimentError(f"{path}: {error}") from error


def _find(name_or_path: str) -> Path:
    for path in (CONFIGS / f"{name_or_path}.toml", Path(name_or_path)):
        if path.is_file():
            return path
    known = [path.stem for path in CONFIGS.glob("*.toml")]
    raise ExperimentError(f"no experiment {name_or_path!r}.{did_you_mean(name_or_path, known)}")


def _read(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path} can't be read: {error}") from error
    if "extends" in data:
        data = _read(_find(data.pop("extends"))) | data
    if isinstance(data.get("checkpoint"), str):
        other = load_experiment(data["checkpoint"])
        data |= {
            "env": other.env,
            "options": other.options,
            "checkpoint": dataclasses.asdict(other.checkpoint),
        }
    return data
