"""A critic that reads the latest picture's tokens in their places."""

from dataclasses import replace

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from vagen_adapters.errors import TrainingConfigError  # noqa: E402
from vagen_adapters.parity import tiny_model as tiny  # noqa: E402
from vagen_adapters.ppo.chat_encoder import load_policy  # noqa: E402
from vagen_adapters.ppo.episodes import Level, training_sequences  # noqa: E402
from vagen_adapters.ppo.generation import model_inputs  # noqa: E402
from vagen_adapters.ppo.losses import explained_variance  # noqa: E402
from vagen_envs import RewardTerm  # noqa: E402
from vagen_experiments.critic_heads import ReadingHead, pictures_in  # noqa: E402
from vagen_experiments.critics import StudyActorCritic, StudyConfig, StudyTrainer  # noqa: E402
from vagen_experiments.imitation import demonstrate  # noqa: E402

OPTIONS = {"strategy": "no_think", "max_turns": 3, "max_actions_per_turn": 1, "prompt_pack": tiny.PROMPTS}


@pytest.fixture(scope="module")
def batch(tiny_folder):
    """Two episodes of random play, of several turns each, as the model is given them."""
    env, encoder = gym.make("vagen/FrozenLake-v0", **OPTIONS), load_policy(tiny_folder)[1]
    episodes = [demonstrate(env, encoder, Level(seed), oracle_share=0.0) for seed in range(12)]
    longest = sorted(episodes, key=lambda each: -len(each.turns))[:2]
    sequences = [training_sequences(each, None, with_end=False)[0] for each in [*longest, episodes[0]]]
    return model_inputs([each.prompt for each in sequences], encoder, "cpu")


def test_the_latest_picture_is_the_last_one_that_was_read_whole(batch):
    given = torch.arange(batch["input_ids"].numel()).reshape(*batch["input_ids"].shape, 1).float()
    tokens, sizes, latest = pictures_in(batch, given, merge=2)
    assert sizes.tolist() == [[4, 4]] * len(batch["image_grid_thw"])
    number, wanted = -1, []
    for row in batch["mm_token_type_ids"].tolist():
        here, met = -1, 0
        for kind in row:
            met += kind == 1
            if kind == 1 and met % 16 == 0:
                number += 1
                here = number
            wanted.append(here)
    assert latest.flatten().tolist() == wanted
    assert len(tokens) == 16 * (number + 1)
    assert tokens[0, 0] == batch["mm_token_type_ids"].flatten().argmax()


def values_of(model, inputs):
    with torch.no_grad():
        return model(inputs, ["values"], temperature=1.0)["values"]


@pytest.mark.parametrize("kind", ["own", "shared"])
def test_what_is_read_is_added_from_the_first_picture_on(batch, tiny_folder, kind):
    torch.manual_seed(0)
    model = StudyActorCritic.from_pretrained(tiny_folder, critic=kind, heads={"reads": True}).eval()
    assert not values_of(model, batch).any()  # until it has learned
    torch.nn.init.normal_(model.reading_head.value.weight)
    values = values_of(model, batch)
    first = int((batch["mm_token_type_ids"][0] == 1).nonzero()[15])
    assert not values[0, : first + 1].any()
    assert values[0, first + 1 :].any()
    other = {**batch, "pixel_values": batch["pixel_values"].clone()}
    other["pixel_values"][:64] = 0  # the first picture of the first row
    changed = (values_of(model, other) != values).any(1)
    assert changed.tolist() == [True, False, False]


def test_it_reads_where_things_are_which_the_last_state_does_not_say():
    """Tokens of noise in which one direction stands for a thing: worth depends on its cell, and the state is the same."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    head, thing = ReadingHead(32), torch.randn(32, generator=generator)
    cells = torch.randint(16, (1200,), generator=generator)
    pictures = 0.3 * torch.randn(1200, 16, 32, generator=generator)
    pictures[torch.arange(1200), cells] += thing
    worth = torch.randn(16, generator=generator)[cells]
    sizes = torch.tensor([[4, 4]] * 1200)
    hidden, latest = torch.ones(1200, 1, 32), torch.arange(1200)[:, None]
    optimizer = torch.optim.Adam(head.parameters(), 3e-3)
    for _ in range(120):
        rows = torch.randint(1000, (64,), generator=generator)
        values = head(hidden[rows], pictures[rows].flatten(0, 1), sizes[rows], torch.arange(64)[:, None])[:, 0]
        optimizer.zero_grad()
        (values - worth[rows]).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        values = head(hidden, pictures.flatten(0, 1), sizes, latest)[:, 0]
    assert explained_variance(values[1000:], worth[1000:]) > 0.8


def test_convolutions_say_what_lies_beside_what():
    """Worth is whether two things are neighbours, in pictures that weren't learned: questions alone don't find it."""
    explained = {}
    for convolutions in (0, 1):
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        head = ReadingHead(32, convolutions)
        things = torch.randn(2, 32, generator=generator)
        cells = torch.stack([torch.randperm(16, generator=generator)[:2] for _ in range(1200)])
        pictures = 0.3 * torch.randn(1200, 16, 32, generator=generator)
        for thing, cell in zip(things, cells.T, strict=True):
            pictures[torch.arange(1200), cell] += thing
        worth = (((cells // 4).diff().abs() + (cells % 4).diff().abs()) == 1).float()[:, 0]
        sizes = torch.tensor([[4, 4]] * 1200)
        hidden, latest = torch.ones(1200, 1, 32), torch.arange(1200)[:, None]
        optimizer = torch.optim.Adam(head.parameters(), 3e-3)
        for _ in range(200):
            rows = torch.randint(1000, (64,), generator=generator)
            values = head(hidden[rows], pictures[rows].flatten(0, 1), sizes[rows], latest[:64])[:, 0]
            optimizer.zero_grad()
            (values - worth[rows]).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            values = head(hidden, pictures.flatten(0, 1), sizes, latest)[:, 0]
        explained[convolutions] = explained_variance(values[1000:], worth[1000:])
    assert explained[0] < 0.2
    assert explained[1] > 0.6


@pytest.mark.parametrize("convolutions", [0, 2])
def test_pictures_of_any_size_are_read_by_one_head(convolutions):
    head = ReadingHead(32, convolutions)
    torch.nn.init.normal_(head.value.weight)
    sizes = torch.tensor([[4, 4], [3, 9], [20, 12]])
    tokens = torch.randn(int(sizes.prod(1).sum()), 32)
    values = head(torch.zeros(1, 4, 32), tokens, sizes, torch.tensor([[-1, 0, 1, 2]]))[0]
    assert values[0] == 0
    assert len(set(values.tolist())) == 4


def test_it_is_saved_and_one_that_did_not_read_goes_on(tiny_folder, tmp_path, batch):
    torch.manual_seed(0)
    plain = StudyActorCritic.from_pretrained(tiny_folder)
    torch.nn.init.normal_(plain.value_head.weight)
    plain.save_pretrained(tmp_path / "plain")
    reads = StudyActorCritic.from_pretrained(str(tmp_path / "plain"), heads={"reads": True})
    torch.testing.assert_close(values_of(reads.eval(), batch), values_of(plain.eval(), batch))
    torch.nn.init.normal_(reads.reading_head.value.weight)
    reads.save_pretrained(tmp_path / "reads")
    again = StudyActorCritic.from_pretrained(str(tmp_path / "reads"), heads={"reads": True})
    torch.testing.assert_close(values_of(again.eval(), batch), values_of(reads.eval(), batch))
    with pytest.raises(TrainingConfigError, match="another critic"):
        StudyActorCritic.from_pretrained(str(tmp_path / "reads"))


def test_convolutions_are_of_a_critic_that_reads_and_stay_as_many(tiny_folder, tmp_path, batch):
    torch.manual_seed(0)
    model = StudyActorCritic.from_pretrained(
        tiny_folder, critic="shared", heads={"reads": True, "convolutions": 2}
    ).eval()
    torch.nn.init.normal_(model.reading_head.value.weight)
    model.save_pretrained(tmp_path / "reads")
    again = StudyActorCritic.from_pretrained(
        str(tmp_path / "reads"), critic="shared", heads={"reads": True, "convolutions": 2}
    ).eval()
    torch.testing.assert_close(values_of(again, batch), values_of(model, batch))
    with pytest.raises(TrainingConfigError, match="critic_convolutions"):
        StudyActorCritic.from_pretrained(str(tmp_path / "reads"), critic="shared", heads={"reads": True})


def test_a_critic_that_is_told_the_state_knows_what_the_picture_does_not_show(tiny_folder, tmp_path):
    """Its values change with the state alone; it is saved and read, and goes on from any other critic."""
    env, encoder = gym.make("vagen/FrozenLake-v0", **OPTIONS), load_policy(tiny_folder)[1]
    episodes = [demonstrate(env, encoder, Level(seed), oracle_share=0.5) for seed in range(2)]
    prompts = [training_sequences(each, None, with_end=False)[0].prompt for each in episodes]
    inputs = model_inputs(prompts, encoder, "cpu")
    shown = [each for prompt in prompts for each in prompt.shown]
    model = StudyActorCritic.from_pretrained(tiny_folder, critic="shared", heads={"told": True}).eval()
    told = model.critic_inputs(shown)
    assert told["critic_counts"].tolist() == [len(each.state.things()) for each in shown]
    assert not values_of(model, {**inputs, **told}).any()
    torch.nn.init.normal_(model.told_head.value.weight)
    values = values_of(model, {**inputs, **told})
    other = model.critic_inputs([replace(shown[0], state=shown[-1].state), *shown[1:]])
    assert (values_of(model, {**inputs, **other}) != values).any(1).tolist() == [True, False]
    model.save_pretrained(tmp_path / "told")
    again = StudyActorCritic.from_pretrained(str(tmp_path / "told"), critic="shared", heads={"told": True}).eval()
    torch.testing.assert_close(values_of(again, {**inputs, **told}), values)
    with pytest.raises(TrainingConfigError, match="another critic"):
        StudyActorCritic.from_pretrained(str(tmp_path / "told"), critic="shared", heads={"reads": True})
    StudyActorCritic.from_pretrained(tiny_folder, critic="shared", heads={"reads": True}).save_pretrained(
        tmp_path / "reads"
    )
    assert not values_of(StudyActorCritic.from_pretrained(str(tmp_path / "reads"), critic="shared", heads={"told": True}).eval(),
                         {**inputs, **told}).any()  # fmt: skip
    with pytest.raises(TrainingConfigError, match=r"State\.things"):
        model.critic_inputs([replace(shown[0], state=None)])


def test_words_alone_can_not_be_read_so(batch):
    with pytest.raises(TrainingConfigError, match="critic_reads"):
        pictures_in({name: each for name, each in batch.items() if name != "image_grid_thw"}, torch.zeros(1), 2)


@pytest.mark.parametrize("kind", ["critic_reads", "critic_told"])
def test_the_trainer_teaches_it(tiny_folder, tmp_path, kind):
    args = StudyConfig(
        output_dir=str(tmp_path), env_id="vagen/FrozenLake-v0", env_options=OPTIONS, num_envs=4, rollouts=1,
        episodes_per_rollout=4, minibatches=2, max_tokens=4, temperature=1.0, top_p=1.0, critic_learning_rate=1e-3,
        logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False,
        gradient_checkpointing=False, disable_tqdm=True, **{kind: True},
    )  # fmt: skip
    trainer = StudyTrainer(tiny_folder, args, score=lambda turn: [RewardTerm("late", float(turn.index))])
    head = trainer.model.reading_head or trainer.model.told_head
    before = head.value.weight.clone()
    trainer.train()
    assert not torch.equal(head.value.weight, before)
