"""Sequences in one row without padding: each is blind to the others, and what is learned stays the same."""

import families
import pytest
import torch
from ppo_training import Says, config, lake, same, weights

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo import actor_critic, family_checks, layout_check
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.generation import Prompt, model_inputs
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs import RewardTerm


def check_packing(model, encoder):
    model.packs = True
    family_checks.check_model(model, encoder)


# Those with places in pictures, by layer, by tile, and with a window over the last tokens.
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "glm4v", "llava_onevision", "gemma3"])
@torch.no_grad()
def test_a_familys_log_probabilities_are_those_of_padded_rows(name, attention, tmp_path):
    folder = families.save(name, tmp_path)
    encoder = ChatEncoder.from_pretrained(folder)
    model = ActorCritic.from_pretrained(
        folder, critic="shared", attn_implementation=attention
    ).eval()
    torch.nn.init.normal_(model.value_head.weight)
    check_packing(model, encoder)
    first, second = (layout_check.shown_example(encoder, number) for number in range(2))
    conversation = Prompt(
        (*first.first_ids, *encoder.encode("Up"), *second.next_ids), (first, second)
    )
    prompts = [conversation, *[Prompt(first.first_ids, (first,))] * 2]
    for left in (False, True):
        inputs = model_inputs(prompts, encoder, "cpu", left=left)
        mask = inputs["attention_mask"].bool()
        said = mask & (
            inputs["attention_mask"].cumsum(1) > 1
        )  # nothing stands before a first token
        want = ["logprobs", "entropies", "values"]
        model.packs = False
        padded = model(
            inputs, want, temperature=0.7, forbidden_ids=encoder.forbidden_ids, mask=said
        )
        places = (
            inputs["input_ids"] != encoder.image_token_id
        )  # what no policy may say has no probability
        model.packs = True
        found = model(inputs, want, temperature=0.7, forbidden_ids=encoder.forbidden_ids, mask=said)
        for key in ("logprobs", "entropies"):
            torch.testing.assert_close(
                found[key][said & places], padded[key][said & places], rtol=0, atol=1e-5
            )
        torch.testing.assert_close(
            found["values"][:, 1:][mask], padded["values"][:, 1:][mask], rtol=0, atol=1e-5
        )


def test_a_family_with_a_running_state_is_refused(tmp_path):
    folder = families.save("qwen3_5", tmp_path)
    model, encoder = (
        ActorCritic.from_pretrained(folder, critic="none"),
        ChatEncoder.from_pretrained(folder),
    )
    with pytest.raises(
        TrainingConfigError, match=r"family 'qwen3_5'.*packing: .* leave packing out"
    ):
        check_packing(model, encoder)


def test_a_row_whose_sequences_see_each_other_is_found_out(tiny_folder, monkeypatch):
    model, encoder = (
        ActorCritic.from_pretrained(tiny_folder, critic="none"),
        ChatEncoder.from_pretrained(tiny_folder),
    )
    check_packing(model, encoder)
    in_one_row = actor_critic.in_one_row

    def one_sequence(model, inputs):
        row = in_one_row(model, inputs)
        return {**row, "attention_mask": torch.ones_like(row["input_ids"])}

    monkeypatch.setattr(actor_critic, "in_one_row", one_sequence)
    with pytest.raises(TrainingConfigError, match="packing: sampled tokens"):
        check_packing(model, encoder)


class Ragged(Says):
    """Replies of one to six tokens."""

    def length(self, seed):
        return 1 + seed % 6


def trained(folder, out, **changes):
    later = lambda turn: [RewardTerm("later", float(turn.index))]  # noqa: E731
    run = {
        "environments": lake(max_turns=3),
        "episodes_per_rollout": 6,
        "max_tokens": 6,
        "per_device_train_batch_size": 3,
        "critic_learning_rate": 1e-3,
        "kl_loss_coef": 0.05,
    }
    trainer = MultiTurnPPOTrainer(
        folder, config(out, **run | changes), score=later, make_sampler=Ragged
    )
    read = []
    for model in (trainer.model.policy, trainer.model.critic):
        if model is not None:
            model.get_input_embeddings().register_forward_hook(
                lambda _, inputs, __: read.append(inputs[0].numel())
            )
    trainer.train()
    return trainer, sum(read)


@pytest.mark.parametrize(
    "changes",
    [{}, {"freeze_vision": True}, {"shared_backbone": True}],
    ids=["own", "frozen", "shared"],
)
def test_training_is_the_same_with_nothing_computed_for_padding(changes, tiny_folder, tmp_path):
    padded, some = trained(tiny_folder, tmp_path / "padded", **changes)
    packed, none = trained(tiny_folder, tmp_path / "packed", packing=True, **changes)
    lengths = {len(each.prompt.ids) for each in packed._experience.sequences.rows}
    assert len(lengths) > 1
    tokens = sum(len(each.prompt.ids) for each in packed._experience.sequences.rows)
    assert none % tokens == 0  # the sequences, as often as they are scored and trained on
    assert none < some < 2 * none
    same(weights(packed), weights(padded), rtol=0, atol=2e-5)
