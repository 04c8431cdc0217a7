"""Play the same levels under two context policies and print the paired difference.

    python examples/compare_context.py openai:MODEL http://localhost:8000/v1

needs an OpenAI-compatible endpoint; `last:1` shows the model one earlier turn, `all` the whole
episode.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from vagen_benchmarks.cli import main

POLICIES = ("all", "last:1")


def compare(model: str, base_url: str, out: Path) -> None:
    """Play 32 of the hardest levels of Sokoban's ladder under each policy."""
    words = [
        "bench",
        "-e",
        "sokoban",
        "-o",
        "difficulty=5",
        "-n",
        "32",
        "-a",
        model,
        "--base-url",
        base_url,
    ]
    for policy in POLICIES:
        words += ["--context", policy]
    sys.argv = ["vagen", *words, "--out", str(out)]
    main()


if __name__ == "__main__":
    compare(sys.argv[1], sys.argv[2], Path(tempfile.mkdtemp()) / "run")
