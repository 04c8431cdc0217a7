"""What a sentence says of now, apart from plans, guesses, what was, and what is only said to be denied."""

# ruff: noqa: E501, SIM905  # long patterns, long lists of words

from __future__ import annotations

import re

from vagen_rewards.rules.heads import Phrases

HAS_TO = re.compile(r" (?:is to(?! (?:the|my|your|our|his|her|its|their|be (?:found|seen))\b)|ha(?:s|ve) to\b)")
_WHO = r"(?:i|we|you|(?:the |my |our )?(?:player|agent|robot|character|worker|elf|box|crate|plan|(?:goal|aim|objective|purpose)(?: of (?:the|this) (?:game|puzzle|level|task))?|task|next (?:step|move)|idea|best (?:move|step)))"
INTENT = re.compile(
    r"(?:,? ?\b(?:so|therefore|thus|hence|and so|and then|and|then|but|which means(?: that)?|because|since)\b,? *)?"
    r"(?:(?:^\s*|(?<=[.:,] ))(?:in order )?to (?!(?:the|my|your|its|his|her|their|me|left|right)\b)[a-z]+ [a-z' ]{2,60}?,? )?"
    rf"\b{_WHO}(?: now| then| just| only| still| first| will| also)*"
    r" (?:needs?|wants?|ha(?:ve|s) to|must|ought|should(?! (?:now |still |then |end up )?(?:be|find|see|have|rest|sit|stand|lie|remain|stay|end up|appear|show)\b)|plans?|intends?|aims?|tr(?:y|ies)"
    r"|(?:am|is|are) (?:going|planning|trying|about) to(?! be\b)|would like|c(?:ould|an)(?: then| also| now| safely)* (?:go|move|walk|step|head|travel|turn)|is to(?! (?:the|my|your|our|his|her|its|their|be (?:found|seen))\b))\b.*?(?=(?:the |my )?[a-z]+(?: [a-z]+)?, (?:which|that|who) (?:is|are|will be)\b|,? (?:since|because|as|so|meaning|and|but)(?: that)? (?:it|he|the [a-z]+) (?:is|are)\b|$)"
    r"|(?:,? ?\b(?:so|then|and then|and|therefore)\b,? *)?\b(?:let us|let me|let's)\b.*$"
)
"""A plan, to the end of its sentence."""

PLANNING = frozenset(
    "need needs want wants must ought should plan plans intend intends aim aims try tries going planning trying about would let can could".split()
)
"""No plan without one of these, or "is to": to look for a word is ten times as quick as to look for the pattern."""

DOUBT = Phrases(
    r"might|may|maybe|perhaps|possibly|probable|probably|presumably|supposedly|allegedly|potentially|conceivabl[ey]"
    r"|arguably|(?:un)?likely|unsure|unclear|uncertain|not (?:sure|certain|clear)"
    r"|(?<=\bi )(?:guess|suppose|suspect|wonder)|(?<=\bi would )(?:guess|suppose|suspect|wonder)|(?<=my )guess"
    r"|until(?! now| recently)|(?<=\bis )elsewhere|(?<=\bare )elsewhere|(?<=\bbe )elsewhere|hopefully"
    r"|(?:has|have|needs?) to (?:end up|be (?:at|on|in|to|above|below|left|right|north|south|east|west))|(?<=\bi )hope"
    r"|tends? to|imagin(?:e|ing)|pretend|hypothetically|chances? (?:is|are|that)|(?<=in )theory"
)
"""A guess at one thing. Alternatives ("above or below") are read, and are wrong."""

PAST = Phrases(
    r"last (?:turn|step|time|round|move)|previous (?:turn|step|state|move|frame|image|round)|previously"
    r"|formerly|earlier|(?:moment|turn|step|move|while)s? ago|used to|had been|until (?:now|recently)|back then"
    r"|before (?:that|my (?:last )?(?:move|push|action|turn|step)|(?:the|this|that) (?:last )?(?:move|push|action|turn|step))"
    r"|was|were|stood|sat|lay"
)
_BUT_NOW = re.compile(
    r"\b(?:was|were|had been|used to be|stood|sat|lay)\b.*?"
    r"(?=,? (?:(?:but|and|yet) )?(?:(?:it|they|he) )?(?:(?:is|are) )?(?:now|currently|at present)\b)"
    r"|^.*\b(?:last|previous) (?:turn|step|time|round|move)\b[^,]*, (?:and |but |so )?(?=now\b)"
)
_AS_BEFORE = re.compile(
    r",? (?:just |exactly )?(?:as|like) (?:(?:it|they|he) (?:was|were) )?(?:before|previously|in the (?:last|previous) [a-z]+)(?=[ ,]*$)"
)
SAID_TO_DENY = Phrases(
    r"(?:claim|statement|assertion|idea|notion|assumption|belief|suggestion|hypothesis|allegation|proposition|thought"
    r"|impression|rumou?r)s?\b.*\b(?:not|no|never|false|wrong|untrue|incorrect|fail\w*"
    r"|mistaken|inaccurate|refuted|rejected|outdated|invalid|contradict\w*|disput\w*|den(?:y|ied|ies)|reject\w*|refut\w*"
    r"|disagree\w*)"
    r"|(?:not|no longer|never) (?:hold|holds|apply|applies|true|so|the case)|any ?more"
    r"|fiction(?:al)?|imaginary|wrongly|falsely|mistakenly|incorrectly|erroneously|outdated|obsolete|refuted|debunked|hoax"
    r"|kidding|joking|dream(?:s|ed|ing|t)?|pretend(?:s|ed|ing)?|untrue|misread|misjudge(?:s|d|ment)?|mislead(?:s|ing)?"
    r"|nonsense"
)


def speaks_of_now(said: str, words: frozenset[str]) -> str:
    """What of a sentence with these words speaks of now; empty if nothing does."""
    if DOUBT.are_in(said, words) or SAID_TO_DENY.are_in(said, words):
        return ""
    if PAST.are_in(said, words):
        said = _AS_BEFORE.sub("", _BUT_NOW.sub("", said))
        if PAST.are_in(said, words):
            return ""
    return said


def is_only_past(said: str, words: frozenset[str]) -> bool:
    """Whether there is neither a guess nor a denial of what is claimed in a sentence that doesn't speak of now."""
    return not (DOUBT.are_in(said, words) or SAID_TO_DENY.are_in(said, words))
