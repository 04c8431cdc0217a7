"""What agents say, judged while they play: verdicts in each turn, as `vagen judge rescore` gives
them afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vagen_benchmarks.agents.custom import named_judge
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.bounds import REWARD
from vagen_envs.core import Turn
from vagen_envs.errors import shown
from vagen_rewards import ReasoningReward
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.scores import PARTS, TurnScores, wait_for

MEASURED = {"weighting": "plain"}
"""A benchmark measures, and the judge's own score is what the paper's figures are; training pays by
information.
"""


@dataclass(frozen=True)
class RunScoring:
    """A reward for reasoning, and the settings that it was made from.

    Attributes:
        settings: its options, as `ReasoningReward.from_options` takes them.
        reward: the reward.
    """

    settings: Mapping[str, Any]
    reward: ReasoningReward
    _rewards: dict[str, ReasoningReward] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """What of it belongs to the protocol."""
        made = self.reward.describe()
        own = {
            name: value
            for name, value in self.settings.items()
            if name not in ("llm", "version", "betas", *PARTS)
        }
        return {**own, "version": made["judge"], "betas": made["betas"]}

    def scored(
        self, turns: Sequence[Turn], env_options: Mapping[str, Any]
    ) -> list[tuple[Turn, TurnScores]]:
        """The turns with verdicts, reasons and reward terms, and their scores. Blocks; may be
        called from threads.

        Args:
            turns: of one environment.
            env_options: its options, as for `gym.make`.
        """
        key = json.dumps(dict(env_options), sort_keys=True, default=str)
        reward = self._rewards.setdefault(key, self.reward.of(env_options))
        return wait_for(reward.paid_all(turns))


def make_scoring(settings: Mapping[str, Any] | None, **llm: Any) -> RunScoring | None:
    """Make a protocol's scoring: `judge`, `betas` (0.5 for each part), `gate`, `weighting` and
    `penalty`.

    Args:
        settings: of a protocol; None gives no scoring.
        llm: options of a language model's judge that don't belong to the protocol, such as its
            cache.

    Raises:
        ProtocolError: an entry is unknown.
    """
    if settings is None:
        return None
    if not isinstance(settings.get("judge"), str):
        raise ProtocolError(
            "the scoring names no judge: give judge = 'rule' or another of `vagen judge`, and "
            "betas = {grounding = …, world_modeling = …} if not 0.5"
        )
    options = {
        **MEASURED,
        **{name: value for name, value in settings.items() if name not in ("version", "betas")},
    }
    betas = {**dict.fromkeys(PARTS, 0.5), **settings.get("betas", {})}
    for part, beta in betas.items():
        if not REWARD.admits(beta):
            raise ProtocolError(
                f"the scoring's beta of {part} is {shown(beta)}; it must be {REWARD}"
            )
    try:
        judge = named_judge(settings["judge"], **llm)
        return RunScoring(
            options, ReasoningReward.from_options({**options, **betas, "judge": judge})
        )
    except JudgeConfigError as error:
        raise ProtocolError(f"the scoring is not valid: {error}") from error
