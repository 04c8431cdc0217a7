"""The parser: rendering and reading agree, and no text at all breaks it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import string
import time
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vagen_envs.replies import (
    FORMAT_CODES,
    STRATEGIES,
    TAGS,
    Calls,
    FreeText,
    Grammar,
    Names,
    ParsedTurn,
    Problem,
    tool_call_reply,
)
from vagen_envs.replies.reference import released_rule
from vagen_envs.seeding import HashStream

MOVES = Names("Up", "Down", "Left", "Right")
ACTION_CODES = {
    "no_action",
    "unknown_action",
    "bad_argument",
    "too_many_actions",
    "withheld",
    "answers_differ",
    "unclear_answer",
}

THINKING = ("thinking", "observation", "reasoning", "prediction", "answer")

words = st.text(st.characters(exclude_characters="<>"), min_size=1).filter(
    lambda text: text.strip()
)
tag_names = st.lists(
    st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True), min_size=5, max_size=5, unique=True
)
LAYOUTS = ("nested", "flat", "untagged")
moves = st.lists(st.sampled_from(MOVES.names), min_size=1, max_size=3)


TOKENS = [
    "[THINK]",
    "[/THINK]",
    "◁think▷",
    "<|im_end|>",
    "<|channel>thought\n",
    "<|",
    "|>",
    "\u200b",
    "</s>",
]


def grammars(layouts=LAYOUTS, parsings=("strict", "lenient"), thinking=("reject", "allow")):
    return st.builds(
        Grammar,
        st.just(MOVES),
        strategy=st.sampled_from(STRATEGIES),
        max_actions=st.integers(1, 5),
        separator=st.sampled_from([",", "|", " ; "]),
        layout=st.sampled_from(layouts),
        reasoning=st.sampled_from(["optional", "required"]),
        parsing=st.sampled_from(parsings),
        native_thinking=st.sampled_from(thinking),
        tags=st.just(TAGS) | st.just(THINKING) | tag_names.map(tuple),
    )


def codes(parsed: ParsedTurn) -> list[str]:
    return [problem.code for problem in parsed.problems]


@example(
    Grammar(MOVES, "no_think", layout="untagged", tags=("a", "b", "c", "d", "s")),
    "0",
    "0",
    "0",
    ["Up"],
)
@example(
    Grammar(MOVES, "grounding", layout="untagged", tags=("a", "see", "c", "d", "eos")),
    "0",
    "0",
    "0",
    ["Up"],
)
@given(
    grammars(), words, words, words, st.lists(st.sampled_from(MOVES.names), min_size=1, max_size=5)
)
def test_a_rendered_reply_is_read_back(grammar, observation, reasoning, prediction, actions):
    actions = actions[: grammar.max_actions]
    reply = grammar.render(
        actions, observation=observation, reasoning=reasoning, prediction=prediction
    )
    parsed = grammar.parse(reply)
    assert parsed.format_correct
    assert not parsed.problems
    assert [action.text for action in parsed.actions] == actions
    assert [reply[action.start : action.end].strip() for action in parsed.actions] == actions
    assert parsed.answer == grammar.separator.join(actions)
    has = {"grounding": "or", "world_modeling": "rp", "grounding_world_modeling": "orp"}.get(
        grammar.strategy, ""
    )
    assert parsed.observation == (observation.strip() if "o" in has else None)
    assert parsed.reasoning == (reasoning.strip() if "r" in has else None)
    assert parsed.prediction == (prediction.strip() if "p" in has else None)
    if grammar.strategy == "free_think":
        assert parsed.think == f"{observation} {reasoning}".strip()
    shown = re.findall("</?[a-z][a-z0-9_-]*>", grammar.template())
    assert shown == re.findall("</?[a-z][a-z0-9_-]*>", grammar.render(["Up"]))
    assert {tag.strip("</>") for tag in shown} <= {*grammar.tags}
    assert grammar.parse(reply.upper()).well_formed == (reply.upper() == reply)
    assert ParsedTurn.from_json(json.loads(json.dumps(parsed.to_json()))) == parsed


@given(grammars(), st.lists(st.sampled_from([" ", "\n", "\t ", ""]), min_size=10, max_size=10))
def test_blanks_between_tags_and_around_texts_change_nothing(grammar, blanks):
    reply = grammar.render(["Up"], observation="o", reasoning="r", prediction="p")
    pieces = re.split("(</?[a-z][a-z0-9_-]*>)", reply)
    spaced = "".join(
        f"{blank}{piece}{blank}"
        for piece, blank in zip(pieces, (blanks * 3)[: len(pieces)], strict=True)
    )
    before, after = grammar.parse(reply), grammar.parse(spaced)
    assert after.format_correct
    texts = ("observation", "reasoning", "prediction", "think", "answer")
    assert [getattr(after, name) for name in texts] == [getattr(before, name) for name in texts]
    assert spaced[after.actions[0].start : after.actions[0].end].strip() == "Up"


@given(grammars() | grammars(("nested", "flat"), ("released",)), st.data())
def test_any_text_is_read(grammar, data):
    tags = [
        f"<{slash}{name}>" for name in (*grammar.tags, "think", "thinKing") for slash in ("", "/")
    ]
    pieces = (
        st.sampled_from(
            [*tags, *TOKENS, "Up", "down", ",", "<image>", " ", "\n", "<THINK>", "<anſwer>"]
        )
        | st.text()
    )
    text = "".join(data.draw(st.lists(pieces)))
    parsed = grammar.parse(text)
    assert set(codes(parsed)) <= FORMAT_CODES | ACTION_CODES
    assert parsed.well_formed == (not FORMAT_CODES & set(codes(parsed)))
    assert all(0 <= problem.start <= problem.end <= len(text) for problem in parsed.problems)
    assert len(parsed.actions) <= grammar.max_actions
    for action in parsed.actions:
        assert action.text.lower() in text[action.start : action.end].lower()
    if grammar.parsing == "strict" and not parsed.well_formed:
        assert not parsed.actions


@given(grammars(("nested", "flat"), thinking=("reject",)), st.data())
def test_one_tag_amiss_breaks_the_format(grammar, data):
    reply = grammar.render(["Up"], observation="o", reasoning="r", prediction="p")
    assert grammar.parse(reply).well_formed
    tag = data.draw(st.sampled_from(list(re.finditer("</?[a-z][a-z0-9_-]*>", reply))))
    amiss = data.draw(
        st.sampled_from(["", tag[0] * 2, tag[0].upper(), f"x{tag[0]}" if tag.start() == 0 else ""])
    )
    assert not grammar.parse(reply[: tag.start()] + amiss + reply[tag.end() :]).well_formed


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>\n",
        "<answer></answer>",
        "</think><answer>",
        "<image>",
    ],
)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"layout": "untagged"},
        {"parsing": "released"},
        {"parsing": "released", "layout": "flat"},
    ],
)
def test_a_megabyte_is_read(piece, how):
    """In about three seconds; in the square of its length it would be an hour."""
    text = "<think>" + piece * 100_000 + "</think>" + " \n" * 100_000 + "<answer>" + "Up," * 100_000
    Grammar(MOVES, "free_think", **how).parse(text)


def seconds_to_read(text):
    began = time.process_time()
    KINDS["grid"].parse(text)
    return time.process_time() - began


@pytest.mark.parametrize("begin", ["", "Answer", "<think>x</think>", "<answer>Up</answer>"])
def test_a_run_of_one_mark_takes_time_linear_in_its_length(begin):
    """Eight times as long a run takes about eight times as long, not 64 times."""
    for mark in string.punctuation + string.whitespace + "→。’•–…":
        short, long = (
            min(seconds_to_read(begin + mark * count) for _ in range(2)) for count in (2000, 16000)
        )
        assert long < 30 * short + 0.05, (mark, short, long)


def test_a_malformed_reply_still_acts_when_lenient():
    text = "I go up. <answer>Up</answer>"
    lenient = Grammar(MOVES).parse(text)
    assert [action.name for action in lenient.actions] == ["Up"]
    assert lenient.answer == "Up"
    assert lenient.native_thinking is None
    assert not lenient.format_correct
    assert Grammar(MOVES, parsing="strict").parse(text).actions == ()
    assert codes(Grammar(MOVES, parsing="strict").parse(text))[-1] == "withheld"
    for strategy in STRATEGIES:
        assert [action.name for action in Grammar(MOVES, strategy).parse(text).actions] == ["Up"]


def test_actions_beyond_the_maximum_are_cut_and_marked_but_cost_nothing():
    parsed = Grammar(MOVES, "no_think", max_actions=2).parse("<answer>Up,Down,Up,Right</answer>")
    assert [action.name for action in parsed.actions] == ["Up", "Down"]
    assert parsed.cut
    assert parsed.format_correct


SEEN = "<think><observation>o</observation><prediction>p</prediction></think><answer>Up</answer>"
FLAT_SEEN = "<observation>o</observation><think>r</think><answer>Up</answer>"


@pytest.mark.parametrize(
    ("how", "reply", "native", "correct"),
    [
        ({}, f"<think>so I wonder</think>{SEEN}", "so I wonder", True),
        ({}, f"so I wonder</think>\n\n{SEEN}", "so I wonder", True),  # opened by the chat template
        ({}, f"<think>so I wonder {SEEN}", "so I wonder", True),  # never closed
        ({}, "<think>so<think><answer>Up</answer>", "so", False),
        ({}, "<think>so</think><think><answer>Up</answer>", "so", False),
        (
            {},
            "<think>so</think> Hm. <think><prediction>p</prediction></think><answer>Up</answer>",
            None,
            False,
        ),
        ({"strategy": "no_think"}, "<think>so</think><answer>Up</answer>", "so", True),
        ({"strategy": "no_think"}, "so</think><answer>Up</answer>", "so", True),
        ({"strategy": "no_think"}, "<think>so <answer>Up</answer>", None, False),
        ({"strategy": "grounding", "layout": "flat"}, f"<think>so</think>{FLAT_SEEN}", "so", True),
    ],
)
def test_a_thinking_models_own_text_is_set_aside(how, reply, native, correct):
    parsed = Grammar(MOVES, native_thinking="allow", **how).parse(reply)
    assert (parsed.native_thinking, parsed.format_correct) == (native, correct)
    assert [action.name for action in parsed.actions] == ["Up"]
    assert not Grammar(MOVES, native_thinking="reject", **how).parse(reply).format_correct


def test_other_tags_in_free_text_are_text():
    free = Grammar(MOVES, "free_think").parse(
        "<think>I <observation>see</observation></think><answer>Up</answer>"
    )
    assert free.think == "I <observation>see</observation>"
    assert free.format_correct


@pytest.mark.parametrize("end", ["", " so"])
def test_a_separator_after_the_answer_is_none(end):
    grammar = Grammar(MOVES, "world_modeling", layout="flat", max_actions=2)
    parsed = grammar.parse(grammar.render(["Up"], reasoning="r", prediction="now, then") + end)
    assert [action.name for action in parsed.actions] == ["Up"]
    assert not parsed.refused


def test_a_field_that_is_begun_twice_begins_at_the_first():
    reply = "<observation>a<observation>b</observation> c</observation><answer>Up</answer>"
    assert Grammar(MOVES).parse(reply).observation == "a<observation>b"


def test_free_text_is_one_action():
    grammar = Grammar(FreeText(), "no_think", separator="~~")
    parsed = grammar.parse("<answer>\n<svg><path d='M0,0'/></svg>\n</answer>")
    assert [(action.name, action.args) for action in parsed.actions] == [("text", ())]
    assert [action.text for action in parsed.actions] == ["<svg><path d='M0,0'/></svg>"]
    assert [(action.start, action.end) for action in parsed.actions] == [
        (8, 37)
    ]  # between the answer's tags
    assert grammar.actions.summary() == "free text"


@given(
    st.sampled_from([Names("Up", "Down"), Calls({"pick": 3, "push": 6, "wait": 0}), FreeText()]),
    st.integers(0, 9),
)
def test_actions_drawn_at_random_are_actions(actions, seed):
    drawn = actions.random(HashStream("a", seed), 3)
    assert drawn == actions.random(HashStream("a", seed), 3)
    parsed = Grammar(actions, "no_think", separator="|", max_actions=3).parse(
        f"<answer>{'|'.join(drawn)}</answer>"
    )
    assert [action.text for action in parsed.actions] == list(drawn)


@pytest.mark.parametrize(
    ("actions", "drawn"),
    [
        (Names("Up", "Down"), ["Down", "Up", "Up"]),
        (
            Calls({"push": 6, "pick": 3, "wait": 0}),
            ["push(-53, -92, -75, -30, 88, -49)", "wait()", "wait()"],
        ),
        (FreeText(), ["jtxmiigm", "eogewryi", "ffixttvn"]),
    ],
)
def test_what_is_drawn_at_random_is_the_same_everywhere(actions, drawn):
    assert actions.random(HashStream("drawn"), 3) == drawn


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"strategy": "grond"},
            "unknown strategy 'grond'; use one of no_think, free_think, grounding, world_modeling",
        ),
        ({"separator": ""}, "separator '' must be non-empty without '<'"),
        ({"separator": "<"}, "separator '<' must be non-empty without '<'"),
        ({"max_actions": 0}, "max_actions 0 at least 1"),
    ],
)
def test_a_grammar_that_cannot_work_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Grammar(MOVES, **wrong)


NESTED = {
    "no_think": "<answer>...</answer>",
    "free_think": "<think>...</think><answer>...</answer>",
    "grounding": "<think><observation>...</observation><reasoning>...</reasoning></think><answer>...</answer>",
    "world_modeling": "<think><reasoning>...</reasoning><prediction>...</prediction></think><answer>...</answer>",
    "grounding_world_modeling": "<think><observation>...</observation><reasoning>...</reasoning>"
    "<prediction>...</prediction></think><answer>...</answer>",
}  # VAGEN, table 5
FLAT = {
    "no_think": "<answer>...</answer>",
    "free_think": "<think>...</think><answer>...</answer>",
    "grounding": "<observation>...</observation><think>...</think><answer>...</answer>",
    "world_modeling": "<think>...</think><answer>...</answer><prediction>...</prediction>",
    "grounding_world_modeling": "<observation>...</observation><think>...</think><answer>...</answer>"
    "<prediction>...</prediction>",
}  # VAGEN's code of 2026


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_format_in_the_prompt_is_the_published_one(strategy):
    assert Grammar(MOVES, strategy).template() == NESTED[strategy]
    assert Grammar(MOVES, strategy).render([]) == NESTED[strategy].replace("...", "")
    assert Grammar(MOVES, strategy, layout="flat").template() == FLAT[strategy]


OBSERVED = "<think><observation>o</observation>"
FORESEEN = "<prediction>p</prediction>"
THOUGHT = f"{OBSERVED}<reasoning>r</reasoning>{FORESEEN}</think>"
UP = "<answer>Up</answer>"
GRAMMARS = {
    "all": Grammar(MOVES, max_actions=2),
    "none": Grammar(MOVES, "no_think", max_actions=2),
    "strict": Grammar(MOVES, "free_think", parsing="strict"),
    "required": Grammar(MOVES, reasoning="required"),
    "world": Grammar(MOVES, "world_modeling"),
    "calls": Grammar(Calls({"pick": 3, "home": 0}), "no_think", separator="|"),
    "floats": Grammar(Calls({"pick": 3}, integers=False), "no_think", separator="|"),
}
AMISS = [
    ("all", "Up", [*[("missing_tag", "")] * 3, ("text_outside", "Up"), ("no_answer", "Up")]),
    ("all", THOUGHT, [("tag_order", THOUGHT), ("no_answer", THOUGHT)]),
    ("all", f"hi {THOUGHT}<answer></answer>", [("text_outside", "hi "), ("no_action", "")]),
    ("all", f"{THOUGHT} so {UP} Done.", [("text_outside", " so ")]),
    ("all", f"{OBSERVED}</think>{UP}", [("missing_tag", "")]),
    ("all", f"<think><observation>o{FORESEEN}</think>{UP}", [("unclosed_tag", "<observation>")]),
    ("all", f"<think>o</observation>{FORESEEN}</think>{UP}", [("missing_tag", "</observation>")]),
    (
        "all",
        f"{OBSERVED}<observation>q</observation>{FORESEEN}</think>{UP}",
        [("repeated_tag", "<observation>")],
    ),
    (
        "all",
        f"<think><Observation>o</observation>{FORESEEN}</think>{UP}",
        [("tag_form", "<Observation>")],
    ),
    (
        "all",
        f"{OBSERVED}<prediction> </prediction></think>{UP}",
        [("empty_field", "<prediction> </prediction>")],
    ),
    ("all", f"a thought</think>{THOUGHT}{UP}", [("native_thinking", "a thought</think>")]),
    ("world", f"{THOUGHT}{UP}", [("unexpected_tag", "<observation>")]),
    ("required", f"{OBSERVED}{FORESEEN}</think>{UP}", [("missing_tag", "")]),
    (
        "none",
        f"<observation>o</observation>{UP}",
        [("text_outside", "<observation>o</observation>")],
    ),
    ("none", "<answer>Up, Jump</answer>", [("unknown_action", " Jump")]),
    ("none", f"<answer>{'Up' * 30}</answer>", [("unknown_action", "Up" * 30)]),
    ("none", "<answer>Up,Down,Up,Right</answer>", [("too_many_actions", "Up,Right")]),
    ("none", "<answer>Up,Down,Left,Right</answer>", [("no_action", "Up,Down,Left,Right")]),
    ("none", "<answer> , </answer>", [("no_action", " , ")]),
    ("none", "<answer>Up", [("unclosed_tag", "<answer>")]),
    ("strict", f"so {UP}", [("missing_tag", ""), ("text_outside", "so "), ("withheld", "Up")]),
    ("calls", "<answer>pik(1,2,3)</answer>", [("unknown_action", "pik(1,2,3)")]),
    ("calls", "<answer>pick 1</answer>", [("unknown_action", "pick 1")]),
    ("calls", "<answer>pick(pick(1,2,3))</answer>", [("unclear_answer", "pick(pick(1,2,3))")]),
    ("calls", "<answer>home(1)</answer>", [("bad_argument", "home(1)")]),
    *(
        ("calls", f"<answer>pick(1,{wrong},3)</answer>", [("bad_argument", f"pick(1,{wrong},3)")])
        for wrong in ("", "x", "2.5", "nan", "1e999", "٣")
    ),
    ("floats", "<answer>pick(1,2,1e999)</answer>", [("bad_argument", "pick(1,2,1e999)")]),
]


@pytest.mark.parametrize(("grammar", "reply", "wanted"), AMISS)
def test_problems_say_what_is_amiss_and_where(grammar, reply, wanted):
    found = GRAMMARS[grammar].parse(reply).problems
    assert [(problem.code, reply[problem.start : problem.end]) for problem in found] == wanted
    assert [problem.end - problem.start for problem in found] == [
        len(quoted) for _, quoted in wanted
    ]


def test_the_words_of_problems_are_golden():
    """The model reads these messages: another wording is another version of the environments."""
    told = [
        problem.message
        for grammar, reply, _ in AMISS
        for problem in GRAMMARS[grammar].parse(reply).problems
    ]
    assert "'Jump' is not an action; use one of Up, Down, Left, Right" in told
    assert hashlib.sha256("\n".join(told).encode()).hexdigest()[:16] == "f27b2afb6ceb1c1f"


@pytest.mark.parametrize(
    ("integers", "answer", "executed"),
    [
        (
            True,
            " Pick(62, -55,20.0)|home( )",
            [("pick", (62, -55, 20), "pick(62, -55, 20)"), ("home", (), "home()")],
        ),
        (False, "PICK(1.50, -2, 3e1)", [("pick", (1.5, -2, 30), "pick(1.5, -2, 30)")]),
    ],
)
def test_calls_read_numbers(integers, answer, executed):
    calls = Calls({"pick": 3, "home": 0}, integers=integers)
    parsed = Grammar(calls, "no_think", separator="|", max_actions=2).parse(
        f"<answer>{answer}</answer>"
    )
    assert [(action.name, action.args, action.text) for action in parsed.actions] == executed
    assert (
        "|".join(f"<answer>{answer}</answer>"[each.start : each.end] for each in parsed.actions)
        == answer
    )


def test_markdown_acts_when_lenient_and_costs_the_format():
    text = "<think>I go.</think><answer>**Up**, **Down**</answer>"
    lenient = Grammar(MOVES, "free_think", max_actions=3).parse(text)
    assert [text[action.start : action.end] for action in lenient.actions] == ["Up", "Down"]
    assert [problem.code for problem in lenient.problems] == ["markdown_answer"]
    assert not lenient.format_correct
    for parsing in ("strict", "released"):
        assert not Grammar(MOVES, "free_think", max_actions=3, parsing=parsing).parse(text).actions


@given(
    st.lists(
        st.sampled_from(["Up", "down", "fly", ",", "(", "2.", " ", "⇒", "/", "action", "<image>"]),
        max_size=12,
    )
)
def test_a_markdown_answer_is_its_actions_in_their_order(parts):
    text = f"<answer>{' '.join(parts)}</answer>"
    parsed = Grammar(MOVES, "no_think", max_actions=20).parse(text)
    if [problem.code for problem in parsed.problems] == ["markdown_answer"]:
        assert [action.name.lower() for action in parsed.actions] == [
            part.lower() for part in parts if part.lower() in ("up", "down")
        ]


NAVIGATION = Names(
    "moveahead",
    "moveback",
    "moveright",
    "moveleft",
    "rotateright",
    "rotateleft",
    "lookup",
    "lookdown",
)
KINDS = {
    "grid": Grammar(MOVES, "free_think", max_actions=3),
    "navigation": Grammar(NAVIGATION, "free_think", max_actions=5),
    "arm": Grammar(
        Calls({"pick": 3, "place": 3, "push": 6}), "free_think", separator="|", max_actions=2
    ),
}
CASES = json.loads((Path(__file__).parent / "data" / "replies.json").read_text(encoding="utf-8"))[
    "cases"
]


@pytest.mark.parametrize("case", CASES, ids=[case["label"] for case in CASES])
def test_what_the_table_reads_executes_and_nothing_else(case):
    executed = KINDS[case["kind"]].parse(case["reply"]).actions
    assert " ".join(action.text for action in executed) == (case["executes"] or "")


@pytest.mark.parametrize(
    ("kind", "answer", "wanted"),
    [
        ("grid", '["Up", "Left"]', [("Up", '["Up", "Left"]'), ("Left", '["Up", "Left"]')]),
        ("grid", r"$\boxed{\text{Up}}$", [("Up", "Up")]),
        ("grid", "2 Up", [("Up", "Up"), ("Up", "Up")]),
        ("grid", "↑, ↓", [("Up", "↑"), ("Down", "↓")]),
        ("arm", "pick: (62, -55, 20)", [("pick(62, -55, 20)", "pick: (62, -55, 20)")]),
        ("arm", "pick(x=1, y=2, z=3).", [("pick(1, 2, 3)", "pick(x=1, y=2, z=3)")]),
    ],
)
def test_an_action_says_where_it_stands(kind, answer, wanted):
    """Also at the very end of a reply whose closing tag a stop string removed."""
    for reply in (
        f"<think>ok</think><answer>{answer}</answer>",
        f"<think>ok</think><answer>{answer}",
    ):
        found = KINDS[kind].parse(reply).actions
        assert [(each.text, reply[each.start : each.end]) for each in found] == wanted
        assert all(each.end <= len(reply) for each in found)


def test_what_is_unknown_after_the_last_action_that_counts_is_one_too_many():
    reply = "<answer>Up, Down, Jump</answer>"
    found = Grammar(MOVES, "no_think", max_actions=2).parse(reply).problems
    assert [(each.code, reply[each.start : each.end]) for each in found] == [
        ("too_many_actions", " Jump")
    ]


def test_too_many_actions_of_the_table_are_named_from_the_last_one():
    reply = "<answer>2 Up, Left x2</answer>"
    found = Grammar(MOVES, "no_think", max_actions=2).parse(reply).problems
    assert [(each.code, reply[each.start : each.end]) for each in found] == [
        ("markdown_answer", "Up, Left x2"),
        ("too_many_actions", "Left x2"),
    ]


@pytest.mark.parametrize(
    ("reply", "native", "executed"),
    [
        ("<think>x</think><answer>Up</answer>", None, ["Up"]),
        ("`<answer>Up</think></answer>`", None, []),
        ("<think>x</think><answer>Up</answer></think>", "xUp", []),
    ],
)
def test_what_is_a_thinking_models_own(reply, native, executed):
    """Nothing that stands in code, and whatever a tag closes that was never opened."""
    parsed = KINDS["grid"].parse(reply)
    assert (parsed.native_thinking, [each.text for each in parsed.actions]) == (native, executed)
    assert Grammar(MOVES, "no_think").parse("<answer>Up</answer>").native_thinking is None


@pytest.mark.parametrize("thought", ["<thinking>so</thinking>", "[THINK]so[/THINK]\n"])
def test_a_thought_of_its_own_kind_before_a_malformed_reply_is_the_models_own(thought):
    """It isn't text outside the tags, whatever else is wrong."""
    parsed = Grammar(MOVES).parse(f"{thought}<answer>Up</answer>")
    assert parsed.native_thinking == thought.strip()
    assert "text_outside" not in {problem.code for problem in parsed.problems}


@pytest.mark.parametrize("arrows", ["↑ → ↓", "← → ↓ → ↑", "⬆️ → ⬇️"])
def test_an_arrow_that_may_stand_between_two_others_is_no_action(arrows):
    parsed = KINDS["grid"].parse(f"<think>x</think><answer>{arrows}</answer>")
    assert (parsed.actions, codes(parsed)) == ((), ["unclear_answer"])


@pytest.mark.parametrize(
    ("layout", "strategy", "paid"),
    [("flat", "free_think", True), ("nested", "grounding", False)],
)
def test_the_successors_parser_pays_a_reply_with_text_around_it(layout, strategy, paid):
    grammar = Grammar(MOVES, strategy, layout=layout, reasoning="required", parsing="released")
    parsed = grammar.parse(f"So {grammar.render(['Up'], reasoning='-', observation='-')} there.")
    assert ([each.text for each in parsed.actions], parsed.well_formed) == (["Up"], paid)


def test_of_an_objects_keys_the_surer_one_is_the_answer():
    for reply in ('{"answer": "Down", "action": "Up"}', '{"action": "Up", "answer": "Down"}'):
        assert [each.text for each in KINDS["grid"].parse(reply).actions] == ["Down"]


def test_a_last_line_after_a_sentence_is_an_answer_whatever_ends_the_sentence():
    for end in (".", "!", "。", "！", ".**", "! 🎉"):
        parsed = KINDS["grid"].parse(f"The way is free{end}\n\nUp")
        assert [each.text for each in parsed.actions] == ["Up"]


@pytest.mark.parametrize(
    "again", ["Up, Left", "**Up**\nLeft", "- Up\n- Left", "`Up` and `Left`", "Direction: Up, Left"]
)
@pytest.mark.parametrize(
    "sentence",
    [
        "I go up!\nThen left!\n\n",
        "I go up, then left.\n",
        "I will move up and left to reach the goal\n\n",
        "My final answer: up, left.\n\n",
        "1. I go up.\n2. I go left.\n\n",
        "1. Up\n2. Left\n\n",
    ],
)
def test_actions_that_a_last_line_repeats_never_execute_twice(sentence, again):
    for form in ("{}", "<answer>{}</answer>", "<think>x</think>{}", "<answer>{}"):
        parsed = KINDS["grid"].parse(form.format(sentence + again))
        assert [each.text for each in parsed.actions] in ([], ["Up", "Left"])


def test_a_sentence_before_other_actions_in_a_last_line():
    """The last line counts where it stands alone; in one answer it isn't clear which of two counts."""
    said = "I go up, then left.\n\nDown"
    assert [each.text for each in KINDS["grid"].parse(said).actions] == ["Down"]
    parsed = KINDS["grid"].parse(f"<answer>{said}</answer>")
    assert (parsed.actions, parsed.unclear) == ((), True)


@pytest.mark.parametrize(
    "steps",
    ["First up.\nThen left.\n\nThen down.", "Up.\n\nLeft\n\nDown", "1. Up\n\n2. Left\n\n3. Down"],
)
def test_steps_on_lines_of_their_own_are_one_plan(steps):
    assert [each.name for each in KINDS["grid"].parse(steps).actions] == ["Up", "Left", "Down"]


def test_apostrophes_are_alike():
    for mark in ("'", "’"):
        parsed = KINDS["grid"].parse(f"I look. I{mark}ll pick my final answer: Up")
        assert [each.text for each in parsed.actions] == ["Up"]


def test_the_released_parsers_refuse_what_stands_beside_a_lone_answer():
    grammar = Grammar(MOVES, "no_think", parsing="released", max_actions=3)
    parsed = grammar.parse("`<answer>Up</think></answer>`")
    assert (parsed.answer, parsed.actions) == (None, ())
    grammar = Grammar(MOVES, "free_think", parsing="released", max_actions=3)
    parsed = grammar.parse("<think>t</think><answer><image></answer>")
    assert [(each.code, each.start, each.end) for each in parsed.problems] == [
        ("no_action", 31, 31)
    ]


@pytest.mark.parametrize(
    ("layout", "strategy", "rule"),
    [
        ("nested", "no_think", "whole"),
        ("flat", "no_think", "whole"),
        ("nested", "free_think", "whole"),
        ("flat", "free_think", "anywhere"),
        ("nested", "grounding", "either"),
        ("flat", "grounding", "anywhere"),
    ],
)
def test_each_release_has_its_rule(layout, strategy, rule):
    assert released_rule(layout, strategy) == rule


def test_a_problem_is_written_down():
    assert Problem("tag_form", "why", 1, 2).to_json() == {
        "code": "tag_form",
        "message": "why",
        "start": 1,
        "end": 2,
    }


@pytest.mark.parametrize("called", [["up"], ["up", "UP"], ["up", "down", "left"]])
def test_names_for_actions_must_be_as_many_and_differ(called):
    with pytest.raises(ValueError, match=r"can't name Up, Down: give 2 different names"):
        Names("Up", "Down", called=called)


INVENTED = [
    "\n<image>\n",
    "\n[Next observation]\n",
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nmoved",
    "\n[Turn 2]",
    "\n[Result of turn 1] You moved.\n",
    "\n[Turn 1 result] ok\n",
    " [Turn result] ok ",
    "\nTurn 2:\n",
    "\n\n### Turn 2\n",
    "\n用户：好。\n助手：",
    "\nUser: next\nAssistant: ",
    "\n\nHuman: next\n\n",
    "\nGame master: you slide.\nPlayer: ",
    "\nUSER\nnext\nASSISTANT\n",
    "</s>[INST] next [/INST]",
    "<tool_response>moved</tool_response>",
]


@pytest.mark.parametrize("invented", INVENTED)
def test_a_turn_that_the_model_goes_on_with_does_not_execute(invented):
    reply = f"<think>a</think><answer>Up</answer>{invented}<think>b</think><answer>Left</answer>"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up"]


@pytest.mark.parametrize("invented", INVENTED)
def test_a_turn_that_is_quoted_within_a_thought_ends_nothing(invented):
    reply = f"<think>It was <answer>Up</answer>{invented}so</think><answer>Left</answer>"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Left"]


@pytest.mark.parametrize("world", ["Sokoban", "FrozenLake", "Navigation"])
@pytest.mark.parametrize("pack", ["default", "vagen_main"])
def test_the_own_next_message_ends_a_reply(world, pack):
    """What an environment shows after a turn is what a model makes up first."""
    with contextlib.closing(gym.make(f"vagen/{world}-v0", prompt_pack=pack)) as env:
        env.reset(seed=1)
        env.step(env.unwrapped.oracle_reply())
        shown = env.step("no answer")[0]["text"]
    reply = f"<think>a</think><answer>Up</answer>\n{shown}\n<think>b</think><answer>Left</answer>"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up"]


UNTAGGED = [
    "Answer: {}",
    "Action: {}",
    "<action>{}</action>",
    "\\boxed{{{}}}",
    '{{"action": "{}"}}',
    '<tool_call>{{"name": "move", "arguments": {{"action": "{}"}}}}</tool_call>',
    "{}",
]


@pytest.mark.parametrize("form", UNTAGGED)
@pytest.mark.parametrize(
    "between", ["You moved up.", "What now? The box has moved.", "⬛⬛ moved."]
)
def test_of_two_answers_in_other_forms_that_differ_neither_executes(form, between):
    """A made-up next turn without a heading may stand between them."""
    reply = "\n\n".join(["It is free.", form.format("Up"), between, form.format("Left")])
    parsed = KINDS["grid"].parse(reply)
    assert (parsed.actions, parsed.unclear) == ((), True)


def test_calls_with_nothing_between_them_are_one_answer():
    first, second = (UNTAGGED[5].format(name) for name in ("Up", "Left"))
    for between, executed in (("", ["Up", "Left"]), ("\n", ["Up", "Left"]), ("Then left:", [])):
        parsed = KINDS["grid"].parse(f"I go.\n{first}{between}{second}")
        assert [each.name for each in parsed.actions] == executed


@pytest.mark.parametrize("own", ["Wait, a hole.", "Correction:", "**Revised answer:**", "No."])
def test_a_correction_of_ones_own_replaces_the_answer(own):
    reply = f"<think>a</think><answer>Up</answer>\n{own}\n<answer>Left</answer>"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Left"]


def test_a_label_that_may_be_anybodys_executes_neither_answer():
    reply = "<think>a</think><answer>Up</answer>\nStatus: blocked\n<answer>Left</answer>"
    parsed = KINDS["grid"].parse(reply)
    assert (parsed.actions, parsed.unclear) == ((), True)


@given(
    st.sampled_from(["<think>plan <think>inner</think>", "<think>a<think>b</think> c"]),
    moves,
    words,
)
def test_an_answer_in_a_thought_that_may_still_be_open_does_not_execute(opened, drafted, after):
    """One of two openings was closed: what follows may be thought too."""
    reply = f"{opened} <answer>{','.join(drafted)}</answer> The hole is near. {after} goes on"
    assert KINDS["grid"].parse(reply).actions == ()
    closed = f"{opened} done</think><answer>{','.join(drafted)}</answer>"
    assert [action.name for action in KINDS["grid"].parse(closed).actions] == drafted


@given(
    st.sampled_from(STRATEGIES), st.sampled_from(LAYOUTS), st.lists(moves, min_size=2, max_size=4)
)
def test_the_fields_that_are_judged_belong_to_the_answer_that_executes(strategy, layout, drafts):
    grammar = Grammar(MOVES, strategy, layout=layout, max_actions=3)
    replies = [
        grammar.render(
            plan, observation=f"seen {i}", reasoning=f"because {i}", prediction=f"then {i}"
        )
        for i, plan in enumerate(drafts)
    ]
    parsed = grammar.parse("\nAgain, better.\n".join(replies))
    last = grammar.parse(replies[-1])
    assert parsed.actions[0].text == last.actions[0].text
    for name in ("observation", "prediction"):
        assert getattr(parsed, name) == getattr(last, name)


def test_calls_in_calls_end():
    assert KINDS["grid"].parse("<tool_call>" * 4000).actions == ()


MARKS = [
    ("<think>", "</think>"),
    ("", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
]
drafts = st.sampled_from(
    [
        "Maybe {0}.",
        "{0}? No.",
        "The example was {0}. Mine differs.",
        "I write `{0}`.",
        "{0}\n[Turn result] ok",
    ]
)


@given(
    st.sampled_from(STRATEGIES),
    st.sampled_from(LAYOUTS),
    st.sampled_from(MARKS),
    drafts,
    moves,
    moves,
    st.booleans(),
)
def test_thoughts_that_quote_a_reply_change_nothing(
    strategy, layout, marks, draft, quoted, meant, whole
):
    grammar = Grammar(MOVES, strategy, layout=layout, max_actions=3)
    words = {"observation": "o", "reasoning": "r", "prediction": "p"}
    quote = grammar.render(quoted, **words) if whole else f"<answer>{','.join(quoted)}</answer>"
    reply = grammar.render(meant, **words)
    parsed = grammar.parse(f"{marks[0]}{draft.format(quote)}{marks[1]}\n\n{reply}")
    assert [action.name for action in parsed.actions] == meant
    assert parsed.observation == grammar.parse(reply).observation


@given(
    st.sampled_from(
        [
            "{0} or {1}",
            "either {0} or {1}",
            "{0}? {1}?",
            "not {0}",
            "{0}, no wait, {1}",
            "maybe {0}",
            "{0} / {1}",
            "{0} ❌",
            "avoid {0}",
            "{0}: hole; {1}: safe",
            "I can't go {0}",
            "{{'{0}': 0.1, '{1}': 0.9}}",
        ]
    ),
    st.permutations(MOVES.names),
    st.sampled_from(["{}", "**{}**", "```\n{}\n```", "Answer: {}", '"{}"']),
)
def test_a_rejected_or_undecided_option_is_never_executed(form, names, dress):
    answer = dress.format(form.format(*names))
    assert KINDS["grid"].parse(f"<think>t</think><answer>{answer}</answer>").actions == ()
    assert KINDS["grid"].parse(f"<think>t</think>{answer}").actions == ()


@pytest.mark.parametrize(
    "reply",
    [
        "<think>x</think><answer>Up</answer> That is a hole.",
        "<think>Maybe.\n\nAction: Up",
        "<think>Maybe.\n\nUp",
        "<think>x</think><answer>3. Up</answer>",
        "<think>x</think><answer>1. Up 3. Left</answer>",
        "<think>x</think>Action: Up\nWait, no, a hole.",
        '<answer>[{"action": "Up", "confidence": 0.1}, {"action": "Left", "confidence": 0.9}]</answer>',
        "<answer>Up</answer>\n[Step 2]\n<answer>Left</answer>\n<think>t</think><answer>Down</answer>",
        "<answer><s>Up</s> Left</answer>",
        "<answer>Instead of Up<tool_call> I pick Left</answer>",
        "<think>It could be `<answer></think></answer>`Left",
        "`<answer>Up</answer>` is the form.",
        "<think>I write [Turn <answer>Up</answer> result] and <answer>Left</answer>",
    ],
)
def test_what_is_taken_back_or_may_be_a_draft_executes_nothing(reply):
    assert KINDS["grid"].parse(reply).actions == ()


def test_a_fence_around_a_reply_quotes_nothing_but_its_drafts():
    reply = "```\n<think>Maybe <answer>Up</answer>.</think>\n<answer>Left</answer>\n```"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Left"]


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_fenced_answer_after_the_answer_is_quoted(fence):
    reply = f"<think>t</think>\n<answer>Up</answer>\nThe form is:\n{fence}\n<answer>Left</answer>\n{fence}"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up"]


@pytest.mark.parametrize(("number", "counts"), [(20, True), (21, False)])
def test_a_bare_number_up_to_twenty_is_a_count(number, counts):
    turn = KINDS["grid"].parse(f"<think>t</think><answer>Up {number}</answer>")
    assert bool(turn.actions) == counts


@pytest.mark.parametrize("opened", ["<think>", "<think>\n", "[THINK]\n", "<prediction>\n"])
def test_a_thought_that_begins_after_an_answer_leaves_it(opened):
    reply = f"<think>t</think><answer>Up</answer>\n{opened}Then left"
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up"]


def test_a_number_of_steps_beside_several_actions_counts_them():
    reply = '<answer>{"actions": ["Up", "Left"], "steps": 2}</answer>'
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up", "Left"]


@pytest.mark.parametrize(("name", "executed"), [("Up", ["Up"]), ("up", [])])
def test_exact_names_are_exact_in_any_dress(name, executed):
    grammar = Grammar(Names("Up", "Down", exact=True), "no_think")
    parsed = grammar.parse(f"<answer>**{name}**</answer>")
    assert [action.name for action in parsed.actions] == executed


def test_an_answer_that_is_not_closed_ends_where_a_field_begins():
    reply = "<observation>o</observation><answer>Up<prediction>p</prediction>"
    parsed = Grammar(MOVES, layout="flat").parse(reply)
    assert ([action.name for action in parsed.actions], parsed.prediction) == (["Up"], "p")


def test_a_field_that_is_not_closed_ends_with_its_thought():
    reply = "<think><reasoning>r</think><answer>Up</answer>\n[Turn 2]\n"
    whole = f"{reply}<think><reasoning>s</reasoning></think><answer>Left</answer>"
    assert [action.name for action in Grammar(MOVES).parse(whole).actions] == ["Up"]


def test_the_thought_that_is_shown_ends_at_its_own_tag():
    quoted = "<think>It ends with `</think>` and <think>more</think> so.</think><answer>Up</answer>"
    parsed = KINDS["grid"].parse(quoted)
    assert parsed.think == "It ends with `</think>` and <think>more</think> so."


def test_each_message_of_a_thought_may_have_a_heading():
    """gpt-oss heads every message: a second heading opens no thought within the first."""
    messages = [
        "analysis<|message|>It is above.",
        "analysis<|message|>Try <answer>Up</answer>.",
        "final<|message|><answer>Left</answer> Good luck.",
    ]
    reply = "<|end|><|start|>assistant<|channel|>".join(messages)
    parsed = KINDS["grid"].parse(f"<|channel|>{reply}")
    assert [action.name for action in parsed.actions] == ["Left"]


def test_differing_answers_are_counted_and_drafts_are_among_them():
    grammar = Grammar(MOVES, "free_think", native_thinking="allow")
    assert grammar.parse(
        "Maybe <answer>Up</answer>? No.</think><think>t</think><answer>Left</answer>"
    ).answers_differ
    assert not grammar.parse(
        "So <answer>Left</answer></think><think>t</think><answer> left</answer>"
    ).answers_differ
    assert not grammar.parse(
        "As <answer>...</answer> asks</think><think>t</think><answer>Left</answer>"
    ).answers_differ


@pytest.mark.parametrize("arguments", [{"actions": ["Up", "Left"]}, '{"actions": "Up, Left"}'])
def test_a_call_from_an_apis_own_field_is_read(arguments):
    reply = tool_call_reply("act", arguments, "I go.")
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up", "Left"]
    assert KINDS["grid"].parse(tool_call_reply("act", "{broken")).actions == ()


TABLE = re.findall(
    r"^\| `(.+)` \| (.+) \|$",
    (Path(__file__).parents[2] / "docs" / "replies.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_page_has_a_table():
    assert len(TABLE) >= 20


@pytest.mark.parametrize(("reply", "promised"), TABLE)
def test_the_table_of_the_page_holds(reply, promised):
    parsed = KINDS["grid"].parse(reply.replace("⏎", "\n"))
    executed = " ".join(action.name for action in parsed.actions) or "-"
    told = [f" `{code}`" for code in codes(parsed) if code in ("unclear_answer", "unknown_action")]
    assert executed + "".join(told) == promised
