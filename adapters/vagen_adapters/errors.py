"""Everything that `vagen_adapters` raises, in one place. A message says the value, the reason and the mend."""

from __future__ import annotations

import importlib.metadata

from vagen_envs.errors import MissingExtraError, VagenError
from vagen_envs.extras import is_absent


class TrainingDataError(VagenError, ValueError):
    """A batch of sampled episodes cannot be trained on: its tensors disagree, or hold NaN or infinity."""


class TrainingConfigError(VagenError, ValueError):
    """A setting of a trainer or of an estimator is unknown or out of range."""


class ServiceError(VagenError, RuntimeError):
    """The environment service can't be reached, refuses a request, or breaks its protocol; `code` says which."""

    def __init__(self, code: object, message: str = "") -> None:
        super().__init__(f"the environment service: {message}" if message else str(code))
        self.code: str = str(code) if message else getattr(code, "code", "")
        self.message: str = message or getattr(code, "message", str(code))


class UpstreamError(VagenError, ImportError):
    """A library is installed, but lacks what an adapter is written for: another version of it."""


def not_importable(needed_by: str, extra: str, library: str, error: ImportError) -> VagenError:
    """What is wrong where an adapter's imports fail: the module that is missing, by its own name, or a version.

    Args:
        needed_by: the adapter's module.
        extra: that brings the library.
        library: its top-level module.
        error: what the import raised.
    """
    missing = (error.name or library).partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and is_absent(missing):
        return MissingExtraError(needed_by, extra, missing)
    found = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in importlib.metadata.packages_distributions().get(missing, [missing])
    )
    return UpstreamError(
        f"{needed_by} isn't written for the installed {found}: {error}. "
        f'Install the version that it is written for with: pip install "vagen-envs[{extra}]"'
    )
