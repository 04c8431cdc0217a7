"""A trained sequence beside the calls that sampled its replies, and the words for a difference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from vagen_adapters.parity.reference_model import Pixels, ReferenceModel
from vagen_adapters.parity.sampler import SamplerCall
from vagen_adapters.parity.trained import Playback, TrainedSequence

AROUND = 4
"""Tokens shown before and after a difference."""


@dataclass(frozen=True, eq=False)
class Compared:
    """A trained sequence beside the calls that sampled its replies.

    `turns` are those of the replies; `starts` where each begins in the sequence, `None` where it
    can't be found.
    """

    model: ReferenceModel
    playback: Playback
    row: TrainedSequence
    turns: tuple[int, ...]
    starts: tuple[int | None, ...]

    @classmethod
    def of(cls, playback: Playback, row: TrainedSequence) -> Compared:
        turns = tuple(range(len(playback.sampler.calls)) if row.turns is None else row.turns)
        starts: list[int | None] = []
        after = 0
        for turn in turns:
            call = playback.sampler.calls[turn]
            start = start_of(playback.model, row.input_ids, call)
            start = find(row.input_ids, call.reply, after) if start is None else start
            starts.append(start)
            after = after if start is None else start + len(call.reply)
        return cls(playback.model, playback, row, turns, tuple(starts))

    @property
    def calls(self) -> list[SamplerCall]:
        return [self.playback.sampler.calls[turn] for turn in self.turns]

    @property
    def pictures(self) -> list[Pixels]:
        """The pictures that the environment showed and that are in the sequence, in order."""
        seen = self.calls[-1].seen if self.turns else 0
        runs = self.model.collapse(self.row.input_ids[: self.starts[-1] if self.starts else None])[
            0
        ]
        read = runs.count(self.model.image_token)
        shown = self.playback.env.shown[max(0, seen - read) : seen]
        following = self.model.collapse(self.row.input_ids)[0].count(self.model.image_token) - read
        own = sum(
            token == self.model.image_token
            for token in (self.calls[-1].reply if self.turns else ())
        )
        return shown + self.playback.env.shown[seen : seen + max(0, following - own)]


def runs_of(model: ReferenceModel, ids: Sequence[int]) -> list[int]:
    """Return the length of each run of image tokens."""
    return [len(list(run)) for token, run in itertools.groupby(ids) if token == model.image_token]


def start_of(model: ReferenceModel, ids: Sequence[int], call: SamplerCall) -> int | None:
    """Return where the reply begins if the sampler's input precedes it."""
    want, (have, places) = model.collapse(call.ids)[0], model.collapse(ids)
    if have[: len(want)] != want or len(have) <= len(want):
        return None
    return places[len(want)]


def find(ids: Sequence[int], reply: Sequence[int], after: int) -> int | None:
    """Return where the reply begins at `after` or later."""
    wanted = list(reply)
    return next(
        (
            at
            for at in range(after, len(ids) - len(wanted) + 1)
            if list(ids[at : at + len(wanted)]) == wanted
        ),
        None,
    )


def first_difference(want: Sequence[object], have: Sequence[object]) -> int | None:
    """Return the first place where two sequences differ, the end of the shorter one included."""
    return next(
        (at for at, (one, other) in enumerate(itertools.zip_longest(want, have)) if one != other),
        None,
    )


def around(model: ReferenceModel, ids: Sequence[int], at: int) -> str:
    """Return the words around a token, which is in brackets."""
    before = model.say(ids[max(0, at - AROUND) : at])
    after = model.say(ids[at + 1 : at + 1 + AROUND])
    here = model.say(ids[at : at + 1]) or "nothing"
    return f"{before} [{here}] {after}".strip()
