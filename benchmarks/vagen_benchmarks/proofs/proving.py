"""`vagen prove`: train a tiny model by several recipes and seeds on one budget, and measure it on levels held out.

`proof` says what a proof file is, `trainings` what each recipe trains by, `imitating` makes the start, `folder` keeps
what was made. Every training writes one file of results when it ends, so that a proof that stopped goes on where it
was, and several processes may share the work: what another one is making isn't made twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vagen_benchmarks.meter import Meter
from vagen_benchmarks.proofs import drawing, folder, measuring, trainings
from vagen_benchmarks.proofs import report as proof_report
from vagen_benchmarks.proofs.folder import claimed, read_results, result_file, write
from vagen_benchmarks.proofs.imitating import Tell, imitate_play, teach_told
from vagen_benchmarks.proofs.proof import Proof

CURVES = (
    "rollout/success", "rollout/return", "rollout/format", "rollout/failed", "reward/grounding",
    "reward/world_modeling", "critic/explained_variance", "policy/entropy", "policy/kl_to_reference",
    "policy/clip_fraction", "advantage/std",
)  # fmt: skip
"""What of the trainer's log is kept."""


def check(proof: Proof, out: Path) -> None:
    """All that can be known wrong before anything is made.

    Raises:
        ProtocolError: the folder holds another proof or can't be read, or the proof can't be run.
        VagenError: its environment can't be made here, or refuses an option.
    """
    folder.check(proof, out)
    trainings.check(proof)


def prove(proof: Proof, out: Path, tell: Tell, *, recipes: Sequence[str] = (), seeds: Sequence[int] = ()) -> None:
    """Train and measure what isn't in `out` yet and isn't being trained by another process.

    Args:
        proof: what to do.
        out: the folder of the start and the results.
        tell: is told what is being done.
        recipes: only these of the proof's.
        seeds: only these.

    Raises:
        ProtocolError: as `check` does, before anything is made.
    """
    check(proof, out)
    folder.claim_for(proof, out)
    start = _start(proof, out, tell)
    tell(f"start: {folder.read_start(out)['sampled']['success']:.3f}")
    asked = [
        (recipe, seed) for seed in proof.seeds for recipe in proof.recipes
        if (not recipes or recipe in recipes) and (not seeds or seed in seeds)
    ]  # fmt: skip
    done = sum(result_file(out, *each).is_file() for each in asked)
    with Meter("trainings", len(asked), done=done) as meter:
        for recipe, seed in asked:
            result = result_file(out, recipe, seed)
            if result.is_file():
                continue
            with claimed(out, f"{recipe}-{seed}", wait=False) as mine:
                if not mine:
                    tell(f"{recipe}, seed {seed}: another process is training it")
                elif not result.is_file():  # it may have ended since
                    tell(f"{recipe}, seed {seed}")
                    begins = _told(proof, start, tell) if trainings.begins_told(proof, recipe) else start
                    write(result, _train_and_measure(proof, recipe, seed, begins, out))
                    meter.advance()


def _start(proof: Proof, out: Path, tell: Tell) -> Path:
    """The folder of the start, which is made and measured by one process."""
    start = out / "start"
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(claimed(out, "start", wait=False)):
            tell("another process makes the start; waiting for it")
            stack.enter_context(claimed(out, "start"))
        if not start.is_dir():
            tell("imitating noisy play")
            with _whole(start) as part:
                imitate_play(proof.env, part, proof.start, proof.options, tell)
        if not (start / "result.json").is_file():
            spent = json.loads((start / folder.SPENT).read_text(encoding="utf-8"))
            write(start / "result.json", {"start": dataclasses.asdict(proof.start), **spent, **_measure(start, proof)})
    return start


def _told(proof: Proof, start: Path, tell: Tell) -> Path:
    """The start with a critic that is told states. It is made for the first training that begins there."""
    told = start / folder.TOLD
    with claimed(start.parent, folder.TOLD):
        if not told.is_dir():
            tell("teaching a critic that is told states")
            with _whole(told) as part:
                teach_told(proof.env, start, part, proof.start, proof.options, tell)
    return told


@contextlib.contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A folder to fill, which has its name when all is in it, and what that took. Nothing is left of one that fails."""
    begun = time.process_time()
    part = out.with_name(f"{out.name}.{os.getpid()}.part")  # nobody else's, and nothing is left in it
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
        write(part / folder.SPENT, {"cpu_seconds": time.process_time() - begun})
        try:
            part.rename(out)
        except OSError:
            if not out.is_dir():  # else one that didn't know of claims was first
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def report(proof: Proof, out: Path) -> Path:
    """Write `results.json`, `table.md` and pictures of the results that are there, and give the table's path."""
    with claimed(out, "report"):  # whoever reports last has read everything
        results = read_results(proof, out)
        start = folder.read_start(out)
        summary = proof_report.summarise(start, results, proof.baseline)
        write(out / "results.json", {"proof": proof.name, **summary, "start": start, "runs": results})
        (out / "table.md").write_text(proof_report.table(summary) + "\n", encoding="utf-8")
        title = f"{proof.env}: {proof.name}"
        if results:
            drawing.draw(title, results, out / "curves.png")
        if any(each.get("on_the_way") for each in results):
            drawing.draw_on_the_way(title, results, out / "budgets.png")
        if any(each.get("critic") for each in results):
            drawing.draw_critic(title, results, out / "critic.png")
    return out / "table.md"


def _measure(folder: Path, proof: Proof, model: Any = None) -> dict[str, Any]:
    known = {name: proof.settings[name] for name in ("max_tokens", "num_envs", "env_threads") if name in proof.settings}
    return measuring.measure(folder, proof.env, proof.options, **proof.evaluation, **known, model=model)


def _train_and_measure(proof: Proof, name: str, seed: int, start: Path, out: Path) -> dict[str, Any]:
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
    from vagen_benchmarks.proofs.budgets import OnTheWay
    from vagen_benchmarks.proofs.rollout_meter import RolloutMeter

    config = trainings.training_config(proof, name, seed, out)
    score = trainings.reward_of(proof, trainings.recipe_of(proof, name), config)
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
