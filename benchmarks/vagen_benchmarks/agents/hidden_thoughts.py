"""Reasoning in a field of an endpoint's own, as the thought of a reply."""

from __future__ import annotations

from vagen_adapters.context import Message
from vagen_benchmarks.clients.base import Answer
from vagen_benchmarks.clients.models import Profile
from vagen_envs.config import EnvConfig
from vagen_envs.replies import tag_pattern
from vagen_envs.spaces import MAX_TEXT_LENGTH


def reply_of(answer: Answer, profile: Profile, config: EnvConfig) -> str:
    """The reply with the hidden reasoning as its thought, where that counts; shortened to what an
    action holds.
    """
    if not (profile.hidden and answer.reasoning):
        return _shortened(answer.text) if config.layout == "untagged" else answer.text
    tag = config.tags[0]
    room = MAX_TEXT_LENGTH - len(answer.text) - 2 * len(tag) - 8
    # Tags in a thought would be taken for the reply's own.
    thought = tag_pattern(config.tags).sub(lambda found: f"‹{found[0][1:-1]}›", answer.reasoning)
    if len(thought) > room:
        thought = f"{thought[: max(0, room)]}…"
    return f"<{tag}>{thought}</{tag}>{answer.text}"


def without_thoughts(messages: list[Message], profile: Profile, config: EnvConfig) -> list[Message]:
    """Messages without the thoughts that `reply_of` took from the endpoint's own field."""
    if not profile.hidden:
        return messages
    tag = config.tags[0]
    for message in messages:
        if message["role"] == "assistant" and message["content"].startswith(f"<{tag}>"):
            message["content"] = message["content"].partition(f"</{tag}>")[2].lstrip()
    return messages


def _shortened(text: str) -> str:
    """A reply whose thought stands before it: what is too long for an action loses the thought's
    middle.
    """
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    head = MAX_TEXT_LENGTH // 4
    return f"{text[:head]}…{text[head + 1 - MAX_TEXT_LENGTH :]}"
