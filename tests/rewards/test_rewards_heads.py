"""With which words a pattern may begin."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_rewards.rules.heads import Phrases, branches_of, heads_of
from vagen_rewards.rules.patterns import BOARDS, alternatives
from vagen_rewards.rules.words import tokens


@pytest.mark.parametrize(
    ("pattern", "words", "single"),
    [
        ("left|right(?:ward|wards)?", {"left", "right", "rightward", "rightwards"}, True),
        (r"(?:to the )?(?:up|down)[ -]?left", {"to", "up", "down", "upleft", "downleft"}, False),
        (r"(?<=is )over(?=,)", {"over"}, False),
        (r"hole\d+|\d+ cells", {"hole", ""}, False),
        (r"claims?\b.*\bnot", {"claim", "claims"}, False),
        (r"gr[ae]y", {"gray", "grey"}, True),
    ],
)
def test_heads(pattern, words, single):
    assert heads_of(pattern) == (words, single)


@pytest.mark.parametrize("pattern", ["[a-z]+ one", r"\w+", ".x", "(?:ab)+"])
def test_what_may_begin_with_any_word_has_no_heads(pattern):
    with pytest.raises(ValueError, match="any"):
        heads_of(pattern)


def test_branches_are_the_outermostalternatives():
    assert branches_of(r"a(?:b|c)|[|(]|\(|d") == ["a(?:b|c)", "[|(]", r"\(", "d"]


MEANS = {
    **dict.fromkeys(("copula", "is"), "is"), **dict.fromkeys(("also", "and"), "and"), "article": "the", "loose": "direction",
    **dict.fromkeys(("particle", "absolute", "distance", "unit"), "skip"), **dict.fromkeys(("scenery", "verb"), "word"),
    **dict.fromkeys(("me", "player", "box", "target"), "thing"), "my": "owner_of",
    **dict.fromkeys(("near", "beside", "aligned", "same", "diagonal", "horizontal", "preposition", "vertical"), "direction"),
}  # fmt: skip
"""What kind of token a pattern of this name makes."""

WORDS = sorted({word for board in BOARDS for _, each in alternatives(board) if each.isalpha() for word in [each]})


@given(st.lists(st.sampled_from([*WORDS, "the", "left", "of", "box", "glimmer", "2", ","]), max_size=12))
def test_each_token_is_what_its_first_fitting_pattern_says(words):
    """Read word by word as by all patterns in their order."""
    sentence = " ".join(words)
    every = [(kind, re.compile(rf"\b(?:{way})(?![^\W_])")) for kind, way in alternatives("sokoban")]
    at, kinds = 0, []
    while at < len(sentence):
        found = next(((k, m) for k, way in every if (m := way.match(sentence, at)) and m.end() > at), None)
        if sentence[at] == ",":
            kinds.append("comma")
        elif found:
            kinds.append(found[0])
        at = found[1].end() if found else at + 1
    read = [MEANS.get(token.kind, token.kind) for token in tokens("sokoban", sentence)]
    assert read == [MEANS.get(kind, kind) for kind in kinds]


def test_phrases_are_found_where_a_word_with_which_one_begins_stands():
    guess = Phrases(r"not (?:sure|certain)|(?<=\bi )guess|perhaps")
    for said, there in (("i guess so", True), ("they guess so", False), ("not so sure", False), ("perhaps", True)):
        assert guess.are_in(said, set(said.split())) is there
