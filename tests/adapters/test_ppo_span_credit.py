"""Words that are paid for themselves: which tokens a sentence's truth goes to, and that it teaches to say what is true."""

import statistics

import gymnasium as gym
import pytest
import torch
from ppo_training import config

import vagen_envs  # noqa: F401
from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply, model_inputs
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.reasoning import ReasoningScore, credit_words, make_reward
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_rewards import RuleJudge
from vagen_rewards.credit import words_of
from vagen_rewards.scores import Judge, Score

ENV, OPTIONS = "vagen/FrozenLake-v0", {"prompt_pack": tiny.PROMPTS}
BOTH = {"grounding": 0.5, "world_modeling": 0.5}
TRUE, FALSE, NEITHER = (
    "The target is above the player.",
    "The target is below the player.",
    "What a day it is!",
)


def played(observation, prediction=TRUE):
    """A turn of a lake whose target is above the player, and stays so."""
    env = gym.make(ENV, **OPTIONS)
    for seed in range(100):
        env.reset(seed=seed)
        state = env.unwrapped.true_state
        (player, _), (target, _) = state.player, state.target
        if target < player - 1:
            break
    said = env.unwrapped.grammar.render(
        ["Left"], observation=observation, reasoning=f"{FALSE}?", prediction=prediction
    )
    return env, env.step(said)[4]["turn"]


def test_sentences_have_the_truth_of_what_they_claim():
    _, turn = played(f"{TRUE} {NEITHER} {FALSE}")
    reward = make_reward(BOTH, gym.make(ENV, **OPTIONS))
    grounding, prediction = words_of(turn, reward.read(turn))
    assert (grounding.part, prediction.part) == ("grounding", "world_modeling")
    assert turn.reply[slice(*grounding.span)] == turn.parsed.observation
    assert [
        (f"{turn.reply[slice(*span)].strip()}.", truth) for span, truth in grounding.truths
    ] == [
        (TRUE, 1.0),
        (FALSE, -1.0),
    ]
    assert [f"{turn.reply[slice(*span)].strip()}." for span, _ in prediction.truths] == [TRUE]
    assert prediction.span[0] > turn.reply.index("<prediction>")


def test_tokens_begin_where_their_text_does(loaded):
    encoder = loaded[1]
    for text in (
        "<answer>Up</answer>",
        f"<observation>{TRUE} {FALSE}</observation>",
        "Grüße 😀 日本",
    ):
        ids = [*encoder.encode(text), encoder.end_id]
        begins = encoder.begins(ids)
        assert begins == sorted(begins)
        assert begins[-1] == len(text)
        for number in range(len(ids)):
            assert text.startswith(encoder.read(ids[:number]).rstrip("�"))
            assert abs(begins[number] - len(encoder.read(ids[:number]))) <= 1


def test_only_a_sentences_own_tokens_get_its_truth(loaded):
    encoder = loaded[1]
    rows = []
    for observation in (f"{TRUE} {NEITHER} {FALSE}", TRUE, FALSE):
        env, turn = played(observation)
        shown = encoder.show(env.unwrapped.system_prompt, env.reset(seed=0)[0])
        ids = (*encoder.encode(turn.reply), encoder.end_id)
        judged = ReasoningScore(make_reward(BOTH, env), "span")(turn)
        assert judged.turn.rewards == turn.rewards, "no turn earns what its words are credited with"
        assert judged.turn.metrics["world_modeling"] is not None
        rows.append(
            PPOEpisode(
                LevelSeed(0),
                [PlayedTurn(shown, SampledReply(ids, (0.0,) * len(ids)), turn, (), judged.words)],
            )
        )
    sequences = [sequence for each in rows for sequence in training_sequences(each)]
    mask = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(each.turn_ids) >= 0 for each in sequences], batch_first=True
    )
    task = Advantages(torch.full(mask.shape, 7.0) * mask, mask, torch.zeros(0), torch.zeros(0))
    found, told = credit_words(task, sequences, rows, encoder)
    credited = []
    for row, (episode, sequence) in enumerate(zip(rows, sequences, strict=True)):
        reply = episode.turns[0].turn.reply
        begins = encoder.begins(episode.turns[0].reply.ids)
        places = [column for column, turn in enumerate(sequence.turn_ids) if turn == 0]
        for begin, column in zip(begins, places, strict=True):
            advantage = float(found.advantages[row, column])
            if reply.index("<prediction>") + 12 <= begin < reply.index("</prediction>"):
                assert advantage == 0.0, "all predictions are as true as each other"
                continue
            if not reply.index("<observation>") + 13 <= begin < reply.index("</observation>"):
                assert advantage == 7.0, "reasoning, tags and actions are the task's"
                continue
            of = next(
                (
                    each
                    for each in (TRUE, NEITHER, FALSE)
                    if reply.find(each) <= begin < reply.find(each) + len(each)
                ),
                "",
            )
            credited.append((of, advantage))
    assert {round(advantage, 4) for of, advantage in credited if of == NEITHER} <= {0.0}
    (right,) = {round(advantage, 4) for of, advantage in credited if of == TRUE and advantage}
    (wrong,) = {round(advantage, 4) for of, advantage in credited if of == FALSE and advantage}
    assert right > 0 > wrong
    every = [advantage for of, advantage in credited if advantage]
    assert statistics.fmean(every) == pytest.approx(0, abs=1e-4)
    assert statistics.pstdev(every) == pytest.approx(1.0, abs=1e-4)
    assert -1 < told["credit/grounding"] < 1 == told["credit/world_modeling"]
    assert task.advantages.max() == 7.0, "the task's advantages are left as they were"


def test_all_of_a_reply_that_the_gate_keeps_out_counts_as_false():
    env, turn = played(TRUE)
    score = ReasoningScore(make_reward(BOTH, env), "span")
    assert [truth for field in score(turn).words for _, truth in field.truths] == [1.0, 1.0]
    idle = env.unwrapped.grammar.render([], observation=TRUE, reasoning="-", prediction=TRUE)
    for reply in (idle, f"<observation>{TRUE}", "Up"):
        env.reset(seed=0)
        (field,) = score(env.step(reply)[4]["turn"]).words
        assert field.span == (0, len(reply))
        assert field.truths == (((0, len(reply)), -1.0),)
    open_to_all = ReasoningScore(make_reward({**BOTH, "gate": False}, env), "span")
    env.reset(seed=0)
    assert [
        truth for field in open_to_all(env.step(idle)[4]["turn"]).words for _, truth in field.truths
    ]


def test_a_judge_is_asked_once_about_a_statement(monkeypatch):
    env, turn = played(TRUE)
    score = ReasoningScore(make_reward(BOTH, env), "span")
    asked, read = [], RuleJudge.read
    monkeypatch.setattr(
        RuleJudge,
        "read",
        lambda self, statement: (asked.append(statement.text), read(self, statement))[1],
    )
    score(turn)
    assert asked == [turn.parsed.observation, turn.parsed.prediction]


class Verdicts(Judge):
    name = "verdicts"

    def score(self, statement):
        return Score(1.0, "so it is")


def test_a_judge_that_does_not_read_has_no_sentences_to_credit():
    env, _ = played(TRUE)
    with pytest.raises(TrainingConfigError, match="needs a judge that reads"):
        ReasoningScore(
            make_reward({**BOTH, "judge": Verdicts(), "weighting": "plain"}, env), "span"
        )


def test_training_teaches_to_say_what_is_true(tiny_folder, tmp_path):
    """A model that says either of two sentences on one lake comes to say the one that is true."""

    class Two:
        """Samples between two replies by the model's own log-probabilities."""

        def __init__(self, policy, encoder):
            self.policy, self.encoder = policy, encoder

        def sync(self):
            pass

        def sample(self, prompts, sampling, seeds):
            env = gym.make(ENV, **OPTIONS, max_turns=1)
            env.reset(seed=0, options={"split": "train"})
            true = env.unwrapped.true_state.natural_language().partition(".")[0] + "."
            other = {"above": "below", "below": "above", "left": "right", "right": "left"}
            false = " ".join(other.get(word, word) for word in true.split())
            said = [
                (
                    *self.encoder.encode(
                        env.unwrapped.grammar.render(
                            ["Left"], observation=each, reasoning="-", prediction="-"
                        )
                    ),
                    self.encoder.end_id,
                )
                for each in (true, false)
            ]
            return [SampledReply(said[seed % 2], (-1.0,) * len(said[seed % 2])) for seed in seeds]

    settings = config(
        tmp_path,
        environments=[{"id": ENV, "options": {**OPTIONS, "max_turns": 1}}],
        rollouts=4,
        episodes_per_rollout=16,
        per_device_train_batch_size=8,
        max_tokens=80,
        max_length=1024,
        learning_rate=3e-3,
        kl_coef=0.0,
        reasoning_credit="span",
    )
    with gym.make(ENV, **OPTIONS) as env:
        score = ReasoningScore(make_reward({"grounding": 1.0}, env), settings.reasoning_credit)
    trainer = MultiTurnPPOTrainer(tiny_folder, settings, score=score, make_sampler=Two)
    trainer.worker.levels = lambda number, extra=0: [
        LevelSeed(0, draw=16 * number + draw, environment=ENV) for draw in range(16)
    ]
    episodes = trainer.worker.play(trainer.worker.levels(0), 0)
    truth = [each.turns[0].turn.metrics["grounding"] for each in episodes]
    middle = (min(truth) + max(truth)) / 2  # half of the false sentence may hold
    assert min(truth) < middle < max(truth)

    def lead():
        """Nats by which what is true is likelier than what isn't, over the same words, before an answer."""
        sequences = [each for episode in episodes for each in training_sequences(episode)]
        rows = model_inputs([each.prompt for each in sequences], trainer.encoder, "cpu")
        with torch.no_grad():
            found = trainer.model.eval()(rows, ["logprobs"], temperature=1.0)["logprobs"]
        sums = [
            float(found[row, : len(each.turn_ids)][torch.tensor(each.turn_ids) >= 0].sum())
            for row, each in enumerate(sequences)
        ]
        right = [each for each, value in zip(sums, truth, strict=True) if value > middle]
        wrong = [each for each, value in zip(sums, truth, strict=True) if value < middle]
        return statistics.fmean(right) - statistics.fmean(wrong)

    before = lead()
    trainer.train()
    assert lead() > before + 0.5
    assert any("credit/grounding" in entry for entry in trainer.state.log_history)
