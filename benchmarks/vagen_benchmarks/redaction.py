"""Keys are never written or printed: whatever was given as one is replaced by its name, wherever it
turns up.

Secrets are known by value. `note_…` functions take them in where they are given; `redact` is called
where text comes from outside (`clients.responses`, `runs.playing`), where files are written
(`runs.run_folder`) and where something is printed (`commands.printing`).
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from logging import Formatter
from string import Template
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST_SECRET = 6
"""Characters. A shorter value is a word such as `box`, which a local server may take as its key."""
SHORTEST_PACKED = 8
"""Characters of base64. What is shorter may stand in any other."""
LONGEST_WORD = 15
"""Letters. A value of so many letters alone may be a word of a prompt, such as `observation`."""
_OF_ENVIRONMENT = re.compile(
    r"(^|_)(API_?KEY|KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION)_?\d*$",
    re.IGNORECASE,
)
"""Names of environment variables that hold keys."""
_PROXIES = re.compile(r"(?i)_proxy$")
_OF_FIELD = re.compile(
    r"(?i)((api|access|auth|private|secret|subscription|account)?[-_ ]?key|token|secret|"
    r"passw(or)?d|passphrase|credentials?|authorization|auth|cookie|bearer|signature|jwt)$|api_?key|secret|password|header"
)
"""Names of fields that hold keys. `max_tokens` and `prompt_cache_key` aren't among them."""
_NO_SECRET = re.compile(r"(?i)cache_?key$")
_REFERENCE = re.compile(r"\$(\w+|\{\w+\})")
_SCHEME = re.compile(r"(?i)^(bearer|basic|token|key|apikey)\s+")


@dataclass(frozen=True)
class _Secret:
    """A value that is looked for.

    Attributes:
        name: that stands in its place.
        anchor: characters that each match of `pattern` holds, in lower case: without them it isn't
            tried, which takes a tenth of the time. Empty where it has none.
        pattern: of all that it may be written as.
    """

    name: str
    anchor: str
    pattern: re.Pattern[str]


_known: dict[str, list[_Secret]] = {}
"""Secrets by their values, the longest first: one may be part of another."""


def redact(text: str) -> str:
    """Text with each known secret replaced by its name in brackets."""
    lower = text.lower()
    for secrets in _known.values():
        for each in secrets:
            if each.anchor in lower:
                text = each.pattern.sub(lambda _, name=each.name: f"[{name}]", text)  # type: ignore[misc]
    return text


def redacted(value: Any) -> Any:
    """JSON with `redact` applied to every string in it, names included."""
    return json.loads(redact(json.dumps(value)))


def note_secret(name: str, value: str) -> None:
    """Redact a value from now on under this name, and the parts that a header such as `Bearer KEY`
    has.
    """
    for part in dict.fromkeys((value, _SCHEME.sub("", value), *value.split())):
        if part not in _known and _is_secret(part):
            _known[part] = list(_forms(name, part))
            by_length = sorted(_known.items(), key=lambda item: len(item[0]), reverse=True)
            _known.clear()
            _known.update(by_length)


def note_environment() -> None:
    """Redact the keys that the environment holds now, and the passwords of its proxies."""
    for name, value in os.environ.items():
        if _OF_ENVIRONMENT.search(name):
            note_secret(name, value)
        elif _PROXIES.search(name):
            note_url(value)


def note_url(url: str | None) -> None:
    """Redact what a URL holds beside its address: a user, a password, and parameters other than a
    version.
    """
    try:
        parts = urlsplit(url or "")
    except ValueError:  # no URL, which whoever uses it says
        return
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    note_secret("user of the URL", unquote(user))  # some take a key there
    note_secret("password of the URL", unquote(password))
    if password:
        pair = f"{unquote(user)}:{unquote(password)}"
        note_secret("password of the URL", base64.b64encode(pair.encode()).decode())
    for name, value in parse_qsl(parts.query):
        if "version" not in name:
            note_secret(f"{name} of the URL", value)


def note_headers(headers: Mapping[str, str]) -> None:
    """Redact the values of headers, as they are sent."""
    for name, value in headers.items():
        note_secret(f"header {name}", value)


def filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request with `$NAME` in secret ones replaced from the environment; all that is
    secret is redacted.

    Raises:
        KeyError: a variable isn't set.
    """
    return {name: _filled(value, name) for name, value in fields.items()}


def _filled(value: Any, name: str, secret: bool = False) -> Any:
    secret = secret or _is_secret_field(name)
    if isinstance(value, Mapping):
        return {each: _filled(inner, each, secret) for each, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, name, secret) for inner in value]
    if not (secret and isinstance(value, str)):
        return value
    value = Template(value).substitute(os.environ) if _REFERENCE.search(value) else value
    note_secret(f"extra {name}", value)
    return value


def withheld(value: Any, name: str = "", secret: bool = False) -> Any:
    """Fields of a request as a protocol stores them: secrets by their names, references to
    variables as they are.
    """
    secret = secret or _is_secret_field(name)
    if isinstance(value, Mapping):
        return {each: withheld(inner, each, secret) for each, inner in value.items()}
    if isinstance(value, list):
        return [withheld(inner, name, secret) for inner in value]
    hides = secret and isinstance(value, str) and value and not is_reference(value)
    return f"{WITHHELD} {name}" if hides else value


WITHHELD = "withheld:"
"""Begins what stands for a secret in a protocol."""


def withheld_names(value: Any) -> Iterator[str]:
    """The names of the fields that `withheld` has hidden."""
    if isinstance(value, str) and value.startswith(WITHHELD):
        yield value.removeprefix(WITHHELD).strip()
    inner = value.values() if isinstance(value, Mapping) else value
    for each in inner if isinstance(value, Mapping | list) else ():
        yield from withheld_names(each)


def is_reference(value: str) -> bool:
    """Whether a value is a variable of the environment and nothing else, such as `Bearer $NAME`."""
    return _REFERENCE.fullmatch(_SCHEME.sub("", value)) is not None


def traceback_of(error: BaseException) -> str:
    """A traceback without secrets."""
    return redact("".join(traceback.format_exception(error)))


class RedactingFormatter(Formatter):
    """Formats log records without secrets."""

    def format(self, record: Any) -> str:
        return redact(super().format(record))


def _is_secret_field(name: str) -> bool:
    return bool(_OF_FIELD.search(name)) and not _NO_SECRET.search(name)


def _is_secret(value: str) -> bool:
    """Whether a value is long and mixed enough not to be a word or a number of everyday text."""
    if value.isalpha():
        return len(value) > LONGEST_WORD
    has_letter = any(each.isalpha() for each in value)
    return len(value) >= SHORTEST_SECRET and (has_letter or len(value) > LONGEST_WORD)


def _forms(name: str, value: str) -> Iterator[_Secret]:
    """A value as text may hold it: each character as it is, as JSON, URLs, pages and Python's
    source write it, in any case; and the whole in hexadecimal and within text in base64.
    """
    runs = re.findall("[a-z0-9]+", value.lower())
    longest_run = max(runs, key=len, default="")
    pattern = "".join(map(_written, value))
    yield _Secret(name, longest_run, re.compile(pattern, re.IGNORECASE))
    data = value.encode("utf-8", "surrogatepass")
    for packed in (data.hex(), *_in_base64(data)):
        yield _Secret(name, packed.lower(), re.compile(re.escape(packed), re.IGNORECASE))


def _written(char: str) -> str:
    """A pattern of the forms of a character. Letters and digits of ASCII are taken to be written
    as they are.
    """
    if char.isascii() and char.isalnum():
        return char
    data = char.encode("utf-8", "surrogatepass")
    in_json = json.dumps(char)[1:-1], repr(char)[1:-1]
    on_pages = html.escape(char), f"&#{ord(char)};", f"&#x{ord(char):x};", f"&#x{ord(char):02x};"
    in_urls = "".join(f"%{byte:02x}" for byte in data), char.replace(" ", "+")
    forms = {*in_urls, *in_json, *on_pages, char}
    # JSON within JSON has more backslashes, and some write `\\/`.
    plain = {form.lstrip("\\") or "\\" for form in forms}
    escaped = rf"u{ord(char):04x}" if ord(char) < 1 << 16 else ""
    options = sorted({*plain, escaped} - {""}, key=len, reverse=True)
    patterns = [re.escape(option).replace(r"\\", r"\\+") for option in options]
    return rf"(?:\\|%5c)*(?:{'|'.join(patterns)})"


def _in_base64(data: bytes) -> Iterator[str]:
    """What stands in base64 of any text that holds the data: it may begin at any of three places
    within a group of characters.
    """
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data)
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        own = whole[first:last]
        if len(own) >= SHORTEST_PACKED:
            yield from dict.fromkeys((own.decode(), own.translate(_URL_SAFE).decode()))


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
