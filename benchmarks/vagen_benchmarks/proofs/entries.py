"""What the entries of a proof file may be; see `vagen_benchmarks.proofs.proof`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vagen_benchmarks.agents import tiny as tiny_agent
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.bounds import SWITCH, Bound, Number, OneOf, Several, Whole, Words
from vagen_envs.errors import did_you_mean, shown
from vagen_envs.seeding import SPLITS

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""A variant's, which becomes a file's."""


@dataclass(frozen=True)
class Kind:
    """A bound: a value of one of these types."""

    types: tuple[type, ...]
    said: str

    def admits(self, value: Any) -> bool:
        return isinstance(value, self.types)

    def __str__(self) -> str:
        return self.said


TEXT, TABLE = Kind((str,), "a text"), Kind((dict,), "a table")
COUNT, SOME, SHARE, RATE = Whole(0, 10**9), Whole(1, 10**9), Number(0, 1), Number(1e-12, 10)
IN_PROOF: Mapping[str, Bound] = {
    "about": TEXT, "env": Words(200), "recipes": Several(Words(100), 1000),
    "seeds": Several(Whole(0, 2**32 - 1), 10**6), "target": Number(0, 1), "baseline": TEXT, "variants": TABLE,
    "reasoning_reward": Kind((bool, dict), "true, false or a table of options"), "options": TABLE,
    "start": Kind((str, dict), "a table, or the name of the proof whose start it is"), "settings": TABLE,
    "evaluation": TABLE,
}  # fmt: skip
IN_VARIANT: Mapping[str, Bound] = {"recipe": Words(100), "settings": TABLE}
IN_EVALUATION: Mapping[str, Bound] = {"split": OneOf(SPLITS), "episodes": SOME, "other_pictures": SWITCH}
IN_START: Mapping[str, Bound] = {
    "agent": TEXT, "sight_episodes": COUNT, "sight_oracle_share": SHARE, "tower_updates": COUNT, "episodes": SOME,
    "passes": SOME, "oracle_share": SHARE, "aim_noise": COUNT, "learning_rate": RATE, "word_noise": SHARE,
    "critic_episodes": COUNT, "critic_oracle_share": SHARE, "critic_forks": COUNT, "critic_reads": SWITCH,
    "critic_convolutions": Whole(0, 1000), "critic_updates": COUNT, "critic_learning_rate": RATE,
    "reward_scale": Number(1e-9, 1e9), "vocabulary": Whole(300, 10**6), "layers": Whole(1, 1000),
    "hidden": Whole(32, 10**6), "processes": Whole(0, 1000), "seed": Whole(-(2**63), 2**63 - 1),
}  # fmt: skip


def check(data: Mapping[str, Any]) -> None:
    """Raises ProtocolError for what no proof says, or lacks."""
    _require(data, IN_PROOF, "", ("env", "recipes", "seeds"))
    for name in ("recipes", "seeds"):
        twice = sorted({each for each in data[name] if data[name].count(each) > 1})
        if twice:
            raise ProtocolError(f"{name} names {twice[0]!r} more than once; every training is made once")
    baseline = data.get("baseline", "")
    if baseline and baseline not in data["recipes"]:
        raise ProtocolError(
            f"baseline={baseline!r} is none of its recipes, so nothing would be compared with it."
            f"{did_you_mean(baseline, data['recipes'])}"
        )
    for name, variant in data.get("variants", {}).items():
        if not NAME.fullmatch(name):
            raise ProtocolError(
                f"[variants] {shown(name)} can't name files: it must be letters, digits, '.', '_' and '-', "
                "and not begin with a dot or a dash"
            )
        if not isinstance(variant, dict):
            raise ProtocolError(f"[variants.{name}] must be a table with a recipe, not {shown(variant)}")
        _require(variant, IN_VARIANT, f"[variants.{name}]", ("recipe",))
    if "split" in data.get("options", {}):
        raise ProtocolError(
            "[options] split: trainings play `train`, and what is held out says [evaluation]; leave it out"
        )
    if "evaluation" in data:
        _require(data["evaluation"], IN_EVALUATION, "[evaluation]", ("split", "episodes"))
    _check_start(data.get("start", {}))


def _check_start(start: Mapping[str, Any]) -> None:
    _require(start, IN_START, "[start]")
    if start.get("agent"):
        check_agent(start["agent"])
    reads = start.get("critic_reads", False)
    if start.get("critic_convolutions") and not reads:
        raise ProtocolError("[start] critic_convolutions are of a critic that reads; add critic_reads = true")
    if reads and start.get("critic_episodes", 2) < 2:
        raise ProtocolError(
            f"[start] critic_episodes={start['critic_episodes']} is not valid: it must be at least 2 "
            "where critic_reads is true, some to learn from and some held out"
        )


def _require(table: Mapping[str, Any], bounds: Mapping[str, Bound], where: str, needed: Iterable[str] = ()) -> None:
    for name, value in table.items():
        if name not in bounds:
            raise ProtocolError(f"{where or 'it'} has no entry {shown(name)}.{did_you_mean(name, bounds)}")
        if not bounds[name].admits(value):
            raise ProtocolError(f"{where} {name}={shown(value)} is not valid: it must be {bounds[name]}")
    for name in needed:
        if name not in table:
            raise ProtocolError(f"{where or 'it'} lacks {name!r}, which must be {bounds[name]}")


def check_agent(name: str) -> None:
    """Raises ProtocolError where the agent tiny knows nothing of that name, which is a folder's."""
    known = sorted(path.parent.name for path in tiny_agent.FOLDER.glob("*/player.json"))
    if name not in known:
        raise ProtocolError(f"[start] agent: the agent tiny knows no {name!r}.{did_you_mean(name, known)}")
