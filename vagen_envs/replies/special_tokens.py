"""Text that chat templates and keyboards add to a reply, replaced so that every character keeps its place.

Servers leave a template's tokens in a reply where they don't know them as special.
"""

from __future__ import annotations

import re

from vagen_envs.replies.vocabulary import TEMPLATES

_TOKEN = re.compile("|".join(TEMPLATES["tokens"]))
_ESCAPED = re.compile(r"&(?:lt|gt|quot|nbsp|#39);")
_CHARACTERS = {
    "&lt;": "<   ",
    "&gt;": ">   ",
    "&quot;": '"     ',
    "&nbsp;": "      ",
    "&#39;": "'    ",
}
_ASCII = {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}
"""Full-width forms, which Chinese and Japanese keyboards write."""
_ASCII |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212\ufe63"), "-") | {
    0x3000: " ",
    0xA0: " ",
}
_ASCII |= {  # mathematical letters, with which some models write bold text: each alphabet is A to Z and a to z
    0x1D400 + alphabet * 52 + letter: chr((65 if letter < 26 else 71) + letter)
    for alphabet in range(13)
    for letter in range(52)
}


def without_tokens(text: str, keep: tuple[str, ...] = ()) -> str:
    """The text with each token as blanks. A tag of one's own that looks like a token (`keep`) is no token."""
    return _TOKEN.sub(
        lambda token: token[0] if token[0].strip("</>") in keep else " " * len(token[0]), text
    )


def in_ascii(text: str) -> str:
    """The text with full-width forms, Unicode minus signs and HTML entities in ASCII."""
    if "&" in text:
        text = _ESCAPED.sub(lambda entity: _CHARACTERS[entity[0]], text)
    return text if text.isascii() else text.translate(_ASCII)
