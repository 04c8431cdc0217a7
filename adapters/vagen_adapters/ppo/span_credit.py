"""Words that are paid for themselves: a sentence's tokens by its own truth, all others by the task.

With one advantage for all tokens of a turn, what a reply says about the world drifts with what its actions earn: on
FrozenLake's proof grounding fell from 0.79 to 0.68 in two rollouts, whatever the reward for reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import Episode, TokenSequence
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.trajectories import NOT_SAMPLED
from vagen_envs import Turn
from vagen_rewards.credit import Words
from vagen_rewards.scores import PARTS


@dataclass(frozen=True, eq=False)
class Judged:
    """What a score may say of a turn: the turn with its rewards, and which of its words are true."""

    turn: Turn
    words: tuple[Words, ...]


def credit_words(
    advantages: Advantages,
    sequences: Sequence[TokenSequence],
    episodes: Sequence[Episode],
    encoder: ChatEncoder,
) -> tuple[Advantages, dict[str, float]]:
    """The same advantages, but of the words of observations and predictions those of their own truth.

    The truths of a part are centred and scaled to variance 1 over the batch's tokens; words of which nothing was read
    have none. All of a reply that a gate keeps out, as those of wrong format, counts as false.

    Args:
        advantages: (B, L) of the task.
        sequences: the B rows.
        episodes: of each row.
        encoder: of the model that wrote them.

    Returns:
        The advantages, and for the log the mean truth of each part.
    """
    dense = advantages.advantages
    spoken = [_spoken(encoder, sequence, episode) for sequence, episode in zip(sequences, episodes, strict=True)]
    told: dict[str, float] = {}
    for part in PARTS:
        words, read = torch.zeros_like(advantages.mask), torch.zeros_like(advantages.mask)
        truths = torch.zeros_like(dense)
        for row, of_row in enumerate(spoken):
            for column, begin, field in of_row:
                if field.part == part:
                    words[row, column] = True
                    for (start, end), truth in field.truths:
                        if start <= begin < end:
                            truths[row, column], read[row, column] = truth, True
        if read.any():
            of_part = truths[read]
            told[f"credit/{part}"] = float(of_part.mean())
            # Where all are alike the difference is 0, and stays it whatever it is divided by.
            truths[read] = (of_part - of_part.mean()) / of_part.std(correction=0).clamp(min=1e-4)
        dense = torch.where(words, truths, dense)
    return replace(advantages, advantages=dense), told


def _spoken(encoder: ChatEncoder, sequence: TokenSequence, episode: Episode) -> list[tuple[int, int, Words]]:
    """The tokens of a row that are words: the column, where in its reply it begins, and the field that it is in."""
    return [
        (sequence.turn_ids.index(turn) + place, begin, field)
        for turn in sorted(set(sequence.turn_ids) - {NOT_SAMPLED})
        if (played := episode.steps[turn]).words
        for place, begin in enumerate(encoder.begins(played.reply.ids))
        for field in played.words
        if field.span[0] <= begin < field.span[1]
    ]
