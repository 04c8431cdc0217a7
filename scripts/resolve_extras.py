"""Which extras resolve on which Python, alone and together: prints a table, which
docs/quickstart.md sums up. Needs `uv` on the PATH.

    python scripts/resolve_extras.py

Only metadata of wheels is read; nothing is built or installed. The platform has glibc 2.31, which
vLLM's llguidance asks for. An extra that resolves may still lack wheels for a platform of yours.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TOGETHER = ("vllm,serve", "vllm,bench", "verl,bench", "inspect,bench", "verifiers,bench",
            "openenv,bench", "openenv,serve", "bench,inspect,openenv", "rllib,bench",
            "all,sb3,torchrl,inspect")  # fmt: skip


def main() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    print("| extra |", " | ".join(PYTHONS), "|")
    print("|---" * (1 + len(PYTHONS)) + "|")
    for extra in (*extras, *TOGETHER):
        print(
            f"| `{extra}` |",
            " | ".join(resolves(extra, python) for python in PYTHONS),
            "|",
            flush=True,
        )


def resolves(extra: str, python: str) -> str:
    """`yes`, or which package stands against it; uv's whole reason goes to standard error."""
    command = f"uv pip compile -q pyproject.toml --python-version {python}".split()
    command += [f"--extra={name}" for name in extra.split(",")]
    command += ["--only-binary", ":all:", "--python-platform", "x86_64-manylinux_2_31"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "yes"
    print(f"{extra}, {python}: {done.stderr}", file=sys.stderr)
    reason = " ".join(done.stderr.split())
    unbuilt = re.search(r"([\w-]+?)[<>=!\d.,]* ha(?:s|ve) no usable wheels", reason)
    if unbuilt:  # an sdist, which pip builds where it can
        return f"no wheel of {unbuilt[1]}"
    absent = re.search(r"there is no version of ([\w-]+)==(\S+?),? ", reason)
    return f"no {absent[1]} {absent[2]}" if absent else "no"


if __name__ == "__main__":
    main()
