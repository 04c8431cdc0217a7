"""Thinking marks and tokens of other models' templates, in every layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.replies import Grammar, Names
from vagen_envs.replies.special_tokens import without_tokens

REPLIES = [
    "<think>t</think><answer><|begin_of_box|>Down<|end_of_box|></answer>",
    "<think>t</think><|begin_of_box|><answer>Down</answer><|end_of_box|>",
    "t<answer>Down</answer><|im_end|>",
    "t<answer>Down<|im_end|></answer>",
    "t<answer>Down</answer></s>",
    "t<answer>Down</answer><end_of_turn>",
    "t<answer>Down</answer><｜end▁of▁sentence｜>",
    "[/INST]t<answer>Down</answer><eos>",
    "\u200bt<answer>\u200bDown\ufeff</answer>\u200b",
]


def grammar(**options):
    return Grammar(Names("Up", "Down"), **{"strategy": "free_think", "layout": "untagged", **options})


@pytest.mark.parametrize("reply", REPLIES)
def test_tokens_of_a_template_are_set_aside(reply):
    parsed = grammar().parse(reply)
    assert ([action.name for action in parsed.actions], parsed.format_correct) == (["Down"], True)
    (action,) = parsed.actions
    assert "Down" in reply[action.start : action.end]


def test_what_follows_an_answer_is_not_the_thought():
    parsed = grammar().parse("t<answer>Down</answer><|im_end|>\n[THINK]u[/THINK] and so on")
    assert [action.name for action in parsed.actions] == ["Down"]
    parsed = grammar().parse("[THINK]t[/THINK]<answer>Up</answer>[THINK]u[/THINK]<answer>Down</answer>")
    assert [action.name for action in parsed.actions] == ["Down"]


def test_tokens_break_the_format_of_other_layouts_and_nothing_else():
    parsed = grammar(layout="nested").parse("<think>t</think><answer><|x|>Down</answer><|im_end|>")
    assert [action.name for action in parsed.actions] == ["Down"]
    assert not parsed.format_correct


@given(
    st.lists(
        st.sampled_from(
            [
                *REPLIES,
                "[THINK]",
                "◁think▷",
                "<|channel>thought\n",
                "<answer>",
                "</answer>",
                "[/THINK]",
                "<|",
                "|>",
                "x",
            ]
        ),
        max_size=9,
    )
)
def test_places_stay_where_they_are(pieces):
    text = "".join(pieces)
    assert len(without_tokens(text)) == len(text)
    parsed = grammar(layout="nested").parse(text)
    assert all(action.name in text[action.start : action.end] for action in parsed.actions)
