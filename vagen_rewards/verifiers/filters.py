"""The filters of V-Triune's data curation (appendix A): by rules, and by what a model makes of a
sample.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from unicodedata import name

from vagen_envs.errors import NotBoxesError
from vagen_envs.sample.answer import read_boxes
from vagen_envs.sample.schema import Sample
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers.base import score_safely, verifier_named

LONGEST_ANSWER = 20
SYMBOLS = "=[]():"
"""In the truth of a reasoning task, these make right answers look wrong."""
MOST_BOXES = 10
"""Of one label."""
LARGEST_BOX = 0.5
"""Of the picture's area."""
THRESHOLD = 0.5
"""Of IoU, with which the model's tries are scored."""
PERCEPTION_SHARES = 2 / 16, 10 / 16
"""Bounds of the mean reward of a perception sample: 2 to 10 of 16 tries in the paper."""
_GUESSED = re.compile(r"\(?[A-Ha-h]\)?|true|false|yes|no", re.IGNORECASE)
_READ = ("count", "ocr")
"""How the abilities begin whose rules are those of perception, though a reasoning verifier scores
them.
"""
_LATIN = ("LATIN", "GREEK", "MICRO")
"""How Unicode names the letters of English texts with formulas."""
_THOUSANDTHS = 1000.0


def rule_fault(sample: Sample) -> str:
    """Why the first stage discards a sample; empty where it doesn't.

    Whether a label is a complex phrase isn't looked at, and mixing the data (one single-box sample
    to two others, few of each label, puzzles twice) is left to whoever mixes it.
    """
    if is_perception(sample):
        return _box_fault(sample) or _truth_fault(sample)
    if sample.ability.lower().startswith(_READ):
        return _script_fault(sample) or _truth_fault(sample)
    return _answer_fault(sample.reward_model.truth) or _truth_fault(sample)


def _answer_fault(truth: str) -> str:
    if _GUESSED.fullmatch(truth):
        return "multiple choice, or true or false"
    if any(symbol in truth for symbol in SYMBOLS):
        return f"the answer has one of {SYMBOLS}"
    if len(truth) > LONGEST_ANSWER:
        return f"the answer has more than {LONGEST_ANSWER} characters"
    return ""


def _script_fault(sample: Sample) -> str:
    """Of languages only the script is told apart: EST-VQA, whose English part the paper keeps, is
    half Chinese.
    """
    text = sample.question + sample.reward_model.truth
    latin = all(name(char, "").startswith(_LATIN) for char in text if char.isalpha())
    return "" if latin else "not English: letters that aren't Latin"


def _truth_fault(sample: Sample) -> str:
    """The paper asks this of OCR; whatever the task, such a sample would never pay."""
    verdict = score_safely(sample, _reference(sample), THRESHOLD)
    return "" if verdict.correct else "its verifier doesn't accept the truth itself"


def _reference(sample: Sample) -> str:
    try:
        answer = verifier_named(sample.reward_model.verifier).reference(sample)
    except VerifierError:
        return ""
    return f"<think></think><answer>{answer}</answer>"


def difficulty_fault(sample: Sample, rewards: Sequence[float]) -> str:
    """Why the second stage discards a sample, by R_acc of a model's replies; empty where it
    doesn't.

    Reasoning samples are kept if some replies are right and some wrong (0 < pass@8 < 100 %).
    Perception samples are scored with a threshold of 0.5.
    """
    if not rewards:
        return "not played"
    mean = sum(rewards) / len(rewards)
    if is_perception(sample):
        low, high = PERCEPTION_SHARES
        return "" if low <= mean <= high else "too easy" if mean > high else "too hard"
    right = sum(reward > 0 for reward in rewards)
    if right == len(rewards):
        return "too easy"
    return "" if right else "too hard"


def is_perception(sample: Sample) -> bool:
    """Whether its truth is boxes."""
    try:
        return bool(read_boxes(sample.reward_model.truth))
    except NotBoxesError:
        return False


def _box_fault(sample: Sample) -> str:
    boxes = read_boxes(sample.reward_model.truth)
    if max(Counter(box.label for box in boxes).values()) > MOST_BOXES:
        return f"more than {MOST_BOXES} boxes of a label"
    whole = _area(sample)
    if any(box.area > LARGEST_BOX * whole for box in boxes):
        return "a box of more than half of the picture"
    return ""


def _area(sample: Sample) -> float:
    """The picture's area in the units of the truth."""
    parameters = sample.reward_model.verifier_parm
    normalized = parameters.get("det_verifier_normalized")
    if normalized or parameters.get("coordinates") == "thousandths" or not sample.images:
        return _THOUSANDTHS**2
    height, width = sample.images[0].size
    return float(height * width)
