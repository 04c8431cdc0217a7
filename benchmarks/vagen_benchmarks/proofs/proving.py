"""`vagen prove`: train a tiny model by several recipes and seeds on one budget, and measure it on levels held out.

A proof file (TOML; those of this package are in `proofs/`):

    about, env                  what it is, and the environment
    recipes, seeds              each recipe or variant is trained with each seed, from one start
    target                      success on the validation split at which a training ends; by default none does
    baseline                    the recipe that the others are compared with, level by level; none by default
    [variants.NAME]             `recipe` and `settings` over it, under a name of its own
    reasoning_reward            false leaves out the reward for reasoning that a recipe has; a table changes its options
    [options]                   of the environment
    [start]                     of the imitation: see `Start`; or `start = "NAME"`: options and start of another
    [settings]                  of the trainer, over those of every tiny recipe; with `eval_rollouts` success on the
                                validation split is measured on the way, by episodes and by CPU seconds
    [evaluation]                split, episodes: the levels held out; other_pictures: whether they are played once more
                                with the pictures of other levels, to see what sight is worth

Every training writes one file of results when it ends, so that a proof that stopped goes on where it was, and
several processes may share the work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from vagen_benchmarks.agents import tiny as tiny_agent
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.proofs import drawing, measuring
from vagen_benchmarks.proofs import report as proof_report
from vagen_envs.errors import did_you_mean

HERE = Path(__file__).parent
FIRST_DEMONSTRATION = 1_000_000
"""The first seed of demonstrations, so that training levels are new to the model."""
FIRST_RETURN = 2_000_000
"""The first seed of the play that the critic learns from."""
FIRST_BRIEF = 3_000_000
"""The first seed of the play without words, where there was some with words before."""
CURVES = (
    "rollout/success", "rollout/return", "rollout/format", "rollout/failed", "reward/grounding",
    "reward/world_modeling", "critic/explained_variance", "policy/entropy", "policy/kl_to_reference",
    "policy/clip_fraction", "advantage/std",
)  # fmt: skip
"""What of the trainer's log is kept."""

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Start:
    """The imitation that every training begins from.

    Attributes:
        agent: what the agent tiny knows of an environment, by its folder's name, to go on from; else a new model is
            made, and learns to see, which takes most of the time.
        sight_episodes: of play that says what it sees and foresees (strategy `grounding_world_modeling`), before: to
            see is learned from words many times as fast as from actions. 0 where `options` asks for those words anyway.
        sight_oracle_share: as `oracle_share`, of that play.
        tower_updates: by which the vision tower learns, before anything else, to tell the relations of the things in
            the pictures of `episodes` (`teach_sight`).
        episodes: of noisy play.
        passes: how often each of `episodes` is seen; once where play is quick to make.
        oracle_share: share of turns that the oracle plays; the others are random.
        aim_noise: how far each number of the oracle's actions is off at most, in all this play.
        learning_rate: of the policy, at its highest.
        word_noise: chance of each sentence of all this play that it tells of another level.
        critic_episodes: of further noisy play, whose returns the critic learns.
        critic_oracle_share: as `oracle_share`, of that play; such that it succeeds about as often as the policy.
        critic_forks: how often each of their states is played on from for what it is worth; 0 learns what came of it.
        critic_reads: whether the critic is heads on the policy's backbone, which read pictures and are all that values
            teach, here and in the trainings: `shared_backbone`, `critic_reads` and `critic_heads_only` of
            `MultiTurnPPOConfig`. Its updates are then 512 states each, drawn from all episodes.
        critic_convolutions: of what it reads, here and in the trainings.
        critic_updates: of it, where it reads.
        critic_learning_rate: at its highest.
        reward_scale: of those returns; that of the tiny recipes.
        vocabulary: most tokens.
        layers, hidden: size of the text model.
        processes: that play while the model imitates, where play costs more than learning; they change no result.
        seed: of the weights.
    """

    agent: str = ""
    sight_episodes: int = 0
    sight_oracle_share: float = 0.7
    tower_updates: int = 0
    episodes: int = 14_000
    passes: int = 1
    oracle_share: float = 0.7
    aim_noise: int = 0
    learning_rate: float = 2e-3
    word_noise: float = 0.0
    critic_episodes: int = 3200
    critic_oracle_share: float = 0.7
    critic_forks: int = 0
    critic_reads: bool = False
    critic_convolutions: int = 0
    critic_updates: int = 1500
    critic_learning_rate: float = 3e-4
    reward_scale: float = 0.1
    vocabulary: int = 1024
    layers: int = 3
    hidden: int = 128
    processes: int = 0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A recipe with other settings."""

    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A proof file."""

    name: str
    env: str
    recipes: Sequence[str]
    seeds: Sequence[int]
    about: str = ""
    target: float = math.inf
    baseline: str = ""
    variants: Mapping[str, Variant] = field(default_factory=dict)
    reasoning_reward: bool | Mapping[str, Any] = True
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Start = field(default_factory=Start)
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=lambda: {"split": "test", "episodes": 256})


def load_proofs(name_or_path: str) -> list[Proof]:
    """The proof of that name or file, or those whose names begin with it: `credit` for all of `credit-…`."""
    if (HERE / f"{name_or_path}.toml").is_file() or Path(name_or_path).is_file():
        return [load_proof(name_or_path)]
    several = sorted(path.stem for path in HERE.glob("*.toml") if path.stem.startswith(f"{name_or_path}-"))
    return [load_proof(name) for name in several or [name_or_path]]


def load_proof(name_or_path: str) -> Proof:
    """A proof of this package by name, or a file. Raises ProtocolError if there is none or it isn't one."""
    path = HERE / f"{name_or_path}.toml"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        known = sorted(each.stem for each in HERE.glob("*.toml"))
        raise ProtocolError(f"there is no proof {name_or_path!r}.{did_you_mean(name_or_path, known)}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if isinstance(data.get("start"), str):
            other = load_proof(data["start"])
            data |= {"env": other.env, "options": other.options, "start": dataclasses.asdict(other.start)}
        variants = {name: Variant(**each) for name, each in data.get("variants", {}).items()}
        return Proof(name=path.stem, **{**data, "start": Start(**data.get("start", {})), "variants": variants})
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(f"{path} is not a proof: {error}") from error


def check_asked(proofs: Sequence[Proof], recipes: Sequence[str], seeds: Sequence[int]) -> None:
    """Raises ProtocolError if one of the recipes or seeds is of none of the proofs."""
    for name, asked, known in (
        ("recipe", recipes, {each for proof in proofs for each in proof.recipes}),
        ("seed", seeds, {each for proof in proofs for each in proof.seeds}),
    ):
        for each in asked:
            if each not in known:
                raise ProtocolError(
                    f"{', '.join(proof.name for proof in proofs)}: no {name} {each!r} to train; there are "
                    f"{', '.join(map(str, sorted(known)))}"
                )


def prove(proof: Proof, out: Path, tell: Tell, *, recipes: Sequence[str] = (), seeds: Sequence[int] = ()) -> None:
    """Train and measure what isn't in `out` yet.

    Args:
        proof: what to do.
        out: the folder of the start and the results.
        tell: is told what is being done.
        recipes: only these of the proof's.
        seeds: only these.
    """
    start = out / "start"
    if not start.is_dir():
        tell("imitating noisy play")
        begun = time.process_time()
        imitate_play(proof.env, out / "start.part", proof.start, proof.options, tell)
        write(out / "start.part" / "spent.json", {"cpu_seconds": time.process_time() - begun})
        (out / "start.part").rename(start)
    if not (start / "result.json").is_file():
        spent = json.loads((start / "spent.json").read_text(encoding="utf-8"))
        write(start / "result.json", {"start": dataclasses.asdict(proof.start), **spent, **_measure(start, proof)})
    tell(f"start: {json.loads((start / 'result.json').read_text(encoding='utf-8'))['sampled']['success']:.3f}")
    asked = [
        (recipe, seed) for seed in proof.seeds for recipe in proof.recipes
        if (not recipes or recipe in recipes) and (not seeds or seed in seeds)
    ]  # fmt: skip
    with Meter(
        "trainings", len(asked), done=sum((out / f"{name}-{seed}.json").is_file() for name, seed in asked)
    ) as meter:
        for recipe, seed in asked:
            if (out / f"{recipe}-{seed}.json").is_file():
                continue
            tell(f"{recipe}, seed {seed}")
            write(out / f"{recipe}-{seed}.json", _train_and_measure(proof, recipe, seed, start, out))
            meter.advance()


def read_results(out: Path) -> list[dict[str, Any]]:
    """The results in a folder, in the order of their names."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("*-*.json"))]


def report(proof: Proof, out: Path) -> Path:
    """Write `results.json`, `table.md` and pictures beside the results, and give the table's path."""
    results = read_results(out)
    start = json.loads((out / "start" / "result.json").read_text(encoding="utf-8"))
    summary = proof_report.summarise(start, results, proof.baseline)
    write(out / "results.json", {"proof": proof.name, **summary, "start": start, "runs": results})
    (out / "table.md").write_text(proof_report.table(summary) + "\n", encoding="utf-8")
    title = f"{proof.env}: {proof.name}"
    drawing.draw(title, results, out / "curves.png")
    if any(each.get("on_the_way") for each in results):
        drawing.draw_on_the_way(title, results, out / "budgets.png")
    if any(each.get("critic") for each in results):
        drawing.draw_critic(title, results, out / "critic.png")
    return out / "table.md"


def imitate_play(env_id: str, out: Path, start: Start, options: Mapping[str, Any], tell: Tell) -> None:
    """Make a tiny model and teach it the format and some skill, by imitation."""
    from vagen_adapters.ppo import imitation, sight

    with_words = {**options, "strategy": "grounding_world_modeling"} if start.sight_episodes else options
    model, codec = _untaught(env_id, out, start, with_words)
    tell(f"{sum(each.numel() for each in model.parameters()):,} parameters")

    def progress(meter: Meter) -> Callable[[int, float], None]:
        def told(update: int, loss: float) -> None:
            if update % 50 == 0:
                tell(f"update {update}: loss {loss:.3f}")
            meter.advance(note=f"loss {loss:.3f}")

        return told

    first, size, rate = FIRST_DEMONSTRATION, 16, start.learning_rate
    if start.sight_episodes:
        played = _played(env_id, out, start, with_words, first, start.sight_episodes, start.sight_oracle_share)
        updates = start.sight_episodes // size
        with Meter("updates of imitation with words", updates) as meter:
            imitation.imitate(
                model, codec, played, updates, batch_size=size, learning_rate=rate, report=progress(meter)
            )
        first, size, rate = FIRST_BRIEF, 32, rate / 2
    played = _played(
        env_id, out, start, options, first, start.episodes, start.oracle_share, word_noise=start.word_noise
    )
    if start.tower_updates or start.passes > 1:
        with Meter("episodes played", start.episodes) as meter:
            kept = list(meter.over(played))
        played = itertools.chain.from_iterable(itertools.repeat(kept, start.passes))
        if start.tower_updates:
            tell(f"the vision tower learns from {sum(len(each.turns) for each in kept)} pictures")
            seen = [(turn.shown, turn.turn.before.things()) for each in kept for turn in each.turns]
            taught, held_out = seen[: -max(1, len(seen) // 10)], seen[-max(1, len(seen) // 10) :]
            with Meter("updates of the vision tower", start.tower_updates) as meter:
                reader = sight.teach_sight(model, taught, start.tower_updates, report=progress(meter))
            for line in measuring.sight_lines(reader.measure(model, held_out)):
                tell(line)
    updates = max(1, start.episodes * start.passes // size)
    with Meter("updates of imitation", updates) as meter:
        imitation.imitate(model, codec, played, updates, batch_size=size, learning_rate=rate, report=progress(meter))
    model.save_pretrained(out)
    _teach_critic(env_id, out, codec, start, options, tell)


def _played(
    env_id: str, out: Path, start: Start, options: Mapping[str, Any], first: int, count: int, oracle_share: float,
    **how: Any,
) -> Iterator[Any]:  # fmt: skip
    """Noisy play of the levels from `first` on, for the model in `out`."""
    from vagen_adapters.ppo.episodes import Level
    from vagen_adapters.ppo.imitation import demonstrations

    levels = [Level(first + number) for number in range(count)]
    how |= {"oracle_share": oracle_share, "aim_noise": start.aim_noise, "processes": start.processes}
    return demonstrations(env_id, options, out, levels, **how)


def _untaught(env_id: str, out: Path, start: Start, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model that imitation begins with, and its codec, both in the folder `out` too."""
    from vagen_adapters.ppo import tiny

    if not start.agent:
        size = {"vocabulary": start.vocabulary, "layers": start.layers, "hidden": start.hidden}
        tiny.save_tiny(out, tiny.texts_of([env_id], levels=200, **options), seed=start.seed, **size)
        return tiny.load(out)
    known = sorted(path.parent.name for path in tiny_agent.FOLDER.glob("*/player.json"))
    if start.agent not in known:
        raise ProtocolError(f"the agent tiny knows no {start.agent!r}.{did_you_mean(start.agent, known)}")
    model, codec = tiny.load(tiny_agent.FOLDER / start.agent)
    model.float().save_pretrained(out)  # it is kept in half precision
    codec.save_pretrained(out)
    return model, codec


def _teach_critic(env_id: str, out: Path, codec: Any, start: Start, options: Mapping[str, Any], tell: Tell) -> None:
    """Teach the critic what play comes to that succeeds about as often as the imitated policy."""
    from vagen_adapters.ppo.actor_critic import ActorCritic
    from vagen_adapters.ppo.critic_teaching import teach_critic

    def progress(update: int, explained: float) -> None:
        meter.advance()
        explains.append(explained)
        if len(explains) == 50:
            tell(f"critic, update {update}: explains {sum(explains) / len(explains):.2f} of play it has not seen")
            explains.clear()

    explains: list[float] = []
    kind: Any = "shared" if start.critic_reads else "own"
    both = ActorCritic.from_pretrained(
        str(out), critic=kind, reads=start.critic_reads, convolutions=start.critic_convolutions
    )
    episodes = _played(
        env_id, out, start, options, FIRST_RETURN, start.critic_episodes, start.critic_oracle_share,
        forks=start.critic_forks, word_noise=start.word_noise,
    )  # fmt: skip
    updates = start.critic_updates if start.critic_reads else start.critic_episodes // 16
    if start.critic_reads:
        episodes = _metered(episodes, "episodes read for the critic", start.critic_episodes)
    with Meter("updates of the critic", updates) as meter:
        teach_critic(
            both, codec, episodes, updates, reward_scale=start.reward_scale,
            learning_rate=start.critic_learning_rate, report=progress,
        )  # fmt: skip
    both.save_pretrained(out)


def _metered(episodes: Iterator[Any], what: str, count: int) -> Iterator[Any]:
    with Meter(what, count) as meter:
        yield from meter.over(episodes)


def _measure(folder: Path, proof: Proof, model: Any = None) -> dict[str, Any]:
    known = {name: proof.settings[name] for name in ("max_tokens", "num_envs", "env_threads") if name in proof.settings}
    return measuring.measure(folder, proof.env, proof.options, **proof.evaluation, **known, model=model)


def _train_and_measure(proof: Proof, name: str, seed: int, start: Path, out: Path) -> dict[str, Any]:
    from vagen_adapters.ppo.reasoning import make_reward, reasoning_score
    from vagen_adapters.ppo.recipes import TINY, load_recipe
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
    from vagen_benchmarks.proofs.budgets import OnTheWay
    from vagen_benchmarks.proofs.rollout_meter import RolloutMeter

    variant = proof.variants.get(name, Variant(recipe=name))
    recipe = load_recipe(TINY + variant.recipe)
    config = recipe.config(
        proof.env, str(out / "models" / f"{name}-{seed}"), env_options=dict(proof.options), seed=seed,
        **{"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, **proof.settings,
           **variant.settings},
    )  # fmt: skip
    config.logging_steps = config.steps_per_rollout
    if proof.start.critic_reads and config.critic_kind != "none":
        config.shared_backbone = config.critic_heads_only = True
        config.critic_reads = not config.critic_told
        config.critic_convolutions = proof.start.critic_convolutions if config.critic_reads else 0
    score, asked = None, proof.reasoning_reward
    options = recipe.reward_options(proof.env) if asked else {}
    if options:
        with contextlib.closing(gym.make(proof.env, **proof.options)) as env:
            changed = {**options, **(asked if isinstance(asked, Mapping) else {})}
            score = reasoning_score(make_reward(changed, env), config.reasoning_credit)
    begun, way = time.perf_counter(), OnTheWay(config, proof.target)
    meter = RolloutMeter(config, f"rollouts of {name}, seed {seed}")
    trainer = MultiTurnPPOTrainer(str(start), config, score=score, callbacks=[way, meter])
    with meter:
        trainer.train()
    seconds = time.perf_counter() - begun
    trainer.save_model(config.output_dir)
    for env in trainer.player.rollout.envs:  # rooms and cameras of a simulator go only when they are told to
        env.close()
    logs = [entry for entry in trainer.state.log_history if "rollout/return" in entry]
    return {
        "proof": proof.name, "env": proof.env, "recipe": name, "seed": seed, "seconds": seconds,
        "cpu_seconds": way.cpu_seconds, "on_the_way": way.found, "solved": way.solved,
        **({"critic": way.critic} if way.critic else {}),
        "rollouts": config.rollouts, "episodes_per_rollout": config.episodes_per_rollout,
        **_measure(start, proof, trainer.model.policy),
        "curves": {key: [round(entry[key], 4) for entry in logs if key in entry] for key in CURVES
                   if any(key in entry for entry in logs)},
    }  # fmt: skip


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON in one go, so that a reader never finds half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    half.write_text(json.dumps(data) + "\n", encoding="utf-8")
    half.replace(path)
