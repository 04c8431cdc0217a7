"""Words beside an answer that take it back."""

from __future__ import annotations

import re

from vagen_envs.replies.vocabulary import VERDICTS

_NEAR = 60  # characters on either side that are read

_REJECTED_AFTER = re.compile(
    r"[\s\"'`)*_.,;:–—-]*(?:\?|(?:but|no|nope|not|wait|hmm+|hm|however|oops|scratch|never ?mind|instead|or|isn't|"
    r"won't|can't|cannot|wouldn't|leads? (?:to|into)|hits?|actually|sorry|"
    r"(?:is|was|would be|looks|seems|that'?s|that (?:is|would be)|this (?:is|would be)) "
    rf"(?:a |an |too |so |very |also )?(?:{'|'.join(VERDICTS)}|not|error|example|out))\b)",
    re.IGNORECASE,
)
_REJECTED_BEFORE = re.compile(
    r"(?:\b(?:not|never|avoid(?:ed|ing|s)?|skip(?:ped|ping)?|refus\w+|dismiss\w+|"
    r"instead of|rather than|reject(?:ed|ing)?|rejects?|don't|won't|can't|shouldn't|"
    r"wouldn't|considered|thought (?:about|of)|tempted(?: by)?|could|might|maybe|perhaps|either|or|wrong|example|"
    r"e\.g\.|unlike|ruled out|discard(?:ed)?|was|like|format(?: is)?)\b|\bno\b[,:]?)"
    r"(?:[\s:,\"'`(*_-]+(?:be|choose|do|say|use|write|answer|go|with|output|was|is|to|as)){0,2}[\s:,\"'`(*_-]*\Z"
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
