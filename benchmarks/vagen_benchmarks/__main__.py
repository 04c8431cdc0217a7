"""The command `vagen`, also as `python -m vagen_benchmarks`."""

from __future__ import annotations

import sys

from vagen_envs.extras import explained


def main() -> None:
    """Run the command, or say which extra it needs."""
    try:
        from vagen_benchmarks.cli import main as command
    except ModuleNotFoundError as error:
        said = explained("the command vagen", error, "bench")
        if said is None:
            raise
        sys.exit(f"vagen: {said}")
    command()


if __name__ == "__main__":
    main()
