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
from logging import Formatter
from string import Template
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

SHORTEST_SECRET = 6
"""Characters. A shorter value is a word such as `box`, which a local server may take as its key."""
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

_known: dict[str, str] = {}
"""Values of secrets in every form in which text may hold them, with their names."""


def redact(text: str) -> str:
    """Text with each known secret replaced by its name in brackets."""
    found = [form for form in tuple(_known) if form in text]
    for form in sorted(found, key=len, reverse=True):
        text = text.replace(form, f"[{_known[form]}]")
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
            _known.update(dict.fromkeys(_forms(part), name))


def note_environment() -> None:
    """Redact the keys that the environment holds now, and the passwords of its proxies."""
    for name, value in os.environ.items():
        if _OF_ENVIRONMENT.search(name):
            note_secret(name, value)
        elif _PROXIES.search(name):
            note_url(value)


def note_url(url: str | None) -> None:
    """Redact what a URL holds beside its address: a password, and parameters other than a
    version.
    """
    try:
        parts = urlsplit(url or "")
    except ValueError:  # no URL, which whoever uses it says
        return
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    for held in dict.fromkeys((password, unquote(password))):
        note_secret("password of the URL", held)
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


def _forms(value: str) -> set[str]:
    """A value as it stands in text, in JSON, in JSON within JSON, in Python's source, in a URL and
    on a page.
    """
    once = {value, quote(value, safe=""), html.escape(value), repr(value)[1:-1]}
    for _ in range(2):
        once |= {
            json.dumps(form, ensure_ascii=ascii_)[1:-1] for form in once for ascii_ in (False, True)
        }
    return once
