"""A rollout with its updates, as a proof has it, by this checkout and by an earlier one, alternately in one run.

    python -m vagen_benchmarks.perf.train_steps frozenlake --against 85eecb3
    python -m vagen_benchmarks.perf.train_steps frozenlake-words --against 85eecb3

Both train the same start by the settings of their own proof file of that name, each in a process of its own that waits
while the other one computes. Printed are CPU seconds of each rollout with all its updates, the medians, and by how much
this checkout is faster: for a rollout, and for a token of what was played, since other replies make other lengths.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.resources
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PARTS = ("", "adapters", "benchmarks")
"""The folders of a checkout that are imported from."""
LOGGED = (
    "tokens_per_second", "time/whole", "time/generation", "time/environment", "time/score", "time/update",
    "rollout/success", "generation/tokens_read", "generation/pictures_read", "score/pictures_read",
    "update/pictures_read",
)  # fmt: skip


def alternate(proof: str, recipe: str, start: Path, other: Path, settings: str, rollouts: int) -> Iterator[list[Any]]:
    """The figures of each rollout, of this checkout's and of the other's; the first one isn't among them."""
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(_child(checkout, [proof, recipe, str(start), str(rollouts + 1), changes]))
            for checkout, changes in ((ROOT, settings), (other, "{}"))
        ]
        for number in range(rollouts + 1):
            found = []
            for child in children:
                assert child.stdin is not None
                assert child.stdout is not None
                child.stdin.write("\n")
                child.stdin.flush()
                found.append(json.loads(child.stdout.readline() or sys.exit("a checkout's process failed")))
            if number:
                yield found


@contextlib.contextmanager
def _child(checkout: Path, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    paths = os.pathsep.join(str(checkout / part) for part in PARTS)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    # -P: the files beside this one aren't modules of the other checkout.
    with subprocess.Popen(  # noqa: S603 - this file, by this interpreter
        [sys.executable, "-P", __file__, "--child", *words], env=environment, cwd=checkout, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield process
        process.terminate()


def train(proof_name: str, recipe: str, start: str, rollouts: str, changes: str) -> None:
    """Train by a checkout's own code, a rollout for each line that comes in; the figures of each go out as a line."""
    from transformers import TrainerCallback

    from vagen_adapters.ppo.reasoning import make_reward, reasoning_score
    from vagen_adapters.ppo.recipes import TINY, load_recipe
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

    file = importlib.resources.files("vagen_benchmarks.proofs") / f"{proof_name}.toml"
    proof = tomllib.loads(file.read_text(encoding="utf-8"))
    out, sys.stdout = sys.stdout, io.StringIO()
    given: dict[str, Any] = {
        "report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, **proof["settings"],
        "rollouts": int(rollouts), **json.loads(changes),
    }  # fmt: skip
    for name in ("eval_rollouts", "eval_episodes"):  # how often is a matter of taste
        given.pop(name, None)
    named = load_recipe(TINY + recipe)

    class Turns(TrainerCallback):  # type: ignore[misc]
        spent = 0.0

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % args.steps_per_rollout == 0:
                sys.stdin.readline()
                self.spent = -time.process_time()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            if "tokens_per_second" in logs:
                figures = {name: logs[name] for name in LOGGED if name in logs}
                figures["tokens"] = figures["tokens_per_second"] * figures["time/whole"]
                out.write(json.dumps({"cpu": self.spent + time.process_time(), **figures}) + "\n")
                out.flush()

    with tempfile.TemporaryDirectory() as folder:
        config = named.config(proof["env"], folder, env_options=proof.get("options", {}), **given)
        config.logging_steps = config.steps_per_rollout
        score, asked = None, proof.get("reasoning_reward", True)
        options = named.reward_options(proof["env"]) if asked else {}
        if options:
            import gymnasium as gym

            with contextlib.closing(gym.make(proof["env"], **proof.get("options", {}))) as env:
                changed = {**options, **(asked if isinstance(asked, dict) else {})}
                score = reasoning_score(make_reward(changed, env))
        MultiTurnPPOTrainer(start, config, score=score, callbacks=[Turns()]).train()


def make_start(proof_name: str, folder: Path, episodes: int) -> None:
    """A start as the proof's, of fewer episodes, from what the agent tiny knows: it need speak, not play well."""
    from vagen_benchmarks.proofs.imitating import imitate_play
    from vagen_benchmarks.proofs.proof import load_proof

    proof = load_proof(proof_name)
    start = dataclasses.replace(
        proof.start, agent="frozenlake", episodes=episodes, critic_episodes=episodes // 2, tower_updates=0
    )
    imitate_play(proof.env, folder, start, proof.options, lambda _: None)


def main() -> None:
    """Measure what the command line asks for and print it."""
    from vagen_benchmarks.commands.options import parse_options

    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("proof", help="such as frozenlake or frozenlake-words")
    parser.add_argument("--against", required=True, help="a revision of this repository, or a folder with a checkout")
    parser.add_argument("--recipe", default="vagen-full")
    parser.add_argument("--start", type=Path, help="a folder to train; by default one is made in a minute")
    parser.add_argument("--rollouts", type=int, default=3, help="of each, after a first one that isn't counted")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of this checkout's")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other, start = Path(asked.against), asked.start
        if not other.is_dir():
            other = Path(folder) / "other"
            command = ["git", "archive", asked.against]
            whole = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S603
            with tarfile.open(fileobj=io.BytesIO(whole.stdout)) as files:
                files.extractall(other, filter="data")
        if start is None:
            start = Path(folder) / "start"
            make_start(asked.proof, start, 480)
        both, changes = [], json.dumps(parse_options(asked.set))
        for found in alternate(asked.proof, asked.recipe, start.absolute(), other.absolute(), changes, asked.rollouts):
            both.append(found)
            for name, each in zip(("this", asked.against), found, strict=True):
                sys.stdout.write(f"{name}: {json.dumps({key: round(entry, 3) for key, entry in each.items()})}\n")
            sys.stdout.flush()
    for name, of in (("a rollout", lambda each: each["cpu"]), ("a token", lambda each: each["cpu"] / each["tokens"])):
        this, that = (statistics.median(of(pair[side]) for pair in both) for side in (0, 1))
        ratio = statistics.median(of(pair[1]) / of(pair[0]) for pair in both)
        sys.stdout.write(f"CPU seconds of {name}: {this:.3g}, was {that:.3g}: {ratio:.2f} times as fast\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        train(*sys.argv[2:])
    else:
        main()
