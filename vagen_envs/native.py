"""What a model writes of its own beside a reply: tokens of its template, and thoughts between marks of its own.

Only the layout `untagged` sets it aside, where whatever stands before the first field is the thought. A reply keeps its
length, so that spans in what is read are spans in what was written.
"""

from __future__ import annotations

import re

from vagen_envs.tags import TagNames, tag_pattern

TOKENS = (
    r"<\|[A-Za-z0-9_ /]{1,40}\|>",  # most: <|im_end|>, <|eot_id|>, <|return|>, GLM's <|begin_of_box|>
    r"<｜[^<>｜]{1,40}｜>",  # DeepSeek's
    r"</?s>",  # Llama's, Mistral's
    r"\[/?INST\]",
    r"<(start_of_turn|end_of_turn|bos|eos|pad|unk|unused\d{1,4})>",  # Gemma's
    r"<\|?(channel|turn)\|?>",
    "[\u200b-\u200f\u202a-\u202e\u2060\ufeff]",  # characters without width
)
"""Tokens of templates, which a server leaves in a reply where it doesn't know them for special."""
THOUGHTS_END = (
    r"</(thinking|thought|seed:think|mm:think)>",
    r"\[/THINK\]",  # Mistral's
    r"◁/think▷",  # Kimi's
    r"<\|END_THINKING\|>",  # Cohere's
    r"<\|channel\|>final<\|message\|>",  # gpt-oss'
    r"<channel\|>",  # Gemma's
    r"<unused95>",
)
"""Where thoughts of models end whose mark for it isn't `</think>`."""
_TOKEN = re.compile("|".join(TOKENS))
_END = re.compile("|".join(THOUGHTS_END))


def set_aside(text: str, names: TagNames) -> str:
    """The reply with tokens of templates blank, and tags in a thought that has an end of its own as mere text.

    A thought often drafts an answer. It has ended where its mark stands, if an answer follows. Who calls a tag as a
    template calls a token means the tag.
    """
    end = next((mark for mark in _END.finditer(text) if mark[0].strip("</>") not in names), None)
    begun = -1 if end is None else text.find(f"<{names[-1]}>", end.end())
    if end is not None and begun >= 0 and text.find(f"</{names[-1]}>", begun) >= 0:
        thought = tag_pattern(names).sub(lambda tag: f"‹{tag[0][1:-1]}›", text[: end.end()])
        text = thought + text[end.end() :]
    return _TOKEN.sub(lambda token: token[0] if token[0].strip("</>") in names else " " * len(token[0]), text)
