"""What a word or phrase of a sentence about a board may be: a table of patterns, tried in its order.

A board's vocabulary says which nouns are things. Everything else is the same for every board.
"""

# ruff: noqa: E501  # a table of patterns, one a line

from __future__ import annotations

import functools

from vagen_rewards.rules.heads import branches_of, heads_of
from vagen_rewards.rules.lexicon import nouns, pattern_of
from vagen_rewards.rules.modality import DENIALS, DOUBTS

BOARDS = ("sokoban", "frozen_lake")
_SPOT = "(?:locations?|positions?|spots?|points?|cells?|squares?|tiles?|places?|areas?|zones?|pads?|markers?)"
_FINAL = rf"(?:final|end|desired|intended|designated|required|finishing|winning|drop-off|docking|dock) {_SPOT}"


def _names_of(kind: str, phrases: list[str]) -> str:
    """What the things of a kind go by, with the words that may go with them ("the robot's figure", "goal tile")."""
    names = pattern_of(phrases)
    if kind == "player":
        figure = "character|figure|avatar|token|icon|sprite|piece"
        before = "human|robot|player|little|main|game|cartoon"
        return (
            rf"(?:(?:{before}) (?=player|agent|person|man|worker|robot|{figure}))?(?:{names})(?:(?:'s)? (?:{figure}))?"
        )
    if kind == "target":
        return rf"(?:{names})(?: {_SPOT})?|{_FINAL}"
    if kind == "hole":
        return rf"(?:{names})(?: (?:cell|tile|square)s?)?(?: in the (?:ice|ground|floor|lake|grid))?"
    return names


BOARD_NOUNS: dict[str, dict[str, str]] = {
    board: {kind: _names_of(kind, phrases) for kind, phrases in nouns(board).items()} for board in BOARDS
}
"""Regular expressions of the names that the things of a board go by."""

_UNITS = "rows?|columns?|cells?|tiles?|steps?|squares?|spaces?|units?|moves?|blocks?|positions?"
_ATTRIBUTE = (
    r"(?:with|bearing|carrying|showing|marked (?:with|by)) (?:the|an?|some) "
    r"(?!(?:box|crate|target|goal|player|agent|hole|gift|robot|character)\b)[a-z]+(?: [a-z]+)?"
    r" (?:on|in|at|through|across|inside) (?:it|top|its [a-z]+)"
)
"""What a thing looks like: "the box with the cross on it"."""

_MARKING = (
    r"(?:circle|dot|spot|square|tile|mark|marker|cell|place|area|symbol|icon|cross|(?:red|green|yellow|orange|white|blue|dark|round) one)"
    r" (?:(?:that|which) (?:marks|shows|represents|indicates|denotes|is)|marking|showing|representing|indicating) (?:the|our|a)"
    r"(?= [a-z]+\b)"
)
"""In "the circle that marks the target" the target is meant."""

_UNIT = r"(?:rows?|columns?|cells?|tiles?|steps?|squares?|spaces?|units?|blocks?|positions?|places?|spots?)"
_COUNT = r"(?:one|two|three|four|five|six|seven|\d+|an?|a single|a few|a couple of|several|some|many)"
_DISTANCE = rf"{_COUNT} (?:single |more |grid |floor |full )?{_UNIT}(?: (?:or|and/or) {_UNIT})?(?: (?:away(?! from)|over(?! (?:the|an?|it|me|my)\b)|apart|distant|further|farther))?"
"""In "two rows above" the rows are no things."""

_BOARD = r"(?:board|grid|map|room|image|picture|screen|lake|puzzle|level|scene|frame|field|view)"
_EDGE = r"(?:left|right|top|bottom|upper|lower|north|south|east|west|far|very|outer)(?:ern|most|hand|-hand)?(?:[- ](?:left|right))?"
_ABSOLUTE = (
    rf"(?:from|against|by|near|at|to|along|towards?|on|in) (?:the )?(?:{_EDGE} )+(?:walls?|borders?|boundary)(?: of the {_BOARD})?"
    rf"|(?:in|at|on|near|to|towards?) (?:the )?(?:{_EDGE} )+(?:row|column|half|part|corner|side|quarter|quadrant|edge|section|area|region|end)? ?of the {_BOARD}"
)
"""Places on the board are no relations."""

_SIDE = r"(?:(?:to|on|at|in|from|towards?) )?(?:the )?(?:(?:immediate|direct|far|immediately|directly) )?"
_END = r"(?:[ -]?hand)?(?: (?:side|part|corner|direction|end|edge))?(?P<{name}_of> (?:of|from|than|to(?= (?:the|me|it|both|a)\b)))?"

PATTERNS: tuple[tuple[str, str], ...] = (
    ("skip", rf"{_ATTRIBUTE}|{_MARKING}|" r"(?<=is )over(?=,)|(?<=are )over(?=,)|" r"fac(?:e|es|ed|ing) (?:up|down|left|right|north|south|east|west)(?:ward|wards)?(?! of)|on the (?:floor|ground|ice)|a (?:little|bit)|(?:first|most|after|best|above) (?:of )?all(?=,)|^right(?= (?:to|at|on|north|south|east|west|left)\b)|(?<!my )(?<!'s )right(?= (?:above|below|under|beneath|underneath|next|on|at|in|here|now|over|beside)\b)|left over|(?:show|turn|pop|come|light)(?:s|ed|ing)? up|as (?:the|a|our|my) (?:reference|origin|cent(?:er|re)|starting)(?: point)?|from here|from where (?:i|we) (?:am|are|stand)|from what (?:i|we) (?:can )?(?:see|tell)|as far as (?:i|we) can (?:see|tell)|of course|in the (?:image|picture|frame|screenshot|scene|grid|map|board|view)|(?:right|over|out|up|down) there|(?:rows?|columns?|cells?|tiles?|steps?) (?:or|and/or) (?:rows?|columns?|cells?|tiles?|steps?)|(?:one|two|three|\d+) (?:or|to) (?:more|two|three|four|\d+)"),
    ("absolute", _ABSOLUTE),
    ("distance", _DISTANCE),
    ("purpose", r"(?<!going )(?<!expected )(?<!sure )to (?:reach|get to|arrive at|go to|come to|land on|end up (?:at|on)|be (?:at|on))"),
    ("almost", r"almost|nearly|close to being|about to be|virtually"),
    ("same", r"(?:(?:shares?|sharing) (?:a|the|one|its|their)|in (?:one|a single)) (?P<shared>row|column)(?: (?:as|with|of))?|(?:(?:on|at|in|to|into|shares?|sharing) )?(?:the |a )?(?:exact(?:ly)? |very )?same (?P<same_what>row|column|col|(?:horizontal|vertical)(?: line| level)?|position|place|location|spot|cell|tile|square|point)(?: (?:as|with|of))?"),
    ("aligned", r"(?:in line|aligned|level|lined up) (?P<aligned_how>horizontally|vertically)(?: (?:with|to))?|(?P<how_aligned>horizontally|vertically) (?:aligned|in line|level|lined up)(?: (?:with|to))?|level with"),
    ("frame", r"if(?= (?:the |a |this |that )?[a-z' ]{1,40} (?:taken|used|chosen|considered|treated) as)|(?:as )?(?:seen |viewed |looking )?from|taking|using|look(?:s|ing)? at|relative to|(?:with|in) (?:respect|regards?|reference|relation|comparison) (?:to|with)|compared (?:to|with)|measured from"),
    ("onto", r"on top of|(?:covered|occupied|reached|overlapped|taken|filled) by|(?:exactly |just |right )?where(?= (?:the |an? |its )?[a-z]+(?: [a-z]+)? (?:is|are|was|stands|lies|sits)\b)|(?:has |have |will have )?(?:got|gotten|come|made it) to|(?:will |has )?(?:land|lands|landed|landing) on|(?:at|in|to) the (?:position|location|place|spot|cell|tile) of|(?:has |have |will )?(?:reach(?:es|ed)?|arriv(?:e|es|ed|ing) (?:at|on)|coincides? with|overlaps?(?: with)?|occup(?:y|ies)|get(?:s)? to|fall(?:s|en)? in(?:to)?|cover(?:s|ed)?)|onto|into|at|on|in|inside"),
    ("diagonal", _SIDE + r"(?:diagonally )?(?:(?P<dv>up(?:per)?|top|above|down|low(?:er)?|bottom|below)[ -]*(?P<dh>left|right)|(?P<cv>north|south)[ -]?(?P<ch>west|east))(?:ern)?" + _END.format(name="d")),
    ("horizontal", _SIDE + r"(?P<h>left|right|west|east)(?:ward|wards|ern|most)?" + _END.format(name="h")),
    ("preposition", r"(?P<p>above|below|under|underneath|beneath|over)(?: of)?"),
    ("vertical", r"(?:(?:to|on|at|in) )?(?:the )?(?P<v>north|south|up|down|overhead|higher|lower|top|bottom|upwards?|downwards?|upper)(?:ward|wards|ern|most)?(?: (?:side|part|end|position|row|level|place|spot|corner|edge|half))?(?P<v_of> (?:of|from|than))?"),
    ("between", r"(?:in )?between"),
    ("near", r"(?:diagonal(?:ly)?(?: adjacent)? (?:to|from)|on (?:the )?(?:opposite|different) sides of|in line with|aligned with|lined up with|in front of|behind|next to|adjacent to|beside|besides|near(?: to)?|nearby to|close to|touching|touches|around|facing|away from|by)"),
    ("hedge", DOUBTS + r"|any|(?:on |at )?(?:both|all|each|every) (?:of (?:its|the) |four )?sides?|all around"),
    ("or", r"or|and/or"),
    ("not", "|".join([rf"(?:{each})(?: any)?" for each in branches_of(f"{DENIALS}|no|without")])),
    ("but", r"but|instead|rather"),
    ("move", r"(?:mov|push|pull|slid|head|shift|walk|stepp|go|travel|return|climb)(?:e|es|s|ed|ing)?|step|steps|goes|going|approach(?:es|ing)?|needs?|wants?|should|must|try|aim"),
    ("is", r"is|are|am|be|was|were|been|being|stands?|standing|lies|lying|sits?|sitting|remains?|becomes?|end(?:s|ed|ing)? up|(?:seem|look)s?(?: like)?(?: it)?|appears?|located|situated|positioned|placed|'re|'m"),
    ("has", r"has|have|having"),
    ("which", r"which|that|who"),
    ("with", r"with|if|while|whilst|whereas|although|though|as|because|so|since|when|after|before|then"),
    ("and", r"and|&|also|plus"),
    ("all", r"both|all|every|each"),
    ("ordinal", r"first|second|third|fourth|another|other|one(?= of)?"),
    ("number", r"two|three|four|five|six|seven|eight|\d+"),
    ("there", r"there"),
    ("it", r"it|its|him|his|her|them"),
    ("they", r"they"),
    ("owner", r"'s"),
    ("the", r"the|this|these|those|your"),
    ("a", r"a|an|some"),
    ("comma", r","),
    ("colon", r":"),
    ("verb", r"(?<=can )(?:spot|place)|(?<=\bi )spot|(?<=we )spot|(?<=you )spot|(?<=to )spot"),
    ("place", r"(?:floor |ground |grid |ice |frozen |empty |free )?(?:cells?|tiles?|squares?|spaces?|blocks?|positions?|places?|spots?|locations?|fields?|area|distance|bit|way|points?|region|zone|direction|rows?|columns?|steps?|units?|moves?)"),
    ("unit", r"'s (?:own |current |new )?(?:positions?|locations?|place|spot|cell|tile|square|perspective|point of view|viewpoint)|(?:that|those) of|horizontally|vertically|side|of|to|now|also|currently|will|would|far|further|farther|even|still|away|just|diagonally|slightly|itself"),
    ("straight", r"directly|exactly|immediately|straight|due|perfectly"),
    ("scenery", r"walls?|borders?|edges?|floor|ground|path|way|route|rooms?|grid|board|map|obstacles?|ice|lake|corners?|rest|paths|world|surroundings|background|corridor|puzzle|image|picture|view|scene"),
    ("word", r"[^\W\d_]+"),
)  # fmt: skip


@functools.cache
def alternatives(board: str) -> tuple[tuple[str, str], ...]:
    """What a token may be, in the order in which it is tried; what has no names for its parts, branch by branch."""
    every = (
        ("me", r"i|me|myself|you|one(?= (?:finds|sees|can (?:see|find)|notices|spots|observes|encounters)\b)"),
        ("my", "my"),
        ("copula", "is|are|was|were"),
        ("particle", "of(?! course)|will"),
        ("also", "and(?!/)"),
        ("article", r"the(?= (?:player|box|target|goal|gift|hole|agent)\b)"),
        ("beside", rf"to the (?P<b>left|right) of(?! (?:the )?{_BOARD}\b)"),
        *((kind, rf"(?:{names})(?:[ _]?#?\d+(?! ?(?:{_UNITS})\b))?") for kind, names in BOARD_NOUNS[board].items()),
        *PATTERNS,
    )
    return tuple([(kind, each) for kind, way in every for each in ([way] if "(?P<" in way else branches_of(way))])


@functools.cache
def begun_by(board: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Of each word with which a token may begin what it may be."""
    found: dict[str, list[tuple[str, str]]] = {}
    for kind, branch in alternatives(board):
        if kind == "word":
            continue  # whatever else a word is, and most are nothing else
        for word in heads_of(branch).words:
            found.setdefault(word, []).append((kind, branch))
    return {word: tuple(each) for word, each in found.items()}
