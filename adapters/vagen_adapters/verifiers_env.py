"""verifiers: an environment that plays the levels of a taskset, with pictures.

>>> from vagen_adapters.verifiers_env import load_environment
>>> environment = load_environment("vagen/Sokoban-v0", split="test", num_levels=20)

On the command line the taskset is called `vagen-adapters`:

    vf-eval vagen-adapters --env.taskset.env-id vagen/Sokoban-v0 -n 20 -m MODEL
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
from pydantic import Field, model_validator

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.context import HIDDEN, ContextPolicy, Message, chat_messages, summary_messages
from vagen_adapters.ends import ends_of, without_checks
from vagen_adapters.env_thread import running, start
from vagen_adapters.episode_metrics import episode_metrics, reward_terms
from vagen_adapters.errors import not_importable
from vagen_adapters.prompt_check import require_prompt_of
from vagen_adapters.rows import check_names, make_from_row, require_whole_context
from vagen_envs.core import Observation, Turn
from vagen_envs.seeding import Split
from vagen_rewards import with_reasoning

try:
    import verifiers.v1 as vf
    from openai import APIError, AsyncOpenAI
    from verifiers.v1.dialects.chat import message_to_wire
except ImportError as error:
    raise not_importable("vagen_adapters.verifiers_env", "verifiers", "verifiers", error) from error

from vagen_adapters.verifiers_taskset import TASKSET_ID, LevelData, LevelsConfig, LevelTask


class ChatConfig(vf.HarnessConfig):
    """Configuration of `Chat`."""

    id: str = TASKSET_ID


class Chat(vf.Harness[ChatConfig]):
    """Make one model call per turn in this process. verifiers' own chat harness starts a program
    per turn.
    """

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
        messages: list[Any] = (
            [{"role": "system", "content": system_prompt}] if system_prompt else []
        )
        messages += [message_to_wire(message) for message in cast("Sequence[Any]", prompt or [])]
        # Where `Play` makes the prompt by a context policy, it follows the conversation so far and
        # replaces it.
        messages = messages[
            max((i for i, each in enumerate(messages) if each["role"] == "system"), default=0) :
        ]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as client:
            try:
                await client.chat.completions.create(model=ctx.model, messages=messages)
            except APIError as error:  # verifiers decides how to treat a failed call
                return vf.ProgramResult(
                    exit_code=1, stdout="", stderr=f"{type(error).__name__}: {error}"
                )
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class PlayConfig(vf.EnvConfig):
    """Configuration of `Play`."""

    player: vf.AgentConfig = vf.AgentConfig(harness=ChatConfig(), runtime=vf.SubprocessConfig())
    """The model that plays."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weights of the reward terms by name (`success`, `format`, …); 1 by default."""
    reasoning: dict[str, Any] | None = None
    """Options of the reasoning reward, see `load_environment`."""
    context: str = "all"
    """What a prompt shows of earlier turns, such as `"last:2"`, see `vagen_adapters.context`. Each
    prompt of another policy than `"all"` is a branch of the trace, which verifiers trains as a
    sequence of its own."""

    @model_validator(mode="after")
    def check_context(self) -> PlayConfig:
        """Only `Chat` takes whole prompts."""
        ContextPolicy.parse(self.context)
        if not isinstance(self.player.harness, ChatConfig):
            require_whole_context(self.context, f"the harness {self.player.harness}")
        return self


class Play(vf.Env[PlayConfig]):
    """Plays a level. Observations are user messages with pictures; each reply is a turn."""

    def _make(self, data: LevelData) -> gym.Env[Any, Any]:
        """Make the environment of a task. Tasks that differ from the operator's configuration are
        untrusted.
        """
        own = self.config.taskset
        options = data.options
        is_own = isinstance(own, LevelsConfig) and (own.env_id, own.options) == (
            data.env_id,
            options,
        )
        if is_own:
            made = without_checks(gym.make(data.env_id, **options))
        else:
            made = make_from_row(data.env_id, options)
        require_prompt_of(made, data.env_id, data.prompt_hash, options)
        return with_reasoning(made, self.config.reasoning)

    async def run(self, task: LevelTask, agents: vf.Agents) -> None:
        """Play the level to its end, or until the player reaches its limits."""
        data = task.data
        policy = ContextPolicy.parse(self.config.context)
        turns: list[Turn] = []
        nodes: list[int | None] = []
        replies: list[Any] = []
        summaries: dict[int, str] = {}
        past: dict[str, Any] = {"context": policy, "hidden": replies, "summaries": summaries}
        async with running(self._make, data) as (env, call):
            now: Observation = await call(start, env, data.seed, data.split)
            async with agents.player.interaction(task) as interaction:
                over = False
                while not over:
                    if policy.summarises_before(len(turns)):
                        segment = await interaction.turn(
                            wire(summary_messages(data.system_prompt, turns, **past))
                        )
                        if segment.terminated:
                            break
                        summaries[len(turns)] = segment.last_reply
                    prompt = wire(chat_messages(data.system_prompt, turns, now, **past))
                    segment = await interaction.turn(
                        prompt if policy != ContextPolicy() else prompt[-1:]
                    )
                    if segment.terminated:  # a limit or an error; verifiers records it
                        break
                    replies.append(segment.messages[-1])
                    nodes.append(interaction.trace.calls[-1].node)
                    *_, terminated, truncated, info = await call(env.step, segment.last_reply)
                    turns.append(info["turn"])
                    now = info["turn"].result
                    over = terminated or truncated
                if not interaction.trace.errors:
                    record(interaction.trace, turns, nodes, self.config.weights)


def wire(messages: list[Message]) -> list[Any]:
    """Messages for verifiers. A reply with hidden reasoning is passed as verifiers gave it."""
    return [message.get(HIDDEN, message) for message in messages]


def record(
    trace: vf.Trace,
    turns: Sequence[Turn],
    nodes: Sequence[int | None],
    weights: Mapping[str, float],
) -> None:
    """Record an episode on its trace.

    Rewards are the reward terms, summed over the episode. Metrics are `success` (0 or 1), `turns`,
    and the mean of each numeric or boolean turn metric. `trace.info["turns"]` contains the turns as
    JSON, to be read with `Turn.from_json`. verifiers has no field for a turn's reward:
    `trace.info["turn_rewards"]` has each, weighted, with the index of its reply in `trace.nodes`,
    to whose tokens a trainer gives `advantages`.
    """
    for name, value in reward_terms(turns).items():
        trace.record_reward(name, value, weights.get(name, 1.0))
    ends = {name: float(value) for name, value in ends_of(turns).items()}
    trace.record_metrics({**episode_metrics(turns), **ends})
    trace.info["turns"] = [turn.to_json() for turn in turns]
    trace.info["turn_rewards"] = [
        {"node": node, "reward": _weighted(turn, weights)}
        for node, turn in zip(nodes, turns, strict=True)
    ]


def _weighted(turn: Turn, weights: Mapping[str, float]) -> float:
    return sum(term.value * weights.get(term.name, 1.0) for term in turn.rewards)


def load_environment(
    env_id: str,
    *,
    split: Split = "train",
    first_seed: int = 0,
    num_levels: int | None = None,
    weights: Mapping[str, float] | None = None,
    max_model_turns: int | None = None,
    reasoning: Mapping[str, Any] | None = None,
    context: str = "all",
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
        reasoning: options of `vagen_rewards.ReasoningReward`, which adds the reasoning reward to
            the environment's reward. None adds nothing.
        context: what a prompt shows of earlier turns, such as `"last:2"`; see
            `vagen_adapters.context`.
        options: for `gym.make`.
    """
    check_names(env_id, options, load_environment)
    taskset = LevelsConfig(
        id=TASKSET_ID,
        env_id=env_id,
        split=split,
        first_seed=first_seed,
        num_levels=num_levels,
        options=options,
    )
    player = PlayConfig().player.model_copy(update={"max_turns": max_model_turns})
    asked = None if reasoning is None else dict(reasoning)
    paid = dict(weights or {})
    return Play(
        PlayConfig(taskset=taskset, weights=paid, player=player, reasoning=asked, context=context)
    )
