"""The generation back-end that the setting `generation` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vagen_adapters.errors import TrainingConfigError, errors_as
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.family_checks import keeps_conversations
from vagen_adapters.ppo.generation import Sampler, TransformersSampler
from vagen_adapters.ppo.kept_conversations import KeepingSampler
from vagen_envs.extras import need

MakeSampler = Callable[[Any, ChatEncoder], Sampler]
"""Builds a generation back-end from the policy and its encoder."""


def named_sampler(
    path: str,
    args: MultiTurnPPOConfig,
    model: ActorCritic,
    encoder: ChatEncoder,
    accelerator: Any,
) -> Sampler:
    """The back-end of a training's settings, for its policy.

    Args:
        path: the folder that vLLM loads the policy from, in this process.
        args: the settings.
        model: whose policy writes replies.
        encoder: of the policy.
        accelerator: of the training.

    Raises:
        MissingExtraError: vLLM isn't installed.
        TrainingConfigError: it refuses its options.
    """
    if args.generation == "transformers":
        keeps = args.context_policy.turns is None and keeps_conversations(model, encoder)
        kind = KeepingSampler if keeps else TransformersSampler
        return kind(model.policy, encoder, vision_cache=model.vision_cache)
    need(f"generation={args.generation}", "vllm", "vllm")  # also what speaks with a server
    from vagen_adapters.ppo.vllm_samplers import VLLMSampler
    from vagen_adapters.ppo.vllm_server import VLLMServerSampler

    fault = f"generation={args.generation} can't begin with vllm_options={args.vllm_options!r}"
    with errors_as(TrainingConfigError, fault, "see Generation in docs/training.md"):
        if args.generation == "vllm-server":
            return VLLMServerSampler(model.policy, encoder, accelerator, **args.vllm_options)
        dtype = "bfloat16" if args.bf16 else str(model.policy.dtype).removeprefix("torch.")
        options = {"max_model_len": args.max_length, "dtype": dtype, "seed": args.seed}
        options |= args.vllm_options
        return VLLMSampler(model.policy, encoder, accelerator, path, **options)
