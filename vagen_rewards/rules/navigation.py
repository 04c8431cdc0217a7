"""Navigation: where the target is, seen from the agent (VAGEN, appendix D.1)."""

from __future__ import annotations

import functools
import re
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.marks import Marks
from vagen_rewards.scores import Part

_SYNONYMS = {
    "GarbageCan": "trash can|trash bin|dustbin|waste ?basket|bin|garbage",
    "CellPhone": "phone|mobile phone|smartphone|mobile",
    "Television": "tv|television set|tv set",
    "TVStand": "tv stand",
    "RemoteControl": "remote",
    "HousePlant": "plant|potted plant",
    "DeskLamp": "lamp|table lamp",
    "FloorLamp": "lamp|standing lamp",
    "Laptop": "notebook computer|computer",
    "Fridge": "refrigerator",
    "Sofa": "couch",
    "Pot": "cooking pot|saucepan",
    "TeddyBear": "teddy|stuffed bear",
    "AlarmClock": "clock",
    "CoffeeMachine": "coffee maker",
    "StoveBurner": "stove",
    "BaseballBat": "bat",
    "BasketBall": "ball",
    "CounterTop": "counter",
    "ArmChair": "armchair|chair",
}
_AGENT = r"(?:i|me|my|agent|robot|player|myself)"
_VIEW = r"(?:me|(?:the )?(?:agent|robot|player|view|image|picture|frame|scene|screen|camera)|my (?:view|position))"
_SENTENCE = re.compile(r"[.;!?\n]+")
_CLAUSE = re.compile(
    r",(?! ?(?:and )?(?:to the |on the |slightly |directly )?(?:left|right|ahead|forward))"
    r"|\b(?:and|while|whereas|but|with|then)\b(?! ?(?:to the |slightly )?(?:left|right|ahead|forward|back))"
)
_DIRECTION = re.compile(
    rf"(?P<not>\b(?:not|never|neither|nor|no longer)\b[a-z ]{{0,24}}?)?"
    rf"\b(?P<slightly>slightly |a bit |somewhat |diagonally )?"
    rf"(?:(?P<ahead>ahead|forwards?|straight|front)|(?P<left>left(?:ward|wards)?)|(?P<right>right(?:ward|wards)?)"
    rf"|(?P<back>behind|back(?:ward|wards)?))\b(?P<of>(?:[ -]?hand)?(?: side)? of (?!{_VIEW}\b))?"
)
_SIDE_OF_ME = re.compile(rf"\b{_AGENT} (?:am|is|will be) (?:now )?(?:to|on|at) the (?:left|right)")
_HEDGE = re.compile(r"\b(?:or|either|might|may|could|maybe|perhaps|possibly|anywhere|wherever|whichever)\b")
_MOVE = re.compile(r"\b(?:mov\w*|go|going|head\w*|turn\w*|rotat\w*|walk\w*|step\w*|approach\w*)\b")
_FACT = re.compile(r"[\"']?target_direction(?:_to_player)?[\"']?\s*[:=]\s*[\"']?(\w+)", re.IGNORECASE)
_TYPE = re.compile(r"[\"']?target_obj_type[\"']?\s*[:=]\s*[\"']?(\w+)", re.IGNORECASE)
_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")


@functools.cache
def _names(kind: str) -> re.Pattern[str]:
    """What an AI2-THOR type goes by in English."""
    words = " ?".join(part.lower() for part in _NAME.findall(kind)) or re.escape(kind.lower())
    names = [words, kind.lower(), *filter(None, _SYNONYMS.get(kind, "").split("|"))]
    return re.compile(rf"\b(?:{'|'.join(names)})(?:e?s)?\b")


def compare(state: State, text: str, part: Part) -> Marks:
    """The target must be named with its direction; what is said of other visible objects counts as claims.

    Combined directions ("forward-left") are right if they hold the true one; a slight turn is right for
    what is ahead. A prediction must use a direction word: "in front of" and "closer to" don't do.
    """
    truth: Any = state
    marks = Marks(wanted=1, essential=False)
    fact = _FACT.search(text)
    if fact is not None:
        kind = _TYPE.search(text)
        if kind is not None and kind[1].lower() != truth.target_type.lower():
            marks.fault(f"the target is no {kind[1]}")
        _judge(marks, "target", [{fact[1].lower()}], truth.target_direction, ())
    else:
        _sentences(marks, truth, text.lower().replace("’", "'").replace("n't", " not"), part)
    marks.essential = marks.found > 0
    return marks


def _sentences(marks: Marks, truth: Any, text: str, part: Part) -> None:
    others = {kind for kind, _, _ in truth.visible_objects if kind != truth.target_type}
    said: dict[str, list[set[str]]] = {}
    denied: dict[str, list[set[str]]] = {}
    spoken = ""
    for sentence in _SENTENCE.split(text)[:100]:
        named_here = bool(re.match(r"\s*(?:it|which)\b", sentence))
        waiting: set[str] = set()
        for clause in filter(None, _CLAUSE.split(sentence)):
            named = _named(clause, truth.target_type, others)
            if named:
                spoken, named_here = named, True
            yes, no = _directions(clause, part)
            if not named and not (spoken and (named_here or _MOVE.search(clause))):
                waiting |= yes if _MOVE.search(clause) else set()  # "going left, I get to the …"
                continue
            if not yes and not no and waiting:
                yes, waiting = waiting, set()
            if yes and _HEDGE.search(sentence):
                yes = {"ahead", "left", "right", "back"}
            if yes:
                said.setdefault(spoken, []).append(yes)
            if no:
                denied.setdefault(spoken, []).append(no)
    for kind in {*said, *denied}:
        if kind == truth.target_type:
            _judge(marks, kind, said.get(kind, []), truth.target_direction, denied.get(kind, ()))
        else:
            where = {direction for each, direction, _ in truth.visible_objects if each == kind}
            for each in said.get(kind, []):
                if each & where and len(each) < 3:
                    marks.right += 1
                else:
                    marks.fault(f"{kind} {'-'.join(sorted(each))}")


def _named(clause: str, target: str, others: set[str]) -> str:
    """The type of object that a clause speaks of, the target first; empty if none."""
    return next((kind for kind in (target, *sorted(others)) if _names(kind).search(clause)), "")


def _directions(clause: str, part: Part) -> tuple[set[str], set[str]]:
    yes: set[str] = set()
    no: set[str] = set()
    if _SIDE_OF_ME.search(clause):
        return yes, no
    for match in _DIRECTION.finditer(clause):
        way = next(name for name in ("ahead", "left", "right", "back") if match[name])
        if match["of"] and match["ahead"] != "front":
            continue  # "left of the table" is no direction from the agent
        if match["ahead"] == "front":
            rest = clause[match.end("ahead") :]
            if part == "world_modeling" or (
                (match["of"] or rest.startswith(" of ")) and not re.match(rf" of {_VIEW}\b", rest)
            ):
                continue
        (no if match["not"] else yes).add(way)
        if match["slightly"] and way in ("left", "right") and not match["not"]:
            yes.add("ahead")
    return yes, no


def _judge(marks: Marks, name: str, said: list[set[str]], truth: str, denied: Any) -> None:
    together = set().union(*said) if said else set()
    if len(together) > 2 or together >= {"left", "right"} or together >= {"ahead", "back"}:
        marks.fault(f"{name}: {' and '.join(sorted(together))} exclude one another", max(1, len(together)))
        return
    for directions in said:
        if truth in directions:
            marks.right += 1
            marks.found = 1
        else:
            marks.fault(f"{name} {'-'.join(sorted(directions))}")
    for directions in denied:
        if truth in directions:
            marks.fault(f"{name} not {truth}")
