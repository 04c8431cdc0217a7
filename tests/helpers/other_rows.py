"""Rows whose prompt is of FrozenLake, and whose environment is another one."""

from vagen_adapters.prompt_check import prompt_hash

CHANGES = (
    {"env_id": "vagen/Sokoban-v0", "options": {}},
    {"options": {"strategy": "grounding"}},
)
"""What is changed of a row of FrozenLake with its default options."""


def says_both(text, row, change):
    """Whether an error names what the row's prompt is of, and the environment, with both hashes."""
    from vagen_adapters.rows import make_from_row

    asked = {**row, **change}
    here = make_from_row(asked["env_id"], asked["options"]).unwrapped.system_prompt
    wanted = (
        f"prompt is of {asked['env_id']}",
        f"but the environment is {asked['env_id']}",
        f"(prompt {row['prompt_hash'][:8]})",
        f"(prompt {prompt_hash(here)[:8]})",
    )
    return all(part in text for part in wanted)
