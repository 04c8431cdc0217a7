"""Published data in the smallest form: three Sokoban boards, all in the test split."""

from __future__ import annotations

import gymnasium as gym

SOKOBAN = "vagen/Sokoban-v0"


def boards(folder):
    """Write the boards. Returns the options that play them; they differ in width, so their pictures tell them apart."""
    (folder / "test").mkdir()
    rows = [["#" * (6 + i), f"#@$.{' ' * (i + 1)}#", "#" * (6 + i)] for i in range(3)]
    (folder / "test" / "000.txt").write_text("\n\n".join("\n".join(board) for board in rows))
    return {"boards": str(folder / "test")}


def contents(options):
    """The content hashes of all levels, in order, as the environment in this process plays them."""
    env = gym.make(SOKOBAN, split="test", **options).unwrapped
    return [env.reset(options={"level": i})[1]["level"]["content"] for i in range(env.level_count)]
