"""A proof file: what it may say, and how it is read.

    about, env                  what it is, and the environment
    recipes, seeds              each recipe or variant is trained with each seed, from one start
    target                      success on the validation split at which a training ends; by default none does
    baseline                    the recipe that the others are compared with, level by level; none by default
    [variants.NAME]             `recipe` and `settings` over it, under a name of its own
    reasoning_reward            false leaves out the reward for reasoning that a recipe has; a table changes its options
    [options]                   of the environment
    [start]                     of the imitation: see `Start`; or `start = "NAME"`: env, options and start of another
    [settings]                  of the trainer, over those of every tiny recipe; with `eval_rollouts` success on the
                                validation split is measured on the way, by episodes and by CPU seconds
    [evaluation]                split, episodes: the levels held out; other_pictures: whether they are played once more
                                with the pictures of other levels, to see what sight is worth

The files of this package are beside this module.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.proofs import entries
from vagen_benchmarks.runs.protocol import resolve_id
from vagen_envs.errors import did_you_mean, shown

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Start:
    """The imitation that every training begins from.

    Attributes:
        agent: what the agent tiny knows of an environment, by its folder's name, to go on from; else a new model is
            made, and learns to see, which takes most of the time.
        sight_episodes: of play that says what it sees and foresees (strategy `grounding_world_modeling`), before: to
            see is learned from words many times as fast as from actions. 0 where `options` asks for those words anyway.
        sight_oracle_share: as `oracle_share`, of that play.
        tower_updates: by which the vision tower learns, before anything else, to tell the relations of the things in
            the pictures of `episodes` (`teach_sight`).
        episodes: of noisy play.
        passes: how often each of `episodes` is seen; once where play is quick to make.
        oracle_share: share of turns that the oracle plays; the others are random.
        aim_noise: how far each number of the oracle's actions is off at most, in all this play.
        learning_rate: of the policy, at its highest.
        word_noise: chance of each sentence of all this play that it tells of another level.
        critic_episodes: of further noisy play, whose returns the critic learns.
        critic_oracle_share: as `oracle_share`, of that play; such that it succeeds about as often as the policy.
        critic_forks: how often each of their states is played on from for what it is worth; 0 learns what came of it.
        critic_reads: whether the critic is heads on the policy's backbone, which read pictures and are all that values
            teach, here and in the trainings: `shared_backbone`, `critic_reads` and `critic_heads_only` of
            `MultiTurnPPOConfig`. Its updates are then 512 states each, drawn from all episodes. Trainings with
            `critic_told` begin with one that is taught the same, but told the states.
        critic_convolutions: of what it reads, here and in the trainings.
        critic_updates: of it, where it reads.
        critic_learning_rate: at its highest.
        reward_scale: of those returns; that of the tiny recipes.
        vocabulary: most tokens.
        layers, hidden: size of the text model.
        processes: that play while the model imitates, where play costs more than learning; they change no result.
        seed: of the weights.
    """

    agent: str = ""
    sight_episodes: int = 0
    sight_oracle_share: float = 0.7
    tower_updates: int = 0
    episodes: int = 14_000
    passes: int = 1
    oracle_share: float = 0.7
    aim_noise: int = 0
    learning_rate: float = 2e-3
    word_noise: float = 0.0
    critic_episodes: int = 3200
    critic_oracle_share: float = 0.7
    critic_forks: int = 0
    critic_reads: bool = False
    critic_convolutions: int = 0
    critic_updates: int = 1500
    critic_learning_rate: float = 3e-4
    reward_scale: float = 0.1
    vocabulary: int = 1024
    layers: int = 3
    hidden: int = 128
    processes: int = 0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A recipe with other settings."""

    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A proof file."""

    name: str
    env: str
    recipes: Sequence[str]
    seeds: Sequence[int]
    about: str = ""
    target: float = math.inf
    baseline: str = ""
    variants: Mapping[str, Variant] = field(default_factory=dict)
    reasoning_reward: bool | Mapping[str, Any] = True
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Start = field(default_factory=Start)
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=lambda: {"split": "test", "episodes": 256})

    def trains(self, name: str) -> Variant:
        """What is trained under a name of `recipes`: a variant, or the recipe that is called so."""
        return self.variants.get(name, Variant(recipe=name))


def load_proofs(name_or_path: str) -> list[Proof]:
    """The proof of that name or file, or those whose names begin with it: `credit` for all of `credit-…`."""
    if _file(name_or_path) is not None:
        return [load_proof(name_or_path)]
    several = sorted(path.stem for path in HERE.glob("*.toml") if path.stem.startswith(f"{name_or_path}-"))
    return [load_proof(name) for name in several or [name_or_path]]


def load_proof(name_or_path: str) -> Proof:
    """A proof of this package by name, or a file.

    Whether its recipes and settings exist, and its options, `vagen_benchmarks.proofs.trainings.check` tells.

    Raises:
        ProtocolError: there is none, or it isn't one.
    """
    return _load(name_or_path, ())


def _load(name_or_path: str, asked_by: Sequence[Path]) -> Proof:
    """`asked_by`: the proofs whose start is looked for."""
    path = _file(name_or_path)
    if path is None:
        known = sorted(each.stem for each in HERE.glob("*.toml"))
        raise ProtocolError(f"there is no proof {shown(name_or_path)}.{did_you_mean(name_or_path, known)}")
    if path.resolve() in asked_by:
        raise ProtocolError(f"start = {name_or_path!r} leads back to itself; one of them needs a [start] of its own")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if isinstance(data.get("start"), str):
            data |= _start_of(data, (*asked_by, path.resolve()))
        entries.check(data)
        variants = {name: Variant(**each) for name, each in data.get("variants", {}).items()}
        return Proof(
            name=path.stem,
            **{
                **data,
                "env": resolve_id(data["env"]),
                "start": Start(**data.get("start", {})),
                "variants": variants,
            },
        )
    except (OSError, ValueError, RecursionError) as error:
        raise ProtocolError(f"{path} is not a proof: {' '.join(str(error).split())}") from error


def _file(name_or_path: str) -> Path | None:
    for path in (HERE / f"{name_or_path}.toml", Path(name_or_path)):
        try:
            if path.is_file():
                return path
        except OSError:  # no system has names that long
            continue
    return None


def _start_of(data: Mapping[str, Any], asked_by: Sequence[Path]) -> dict[str, Any]:
    """What a proof has from the one that its `start` names."""
    for name in ("env", "options"):
        if name in data:
            raise ProtocolError(
                f"start = {data['start']!r} brings an env and options, so {name}={shown(data[name])} would be "
                f"left aside: leave {name} out, or give a [start] table"
            )
    other = _load(data["start"], asked_by)
    return {"env": other.env, "options": other.options, "start": dataclasses.asdict(other.start)}


def check_asked(proofs: Sequence[Proof], recipes: Sequence[str], seeds: Sequence[int]) -> None:
    """Raises ProtocolError if one of the recipes or seeds is of none of the proofs."""
    for name, asked, known in (
        ("recipe", recipes, {each for proof in proofs for each in proof.recipes}),
        ("seed", seeds, {each for proof in proofs for each in proof.seeds}),
    ):
        for each in asked:
            if each not in known:
                raise ProtocolError(
                    f"{', '.join(proof.name for proof in proofs)}: no {name} {each!r} to train; there are "
                    f"{', '.join(map(str, sorted(known)))}"
                )
