"""Rows of other schemas: plain question and answer, LLaVA's conversations, Hugging Face data sets.

`columns` of `vagen/Sample-v0` names the column that each part of a sample is read from, as
`{"question": "prompt", "answer": "answer", "image": "images"}`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from vagen_envs.errors import SampleError, did_you_mean

PARTS = ("prompt", "images", "answer", "data_source", "ability", "verifier")
"""What a column may be read as."""

_SPEAKERS = {"human": "user", "gpt": "assistant", "system": "system"}
"""LLaVA's names of the roles of a chat message."""


def check_columns(columns: Mapping[str, str]) -> None:
    """Raise SampleError for a part that samples don't have, or one that is named twice."""
    for column, part in columns.items():
        if part not in PARTS:
            hint = did_you_mean(str(part), PARTS)
            raise SampleError(f"columns[{column!r}]={part!r} is not a part of a sample.{hint}")
    if len(set(columns.values())) < len(columns):
        raise SampleError(f"columns={dict(columns)!r} names a part twice; keep one column for each")
    if columns and "prompt" not in columns.values():
        raise SampleError(
            f"columns={dict(columns)!r} has no prompt; name the column of the question, as in "
            '{"question": "prompt"}'
        )


def sample_row(row: Any, columns: Mapping[str, str], source: str, where: str) -> dict[str, Any]:
    """The row in the schema of V-Triune's figure 9, from the columns of another schema.

    A prompt is a text, chat messages (`role` and `content`), or LLaVA's conversation (`from` and
    `value`). Where no column is the answer, it is the conversation's last reply; earlier ones stay
    in the prompt. Of a list of people's answers, as VQA has them, the most frequent one counts.

    Args:
        row: a mapping.
        columns: the row's column -> the part of a sample, one of `PARTS`.
        source: the `data_source` of rows that name none, such as the file's name.
        where: names the row in errors.

    Raises:
        SampleError: the row lacks a column other than that of the pictures, which LLaVA's rows
            without a picture lack, or has no answer.
    """
    if not isinstance(row, Mapping):
        raise SampleError(f"{where}: the row is {type(row).__name__}, not a mapping of columns")
    parts: dict[str, Any] = {"data_source": source, "ability": "vqa", "verifier": "mathverify"}
    for column, part in columns.items():
        if part == "images":
            parts[part] = row.get(column)
            continue
        if column not in row:
            has = ", ".join(map(str, row))
            raise SampleError(f"{where}: there is no column {column!r}; the row has {has}")
        parts[part] = row[column]
    messages, reply = _conversation(_messages(parts["prompt"], where))
    answer = _most_frequent(parts.get("answer"))
    if answer is None:
        answer = reply
    said = isinstance(answer, str | int) or (isinstance(answer, float) and math.isfinite(answer))
    if not said or not str(answer).strip():
        raise SampleError(
            f"{where}: answer={answer!r:.80} is not a text or a number; name the column of the "
            'answer, as in {"label": "answer"}'
        )
    reward = {
        "answer": str(answer),
        "ground_truth": str(answer),
        "accuracy_ratio": 1.0,
        "format_ratio": 0.0,
        "verifier": parts["verifier"],
    }
    images = parts.get("images")
    if images is not None and not isinstance(images, list | tuple):
        images = [images]
    return {
        "data_source": str(parts["data_source"]),
        "images": images or [],
        "prompt": messages,
        "ability": parts["ability"],
        "reward_model": reward,
    }


def _most_frequent(answer: Any) -> Any:
    """The most frequent of several people's answers; the first of them in a tie."""
    if not isinstance(answer, list | tuple):
        return answer
    given = [each.get("answer") if isinstance(each, Mapping) else each for each in answer]
    counts = Counter(each for each in given if isinstance(each, str | int | float))
    return counts.most_common(1)[0][0] if counts else answer


def _conversation(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Any]:
    """What is asked, and the last reply. A later question may be about an earlier answer, which
    becomes part of what is asked.
    """
    reply = None
    while messages and messages[-1].get("role") == "assistant":
        reply = messages.pop().get("content")
    for message in messages:
        if message.get("role") == "assistant":
            message.update(role="user", content=f"Answer: {message.get('content')}")
    return messages, reply


def _content(content: Any) -> Any:
    """The text of a message whose content is a list of parts; a picture's part says nothing."""
    if not isinstance(content, list | tuple):
        return content
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _messages(prompt: Any, where: str) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages = []
    for message in prompt if isinstance(prompt, list | tuple) else ():
        if isinstance(message, Mapping) and "from" in message:
            role = _SPEAKERS.get(message["from"], message["from"])
            messages.append({"role": role, "content": message.get("value")})
        elif isinstance(message, Mapping):
            messages.append({**message, "content": _content(message.get("content"))})
    if not messages:
        raise SampleError(
            f"{where}: prompt={prompt!r:.80} is neither a text nor a conversation; name another "
            "column as the prompt"
        )
    return messages
