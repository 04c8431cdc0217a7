"""The token sequences of an episode: what is read before a reply, and what is trained on.

A prompt and the sequence that is trained on are laid out by the same function from the same sampled
tokens, so that nothing is tokenised twice and what was sampled is what is trained on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.episodes import PlayedSummary, PPOEpisode, Step
from vagen_adapters.ppo.generation import Prompt
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.thoughts import shown_thoughts
from vagen_adapters.ppo.trajectories import NOT_SAMPLED


@dataclass(frozen=True, eq=False)
class TokenSequence:
    """Tokens with what is known of each.

    Attributes:
        prompt: all tokens and pictures.
        turn_ids: the number of the step, a turn or a summary, whose sampled token is trained on; -1
            elsewhere.
        logprobs: the log-probability of each such token when it was sampled, 0 elsewhere.
        ends_with_observation: whether the last tokens are an observation without a reply.
    """

    prompt: Prompt
    turn_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ends_with_observation: bool


def remembered(steps: Sequence[Step], now: int, context: ContextPolicy) -> Sequence[Step]:
    """The steps before step `now` that the model is shown: all, the latest turns (Verlog), or all
    since a summary.
    """
    if context.turns is not None:
        first = max(0, now - context.turns)
    else:
        first = now
        while first > 0 and not isinstance(steps[first - 1], PlayedSummary):
            first -= 1
    shown = steps[first:now]
    return [_brief(step) for step in shown] if context.answers else list(shown)


def _brief(step: Step) -> Step:
    """A turn as later prompts show it where they have its answer alone."""
    if isinstance(step, PlayedSummary) or step.brief is None:
        return step
    return replace(step, reply=step.brief)


def lay_out(
    history: Sequence[Step],
    present: Sequence[Step],
    last_shown: Shown | None,
    first_turn: int = 0,
    *,
    thoughts: int | None = None,
) -> TokenSequence:
    """One conversation of `history`, then `present`, then the observation `last_shown`.

    Args:
        history: turns that are read only.
        present: turns that are trained on.
        last_shown: an observation still without a reply, or None. One of the three must be there.
        first_turn: the turn id of the first of `present`.
        thoughts: of how many of the last of `history` the model's own thoughts are shown; None for
            all.
    """
    ids: list[int] = []
    turn_ids: list[int] = []
    logprobs: list[float] = []
    turns = [*history, *present]
    thoughtless = 0 if thoughts is None else max(0, len(history) - thoughts)
    shown = [turn.shown for turn in turns] + ([last_shown] if last_shown is not None else [])
    for number, observation in enumerate(shown):
        if number == 0:
            ids += observation.first_ids
        else:
            # An observation's tokens begin with the one that ends a reply; most replies have it
            # already.
            ids += observation.next_ids[1 if ids[-1] == observation.next_ids[0] else 0 :]
        if number < thoughtless:
            ids = ids[: len(ids) - observation.opens]
            ids += turns[number].reply.answer
        elif number < len(history):
            ids += turns[number].reply.ids
        turn_ids += [NOT_SAMPLED] * (len(ids) - len(turn_ids))
        logprobs += [0.0] * (len(ids) - len(logprobs))
        if len(history) <= number < len(turns):
            reply = turns[number].reply
            begin, end = reply.forced
            owners = [first_turn + number - len(history)] * len(reply.ids)
            owners[begin:end] = [NOT_SAMPLED] * (end - begin)
            ids += reply.ids
            turn_ids += owners
            logprobs += reply.logprobs
    return TokenSequence(
        Prompt(tuple(ids), tuple(shown)), tuple(turn_ids), tuple(logprobs), last_shown is not None
    )


def training_sequences(
    episode: PPOEpisode, context: ContextPolicy | None = None, *, with_end: bool = False
) -> list[TokenSequence]:
    """The sequences of an episode: one for the whole, one up to each summary, or one for each turn
    where later prompts leave out earlier turns or their thoughts.

    Together they hold every step's tokens once, each after what the sampler read before it.

    With `with_end`, a truncated episode's last sequence ends with the observation after it, whose
    value is what the rest of the episode would have been worth.
    """
    context = context or ContextPolicy()
    steps = episode.steps
    goes_on = episode.truncated and not episode.terminated
    end = episode.last_shown if with_end and goes_on else None
    forgets = context.reasoning != "keep" and any(step.shown.opens for step in steps)
    turn_by_turn = context.turns is not None or context.answers or forgets
    starts: list[int] = []
    for at in range(episode.first, len(steps)):
        follows_summary = isinstance(steps[at - 1], PlayedSummary)
        if at == episode.first or turn_by_turn or follows_summary:
            starts.append(at)
    sequences: list[TokenSequence] = []
    for start, stop in itertools.pairwise([*starts, len(steps)]):
        for_summary = isinstance(steps[start], PlayedSummary)
        sequence = lay_out(
            remembered(steps, start, context),
            steps[start:stop],
            end if stop == len(steps) else None,
            start,
            thoughts=shown_thoughts(context, for_summary=for_summary),
        )
        sequences.append(sequence)
    return sequences
