"""A short look at an installed package, run from outside the repository: python smoke.py."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym

import vagen_adapters
import vagen_benchmarks
import vagen_envs
import vagen_rewards
from vagen_envs.conformance import check
from vagen_envs.errors import MissingExtraError


def main() -> None:
    for package in (vagen_envs, vagen_rewards, vagen_adapters, vagen_benchmarks):
        folder = Path(package.__file__).parent
        if "site-packages" not in folder.parts:
            raise SystemExit(
                f"{package.__name__} was imported from {folder}, not from the installed wheel"
            )
        if not (folder / "py.typed").is_file():
            raise SystemExit(f"{package.__name__} has no py.typed")
    for env_id in vagen_envs.ENV_IDS:
        try:
            gym.make(env_id).close()
        except MissingExtraError as error:
            print(f"{env_id}: {error}")
        else:
            check(env_id)
            print(f"{env_id}: conforms")


if __name__ == "__main__":
    main()
