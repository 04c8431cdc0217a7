"""How an episode ended, for libraries that keep it."""

from __future__ import annotations

from collections.abc import Sequence

from vagen_envs.core import Turn


def ends_of(turns: Sequence[Turn]) -> dict[str, bool]:
    """Return `terminated` and `truncated` of an episode that is over for the library.

    `terminated`: the rules ended it, solved or lost for good, so that no reward could follow.
    `truncated`: something else did: a limit of turns, of the environment or of the library, a limit
    of tokens, or a simulator that broke.
    """
    terminated = bool(turns) and turns[-1].terminated
    return {"terminated": terminated, "truncated": not terminated}
