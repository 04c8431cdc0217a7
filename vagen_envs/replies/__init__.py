"""Replies: from a model's text to a `ParsedTurn` and back.

`grammar` conducts: `answer` finds the answer between the format's tags, `execution` reads it.
`tags` says where tags and thoughts stand, `turns` what stands beside an answer, `layouts` what is
wrong with the format. An answer in another form is found by `untagged`. `table` reads an answer by
its tokens, `tool_calls` reads JSON and calls. `reference` holds VAGEN's released parsers.
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
from vagen_envs.replies.answer import last_answer
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
