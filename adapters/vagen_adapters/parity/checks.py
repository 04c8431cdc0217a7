"""The checks. A check yields a message per fault, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch

from vagen_adapters.parity.compared import Compared, around, first_difference, runs_of

TOLERANCE = 1e-3
"""Tolerance of log-probabilities. Both come from one model in float32; one picture more or less
changes them by 0.1.
"""
Check = Callable[[Compared], Iterator[str]]


def context(pair: Compared) -> Iterator[str]:
    """The tokens before each reply equal the sampler's input."""
    for turn, call in zip(pair.turns, pair.calls, strict=True):
        want = pair.model.collapse(call.ids)[0]
        have = pair.model.collapse(pair.row.input_ids)[0]
        at = first_difference(want, have[: len(want)])
        if at is not None:
            read = around(pair.model, want, at)
            trained = around(pair.model, have, at)
            yield f"turn {turn}: the sampler read {read}, trained is {trained}"
            return


def tokens(pair: Compared) -> Iterator[str]:
    """Sampled tokens are trained as sampled."""
    for turn, call, start in zip(pair.turns, pair.calls, pair.starts, strict=True):
        if start is None:
            begins = pair.model.say(call.reply[:8])
            yield (
                f"turn {turn}: the reply's {len(call.reply)} tokens aren't in the sequence; "
                f"sampled was {begins} …"
            )
            return
        have = pair.row.input_ids[start : start + len(call.reply)]
        at = first_difference(call.reply, have)
        if at is not None:
            sampled = around(pair.model, call.reply, at)
            trained = around(pair.model, have, at)
            yield f"turn {turn}, token {at}: sampled was {sampled}, trained is {trained}"
            return


def mask(pair: Compared) -> Iterator[str]:
    """The mask covers replies and nothing else."""
    if None in pair.starts:
        yield "not all replies are in the sequence"
        return
    want = [False] * len(pair.row.input_ids)
    for call, start in zip(pair.calls, pair.starts, strict=True):
        for place in range(start or 0, min((start or 0) + len(call.reply), len(want))):
            want[place] = True
    have = [bool(on) for on in pair.row.mask]
    at = first_difference(want, have)
    if at is not None:
        is_sampled = want[at : at + 1] == [True]
        wrong = "is sampled and not trained" if is_sampled else "is trained and was not sampled"
        yield f"token {at} {wrong}: {around(pair.model, pair.row.input_ids, at)}"


def pictures(pair: Compared) -> Iterator[str]:
    """Pictures and image tokens match in number, order and position, for the sampler and for the
    trainer.
    """
    yield from _sampled_pictures(pair)
    ids = pair.row.input_ids
    shown = pair.pictures
    pixels = pair.row.forward.get("pixel_values")
    grids = pair.row.forward.get("image_grid_thw")
    runs = runs_of(pair.model, ids)
    if pixels is None or grids is None:
        if runs:
            yield (
                f"{len(runs)} pictures have tokens ({sum(runs)} in all), but no pixels reach the "
                "forward pass"
            )
        return
    sizes = pair.model.patches(grids)
    if sum(runs) != sum(sizes):
        yield (
            f"tokens {sum(runs)}, features {sum(sizes)}: {len(runs)} runs of image tokens, "
            f"{len(sizes)} pictures"
        )
        return
    if runs != sizes:
        yield (
            f"runs of image tokens {runs}, pictures of {sizes} tokens: they stand elsewhere, or "
            "in another order"
        )
        return
    want = pair.model.features(shown).get("pixel_values")
    if want is None or want.shape != pixels.shape:
        right = None if want is None else tuple(want.shape)
        yield f"pixels {tuple(pixels.shape)} for {len(sizes)} pictures, of what was shown {right}"
        return
    parts = grids.prod(1).tolist()
    for number, (one, other) in enumerate(
        zip(want.split(parts), pixels.float().cpu().split(parts), strict=True)
    ):
        if not torch.allclose(one, other, atol=1e-4):
            yield f"picture {number} is another one than was shown there"
            return


def positions(pair: Compared) -> Iterator[str]:
    """Position ids equal the model's own."""
    grids = pair.model.features(pair.pictures).get("image_grid_thw")
    runs = runs_of(pair.model, pair.row.input_ids)
    if grids is not None and pair.model.patches(grids) != runs:
        yield "pictures and tokens don't match, so there are no right ones"
        return
    want = pair.model.positions(pair.row.input_ids, grids)
    forward = pair.row.forward
    have = forward.get("position_ids")
    if have is None:
        inner = pair.model.model.model
        inner.rope_deltas = None
        try:
            have = inner.compute_3d_position_ids(
                torch.tensor([list(pair.row.input_ids)]),
                None,
                image_grid_thw=forward.get("image_grid_thw"),
                mm_token_type_ids=forward.get("mm_token_type_ids"),
            )
        except (ValueError, TypeError, StopIteration, RuntimeError) as error:
            yield f"the model can't make them: {error}"
            return
    length = len(pair.row.input_ids)
    flat = torch.arange(length) if have is None else have.cpu()
    laid = flat.reshape(-1, length)[-3:].expand(3, length)
    differs = (laid != want).any(0)
    if differs.any():
        at = int(differs.nonzero()[0])
        here = around(pair.model, pair.row.input_ids, at)
        yield (
            f"token {at}: they are {laid[:, at].tolist()}, the model's own "
            f"{want[:, at].tolist()}: {here}"
        )


def logprobs(pair: Compared) -> Iterator[str]:
    """Log-probabilities of sampler and trainer agree, both stored and recomputed."""
    inputs = {name: tensor for name, tensor in pair.row.forward.items() if tensor is not None}
    try:
        again = pair.model.logprobs(
            {"input_ids": torch.tensor([list(pair.row.input_ids)]), **inputs}
        )
    except Exception as error:  # whatever the model raises is what the trainer would see
        yield f"the forward pass fails: {type(error).__name__}: {str(error)[:160]}"
        return
    for turn, call, start in zip(pair.turns, pair.calls, pair.starts, strict=True):
        if start is None:
            yield f"turn {turn}: the reply isn't in the sequence"
            return
        for name, scores in (
            ("the trainer computes", again),
            ("the trainer keeps", pair.row.logprobs),
        ):
            if scores is None or call.reply.count(pair.model.image_token):
                continue
            have = list(map(float, scores[start : start + len(call.reply)]))
            off = [abs(one - other) for one, other in zip(call.logprobs, have, strict=False)]
            worst = max(range(len(off)), key=off.__getitem__, default=None)
            if worst is None or not math.isfinite(off[worst]) or off[worst] > TOLERANCE:
                if worst is None:
                    message = f"{name} nothing"
                else:
                    here = around(pair.model, call.reply, worst)
                    message = (
                        f"sampled at {call.logprobs[worst]:.4f}, {name} {have[worst]:.4f}: {here}"
                    )
                mean = sum(off) / max(1, len(off))
                yield f"turn {turn}: {message} (mean difference {mean:.4f})"
                return


def rewards(pair: Compared) -> Iterator[str]:
    """Rewards are at the tokens of the turns that earned them; an episode's reward is their sum."""
    earned = {turn.index: turn.reward for turn in pair.playback.env.turns}
    if pair.row.rewards is None:
        total = math.fsum(earned.values())
        if pair.row.reward is None or not math.isclose(pair.row.reward, total, abs_tol=1e-5):
            yield f"the episode is paid {pair.row.reward}, its turns earned {total}"
        return
    left = [float(value) for value in pair.row.rewards]
    for turn, call, start in zip(pair.turns, pair.calls, pair.starts, strict=True):
        if start is None:
            yield f"turn {turn}: the reply isn't in the sequence"
            return
        here = range(start, min(start + len(call.reply), len(left)))
        paid = math.fsum(left[at] for at in here)
        due = 0.0 if call.summary else earned.get(call.turn, 0.0)
        if not math.isclose(paid, due, abs_tol=1e-5):
            yield f"turn {turn}: its tokens are paid {paid:g}, it earned {due:g}"
            return
        for at in here:
            left[at] = 0.0
    stray = next((at for at, value in enumerate(left) if value), None)
    if stray is not None:
        about = around(pair.model, pair.row.input_ids, stray)
        yield f"token {stray} is paid {left[stray]:g} and was not sampled: {about}"


def ends(pair: Compared) -> Iterator[str]:
    """Truncation isn't termination."""
    last = pair.playback.env.turns[-1] if pair.playback.env.turns else None
    if last is None or max((call.turn for call in pair.calls), default=-1) < last.index:
        return
    want = last.terminated, not last.terminated
    if (pair.row.terminated, bool(pair.row.truncated) and not pair.row.terminated) != want:
        yield (
            f"kept as terminated={pair.row.terminated}, truncated={pair.row.truncated}; "
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
"""By the name in the report. The ninth check, `failure`, applies to episodes whose environment
broke.
"""


def _sampled_pictures(pair: Compared) -> Iterator[str]:
    for turn, call in zip(pair.turns, pair.calls, strict=True):
        runs = pair.model.collapse(call.ids)[0].count(pair.model.image_token)
        if runs != len(call.pictures):
            yield (
                f"turn {turn}: the sampler was given {len(call.pictures)} pictures for {runs} "
                "places"
            )
            return
        for number, (given, shown) in enumerate(
            zip(call.pictures, pair.playback.env.shown[call.seen - runs : call.seen], strict=True)
        ):
            if given.shape != shown.shape or (given != shown).any():
                yield f"turn {turn}: the sampler's picture {number} is another one than was shown"
                return
