"""Actions in JSON and in tool calls."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from vagen_envs.replies.vocabulary import BESIDE, KEYS

Span = tuple[int, int]

_CALL = re.compile(
    r"<(?:tool_call|function_call|function_calls|tools?)>(.*?)"
    r"(?:</(?:tool_call|function_call|function_calls|tools?)>|\Z)"
    r"|(<function=.*?(?:</function>|\Z))|(<invoke\b.*?(?:</invoke>|\Z))"
    r"|<\|tool_call(?:_begin)?\|>(.*?)(?:<\||\Z)|\[TOOL_CALLS\](.*)|<\|python_tag\|>(.*)"
    r"|<\|channel\|>commentary\b[^<]*?(to=functions\.\w+[^{\n]{0,80}<\|message\|>.*?)(?:<\||\Z)",
    re.DOTALL,
)
_FUNCTION = re.compile(
    r"""<function=\s*["']?([\w.-]+)|<invoke\s+name=\s*["']?([\w.-]+)"""
    r"|to=functions\.(\w+)|\A\s*([\w.-]+)\s*(?=<arg_key>)"
)
_PARAMETER = re.compile(
    r"""<parameter=\s*["']?([\w.-]+)["']?\s*>(.*?)</parameter>"""
    r"""|<parameter\s+name=["']([\w.-]+)["']\s*>(.*?)</parameter>"""
    r"|<arg_key>\s*([\w.-]+)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>",  # GLM's
    re.DOTALL,
)
_FENCE = re.compile(r"\A\s*```[\w+-]*\s*(.*?)\s*(?:```\s*)?\Z", re.DOTALL)
_SUREST = ("final", "selected", "chosen", "best")  # before a key's name
_NUMBERED = re.compile(r"(?:(?:action|move|step)s?)?\d+")
_VERBS = frozenset({"move", "go", "step", "push", "walk"})  # `{"action": "move", "direction": …}`
_NAMES = (
    "name",
    "function",
    "tool",
    "function_name",
    "tool_name",
    "action",
    "action_name",
    "skill",
    "type",
)
_ARGUMENTS = ("arguments", "parameters", "args", "input", "kwargs", "params", "action_input")
_TIMES = ("times", "count", "repeat", "repetitions", "n", "num_steps", "steps")
_MEASURES = frozenset(
    ("distance", "magnitude", "movemagnitude", "meters", "metres", "degrees", "angle", "amount")
)
_MOST_TIMES = 20
_MOST_DEPTH = 8
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
    """Where calls in text stand, in order."""
    return [match.span(match.lastindex or 0) for match in _CALL.finditer(text) if match.lastindex]


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


def values(text: str, reads: Callable[[str], bool], depth: int = 0) -> list[str] | None:
    """The actions that JSON, a Python literal or a tool call holds; `None` if the text is none of
    these.

    Args:
        text: an answer.
        reads: whether a text is an action.
        depth: of calls within calls.
    """
    if (fenced := _FENCE.match(text)) is not None:
        text = fenced[1]
    text = text.strip()
    calls = [text[slice(*span)] for span in tool_call_spans(text)]
    if calls and calls != [text]:
        inner = [values(call, reads, depth + 1) or [] for call in calls if depth < _MOST_DEPTH]
        return [action for actions in inner for action in actions]
    if (function := _FUNCTION.search(text)) is not None:
        return _from_parameters(function, text, reads)
    value = _literal(text)
    if isinstance(value, dict):
        return _from_dict(value, reads, 0)
    held = (str, dict, list, tuple)
    if isinstance(value, list | tuple) and value and all(isinstance(item, held) for item in value):
        return _from_any(value, reads, 0)
    return None


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


def _from_parameters(function: re.Match[str], text: str, reads: Callable[[str], bool]) -> list[str]:
    name = next(filter(None, function.groups()))
    given: dict[str, Any] = {}
    for match in _PARAMETER.finditer(text):
        key, value = (group for group in match.groups() if group is not None)
        given[key] = _loaded(value.strip())
    brace = text.find("{", function.end())
    if not given and brace >= 0:
        given = _loaded(text[brace : text.rfind("}") + 1])
    return _from_dict({"name": name, "arguments": given}, reads, 0)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _from_any(value: Any, reads: Callable[[str], bool], depth: int) -> list[str]:
    if depth >= _MOST_DEPTH:
        return []
    if isinstance(value, str):
        inner = _loaded(value) if value.strip()[:1] in ("{", "[") else value
        return [value] if isinstance(inner, str) else _from_any(inner, reads, depth + 1)
    if isinstance(value, dict):
        return _from_dict(value, reads, depth + 1)
    items = value if isinstance(value, list | tuple) else ()
    if len(items) > 1 and any(map(_is_judged, items)):
        return []
    return [text for item in items for text in _from_any(item, reads, depth + 1)]


def _is_judged(item: Any) -> bool:
    """Whether one of several objects holds more than an action, such as a verdict on it."""
    if not isinstance(item, Mapping):
        return False
    named = {*_NAMES, *_ARGUMENTS, *_TIMES}
    extra = [key for key in map(str, item) if key not in named and _rank(key) is None]
    return any(
        _plain_key(key) not in BESIDE and not _is_number(item.get(key)) for key in extra
    ) or (any(_plain_key(key) in ("score", "probability", "confidence", "value") for key in extra))


def _from_dict(value: Mapping[Any, Any], reads: Callable[[str], bool], depth: int) -> list[str]:
    """The actions of an object: of a call, of the surest key that holds some, or named by its only
    key.
    """
    if any(held is False for held in value.values()):  # {"action": …, "valid": false}
        return []
    found = _from_names(value, reads, depth)
    given = {**_arguments(value), **value}
    measure = next((key for key in given if _plain_key(key) in _MEASURES), None)
    if measure is None or any(map(str.isdigit, "".join(found))):
        return found
    # An action that takes no number isn't plainly the same with one: left to be unclear.
    return [f"{text}({measure}={given[measure]})" for text in found]


def _arguments(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The named arguments of an object that is a call."""
    held: Any = next((value[key] for key in _ARGUMENTS if key in value), {})
    held = _loaded(held) if isinstance(held, str) else held
    return held if isinstance(held, Mapping) else {}


def _from_names(value: Mapping[Any, Any], reads: Callable[[str], bool], depth: int) -> list[str]:
    for key in _NAMES:
        name = value.get(key)
        if isinstance(name, Mapping):  # {"function": {"name": …, "arguments": …}}
            return _from_any(name, reads, depth + 1)
        if isinstance(name, str) and (found := _from_call(key, name, value, reads, depth)):
            return found
    found = _from_keys(value, reads, depth)
    if found:
        return found
    if len(value) == 1:
        ((key, held),) = value.items()
        if isinstance(held, list | Mapping) and reads(_written(str(key), held)):
            return [_written(str(key), held)]
    return []


def _from_keys(value: Mapping[Any, Any], reads: Callable[[str], bool], depth: int) -> list[str]:
    """The actions that an object holds under numbers, or under the surest key that holds some."""
    numbered = [held for key, held in value.items() if _NUMBERED.fullmatch(_plain_key(key))]
    if numbered:
        return [text for held in numbered for text in _from_any(held, reads, depth + 1)]
    ranked = {
        rank: held
        for key, held in reversed([*value.items()])
        if (rank := _rank(key)) is not None and not _is_verb(key, value, reads)
    }
    for rank in sorted(ranked):
        found = _from_any(ranked[rank], reads, depth + 1)
        if found:
            return found * (_times(value) if len(found) == 1 else 1)
    return []


def _from_call(
    key: str, name: str, value: Mapping[Any, Any], reads: Callable[[str], bool], depth: int
) -> list[str]:
    """The actions of an object that names a function: itself one, or among its arguments."""
    arguments = next((value[other] for other in _ARGUMENTS if other in value), None)
    if arguments is None:
        arguments = {other: given for other, given in value.items() if _is_number(given)}
    arguments = _loaded(arguments) if isinstance(arguments, str) else arguments
    for text in (_written(name, arguments), name):
        if reads(text):
            return [] if _has_surer(key, value) else [text] * _times({**_arguments(value), **value})
    if isinstance(arguments, Mapping) and not all(map(_is_number, arguments.values())):
        only = [held for held in arguments.values() if isinstance(held, str | list)]
        found = _from_dict(arguments, reads, depth + 1)
        return found or (_from_any(only[0], reads, depth + 1) if len(only) == 1 else [])
    if isinstance(arguments, list | str) and arguments:
        return _from_any(arguments, reads, depth + 1)
    return []


def _has_surer(key: str, value: Mapping[Any, Any]) -> bool:
    """Whether an object has another key that holds its answer more surely than this one."""
    own = _rank(key)
    return own is not None and any(
        (rank := _rank(other)) is not None and rank < own for other in value
    )


def _is_verb(key: Any, value: Mapping[Any, Any], reads: Callable[[str], bool]) -> bool:
    """Whether this key holds the verb whose object another key has: `{"action": "move",
    "direction": …}`.
    """
    held = str(value[key]).casefold()
    return _plain_key(key) == "action" and len(value) > 1 and held in _VERBS and not reads(held)


def _plain_key(key: Any) -> str:
    return re.sub(r"[\s_-]", "", str(key)).casefold()


def _rank(key: Any) -> int | None:
    """How surely a key holds the answer, 0 most; `None` if it holds something else, as `choices`
    does.
    """
    plain = _plain_key(key)
    if plain.startswith(_SUREST) and any(plain.endswith((key, f"{key}s")) for key in KEYS):
        return 0
    plain = plain.removeprefix("next").removeprefix("my")
    if plain in KEYS:
        return KEYS.index(plain)
    if plain.removesuffix("s") in KEYS and plain != "choices":
        return len(KEYS) + KEYS.index(
            plain.removesuffix("s")
        )  # a list may be of all that are possible
    return None


def _written(name: str, arguments: Any) -> str:
    if isinstance(arguments, Mapping):
        given = [f"{key}={value}" for key, value in arguments.items() if key not in _TIMES]
        return f"{name}({', '.join(given)})"
    if isinstance(arguments, list | tuple):
        return f"{name}({', '.join(map(str, arguments))})"
    return name


def _times(value: Mapping[Any, Any]) -> int:
    count = next((value[key] for key in _TIMES if _is_number(value.get(key))), 1)
    return count if type(count) is int and 1 <= count <= _MOST_TIMES else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
