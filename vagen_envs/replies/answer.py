"""Which answer of a reply executes: the last complete one it gives after its thinking has ended.

Answers within thoughts, within other fields and within code (unless nothing else is there) are
quotes or drafts, and so is an answer that is a part of a sentence. What follows a complete reply as
a made-up next turn isn't read at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vagen_envs.replies.tagged import View, pairs_of
from vagen_envs.replies.tags import TAGS, Tag, TagNames, find_tags, in_ascii
from vagen_envs.replies.thinking import Span, Thinking, blanked, code_spans
from vagen_envs.replies.turns import Ending, end_of_reply
from vagen_envs.replies.untagged import Candidates, untagged_answers
from vagen_envs.replies.vocabulary import THINKING_TAGS


class Found(NamedTuple):
    """The parts of a reply that would execute.

    Attributes:
        tagged: groups of answers between the format's own tags, to be read one after the other; the
            first group that holds an action executes.
        untagged: answers in other forms, where none is tagged.
        tags: the tags of the reply, without those of a made-up next turn.
        thinking: its thoughts.
        end: where the reply ends and a made-up next turn begins.
        fields_from: where the fields that belong to the answer begin.
        differ: complete answers, drafts included, differ.
        empty: an answer between the format's tags without anything in it, where that is all there
            is.
        unclear: an answer that the words beside it take back, where nothing else executes.
    """

    tagged: Sequence[Sequence[Span]]
    untagged: Candidates
    tags: list[Tag]
    thinking: Thinking
    end: int
    fields_from: int
    differ: bool
    empty: Span | None
    unclear: Span | None


def find_answers(text: str, names: TagNames, *, loosely: bool) -> Found:
    """Find what a reply would execute.

    Args:
        text: the reply.
        names: what the tags are called.
        loosely: also take answers in other forms: other tags, tool calls, JSON, a label, the bare
            actions.
    """
    tags = find_tags(text, names)
    end, doubtful = _ending(text, names, tags)
    text = text[:end]
    tags = [tag for tag in tags if tag.end <= end]
    code = code_spans(text)
    view = View.of(text, tags, names, [*code, *_stray_close(text, names)])
    groups = view.tagged() or view.at_the_end_of_a_thought()
    if not groups and code:
        bare = View.of(text, tags, names, ())
        if found := bare.tagged():
            view = bare
            groups = found
    pairs = view.told()
    if doubtful is not None and view.differ(filter(view.is_meant, pairs), doubtful):
        groups = []
    others = Candidates()
    if loosely and not groups and not pairs and view.thinking.open_from is None:
        original = blanked(in_ascii(text), [*view.thinking.spans, *view.shields])
        others = untagged_answers(original, blanked(view.said, view.shields), code)
    return _found(view, groups, others, tags, end)


def _found(
    view: View, tagged: list[list[Span]], others: Candidates, inside: list[Tag], end: int
) -> Found:
    """What was found, with what it says of the other answers."""
    pairs = view.told()
    first = tagged[0][0][0] if tagged else 0
    earlier = [pair.closed.start for pair in pairs if pair.closed.start < first]
    complete = [pair for pair in pairs_of(inside) if not view.is_placeholder(pair)]
    unread = view.pairs()[0] if not tagged else []
    return Found(
        tagged,
        others,
        inside,
        view.thinking,
        end,
        fields_from=max(earlier, default=0),
        differ=view.differ(complete),
        empty=unread[-1].span if unread and not pairs else None,
        unclear=pairs[-1].span if pairs and not tagged else None,
    )


def _ending(text: str, names: TagNames, tags: Sequence[Tag]) -> Ending:
    """Where a reply ends, by what follows its first complete answer."""
    closed = next((tag.end for tag in tags if tag.name == "answer" and tag.closes), None)
    if closed is None or end_of_reply(text, closed, ()) == (len(text), None):
        return Ending(len(text), None)
    view = View.of(text, tags, names, code_spans(text))
    pairs = view.told()
    if not pairs:
        return Ending(len(text), None)
    return end_of_reply(text, pairs[0].closed.end, view.thinking.spans)


def _stray_close(text: str, names: TagNames) -> list[Span]:
    """A thought's closing tag at the end of the answer that ends the reply:
    `<answer>Up</think></answer>`.
    """
    called = "|".join(map(re.escape, [names[0], *THINKING_TAGS]))
    stray = re.search(rf"</(?:{called})>(?=\s*</{re.escape(names[-1])}>\s*\Z)", text, re.IGNORECASE)
    return [stray.span()] if stray else []


def last_answer(text: str, names: TagNames = TAGS) -> str | None:
    """The text of the answer that would execute, stripped; `None` if no answer stands between
    tags.
    """
    found = find_answers(text, names, loosely=False)
    return text[slice(*found.tagged[0][-1])].strip() if found.tagged else None
