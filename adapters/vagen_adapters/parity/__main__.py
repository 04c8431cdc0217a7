"""The command: `python -m vagen_adapters.parity module:adapter`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from vagen_adapters.parity.kit import run
from vagen_adapters.parity.reference_model import ReferenceModel


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a trainer's adapter; 1 if anything fails."""
    parser = argparse.ArgumentParser(
        prog="python -m vagen_adapters.parity", description=main.__doc__
    )
    parser.add_argument("adapter", help="module:attribute, such as your_package.parity:adapter")
    parser.add_argument(
        "--folder", type=Path, help="folder of the tiny model; it is reused if it exists"
    )
    args = parser.parse_args(arguments)
    module, _, name = args.adapter.partition(":")
    trainer = getattr(importlib.import_module(module), name, None) if name else None
    if trainer is None:
        raise SystemExit(
            f"{args.adapter!r} isn't an adapter; give module:attribute of an object with "
            "play(playback)"
        )
    report = run(trainer, ReferenceModel(args.folder) if args.folder else None)
    sys.stdout.write(f"{report.text()}\n")
    return int(bool(report.failed))


if __name__ == "__main__":
    sys.exit(main())
