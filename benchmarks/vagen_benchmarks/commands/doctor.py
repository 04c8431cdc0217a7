"""`vagen envs` and `vagen doctor`: what works on this machine, and how to fix the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import typer
from rich.text import Text

import vagen_envs
from vagen_benchmarks.clients.models import CLIENTS, Provider
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.commands.printing import err, make_table, out, visible
from vagen_benchmarks.meter import Meter
from vagen_envs.core import VagenEnv
from vagen_envs.errors import MissingExtraError, VagenError
from vagen_envs.extras import is_absent


def envs() -> None:
    """List the environments, their image sizes, turns and actions, and whether they can be made
    here.

    Example: `vagen envs`
    """
    table = make_table(["id", "picture", "turns", "actions", "state"])
    for env_id in vagen_envs.ENV_IDS:
        try:
            env = gym.make(env_id, disable_env_checker=True)
        except (VagenError, ImportError) as error:
            table.add_row(
                env_id, "", "", "", Text(visible(" ".join(str(error).splitlines())), "yellow")
            )
            continue
        inner = env.unwrapped
        assert isinstance(inner, VagenEnv)
        height, width, _ = inner.observation_space["image"].shape or (0, 0, 0)
        turns = f"{inner.config.max_turns} × {inner.config.max_actions_per_turn}"
        table.add_row(
            env_id,
            f"{width}×{height}",
            turns,
            inner.grammar.actions.summary(),
            Text("ready", "green"),
        )
        env.close()
    out.print(table)


def doctor() -> None:
    """Check what works on this machine, and how to fix the rest: environments, their drivers and
    libraries, API keys.

    Plays one turn of each environment. Exit code 1 if an installed environment doesn't work; extras
    that aren't installed are listed with the command that installs them.

    Example: `vagen doctor`
    """
    with Meter("checks", len(vagen_envs.ENV_IDS), console=err) as meter:
        findings = []
        for finding in examine():
            findings.append(finding)
            meter.advance(finding.what in vagen_envs.ENV_IDS)
    table = make_table(["", "what", "found", "fix"], show_header=False)
    for finding in findings:
        mark = Text("✗", "red") if finding.needed else Text("–", "yellow")
        if finding.ok:
            mark = Text("✓", "green")
        table.add_row(mark, finding.what, finding.found, "" if finding.ok else finding.fix)
    out.print(table)
    raise typer.Exit(any(finding.needed and not finding.ok for finding in findings))


@dataclass(frozen=True)
class DoctorFinding:
    """The result of a check. `fix` says what to do if it isn't `ok`; `needed` whether that fails
    the command.
    """

    what: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = False


def examine() -> Iterator[DoctorFinding]:
    """Check environments by playing one turn of each, whose errors name missing drivers, then
    models.
    """
    for env_id in vagen_envs.ENV_IDS:
        yield from _environment(env_id)
    yield _thor()
    yield from map(_provider, Registry().providers.values())


def _environment(env_id: str) -> Iterator[DoctorFinding]:
    """Make it, show its first picture, and play the oracle's first turn. Then the options it lacks
    something for.
    """
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
        yield DoctorFinding(
            env_id, False, f"no {error.missing}", f'pip install "vagen-envs[{error.extra}]"'
        )
        return
    except Exception as error:
        yield DoctorFinding(
            env_id, False, "doesn't work", str(error) or type(error).__name__, needed=True
        )
        return
    height, width, _ = frame.shape  # type: ignore[union-attr]
    seconds = time.perf_counter() - began
    yield DoctorFinding(
        env_id, True, f"{width}×{height} picture, a turn in {seconds:.2f} s", needed=True
    )
    for option, lacking, fix in missing:
        yield DoctorFinding(f"{env_id} with {option}", False, f"missing: {lacking}", fix)


def _thor() -> DoctorFinding:
    what = "vagen/Navigation-v0 with backend=thor"
    if is_absent("ai2thor"):
        return DoctorFinding(what, False, "no ai2thor", 'pip install "vagen-envs[thor]"')
    from ai2thor.build import COMMIT_ID

    releases = Path.home() / ".ai2thor" / "releases"
    found = sorted(path.parent.name for path in releases.glob(f"thor-*-{COMMIT_ID}/metadata.json"))
    fix = (
        "it is downloaded at the first use; on a closed machine unzip the build of commit "
        f"{COMMIT_ID[:12]}… into {releases}, or give thor_executable=PATH"
    )
    return DoctorFinding(what, bool(found), ", ".join(found) or "no Unity build", fix)


def _provider(provider: Provider) -> DoctorFinding:
    what, (_, extra, sdk) = f"models of {provider.name}", CLIENTS[provider.client]
    if is_absent(sdk):
        return DoctorFinding(what, False, f"no {sdk}", f'pip install "vagen-envs[{extra}]"')
    if provider.key_required and not os.environ.get(provider.key):
        return DoctorFinding(what, False, f"{provider.key} is not set", f"export {provider.key}=…")
    return DoctorFinding(
        what, True, f"{provider.key} is set" if provider.key_required else "needs no key"
    )
