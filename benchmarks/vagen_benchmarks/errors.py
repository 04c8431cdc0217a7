"""The exceptions of `vagen_benchmarks`. A message states the value, the reason and the fix."""

from __future__ import annotations

from vagen_benchmarks.stop_reasons import Stop


class BenchError(Exception):
    """Base of every error raised on purpose by this package."""


class ProtocolError(BenchError, ValueError):
    """A run can't start: an unknown id, agent or option, or an environment that can't be made."""


class RunFolderError(BenchError, RuntimeError):
    """A run folder is in use, belongs to another protocol, or isn't one."""


class StorageError(RunFolderError):
    """Episodes can't be stored: the disk is full or read-only. Files written before are intact."""


class EndpointError(BenchError):
    """A model's endpoint gave no reply. It depends on its kind whether that is an ending of the
    episode that counts.

    Attributes:
        kind: what happened, a `Stop` or its value.
        retry: whether trying again may help.
        after: seconds the endpoint asked to wait, or `None`.
        status: of the HTTP response, or `None`.
        hopeless: whether every other request will fare alike, so that the run stops.
    """

    def __init__(
        self,
        kind: object,
        message: str = "",
        *,
        retry: bool = True,
        after: float | None = None,
        status: int | None = None,
        hopeless: bool = False,
    ) -> None:
        super().__init__(message or str(kind))
        self.kind: Stop = Stop(str(kind)) if message else getattr(kind, "kind", Stop.NONSENSE)
        self.retry = retry
        self.after = after
        self.status = status
        self.hopeless = hopeless


class Stopped(BenchError):  # noqa: N818  (it isn't an error)
    """The run was told to stop while this episode was being played."""


class TooLargeError(Exception):
    """An answer beyond `LARGEST_ANSWER`."""


class NotVerifiedError(BenchError):
    """A run isn't what it claims to be, so it has no place on a leaderboard."""
