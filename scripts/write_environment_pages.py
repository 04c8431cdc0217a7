"""A page an environment for the documentation, from the code: run by mkdocs (see mkdocs.yml), not by hand.

Levels are played and drawn while the pages are built, so a page can't say what the code doesn't do.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from typing import Any

import griffe
import gymnasium as gym
import mkdocs_gen_files
from PIL import Image

import vagen_envs
from vagen_envs.config import EnvConfig
from vagen_envs.core import VagenEnv

PAGES = {
    "sokoban": ("vagen/Sokoban-v0", {}),
    "frozen_lake": ("vagen/FrozenLake-v0", {}),
    "navigation": ("vagen/Navigation-v0", {}),
    "primitive_skill": ("vagen/PrimitiveSkill-v0", {"task": "stack"}),
    "svg": ("vagen/SVGReconstruction-v0", {}),
    "sample": ("vagen/Sample-v0", {}),
}
SEEDS = range(3)


def main() -> None:
    package = griffe.load("vagen_envs", submodules=True)
    with mkdocs_gen_files.open("environments/options.md", "w") as page:
        page.write(
            "# Options of every environment\n\nKeywords of `gym.make`. Each environment adds its own and sets its own "
            "defaults; `preset=` names a set of them, and an option beside it wins.\n\n"
        )
        page.write(options_table(package, EnvConfig, [field.name for field in dataclasses.fields(EnvConfig)]))
    for name, (env_id, options) in PAGES.items():
        with mkdocs_gen_files.open(f"environments/{name}.md", "w") as page:
            page.write(environment_page(package, name, env_id, options))


def environment_page(package: Any, name: str, env_id: str, options: dict[str, Any]) -> str:
    env = typing.cast(VagenEnv, gym.make(env_id, disable_env_checker=True, split="test", **options).unwrapped)
    config_class = type(env.config)
    shared = {field.name: field.default for field in dataclasses.fields(EnvConfig)}
    own = [field.name for field in dataclasses.fields(config_class) if field.name not in shared]
    changed = [
        field.name for field in dataclasses.fields(config_class)
        if field.name in shared and field.default != shared[field.name]
    ]  # fmt: skip
    ids = [each for each in vagen_envs.ENV_IDS if each.startswith(env_id.rpartition("-v")[0])]
    parts = [
        f"# {env_id}\n",
        inspect.getdoc(type(env)) or "",
        f"\nIds: {', '.join(f'`{each}`' for each in ids)}.\n",
        first_pictures(env, name),
        "## An episode\n\nWhat an agent is told first, and what the oracle makes of the first test level.\n",
        '??? note "System prompt"\n' + indented(fenced(env.system_prompt)) + "\n",
        episode(env, name),
        "## Options\n\n" + options_table(package, config_class, own),
        "\nOther defaults than [those of every environment](options.md):\n\n" if changed else "",
        options_table(package, config_class, changed, defaults_only=True) if changed else "",
        presets(config_class),
        levels(config_class),
    ]
    env.close()
    return "\n".join(part for part in parts if part)


def first_pictures(env: VagenEnv, name: str) -> str:
    shown = [env.reset(seed=seed)[0]["image"] for seed in SEEDS]
    return side_by_side(shown, name, "First pictures of test levels 0, 1 and 2")


def side_by_side(pictures: list[Any], name: str, said: str) -> str:
    images = [Image.fromarray(each) for each in pictures]
    gap, height = 8, max(image.height for image in images)
    sheet = Image.new("RGB", (sum(image.width + gap for image in images) - gap, height), "white")
    left = 0
    for image in images:
        sheet.paste(image, (left, 0))
        left += image.width + gap
    with mkdocs_gen_files.open(f"environments/{name}.png", "wb") as file:
        sheet.save(file, "PNG")
    return f"![{said}]({name}.png)\n"


def episode(env: VagenEnv, name: str) -> str:
    observation, info = env.reset(seed=0)
    parts = [f"**First observation**\n\n{fenced(observation['text'])}", "**The truth**, in each representation\n"]
    parts.extend(
        f'=== "{representation}"\n' + indented(fenced(info["state"].describe(representation)))
        for representation in env.config.representations
    )
    shown, over = [observation["image"]], False
    while not over:
        observation, _, terminated, truncated, info = env.step(env.oracle_reply())
        over, turn = terminated or truncated, info["turn"]
        shown.append(observation["image"])
        rewards = ", ".join(f"`{term.name}` {term.value:+.4g}" for term in turn.rewards)
        end = "; the episode is over" if over else ""
        parts.append(f"**Turn {turn.index + 1}**\n\n{fenced(turn.reply)}\nIt earned {rewards}{end}.\n")
    parts.append(side_by_side(shown, f"{name}_episode", "What was seen in this episode"))
    parts.append(f"Metrics of a turn: {', '.join(f'`{each}`' for each in turn.metrics)}.\n")
    return "\n\n".join(parts)


def options_table(package: Any, config_class: type[EnvConfig], names: list[str], *, defaults_only: bool = False) -> str:
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    hints = typing.get_type_hints(config_class)
    lines = (
        ["| option | default |", "|---|---|"]
        if defaults_only
        else ["| option | values | default | |", "|---|---|---|---|"]
    )
    for name in names:
        default = code(repr(fields[name].default))
        if defaults_only:
            lines.append(f"| `{name}` | {default} |")
        else:
            lines.append(
                f"| `{name}` | {code(type_name(hints[name]))} | {default} | {said(package, config_class, name)} |"
            )
    return "\n".join(lines) + "\n"


def said(package: Any, config_class: type, name: str) -> str:
    """The docstring that follows a field."""
    for owner in config_class.__mro__:
        if name in vars(owner).get("__annotations__", {}):
            docstring = package[f"{owner.__module__}.{owner.__qualname__}".removeprefix("vagen_envs.")][name].docstring
            return " ".join(docstring.value.split()).replace("|", "\\|") if docstring else ""
    return ""


def presets(config_class: type[EnvConfig]) -> str:
    others = {name: options for name, options in config_class.presets.items() if options}
    if not others:
        return ""
    rows = [f"| `{name}` | {code(json.dumps(dict(options)))} |" for name, options in others.items()]
    return "\n## Presets\n\n`paper` is the default.\n\n| preset | sets |\n|---|---|\n" + "\n".join(rows) + "\n"


def levels(config_class: type[EnvConfig]) -> str:
    fields = ", ".join(f"`{name}`" for name in config_class.level_fields)
    return (
        "\n## Levels and splits\n\nA level is a pure function of the id, the split, the seed and these options: "
        f"{fields or 'none'}. `train`, `val` and `test` hold 80, 10 and 10 % of the contents; no content is in two.\n"
    )


def type_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(map(repr, typing.get_args(kind)))
    return getattr(kind, "__name__", None) if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def fenced(text: str) -> str:
    return f"````text\n{text}\n````\n"


def indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines()) + "\n"


main()
