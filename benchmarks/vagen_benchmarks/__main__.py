"""The command `vagen`, also as `python -m vagen_benchmarks`."""

from __future__ import annotations

import sys

from vagen_benchmarks.extras import explained


def main() -> None:
    """Run the command, or name the extra that it needs."""
    try:
        from vagen_benchmarks.cli import main as command
    except ModuleNotFoundError as error:
        message = explained("the command vagen", error, "bench")
        if message is None:
            raise
        sys.exit(f"vagen: {message}")
    command()


if __name__ == "__main__":
    main()
