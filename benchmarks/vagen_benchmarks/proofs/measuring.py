"""How well a policy plays levels that no training has seen, and how badly: what its eyes are worth to it."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from vagen_adapters.ppo.sight import Told
    from vagen_envs import State, Turn

OTHER_LEVEL = 4_000_000
"""What is added to a level's seed to find another one's pictures."""


def measure(
    folder: Path, env_id: str, options: Mapping[str, Any], *, split: str, episodes: int, other_pictures: bool = False,
    max_tokens: int = 64, num_envs: int = 128, env_threads: int = 1, model: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Play held-out levels with replies sampled at temperature 1, with the most likely ones, and at random.

    Args:
        folder: of the model.
        env_id: the environment, as in `gym.make`.
        options: its options.
        split: of the levels.
        episodes: how many levels.
        other_pictures: whether they are played once more with the pictures of other levels.
        max_tokens: of a reply.
        num_envs: that are played at once.
        env_threads: that step them.
        model: plays instead of the one in `folder`, whose codec it has.
    """
    from vagen_adapters.ppo import tiny
    from vagen_adapters.ppo.episodes import Level
    from vagen_adapters.ppo.family_checks import sampler_of
    from vagen_adapters.ppo.generation import Sampling
    from vagen_adapters.ppo.imitation import demonstrate
    from vagen_adapters.ppo.rollout import Rollout
    from vagen_benchmarks.meter import Meter

    own, codec = tiny.load(folder)
    sampler = sampler_of(model if model is not None else own, codec)
    levels = [Level(seed, split) for seed in range(episodes)]
    found = {}
    ways = [("sampled", 1.0), ("greedy", 0.0)]
    if other_pictures:
        ways.append(("other_pictures", 1.0))
    envs = [gym.make(env_id, **options) for _ in range(min(num_envs, len(levels)))]
    core: Any = envs[0].unwrapped
    told_in = core.config.representation if "<observation>" in core.grammar.template() else ""
    with Meter(f"ways to play {episodes} levels of {split}", len(ways)) as meter:
        for name, temperature in meter.over(ways):
            sampling = Sampling(temperature=temperature, top_p=1.0, max_tokens=max_tokens)
            players = [OtherPictures(env) for env in envs] if name == "other_pictures" else envs
            rollout = Rollout(players, codec, sampler, sampling, threads=env_threads)
            found[name] = _summary(rollout.play(levels, seed=0), told_in)
            sampler.finish()
    by_rule = [demonstrate(envs[0], codec, level, oracle_share=0.0) for level in levels]
    found["chance"] = _summary(by_rule, told_in)
    for env in envs:
        env.close()
    return found


class OtherPictures(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that shows the first picture of another level of the split, whatever happens."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None  # a rollout names the level
        self.picture = self.env.reset(seed=seed + OTHER_LEVEL, options=options)[0]["image"]
        observation, info = self.env.reset(seed=seed, options=options)
        return {**observation, "image": self.picture}, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return {**observation, "image": self.picture}, reward, terminated, truncated, info


def _summary(episodes: Sequence[Any], told_in: str) -> dict[str, Any]:
    """Figures of episodes.

    `idle_moves` is the share of executed actions that changed nothing, such as pushes into walls, `fatal_moves` of
    those that lost the level for good, such as steps into holes. `grounding` and `world_modeling` are what the rules
    judge, as the reward does; where replies tell of the world in the representation `told_in`, `…_exact` is what
    `exact_words` finds, and `…_exact_by_level` its mean over each episode.
    """
    sound = [each for each in episodes if each.failure is None]
    turns = [turn.turn for each in sound for turn in each.turns]
    moves = [action for turn in turns for action in turn.executed]
    fatal = sum(each.terminated and not each.success for each in sound)
    return {
        "episodes": len(episodes),
        "failed": len(episodes) - len(sound),
        "successes": sum(each.success for each in sound),
        "success": sum(each.success for each in sound) / len(episodes),
        "return": sum(each.rewards for each in sound) / len(sound),
        "format": sum(turn.parsed.format_correct for turn in turns) / len(turns),
        "idle_moves": sum(not each.effective for each in moves) / max(1, len(moves)),
        "fatal_moves": fatal / max(1, len(moves)),
        **_by_rules(turns),
        **(_exactly(episodes, told_in) if told_in else {}),
        "solved": "".join("01"[each.success] for each in episodes),
    }


def _by_rules(turns: Sequence[Turn]) -> dict[str, float]:
    from vagen_rewards.rules import RuleJudge
    from vagen_rewards.scores import score_turn

    judge, scores = RuleJudge(), dict[str, list[float]]()
    for turn in turns:
        for part, score in score_turn(turn, judge).by_part():
            if score.value is not None:
                scores.setdefault(part, []).append(score.value)
    return {part: statistics.fmean(each) for part, each in sorted(scores.items())}


def _exactly(episodes: Sequence[Any], told_in: str) -> dict[str, Any]:
    from vagen_rewards.scores import PARTS, statements_of

    def exactly(turn: Turn, part: str) -> float:
        return sum(exact_words(each.text, each.state, told_in) for each in statements_of(turn) if each.part == part)

    found: dict[str, Any] = {}
    for part in PARTS:
        scores = [[exactly(each.turn, part) for each in one.turns] for one in episodes]
        found[f"{part}_exact"] = statistics.fmean(itertools.chain.from_iterable(scores))
        found[f"{part}_exact_by_level"] = [round(statistics.fmean(each), 4) if each else 0.0 for each in scores]
    return found


def exact_words(said: str | None, state: State, representation: str) -> float:
    """F1 of the sentences of a field with those that the state itself would say; no field has 0.

    No judge has a part in it: a sentence is right if it stands, word for word, in the state's description, and as often
    as there. So it is for models that have learned to speak like that. Which of its holes is `Hole3` is left open.
    """
    own, true = _told(said or ""), _told(state.describe(representation))
    return 2 * (own & true).total() / (own.total() + true.total())


def _told(description: str) -> Counter[str]:
    from vagen_adapters.ppo.imitation import sentences

    return Counter(re.sub(r"(?<=[A-Za-z])\d+", "", each) for each in sentences(description) if each)


def sight_lines(told: Mapping[str, Told]) -> Iterator[str]:
    """What a vision tower tells of each relation of pictures that it wasn't taught on."""
    for relation, each in told.items():
        yield f"sight: {relation}: {each.explained:.2f} of its variance, {each.off:.2f} off ({each.count} things)"


def play_lines(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Success, and how badly it plays, of sampled and of most likely replies and of random play."""
    for name in ("sampled", "greedy", "chance"):
        each = found[name]
        yield (
            f"{name}: success {each['success']:.3f}, moves that change nothing {each['idle_moves']:.3f}, "
            f"moves that lose {each['fatal_moves']:.3f} ({each['episodes']} levels)"
        )
