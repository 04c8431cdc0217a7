"""Replies of a model that thinks before them, between the marks of its family.

Thoughts are sampled and trained as all else; the environment is given what comes after them. Where
they reach their budget they are closed, by tokens that weren't sampled and aren't trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.generation import Prompt, SampledReply, Sampler, SampleSettings
from vagen_envs import Turn
from vagen_envs.seeding import HashStream


def sample_replies(
    sampler: Sampler,
    encoder: ChatEncoder,
    prompts: Sequence[Prompt],
    sampling: SampleSettings,
    seeds: Sequence[int],
) -> list[SampledReply]:
    """As `Sampler.sample`, with at most `max_thinking_tokens` of thoughts before each reply."""
    if not sampling.max_thinking_tokens:
        return sampler.sample(prompts, sampling, seeds)
    thinking = replace(
        sampling, max_tokens=sampling.max_thinking_tokens, stop_id=encoder.thought_end_id
    )
    replies = [_closed(each, encoder) for each in sampler.sample(prompts, thinking, seeds)]
    open_ones = [row for row, each in enumerate(replies) if each.thoughts == len(each.ids) > 0]
    if not open_ones:
        return replies
    answers = sampler.sample(
        [Prompt((*prompts[row].ids, *replies[row].ids), prompts[row].shown) for row in open_ones],
        sampling,
        [HashStream("answer", seeds[row]).bits(48) for row in open_ones],
    )
    for row, answer in zip(open_ones, answers, strict=True):
        replies[row] = _joined(replies[row], answer, encoder)
    return replies


def shown_thoughts(context: ContextPolicy, *, for_summary: bool) -> int | None:
    """Of how many of the latest replies a prompt shows the thoughts; None for all of them.

    Args:
        context: says whether they are kept, as in benchmarks.
        for_summary: whether the prompt asks for a summary, which no observation came before.
    """
    if context.reasoning == "keep":
        return None
    return int(context.reasoning == "turn" and for_summary)


def brief_reply(encoder: ChatEncoder, turn: Turn, tag: str) -> SampledReply:
    """A turn's reply reduced to its answer, as a context with `answers` shows it later."""
    text = f"<{tag}>{turn.parsed.answer or ''}</{tag}>"
    ids = (*encoder.tokenizer(text, add_special_tokens=False)["input_ids"], encoder.end_id)
    return SampledReply(ids, (0.0,) * len(ids))


def _closed(thoughts: SampledReply, encoder: ChatEncoder) -> SampledReply:
    """Thoughts that are closed, unless the model has ended its whole reply within them."""
    ids = thoughts.ids
    logprobs = thoughts.logprobs
    if not ids:
        return thoughts
    if ids[-1] == encoder.end_id:
        return SampledReply(ids, logprobs, thoughts=len(ids) - 1)
    if ids[-1] == encoder.thought_end_id:
        return SampledReply(ids, logprobs, thoughts=len(ids))
    whole = (*ids, *encoder.closing_ids)
    zeros = (0.0,) * len(encoder.closing_ids)
    return SampledReply(whole, (*logprobs, *zeros), len(whole), (len(ids), len(whole)))


def _joined(thoughts: SampledReply, answer: SampledReply, encoder: ChatEncoder) -> SampledReply:
    """Thoughts and the answer after them; white space at its beginning separates the two."""
    space = 0
    while space < len(answer.ids) and encoder.read(answer.ids[space : space + 1]).isspace():
        space += 1
    return replace(
        thoughts,
        ids=(*thoughts.ids, *answer.ids),
        logprobs=(*thoughts.logprobs, *answer.logprobs),
        thoughts=thoughts.thoughts + space,
    )
