"""Replies: from a model's text to a `ParsedTurn` and back.

`grammar` conducts. `tags` says where tags and thoughts stand, `answers` which answer counts,
`execution` reads its `actions`, in another dress than the prompt's by the `table` and `tool_calls`;
`others` finds answers in other forms, `turns` where the reply goes over into another's message.
`layouts` says what is wrong with the format. `reference` holds VAGEN's released parsers.
"""

from vagen_envs.replies.actions import (
    Action,
    ActionGrammar,
    Calls,
    FreeText,
    Names,
    Refused,
    call_text,
)
from vagen_envs.replies.answers import last_answer
from vagen_envs.replies.execution import Parsing
from vagen_envs.replies.grammar import (
    Grammar,
    NativeThinking,
    Reasoning,
    grammar_of,
)
from vagen_envs.replies.layouts import STRATEGIES, Layout, Strategy
from vagen_envs.replies.parsed import FORMAT_CODES, ParsedTurn, Problem
from vagen_envs.replies.tags import TAGS, TagNames, check_tags, tag_pattern
from vagen_envs.replies.tool_calls import tool_call_reply

__all__ = [
    "FORMAT_CODES",
    "STRATEGIES",
    "TAGS",
    "Action",
    "ActionGrammar",
    "Calls",
    "FreeText",
    "Grammar",
    "Layout",
    "Names",
    "NativeThinking",
    "ParsedTurn",
    "Parsing",
    "Problem",
    "Reasoning",
    "Refused",
    "Strategy",
    "TagNames",
    "call_text",
    "check_tags",
    "grammar_of",
    "last_answer",
    "tag_pattern",
    "tool_call_reply",
]
