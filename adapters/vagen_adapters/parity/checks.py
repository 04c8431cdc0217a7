"""The checks. Each says what is wrong, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vagen_adapters.parity.sampler import Call
from vagen_adapters.parity.stage import Pixels, Stage
from vagen_adapters.parity.trained import Scene, Trained

TOLERANCE = 1e-3
"""Of log-probabilities. Both are computed in float32 by one model; a picture more or less moves them by over 0.1."""
AROUND = 4
"""Tokens that are shown before and after one that differs."""


@dataclass(frozen=True, eq=False)
class Compared:
    """A trained sequence beside the calls that sampled its replies.

    Attributes:
        turns: of the replies.
        starts: where each reply begins in the sequence; `None` where it can't be found.
    """

    stage: Stage
    scene: Scene
    row: Trained
    turns: tuple[int, ...]
    starts: tuple[int | None, ...]

    @classmethod
    def of(cls, scene: Scene, row: Trained) -> Compared:
        turns = tuple(range(len(scene.sampler.calls)) if row.turns is None else row.turns)
        starts: list[int | None] = []
        after = 0
        for turn in turns:
            call = scene.sampler.calls[turn]
            start = _start(scene.stage, row.input_ids, call)
            start = _find(row.input_ids, call.reply, after) if start is None else start
            starts.append(start)
            after = after if start is None else start + len(call.reply)
        return cls(scene.stage, scene, row, turns, tuple(starts))

    @property
    def calls(self) -> list[Call]:
        return [self.scene.sampler.calls[turn] for turn in self.turns]

    @property
    def pictures(self) -> list[Pixels]:
        """Those that the environment had shown and that stand in the sequence: the latest, in order."""
        last = max(self.turns, default=-1)
        runs = self.stage.collapse(_before(self.row.input_ids, self.starts[-1] if self.starts else None))[0]
        read = runs.count(self.stage.image_token)
        shown = self.scene.env.shown[max(0, last + 1 - read) : last + 1]
        following = self.stage.collapse(self.row.input_ids)[0].count(self.stage.image_token) - read
        own = sum(token == self.stage.image_token for token in (self.calls[-1].reply if self.turns else ()))
        return shown + self.scene.env.shown[last + 1 : last + 1 + max(0, following - own)]


Check = Callable[[Compared], Iterator[str]]


def context(each: Compared) -> Iterator[str]:
    """Before each reply stands what the sampler had read."""
    for turn, call in zip(each.turns, each.calls, strict=True):
        want, have = each.stage.collapse(call.ids)[0], each.stage.collapse(each.row.input_ids)[0]
        at = _first_difference(want, have[: len(want)])
        if at is not None:
            read, trained = _around(each.stage, want, at), _around(each.stage, have, at)
            yield f"turn {turn}: the sampler read {read}, trained is {trained}"
            return


def tokens(each: Compared) -> Iterator[str]:
    """Sampled tokens are trained as sampled."""
    for turn, call, start in zip(each.turns, each.calls, each.starts, strict=True):
        if start is None:
            begins = each.stage.say(call.reply[:8])
            yield f"turn {turn}: the reply's {len(call.reply)} tokens aren't in the sequence; sampled was {begins} …"
            return
        have = each.row.input_ids[start : start + len(call.reply)]
        at = _first_difference(call.reply, have)
        if at is not None:
            sampled, trained = _around(each.stage, call.reply, at), _around(each.stage, have, at)
            yield f"turn {turn}, token {at}: sampled was {sampled}, trained is {trained}"
            return


def mask(each: Compared) -> Iterator[str]:
    """The mask covers replies and nothing else."""
    if None in each.starts:
        yield "not all replies are in the sequence"
        return
    want = [False] * len(each.row.input_ids)
    for call, start in zip(each.calls, each.starts, strict=True):
        for place in range(start or 0, min((start or 0) + len(call.reply), len(want))):
            want[place] = True
    have = [bool(on) for on in each.row.mask]
    at = _first_difference(want, have)
    if at is not None:
        wrong = "is sampled and not trained" if want[at : at + 1] == [True] else "is trained and was not sampled"
        yield f"token {at} {wrong}: {_around(each.stage, each.row.input_ids, at)}"


def pictures(each: Compared) -> Iterator[str]:
    """Pictures and their tokens match in number, order and place, for the sampler and for the trainer."""
    yield from _sampled_pictures(each)
    ids, shown = each.row.input_ids, each.pictures
    pixels, grids = each.row.forward.get("pixel_values"), each.row.forward.get("image_grid_thw")
    runs = _runs(each.stage, ids)
    if pixels is None or grids is None:
        if runs:
            yield f"{len(runs)} pictures have tokens ({sum(runs)} in all), but no pixels reach the forward pass"
        return
    sizes = each.stage.patches(grids)
    if sum(runs) != sum(sizes):
        yield f"tokens {sum(runs)}, features {sum(sizes)}: {len(runs)} runs of image tokens, {len(sizes)} pictures"
        return
    if runs != sizes:
        yield f"runs of image tokens {runs}, pictures of {sizes} tokens: they stand elsewhere, or in another order"
        return
    want = each.stage.features(shown).get("pixel_values")
    if want is None or want.shape != pixels.shape:
        right = None if want is None else tuple(want.shape)
        yield f"pixels {tuple(pixels.shape)} for {len(sizes)} pictures, of what was shown {right}"
        return
    parts = grids.prod(1).tolist()
    for number, (one, other) in enumerate(zip(want.split(parts), pixels.float().cpu().split(parts), strict=True)):
        if not torch.allclose(one, other, atol=1e-4):
            yield f"picture {number} is another one than was shown there"
            return


def positions(each: Compared) -> Iterator[str]:
    """Position ids equal the model's own."""
    grids = each.stage.features(each.pictures).get("image_grid_thw")
    runs = _runs(each.stage, each.row.input_ids)
    if grids is not None and each.stage.patches(grids) != runs:
        yield "pictures and tokens don't match, so there are no right ones"
        return
    want = each.stage.positions(each.row.input_ids, grids)
    forward = each.row.forward
    have = forward.get("position_ids")
    if have is None:
        inner = each.stage.model.model
        inner.rope_deltas = None
        try:
            have = inner.compute_3d_position_ids(
                torch.tensor([list(each.row.input_ids)]), None, image_grid_thw=forward.get("image_grid_thw"),
                mm_token_type_ids=forward.get("mm_token_type_ids"),
            )  # fmt: skip
        except (ValueError, StopIteration, RuntimeError) as error:
            yield f"the model can't make them: {error}"
            return
    length = len(each.row.input_ids)
    flat = torch.arange(length) if have is None else have.cpu()
    laid = flat.reshape(-1, length)[-3:].expand(3, length)
    differs = (laid != want).any(0)
    if differs.any():
        at = int(differs.nonzero()[0])
        here = _around(each.stage, each.row.input_ids, at)
        yield f"token {at}: they are {laid[:, at].tolist()}, the model's own {want[:, at].tolist()}: {here}"


def logprobs(each: Compared) -> Iterator[str]:
    """Log-probabilities of sampler and trainer agree, as kept and as computed again."""
    try:
        again = each.stage.logprobs({"input_ids": torch.tensor([list(each.row.input_ids)]), **_batched(each.row)})
    except Exception as error:  # whatever the model raises is what the trainer would see
        yield f"the forward pass fails: {type(error).__name__}: {str(error)[:160]}"
        return
    for turn, call, start in zip(each.turns, each.calls, each.starts, strict=True):
        if start is None:
            yield f"turn {turn}: the reply isn't in the sequence"
            return
        for name, all_of_them in (("the trainer computes", again), ("the trainer keeps", each.row.logprobs)):
            have = (
                None
                if all_of_them is None
                else [float(score) for score in all_of_them[start : start + len(call.reply)]]
            )
            if have is None or call.reply.count(each.stage.image_token):
                continue
            off = [abs(one - other) for one, other in zip(call.logprobs, have, strict=False)]
            worst = max(range(len(off)), key=off.__getitem__, default=None)
            if worst is None or not math.isfinite(off[worst]) or off[worst] > TOLERANCE:
                if worst is None:
                    said = f"{name} nothing"
                else:
                    here = _around(each.stage, call.reply, worst)
                    said = f"sampled at {call.logprobs[worst]:.4f}, {name} {have[worst]:.4f}: {here}"
                mean = sum(off) / max(1, len(off))
                yield f"turn {turn}: {said} (mean difference {mean:.4f})"
                return


def rewards(each: Compared) -> Iterator[str]:
    """Rewards stand at the tokens of the turns that earned them; an episode's is their sum."""
    earned = {turn.index: turn.reward for turn in each.scene.env.turns}
    if each.row.rewards is None:
        total = math.fsum(earned.values())
        if each.row.reward is None or not math.isclose(each.row.reward, total, abs_tol=1e-5):
            yield f"the episode is paid {each.row.reward}, its turns earned {total}"
        return
    left = [float(value) for value in each.row.rewards]
    for turn, call, start in zip(each.turns, each.calls, each.starts, strict=True):
        if start is None:
            yield f"turn {turn}: the reply isn't in the sequence"
            return
        here = range(start, min(start + len(call.reply), len(left)))
        paid = math.fsum(left[at] for at in here)
        if not math.isclose(paid, earned.get(turn, 0.0), abs_tol=1e-5):
            yield f"turn {turn}: its tokens are paid {paid:g}, it earned {earned.get(turn, 0.0):g}"
            return
        for at in here:
            left[at] = 0.0
    stray = next((at for at, value in enumerate(left) if value), None)
    if stray is not None:
        about = _around(each.stage, each.row.input_ids, stray)
        yield f"token {stray} is paid {left[stray]:g} and was not sampled: {about}"


def ends(each: Compared) -> Iterator[str]:
    """Truncation isn't termination."""
    last = each.scene.env.turns[-1] if each.scene.env.turns else None
    if last is None or max(each.turns, default=-1) < last.index:
        return
    want = last.terminated, not last.terminated
    if (each.row.terminated, bool(each.row.truncated) and not each.row.terminated) != want:
        yield (
            f"kept as terminated={each.row.terminated}, truncated={each.row.truncated}; "
            f"the episode was {'terminated' if last.terminated else 'cut'}"
        )


CHECKS: dict[str, Check] = {
    "context": context,
    "tokens": tokens,
    "mask": mask,
    "pictures": pictures,
    "positions": positions,
    "log-probs": logprobs,
    "rewards": rewards,
    "ends": ends,
}
"""By the name in the report. `failure` is the ninth, of episodes that broke."""


def _sampled_pictures(each: Compared) -> Iterator[str]:
    for turn, call in zip(each.turns, each.calls, strict=True):
        runs = each.stage.collapse(call.ids)[0].count(each.stage.image_token)
        if runs != len(call.pictures):
            yield f"turn {turn}: the sampler was given {len(call.pictures)} pictures for {runs} places"
            return
        for number, (given, shown) in enumerate(
            zip(call.pictures, each.scene.env.shown[turn + 1 - runs : turn + 1], strict=True)
        ):
            if given.shape != shown.shape or (given != shown).any():
                yield f"turn {turn}: the sampler's picture {number} is another one than was shown"
                return


def _batched(row: Trained) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in row.forward.items() if tensor is not None}


def _runs(stage: Stage, ids: Sequence[int]) -> list[int]:
    """How long each run of image tokens is."""
    places = [at for at, token in enumerate(ids) if token == stage.image_token]
    runs: list[int] = []
    for number, at in enumerate(places):
        if number and places[number - 1] == at - 1:
            runs[-1] += 1
        else:
            runs.append(1)
    return runs


def _start(stage: Stage, ids: Sequence[int], call: Call) -> int | None:
    """Where the reply begins, if what the sampler had read stands before it."""
    want, (have, places) = stage.collapse(call.ids)[0], stage.collapse(ids)
    if have[: len(want)] != want or len(have) <= len(want):
        return None
    return places[len(want)]


def _find(ids: Sequence[int], reply: Sequence[int], after: int) -> int | None:
    wanted = list(reply)
    return next(
        (at for at in range(after, len(ids) - len(wanted) + 1) if list(ids[at : at + len(wanted)]) == wanted), None
    )


def _before(ids: Sequence[int], end: int | None) -> Sequence[int]:
    return ids if end is None else ids[:end]


def _first_difference(want: Sequence[object], have: Sequence[object]) -> int | None:
    for at, (one, other) in enumerate(zip(want, have, strict=False)):
        if one != other:
            return at
    return None if len(want) == len(have) else min(len(want), len(have))


def _around(stage: Stage, ids: Sequence[int], at: int) -> str:
    before, after = stage.say(ids[max(0, at - AROUND) : at]), stage.say(ids[at + 1 : at + 1 + AROUND])
    here = stage.say(ids[at : at + 1]) or "nothing"
    return f"{before} [{here}] {after}".strip()
