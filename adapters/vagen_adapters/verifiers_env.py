"""verifiers: a taskset of levels, and an environment that plays them with pictures.

>>> from vagen_adapters.verifiers_env import load_environment
>>> environment = load_environment("vagen/Sokoban-v0", split="test", num_levels=20)

On the command line the taskset is called `vagen-adapters`:

    vf-eval vagen-adapters --env.taskset.env-id vagen/Sokoban-v0 -n 20 -m MODEL
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import gymnasium as gym
from pydantic import Field

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.episode_metrics import episode_metrics
from vagen_adapters.errors import not_importable
from vagen_adapters.rows import levels, make_from_row
from vagen_envs.chat import observation_parts
from vagen_envs.core import Observation, Turn, VagenEnv
from vagen_envs.seeding import Split
from vagen_rewards import with_reasoning

try:
    import verifiers.v1 as vf
    from openai import APIError, AsyncOpenAI
    from verifiers.v1.dialects.chat import message_to_wire
except ImportError as error:
    raise not_importable("vagen_adapters.verifiers_env", "verifiers", "verifiers", error) from error

TASKSET_ID = "vagen-adapters"
"""verifiers finds plug-ins by the name of a top-level package, so `vagen_adapters` exports these classes."""


class LevelsConfig(vf.TasksetConfig):
    """Environment and levels of a taskset. Task `i` is the level of seed `first_seed + i`."""

    env_id: str = "vagen/Sokoban-v0"
    """An id of this package, or of your own `VagenEnv`."""
    split: Split = "train"
    """`"train"`, `"val"` or `"test"`; splits share no level."""
    first_seed: int = Field(0, ge=0)
    num_levels: int | None = Field(None, ge=1)
    """100 by default, or all levels of published data."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment, as for `gym.make`."""


class LevelData(vf.TaskData):
    """The arguments that recreate a level."""

    env_id: str
    split: Split
    seed: int
    options: dict[str, Any]


class LevelTask(vf.Task[LevelData]):
    """A level. `record` derives rewards and metrics from the turns."""


class Levels(vf.Taskset[LevelTask, LevelsConfig]):
    """The levels of a `LevelsConfig`."""

    def load(self) -> Iterator[LevelTask]:
        config = self.config
        named = {"split": config.split, "first_seed": config.first_seed, "num_levels": config.num_levels}
        for (system,), row in levels(config.env_id, **named, **config.options):
            name = f"{config.env_id}/{config.split}/{row['seed']}"
            yield LevelTask(LevelData(name=name, system_prompt=system["content"], **row), config.task)


class ChatConfig(vf.HarnessConfig):
    """Configuration of `Chat`."""

    id: str = TASKSET_ID


class Chat(vf.Harness[ChatConfig]):
    """Make one model call per turn in this process. verifiers' own chat harness starts a program per turn."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the conversation to `endpoint`, where verifiers records and forwards it."""
        system_prompt, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system_prompt}] if system_prompt else []
        messages += [message_to_wire(message) for message in cast("Sequence[Any]", prompt or [])]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as client:
            try:
                await client.chat.completions.create(model=ctx.model, messages=messages)
            except APIError as error:  # verifiers decides how to treat a failed call
                return vf.ProgramResult(exit_code=1, stdout="", stderr=f"{type(error).__name__}: {error}")
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class PlayConfig(vf.EnvConfig):
    """Configuration of `Play`."""

    player: vf.AgentConfig = vf.AgentConfig(harness=ChatConfig(), runtime=vf.SubprocessConfig())
    """The model that plays."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weights of the reward terms by name (`success`, `format`, …); 1 by default."""
    reasoning: dict[str, Any] | None = None
    """Options of the reasoning reward, see `load_environment`."""


class Play(vf.Env[PlayConfig]):
    """Plays a level. Observations are user messages with pictures; each reply is a turn."""

    def _make(self, data: LevelData) -> gym.Env[Any, Any]:
        """Make the environment of a task. Tasks that differ from the operator's configuration are untrusted."""
        own = self.config.taskset
        if isinstance(own, LevelsConfig) and (own.env_id, own.options) == (data.env_id, data.options):
            return make(data.env_id, data.options, self.config.reasoning)
        return with_reasoning(make_from_row(data.env_id, data.options), self.config.reasoning)

    async def run(self, task: LevelTask, agents: vf.Agents) -> None:
        """Play the level to its end, or until the player reaches its limits."""
        data = task.data
        with ThreadPoolExecutor(1) as pool:  # some simulators must stay in their thread

            def call(function: Any, *args: Any) -> Any:
                return asyncio.get_running_loop().run_in_executor(pool, function, *args)

            env: gym.Env[Any, Any] = await call(self._make, data)
            turns: list[Turn] = []
            try:
                now: Observation = await call(reset, env, data.seed, data.split)
                async with agents.player.interaction(task) as interaction:
                    over = False
                    while not over:
                        message = {"role": "user", "content": observation_parts(now)}
                        segment = await interaction.turn([message])
                        if segment.terminated:  # a limit or an error; verifiers records it
                            break
                        *_, terminated, truncated, info = await call(env.step, segment.last_reply)
                        turns.append(info["turn"])
                        now = info["turn"].result
                        over = terminated or truncated
                    if not interaction.trace.errors:
                        record(interaction.trace, turns, self.config.weights)
            finally:
                await call(env.close)


def record(trace: vf.Trace, turns: Sequence[Turn], weights: Mapping[str, float]) -> None:
    """Record an episode on its trace.

    Rewards are the reward terms, summed over the episode. Metrics are `success` (0 or 1), `turns`, and the mean of each
    numeric or boolean turn metric. `trace.info["turns"]` contains the turns as JSON, to be read with `Turn.from_json`.
    """
    terms: dict[str, float] = {}
    for term in (term for turn in turns for term in turn.rewards):
        terms[term.name] = terms.get(term.name, 0.0) + term.value
    for name, value in terms.items():
        trace.record_reward(name, value, weights.get(name, 1.0))
    trace.record_metrics(episode_metrics(turns))
    trace.info["turns"] = [turn.to_json() for turn in turns]


def make(env_id: str, options: Mapping[str, Any], reasoning: Mapping[str, Any] | None = None) -> gym.Env[Any, Any]:
    """Make an environment without Gymnasium's wrappers, with the given reasoning reward."""
    return with_reasoning(gym.make(env_id, **options).unwrapped, reasoning)


def reset(env: gym.Env[Any, Any], seed: int, split: Split) -> Observation:
    """Start a level and return its first observation."""
    env.reset(seed=seed, options={"split": split})
    return cast(VagenEnv, env.unwrapped).observed


def load_environment(
    env_id: str,
    *,
    split: Split = "train",
    first_seed: int = 0,
    num_levels: int | None = None,
    weights: Mapping[str, float] | None = None,
    max_model_turns: int | None = None,
    reasoning: Mapping[str, Any] | None = None,
    **options: Any,
) -> Play:
    """Return a verifiers environment over levels of `env_id`.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        split: `"train"`, `"val"` or `"test"`; splits share no level.
        first_seed: task `i` is the level of seed `first_seed + i`.
        num_levels: number of tasks; by default 100, or all levels of published data.
        weights: of the reward terms by name; 1 by default.
        max_model_turns: maximum number of replies per episode, beside the environment's own limit.
        reasoning: options of `vagen_rewards.ReasoningReward`, which adds the reasoning reward to the environment's
            reward. None adds nothing.
        options: for `gym.make`.
    """
    taskset = LevelsConfig(
        id=TASKSET_ID, env_id=env_id, split=split, first_seed=first_seed, num_levels=num_levels, options=options
    )
    player = PlayConfig().player.model_copy(update={"max_turns": max_model_turns})
    asked = None if reasoning is None else dict(reasoning)
    return Play(PlayConfig(taskset=taskset, weights=dict(weights or {}), player=player, reasoning=asked))
