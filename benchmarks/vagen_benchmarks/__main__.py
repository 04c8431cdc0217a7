"""The command `vagen`, also as `python -m vagen_benchmarks`."""

from __future__ import annotations

import sys

from vagen_benchmarks.extras import explained


def main() -> None:
    """Run the command, or name the extra that it needs."""
    try:
        from vagen_benchmarks.cli import main as command
    except ModuleNotFoundError as error:
        sys.exit(f"vagen: {explained('the command vagen', error, 'bench')}")
    command()


if __name__ == "__main__":
    main()
