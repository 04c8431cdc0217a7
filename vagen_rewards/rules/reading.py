"""Relations where things are out of English sentences about a board.

The reader walks over the tokens of a sentence once, keeps who is spoken of, and writes down a `Relation`
for each relation *between things*. Places on the board ("the player is at the top left") are no
relations (VAGEN, appendix D.1). Pure, total, linear in the text.
"""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re

from vagen_rewards.rules.board_places import base_of, column_first, places_of
from vagen_rewards.rules.front import Sentence, prepare
from vagen_rewards.rules.neighbours import Neighbour, neighbours_of
from vagen_rewards.rules.notation import rows, with_headings
from vagen_rewards.rules.nouns import NOTHING
from vagen_rewards.rules.paces import Pace, paces_of
from vagen_rewards.rules.relations import MAX_CLAIMS, Absence, Mention, Placed, Relation, Relations, is_side
from vagen_rewards.rules.sentence import Reader
from vagen_rewards.rules.simpler import simpler
from vagen_rewards.rules.spots import Spot, spots_of
from vagen_rewards.rules.words import Token, tokens
from vagen_rewards.scores import Span

MAX_SENTENCE = 600
"""Characters of a sentence that are read."""

_PARENTHESIS = re.compile(r"\([^()]{0,80}\)")

_FRONTED = re.compile(
    r",? and (?=(?:[a-z-]+ ){1,6}(?:of|from|to) (?:it|him|her),? (?:there )?(?:is|are|lies|stands|sits|rests)\b)"
    r"|, (?=(?:directly |immediately |just |and )?(?:(?:to|on) the (?:upper |lower |far )?(?:left|right)|above|below|beneath)"
    r"(?: [a-z]+){0,5}?,? (?:there )?(?:is|are|lies|stands|sits) (?:also |still )?(?:an?|another|one|two|three)\b)"
)
"""Before a clause of its own: "…, and above it there is a box", "…, to the right is a hole"."""

_SPLICED = re.compile(
    r", (?=(?:the|my|an?|another) (?:[a-z]+ ){1,2}?(?:is|are|lies|sits|stands|will be)\b(?! (?:of|that|which)\b))"
)
# what is said of cells that hold nothing
_FREE = re.compile(r"\b(?:(?<!in the )(?<!on the )(?<!of )ice(?! holes?)|safe|free|solid|walkable)\b")
_WITH_VERB = re.compile(r"\b(?:is|are|am|lies|sits|stands|be)\b")
_BOUND = re.compile(
    r"\b(?:from|where|if|when|since|as|after|before|relative|compared|because|while|although|with|which|who|that|not|no|once)\b"
)


def _parts_of(sentence: str) -> list[str]:
    """Its clauses, as far as they stand side by side without a word between."""
    if ", " not in sentence and " and " not in sentence and ";" not in sentence:
        return [sentence]
    found: list[str] = []
    if ";" in sentence:  # of Chinese
        return [part for piece in sentence.split(";") for part in _parts_of(piece)]
    for part in _FRONTED.split(sentence):
        start = 0
        for match in _SPLICED.finditer(part):
            before = part[start : match.start()]
            if _WITH_VERB.search(before) and not _BOUND.search(before):
                found.append(before)
                start = match.end()
        found.append(part[start:])
    return found


_POSSESSED = re.compile(r"\b(?:its|his|her|their) (?=(?:target|goal|box|crate|hole|destination)s?\b)")
_NEXT_CELL = re.compile(
    r"(?:(?P<cell>\b(?:cell|tile|square|space|spot) )|^)(?P<how>(?:directly|immediately|just|right) )?"
    r"(?P<way>above|below|beneath|(?P<side>(?:to|on) (?:the|my) (?:immediate )?(?:left|right)))(?= is an? )"
)
"""In "the tile below is a hole" it is directly below the player."""


def _of_me(said: re.Match[str]) -> str:
    how = said["how"] or ("directly " if said["cell"] else "")
    return f"{said['cell'] or ''}{how}{said['way']}{' of' if said['side'] else ''} me"


_COMPASS = re.compile(r"[nsew](?<!\w.)(?:(?<=[ns])[ew]|(?= (?:of|from)\b))(?![a-z'])")
_POINTS = {"n": "north", "s": "south", "e": "east", "w": "west"}


def _plainer(said: str) -> str:
    """With me for "my position", and where a side is of nothing, and the points of the compass in full."""
    if "(" in said:
        said = _PARENTHESIS.sub(" ", said)
    if "my " in said:
        said = _MY_PLACE.sub("me", said)
    if " it" in said or " h" in said or " their" in said:
        said = _POSSESSED.sub("the ", said)
    if " is a" in said:
        said = _NEXT_CELL.sub(_of_me, said)
    return _COMPASS.sub(lambda match: "".join(_POINTS[letter] for letter in match[0]), said)


_MY_PLACE = re.compile(r"\bmy (?:own |current |new )?(?:position|location|spot|cell|tile|place|square)\b")

Past = tuple[tuple[Mention, ...], tuple[Mention, ...]]
"""The subjects and objects of the sentences before, for "it" and "they"."""

_NO_PAST: Past = (NOTHING, NOTHING)


def read(board: str, text: str) -> Relations:
    """What a text says about a board of this kind (`"sokoban"`, `"frozen_lake"`)."""
    # 8,192 texts of at most 2,000 characters are 16 MB; longer ones aren't kept.
    return (_read_cached if len(text) <= 2000 else _read)(board, text)


def _read(board: str, text: str) -> Relations:
    prepared = prepare(board, text)
    claims: list[Relation] = []
    absences: list[Absence] = []
    unread, matters = [*prepared.left_out], [*prepared.matters]
    places: list[Span] = []
    absent: list[Span] = []
    placed: list[Placed] = []
    placed_at: list[Span] = []
    past = _NO_PAST
    lower = text.lower()
    base, turned = base_of(lower), column_first(lower)
    pieces = [(piece, span) for words, span in prepared.sentences for piece in rows(simpler(board, words))]
    if "|" in text:
        pieces = with_headings(pieces)
    neighbours: list[tuple[Neighbour, Span]] = []
    paces: list[tuple[Pace, Span]] = []
    spots: list[tuple[Spot, Span]] = []
    for number, (words, span) in enumerate(pieces):
        beside, at, lines, paces_here, uncounted, sentence = (
            _by_patterns
            if len(words) <= 500
            else _by_patterns.__wrapped__  # 16,384 pieces are 8 MB; longer ones aren't kept
        )(board, words, base, turned)
        neighbours += [(each, span) for each in beside]
        spots += [(each, span) for each in lines]
        paces += [(each, span) for each in paces_here]
        placed += at
        placed_at += [span] * len(at)
        if not sentence:
            continue
        found: list[Relation] = []
        none: list[Absence] = []
        clear = True
        left = -len(beside) - len(at)
        for part, clause in enumerate(_parts_of(sentence)):
            if beside and part and neighbours_of(board, clause):
                continue  # "…, to the right is a hole"
            one, newly, absent_here, known, more, looked_back, after = _read_sentence(board, clause, _NO_PAST)
            if looked_back and past == _NO_PAST:
                past = _before(board, prepared.every, span)
            if looked_back and past != _NO_PAST:
                one, newly, absent_here, known, more, _, after = _read_sentence(board, clause, past)
            past = (after[0] or past[0], after[1] or past[1])
            found += [_numbered(claim, 10 * number + part) for claim in one] if newly else one
            none += absent_here
            clear, left = clear and known, left + more
        claims += found
        absences += none
        places += [span] * len(found)
        absent += [span] * len(none)
        clear = (clear or bool(beside and not found)) and max(left, uncounted) <= 0
        if not (found or none or at or beside) or not clear:
            unread.append(span)
        if not clear:
            matters.append(span)
        if len(claims) > MAX_CLAIMS:
            break
    seen_from_player = {claim.other.kind for claim in claims} <= {"player"}
    spans = (*places, *absent, *placed_at)
    left_out = tuple(sorted({*unread})), tuple(matters)
    return Relations(
        tuple(claims),
        tuple(absences),
        *left_out,
        seen_from_player,
        spans,
        tuple(placed),
        tuple(neighbours),
        tuple(paces),
        tuple(spots),
    )


_read_cached = functools.lru_cache(maxsize=8192)(_read)


@functools.lru_cache(maxsize=16384)
def _by_patterns(
    board: str, words: str, base: int | None, turned: bool
) -> tuple[tuple[Neighbour, ...], tuple[Placed, ...], tuple[Spot, ...], tuple[Pace, ...], int, str]:
    """What patterns find in a piece of a text, how many counts none of them took, and the sentence that is left."""
    beside = neighbours_of(board, words)
    at, said = places_of(board, words.replace('"', "") if '"' in words else words, base, turned)
    lines, said = spots_of(board, said)
    paces, uncounted = paces_of(board, said)
    left = " ".join(_plainer(said).split())[:MAX_SENTENCE]
    return tuple(beside), tuple(at), tuple(lines), tuple(paces), uncounted, left


def _before(board: str, every: tuple[Sentence, ...], span: Span) -> Past:
    """What the sentences before told of, where they tell only a plan: "I have to reach the goal. It is above me"."""
    for said, at in reversed(every):
        if at < span:
            named = [token.value[0] for token in tokens(board, said) if token.kind == "thing"]
            kinds = [str(kind) for kind in named if kind != "player"]
            return ((Mention(kinds[-1], ""),), NOTHING) if len(set(kinds)) == 1 else _NO_PAST
    return _NO_PAST


def _numbered(claim: Relation, sentence: int) -> Relation:
    """Things newly spoken of in different sentences are different mentions."""
    subject, other = (_numbered_mention(each, sentence) if ":" in each.label else each for each in claim[:2])
    return claim._replace(subject=subject, other=other)


@functools.lru_cache(maxsize=4096)
def _numbered_mention(mention: Mention, sentence: int) -> Mention:
    return Mention(mention.kind, f"{mention.label}{sentence}")


@functools.lru_cache(maxsize=65536)
def _read_sentence(
    board: str, sentence: str, past: Past
) -> tuple[tuple[Relation, ...], bool, tuple[Absence, ...], bool, int, bool, Past]:
    """Claims, whether of things newly spoken of, absences, and whether all was understood.

    Then how many sides, boxes and targets are named of which nothing is claimed, whether the past was needed, and what
    the sentence leaves for the next one.
    """
    reader = Reader(_without_places(tokens(board, sentence)), *past)
    reader.run()
    _straighten(reader)
    newly = ":" in "".join([subject.label + other.label for subject, other, *_ in reader.claims])
    after = (reader.subjects, reader.objects)
    things = {token.value[0] for token in reader.words if token.kind == "thing"}
    named = things - {"player"}
    more = len([token for token in reader.words if is_side(token)]) - reader.used
    if things == {"player"} and not _FREE.search(sentence):
        more = 0  # where the player is on the board is no matter
    elif reader.claims or reader.absences:
        claimed = {kind for claim in reader.claims for kind in (claim.subject.kind, claim.other.kind)}
        more = max(more, 0) + len(named - {"hole"} - claimed)
    return tuple(reader.claims), newly, tuple(reader.absences), not reader.unknown, more, reader.looked_back, after


def _straighten(reader: Reader) -> None:
    """What is directly above is in the same column, unless "and to the left" follows."""
    for number in reader.straight:
        claim = reader.claims[number]
        alike = [each for each in reader.claims if each[:2] == claim[:2]]
        if all(each.horizontal is None for each in alike):
            reader.claims[number] = claim._replace(horizontal=0)
        elif all(each.vertical is None for each in alike):
            reader.claims[number] = claim._replace(vertical=0)


def _without_places(words: list[Token]) -> list[Token]:
    """Without what says nothing: "a floor cell" in "on a floor cell above the box" is no thing."""
    kept: list[Token] = []
    straight = False
    for each in words:
        token = each._replace(strict=True) if straight and each.kind in ("direction", "loose") else each
        straight = token.kind == "straight"
        if token.kind == "place":
            while kept and kept[-1].kind in ("word", "number"):
                kept.pop()
            if kept and kept[-1].kind in ("a", "the", "ordinal"):
                kept.pop()
        elif token.kind not in ("skip", "straight"):
            kept.append(token)
    return kept
