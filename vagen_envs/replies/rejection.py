"""Words beside an answer that take it back."""

from __future__ import annotations

import re

from vagen_envs.replies.vocabulary import AFTER_REJECTED, BEFORE_REJECTED, WORDS

_NEAR = 60  # characters on either side that are read

_REJECTED_AFTER = re.compile(
    rf"[\s\"'`)*_.,;:–—-]*(?:\?|(?:{'|'.join(AFTER_REJECTED)}|"
    r"(?:is|was|would be|looks|seems|that'?s|that (?:is|would be)|this (?:is|would be)) "
    rf"(?:a |an |too |so |very |also )?(?:{'|'.join(WORDS.verdict)}|not|error|example|out))\b)",
    re.IGNORECASE,
)
_REJECTED_BEFORE = re.compile(
    rf"(?:\b(?:{'|'.join(BEFORE_REJECTED)})\b|\bno\b[,:]?)"
    r"(?:[\s:,\"'`(*_-]+(?:be|choose|pick|select|take|do|say|use|write|answer|go|with|output|was|is|to|as)){0,2}[\s:,\"'`(*_-]*\Z"
    r"|\b(?:wrong|bad|incorrect) (?:answer|action|move)\b[^.\n<]{0,20}\Z",
    re.IGNORECASE,
)


def leads_to_rejection(text: str) -> bool:
    """Whether a text ends with words that reject what follows."""
    return _REJECTED_BEFORE.search(text) is not None


def is_taken_back(text: str, start: int, end: int) -> bool:
    """Whether the words before or after `text[start:end]` reject it."""
    after = _REJECTED_AFTER.match(text, end, end + _NEAR)
    return after is not None or leads_to_rejection(text[max(0, start - _NEAR) : start])
