"""inspect_ai: one task per environment id, found by inspect's registry.

    inspect eval vagen_adapters/sokoban --model openai/gpt-5 -T num_levels=100

Each sample is a level. Observations are user messages with pictures; each reply is a turn.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import gymnasium as gym

from vagen_adapters.context import HIDDEN, ContextPolicy, Message, chat_messages, summary_messages
from vagen_adapters.env_thread import running, start
from vagen_adapters.errors import not_importable
from vagen_adapters.inspect_scorers import ENDED, TURNS, episode_return, reasoning, success
from vagen_adapters.prompt_check import prompt_hash, require_prompt_of
from vagen_adapters.rows import check_names, make_from_row, seeds_of
from vagen_envs import ENV_IDS
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.seeding import Split

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import transcript
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        ContentImage,
        ContentReasoning,
        ContentText,
        GenerateConfig,
        get_model,
    )
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.util import LimitExceededError, registry_info
except ImportError as error:
    raise not_importable("vagen_adapters.inspect_env", "inspect", "inspect_ai", error) from error

CUT_OFF = {"model_length": "context full", "content_filter": "content filter"}
"""inspect's stop reasons that end an episode unsolved, and the names of these ends. Their text
isn't played.
"""


def levels(
    env_id: str, split: Split, first_seed: int, num_levels: int | None, **options: Any
) -> Iterator[Sample]:
    """Yield samples of the levels that `vagen_adapters.rows.levels` has.

    The metadata contains the arguments that recreate the level, and `level`, the cluster of its
    metrics: the content hash if levels are cheap to draw (`VagenEnv.quick`), otherwise split and
    seed.
    """
    with contextlib.closing(
        gym.make(env_id, disable_env_checker=True, split=split, **options)
    ) as made:
        env = cast(VagenEnv, made.unwrapped)
        says = prompt_hash(env.system_prompt)
        for seed in seeds_of(env, first_seed, num_levels):
            name = f"{split}/{seed}"
            level = name
            if env.quick:
                _, info = made.reset(seed=seed, options={"split": split})
                level = info["level"]["content"]
            yield Sample(
                id=name,
                input=[ChatMessageSystem(content=env.system_prompt)],
                metadata={
                    "env_id": env_id,
                    "split": split,
                    "seed": seed,
                    "options": options,
                    "prompt_hash": says,
                    "level": level,
                },
            )


@solver
def play(context: str = "all", own: dict[str, Any] | None = None) -> Solver:
    """Play the sample's level to its end.

    Args:
        context: what a prompt shows of earlier turns, such as `"last:2"`; see
            `vagen_adapters.context`. The sample's messages contain all turns, and the summaries
            that a policy asks for.
        own: the `env_id` and `options` of the task's author. A sample with other values, from a
            dataset or a log, is untrusted and restricted as in `vagen_adapters.rows`.
    """
    policy = ContextPolicy.parse(context)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        level = state.metadata
        turns: list[Turn] = []
        replies: list[ChatMessageAssistant] = []
        summaries: dict[int, str] = {}
        ended = ""
        asked = {"env_id": level["env_id"], "options": level["options"]}
        make = make_own if asked == own else make_from_row
        async with running(make, level["env_id"], level["options"]) as (made, call):
            env = cast(VagenEnv, made.unwrapped)
            require_prompt_of(made, level["env_id"], level.get("prompt_hash"), level["options"])
            now = await call(start, made, level["seed"], level["split"])
            try:
                while not ended:
                    past: dict[str, Any] = {
                        "context": policy,
                        "summaries": summaries,
                        "hidden": replies,
                    }
                    if policy.summarises_before(len(turns)):
                        request = summary_messages(env.system_prompt, turns, **past)
                        summary = await _ask(
                            state, request, GenerateConfig(max_tokens=policy.summary_tokens)
                        )
                        summaries[len(turns)] = summary.text
                    prompt = chat_messages(env.system_prompt, turns, now, **past)
                    replies.append(await _ask(state, prompt, GenerateConfig()))
                    ended = CUT_OFF.get(state.output.stop_reason, "")
                    if not ended:
                        *_, terminated, truncated, info = await call(
                            made.step, reply_of(state.output.message)
                        )
                        turns.append(info["turn"])
                        now = turns[-1].result
                        transcript().info(turn_summary(turns[-1]), source="vagen")
                        ended = "budget" if truncated else ""
                        if terminated:
                            ended = "solved" if turns[-1].success else "lost"
            except LimitExceededError as error:  # it scores the sample as it stands
                ended = f"{error.type} limit"
                raise
            finally:
                state.store.set(TURNS, [turn.to_json() for turn in turns])
                state.store.set(ENDED, ended)
        return state

    return solve


async def _ask(
    state: TaskState, prompt: list[Message], config: GenerateConfig
) -> ChatMessageAssistant:
    """The model's reply to a prompt, whose last message and reply are added to the sample."""
    state.messages.append(message_of(prompt[-1]))
    state.output = await get_model().generate(
        [message_of(message) for message in prompt], config=config
    )
    state.messages.append(state.output.message)
    return state.output.message


def message_of(message: Message) -> ChatMessage:
    """Convert a message of `chat_messages` to inspect's type."""
    content = message["content"]
    role = message["role"]
    if HIDDEN in message:
        return cast(ChatMessageAssistant, message[HIDDEN])  # with its reasoning, as inspect read it
    if role != "user":
        return (
            ChatMessageSystem(content=content)
            if role == "system"
            else ChatMessageAssistant(content=content)
        )
    return ChatMessageUser(
        content=[
            ContentText(text=part["text"])
            if part["type"] == "text"
            else ContentImage(image=part["image_url"]["url"])
            for part in content
        ]
    )


def reply_of(message: ChatMessageAssistant) -> str:
    """Return the model's reply, with the `<think>…</think>` that inspect moved out of the text.

    White space next to these tags is lost, and text before them is moved behind them. Reasoning
    that a provider returns in a separate field is not part of a reply.
    """
    if isinstance(message.content, str):
        return message.content
    thought = [
        part
        for part in message.content
        if isinstance(part, ContentReasoning) and part.internal == "think"
    ]
    return "".join(f"<think>{part.reasoning}</think>" for part in thought) + message.text


def turn_summary(turn: Turn) -> dict[str, Any]:
    """Summarise a turn for inspect's transcript."""
    return {
        "turn": turn.index,
        "executed": [action.text for action in turn.executed],
        "problems": [problem.code for problem in turn.parsed.problems],
        "rewards": {term.name: term.value for term in turn.rewards},
        "success": turn.success,
    }


def make_own(env_id: str, options: dict[str, Any]) -> gym.Env[Any, Any]:
    """Make the environment that the task's author named."""
    return gym.make(env_id, disable_env_checker=True, **options)


def has_statements(env_id: str, options: dict[str, Any]) -> bool:
    """Whether replies have fields that a judge reads; the mean of no scores is no number."""
    with contextlib.closing(make_own(env_id, options)) as made:
        fields = cast(VagenEnv, made.unwrapped).grammar.fields
    return "observation" in fields or "prediction" in fields


def task_of(env_id: str) -> Callable[..., Task]:
    """Return a task for an id, also of your own `VagenEnv`. Its name is the id's in snake case
    (`frozen_lake`).
    """

    def made(
        split: Split = "test",
        first_seed: int = 0,
        num_levels: int | None = None,
        context: str = "all",
        judge: str | None = "rule",
        gate: bool = True,
        weighting: Literal["plain", "contrast"] = "plain",
        penalty: str = "",
        **options: Any,
    ) -> Task:
        check_names(env_id, options, made)
        dataset = MemoryDataset(
            list(levels(env_id, split, first_seed, num_levels, **options)), name=env_id
        )
        judged = []
        if judge and has_statements(env_id, options):
            judged = [reasoning(judge, gate, weighting, penalty, options)]
        return Task(
            dataset=dataset,
            solver=play(context, {"env_id": env_id, "options": options}),
            scorer=[success(), episode_return(), *judged],
            metadata={"env_id": env_id},
        )

    made.__name__ = made.__qualname__ = task_name(env_id)
    made.__doc__ = f"""{env_id}: play levels of a split.

    Args:
        split: `train`, `val` or `test`; splits share no level.
        first_seed: sample `i` is the level of seed `first_seed + i`.
        num_levels: number of samples; by default 100, or all levels of published data.
        context: what a prompt shows of earlier turns, such as `"last:2"`; see
            `vagen_adapters.context`.
        judge: judge of the statements, see `reasoning`; `""` for none.
        gate, weighting, penalty: see `reasoning`.
        options: of the environment, as for `gym.make`.
    """
    named = task(made)
    # An editable install does not map to the distribution.
    if registry_info(named).name == made.__name__:
        named = task(name=f"{__package__}/{made.__name__}")(made)
    return cast("Callable[..., Task]", named)


def task_name(env_id: str) -> str:
    """Return `frozen_lake` for `vagen/FrozenLake-v0`."""
    name = env_id.rpartition("/")[2].rpartition("-v")[0]
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


TASKS = {task_name(env_id): task_of(env_id) for env_id in ENV_IDS}
"""Tasks by name, in the registry as `vagen_adapters/sokoban`."""
