"""Whether a family's model can be trained, found out by trying, before the first rollout.

No list of names decides. A family passes whose processor, template and model do here what training rests on; any
other is refused with the check that failed. `layout_checks` need no weights, `check_model` makes five short passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.conversation import IMAGE_PLACEHOLDER
from vagen_adapters.ppo.episodes import PlayedTurn, lay_out
from vagen_adapters.ppo.generation import Prompt, Reply, Sampling, TransformersSampler, model_inputs
from vagen_adapters.ppo.layout_checks import REPLIES, SIZES, SYSTEM, checkered, failed, shortened
from vagen_adapters.ppo.packed_rows import positions_by, rope_index_of
from vagen_adapters.ppo.processors import refusal
from vagen_adapters.ppo.vision_cache import VisionFeatureCache, can_be_kept
from vagen_envs.errors import did_you_mean

GAP = {torch.float32: 1e-5, torch.bfloat16: 0.1, torch.float16: 0.02}
"""How far log-probabilities of one token may be apart, computed two ways, by the weights' type."""
BATCH_GAP = 2e-4
"""The same between batches of other shapes, padding and generate's cache included: 2e-5 in a model of 30 layers."""
NOISE = 8
"""Times a token's log-probability changes with the number of rows beside it, which is allowed too: kernels of large
models sum in another order for another batch."""


@torch.no_grad()
def check_model(model: ActorCritic, encoder: ChatEncoder, *, turn_by_turn: bool = False) -> None:
    """Compare what a model's weights say of the same tokens alone, padded, sampled and trained on.

    Args:
        model: policy and critic.
        encoder: theirs.
        turn_by_turn: whether each turn is trained on as it was sampled, so that later ones can't change it.

    Raises:
        TrainingConfigError: they differ, or the model refuses its inputs.
    """
    was_training, policy = model.training, model.policy
    model.eval()
    try:
        prompts = _prompts(encoder)
        _check_sight(encoder, model, prompts[0])
        if not turn_by_turn:
            _check_later_picture(encoder, model, prompts[0])
        _check_positions(encoder, policy, prompts)
        noise = max(GAP[torch.float32], NOISE * _noise(encoder, model, prompts[0]))
        allowed = max(GAP.get(policy.dtype, BATCH_GAP), BATCH_GAP, noise)
        _check_padding(encoder, model, prompts, allowed)
        replies = TransformersSampler(policy, encoder).sample(prompts, _FEW, range(len(prompts)))
        gap = _gap(encoder, model, prompts, replies)
        if not gap <= allowed:
            raise failed(encoder, "sampler against trainer", f"sampled tokens' log-probabilities are {gap:.1e} apart, "
                          f"where {allowed:.0e} is allowed", "use a release of transformers where generate and the "
                          "forward pass agree")  # fmt: skip
    except TrainingConfigError:
        raise
    except Exception as error:  # a model raises whatever it likes
        raise refusal(encoder.family.name, "the model's forward pass", shortened(error),
                      "train a model of a family that takes several pictures in a conversation") from error  # fmt: skip
    finally:
        model.train(was_training)


@torch.no_grad()
def vision_cache_for(model: ActorCritic, encoder: ChatEncoder, most: int) -> VisionFeatureCache | None:
    """What lets frozen towers look at each picture once, or None if they are trained or it makes a difference.

    Args:
        model: the policy, its critic and its reference.
        encoder: theirs.
        most: bytes that it may keep.
    """
    models = [each for each in (model.policy, model.critic, model.reference) if each is not None]
    if not most or not all(can_be_kept(each, encoder) for each in models):
        return None
    tried = [each for each in models if each is not model.reference]  # it may be stored as only autocast can read it
    was_training = model.training
    model.eval()
    try:
        model.vision_cache = VisionFeatureCache(models, encoder, most)
        same = _sees_the_same(model, encoder, tried)
    except Exception:  # a model raises whatever it likes; its tower looks at every picture each time then
        same = False
    finally:
        found, model.vision_cache = model.vision_cache, None
        model.train(was_training)
    if found is None or not same:
        return None
    found.clear()
    return found


@torch.no_grad()
def check_packing(model: ActorCritic, encoder: ChatEncoder) -> None:
    """Compare what a model says of conversations in one row with what it says of each in a row of its own.

    Raises:
        TrainingConfigError: they differ, or the model refuses such a row.
    """
    was_training, packs = model.training, model.packs
    model.eval()
    found = math.inf
    try:
        prompts = _prompts(encoder)
        prompts += prompts[:1]
        allowed = max(GAP.get(model.policy.dtype, GAP[torch.float32]), NOISE * _noise(encoder, model, prompts[0]))
        model.packs = False
        alone = _logprobs(encoder, model, prompts)
        model.packs = True
        gaps = (alone - _logprobs(encoder, model, prompts)).abs()
        found = max(float(gap[: len(each.ids)].max()) for gap, each in zip(gaps, prompts, strict=True))
    except Exception as error:  # a model raises whatever it likes
        raise failed(encoder, "packing", shortened(error), "leave packing out") from error
    finally:
        model.packs = packs
        model.train(was_training)
    if not found <= allowed:
        raise failed(encoder, "packing", f"log-probabilities of conversations in one row are {found:.1e} off, where "
                      f"{allowed:.0e} is allowed: its layers look past a sequence's beginning",
                      "leave packing out, or name an attn_implementation that keeps them apart")  # fmt: skip


def _sees_the_same(model: ActorCritic, encoder: ChatEncoder, models: Sequence[Any]) -> bool:
    """Twice: what a tower has just said, and what was kept of it, in another order."""
    vision_cache, device = model.vision_cache, model.policy.device
    few = _prompts(encoder)
    allowed = max(GAP.get(model.policy.dtype, GAP[torch.float32]), NOISE * _noise(encoder, model, few[0]))
    for prompts in (few, few[::-1]):
        pixels, numbers = (model_inputs(prompts, encoder, device, vision_cache=each) for each in (None, vision_cache))
        mask = pixels["attention_mask"].bool()
        for each in models:
            states = model.hidden(each, pixels)[mask]
            gap = (states - model.hidden(each, numbers)[mask]).abs().max() / states.abs().max().clamp(min=1)
            if not float(gap) <= allowed:
                return False
    return True


def _check_sight(encoder: ChatEncoder, model: ActorCritic, prompt: Prompt) -> None:
    """Another picture must change what comes after it, and nothing that stands before it."""
    first = _logprobs(encoder, model, [prompt])[0]
    other = [encoder.show(SYSTEM, _observation(number + 7, size)) for number, size in enumerate(SIZES)]
    changed = _logprobs(encoder, model, [Prompt(prompt.ids, tuple(other))])[0]
    where = prompt.ids.index(encoder.image_token_id)
    if not first.isfinite().all():
        raise failed(encoder, "the model's forward pass", "log-probabilities are no numbers", "check its weights")
    if torch.equal(first, changed):
        raise failed(encoder, "pictures", "another picture changes nothing of what the model says",
                      "check that the model's forward pass takes what its processor gives")  # fmt: skip
    if (gap := float((first - changed)[: where + 1].abs().max())) > GAP.get(model.policy.dtype, GAP[torch.float32]):
        raise failed(encoder, "pictures", f"a picture changes what stands before it, by {gap:.1e}",
                      "train a decoder")  # fmt: skip


def _check_later_picture(encoder: ChatEncoder, model: ActorCritic, prompt: Prompt) -> None:
    """A reply must say the same once a later turn's picture is there: some models' pictures look at each other."""
    before, later = prompt.shown
    other = encoder.show(SYSTEM, _observation(8, SIZES[1]))
    pictures = [at for at, token in enumerate(prompt.ids) if token == encoder.image_token_id]
    upto = pictures[before.image_tokens] + 1
    prompts = [Prompt(prompt.ids, (before, each)) for each in (later, other)]
    first, changed = (_logprobs(encoder, model, [each])[0, :upto] for each in prompts)
    gap = float((first - changed).abs().max())
    if gap > GAP.get(model.policy.dtype, GAP[torch.float32]):
        raise failed(encoder, "pictures", f"a later turn's picture changes a reply before it, by {gap:.1e}",
                      "set context=last:N, so that each turn is trained on as it was sampled")  # fmt: skip


def _check_positions(encoder: ChatEncoder, policy: Any, prompts: Sequence[Prompt]) -> None:
    """Where the model gives a token's place in a picture, padding on either side must not change it."""
    own = rope_index_of(policy)
    if own is None:
        return
    alone = [positions_by(own, model_inputs([prompt], encoder, policy.device)) for prompt in prompts]
    for left in (False, True):
        inputs = model_inputs(prompts, encoder, policy.device, left=left)
        for row, (place, mask) in enumerate(
            zip(positions_by(own, inputs).unbind(1), inputs["attention_mask"], strict=True)
        ):
            if not torch.equal(place[:, mask.bool()], alone[row][:, 0]):
                raise failed(encoder, "position ids", f"those of conversation {row} change with padding on the "
                              f"{'left' if left else 'right'}", "use another release of transformers")  # fmt: skip


def _noise(encoder: ChatEncoder, model: ActorCritic, prompt: Prompt) -> float:
    alone, among = _logprobs(encoder, model, [prompt])[0], _logprobs(encoder, model, [prompt] * 3)[0]
    return float((alone - among).abs().max())


def _check_padding(encoder: ChatEncoder, model: ActorCritic, prompts: Sequence[Prompt], allowed: float) -> None:
    """Rows of a batch must not change each other, with as many pictures as they like."""
    together = _logprobs(encoder, model, prompts)
    for row, prompt in enumerate(prompts):
        gap = float((_logprobs(encoder, model, [prompt])[0] - together[row, : len(prompt.ids)]).abs().max())
        if not gap <= allowed:
            raise failed(encoder, "position ids", f"a conversation's log-probabilities change by {gap:.1e} in a batch, "
                          f"where {allowed:.0e} is allowed", "train a family whose pictures are told apart by their "
                          "places among the tokens")  # fmt: skip


_FEW = Sampling(temperature=1.0, top_p=1.0, max_tokens=3)


def _gap(encoder: ChatEncoder, model: ActorCritic, prompts: Sequence[Prompt], replies: Sequence[Reply]) -> float:
    """Between what was sampled, with a cache and padding on the left, and what is trained on."""
    whole = [Prompt((*prompt.ids, *reply.ids), prompt.shown) for prompt, reply in zip(prompts, replies, strict=True)]
    gaps = [
        abs(one - other)
        for scored, prompt, reply in zip(_logprobs(encoder, model, whole).tolist(), prompts, replies, strict=True)
        for one, other in zip(scored[len(prompt.ids) :], reply.logprobs, strict=False)
    ]
    return max(gaps) if all(map(math.isfinite, gaps)) else math.inf


def _logprobs(encoder: ChatEncoder, model: ActorCritic, prompts: Sequence[Prompt]) -> Tensor:
    """(B, L) As training computes them."""
    inputs = model_inputs(prompts, encoder, model.policy.device)
    found = model(inputs, ["logprobs"], temperature=1.0, forbidden_ids=encoder.forbidden_ids)["logprobs"]
    # Image tokens are none that a policy may say; their log-probability is that of nothing.
    return torch.where(inputs["input_ids"] == encoder.image_token_id, 0.0, found)


def _prompts(encoder: ChatEncoder) -> list[Prompt]:
    """A conversation of two turns, and one of one."""
    first, second = (encoder.show(SYSTEM, _observation(number, size)) for number, size in enumerate(SIZES))
    said = Reply((*encoder.encode(REPLIES[0]), encoder.end_id), ())
    turn: Any = PlayedTurn(first, said, None, ())  # type: ignore[arg-type]
    return [lay_out([turn], (), second).prompt, lay_out((), (), first).prompt]


def _observation(number: int, size: tuple[int, int]) -> dict[str, Any]:
    return {"text": f"Here {IMAGE_PLACEHOLDER} it is.", "image": checkered(number, size)}


def check_attention(name: str | None) -> None:
    """Raise TrainingConfigError if transformers doesn't know this attention, or its package isn't installed."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

    if name is None:
        return
    known = {"eager", *ALL_ATTENTION_FUNCTIONS.valid_keys()}
    if name not in known and "/" not in name:  # with a slash it is a kernel of the hub
        raise TrainingConfigError(
            f"attn_implementation={name!r} is unknown to transformers.{did_you_mean(name, known)}"
        )
    installed = {"flash_attention_2": is_flash_attn_2_available, "flash_attention_3": is_flash_attn_3_available}
    if name in installed and not installed[name]():
        raise TrainingConfigError(
            f"attn_implementation={name!r} needs the package flash-attn and a GPU, which aren't here"
        )
