"""`vagen prove`: the figures it makes of results, and a whole proof of two recipes in small."""

import json
import math
import re

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

import vagen_envs  # noqa: F401
from vagen_adapters.ppo.recipes import load_recipe
from vagen_benchmarks.agents import tiny as tiny_agent
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.proofs import drawing
from vagen_benchmarks.proofs import report as proof_report
from vagen_benchmarks.proofs.imitating import imitate_play, teach_told
from vagen_benchmarks.proofs.measuring import OTHER_LEVEL, OtherPictures
from vagen_benchmarks.proofs.proof import Start, load_proof, load_proofs
from vagen_benchmarks.proofs.proving import prove, report
from vagen_envs import RewardTerm

SMALL = """
env = "vagen/FrozenLake-v0"
recipes = ["vagen-full", "small-grpo"]
baseline = "vagen-full"
seeds = [0]
[options]
prompt_pack = "terse"
max_turns = 1
[start]
episodes = 32
critic_episodes = 32
critic_forks = 2
critic_reads = true
critic_updates = 3
[settings]
rollouts = 2
episodes_per_rollout = 8
num_envs = 8
minibatches = 1
max_tokens = 16
critic_warmup_rollouts = 1
eval_rollouts = 1
eval_episodes = 4
eval_forks = 2
gradient_checkpointing = false
sequences_per_forward = 8
[variants.small-grpo]
recipe = "grpo-mask"
settings = { group_size = 4, critic_warmup_rollouts = 0, eval_forks = 0 } # it has no critic
[evaluation]
split = "test"
episodes = 4
other_pictures = true
"""


@pytest.mark.parametrize("reads", [True, False])
def test_a_start_made_again_is_the_same_to_the_bit(tmp_path, reads):
    start = Start(episodes=16, critic_episodes=16, critic_forks=2 * reads, critic_reads=reads, critic_updates=2)
    for name in ("one", "again"):
        options = {"prompt_pack": "terse", "max_turns": 1}
        imitate_play("vagen/FrozenLake-v0", tmp_path / name, start, options, lambda line: None)
    made = sorted(each.name for each in (tmp_path / "one").iterdir())
    assert any("critic" in name for name in made)
    for name in made:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_a_critic_that_is_told_states_begins_beside_the_same_policy(tmp_path):
    import safetensors.torch

    options = {"prompt_pack": "terse", "max_turns": 1}
    start = Start(
        episodes=16, critic_episodes=16, critic_forks=2, critic_reads=True, critic_convolutions=1, critic_updates=2
    )
    imitate_play("vagen/FrozenLake-v0", tmp_path / "start", start, options, lambda line: None)
    teach_told("vagen/FrozenLake-v0", tmp_path / "start", tmp_path / "told", start, options, lambda line: None)
    policy, critic = (
        [safetensors.torch.load_file(tmp_path / where / f"{name}.safetensors") for where in ("start", "told")]
        for name in ("model", "critic")
    )
    assert all((policy[0][name] == policy[1][name]).all() for name in policy[0].keys() | policy[1].keys())
    heads = [{name.partition(".")[0] for name in each} for each in critic]
    assert heads == [{"value_head", "reading_head"}, {"value_head", "told_head"}]
    assert critic[1]["value_head.weight"].any()


def test_the_interval_over_seeds_is_students():
    low, high = proof_report.interval([0.5, 0.6, 0.7])
    assert math.isclose(low, 0.6 - 4.303 * 0.1 / math.sqrt(3), abs_tol=1e-4)
    assert math.isclose(high, 0.6 + 4.303 * 0.1 / math.sqrt(3), abs_tol=1e-4)
    assert proof_report.interval([0.5]) is None
    assert proof_report.interval([0.0, 1.0]) == (0.0, 1.0)


def test_a_smoothed_curve_is_the_mean_of_what_was_seen_and_passes_over_gaps():
    assert drawing.smooth([1.0, 3.0, math.nan, 5.0]) == [1.0, 2.0, 2.0, 4.0]


def result(recipe, seed, solved, spent):
    success = solved.count("1") / len(solved)
    play = {
        "success": success,
        "successes": solved.count("1"),
        "episodes": len(solved),
        "format": 1.0,
        "solved": solved,
    }
    way = [(100 * (i + 1), each, success * (i + 1) / len(spent)) for i, each in enumerate(spent)]
    return {"recipe": recipe, "seed": seed, "sampled": play, "greedy": play, "seconds": 1.0,
            "cpu_seconds": spent[-1], "on_the_way": way}  # fmt: skip


def test_recipes_are_compared_level_by_level_and_within_what_all_have_spent():
    """Six levels that only the second solves, of eight, with one seed: McNemar's exact test says 2 / 2^6."""
    runs = [result("base", 0, "11000000", [10.0, 20.0]), result("other", 0, "11111111", [15.0, 30.0])]
    start = {how: {**runs[0][how]} for how in ("sampled", "greedy")}
    found = proof_report.summarise(start, runs, "base")
    base, other = sorted(found["rows"], key=lambda row: row["recipe"])
    assert "gain" not in base
    assert other["gain"]["value"] == pytest.approx(0.75)
    assert other["gain"]["low"] > 0
    assert other["gain"]["p"] == pytest.approx(2 / 2**6)
    assert other["gain"]["p_over_seeds"] is None  # one training says nothing of others
    assert found["cpu_budget"] == 20.0
    assert (base["within_budget"], other["within_budget"]) == (0.25, 0.5)  # the other's first evaluation, after 15 s
    assert "+0.750 (+0." in proof_report.table(found)
    late = proof_report.summarise(start, [*runs, result("late", 0, "11110000", [40.0])], "base")
    assert "nan" not in proof_report.table(late)  # nothing of it was measured within 20 s
    json.dumps(late, allow_nan=False)


def test_recipes_are_compared_training_by_training_too():
    """Trainings of one recipe differ: on eight levels the other is better, but by its second seed alone."""
    runs = [result("base", 0, 8 * "10", [10.0]), result("base", 1, 8 * "10", [10.0])]
    runs += [result("other", 0, 8 * "10", [10.0]), result("other", 1, 16 * "1", [10.0])]
    found = proof_report.summarise({how: runs[0][how] for how in ("sampled", "greedy")}, runs, "base")
    (gain,) = [row["gain"] for row in found["rows"] if row["recipe"] == "other"]
    assert gain["p"] == pytest.approx(2 / 2**8)
    assert gain["p_over_seeds"] == 1.0
    assert "p = 0.0078 | 1 |" in proof_report.table(found)


def test_trainings_that_solve_the_same_levels_say_of_levels_what_one_says():
    start = {how: result("base", 0, "0000", [10.0])[how] for how in ("sampled", "greedy")}
    one, *five = [
        result(name, seed, "10010111" * 4, [10.0]) for name, seed in [("one", 0), *(("five", i) for i in range(5))]
    ]
    rows = {row["recipe"]: row["sampled"] for row in proof_report.summarise(start, [one, *five])["rows"]}
    assert rows["five"]["over_levels"] == pytest.approx(rows["one"]["over_levels"])
    low, high = rows["one"]["over_levels"]
    assert high - low > 0.3  # 32 levels


def test_words_are_compared_level_by_level_and_training_by_training_too():
    runs = [result("base", 0, "1100", [10.0]), result("other", 0, "1100", [10.0])]
    for run, scores in zip(runs, ([0.5, 0.5, 0.5, 0.5], [0.5, 0.7, 0.8, 0.6]), strict=True):
        run["sampled"] |= {"grounding_exact": sum(scores) / 4, "grounding_exact_by_level": scores}
    found = proof_report.summarise({how: runs[0][how] for how in ("sampled", "greedy")}, runs, "base")
    (gain,) = [row["gains_of_words"]["grounding_exact"] for row in found["rows"] if row["recipe"] == "other"]
    assert gain["value"] == pytest.approx(0.15)
    half = 3.182 * np.std([0.0, 0.2, 0.3, 0.1], ddof=1) / 2  # Student's 97.5 % point of three degrees of freedom
    assert (gain["low"], gain["high"]) == pytest.approx((0.15 - half, 0.15 + half), abs=5e-3)
    assert gain["p_over_seeds"] is None
    assert "+0.150" in proof_report.table(found)
    again = [{**run, "seed": seed} for run in runs for seed in range(4)]
    found = proof_report.summarise({how: runs[0][how] for how in ("sampled", "greedy")}, again, "base")
    (gain,) = [row["gains_of_words"]["grounding_exact"] for row in found["rows"] if row["recipe"] == "other"]
    assert gain["p_over_seeds"] == pytest.approx(2 / math.comb(8, 4))


def test_what_critics_knew_at_each_evaluation_is_a_mean_over_seeds_with_its_least_and_the_ceiling():
    runs = [result("reads", seed, "1100", [10.0, 20.0]) for seed in (0, 1)] + [result("none", 0, "1100", [10.0, 20.0])]
    for run, known in zip(runs, ([0.8, 0.6], [0.7, 0.8]), strict=False):
        run["critic"] = [{"of_worth": each, "ceiling": 0.25 * (i + 1)} for i, each in enumerate(known)]
    written = proof_report.table(proof_report.summarise({how: runs[0][how] for how in ("sampled", "greedy")}, runs))
    (reads,) = [line for line in written.splitlines() if line.startswith("| `reads`")]
    assert reads.endswith("| 0.75, 0.70 | 0.70 | 0.25 to 0.50 |")
    (none,) = [line for line in written.splitlines() if line.startswith("| `none`")]
    assert none.endswith("| – | – | – |")


def test_the_proofs_of_credit_go_together():
    pytest.importorskip("trl")
    names = ["credit-frozenlake", "credit-frozenlake-words", "credit-sokoban", "credit-sokoban-words"]
    proofs = load_proofs("credit")
    assert [proof.name for proof in proofs] == names
    assert [proof.name for proof in load_proofs("frozenlake")] == ["frozenlake"]  # not its words
    for proof in proofs:
        assert proof.baseline in proof.recipes
        assert len(proof.seeds) >= 5
        for name in proof.recipes:
            recipe = proof.variants[name].recipe if name in proof.variants else name
            settings = {**proof.settings, **(proof.variants[name].settings if name in proof.variants else {})}
            load_recipe("tiny-" + recipe).config(proof.env, "somewhere", use_cpu=True, report_to="none", **settings)


def test_a_recipe_or_seed_that_no_proof_has_is_refused_before_anything_is_made(tmp_path):
    for option, message in (
        (("--recipe", "vagen-bas"), "no recipe 'vagen-bas' to train.*vagen-base"),
        (("--seed", "9"), "no seed 9 to train.*0, 1, 2"),
    ):
        run = CliRunner().invoke(app, ["prove", "credit", "--out", str(tmp_path / "out"), *option])
        assert isinstance(run.exception, ProtocolError)
        assert re.search(message, str(run.exception))
    assert not (tmp_path / "out").exists()


def test_a_proof_of_ones_own_is_named_by_its_file_wherever_it_is(tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    file.write_text('start = "speedrun-sokoban"\nrecipes = ["vagen-base"]\nseeds = [0]\n')
    assert [proof.name for proof in load_proofs(str(file))] == ["mine"]
    monkeypatch.chdir(tmp_path)
    assert [proof.name for proof in load_proofs("mine.toml")] == ["mine"]
    with pytest.raises(ProtocolError, match="there is no proof"):
        load_proofs(str(tmp_path / "no[such"))


def test_a_proof_may_begin_where_another_does():
    sprint, proof = load_proof("speedrun-sokoban"), load_proof("solve-sokoban")
    assert (proof.env, proof.options, proof.start) == (sprint.env, sprint.options, sprint.start)
    assert proof.target > 1 > sprint.target  # all else is its own


@pytest.mark.parametrize(
    ("text", "message"),
    [("env = 1 2", "not a proof"), ("recipe = []", "not a proof"), ("start = 'speedrun-sokobam'", "Did you mean")],
)
def test_what_is_no_proof_is_refused(text, message, tmp_path):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ProtocolError, match=message):
        load_proof(str(tmp_path / "bad.toml"))
    with pytest.raises(ProtocolError, match="frozenlake"):
        load_proof("frozenlak")


def test_other_pictures_are_those_of_another_level_and_all_else_is_the_levels_own():
    env = gym.make("vagen/FrozenLake-v0", strategy="no_think")
    level = {"seed": 3, "options": {"split": "test"}}
    told = env.reset(**level)[0]
    moved = env.step("<answer>right</answer>")
    elsewhere = env.reset(seed=3 + OTHER_LEVEL, options={"split": "test"})[0]["image"]
    assert not np.array_equal(told["image"], elsewhere)
    other = OtherPictures(env)
    first = other.reset(**level)[0]
    after = other.step("<answer>right</answer>")
    assert (first["text"], after[0]["text"], after[1:4]) == (told["text"], moved[0]["text"], moved[1:4])
    assert np.array_equal(first["image"], elsewhere)
    assert np.array_equal(after[0]["image"], elsewhere)


def test_a_proof_is_run_resumed_and_reported(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    pytest.importorskip("matplotlib")
    safetensors = pytest.importorskip("safetensors")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # the model has learned nothing, so that a real judge would find no words to score
    paid = RewardTerm("grounding", 0.25)
    monkeypatch.setattr("vagen_adapters.ppo.reasoning.reasoning_score", lambda reward, credit: lambda turn: [paid])
    (tmp_path / "small.toml").write_text(SMALL)
    proof, out, told = load_proof(str(tmp_path / "small.toml")), tmp_path / "out", []
    prove(proof, out, told.append, recipes=["vagen-full"])
    full = (out / "vagen-full-0.json").read_bytes()
    prove(proof, out, told.append)
    assert (out / "vagen-full-0.json").read_bytes() == full
    assert sum("vagen-full" in line for line in told) == 1
    written = report(proof, out).read_text()
    assert "`vagen-full`" in written
    assert "`small-grpo`" in written
    assert "gain on `vagen-full`" in written
    assert "on val within" in written
    assert "other pictures" in written
    found = json.loads((out / "results.json").read_text())
    assert [len(each["curves"]["rollout/success"]) for each in found["runs"]] == [2, 2]
    assert found["runs"][1]["curves"]["reward/grounding"] == [0.25, 0.25]
    assert "reward/grounding" not in found["runs"][0]["curves"]
    for picture in ("curves.png", "budgets.png", "critic.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    for run in found["runs"]:
        (first, second) = run["on_the_way"]
        assert (first[0], second[0]) == (8, 16)
        assert 0 < first[1] < second[1] <= run["cpu_seconds"]
    # GRPO has no critic; the other's is heads on the policy's backbone, and was held to forks at each evaluation.
    assert "critic" not in found["runs"][0]
    assert [each.keys() for each in found["runs"][1]["critic"]] == 2 * [{"ceiling", "explained", "of_worth"}]
    kept = safetensors.safe_open(str(out / "models" / "vagen-full-0" / "critic.safetensors"), "pt").keys()
    assert {name.split(".")[0] for name in kept} == {"value_head", "reading_head"}


def test_a_start_goes_on_from_what_the_agent_tiny_knows(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    import torch

    from vagen_adapters.ppo import tiny
    from vagen_adapters.ppo.actor_critic import ActorCritic

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    options = {"prompt_pack": "terse", "max_turns": 2, "max_actions_per_turn": 1}
    start = Start(agent="frozenlake", episodes=16, learning_rate=1e-9, critic_episodes=32)
    imitate_play("vagen/FrozenLake-v0", tmp_path / "start", start, options, lambda line: None)
    begun = ActorCritic.from_pretrained(str(tmp_path / "start"))
    for name, tensor in tiny.load(tiny_agent.FOLDER / "frozenlake")[0].state_dict().items():
        torch.testing.assert_close(begun.policy.state_dict()[name], tensor.float(), atol=1e-6, rtol=0)
    assert begun.value_head.weight.any()  # the critic has been taught


def test_a_start_may_learn_to_see_first_and_see_play_more_than_once(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    from vagen_adapters.ppo import imitation

    learned = []

    def imitate(model, codec, episodes, updates, **options):
        played = list(episodes)
        learned.append((updates, [episode.level.seed for episode in played]))

    monkeypatch.setattr(imitation, "imitate", imitate)
    options = {"prompt_pack": "terse", "preset": "released", "strategy": "no_think", "max_turns": 2}
    start, told = Start(tower_updates=51, episodes=16, passes=3, critic_episodes=16), []
    imitate_play("vagen/Sokoban-v0", tmp_path / "start", start, options, told.append)
    ((updates, seeds),) = learned
    assert updates == 3
    assert seeds == 3 * list(range(1_000_000, 1_000_016))
    losses = [float(line.rpartition(" ")[2]) for line in told if line.startswith("update")]
    assert len(losses) == 2
    assert losses[1] < losses[0]  # what is beside the player, the box and the target
    assert sum(line.startswith("sight: player: wall") for line in told) == 4


def test_a_start_from_an_agent_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ProtocolError, match=r"knows no 'frozenlak'.*frozenlake"):
        imitate_play("vagen/FrozenLake-v0", tmp_path, Start(agent="frozenlak"), {}, lambda line: None)


def test_a_reward_for_reasoning_needs_words_or_is_left_out(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = SMALL.replace("max_turns = 1", 'max_turns = 1\nstrategy = "no_think"').replace('"small-grpo"', "")
    (tmp_path / "brief.toml").write_text(text)
    told = []
    with pytest.raises(ProtocolError, match=r"no <observation> to reward.*reasoning_reward = false"):
        prove(load_proof(str(tmp_path / "brief.toml")), tmp_path / "out", told.append)
    assert not told
    (tmp_path / "without.toml").write_text("reasoning_reward = false" + text)
    prove(load_proof(str(tmp_path / "without.toml")), tmp_path / "out", told.append)
    assert "reward/grounding" not in json.loads((tmp_path / "out" / "vagen-full-0.json").read_text())["curves"]
