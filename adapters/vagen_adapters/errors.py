"""The exceptions of `vagen_adapters`. A message states the value, the reason and the fix."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator

from vagen_envs.errors import MissingExtraError, VagenError
from vagen_envs.extras import is_absent


class TrainingDataError(VagenError, ValueError):
    """A batch of sampled episodes can't be trained on: shapes disagree, or values are NaN or
    infinite.
    """


class TrainingConfigError(VagenError, ValueError):
    """A setting of the trainer or of an estimator is unknown or out of range."""


class ServiceError(VagenError, RuntimeError):
    """The environment service can't be reached, refuses a request or violates the protocol; see
    `code`.
    """

    def __init__(self, code: object, message: str = "") -> None:
        super().__init__(f"the environment service: {message}" if message else str(code))
        self.code: str = str(code) if message else getattr(code, "code", "")
        self.message: str = message or getattr(code, "message", str(code))


class UpstreamError(VagenError, ImportError):
    """The installed version of a library lacks something that the adapter needs."""


def in_short(error: Exception) -> str:
    """An exception of another library in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


@contextlib.contextmanager
def errors_as(kind: type[VagenError], fault: str, fix: str) -> Iterator[None]:
    """Make one kind of error, of one line, of whatever libraries raise in the block."""
    try:
        yield
    except VagenError:
        raise
    except Exception as error:
        raise kind(f"{fault}: {in_short(error)}; {fix}") from error


def not_importable(needed_by: str, extra: str, library: str, error: ImportError) -> VagenError:
    """Return the error for a failed import of an adapter: a missing module or an unsupported
    version.

    Args:
        needed_by: the adapter's module.
        extra: the extra that installs the library.
        library: its top-level module.
        error: the import's exception.
    """
    missing = (error.name or library).partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and is_absent(missing):
        return MissingExtraError(needed_by, extra, missing)
    found = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in importlib.metadata.packages_distributions().get(missing, [missing])
    )
    return UpstreamError(
        f"{needed_by} does not support the installed {found}: {error}. "
        f'Install the supported version with: pip install "vagen-envs[{extra}]"'
    )


class StoppedBySignalError(TrainingDataError):
    """A training has ended before its last update because a signal asked for it; it can be
    resumed.
    """
