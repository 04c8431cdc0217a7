"""The folder of a proof: which proof it belongs to, its results, and which process makes what.

proof.json        what everything in it is made by, written at the first use
start/            the imitated model; result.json in it what it plays like, spent.json what it took
start/told/       the same with a critic that is told states, where a training begins with one
NAME-SEED.json    the result of a training, written when it ends
models/           what was trained
.claims/          a file for each thing that is being made, locked by the process that makes it
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.proofs.proof import Proof, Start
from vagen_benchmarks.runs.protocol import differences

MARK, SPENT, TOLD = "proof.json", "spent.json", "told"
WEIGHTS = ("config.json", "model.safetensors", "critic.safetensors", "tokenizer.json")
"""What a start can't be without."""
OF_THE_START = ("env", "options", "start", "evaluation", "settings.max_tokens")
"""What it is made and measured by."""
OF_A_RESULT = {"recipe", "seed", "env", "seconds", "curves", "sampled", "greedy"}


def check(proof: Proof, out: Path) -> None:
    """Whether a folder, which need not exist, can be gone on with.

    Raises:
        ProtocolError: it is of another proof, or holds something under a name of this one's that can't be read.
    """
    if out.exists() and not out.is_dir():
        raise ProtocolError(f"--out {out} is a file; name a folder")
    differing = _differing(proof, out)
    if differing:
        mend = "name another --out"
        if all(each.startswith("recipes.") for each in differing):
            mend = "give the variant another name, or " + mend
        if (out / "start").is_dir() and not any(each.startswith(OF_THE_START) for each in differing):
            mend += f", into which {out / 'start'} may be copied: that is the same"
        raise ProtocolError(
            f"{out} holds what another proof has made (there / asked for): {'; '.join(differing[:8])}; {mend}"
        )
    read_results(proof, out)
    _check_start(proof, out / "start")


def claim_for(proof: Proof, out: Path) -> None:
    """Make the folder, if it isn't there, and note what proof it belongs to. Raises ProtocolError as `check` does."""
    with claimed(out, "proof"):
        check(proof, out)  # another process may have been quicker
        known = _read(out / MARK)["recipes"] if (out / MARK).is_file() else {}
        made_by = _made_by(proof)
        write(out / MARK, {**made_by, "recipes": {**known, **made_by["recipes"]}})


@contextlib.contextmanager
def claimed(out: Path, what: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold a claim that no other process has, and that ends with this one, however it ends.

    Gives whether it is held; without `wait`, False while another process holds it.
    """
    path = out / ".claims" / what
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("w")
    except OSError as error:
        raise ProtocolError(f"--out {out} can't be written ({error.strerror}); name another folder") from error
    with opened as file:
        held = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            held = False
        except OSError as error:
            raise ProtocolError(
                f"{path} can't be locked ({error.strerror}); name an --out on a disk of this machine"
            ) from error
        yield held


def result_file(out: Path, recipe: str, seed: int) -> Path:
    """Of a training."""
    return out / f"{recipe}-{seed}.json"


def read_results(proof: Proof, out: Path) -> list[dict[str, Any]]:
    """The results of a proof that are there, in the order of their names. Other files of the folder aren't read.

    Raises:
        ProtocolError: one can't be read, or is of another environment or of other levels.
    """
    files = {result_file(out, recipe, seed): (recipe, seed) for recipe in proof.recipes for seed in proof.seeds}
    return [_read_result(path, proof, *files[path]) for path in sorted(files) if path.is_file()]


def read_start(out: Path) -> dict[str, Any]:
    """What the start plays like, and what it and a critic that is told states took.

    Raises ProtocolError if there is none or it can't be read.
    """
    path = out / "start" / "result.json"
    data = _read(path)
    _require(path, data, ("sampled", "greedy", "cpu_seconds"))
    spent = out / "start" / TOLD / SPENT
    return {**data, "told": _read(spent)} if spent.is_file() else data


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON in one go, so that a reader never finds half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f"{path.name}.{os.getpid()}.part")
    half.write_text(json.dumps(data) + "\n", encoding="utf-8")
    half.replace(path)


def _made_by(proof: Proof) -> dict[str, Any]:
    """All that results depend on but for the seed, as JSON gives it back; `recipes` may be added to."""
    made_by = {
        "env": proof.env, "options": proof.options, "start": dataclasses.asdict(proof.start),
        "settings": proof.settings, "evaluation": proof.evaluation, "reasoning_reward": proof.reasoning_reward,
        "target": proof.target if math.isfinite(proof.target) else None,
        "recipes": {name: dataclasses.asdict(proof.trains(name)) for name in proof.recipes},
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(made_by, default=str))
    return plain


def _differing(proof: Proof, out: Path) -> list[str]:
    asked = _made_by(proof)
    if (out / MARK).is_file():
        there = _read(out / MARK)
        if not asked.keys() <= there.keys() or not all(isinstance(there[each], dict) for each in ("start", "recipes")):
            raise ProtocolError(
                f"{out / MARK} doesn't say what made the folder; remove it if you know that it was this proof"
            )
        known = there["recipes"]
        asked["recipes"] = {name: entry for name, entry in asked["recipes"].items() if name in known}
        there["recipes"] = {name: known[name] for name in asked["recipes"]}
    elif (out / "start" / "result.json").is_file():  # by a version that left no mark
        there = {**asked, "start": _read(out / "start" / "result.json").get("start", asked["start"])}
    else:
        return []
    if isinstance(there["start"], dict):
        there["start"] = {**dataclasses.asdict(Start()), **there["start"]}
    return differences(there, asked)


def _check_start(proof: Proof, start: Path) -> None:
    if not start.exists():
        return
    told = [f"{TOLD}/{name}" for name in (*WEIGHTS, SPENT) if (start / TOLD).is_dir()]
    lacking = [name for name in (*WEIGHTS, *told) if not (start / name).is_file()]
    if not (start / "result.json").is_file() and not (start / SPENT).is_file():
        lacking.append(SPENT)
    if lacking:
        raise ProtocolError(f"{start} is no whole start: it lacks {', '.join(lacking)}; remove it, and it is made anew")
    if (start / "result.json").is_file():
        levels, asked = read_start(start.parent)["sampled"].get("episodes"), proof.evaluation["episodes"]
        if levels != asked:
            raise ProtocolError(
                f"{start / 'result.json'} is of {levels} levels, not {asked}; remove it, and the start plays anew"
            )
    else:
        _require(start / SPENT, _read(start / SPENT), ("cpu_seconds",))


def _read_result(path: Path, proof: Proof, recipe: str, seed: int) -> dict[str, Any]:
    data = _read(path)
    _require(path, data, sorted(OF_A_RESULT))
    episodes = proof.evaluation["episodes"]
    for name, there, asked in (
        ("recipe", data["recipe"], recipe), ("seed", data["seed"], seed), ("env", data["env"], proof.env),
        ("levels", data["sampled"].get("episodes"), episodes),
    ):  # fmt: skip
        if there != asked:
            raise ProtocolError(
                f"{path} is of another training: {name} {there!r}, not {asked!r}; name another --out, or move it away"
            )
    return data


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ProtocolError(f"{path} can't be read ({error}); remove it, and it is made anew") from error
    if not isinstance(data, dict):
        raise ProtocolError(f"{path} can't be read (it is no JSON object); remove it, and it is made anew")
    return data


def _require(path: Path, data: Mapping[str, Any], parts: Sequence[str]) -> None:
    lacking = [name for name in parts if name not in data]
    lacking += [name for name in ("sampled", "greedy") if name in data and not isinstance(data[name], dict)]
    if lacking:
        raise ProtocolError(f"{path} can't be read (it has no {', '.join(lacking)}); remove it, and it is made anew")
