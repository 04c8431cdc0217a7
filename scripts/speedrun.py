"""Time to solve: train tiny models until they solve 0.8 of the validation levels, and write what that took.

    python scripts/speedrun.py [FOLDER [PROOF]]

Each proof `speedrun-…` becomes a row of docs/proof/leaderboard.md: CPU seconds of play and updates, of one core,
with the commit and the processor. What a start took, imitation and all, stands in a column of its own. FOLDER keeps
the models, and goes on where it was.
"""

from __future__ import annotations

import datetime
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from vagen_benchmarks.proofs.folder import read_results, read_start
from vagen_benchmarks.proofs.proof import load_proofs
from vagen_benchmarks.proofs.proving import prove

ROOT = Path(__file__).resolve().parent.parent
BOARD = ROOT / "docs" / "proof" / "leaderboard.md"
HEAD = """# Time to solve

CPU seconds of one core until replies sampled by a tiny model solve 0.8 of 256 levels of the split `val`, which it is
not trained on. `make speedrun` adds a row for each proof `speedrun-…` of `benchmarks/vagen_benchmarks/proofs/`. Play
and updates count; the start (eyes and imitation) and evaluations don't, and the start has a column of its own. One seed
a row: a sprint, not a result. Seconds of other processors are other seconds.

| date | proof | CPU s | episodes | val | start, CPU s | start solves | commit | processor |
|---|---|---|---|---|---|---|---|---|
"""


def main(folder: Path, name: str = "speedrun") -> None:
    for proof in load_proofs(name):
        out = folder / proof.name
        known = read_results(proof, out)  # their rows were written when they were made
        prove(proof, out, lambda line: print(line, flush=True))
        start = read_start(out)
        for result in (each for each in read_results(proof, out) if each not in known):
            last = result["solved"] or result["on_the_way"][-1]
            spent = f"{last[1]:.0f}" if result["solved"] else f"not within {last[1]:.0f}"
            day = datetime.datetime.now(datetime.UTC).date().isoformat()
            row = [
                day, proof.name, spent, str(last[0]), f"{last[2]:.2f}", f"{start['cpu_seconds']:.0f}",
                f"{start['sampled']['success']:.2f}", commit(), processor(),
            ]  # fmt: skip
            before = BOARD.read_text(encoding="utf-8") if BOARD.is_file() else HEAD
            BOARD.write_text(f"{before}| {' | '.join(row)} |\n", encoding="utf-8")
            print(f"{BOARD.relative_to(ROOT)}: {' | '.join(row)}")


def commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


def processor() -> str:
    """The model's name, as Linux tells it; elsewhere what Python knows."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), *sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
