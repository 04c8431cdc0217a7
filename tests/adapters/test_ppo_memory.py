"""What the trainer keeps in memory: logits of sampled tokens only, a reference in bfloat16, no critic without use."""

import pytest
import torch
from ppo_training import config
from tensor_memory import peak_bytes

from vagen_adapters.ppo.actor_critic import CRITIC_FILE, ActorCritic
from vagen_adapters.ppo.scoring import Distribution, score
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

WANT = ("logprobs", "entropies", "reference_logprobs")


def batch(rows=2, length=12):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(30, 200, (rows, length), generator=generator)
    mask = torch.rand(rows, length, generator=generator) < 0.4
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, mask


def moved(tiny_folder, **options):
    """A policy that has left its reference."""
    model = ActorCritic.from_pretrained(tiny_folder, **options).eval()
    model.add_reference()
    with torch.no_grad():
        shape = model.policy.lm_head.weight.shape
        model.policy.lm_head.weight.add_(
            0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
        )
    return model


@pytest.mark.parametrize("teach", [True, False])
def test_scores_and_gradients_at_sampled_tokens_are_those_of_all_logits(tiny_folder, teach):
    model, (inputs, mask) = moved(tiny_folder), batch()
    found = model(
        inputs, WANT, temperature=0.7, forbidden_ids=(3,), mask=mask, entropies_teach=teach
    )
    assert not any(entries[~mask].any() for entries in found.values())
    (found["logprobs"] + 0.1 * found["entropies"]).sum().backward()
    ours = {
        name: each.grad.clone()
        for name, each in model.policy.named_parameters()
        if each.grad is not None
    }
    model.zero_grad()

    # The independent way: the policy's own logits of all tokens, and torch's distributions.
    logits, others = (
        each(**inputs).logits[:, :-1] / 0.7 for each in (model.policy, model.reference)
    )
    kept = [token for token in range(logits.shape[2]) if token != 3]
    p, q = (torch.distributions.Categorical(logits=each[..., kept]) for each in (logits, others))
    token = inputs["input_ids"][:, 1:] - (inputs["input_ids"][:, 1:] > 3).long()
    expected = dict(zip(WANT, (p.log_prob(token), p.entropy(), q.log_prob(token)), strict=True))
    said = mask[:, 1:]
    for name in WANT:
        torch.testing.assert_close(
            found[name][:, 1:][said], expected[name][said], rtol=1e-4, atol=1e-5, msg=name
        )
    bonus = 0.1 * expected["entropies"] if teach else 0
    (expected["logprobs"] + bonus)[said].sum().backward()
    assert max(float(gradient.abs().max()) for gradient in ours.values()) > 1e-3
    for name, gradient in ours.items():
        torch.testing.assert_close(
            gradient, model.policy.get_parameter(name).grad, rtol=1e-3, atol=1e-4, msg=name
        )


def test_a_batch_in_which_nothing_was_sampled_has_scores_of_zero_and_a_gradient(tiny_folder):
    """A process that has no rows left still takes part: with no tokens at all."""
    model, (inputs, mask) = moved(tiny_folder), batch()
    found = model(inputs, ("logprobs", "values"), temperature=1.0, mask=mask & False)
    (found["logprobs"].sum() + found["values"].sum()).backward()
    assert not found["logprobs"].any()
    assert not model.policy.lm_head.weight.grad.any()


def test_the_peak_is_below_one_float32_copy_of_the_sampled_logits():
    """By the allocator's own events, forward and backward, entropy's gradient included; all logits at once take five."""
    tokens, width, vocabulary = 1024, 32, 2048
    head = torch.nn.Linear(width, vocabulary, bias=False)
    hidden = torch.randn(tokens, width, requires_grad=True)
    ids = torch.randint(vocabulary, (tokens,), generator=torch.Generator().manual_seed(0))

    def update():
        found = score(("logprobs", "entropies"), Distribution(0.7, (3,)), ids, head, hidden)
        (found["logprobs"] + 0.1 * found["entropies"]).sum().backward()

    copy = tokens * vocabulary * 4
    assert peak_bytes(lambda: torch.zeros(tokens, vocabulary))[1] == copy  # the measure itself
    assert 0.1 * copy < peak_bytes(update)[1] < copy


def test_a_reference_in_bfloat16_says_what_one_in_float32_would(tiny_folder):
    """Under autocast, bit by bit: only what it would round anyway is stored rounded."""
    from vagen_adapters.ppo.chat_encoder import load_policy

    _, encoder = load_policy(tiny_folder)
    from vagen_adapters.ppo.generation import Prompt, model_inputs

    shown = encoder.show(
        "", {"text": "<image> and words", "image": torch.full((64, 64, 3), 7).byte().numpy()}
    )
    inputs = model_inputs([Prompt(shown.first_ids, (shown,))], encoder, "cpu")
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        model = ActorCritic.from_pretrained(tiny_folder).eval()
        model.add_reference(dtype)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found.append(
                model(inputs, ("reference_logprobs",), temperature=1.0)["reference_logprobs"]
            )
            policy = model(inputs, ("logprobs",), temperature=1.0)["logprobs"]
        assert torch.equal(found[-1], policy)
    assert torch.equal(*found)
    stored = {each.dtype: 0 for each in model.reference.parameters()}
    for each in model.reference.parameters():
        stored[each.dtype] += each.numel()
    assert stored[torch.bfloat16] > stored[torch.float32]


@pytest.mark.parametrize("advantage", ["grpo", "rloo"])
def test_there_is_no_critic_where_none_is_used(advantage, tiny_folder, tmp_path):
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, advantage=advantage, group_size=2))
    assert trainer.model.critic is None
    assert trainer.model.value_head is None
    trainer.save_model(str(tmp_path / "saved"))
    assert not (tmp_path / "saved" / CRITIC_FILE).exists()
    trainer.model.load_trained(tmp_path / "saved")
