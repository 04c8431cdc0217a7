"""Tasks of a run. Each is made once before the run, so that what is missing shows first."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

import vagen_envs
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.protocol import Task, task_label
from vagen_envs.core import VagenEnv
from vagen_envs.errors import VagenError, did_you_mean, place_of
from vagen_envs.seeding import SPLITS


def short_name(env_id: str) -> str:
    """As a person writes it: `sokoban` for `vagen/Sokoban-v0`."""
    return env_id.partition("/")[2].rpartition("-v")[0].lower()


def resolve_id(name: str) -> str:
    """A registered id for what a person may write: `vagen/Sokoban-v0`, `Sokoban-v0` or
    `sokoban`.
    """
    if name in gym.registry or ":" in name:
        if ":" in name and "" not in sys.path and str(Path.cwd()) not in sys.path:
            # A console script's path lacks the folder that it is called in.
            sys.path.append(str(Path.cwd()))
        return name
    wanted = name.lower()
    for env_id in reversed(vagen_envs.ENV_IDS):
        if wanted in (env_id.lower(), env_id.partition("/")[2].lower(), short_name(env_id)):
            return env_id
    known = [short_name(env_id) for env_id in vagen_envs.ENV_IDS]
    near = [each for each in known if wanted and wanted in each]
    # Of a short name for a long one difflib makes nothing: `svgg` and `svgreconstruction` share
    # three letters of 21.
    near = (
        near
        or difflib.get_close_matches(wanted, known, 1)
        or [each for each in known if each[:3] == wanted[:3]]
    )
    meant = (
        f" Did you mean {' or '.join(map(repr, near))}?" if near else did_you_mean(wanted, known)
    )
    own = "An environment of your own is named MODULE:ID, such as my_env:example/MyEnv-v0"
    raise ProtocolError(f"unknown environment {name!r}.{meant} {own}")


def import_environments(tasks: Iterable[Task]) -> None:
    """Import the modules that `MODULE:ID` names in a run of one's own, which define the kinds of
    its states.

    Raises:
        ProtocolError: a module can't be imported.
    """
    for env_id in {task.env_id for task in tasks if ":" in task.env_id}:
        module = resolve_id(env_id).partition(":")[0]
        try:
            importlib.import_module(module)
        except ImportError as error:
            fix = "call vagen in its folder or add it to PYTHONPATH"
            raise ProtocolError(
                f"{env_id}: the module {module!r} can't be imported ({error}); {fix}"
            ) from error


@contextlib.contextmanager
def _own_code(env_id: str) -> Iterator[None]:
    """Turn a fault in the module of an environment `MODULE:ID` into one error that says where it
    is.
    """
    try:
        yield
    except VagenError:
        raise
    except gym.error.Error as error:
        module = sys.modules.get(env_id.rpartition(":")[0])
        # A namespace package has no file.
        is_folder = module is not None and getattr(module, "__file__", None) is None
        fix = " Its module is a folder here; call vagen in that folder" if is_folder else ""
        raise ProtocolError(f"{env_id} can't be made: {error}{fix}") from error
    except TypeError as error:
        raise ProtocolError(
            f"{env_id} isn't an environment of this contract ({error!s:.200})"
        ) from error
    except Exception as error:
        if ":" not in env_id:  # such as an extra that isn't installed
            raise
        raise ProtocolError(
            f"{env_id} can't be made: {type(error).__name__}: {error}{place_of(error)}"
        ) from error


def make_task(
    env_id: str,
    options: Mapping[str, Any],
    split: str,
    first_seed: int,
    episodes: int | None,
    shown: Sequence[str] = (),
) -> Task:
    """A task whose environment was made and reset once, so that what is missing shows before the
    run.

    Without `episodes`, the environment's own `test_episodes` are meant.

    `shown` names those options that tell the run's tasks of one environment apart.

    Raises:
        VagenError: the environment can't be made or reset here, or refuses an option.
        ProtocolError: the id isn't an environment of this contract.
    """
    if split not in SPLITS:
        raise ProtocolError(f"unknown split {split!r}.{did_you_mean(split, SPLITS)}")
    if "split" in options:
        raise ProtocolError("split is no option of an environment here; it is the run's: --split")
    with _own_code(env_id):
        env = gym.make(env_id, disable_env_checker=True, split=split, **options)
    inner = env.unwrapped
    try:
        if not isinstance(inner, VagenEnv):
            raise ProtocolError(
                f"{env_id} is a {type(inner).__name__}, not a VagenEnv; use one of `vagen envs`"
            )
        with _own_code(env_id):
            env.reset(seed=first_seed)
        return Task(
            label=task_label(env_id, options, shown),
            env_id=env_id,
            options=dict(options),
            split=split,
            first_seed=first_seed,
            episodes=episodes or inner.test_episodes,
            config=dataclasses.asdict(inner.config),
            system_prompt=inner.system_prompt,
            prompts_sha256=inner.prompts.pack.sha256(),
            baselines=tuple(inner.baselines),
        )
    finally:
        env.close()


@dataclass(frozen=True)
class Skipped:
    """An environment that can't be made here, and why."""

    env_id: str
    reason: str


def make_tasks(
    env_ids: Sequence[str],
    *,
    strategies: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    split: str = "test",
    first_seed: int = 0,
    episodes: int | None = None,
) -> tuple[list[Task], list[Skipped]]:
    """A task for each environment and strategy.

    Without `env_ids`, all environments of this package are meant, and those that can't be made here
    are returned as skipped with the reason.

    Raises:
        ProtocolError: an environment that was asked for can't be made.
    """
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    known: list[tuple[Mapping[str, Any], str]] = []
    for env_id in [resolve_id(name) for name in env_ids] or vagen_envs.ENV_IDS:
        for strategy in strategies or [None]:  # type: ignore[list-item]
            chosen = {**(options or {}), **({"strategy": strategy} if strategy else {})}
            shown = ["strategy"] if len(strategies) > 1 else []
            try:
                task = make_task(env_id, chosen, split, first_seed, episodes, shown)
                # Two ids may stand for one environment with the same options; without ids it is
                # played once.
                if env_ids or (task.config, task.system_prompt) not in known:
                    tasks.append(task)
                    known.append((task.config, task.system_prompt))
            except (VagenError, ImportError, OSError) as error:
                if env_ids:
                    raise ProtocolError(str(error)) from error
                skipped.append(Skipped(env_id, str(error)))
                break
    return tasks, skipped
