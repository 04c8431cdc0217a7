"""Generate docs/environments/: one page per environment, from the code and from played levels.

`--check` writes nothing and fails if a page is out of date; `make docs` uses it. Pictures aren't
compared, because they differ slightly between drivers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import sys
import typing
from pathlib import Path
from typing import Any

import griffe
import gymnasium as gym
from PIL import Image

import vagen_envs
from vagen_envs.config import EnvConfig
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError
from vagen_envs.frozen_lake.levels import SHARES as LAKES
from vagen_envs.seeding import SHARES
from vagen_envs.sokoban.splits import SHARES as BOARDS

PAGES = {
    "sokoban": ("vagen/Sokoban-v0", {}),
    "frozen_lake": ("vagen/FrozenLake-v0", {}),
    "navigation": ("vagen/Navigation-v0", {}),
    "primitive_skill": ("vagen/PrimitiveSkill-v0", {"task": "stack"}),
    "svg": ("vagen/SVGReconstruction-v0", {}),
    "sample": ("vagen/Sample-v0", {}),
}
SEEDS = range(3)
SHOWN_TURNS = 2
FOLDER = Path(__file__).parent.parent / "docs" / "environments"
HEIGHT, WIDEST, SECONDS, LAST = 256, 512, 0.8, 1.6
"""Size of an animation in pixels, and the duration of a frame and of an episode's last frame in
seconds.
"""


def main() -> None:
    check = sys.argv[1:] == ["--check"]
    package = griffe.load("vagen_envs", submodules=True)
    pages = {"options": all_options(package)}
    for name, (env_id, options) in PAGES.items():
        env = typing.cast(
            VagenEnv, gym.make(env_id, disable_env_checker=True, split="test", **options).unwrapped
        )
        pages[name] = environment_page(package, name, env_id, env)
        if not check:
            FOLDER.mkdir(exist_ok=True)
            write_moving_picture(env, FOLDER / f"{name}.webp")
        env.close()
    stale = [name for name, text in pages.items() if text != read(FOLDER / f"{name}.md")]
    if check and stale:
        sys.exit(
            f"{', '.join(stale)} in {FOLDER} are out of date; run "
            "scripts/write_environment_pages.py"
        )
    for name in stale:
        (FOLDER / f"{name}.md").write_text(pages[name], encoding="utf-8")
        print(f"wrote docs/environments/{name}.md")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8") if page.exists() else ""


def all_options(package: Any) -> str:
    return (
        "# Common options\n\nKeywords of `gym.make` that all environments accept. Environments "
        "add options and may change these defaults. `preset=` selects a named set of options; "
        "options given beside it override it.\n\n"
        + options_table(package, EnvConfig, [field.name for field in dataclasses.fields(EnvConfig)])
    )


def environment_page(package: Any, name: str, env_id: str, env: VagenEnv) -> str:
    config_class = type(env.config)
    shared = {field.name: field.default for field in dataclasses.fields(EnvConfig)}
    own = [field.name for field in dataclasses.fields(config_class) if field.name not in shared]
    changed = [
        field.name
        for field in dataclasses.fields(config_class)
        if field.name in shared and field.default != shared[field.name]
    ]
    ids = [each for each in vagen_envs.ENV_IDS if each.startswith(env_id.rpartition("-v")[0])]
    parts = [
        f"# {env_id}\n",
        f"![Three test levels, played by the oracle]({name}.webp)\n",
        inspect.getdoc(type(env)) or "",
        f"\nIds: {', '.join(f'`{each}`' for each in ids)}.\n",
        "## Example\n\nThe prompt, and the oracle's first turns on the first test level.\n",
        '<details markdown="1"><summary>System '
        f"prompt</summary>\n\n{fenced(env.system_prompt)}\n</details>\n",
        episode(env),
        "## Options\n\n" + options_table(package, config_class, own),
        "\nDefaults that differ from the [common options](options.md):\n\n" if changed else "",
        options_table(package, config_class, changed, defaults_only=True) if changed else "",
        presets(config_class),
        levels(config_class),
    ]
    return "\n".join(part for part in parts if part)


def write_moving_picture(env: VagenEnv, path: Path) -> None:
    """Write the oracle's episodes as an animation with one frame per turn."""
    frames, durations = [], []
    for seed in SEEDS:
        seen = oracle_episode(env, seed)
        frames += [shown(each) for each in seen]
        durations += [int(1000 * SECONDS)] * (len(seen) - 1) + [int(1000 * LAST)]
    save_moving(frames, durations, path)


def oracle_episode(env: VagenEnv, seed: int) -> list[Any]:
    """Return the pictures of one episode of the oracle."""
    seen, over = [env.reset(seed=seed)[0]["image"]], False
    while not over:
        observation, _, terminated, truncated, _ = env.step(env.oracle_reply())
        over = terminated or truncated
        seen.append(observation["image"])
    return seen


def save_moving(frames: list[Image.Image], durations: list[int], path: Path) -> None:
    """Write a looping WebP; durations are in milliseconds."""
    first, *rest = frames
    first.save(
        path, save_all=True, append_images=rest, duration=durations, loop=0, quality=80, method=6
    )
    print(f"wrote {path.name}, {len(frames)} frames, {path.stat().st_size // 1000} kB")


def shown(pixels: Any) -> Image.Image:
    image = Image.fromarray(pixels)
    width = min(WIDEST, round(image.width * HEIGHT / image.height))
    kind = Image.Resampling.NEAREST if image.height <= HEIGHT / 2 else Image.Resampling.LANCZOS
    return image.resize((width, round(image.height * width / image.width)), kind)


def episode(env: VagenEnv) -> str:
    observation, info = env.reset(seed=0)
    parts = [f"**First observation**\n\n{fenced(observation['text'])}"]
    parts.extend(
        f"**True state**, `{representation}`\n\n" + fenced(info["state"].describe(representation))
        for representation in env.config.representations
    )
    terms: dict[str, None] = {}
    done = False
    while not done:
        _, _, terminated, truncated, info = env.step(env.oracle_reply())
        done, turn = terminated or truncated, info["turn"]
        terms.update(dict.fromkeys(term.name for term in turn.rewards))
        if turn.index < SHOWN_TURNS:
            rewards = ", ".join(f"`{term.name}` {term.value:+.4g}" for term in turn.rewards)
            parts.append(
                f"**Turn {turn.index + 1}**\n\n{fenced(turn.reply)}\nRewards: {rewards}.\n"
            )
    metrics = ", ".join(f"`{name}`" for name in turn.metrics)
    parts.append(
        f"Reward terms of this episode: {', '.join(f'`{name}`' for name in terms)}. Turn "
        f"metrics: {metrics}.\n"
    )
    return "\n\n".join(parts)


def options_table(
    package: Any, config_class: type[EnvConfig], names: list[str], *, defaults_only: bool = False
) -> str:
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    hints = typing.get_type_hints(config_class)
    lines = (
        ["| option | default |", "|---|---|"]
        if defaults_only
        else ["| option | values | default | |", "|---|---|---|---|"]
    )
    for name in names:
        factory = fields[name].default_factory
        absent = factory is dataclasses.MISSING
        default = code(repr(fields[name].default if absent else factory()))
        if defaults_only:
            lines.append(f"| `{name}` | {default} |")
        else:
            meaning = docstring_of(package, config_class, name)
            lines.append(f"| `{name}` | {code(type_name(hints[name]))} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def docstring_of(package: Any, config_class: type, name: str) -> str:
    """Return the docstring after a field."""
    for owner in config_class.__mro__:
        if name in vars(owner).get("__annotations__", {}):
            docstring = package[
                f"{owner.__module__}.{owner.__qualname__}".removeprefix("vagen_envs.")
            ][name].docstring
            return " ".join(docstring.value.split()).replace("|", "\\|") if docstring else ""
    return ""


def presets(config_class: type[EnvConfig]) -> str:
    others = {name: options for name, options in config_class.presets.items() if options}
    if not others:
        return ""
    rows = [f"| `{name}` | {code(json.dumps(dict(options)))} |" for name, options in others.items()]
    return (
        "\n## Presets\n\n`paper` is the default.\n\n| preset | sets |\n|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def level_options(config_class: type[EnvConfig]) -> list[str]:
    """The options that choose a seed's level: `level_fields`, what the ladder does it with, and the
    assets.
    """
    chosen = {*config_class.level_fields, "assets"}
    defaults = {field.name: field.default for field in dataclasses.fields(config_class)}
    for rung in config_class.rungs:
        config = config_class.create(**rung)
        for name in rung:
            with contextlib.suppress(ConfigError):  # an option that the others of the rung need
                other = config_class.create(**{**rung, name: defaults[name]})
                chosen |= {name} if other.level_key() != config.level_key() else set()
    return [
        *config_class.level_fields,
        *(name for name in defaults if name in chosen - {*config_class.level_fields}),
    ]


def levels(config_class: type[EnvConfig]) -> str:
    fields = ", ".join(f"`{name}`" for name in level_options(config_class))
    module = config_class.__module__.rpartition(".")[0]
    train, val = {"vagen_envs.frozen_lake": LAKES, "vagen_envs.sokoban": BOARDS}.get(module, SHARES)
    return (
        "\n## Levels and splits\n\nA level is a function of the id, the split, the seed and "
        f"these options: {fields or 'none'}. `train`, `val` and `test` contain {train}, {val} "
        f"and {100 - train - val} % of the levels and are disjoint.\n"
    )


def type_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(map(repr, typing.get_args(kind)))
    return (
        getattr(kind, "__name__", None)
        if isinstance(kind, type) and not typing.get_args(kind)
        else str(kind)
    )


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def fenced(text: str) -> str:
    return f"````text\n{text}\n````\n"


if __name__ == "__main__":
    main()
