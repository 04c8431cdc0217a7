"""verl: an agent loop with pictures and turn rewards, levels as dataset rows, and Bi-Level GAE.

The loop is registered as `agent_name: vagen` when this module is imported, or through a file for
`actor_rollout_ref.rollout.agent.agent_loop_config_path` (docs/adapters/verl.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters import rows
from vagen_adapters.context import Message
from vagen_adapters.ends import ends_of
from vagen_adapters.env_thread import Call, running, start
from vagen_adapters.errors import not_importable
from vagen_adapters.message_parts import observation_parts
from vagen_envs.core import Observation, Turn

try:
    import torch
    from torch import Tensor
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
    from verl.trainer.ppo import ray_trainer
    from verl.trainer.ppo.core_algos import register_adv_est
    from verl.utils.profiler import simple_timer
except ImportError as error:
    raise not_importable("vagen_adapters.verl_env", "verl", "verl", error) from error

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.advantages import bilevel_gae_released
from vagen_adapters.ppo.trajectories import Trajectories

NAME = "vagen"
"""The `agent_name` of a dataset's rows."""
ESTIMATOR = "bilevel_gae_released"
"""The `algorithm.adv_estimator`. verl lacks the value after the last token that Algorithm 2 of the
paper needs.
"""

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
        ends, rewards = output.pop("turn_ends"), output.pop("turn_rewards")
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
        prompt_length, request = len(ids), uuid4().hex
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
            mask, logprobs = longer, longer_logprobs
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


@register_adv_est(ESTIMATOR)
def bilevel_advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    config: Any = None,
    values: Tensor | None = None,
    token_level_scores: Tensor | None = None,
    truncated: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Bi-Level GAE as in VAGEN's released code (`ppo.advantages.bilevel_gae_released`), whitened as
    verl's GAE is.

    A turn is an unbroken run of sampled tokens. γ and λ are `algorithm.gamma` (between tokens) and
    `algorithm.lam` (both levels); `+algorithm.gamma_turn` is between turns, 1 by default.

    Args:
        token_level_rewards: (B, L), the turn rewards, with KL penalties if verl puts them into the
            reward.
        response_mask: (B, L), 1 for sampled tokens.
        config: verl's `algorithm`.
        values: (B, L), V before each token. verl 0.9.1 gives registered estimators none: `install`
            does.
        token_level_scores: (B, L), the turn rewards alone; without them all of the reward is a
            turn's.
        truncated: (B,) bool, the episodes that a limit ended. verl computes no value after the last
            token, so what could have followed counts as 0 there, as in VAGEN's released code.

    Returns:
        Advantages and the critic's targets, (B, L).
    """
    if values is None:
        raise TrainingDataError(
            f"{ESTIMATOR} got no values, for verl gives a registered estimator none; call "
            "vagen_adapters.verl_env.install() in the trainer's process and set critic.enable=True"
        )
    settings = config if config is not None else {}
    sampled = response_mask.bool()
    begins = sampled & ~torch.nn.functional.pad(sampled, (1, 0))[:, :-1]
    turns = begins.long().cumsum(1) - 1
    turn_ids = turns.where(sampled, -1)
    scores = token_level_rewards if token_level_scores is None else token_level_scores
    scores = scores.masked_fill(~sampled, 0).float()
    turn_rewards = scores.new_zeros(len(scores), int(turn_ids.max().clamp(min=0)) + 1)
    turn_rewards.scatter_add_(1, turns.clamp(min=0), scores)
    cut = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    if truncated is not None:
        cut = truncated.to(cut)
    batch = Trajectories(
        turn_ids=turn_ids,
        turn_rewards=turn_rewards,
        terminated=~cut,
        truncated=cut,
        values=torch.nn.functional.pad(values.float(), (0, 1)),
        kl_rewards=token_level_rewards.float() - scores,
    )
    found = bilevel_gae_released(
        batch,
        gamma_turn=settings.get("gamma_turn", 1.0),
        gamma_token=settings.get("gamma", 1.0),
        lam=settings.get("lam", 1.0),
    )
    return found.whitened().advantages, found.returns[:, :-1]


_original_compute_advantage = ray_trainer.compute_advantage


def compute_advantage(data: Any, adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
    """The trainer's function of this name, but our estimator gets the critic's values."""
    if adv_estimator != ESTIMATOR:
        return _original_compute_advantage(data, adv_estimator, *args, **kwargs)
    batch = data.batch
    data.batch["advantages"], data.batch["returns"] = bilevel_advantages(
        batch["token_level_rewards"],
        batch["response_mask"],
        config=kwargs.get("config"),
        values=batch.get("values", None),
        token_level_scores=batch.get("token_level_scores", None),
        truncated=_stored_flags(data, "truncated"),
    )
    return data


def _stored_flags(data: Any, name: str) -> Tensor | None:
    """What the agent loop stored of each episode; None for episodes of another loop."""
    stored = getattr(data, "non_tensor_batch", {}).get(name)
    return None if stored is None else torch.tensor([bool(flag) for flag in stored])


def install() -> None:
    """Let verl's trainers of this process give `ESTIMATOR` the values, by their
    `compute_advantage`. May be repeated.

    For Ray's workers:
    `+ray_kwargs.ray_init.runtime_env.worker_process_setup_hook=vagen_adapters.verl_env.install`.
    """
    for name in ("verl.trainer.ppo.ray_trainer", "verl.trainer.ppo.v1.utils"):
        module = sys.modules.get(name)  # imported later, it takes ray_trainer's
        if module is not None:
            module.compute_advantage = compute_advantage  # type: ignore[attr-defined]


def _user(now: Observation) -> Message:
    return {"role": "user", "content": observation_parts(now, "pil")}


def _pictures(messages: Sequence[Message]) -> list[Any]:
    parts = [
        part
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    return [part["image"] for part in parts if part["type"] == "image"]
