"""Models that think before their replies, by templates of three kinds: what is sampled, shown, trained and benched."""

import json
import shutil

import pytest

pytest.importorskip("trl", reason="needs the extra ppo")

from parity_ppo import PPOTrainerAdapter
from ppo_training import config, history, lake, trained
from thinking_templates import MARKS, TEMPLATES

from vagen_adapters.context import ContextPolicy
from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.parity import ReferenceModel, run
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.environments import EnvironmentPool
from vagen_adapters.ppo.episodes import LevelSeed, PlayedSummary
from vagen_adapters.ppo.generation import Prompt, SampledReply, SampleSettings
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.thought_marks import marks_of
from vagen_adapters.ppo.token_sequences import training_sequences

BUDGET = 5
CONTEXTS = ["all", "all,reasoning=keep", "last:1", "last:1,reasoning=keep"]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """The parity kit's model with another chat template."""
    plain = tmp_path_factory.mktemp("thinking") / "plain"
    ReferenceModel(plain)

    def folder(name):
        made = plain.with_name(name)
        if not made.exists():
            shutil.copytree(plain, made)
            (made / "chat_template.jinja").write_text(TEMPLATES[name])
        return made

    return folder


@pytest.fixture(params=TEMPLATES)
def name(request):
    return request.param


def test_marks_are_told_from_the_template(name, folder_of):
    encoder = ChatEncoder.from_pretrained(str(folder_of(name)), thinking=True)
    marks = encoder.conversation.marks
    assert (marks.opening, marks.closing) == MARKS[name]
    assert encoder.tokenizer.decode(encoder.closing_ids) == marks.closing
    assert encoder.closing_ids.count(encoder.thought_end_id) == 1


@pytest.mark.parametrize(
    ("on", "off", "added", "opening", "closing"),
    [
        ("", "", ["◁think▷", "◁/think▷"], "◁think▷", "◁/think▷"),  # Kimi-VL, no template tells
        ("", "", ["[THINK]", "[/THINK]"], "[THINK]", "[/THINK]"),  # Magistral
        # Qwen3-VL-Thinking, whose thoughts can't be turned off
        ("<think>\n", "<think>\n", ["<think>", "</think>"], "<think>\n", "\n</think>"),
        ("", "<|channel>thought\n<channel|>", ["<|channel>", "<channel|>"],
         "<|channel>thought\n", "<channel|>"),  # Gemma 4
    ],
)  # fmt: skip
def test_marks_of_families(on, off, added, opening, closing):
    marks = marks_of(on, off, added)
    assert (marks.opening, marks.closing) == (opening, closing)
    assert marks.end in added


def test_a_family_without_marks_is_refused():
    with pytest.raises(ValueError, match="leave max_thinking_tokens out"):
        marks_of("", "", ["<|im_end|>", "<think>"])


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_parity_kit_is_quiet(name, context, folder_of):
    model = ReferenceModel(folder_of(name), thinking=True)
    report = run(PPOTrainerAdapter(context), model)
    assert report.failed == ()
    assert {each.verdict for each in report.findings} == {"pass"}


class Thinks:
    """Thoughts that are closed, cut, or end the reply, by turns; then the answer. It keeps what it read."""

    def __init__(self, encoder):
        self.encoder, self.read = encoder, []

    def sync(self):
        pass

    def sample(self, prompts, sampling, seeds):
        return [self.reply(prompt, sampling) for prompt in prompts]

    def reply(self, prompt, sampling):
        encode, ending = self.encoder.encode, (self.encoder.end_id,)
        self.read.append((prompt.ids, sampling))
        if sampling.stop_id is None:
            ids = (*encode("\n"), *encode("<answer>Left</answer>"), *ending)
        else:
            number = sum(settings.stop_id is not None for _, settings in self.read) - 1
            thoughts = encode("Hmmm, hmmm, hmmm.")[: sampling.max_tokens]
            ends = [(*thoughts[:2], sampling.stop_id), thoughts, (*thoughts[:1], *ending)]
            ids = ends[number % 3]
        return SampledReply(ids, (-1.0,) * len(ids))


def play(encoder, context, max_turns=6, max_length=4096):
    sampler = Thinks(encoder)
    tasks = config("unused", environments=lake(max_turns=max_turns, is_slippery=False)).tasks
    rollout = Rollout(
        EnvironmentPool(1, tasks),
        encoder,
        sampler,
        SampleSettings(temperature=1.0, top_p=1.0, max_tokens=20, max_thinking_tokens=BUDGET),
        context=ContextPolicy.parse(context),
        max_length=max_length,
    )
    (episode,) = rollout.play([LevelSeed(0, environment=tasks[0].name)], 0)
    assert episode.failure is None
    return episode, sampler


@pytest.mark.parametrize("context", [*CONTEXTS, "summary:2", "summary:2,reasoning=turn"])
def test_what_is_trained_is_what_was_sampled_after_what_was_read(name, context, folder_of):
    encoder = ChatEncoder.from_pretrained(str(folder_of(name)), thinking=True)
    episode, sampler = play(encoder, context)
    steps = episode.steps
    assert len(steps) >= 4
    seen = set()
    for sequence in training_sequences(episode, ContextPolicy.parse(context)):
        ids = sequence.prompt.ids
        for step in sorted(set(sequence.turn_ids) - {-1}):
            reply, places = steps[step].reply, [
                at for at, owner in enumerate(sequence.turn_ids) if owner == step
            ]  # fmt: skip
            begin, end = reply.forced
            sampled = reply.ids[:begin] + reply.ids[end:]
            assert tuple(ids[at] for at in places) == sampled
            assert reply.ids[begin:end] in ((), encoder.closing_ids)
            assert all(sequence.logprobs[at] == -1.0 for at in places)
            assert (ids[: places[0]]) in [read for read, _ in sampler.read]
            seen.add(step)
    assert seen == set(range(len(steps)))


@pytest.mark.parametrize("context", ["all", "all,reasoning=keep"])
def test_the_environment_is_given_what_is_said_after_thoughts(name, context, folder_of):
    encoder = ChatEncoder.from_pretrained(str(folder_of(name)), thinking=True)
    episode, sampler = play(encoder, context)
    said = [each.turn.reply for each in episode.turns]
    assert set(said) == {"<answer>Left</answer>", ""}
    cut = [each for each in episode.turns if any(each.reply.forced)]
    assert cut
    assert {each.reply.forced[0] for each in cut} == {BUDGET}
    assert {each.thoughts for each in episode.turns if each.reply.answer[1:]} != {""}
    last, _ = sampler.read[-1]
    shown = encoder.tokenizer.decode(last)
    earlier = shown.count("Hm")
    assert bool(earlier > 1) is ("keep" in context)
    opening = encoder.conversation.marks.opening
    assert shown.count(f"assistant\n{opening}") == (len(episode.turns) if "keep" in context else 1)


def test_thoughts_of_the_last_turn_are_in_the_request_for_a_summary(folder_of):
    encoder = ChatEncoder.from_pretrained(str(folder_of("qwen3_5")), thinking=True)
    for context, is_shown in (("summary:2", False), ("summary:2,reasoning=turn", True)):
        episode, sampler = play(encoder, context)
        assert any(isinstance(step, PlayedSummary) for step in episode.steps)
        asked = [encoder.tokenizer.decode(ids) for ids, _ in sampler.read]
        request = next(text for text in asked if "no longer be shown" in text)
        assert ("Hm" in request) is is_shown


def test_room_is_kept_for_thoughts(folder_of):
    encoder = ChatEncoder.from_pretrained(str(folder_of("qwen3_5")), thinking=True)
    whole, _ = play(encoder, "all,reasoning=keep")
    (sequence,) = training_sequences(whole, ContextPolicy.parse("all,reasoning=keep"))
    room = len(sequence.prompt.ids) - 1
    short, sampler = play(encoder, "all,reasoning=keep", max_length=room)
    assert short.truncated
    assert len(short.turns) < len(whole.turns)
    for ids, settings in sampler.read:
        if settings.stop_id is not None:
            assert len(ids) + BUDGET + len(encoder.closing_ids) + 20 <= room


@pytest.mark.parametrize("context", ["all", "all,reasoning=keep"])
def test_a_model_that_thinks_is_trained_and_benched_as_it_was_trained(
    name, context, folder_of, tmp_path
):
    out = tmp_path / "out"
    trainer = trained(
        str(folder_of(name)),
        out,
        max_thinking_tokens=BUDGET,
        context=context,
        environments=lake(max_turns=3),
    )
    logs = trainer.state.log_history
    assert max(line.get("policy/sampler_gap", 0) for line in logs) < 1e-5
    assert history(trainer, "rollout/failed") == [0]
    (thoughts,) = history(trainer, "rollout/thought_tokens")
    assert thoughts >= BUDGET
    assert 0 < history(trainer, "rollout/cut_thoughts")[0] <= 1
    trainer.save_model(str(out))
    card = json.loads((out / "training.json").read_text())
    assert card["max_thinking_tokens"] == BUDGET
    assert card["context"] == context
    game = benched(out, card)
    call = game.calls[0]
    assert call.reasoning_tokens >= BUDGET
    (asked,) = {game.memory["asked"]}
    opening = MARKS[name][0]
    kept = "keep" in context
    assert asked.count(f"assistant\n{opening}") == (2 if kept else 1)


def benched(out, card):
    """Two replies of the trained folder's agent, and what it read before the second."""
    import gymnasium as gym

    from vagen_benchmarks.agents.base import Game
    from vagen_benchmarks.agents.trained import Trained

    agent = Trained(str(out))
    env = gym.make(
        card["environments"][0]["id"], **agent.options_for(card["environments"][0]["id"])
    )
    env.reset(seed=0)
    core = env.unwrapped
    game = Game(core, "lake", "val", 0, 0, core.observed)
    for _ in range(2):
        game.now = core.observed
        reply = agent.reply(game)
        turn = env.step(reply.text)[4]["turn"]
        game.turns.append(turn)
        game.calls.append(reply.call)
    steps = agent._episode(game, ContextPolicy.parse(card["context"]), None).steps
    assert steps[0].reply.ids[: steps[0].reply.thoughts] == tuple(game.calls[0].hidden)
    second = game.calls[1]
    game.memory["asked"] = asked_of(agent, game, card, second)
    env.close()
    return game


def asked_of(agent, game, card, call):
    from vagen_adapters.ppo import token_sequences
    from vagen_adapters.ppo.thoughts import shown_thoughts

    context = ContextPolicy.parse(card["context"])
    steps = agent._episode(game, context, None).steps[:1]
    shown = agent._show(game, context, game.turns[1].observed, 1)
    thoughts = shown_thoughts(context, for_summary=False)
    prompt = token_sequences.lay_out(steps, (), shown, thoughts=thoughts).prompt
    assert isinstance(prompt, Prompt)
    assert len(prompt.ids) == call.prompt_tokens
    return agent._encoder.tokenizer.decode(prompt.ids)


def test_kept_thoughts_need_a_model_that_thinks(tmp_path):
    with pytest.raises(TrainingConfigError, match="reasoning= with max_thinking_tokens only"):
        config(tmp_path, context="all,reasoning=keep")
    with pytest.raises(TrainingConfigError, match="max_thinking_tokens=4092 is not valid"):
        config(tmp_path, max_thinking_tokens=4092)
