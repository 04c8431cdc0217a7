"""Everything that `vagen_envs` raises, in one place.

A message states the value, the reason and the fix. Malformed replies of a model are never
exceptions: they are `Problem`s inside the `Turn`.

Every error can be built from one message alone, as pickle does, and as Gymnasium's `AsyncVectorEnv`
does with a worker's error: it raises `type(error)(error)`.
"""

from __future__ import annotations

import difflib
import reprlib
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_NO_WHEEL_FROM = {"mani_skill": (3, 13), "sapien": (3, 13)}
"""Modules that their extra leaves out on this Python: to install it there would change nothing."""
_PACKAGES = ("vagen_envs", "vagen_rewards", "vagen_adapters", "vagen_benchmarks")
_LIBRARIES = frozenset(
    {"site-packages", "dist-packages", Path(sysconfig.get_path("stdlib")).name, *_PACKAGES}
)
"""Folders of code that isn't a user's own."""


def place_of(error: BaseException) -> str:
    """Where in a user's own code an error was raised, as ` (my_env.py, line 66)`; empty where only
    libraries ran.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        each
        for each in frames
        if each.filename[:1] != "<" and not _LIBRARIES & {*Path(each.filename).parts}
    ]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


class VagenError(Exception):
    """Base of every error raised on purpose by this package."""


class ConfigError(VagenError, ValueError):
    """An option of an environment is unknown, of the wrong type or out of range."""


class MissingExtraError(VagenError, ImportError):
    """An environment or feature needs an extra that is not installed."""

    def __init__(self, needed_by: object, extra: str = "", missing: str = "") -> None:
        message = str(needed_by)
        if extra:
            message = (
                f"{needed_by} needs the Python module {missing!r}, which is not installed. "
                f'Install it with: pip install "vagen-envs[{extra}]"'
            )
            if sys.version_info >= _NO_WHEEL_FROM.get(missing, (4,)):
                message += ", with Python 3.11 or 3.12: there is no wheel for a newer one"
        super().__init__(message)
        self.extra: str = extra or getattr(needed_by, "extra", "")
        self.missing: str = missing or getattr(needed_by, "missing", "")


class LevelError(VagenError, RuntimeError):
    """No level of the asked-for kind was found, or a level is not well-formed."""


class SimulatorError(VagenError, RuntimeError):
    """A simulator broke. The episode has no score: it is not a failure of the agent."""

    def __init__(self, env_id: object, cause: str = "") -> None:
        message = str(env_id)
        if cause:
            message = f"the simulator of {env_id} broke: {cause}. Reset the environment to go on."
        super().__init__(message)
        self.cause: str = cause or getattr(env_id, "cause", message)


class EpisodeOverError(VagenError, RuntimeError):
    """`step` was called before `reset`, or after the episode ended."""


class EnvClosedError(VagenError, RuntimeError):
    """An environment was used after `close`."""


class ReplyTypeError(VagenError, TypeError):
    """The action given to `step` is not a string."""


class PromptPackError(VagenError, ValueError):
    """A prompt pack lacks a file, or a file uses a placeholder that does not exist."""


class RecordError(VagenError, ValueError):
    """A stored `Turn`, `State` or picture cannot be read back."""


class SampleError(VagenError, ValueError):
    """A row of a data set is not a sample of the V-Triune schema."""


class SnapshotError(VagenError, ValueError):
    """Bytes given to `restore` are not a snapshot of such an environment, or a moment can't be
    written down.
    """


class ConformanceError(VagenError):
    """An environment breaks the contract. Raised by `vagen_envs.conformance`."""


class ScorerError(VagenError, RuntimeError):
    """A scorer of SVG drawings lacks its weights, or they are not the expected ones."""


class NotBoxesError(ValueError):
    """A text isn't a list of boxes. The message says why."""


class SvgError(ValueError):
    """The SVG isn't drawn; the message tells its author why."""


class RendererError(VagenError, RuntimeError):
    """The drawing process can't be started. It is not a failure of the agent."""


_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlist = _SHOWN.maxtuple = _SHOWN.maxdict = 20


def shown(value: Any) -> str:
    """A value as a message repeats it: whole if it is short, whatever it is."""
    return _SHOWN.repr(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as ``" Did you mean 'num_boxes'?"``, or the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.6)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(names)}."
