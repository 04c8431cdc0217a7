"""Draw the references that come with the package: states of each default configuration.

    python scripts/draw_references.py            # those that are missing, and away with those of old configurations
    python scripts/draw_references.py --all      # all of them anew, as after a change of an environment's levels

PrimitiveSkill's four take about two minutes each on one core, Navigation two, all others half a minute.
"""

from __future__ import annotations

import json
import sys

import gymnasium as gym

import vagen_envs  # noqa: F401  # registers the environments
from vagen_rewards.worth.reference import SHIPPED, SHIPPED_IDS, SIZE, configuration_of, draw, name_of, write


def main(anew: bool) -> None:
    """Write them."""
    names = {}
    for env_id in SHIPPED_IDS:
        env = gym.make(env_id, observation="text", strategy="no_think")
        names[name_of(*configuration_of(env))] = configuration_of(env)
        env.close()
    for old in SHIPPED.glob("*.json.gz"):
        if old.name not in names:
            old.unlink()
    for name, (env_id, options) in names.items():
        path = SHIPPED / name
        if anew or not path.exists():
            write(draw(env_id, json.loads(options), SIZE), path, SIZE)
        print(f"{env_id}: {name}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main("--all" in sys.argv)
