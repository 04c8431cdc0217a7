"""Actions in JSON and in tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vagen_envs.replies.vocabulary import (
    ARGUMENTS,
    BESIDE,
    CALLED,
    KEYS,
    RATINGS,
    SUREST,
    TIMES,
)

Span = tuple[int, int]
Reads = Callable[[str], bool]
"""Says whether a text is an action."""

_CALL = re.compile(
    r"<(?P<tag>tool_call|function_call|tools?)>(?P<held>.*?)(?:</(?P=tag)>|\Z)"
    r"|(?P<function><function=.*?(?:</function>|\Z))",
    re.DOTALL,
)
_FUNCTION = re.compile(r"""<function=\s*["']?([\w.-]+)""")
_PARAMETER = re.compile(r"""<parameter=\s*["']?([\w.-]+)["']?\s*>(.*?)</parameter>""", re.DOTALL)
_FENCE = re.compile(r"```[\w+-]*")
_MOST_TIMES = 20
_KNOWN = frozenset((*CALLED, *ARGUMENTS, *TIMES, *KEYS, *BESIDE, *RATINGS))
_MOST_OBJECTS = 16  # of JSON that are tried, so that time stays linear


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


def find_calls(text: str) -> list[re.Match[str]]:
    """The calls in a text, in order; the last group of each is what the call holds."""
    return list(_CALL.finditer(text))


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


def values(text: str, reads: Reads) -> list[str] | None:
    """The actions that JSON or tool calls hold; `None` if the text is anything else, too."""
    text = _FENCE.sub("", text)
    calls = [call[str(call.lastgroup)] for call in find_calls(text)]
    if calls and _CALL.sub("", text).strip():
        return None
    found = [_of_call(call) for call in calls or [text]]
    held = [value for value in found if isinstance(value, Mapping | list)]
    if not calls and not held:
        return None
    try:
        return _in_list(held, reads)
    except RecursionError:
        return []


def _of_call(text: str) -> Any:
    """What a call holds, as an object with a name and arguments where it isn't JSON."""
    function = _FUNCTION.search(text)
    if function is None:
        return _loaded(text)
    given = {key: _loaded(value.strip()) for key, value in _PARAMETER.findall(text)}
    return {"name": function[1], "arguments": given}


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _in(value: Any, reads: Reads) -> list[str]:
    """The actions of any value, as texts.

    Where a number stands beside an action and doesn't plainly count it, the text isn't an action's
    either, so that the answer is unclear.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return _in_object(_with_plain_keys(value), reads)
    return _in_list(value, reads) if isinstance(value, list) else []


def _in_list(items: Sequence[Any], reads: Reads) -> list[str]:
    """The actions of a list; none where it may weigh one item against another."""
    if any(map(_is_number, items)):
        return [str(items)]
    if len(items) > 1 and any(map(_is_judged, items)):
        return []
    return [text for item in items for text in _in(item, reads)]


def _in_object(held: Mapping[str, Any], reads: Reads) -> list[str]:
    """The actions of an object: of a call, or of the surest key that holds some."""
    if any(value is False for value in held.values()):  # {"action": …, "valid": false}
        return []
    arguments: Any = next((held[key] for key in ARGUMENTS if key in held), {})
    given = {**_with_plain_keys(arguments), **held}
    numbers = _numbers_in(given)
    name = next((held[key] for key in CALLED if isinstance(held.get(key), str)), "")
    call = _written(name, arguments if isinstance(arguments, list) else numbers)
    if name and SUREST.isdisjoint(held) and reads(call):
        found = [call]
    else:
        texts = (_in(arguments, reads) if name else []) or _in_keys(held, reads)
        found = [_written(text, numbers) for text in texts]
    return found * _times(given) if len(found) == 1 else found


def _in_keys(held: Mapping[str, Any], reads: Reads) -> list[str]:
    if {"action", "direction"} <= held.keys() and not reads(str(held["action"])):
        return [f"{held['action']} {held['direction']}"]  # such as "move", "Up"
    found = (_in(held.get(key), reads) for key in KEYS)
    return next(filter(None, found), [])


def _with_plain_keys(value: Any) -> dict[str, Any]:
    held = value if isinstance(value, Mapping) else {}
    return {re.sub(r"[\s_-]", "", str(key)).casefold(): each for key, each in held.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_measure(value: Any) -> bool:
    if isinstance(value, list):  # a point
        return len(value) > 1 and all(map(_is_number, value))
    return _is_number(value) or (isinstance(value, str) and value.strip()[:1].isdigit())


def _numbers_in(held: Mapping[str, Any]) -> dict[str, Any]:
    """What counts or measures something that no known key names: `{"distance": 3}`."""
    return {key: value for key, value in held.items() if key not in _KNOWN and _is_measure(value)}


def _is_judged(item: Any) -> bool:
    """Whether one of several objects holds more than an action, such as a verdict on it."""
    held = _with_plain_keys(item)
    others = held.keys() - _KNOWN - _numbers_in(held).keys()
    return bool(others) or not RATINGS.isdisjoint(held)


def _times(held: Mapping[str, Any]) -> int:
    """How often an object's action is meant, 0 if its count has no sense."""
    count = next((held[key] for key in TIMES if _is_measure(held.get(key))), 1)
    return count if type(count) is int and 1 <= count <= _MOST_TIMES else 0


def _written(name: str, numbers: Mapping[str, Any] | Sequence[Any]) -> str:
    """An action with numbers, as a call."""
    if not numbers:
        return name
    if isinstance(numbers, Mapping):
        return f"{name}({', '.join(f'{key}={held}' for key, held in numbers.items())})"
    return f"{name}({', '.join(map(str, numbers))})"
