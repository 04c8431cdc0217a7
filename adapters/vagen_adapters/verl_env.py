"""verl: an agent loop with pictures and turn rewards, and levels as dataset rows.

The loop is registered as `agent_name: vagen` when this module is imported, or through a file for
`actor_rollout_ref.rollout.agent.agent_loop_config_path` (docs/adapters/verl.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters import rows
from vagen_adapters.context import Message
from vagen_adapters.ends import ends_of
from vagen_adapters.env_thread import Call, running, start
from vagen_adapters.errors import TrainingDataError, not_importable
from vagen_adapters.message_parts import observation_parts
from vagen_envs.core import Observation, Turn

try:
    import torch
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
    from verl.utils.profiler import simple_timer
except ImportError as error:
    raise not_importable("vagen_adapters.verl_env", "verl", "verl", error) from error

NAME = "vagen"
"""The `agent_name` of a dataset's rows."""
REASONING = {"grounding": 0.5, "world_modeling": 0.5}
"""Default weights of a row's reasoning reward. Parquet can't store empty structs, so they are
written out.
"""


class TurnRewardOutput(AgentLoopOutput):
    """An episode with one reward per turn, at the last token of its reply."""

    turn_ends: list[int]
    """Index after the last token of each turn in `response_ids`."""
    turn_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that verl's trainer stores; `rm_scores` contains the turn rewards."""
        output = super().as_dict()
        ends = output.pop("turn_ends")
        rewards = output.pop("turn_rewards")
        scores = torch.zeros_like(output["response_mask"], dtype=torch.float32)
        scores.index_add_(0, torch.tensor(ends) - 1, torch.tensor(rewards, dtype=torch.float32))
        output["rm_scores"] = scores
        return output


@register(NAME)
class VagenAgentLoop(AgentLoopBase):
    """Plays the level of a row, token in and token out; verl's builder encodes only the new
    messages of each turn.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play the level in `extra_info` to its end, or until `rollout.response_length` is used
        up.
        """
        level = kwargs["extra_info"]
        named = (level.get(name) for name in ("options", "reasoning", "prompt_hash"))
        asked = level["env_id"], *(value or None for value in named)
        async with running(rows.make_from_row, *asked) as (env, call):
            now = await call(start, env, int(level["seed"]), level["split"])
            return await self._play(env, call, [*kwargs["raw_prompt"], _user(now)], sampling_params)

    async def _play(
        self,
        env: gym.Env[Any, Any],
        call: Call,
        messages: list[Message],
        sampling_params: dict[str, Any],
    ) -> AgentLoopOutput:
        room = self.rollout_config.response_length
        images = _pictures(messages)
        self._assert_mm_supported(bool(images))
        ids: list[int] = await self.ct_build_initial_tokens(messages, images=images or None)
        prompt_length = len(ids)
        request = uuid4().hex
        mask: list[int] = []
        logprobs: list[float] | None = None
        turns: list[Turn] = []
        ends: list[int] = []
        timing: dict[str, Any] = {}
        fields: dict[str, Any] = {}
        while True:
            with simple_timer("generate_sequences", timing):
                output = await self.server_manager.generate(
                    request_id=request,
                    prompt_ids=ids,
                    sampling_params=sampling_params,
                    image_data=images or None,
                    mm_processor_kwargs=self._get_mm_processor_kwargs(),
                )
            if not output.token_ids:  # an empty turn has no token that could carry its reward
                raise TrainingDataError(
                    f"turn {len(turns)}: the server returned no tokens (stop reason: "
                    f"{output.stop_reason}); see its log"
                )
            fields = _latest(fields, output.extra_fields)
            if output.log_probs and logprobs is None:
                logprobs = [0.0] * len(mask)
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, output.token_ids, mask, logprobs, output.log_probs or None
            )
            ids = merged.token_ids
            ends.append(min(len(mask), room))
            reply = self.tokenizer.decode(output.token_ids, skip_special_tokens=True)
            with simple_timer("tool_calls", timing):
                *_, terminated, truncated, info = await call(env.step, reply)
            turns.append(info["turn"])
            if terminated or truncated or len(mask) >= room:
                break
            ids, mask, logprobs = self._close_reply(ids, mask, logprobs)
            answered = [*messages, {"role": "assistant", "content": reply}]
            messages = [*answered, _user(turns[-1].result)]
            merged, longer, longer_logprobs = await self.ct_merge_context_msg(
                answered, messages, ids, mask, logprobs
            )
            if len(longer) >= room:  # a picture must not be cut
                break
            ids = merged.token_ids
            mask = longer
            logprobs = longer_logprobs
            images = _pictures(messages)
        return TurnRewardOutput(
            prompt_ids=ids[:prompt_length],
            response_ids=ids[prompt_length:][:room],
            response_mask=mask[:room],
            response_logprobs=None if logprobs is None else logprobs[:room],
            multi_modal_data={"images": images} if images else {},
            mm_processor_kwargs=self._get_mm_processor_kwargs(),
            metrics=timing,
            turn_ends=ends,
            **_earned(turns, fields),
        )

    def _close_reply(
        self, ids: list[int], mask: list[int], logprobs: list[float] | None
    ) -> tuple[list[int], list[int], list[float] | None]:
        """Append an untrained end token to a reply that was cut at `max_tokens`: verl's builder
        of the next message expects replies to be closed.
        """
        end = self.tokenizer.eos_token_id
        if ids[-1] == end:
            return ids, mask, logprobs
        return [*ids, end], [*mask, 0], None if logprobs is None else [*logprobs, 0.0]


def _latest(fields: dict[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server's fields of the latest turn, with the first turn's `min_global_steps`."""
    first = {name: fields[name] for name in ("min_global_steps",) if name in fields}
    return {**later, **first}


def _earned(turns: Sequence[Turn], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of verl's output that tell what the turns earned."""
    rewards = [turn.reward for turn in turns]
    # verl logs the means of these and stores them beside each episode's tensors.
    logged = {"success": turns[-1].success, **ends_of(turns)}
    return {
        "reward_score": sum(rewards),
        "num_turns": 2 * len(turns),
        "turn_rewards": rewards,
        "extra_fields": {
            **fields,
            "turn_scores": rewards,
            "tool_rewards": [],
            "reward_extra_info": {name: float(value) for name, value in logged.items()},
        },
    }


def levels(
    env_id: str,
    *,
    reasoning: Mapping[str, Any] | None = None,
    context: str = "all",
    **settings: Any,
) -> Iterator[dict[str, Any]]:
    """Yield rows for verl's dataset, to be written to a parquet file.

    Takes the arguments of `vagen_adapters.rows.levels`. `reasoning` without weights gets those of
    `REASONING`. `context` can only be `"all"`: verl trains an episode as one sequence.
    """
    rows.require_whole_context(context, "verl")
    asked = None if reasoning is None else {**REASONING, **reasoning}
    for index, (prompt, level) in enumerate(rows.levels(env_id, reasoning=asked, **settings)):
        info = {"index": index, **level, "options": level["options"] or None}
        yield {"data_source": env_id, "agent_name": NAME, "prompt": prompt, "extra_info": info}


def _user(now: Observation) -> Message:
    return {"role": "user", "content": observation_parts(now, "pil")}


def _pictures(messages: Sequence[Message]) -> list[Any]:
    contents = [message["content"] for message in messages]
    in_parts = [content for content in contents if isinstance(content, list)]
    parts = [part for content in in_parts for part in content]
    return [part["image"] for part in parts if part["type"] == "image"]
