"""Demonstrations under policies of memory: scripted play with the summaries that a model would
write of it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym

from vagen_adapters.context import ContextPolicy, summary_request
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import PlayedSummary, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply
from vagen_envs import Turn
from vagen_envs.core import Observation
from vagen_envs.navigation.state import NavigationState, words

_METRES = re.compile(r"\d+ m")
SIDES = ("ahead", "right", "behind", "left")
"""By quarters turned to the right."""


def summary_of(turns: Sequence[Turn]) -> str:
    """The knowledge that a Navigation episode's pictures give so far: where the object is now, or
    where it isn't.

    An object that was in a picture is placed relative to the robot as it stands after the last
    action; of one that wasn't in any, the sides that were looked at are named. No other environment
    has summaries.
    """
    now = turns[-1].after
    if not isinstance(now, NavigationState):
        raise TypeError(
            f"summaries are written of Navigation's episodes only, not of {turns[-1].env_id}"
        )
    name, looked = words(now.target_type), set[str]()
    for turn in turns:
        before: Any = turn.before
        if any(kind == now.target_type for kind, _, _ in before.visible_objects):
            side = SIDES[("ahead", "right", "back", "left").index(now.target_direction)]
            return f"I saw the {name}, now it is {side}, {round(now.target_distance)} m away."
        looked.add(SIDES[(before.turned - now.turned) % 4])
    return (
        f"I look for the {name}, not seen yet, looked "
        f"{', '.join(side for side in SIDES if side in looked)}."
    )


def true_summaries(episodes: Sequence[PPOEpisode], encoder: ChatEncoder) -> dict[str, float]:
    """`true_summaries`: the share of summaries that say what `summary_of` says, metres aside; empty
    without any.
    """
    same = [
        _METRES.sub("", encoder.read(summary.reply.ids))
        == _METRES.sub("", summary_of([played.turn for played in episode.turns[:number]]))
        for episode in episodes
        for number, summary in episode.summaries.items()
    ]
    return {"true_summaries": sum(same) / len(same)} if same else {}


def read_under(
    episode: PPOEpisode, context: ContextPolicy, encoder: ChatEncoder, system_prompt: str
) -> tuple[PPOEpisode, ContextPolicy]:
    """The episode as it would have been read and written under the policy: `summary:K` adds
    summaries.
    """
    due = [number for number in range(1, len(episode.turns)) if context.summarises_before(number)]
    if not due:
        return episode, context
    request = summary_request(context)
    turns, summaries = list(episode.turns), dict[int, PlayedSummary]()
    for number in due:
        text = summary_of([played.turn for played in turns[:number]])
        ids = (*encoder.tokenizer(text, add_special_tokens=False)["input_ids"], encoder.end_id)
        summaries[number] = PlayedSummary(
            encoder.show("", {"text": request}), SampledReply(ids, (0.0,) * len(ids))
        )
        waited = Observation(turns[number].turn.observed.text, None)
        seen = context.in_prompt(waited, number, earlier=False, summaries={number: text})
        shown = turns[number].shown
        observation = {
            "text": seen.text,
            **({"image": shown.pictures[0]} if shown.pictures else {}),
        }
        turns[number] = replace(
            turns[number], shown=encoder.show(system_prompt, observation, shown.state)
        )
    return replace(episode, turns=turns, summaries=summaries), context


def texts_of_summaries(
    env_id: str, options: Mapping[str, Any], context: ContextPolicy, levels: int
) -> Iterator[str]:
    """Requests and summaries in an oracle's play of training levels, for a tokenizer to learn
    from.
    """
    if context.summary is None:
        return
    with contextlib.closing(gym.make(env_id, split="train", **options)) as env:
        core: Any = env.unwrapped
        for seed in range(levels):
            env.reset(seed=seed)
            turns, over = list[Turn](), False
            while not over:
                _, _, terminated, truncated, info = env.step(core.oracle_reply())
                turns.append(info["turn"])
                over = terminated or truncated
                waited, number = Observation("", None), context.summary * len(turns)
                yield summary_request(context)
                yield context.in_prompt(
                    waited, number, earlier=False, summaries={number: summary_of(turns)}
                ).text
