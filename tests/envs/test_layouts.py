"""Layouts that fit a model: what the tags are called, thoughts without tags, and VAGEN's released parsers."""

from __future__ import annotations

import random
import re

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.errors import ConfigError
from vagen_envs.replies import STRATEGIES, TAGS, Grammar, Names

MOVES = Names("Up", "Down", "Left", "Right")
THINKING = ("thinking", "observation", "reasoning", "prediction", "answer")
FORMS = {
    "as the paper asks": "<think>The box is above.</think><answer>Up</answer>",
    "plain text": "The box is above.\n\n<answer>Up</answer>",
    "another tag": "<thinking>The box is above.</thinking>\n<answer>Up</answer>",
    "a tool call": "<tool_call>The box is above.</tool_call><answer>Up</answer>",
    "bare, as a server's reasoning parser leaves it": "<answer>Up</answer>",
    "an empty thought": "<think>\n\n</think>\n\n<answer>Up</answer>",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["nested", "flat", "untagged"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("tags", [TAGS, THINKING])
def test_a_lenient_parse_acts_on_any_form_under_any_layout(form, layout, strategy, tags):
    parsed = Grammar(MOVES, strategy, layout=layout, tags=tags, parsing="lenient").parse(
        FORMS[form]
    )
    assert [action.name for action in parsed.actions] == ["Up"]
    if layout == "untagged" and strategy == "free_think" and tags is TAGS:
        assert parsed.format_correct
        assert ("The box is above." in (parsed.think or "")) == ("The box is above." in FORMS[form])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ({"tags": tags}, "are not valid: give 5 different names")
            for tags in (
                ("think",),
                ("think", *TAGS[:1], *TAGS[2:]),
                *((bad, *TAGS[1:]) for bad in ("Think", "a b", "", "a>", "x" * 33)),
            )
        ),
        *(
            ({"action_names": names}, r"action_names|can.t name")
            for names in (
                ["north"],
                ["a", "a", "b", "c"],
                ["a,b", "c", "d", "e"],
                ["", "b", "c", "d"],
            )
        ),
        ({"layout": "untagged", "parsing": "released"}, "layout='untagged' is not valid"),
    ],
)
def test_names_that_cannot_be_read_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        gym.make("vagen/FrozenLake-v0", **options)


@pytest.mark.parametrize(
    ("written", "think"),
    [
        ("<observation>o</observation><reasoning>r</reasoning><prediction>p</prediction>", None),
        ("Let me see.\n<observation>o</observation><prediction>p</prediction>", "Let me see."),
        (
            "<think>Let me see.</think><observation>o</observation><prediction>p</prediction>",
            "Let me see.",
        ),
        (
            "Let me see.</think><observation>o</observation><prediction>p</prediction>",
            "Let me see.",
        ),
    ],
)
def test_the_fields_stand_by_themselves_after_an_untagged_thought(written, think):
    parsed = Grammar(MOVES, layout="untagged").parse(f"{written}<answer>Up</answer>")
    assert parsed.format_correct
    assert (parsed.observation, parsed.prediction, parsed.think) == ("o", "p", think)


@pytest.mark.parametrize(
    "reply", ["<answer>Up</answer> so", "<answer>Up</answer><answer>Up</answer>", "Up"]
)
def test_what_stands_after_the_first_field_is_no_thought(reply):
    assert not Grammar(MOVES, "free_think", layout="untagged").parse(reply).format_correct


def test_the_prompt_shows_the_tags_that_are_read():
    env = gym.make("vagen/FrozenLake-v0", tags=list(THINKING), strategy="free_think", max_turns=1)
    assert "<thinking>...</thinking><answer>...</answer>" in env.unwrapped.system_prompt
    assert "<think>" not in env.unwrapped.system_prompt
    env.reset(seed=0)
    turn = env.step("<thinking>so</thinking><answer>Up</answer>")[4]["turn"]
    assert turn.parsed.think == "so"
    assert "format" in [term.name for term in turn.rewards]


# -- tokens of templates ----------------------------------------------------------------------------------------

WITH_TOKENS = [
    "<think>t</think><answer><|begin_of_box|>Down<|end_of_box|></answer>",
    "<think>t</think><|begin_of_box|><answer>Down</answer><|end_of_box|>",
    "t.<answer>Down</answer><|im_end|>",
    "t.<answer>Down<|im_end|></answer>",
    "t.<answer>Down</answer></s>",
    "t.<answer>Down</answer><end_of_turn>",
    "t.<answer>Down</answer><｜end▁of▁sentence｜>",
    "[/INST]t.<answer>Down</answer><eos>",
    "\u200bt.<answer>\u200bDown\ufeff</answer>\u200b",
]


def grammar(**options):
    return Grammar(MOVES, **{"strategy": "free_think", "layout": "untagged", **options})


@pytest.mark.parametrize("reply", WITH_TOKENS)
def test_tokens_of_a_template_are_set_aside(reply):
    parsed = grammar().parse(reply)
    assert ([action.name for action in parsed.actions], parsed.format_correct) == (["Down"], True)
    (action,) = parsed.actions
    assert "Down" in reply[action.start : action.end]


def test_what_follows_an_answer_is_not_the_thought():
    parsed = grammar().parse("t.<answer>Down</answer><|im_end|>\n[THINK]u[/THINK] and so on")
    assert [action.name for action in parsed.actions] == ["Down"]
    parsed = grammar().parse(
        "[THINK]t[/THINK]<answer>Up</answer>[THINK]u[/THINK]<answer>Down</answer>"
    )
    assert [action.name for action in parsed.actions] == ["Down"]


def test_tokens_break_the_format_of_other_layouts_and_nothing_else():
    parsed = grammar(layout="nested").parse("<think>t</think><answer><|x|>Down</answer><|im_end|>")
    assert [action.name for action in parsed.actions] == ["Down"]
    assert not parsed.format_correct


# -- VAGEN's released parsers, their rules written down from its two releases -------------------------------------

OBSERVATION, REASONING, PREDICTION, ANSWER = (
    [f"<{tag}>", None, f"</{tag}>"] for tag in ("observation", "reasoning", "prediction", "answer")
)
IN_ORDER = {
    "free_think": ["<think>", None, "</think>", *ANSWER],
    "no_think": ANSWER,
    "grounding": ["<think>", *OBSERVATION, *REASONING, "</think>", *ANSWER],
    "world_modeling": ["<think>", *REASONING, *PREDICTION, "</think>", *ANSWER],
    "grounding_world_modeling": [
        "<think>",
        *OBSERVATION,
        *REASONING,
        *PREDICTION,
        "</think>",
        *ANSWER,
    ],
}
"""Branch `vagen-legacy`, `vagen/env/utils/parse_utils.py`."""
OF_2026 = {
    "free_think": IN_ORDER["free_think"],
    "grounding_world_modeling": [*OBSERVATION, "<think>", None, "</think>", *ANSWER, *PREDICTION],
}
"""Branch `main`, `vagen/envs/*/utils`: its `free_think` and `wm`."""


def expression(tags: list[str | None]) -> str:
    """Blanks may stand between two tags, and anything between a tag and a text."""
    return "".join(
        "(.*?)" if tag is None else tag + (r"\s*" if following is not None else "")
        for tag, following in zip(tags, [*tags[1:], None], strict=True)
    )


def released(strategy: str, reply: str, most: int) -> tuple[list[str], bool]:
    """The pieces of the answer that its environment would try, and whether the format is right."""
    reply = reply.replace("<image>", "")
    pattern = expression(IN_ORDER[strategy])
    whole = re.match(rf"^\s*{pattern}\s*$", reply.strip(), re.DOTALL) is not None
    found = re.search(pattern, reply, re.DOTALL)
    if found is None or (strategy in ("free_think", "no_think") and not whole):
        return [], False
    return [piece.strip() for piece in found.groups()[-1].split(",") if piece.strip()][:most], whole


def released_in_2026(strategy: str, reply: str, most: int) -> tuple[list[str], bool]:
    found = re.search(expression(OF_2026[strategy]), reply, re.DOTALL)
    if found is None:
        return [], False
    answer = found.groups()[-1 if strategy == "free_think" else 2]
    return [piece.strip() for piece in answer.split(",") if piece.strip()][:most], True


def replies(seed: int, count: int, tags: list[str | None]) -> list[str]:
    """Well-formed replies with faults: tags left out, doubled, quoted, texts empty, outside, blanks, marks."""
    draw = random.Random(seed)
    made = []
    texts = [
        "Up",
        "Up, Down",
        "I see",
        "",
        " ",
        "\n",
        "the <answer> tag",
        "<observation>",
        "</think>",
        "<image>",
        "Up,<image>Left",
        "Up,,Right,Down,Up",
    ]
    for _ in range(count):
        pieces = [draw.choice(texts) if tag is None else tag for tag in tags]
        for _ in range(draw.choice([0, 0, 1, 1, 2, 3])):
            at = draw.randrange(len(pieces) + 1)
            extra = draw.choice(
                [*texts, *filter(None, tags), "<ima<image>ge>", "<thi<image>nk>", "<Answer>", "\t"]
            )
            if draw.random() < 0.7:
                pieces.insert(at, extra)
            elif at < len(pieces):
                del pieces[at]
        made.append(draw.choice(["", "\n", " "]).join(pieces))
    return made


@pytest.mark.parametrize("release", ["paper", "2026"])
def test_the_released_rules_are_vagens(release):
    """40,000 generated replies in all."""
    rules = IN_ORDER if release == "paper" else OF_2026
    layout, oracle = ("nested", released) if release == "paper" else ("flat", released_in_2026)
    accepted = 0
    for number, (strategy, tags) in enumerate(rules.items()):
        grammar = Grammar(MOVES, strategy, layout=layout, parsing="released", max_actions=3)
        for reply in replies(number, 20_000 // len(rules), tags):
            if release == "2026" and "<image>" in reply:  # which that release doesn't take out
                continue
            pieces, right = oracle(strategy, reply, 3)
            parsed = grammar.parse(reply)
            known = [piece.lower() in ("up", "down", "left", "right") for piece in pieces]
            executed = pieces[: known.index(False)] if False in known else pieces
            assert [action.name for action in parsed.actions] == executed, reply
            assert parsed.well_formed == right, reply
            assert parsed.format_correct == (right and bool(pieces) and all(known)), reply
            accepted += right
    assert accepted > 2_000


MAIN = {
    "vagen/Sokoban-v0": "<think>t</think><answer>Up,Left</answer>",
    "vagen/FrozenLake-v0": "<think>t</think>\n<answer>up, left</answer>",
    "vagen/Navigation-v0": "<think>t</think><action>move_forward|turn_left|</action>",
    "vagen/PrimitiveSkillStack-v0": "<think>t</think><answer>pick(62, -55, 20)|place(75,33,50)</answer>",
}
"""Replies as checkpoints of VAGEN's branch `main` write them."""


@pytest.mark.parametrize("env_id", MAIN)
def test_replies_of_vagens_main_are_well_formed_under_its_preset(env_id):
    pytest.importorskip(
        "mujoco" if "Navigation" in env_id else "mani_skill" if "Skill" in env_id else "gymnasium"
    )
    env = gym.make(env_id, preset="vagen-main", max_turns=1 if "lake" in env_id else 3).unwrapped
    parsed = env.grammar.parse(MAIN[env_id])
    assert parsed.format_correct
    assert len(parsed.actions) == 2
    observed = env.reset(seed=0)[0]["text"]
    assert "[Initial Observation]" in observed
    assert env.grammar.template() in env.system_prompt
    assert env.grammar.template() not in observed
    assert env.step(env.oracle_reply())[4]["turn"].parsed.format_correct
    env.close()


def test_world_modelling_replies_of_vagens_main():
    env = gym.make(
        "vagen/Navigation-v0", preset="vagen-main", strategy="grounding_world_modeling"
    ).unwrapped
    reply = "<observation>o</observation><think>t</think><action>turn_right | look_up</action><prediction>p</prediction>"
    parsed = env.grammar.parse(reply)
    assert parsed.format_correct
    assert [action.text for action in parsed.actions] == ["turn_right", "look_up"]
    assert [action.name for action in parsed.actions] == ["rotateright", "lookup"]
    turn = env.reset(seed=1) and env.step(reply)[4]["turn"]
    assert "turn_right, look_up" in turn.result.text
    assert env.grammar.parse("<think>t</think><action>moveahead</action>").actions == ()
