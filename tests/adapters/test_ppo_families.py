"""Models of many families, of random weights, through the same trainer: no list of names decides what is trained."""

import families
import numpy as np
import pytest
import torch
from ppo_training import config, lake, likes_short_words

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo import family_checks, generation, introspection, layout_check
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    made = {}

    def folder(name):
        if name not in made:
            made[name] = families.save(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_family_plays_a_rollout_and_learns_two_updates(name, folder_of, tmp_path):
    args = config(
        tmp_path,
        environments=lake(),
        episodes_per_rollout=2,
        num_envs=2,
        per_device_train_batch_size=2,
        max_length=4096,
        learning_rate=1e-2,
        freeze_vision=True,
        kl_coef=0.0,
    )
    trainer = MultiTurnPPOTrainer(folder_of(name), args, score=likes_short_words)
    policy = trainer.model.policy
    before = {key: each.detach().clone() for key, each in policy.named_parameters()}
    trainer.train()
    logs = {key: entry for line in trainer.state.log_history for key, entry in line.items()}
    assert trainer.state.global_step == 2
    assert logs["rollout/failed"] == 0
    assert max(line.get("policy/sampler_gap", 0) for line in trainer.state.log_history) < 1e-5
    moved = {key for key, each in policy.named_parameters() if not torch.equal(each, before[key])}
    towers = ("vision", "visual", "projector", "connector", "image_newline")
    assert moved, "nothing was learned"
    assert not [key for key in moved if any(word in key for word in towers)], (
        "freeze_vision lets a part of it move"
    )
    assert [key for key in before if any(word in key for word in towers)]


def test_qwen3_5_thinks(folder_of, tmp_path):
    args = config(
        tmp_path,
        environments=lake(),
        episodes_per_rollout=2,
        max_thinking_tokens=3,
        max_length=4096,
        kl_coef=0.0,
    )
    trainer = MultiTurnPPOTrainer(folder_of("qwen3_5"), args, score=likes_short_words)
    assert trainer.encoder.conversation.marks.opening == "<think>\n"
    trainer.train()
    logs = {key: entry for line in trainer.state.log_history for key, entry in line.items()}
    assert logs["rollout/failed"] == 0
    assert logs["rollout/thought_tokens"] >= 3
    assert max(line.get("policy/sampler_gap", 0) for line in trainer.state.log_history) < 1e-5


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_trained_familys_folder_is_read_again(name, folder_of, tmp_path):
    encoder = ChatEncoder.from_pretrained(folder_of(name))
    ActorCritic.from_pretrained(folder_of(name), critic="none").save_pretrained(tmp_path)
    encoder.save_pretrained(tmp_path)
    again = ChatEncoder.from_pretrained(str(tmp_path))
    seen = {"text": "Where <image>?", "image": np.full((64, 96, 3), 90, np.uint8)}
    one, other = encoder.show("Play.", seen), again.show("Play.", seen)
    assert (one.first_ids, one.next_ids) == (other.first_ids, other.next_ids)
    features, others = encoder.pictures.features_of([one]), again.pictures.features_of([other])
    assert all(torch.equal(features[key], others[key]) for key in features)


def refused(name, tmp_path, **changes):
    with pytest.raises(TrainingConfigError) as error:
        layout_check.check_layout(
            ChatEncoder.from_pretrained(families.save(name, tmp_path, **changes))
        )
    return str(error.value)


def test_a_template_that_writes_history_in_another_way_is_refused(tmp_path):
    """As templates do that put the system prompt before the last observation."""
    template = families.FAMILIES["qwen2_5_vl"]["template"]
    last = template.replace(
        "{{ message.role }}\n", "{{ message.role }}\n{% if loop.last %}(now) {% endif %}"
    )
    found = refused("qwen2_5_vl", tmp_path, template=last)
    assert "family 'qwen2_5_vl'" in found
    assert "continuation" in found
    assert "use a template that keeps a conversation as it was" in found


def test_a_whole_of_which_a_part_can_be_trained_is_refused_by_name(tmp_path):
    from transformers import AutoConfig

    families.tokenizer("qwen2_5_vl").save_pretrained(tmp_path)
    AutoConfig.for_model("qwen2_5_omni").save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_processor_type": "Qwen2VLImageProcessor"}'
    )
    with pytest.raises(TrainingConfigError, match="'qwen2_5_omni' can't be trained"):
        ChatEncoder.from_pretrained(str(tmp_path))


def test_a_template_without_pictures_is_refused(tmp_path):
    template = families.FAMILIES["qwen3_vl"]["template"]
    found = refused("qwen3_vl", tmp_path, template=template.replace("<|image_pad|>", ""))
    assert "chat template" in found
    assert "it drops" in found


def test_a_model_that_is_blind_is_refused(folder_of, monkeypatch):
    folder = folder_of("gemma3")
    model, encoder = ActorCritic.from_pretrained(folder), ChatEncoder.from_pretrained(folder)
    with torch.no_grad():
        model.policy.base_model.multi_modal_projector.mm_input_projection_weight.zero_()
    with pytest.raises(TrainingConfigError, match="another picture changes nothing"):
        family_checks.check_model(model, encoder)


def test_a_sampler_that_says_other_log_probabilities_is_refused(folder_of, monkeypatch):
    """As with a logit scale that generate applies and the trainer's own head doesn't."""
    folder = folder_of("llava")
    model, encoder = ActorCritic.from_pretrained(folder), ChatEncoder.from_pretrained(folder)
    # The head is one of its modules, which both read; a scale is applied by generate alone.
    draw = generation.Draw.__call__
    monkeypatch.setattr(
        generation.Draw, "__call__", lambda self, ids, scores: draw(self, ids, scores * 1.01)
    )
    with pytest.raises(TrainingConfigError, match="sampler against trainer"):
        family_checks.check_model(model, encoder)


@pytest.mark.parametrize(
    ("name", "scaled"), [("hyperclovax_vision_v2", True), ("gemma4", True), ("qwen2_5_vl", False)]
)
def test_logits_are_what_the_models_own_forward_pass_makes_of_states(name, scaled, folder_of):
    policy = ActorCritic.from_pretrained(folder_of(name), critic="none").policy.eval()
    ids = torch.arange(7)[None]
    states = policy.model(input_ids=ids).last_hidden_state[0]
    own = policy(input_ids=ids).logits[0]
    torch.testing.assert_close(introspection.logits_of(policy, states), own)
    assert torch.equal(policy.lm_head(states), own) is not scaled
