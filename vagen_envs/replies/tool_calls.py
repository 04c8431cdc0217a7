"""Actions in JSON and in tool calls."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vagen_envs.replies.vocabulary import (
    ARGUMENTS,
    BESIDE,
    CALLED,
    KEYS,
    MEASURES,
    RATINGS,
    SUREST,
    TIMES,
)

Span = tuple[int, int]

_CALL = re.compile(
    r"<(?P<tag>tool_call|function_call|tools?)>(?P<held>.*?)(?:</(?P=tag)>|\Z)"
    r"|(?P<function><function=.*?(?:</function>|\Z))|\[TOOL_CALLS\](?P<mistral>.*)"
    r"|<\|channel\|>commentary\b[^<]*?(?P<openai>to=functions\.\w+[^{\n]{0,80}<\|message\|>.*?)(?:<\||\Z)",
    re.DOTALL,
)
_FUNCTION = re.compile(r"""<function=\s*["']?([\w.-]+)|to=functions\.(\w+)""")
_PARAMETER = re.compile(r"""<parameter=\s*["']?([\w.-]+)["']?\s*>(.*?)</parameter>""", re.DOTALL)
_FENCE = re.compile(r"\A\s*```[\w+-]*\s*(.*?)\s*(?:```\s*)?\Z", re.DOTALL)
_NUMBERED = re.compile(r"(?:(?:action|move|step)s?)?\d+")
_MOST_TIMES = 20
_KNOWN = frozenset((*CALLED, *ARGUMENTS, *TIMES, *KEYS, *BESIDE, *RATINGS))
_MOST_OBJECTS = 16  # of JSON that are tried, so that time stays linear
_LONGEST_LITERAL = 4_000  # characters that Python's parser is given


def tool_call_reply(name: str, arguments: Mapping[str, Any] | str, text: str = "") -> str:
    """A reply for a call that an API gave in a field of its own, as text that the parser reads.

    Args:
        name: of the tool.
        arguments: a mapping, or JSON as OpenAI's API has it.
        text: what the model wrote beside the call.
    """
    if isinstance(arguments, str):
        arguments = _loaded(arguments)  # a broken call is the model's, and stays as it is
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"{text}\n<tool_call>{call}</tool_call>".lstrip()


def tool_call_spans(text: str) -> list[Span]:
    """Where the insides of calls in a text stand, in order."""
    return [match.span(str(match.lastgroup)) for match in _CALL.finditer(text)]


def json_spans(text: str) -> list[Span]:
    """Objects of JSON in a text, in order; at most some."""
    decoder = json.JSONDecoder()
    found: list[Span] = []
    end = 0
    for _ in range(_MOST_OBJECTS):
        if (start := text.find("{", end)) < 0:
            break
        try:
            _, end = decoder.raw_decode(text, start)
            found.append((start, end))
        except (ValueError, RecursionError):
            end = start + 1
    return found


def values(text: str, reads: Callable[[str], bool]) -> list[str] | None:
    """The actions that JSON, a Python literal or tool calls hold; `None` if the text is none of
    these.

    Args:
        text: an answer.
        reads: whether a text is an action.
    """
    if (fenced := _FENCE.match(text)) is not None:
        text = fenced[1]
    text = text.strip()
    calls = [text[slice(*span)] for span in tool_call_spans(text)]
    reader = _Reader(reads)
    held = [_of_call(call) for call in calls or [text]]
    if not calls and not isinstance(held[0], Mapping | list | tuple):
        return None
    try:
        return [action for each in held for action in reader.of(each)]
    except RecursionError:
        return []


def _of_call(text: str) -> Any:
    """What a call holds as an object with a name and arguments; else what a literal stands for."""
    function = _FUNCTION.search(text)
    if function is None:
        return _literal(text.strip())
    given: Any = {key: _loaded(value.strip()) for key, value in _PARAMETER.findall(text)}
    brace = text.find("{", function.end())
    if not given and brace >= 0:
        given = _loaded(text[brace : text.rfind("}") + 1])
    return {"name": function[1] or function[2], "arguments": given}


def _literal(text: str) -> Any:
    """What JSON or a Python literal in brackets stands for, `None` if the text is neither."""
    if not text or text[0] not in "{[(" or text[-1] not in "}])":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if len(text) > _LONGEST_LITERAL:
            return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Reader:
    """Finds the actions that a value of JSON holds, as texts.

    Where a number stands beside an action and doesn't plainly count it, the text isn't an action's
    either, so that the answer is unclear.
    """

    def __init__(self, reads: Callable[[str], bool]) -> None:
        self._reads = reads

    def of(self, value: Any) -> list[str]:
        """The actions of any value."""
        if isinstance(value, str):
            return [value]
        if isinstance(value, Mapping):
            return self._of_object(_with_plain_keys(value))
        return self.of_items(value) if isinstance(value, list | tuple) else []

    def of_items(self, items: Sequence[Any]) -> list[str]:
        """The actions of a list; none where it may weigh one item against another."""
        if any(map(_is_number, items)):
            return [str(items)]
        if len(items) > 1 and any(map(_is_judged, items)):
            return []
        return [text for item in items for text in self.of(item)]

    def _of_object(self, value: Mapping[str, Any]) -> list[str]:
        """The actions of an object: of a call, or of the surest key that holds some."""
        if any(held is False for held in value.values()):  # {"action": …, "valid": false}
            return []
        arguments: Any = next((value[key] for key in ARGUMENTS if key in value), {})
        arguments = _loaded(arguments) if isinstance(arguments, str) else arguments
        given = {**_with_plain_keys(arguments), **value}
        numbers = _numbers_in(given)
        name = _name_of(value)
        call = _written(name, arguments if isinstance(arguments, list) else numbers)
        if name and SUREST.isdisjoint(value) and self._reads(call):
            return [call] * _times(given)
        found = (self.of(arguments) if name else []) or self._of_keys(value)
        times = _times(given) if len(found) == 1 else 1
        return [_written(text, numbers) for text in found] * times

    def _of_keys(self, value: Mapping[str, Any]) -> list[str]:
        numbered = [held for key, held in value.items() if _NUMBERED.fullmatch(key)]
        if numbered:
            return [text for held in numbered for text in self.of(held)]
        if {"action", "direction"} <= value.keys() and not self._reads(str(value["action"])):
            return [f"{value['action']} {value['direction']}"]  # such as "move", "Up"
        for key in KEYS:
            if found := self.of(value.get(key)):
                return found
        return []


def _name_of(value: Mapping[str, Any]) -> str:
    return next((value[key] for key in CALLED if isinstance(value.get(key), str)), "")


def _with_plain_keys(value: Any) -> dict[str, Any]:
    held = value if isinstance(value, Mapping) else {}
    return {re.sub(r"[\s_-]", "", str(key)).casefold(): each for key, each in held.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_measure(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, str) and value.strip()[:1].isdigit())


def _numbers_in(value: Mapping[str, Any]) -> dict[str, Any]:
    """What counts or measures something that no known key names: `{"distance": 3}`."""
    return {
        key: held
        for key, held in value.items()
        if key in MEASURES or (key not in _KNOWN and (_is_measure(held) or _is_point(held)))
    }


def _is_point(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 1 and all(map(_is_number, value))


def _is_judged(item: Any) -> bool:
    """Whether one of several objects holds more than an action, such as a verdict on it."""
    value = _with_plain_keys(item)
    others = value.keys() - _KNOWN - _numbers_in(value).keys()
    return bool(others) or not RATINGS.isdisjoint(value)


def _times(value: Mapping[str, Any]) -> int:
    """How often an object's action is meant, 0 if its count has no sense."""
    count = next((value[key] for key in TIMES if _is_measure(value.get(key))), 1)
    return count if type(count) is int and 1 <= count <= _MOST_TIMES else 0


def _written(name: str, numbers: Mapping[str, Any] | Sequence[Any]) -> str:
    """An action with numbers, as a call."""
    if not numbers:
        return name
    if isinstance(numbers, Mapping):
        return f"{name}({', '.join(f'{key}={held}' for key, held in numbers.items())})"
    return f"{name}({', '.join(map(str, numbers))})"
