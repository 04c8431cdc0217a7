"""`vagen doctor`: what works on this machine, and how to fix the rest."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import typer
from rich.table import Table
from rich.text import Text

import vagen_envs
from vagen_benchmarks.clients.registry import CLIENTS, Registry
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.meter import Meter
from vagen_envs.core import VagenEnv
from vagen_envs.errors import MissingExtraError


def doctor() -> None:
    """Check what works on this machine, and how to fix the rest: environments, drivers, API keys, libraries.

    Plays one turn of each environment. Exit code 1 if an installed environment doesn't work; extras that aren't
    installed are listed with the command that installs them.

    Example: `vagen doctor`
    """
    table = Table(box=None, show_header=False)
    for name in ("", "what", "found", "fix"):
        table.add_column(name, overflow="fold")
    well = True
    findings = []
    with Meter("checks", len(vagen_envs.ENV_IDS), console=err) as meter:
        for finding in examine():
            findings.append(finding)
            meter.advance(finding.what in vagen_envs.ENV_IDS)
    for finding in findings:
        well &= finding.ok or not finding.needed
        mark = Text("✓", "green") if finding.ok else Text("✗", "red") if finding.needed else Text("–", "yellow")
        table.add_row(mark, finding.what, finding.found, "" if finding.ok else finding.fix)
    out.print(table)
    raise typer.Exit(0 if well else 1)


@dataclass(frozen=True)
class Finding:
    """The result of a check. `fix` says what to do if it isn't `ok`; `needed` whether that fails the command."""

    what: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = False


def examine() -> Iterator[Finding]:
    """Check one thing after another: environments by playing one turn of each, then models and tools."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", sys.version_info >= (3, 11), version, "install Python 3.11 or later", needed=True)
    for env_id in vagen_envs.ENV_IDS:
        yield from _environment(env_id)
    yield _opengl()
    yield _vulkan()
    yield _thor()
    for provider in Registry().providers.values():
        yield _provider(provider.name, provider.client, provider.key, required=provider.key_required)
    export = importlib.util.find_spec("pyarrow") is not None
    yield Finding("Parquet", export, "pyarrow" if export else "no pyarrow", 'pip install "vagen-envs[export]"')
    browser = next(filter(None, map(shutil.which, ("xdg-open", "chromium", "google-chrome", "firefox", "open"))), None)
    yield Finding("browser", browser is not None, browser or "none", "copy report.html to a machine that has one")


def _environment(env_id: str) -> Iterator[Finding]:
    """Make it, show its first picture, and play the oracle's first turn. Then the options it lacks something for."""
    began = time.perf_counter()
    try:
        env = gym.make(env_id, disable_env_checker=True, render_mode="rgb_array")
        try:
            env.reset(seed=0)
            frame = env.render()
            inner = env.unwrapped
            assert isinstance(inner, VagenEnv)
            env.step(inner.oracle_reply())
            missing = inner.options_missing()
        finally:
            env.close()
    except MissingExtraError as error:  # not asked for: nothing is broken
        yield Finding(env_id, False, f"no {error.missing}", f'pip install "vagen-envs[{error.extra}]"')
        return
    except Exception as error:
        yield Finding(env_id, False, "doesn't work", str(error) or type(error).__name__, needed=True)
        return
    height, width, _ = frame.shape  # type: ignore[union-attr]
    yield Finding(env_id, True, f"{width}×{height} picture, a turn in {time.perf_counter() - began:.2f} s", needed=True)
    for option, lacking, fix in missing:
        yield Finding(f"{env_id} with {option}", False, f"missing: {lacking}", fix)


def _opengl() -> Finding:
    found = [name for name in map(ctypes.util.find_library, ("EGL", "OSMesa")) if name]
    fix = "apt-get install -y --no-install-recommends libegl1 libgl1-mesa-dri"
    return Finding("OpenGL without a screen (Navigation)", bool(found), ", ".join(found) or "no libEGL", fix)


def _vulkan() -> Finding:
    """The drivers that are installed; whether SAPIEN can draw with one shows in the check of PrimitiveSkill."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    paths = [Path(name) for name in named.split(":")] if named else [
        file for folder in ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d") for file in Path(folder).glob("*.json")
    ]  # fmt: skip
    found = sorted(path.stem.removesuffix("_icd") for path in paths if path.is_file())
    fix = "sh scripts/setup_vulkan.sh, or Mesa 23.1 or newer by this system's package manager"
    return Finding("Vulkan drivers (PrimitiveSkill, AI2-THOR)", bool(found), ", ".join(found) or "none", fix)


def _thor() -> Finding:
    what = "vagen/Navigation-v0 with backend=thor"
    if importlib.util.find_spec("ai2thor") is None:
        return Finding(what, False, "no ai2thor", 'pip install "vagen-envs[thor]"')
    from ai2thor.build import COMMIT_ID

    releases = Path.home() / ".ai2thor" / "releases"
    found = sorted(path.parent.name for path in releases.glob(f"thor-*-{COMMIT_ID}/metadata.json"))
    fix = (
        f"it is downloaded at the first use; on a closed machine unzip the build of commit {COMMIT_ID[:12]}… into "
        f"{releases}, or give thor_executable=PATH"
    )
    return Finding(what, bool(found), ", ".join(found) or "no Unity build", fix)


def _provider(name: str, client: str, key: str, *, required: bool) -> Finding:
    _, extra, sdk = CLIENTS[client]
    try:
        there = importlib.util.find_spec(sdk) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        there = False
    if not there:
        return Finding(f"models of {name}", False, f"no {sdk}", f'pip install "vagen-envs[{extra}]"')
    if required and not os.environ.get(key):
        return Finding(f"models of {name}", False, f"{key} is not set", f"export {key}=…")
    return Finding(f"models of {name}", True, f"{key} is set" if required else "needs no key")
