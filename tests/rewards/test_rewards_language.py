"""Language as data: every noun that the environments use is known, and other languages are read or left alone."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import pytest

import vagen_envs
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.objects import TARGETS
from vagen_envs.navigation.state import NavigationState, words
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.seeding import HashStream
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge, Statement
from vagen_rewards.rules.lexicon import known_words, language, nouns, spelt
from vagen_rewards.rules.translate import in_english, language_of

PACKS = Path(vagen_envs.__file__).parent / "prompt_packs"
KINDS = ("sokoban", "frozen_lake", "navigation", "primitive_skill", "svg")
AFTER_ARTICLE = re.compile(r"\b(?:the|a|an|your|this|each|every|its|somebody's) ([a-z]+)")


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_prompts_name_is_known(kind):
    text = " ".join(path.read_text(encoding="utf-8").lower() for path in sorted(PACKS.glob(f"*/{kind}/*.txt")))
    named = set(AFTER_ARTICLE.findall(text))
    known = known_words(kind)
    assert named
    assert {word for word in named if not {word, word.removesuffix("s"), word.removesuffix("es")} & known} == set()


STATES = [
    SokobanState(8, 8, (1 << 64) - 1, (3, 3), ((2, 4), (5, 5)), ((3, 1), (3, 3))),
    FrozenLakeState(4, (1, 1), (2, 3), ((1, 3), (3, 0))),
    NavigationState("DeskLamp", 1.71, "right", (("Chair", "ahead", 1.08),)),
    *[
        PrimitiveSkillState("drawer", {"apple": (-127, 192, 36), "drawer": (-300, -20, 200)}, held, 150)
        for held in ("", "apple")
    ],
    SvgState((Element("circle", "filled", "#ff0000", 50, 40, 20, 20),)),
]


@pytest.mark.parametrize("state", STATES)
def test_what_the_oracle_names_is_known(state):
    named = set(AFTER_ARTICLE.findall(" ".join(state.sentences()).lower()))
    known = known_words(state.kind) | {"filled", "outlined", "agent"}
    assert named
    assert {word for word in named if not {word, word.rstrip("0123456789"), word.removesuffix("s")} & known} == set()


@pytest.mark.parametrize("env_id", ["Sokoban", "FrozenLake", "Navigation", "SVGReconstruction", "PrimitiveSkillPlace"])
def test_what_the_feedback_names_is_known(env_id):
    said = ""
    with gym.make(f"vagen/{env_id}-v0", observation="text", strategy="no_think") as env:
        core = env.unwrapped
        for seed in range(1 if env_id.startswith("Primitive") else 4):
            env.reset(seed=seed)
            for actions in (["no such action"], core.random_actions(HashStream("feedback", seed), 3)):
                *_, terminated, truncated, info = env.step(core.grammar.render(actions))
                said += " ".join(each.feedback or "" for each in info["turn"].executed).lower()
                if terminated or truncated:
                    break
    known = known_words(info["turn"].before.kind)
    named = set(AFTER_ARTICLE.findall(said))
    assert {word for word in named if not {word, word.removesuffix("s"), word.removesuffix("es")} & known} == set()


def test_every_target_of_navigation_has_a_name_that_is_read():
    for kind in TARGETS:
        assert kind in nouns("navigation")
        said = words(kind).lower()
        assert spelt("navigation", said, said.split()) == said


BOARD = SokobanState(8, 8, (1 << 64) - 1, (3, 3), ((2, 4),), ((3, 1),))
LAKE = FrozenLakeState(4, (1, 1), (2, 3), ((1, 3), (3, 0)))


@pytest.mark.parametrize(
    ("state", "text", "expected"),
    [
        (BOARD, "Die Kiste befindet sich rechts oberhalb des Spielers, das Ziel ist links vom Spieler.", 1.0),
        (BOARD, "Die Kiste ist links vom Spieler.", 0.0),
        (BOARD, "Die Kiste ist irgendwie links vom Spieler.", None),  # a word that isn't known
        (BOARD, "箱子在玩家的右上方。", 1.0),
        (BOARD, "箱子在玩家的左下方。", 0.0),
        (BOARD, "La caja está arriba del jugador.", None),
        (LAKE, "终点在玩家的右下方，右边有一个洞。", 1.0),
        (LAKE, "The flag is below me, to my rigt.", 1.0),
    ],
)
def test_a_language_is_read_or_left_alone(state, text, expected):
    assert RuleJudge("direct").score(Statement("grounding", text, state)).value == expected


def test_the_language_of_a_sentence():
    texts = ("the box is left.", "die kiste ist links", "箱子", "箱は", "la caja")
    assert [language_of(text, set(text.split())) for text in texts] == [
        "en", "de", "zh", "", "en"]  # fmt: skip
    assert in_english("de", "sokoban", "die kiste") == "the box"
    assert in_english("de", "sokoban", "die katze") is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["de", "zh"])
def test_every_thing_has_a_name_in_every_language(name, kind):
    data = language(name)
    said = {english.strip().lower() for english in {**data["phrases"], **data.get(kind, {})}.values()}
    nameless = []
    for thing, names in nouns(kind).items():
        own = {thing.lower(), *names, *([words(thing).lower()] if kind == "navigation" else [])}
        if not own & said:
            nameless.append(thing)
    assert nameless == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Kiste steht rechts oberhalb von mir, das Ziel noch weiter links oben.", None),
        ("Spieler (3,3), Kiste (2,4), Ziel (3,1).", 1.0),
        ("箱子在我的右上方，我的正左边有一个目标。", 1.0),
        ("箱子在我的右上方，我的正右边有一个目标。", 0.0),
        ("The target is on my left in the same row.", 1.0),
        ("The target is on my right in the same row.", None),
        ("From here the target lies to the left.", 1.0),
        ("From here the target lies to the right.", None),
    ],
)
def test_a_side_that_goes_before_a_row_is_read(text, expected):
    assert RuleJudge("direct").score(Statement("grounding", text, BOARD)).value == expected
