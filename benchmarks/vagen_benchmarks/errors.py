"""Everything that `vagen_benchmarks` raises, in one place. A message says the value, the reason and the mend."""

from __future__ import annotations

from typing import Literal


class BenchError(Exception):
    """Base of every error raised on purpose by this package."""


class ProtocolError(BenchError, ValueError):
    """What is asked for can't be run: an unknown id, agent or option, or an environment that can't be made."""


class RunFolderError(BenchError, RuntimeError):
    """A run folder is in use, belongs to another protocol, or isn't one."""


FailureKind = Literal[
    "unreachable", "timeout", "rate_limited", "server_error", "nonsense", "rejected", "agent", "environment"
]
"""Why an episode has no score: the endpoint couldn't be reached, was too slow, said 429, said 5xx, answered
something that isn't a chat completion, rejected the request (4xx); or the agent or the environment broke."""


class EndpointError(BenchError):
    """A model's endpoint gave no reply. The episode has no score: it isn't a failure of the model.

    Attributes:
        kind: what happened.
        retry: whether trying again may help.
        after: seconds the endpoint asked to wait, or `None`.
    """

    def __init__(self, kind: FailureKind, message: str, *, retry: bool = True, after: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry, self.after = kind, retry, after


class Stopped(BenchError):  # noqa: N818  (it isn't an error)
    """The run was told to stop while this episode was being played."""
