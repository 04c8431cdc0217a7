"""`vagen prove` at its boundary: what a proof file or a folder can't be is one message, before minutes are spent."""

import json
import re
import shutil
import subprocess
import sys
import threading

import pytest

pytest.importorskip("typer")
pytest.importorskip("trl")
from typer.testing import CliRunner

from vagen_adapters.errors import TrainingConfigError
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.proofs import folder, proving, trainings
from vagen_benchmarks.proofs.proof import HERE, load_proof
from vagen_envs.errors import VagenError

TOP = 'env = "vagen/FrozenLake-v0"\nrecipes = ["vagen-base"]\nseeds = [0]\nreasoning_reward = false\n'
OPTIONS = '[options]\nprompt_pack = "terse"\nstrategy = "no_think"\nmax_turns = 2\n'
START = '[start]\nagent = "frozenlake"\nepisodes = 16\ncritic_episodes = 4\n'
SETTINGS = "[settings]\nmax_tokens = 16\nrollouts = 1\nepisodes_per_rollout = 4\nminibatches = 1\n"
EVALUATION = '[evaluation]\nsplit = "test"\nepisodes = 4\n'
GOOD = TOP + OPTIONS + START + SETTINGS + EVALUATION
RESULT = {"success": 0.5, "successes": 2, "episodes": 4, "format": 1.0, "solved": "1100"}
PLAY = {"sampled": RESULT, "greedy": RESULT}


def made(tmp_path, text, name="mine"):
    (tmp_path / f"{name}.toml").write_text(text)
    return load_proof(str(tmp_path / f"{name}.toml"))


def with_table(text):
    return f"{GOOD}{text}\n"


@pytest.fixture
def quick(monkeypatch):
    """Starts and trainings that take no time, and who asked for them."""
    asked = []

    def fill(out):
        out.mkdir(parents=True)
        for name in folder.WEIGHTS:
            (out / name).write_text("{}")

    def imitate_play(env_id, out, start, options, tell):
        asked.append("start")
        fill(out)

    def teach_told(env_id, imitated, out, start, options, tell):
        assert (imitated / "model.safetensors").is_file()
        asked.append("told")
        fill(out)

    def train(proof, name, seed, start, out):
        asked.append((name, seed) if start.name == "start" else (name, seed, start.name))
        return {
            "proof": proof.name,
            "env": proof.env,
            "recipe": name,
            "seed": seed,
            "seconds": 1.0,
            "curves": {},
            **PLAY,
        }

    monkeypatch.setattr(proving, "imitate_play", imitate_play)
    monkeypatch.setattr(proving, "teach_told", teach_told)
    monkeypatch.setattr(proving, "_train_and_measure", train)
    monkeypatch.setattr(proving, "_measure", lambda start, proof: PLAY)
    return asked


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('env = "', 'recipies = ["x"]\nenv = "', "it has no entry 'recipies'. Did you mean 'recipes'"),
        ('env = "vagen/FrozenLake-v0"\n', "", "it lacks 'env'"),
        ("FrozenLake-v0", "FrozenLak-v0", "unknown environment 'vagen/FrozenLak-v0'. Did you mean 'frozenlake'"),
        ('["vagen-base"]', '"vagen-base"', "recipes='vagen-base' is not valid: it must be a list"),
        ('["vagen-base"]', "[]", "recipes=[] is not valid"),
        ('["vagen-base"]', '["vagen-base", "vagen-base"]', "recipes names 'vagen-base' more than once"),
        ("[0]", "3", "seeds=3 is not valid: it must be a list"),
        ("[0]", "[]", "seeds=[] is not valid"),
        ("[0]", "[-1]", "seeds=[-1] is not valid"),
        ("[0]", "[0.5]", "seeds=[0.5] is not valid"),
        ("[0]", '["a"]', "seeds=['a'] is not valid"),
        ("[0]", "[0, 0]", "seeds names 0 more than once"),
        ("env", 'baseline = "nobody"\nenv', "baseline='nobody' is none of its recipes"),
        ("env", 'target = "0.8"\nenv', "target='0.8' is not valid"),
        ("= false", '= "yes"', "reasoning_reward='yes' is not valid: it must be true, false or a table"),
        ("[options]", '[options]\nsplit = "test"', "[options] split"),
        ("episodes = 16", "episodes = 0", "[start] episodes=0 is not valid: it must be an integer from 1"),
        ("episodes = 16", "episodes = -5", "[start] episodes=-5 is not valid"),
        ("episodes = 16", 'episodes = "many"', "[start] episodes='many' is not valid"),
        ("episodes = 16", "oracle_share = 7", "[start] oracle_share=7 is not valid: it must be a number from 0 to 1"),
        ("episodes = 16", "hidden = 16", "[start] hidden=16 is not valid: it must be an integer from 32"),
        ("episodes = 16", "episods = 16", "[start] has no entry 'episods'. Did you mean 'episodes'"),
        ("episodes = 16", "critic_convolutions = 2", "add critic_reads = true"),
        ("critic_episodes = 4", "critic_episodes = 1\ncritic_reads = true", "critic_episodes=1 is not valid"),
        ('agent = "frozenlake"', 'agent = "frozenlak"', "knows no 'frozenlak'. Did you mean 'frozenlake'"),
        ('split = "test"', 'split = "tst"', "[evaluation] split='tst' is not valid"),
        ('split = "test"\n', "", "[evaluation] lacks 'split'"),
        ("\nepisodes = 4", "\nepisodes = 0", "[evaluation] episodes=0 is not valid"),
        ("\nepisodes = 4", '\nepisodes = "4"', "[evaluation] episodes='4' is not valid"),
        ("\nepisodes = 4", "\nepisodes = 4\ngreedy = 1", "[evaluation] has no entry 'greedy'"),
    ],
)
def test_what_a_proof_can_not_say_is_refused_when_it_is_read(old, new, message, tmp_path):
    assert old in GOOD
    with pytest.raises(ProtocolError, match=re.escape(message)) as refused:
        made(tmp_path, GOOD.replace(old, new, 1))
    assert "mine.toml is not a proof" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[variants]\nv = "vagen-base"', "[variants.v] must be a table with a recipe"),
        ("[variants.v]\nsettings = {}", "[variants.v] lacks 'recipe'"),
        ('[variants.v]\nrecipe = "vagen-base"\nsetings = {}', "Did you mean 'settings'"),
        ('[variants."../../evil"]\nrecipe = "vagen-base"', "'../../evil' can't name files"),
        ('[variants.".hidden"]\nrecipe = "vagen-base"', "'.hidden' can't name files"),
        ('[variants."-rf"]\nrecipe = "vagen-base"', "'-rf' can't name files"),
    ],
)
def test_variants_have_a_recipe_and_a_name_that_files_may_have(table, message, tmp_path):
    with pytest.raises(ProtocolError, match=re.escape(message)):
        made(tmp_path, with_table(table))


@pytest.mark.parametrize("text", ["env = ", "", b'env = "\xff"', "[" * 5000])
def test_what_is_no_toml_is_one_message(text, tmp_path):
    (tmp_path / "bad.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ProtocolError, match=r"bad\.toml is not a proof"):
        load_proof(str(tmp_path / "bad.toml"))
    with pytest.raises(ProtocolError, match="there is no proof"):
        load_proof("long" * 200)


def test_a_borrowed_start_leaves_nothing_of_ones_own_aside(tmp_path):
    short = 'recipes = ["vagen-base"]\nseeds = [0]\nstart = "frozenlake"\n'
    with pytest.raises(ProtocolError, match=r"start = 'frozenlake' brings an env .* leave env out"):
        made(tmp_path, 'env = "vagen/Sokoban-v0"\n' + short)
    with pytest.raises(ProtocolError, match="leave options out"):
        made(tmp_path, short + '[options]\nstrategy = "free_think"\n')


def test_starts_in_a_circle_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, other in (("itself", "itself"), ("one", "other"), ("other", "one")):
        (tmp_path / f"{name}.toml").write_text(f'recipes = ["vagen-base"]\nseeds = [0]\nstart = "{other}.toml"\n')
    for name in ("itself", "one"):
        with pytest.raises(ProtocolError, match="leads back to itself") as refused:
            load_proof(f"{name}.toml")
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("vagen-base", "vagen-bass", "unknown recipe 'vagen-bass'. Did you mean 'vagen-base'"),
        ("rollouts = 1", "rollouts = 0", "rollouts=0 is not valid: it must be a whole number, at least 1"),
        ("rollouts = 1", 'rollouts = "1"', "[settings] rollouts='1': it must be a whole number"),
        ("rollouts = 1", "roll = 1", "[settings] roll: the trainer has no such setting. Did you mean 'rollouts'"),
        ("rollouts = 1", f"entropy_coef = 1\nlearning_rate = 1{'0' * 400}", "settings that can't be taken"),
        ("rollouts = 1", 'dual_clip = "a"', "[settings] dual_clip='a': it must be a number, or None"),
        ("rollouts = 1", 'critic_gate = "no"', "[settings] critic_gate='no': it must be true or false"),
        ("rollouts = 1", "seed = 5", "[settings] seed is made of seeds; leave it out"),
        ("rollouts = 1", "shared_backbone = true", "add critic_reads = true to [start]"),
        ("env", "target = 0.5\nenv", "add eval_rollouts to [settings]"),
        ("reasoning_reward = false\n", "", ""),
    ],
)
def test_what_no_training_could_take_is_refused(old, new, message, tmp_path):
    proof = made(tmp_path, GOOD.replace(old, new, 1))
    if not message:  # a recipe without the reward has nothing to leave out
        trainings.check_trainings(proof)
        return
    with pytest.raises(ProtocolError, match=re.escape(message)) as refused:
        trainings.check_trainings(proof)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[variants.v]\nrecipe = "nonesuch"', "variant v: unknown recipe 'nonesuch'. Known:"),
        ('[variants.v]\nrecipe = "vagen-base"\nsettings = { roll = 1 }', "[variants.v] settings roll:"),
        ('[variants.v]\nrecipe = "grpo-mask"\nsettings = { critic_told = true, group_size = 2 }', "grpo has no critic"),
    ],
)
def test_what_no_variant_could_take_is_refused(table, message, tmp_path):
    with pytest.raises(ProtocolError, match=re.escape(message)):
        trainings.check_trainings(made(tmp_path, with_table(table)))


@pytest.mark.parametrize("setting", ["critic_reads", "shared_backbone", "critic_heads_only"])
def test_a_setting_that_the_start_would_overrule_is_refused(setting, tmp_path):
    text = GOOD.replace(START, START + "critic_reads = true\n")
    trainings.check_trainings(made(tmp_path, text))
    with pytest.raises(ProtocolError, match=f"{setting}=False would be True, as .start. has critic_reads = true"):
        trainings.check_trainings(made(tmp_path, text.replace("[settings]", f"[settings]\n{setting} = false")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("max_turns", "max_turn"), "Did you mean 'max_turns'"),
        (TOP.replace("-base", "-full").replace("reasoning_reward = false", "") + OPTIONS, "reasoning_reward = false"),
        (GOOD.replace("reasoning_reward = false", "reasoning_reward = { gate = false }"), "none of its recipes has"),
    ],
)
def test_the_environment_is_made_once_before_anything_else(text, message, tmp_path, quick):
    with pytest.raises((VagenError, ProtocolError), match=message):
        proving.prove(made(tmp_path, text), tmp_path / "out", print)
    assert not quick
    assert not (tmp_path / "out").exists()


def test_an_empty_table_for_the_reward_changes_nothing_of_it(tmp_path):
    text = GOOD.replace("-base", "-full")
    proof = made(tmp_path, text.replace("reasoning_reward = false\n", "") + "[reasoning_reward]\n")
    assert trainings.reward_options(proof, trainings.recipe_of(proof, "vagen-full"))["judge"] == "rule"
    without = made(tmp_path, text)
    assert not trainings.reward_options(without, trainings.recipe_of(without, "vagen-full"))


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_the_proofs_of_this_package_can_be_trained(path):
    trainings.check_trainings(load_proof(path.stem))


def test_all_of_several_proofs_are_checked_before_the_first_begins(tmp_path, quick):
    out = tmp_path / "out"
    (out / "credit-sokoban").mkdir(parents=True)
    (out / "credit-sokoban" / "vagen-base-0.json").write_text("{")
    run = CliRunner().invoke(app, ["prove", "credit", "--out", str(out)])
    assert isinstance(run.exception, ProtocolError)
    assert not quick


def test_a_folder_remembers_its_proof(tmp_path, quick):
    out, proof = tmp_path / "out", made(tmp_path, GOOD)
    proving.prove(proof, out, print)
    before = (out / "vagen-base-0.json").read_bytes()
    for old, new, said in (
        ("FrozenLake", "Sokoban", "env: 'vagen/FrozenLake-v0' / 'vagen/Sokoban-v0'"),
        ("max_turns = 2", "max_turns = 5", "options.max_turns: 2 / 5"),
        ("episodes = 16", "episodes = 32", "start.episodes: 16 / 32"),
        ("rollouts = 1", "rollouts = 2", "settings.rollouts: 1 / 2"),
        ("\nepisodes = 4", "\nepisodes = 6", "evaluation.episodes: 4 / 6"),
        ("reasoning_reward = false", "", "reasoning_reward: False / True"),
        (
            SETTINGS,
            f"{SETTINGS}[variants.vagen-base]\nrecipe = 'evpo'\n",
            "recipes.vagen-base.recipe: 'vagen-base' / 'evpo'",
        ),
    ):
        assert old in GOOD
        with pytest.raises(ProtocolError, match=re.escape(said)) as refused:
            proving.prove(made(tmp_path, GOOD.replace(old, new, 1)), out, print)
        assert "\n" not in str(refused.value)
        assert ("may be copied" in str(refused.value)) == said.startswith(("settings", "reasoning", "recipes"))
        assert ("give the variant another name" in str(refused.value)) == said.startswith("recipes")
    assert quick == ["start", ("vagen-base", 0)]
    more = (
        GOOD.replace('["vagen-base"]', '["vagen-base", "v"]').replace("[0]", "[0, 1]")
        + "[variants.v]\nrecipe = 'evpo'\n"
    )
    more = 'about = "more"\nbaseline = "vagen-base"\n' + more
    proving.prove(made(tmp_path, more), out, print)
    assert quick[2:] == [("v", 0), ("vagen-base", 1), ("v", 1)]
    assert (out / "vagen-base-0.json").read_bytes() == before
    with pytest.raises(ProtocolError, match=r"recipes\.v\.recipe: 'evpo' / 'gspo'"):  # though `mine` was there since
        proving.prove(made(tmp_path, more.replace("evpo", "gspo")), out, print)


def test_a_folder_of_an_older_version_is_gone_on_with_if_its_start_and_results_fit(tmp_path, quick):
    out, proof = tmp_path / "out", made(tmp_path, GOOD)
    proving.prove(proof, out, print)
    (out / folder.MARK).unlink()
    known = json.loads((out / "start" / "result.json").read_text())
    del known["start"]["critic_convolutions"]  # a later version has more entries
    (out / "start" / "result.json").write_text(json.dumps(known))
    for old, new, said in (
        ("episodes = 16", "episodes = 32", "start.episodes: 16 / 32"),
        ("\nepisodes = 4", "\nepisodes = 6", "is of another training: levels 4, not 6"),
        ("FrozenLake", "Sokoban", "env 'vagen/FrozenLake-v0', not 'vagen/Sokoban-v0'"),
    ):
        with pytest.raises(ProtocolError, match=re.escape(said)):
            proving.prove(made(tmp_path, GOOD.replace(old, new, 1)), out, print)
    (out / "vagen-base-0.json").rename(tmp_path / "kept.json")
    with pytest.raises(ProtocolError, match="is of 4 levels, not 6; remove it, and the start plays anew"):
        proving.prove(made(tmp_path, GOOD.replace("\nepisodes = 4", "\nepisodes = 6")), out, print)
    (tmp_path / "kept.json").rename(out / "vagen-base-0.json")
    proving.prove(proof, out, print)
    assert json.loads((out / folder.MARK).read_text())["env"] == "vagen/FrozenLake-v0"
    assert len(quick) == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vagen-base-0.json", '{"recipe": "vag', r"vagen-base-0\.json can't be read .*remove it"),
        ("vagen-base-0.json", "[1]", r"vagen-base-0\.json can't be read .*remove it"),
        ("vagen-base-0.json", '{"recipe": "vagen-base"}', r"vagen-base-0\.json can't be read .*remove it"),
        ("proof.json", '{"env": ', r"proof\.json can't be read .*remove it"),
        ("proof.json", '{"env": "x"}', r"proof\.json doesn't say .*remove it"),
        ("start/result.json", '{"sampled": ', r"result\.json can't be read .*remove it"),
        (
            "start/result.json",
            '{"sampled": 3, "greedy": {}, "cpu_seconds": 1}',
            r"result\.json can't be read .*remove it",
        ),
    ],
)
def test_files_that_can_not_be_read_are_named(name, text, message, tmp_path, quick):
    out, proof = tmp_path / "out", made(tmp_path, GOOD)
    proving.prove(proof, out, print)
    quick.clear()
    (out / name).write_text(text)
    with pytest.raises(ProtocolError, match=message):
        proving.prove(proof, out, print)
    assert not quick
    (out / name).unlink()
    proving.prove(proof, out, print)
    assert quick == ([("vagen-base", 0)] if name.startswith("vagen") else [])


def test_files_of_others_in_the_folder_are_let_be(tmp_path, quick):
    pytest.importorskip("matplotlib")
    out, proof = tmp_path / "out", made(tmp_path, GOOD)
    out.mkdir()
    for name in ("my-notes.json", "a-list.json", "vagen-base-1.json", "other-0.json"):
        (out / name).write_text("[]" if name == "a-list.json" else '{"mine": ')
    (out / "start.part").mkdir()
    (out / "start.part" / "junk").touch()
    proving.prove(proof, out, print)
    assert [each["recipe"] for each in folder.read_results(proof, out)] == ["vagen-base"]
    assert "`vagen-base`" in proving.report(proof, out).read_text()
    assert (out / "my-notes.json").read_text() == '{"mine": '
    assert not (out / "start" / "junk").exists()


@pytest.mark.parametrize("missing", [*folder.WEIGHTS, "spent.json", "everything"])
def test_half_a_start_is_refused(missing, tmp_path, quick):
    out, proof = tmp_path / "out", made(tmp_path, GOOD)
    proving.prove(proof, out, print)
    (out / "start" / "result.json").unlink()
    for each in (out / "start").iterdir() if missing == "everything" else [out / "start" / missing]:
        each.unlink()
    with pytest.raises(ProtocolError, match=r"start is no whole start: it lacks .*remove it"):
        proving.prove(proof, out, print)


def with_told(tmp_path, reads="true"):
    text = GOOD.replace('["vagen-base"]', '["vagen-base", "told"]').replace("[0]", "[0, 1]")
    told = '[variants.told]\nrecipe = "turn-ppo-mask"\nsettings = { critic_told = true }\n'
    return made(tmp_path, text.replace(START, f"{START}critic_reads = {reads}\n") + told)


def test_a_critic_that_is_told_states_is_taught_once_for_the_first_training_that_begins_with_it(tmp_path, quick):
    out, proof = tmp_path / "out", with_told(tmp_path)
    proving.prove(proof, out, print, recipes=["vagen-base"])
    assert quick == ["start", ("vagen-base", 0), ("vagen-base", 1)]
    assert "told" not in folder.read_start(out)
    proving.prove(proof, out, print)
    assert quick[3:] == ["told", ("told", 0, "told"), ("told", 1, "told")]
    assert folder.read_start(out)["told"]["cpu_seconds"] >= 0
    assert sorted(each.name for each in (out / "start" / "told").iterdir()) == sorted([*folder.WEIGHTS, "spent.json"])


def test_where_no_critic_was_taught_by_reading_one_that_is_told_begins_untaught(tmp_path, quick):
    proving.prove(with_told(tmp_path, reads="false"), tmp_path / "out", print)
    assert "told" not in quick
    assert ("told", 0) in quick


@pytest.mark.parametrize("missing", ["critic.safetensors", "spent.json"])
def test_half_a_told_critic_is_refused(missing, tmp_path, quick):
    out, proof = tmp_path / "out", with_told(tmp_path)
    proving.prove(proof, out, print)
    (out / "start" / "told" / missing).unlink()
    with pytest.raises(ProtocolError, match=rf"start is no whole start: it lacks told/{missing}; remove"):
        proving.prove(proof, out, print)


def test_a_folder_that_is_a_file_is_refused(tmp_path, quick):
    (tmp_path / "out").touch()
    proof = made(tmp_path, GOOD)
    with pytest.raises(ProtocolError, match="out is a file; name a folder"):
        proving.prove(proof, tmp_path / "out", print)
    with pytest.raises(ProtocolError, match="can't be written"):
        proving.prove(proof, tmp_path / "out" / "below", print)
    assert not quick


def test_what_another_process_is_training_is_left_to_it(tmp_path, quick):
    """The other one is killed in the end, and with it goes its claim."""
    pytest.importorskip("matplotlib")
    out, proof, told = tmp_path / "out", made(tmp_path, GOOD.replace("[0]", "[0, 1]")), []
    code = (
        "import sys; from pathlib import Path; from vagen_benchmarks.proofs.folder import claimed\n"
        "with claimed(Path(sys.argv[1]), 'vagen-base-0', wait=False) as held:\n"
        "    print(held, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        proving.prove(proof, out, told.append)
        assert quick == ["start", ("vagen-base", 1)]
        assert "vagen-base, seed 0: another process is training it" in told
        assert [each["seed"] for each in json.loads(report_of(proof, out))["runs"]] == [1]
        other.kill()
    proving.prove(proof, out, told.append)
    assert quick == ["start", ("vagen-base", 1), ("vagen-base", 0)]


def report_of(proof, out):
    proving.report(proof, out)
    return (out / "results.json").read_text()


def test_a_report_of_no_training_yet_has_the_start(tmp_path, quick):
    out, proof = tmp_path / "out", made(tmp_path, 'baseline = "vagen-base"\n' + GOOD)
    with folder.claimed(out, "vagen-base-0"):
        proving.prove(proof, out, print)
    assert "*start*" in proving.report(proof, out).read_text()


def test_one_process_makes_the_start_and_the_others_wait(tmp_path, quick):
    out, proof, told = tmp_path / "out", made(tmp_path, GOOD), []
    waits = threading.Event()

    def tell(line):
        told.append(line)
        if "waiting" in line:
            waits.set()

    with folder.claimed(out, "start"):
        second = threading.Thread(target=proving.prove, args=(proof, out, tell))
        second.start()
        assert waits.wait(60)
        assert not quick
        proving.imitate_play(proof.env, out / "start", proof.start, {}, print)
        folder.write(out / "start" / "spent.json", {"cpu_seconds": 1.0})
    second.join(60)
    assert told[0] == "another process makes the start; waiting for it"
    assert quick == ["start", ("vagen-base", 0)]


def test_of_two_starts_the_first_is_kept(tmp_path, monkeypatch, quick):
    """The other was made by a process that knew of no claims."""
    out, proof, imitate = tmp_path / "out", made(tmp_path, GOOD), proving.imitate_play

    def overtaken(env_id, part, *how):
        imitate(env_id, part, *how)
        shutil.copytree(part, out / "start")
        (out / "start" / "theirs").touch()
        folder.write(out / "start" / "spent.json", {"cpu_seconds": 2.0})

    monkeypatch.setattr(proving, "imitate_play", overtaken)
    proving.prove(proof, out, print)
    assert json.loads((out / "start" / "result.json").read_text())["cpu_seconds"] == 2.0
    assert sorted(each.name for each in out.iterdir()) == [".claims", "proof.json", "start", "vagen-base-0.json"]


def test_a_start_that_fails_leaves_nothing(tmp_path, monkeypatch, quick):
    imitate = proving.imitate_play

    def broken(*words):
        imitate(*words)
        raise TrainingConfigError("no")

    monkeypatch.setattr(proving, "imitate_play", broken)
    with pytest.raises(TrainingConfigError):
        proving.prove(made(tmp_path, GOOD), tmp_path / "out", print)
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [".claims", "proof.json"]
