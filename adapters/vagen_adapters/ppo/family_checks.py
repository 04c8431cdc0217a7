"""Whether a family's model can be trained, found out by trying, before the first rollout.

No list of names decides. A family passes whose processor, template and model do here what training
rests on; any other is refused with the check that failed. `check_layout` needs no weights.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import PlayedTurn
from vagen_adapters.ppo.generation import Prompt, SampleSettings, TransformersSampler, model_inputs
from vagen_adapters.ppo.introspection import vision_parameters
from vagen_adapters.ppo.kept_conversations import KeepingSampler, can_keep
from vagen_adapters.ppo.layout_check import shown_example
from vagen_adapters.ppo.processors import refusal, refusing
from vagen_adapters.ppo.token_sequences import lay_out
from vagen_adapters.ppo.vision_cache import GIVEN, VisionFeatureCache

GAP = {torch.float32: 1e-5, torch.bfloat16: 0.1, torch.float16: 0.02}
"""How far log-probabilities of one token may be apart, computed two ways, by the weights' type."""
BATCH_GAP = 2e-4
"""The same between batches of other shapes, padding and generate's cache included: 2e-5 in a model
of 30 layers.
"""
NOISE = 8
"""Times a token's log-probability changes with the number of rows beside it, which is allowed too:
kernels of large models sum in another order for another batch."""


def keeps_conversations(model: ActorCritic, encoder: ChatEncoder) -> bool:
    """Whether a model says the same when a conversation is gone on with by the keys and values of
    the turn before.

    Conversations of two lengths are gone on with, and a third one is begun beside them.
    """
    if not can_keep(model.policy.config):
        return False
    sampler = KeepingSampler(model.policy, encoder)
    turns: list[list[PlayedTurn]] = [[], []]
    with (
        contextlib.suppress(TrainingConfigError),
        _trying(model, encoder, "kept conversations", "read them anew"),
    ):
        for turn in range(3):
            shown = [shown_example(encoder, turn + 2 * row) for row in range(len(turns))]
            prompts = [
                lay_out(before, (), now).prompt for before, now in zip(turns, shown, strict=True)
            ]
            replies = sampler.sample(prompts, _FEW, range(len(prompts)))
            for before, now, reply in zip(turns, shown, replies, strict=True):
                before.append(PlayedTurn(now, reply, None, ()))  # type: ignore[arg-type]
            if not turn:
                turns.append([])
        return _gap(model, encoder, turns) <= _allowed(model, encoder, turns[0])
    return False


def check_model(model: ActorCritic, encoder: ChatEncoder, *, turn_by_turn: bool = False) -> None:
    """Sample short conversations as a rollout does, and compare the log-probabilities with those of
    the trainer.

    Sampling has a cache and padding on the left, and reads no later turn; training has padding on
    the right, or none in one row for all conversations (`packed_rows`).

    With `turn_by_turn` each turn is trained on as it was sampled, so that later ones can't change
    it.

    Raises:
        TrainingConfigError: they differ, the model is blind, or it refuses its inputs.
    """
    check = "packing"
    fix = "leave packing out, or name an attn_implementation that keeps sequences apart"
    if not model.packs:
        check = "sampler against trainer"
        fix = (
            "use a release of transformers where generate and the forward pass agree, set "
            "context=last:N if a later turn's picture changes a reply before it, or train a "
            "family that takes several pictures in a conversation"
        )
    with _trying(model, encoder, check, fix):
        turns: tuple[list[PlayedTurn], ...] = ([], [])
        for turn in range(1 if turn_by_turn else 2):
            shown = [shown_example(encoder, turn + row) for row in range(2)]
            prompts = [lay_out(turns[row], (), shown[row]).prompt for row in range(2)]
            replies = TransformersSampler(model.policy, encoder).sample(prompts, _FEW, range(2))
            for row, reply in enumerate(replies):
                turns[row].append(PlayedTurn(shown[row], reply, None, ()))  # type: ignore[arg-type]
        gap = _gap(model, encoder, turns)
        allowed = _allowed(model, encoder, turns[0])
        if not gap <= allowed:
            found = (
                f"sampled tokens' log-probabilities are {gap:.1e} apart, where {allowed:.0e} "
                "is allowed"
            )
            raise refusal(encoder.family.name, f"{check}: {found}; {fix}")
        prompt = lay_out((), turns[0], None).prompt
        others = tuple(
            shown_example(encoder, number + 7, size=number) for number in range(len(turns[0]))
        )
        seen, changed = (
            _logprobs(encoder, model, [Prompt(prompt.ids, shown)])
            for shown in (prompt.shown, others)
        )
        if torch.equal(seen, changed):
            raise refusal(
                encoder.family.name,
                "pictures: another picture changes nothing of what the model says; "
                "check that the model's forward pass takes what its processor gives",
            )


def _gap(model: ActorCritic, encoder: ChatEncoder, turns: Sequence[Sequence[PlayedTurn]]) -> float:
    """The largest difference of a sampled token's log-probability between sampler and trainer."""
    sequences = [lay_out((), played, None) for played in turns]
    scores = _logprobs(encoder, model, [sequence.prompt for sequence in sequences]).cpu()
    gaps = [0.0]
    for row, sequence in enumerate(sequences):
        trained = torch.tensor(sequence.turn_ids) >= 0
        apart = scores[row, : len(trained)] - torch.tensor(sequence.logprobs)
        gaps.append(float(apart[trained].abs().max()))
    return max(gaps, key=lambda gap: (math.isnan(gap), gap))


def _allowed(model: ActorCritic, encoder: ChatEncoder, turns: Sequence[PlayedTurn]) -> float:
    """The difference that another batch makes, too."""
    noise = _noise(encoder, model, lay_out((), turns, None).prompt)
    return max(GAP.get(model.policy.dtype, BATCH_GAP), BATCH_GAP, NOISE * noise)


def vision_cache_for(
    model: ActorCritic, encoder: ChatEncoder, most: int
) -> VisionFeatureCache | None:
    """A cache of `most` bytes for frozen vision features; None if towers are trained or cached
    features differ.
    """
    models = [one for one in (model.policy, model.critic, model.reference) if one is not None]
    trained = any(parameter.requires_grad for one in models for parameter in vision_parameters(one))
    if not most or trained or GIVEN not in encoder.accepted:
        return None
    same = False
    with (
        contextlib.suppress(TrainingConfigError),
        _trying(model, encoder, "frozen vision features", "train them"),
    ):
        model.vision_cache = VisionFeatureCache(models, encoder, most)
        same = _sees_the_same(model, encoder)
    found = model.vision_cache
    model.vision_cache = None
    if found is None or not same:
        return None
    found.kept.clear()
    return found


def _sees_the_same(model: ActorCritic, encoder: ChatEncoder) -> bool:
    """The same features twice: fresh from the tower, and from the cache in another order."""
    few = [
        Prompt(shown.first_ids, (shown,))
        for shown in (shown_example(encoder, 0), shown_example(encoder, 1))
    ]
    device = model.policy.device
    allowed = max(
        GAP.get(model.policy.dtype, GAP[torch.float32]), NOISE * _noise(encoder, model, few[0])
    )
    for prompts in (few, few[::-1]):
        pixels = model_inputs(prompts, encoder, device)
        numbers = model_inputs(prompts, encoder, device, vision_cache=model.vision_cache)
        mask = pixels["attention_mask"].bool()
        # Not the reference's, which may be stored as only autocast can read it.
        for one in filter(None, (model.policy, model.critic)):
            states = model.hidden(one, pixels)[mask]
            gap = (
                states - model.hidden(one, numbers)[mask]
            ).abs().max() / states.abs().max().clamp(min=1)
            if not float(gap) <= allowed:
                return False
    return True


_FEW = SampleSettings(temperature=1.0, top_p=1.0, max_tokens=3)


@contextlib.contextmanager
def _trying(model: ActorCritic, encoder: ChatEncoder, check: str, fix: str) -> Iterator[None]:
    """Evaluation mode without gradients; whatever the model raises is a refusal."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), refusing(encoder.family.name, check, fix):
            yield
    finally:
        model.train(was_training)


def _noise(encoder: ChatEncoder, model: ActorCritic, prompt: Prompt) -> float:
    alone = _logprobs(encoder, model, [prompt])[0]
    among = _logprobs(encoder, model, [prompt] * 3)[0]
    return float((alone - among).abs().max())


def _logprobs(encoder: ChatEncoder, model: ActorCritic, prompts: Sequence[Prompt]) -> Tensor:
    """(B, L) As training computes them."""
    inputs = model_inputs(prompts, encoder, model.policy.device)
    found = model(inputs, ["logprobs"], temperature=1.0, forbidden_ids=encoder.forbidden_ids)[
        "logprobs"
    ]
    # Image tokens are none that a policy may say; their log-probability is that of nothing.
    return torch.where(inputs["input_ids"] == encoder.image_token_id, 0.0, found)
