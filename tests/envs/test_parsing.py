"""The parser: rendering and reading agree, and no text at all breaks it."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.replies import FORMAT_CODES, STRATEGIES, Calls, FreeText, Grammar, Names, ParsedTurn, tool_call_reply
from vagen_envs.seeding import HashStream

MOVES = Names("Up", "Down", "Left", "Right")
TAGS = [
    f"<{slash}{name}>" for name in ("think", "observation", "reasoning", "prediction", "answer") for slash in ("", "/")
]
ACTION_CODES = {"no_action", "unknown_action", "bad_argument", "too_many_actions", "withheld", "answers_differ"}

words = st.text(st.characters(exclude_characters="<>"), min_size=1).filter(lambda text: text.strip())
grammars = st.builds(
    Grammar,
    st.just(MOVES),
    strategy=st.sampled_from(STRATEGIES),
    max_actions=st.integers(1, 5),
    separator=st.sampled_from([",", "|", " ; "]),
    layout=st.sampled_from(["nested", "flat"]),
    reasoning=st.sampled_from(["optional", "required"]),
    parsing=st.sampled_from(["strict", "lenient"]),
    native_thinking=st.sampled_from(["reject", "allow"]),
)
texts = st.lists(
    st.one_of(st.sampled_from([*TAGS, "Up", "down", ",", "<image>", " ", "\n", "<THINK>"]), st.text())
).map("".join)


def codes(parsed: ParsedTurn) -> list[str]:
    return [problem.code for problem in parsed.problems]


@given(grammars, words, words, words, st.lists(st.sampled_from(MOVES.names), min_size=1, max_size=5))
def test_a_rendered_reply_is_read_back(grammar, observation, reasoning, prediction, actions):
    actions = actions[: grammar.max_actions]
    reply = grammar.render(actions, observation=observation, reasoning=reasoning, prediction=prediction)
    parsed = grammar.parse(reply)
    assert parsed.format_correct
    assert not parsed.problems
    assert [action.text for action in parsed.actions] == actions
    assert [reply[action.start : action.end].strip() for action in parsed.actions] == actions
    assert parsed.answer == grammar.separator.join(actions)
    has = {"grounding": "or", "world_modeling": "rp", "grounding_world_modeling": "orp"}.get(grammar.strategy, "")
    assert parsed.observation == (observation.strip() if "o" in has else None)
    assert parsed.reasoning == (reasoning.strip() if "r" in has else None)
    assert parsed.prediction == (prediction.strip() if "p" in has else None)
    if grammar.strategy == "free_think":
        assert parsed.think == f"{observation} {reasoning}".strip()


@given(grammars, st.lists(st.sampled_from([" ", "\n", "\t ", ""]), min_size=10, max_size=10))
def test_blanks_between_tags_and_around_texts_change_nothing(grammar, blanks):
    reply = grammar.render(["Up"], observation="o", reasoning="r", prediction="p")
    pieces = re.split("(</?[a-z]+>)", reply)
    spaced = "".join(f"{blank}{piece}{blank}" for piece, blank in zip(pieces, (blanks * 3)[: len(pieces)], strict=True))
    before, after = grammar.parse(reply), grammar.parse(spaced)
    assert after.format_correct
    texts = ("observation", "reasoning", "prediction", "think", "answer")
    assert [getattr(after, name) for name in texts] == [getattr(before, name) for name in texts]
    assert spaced[after.actions[0].start : after.actions[0].end].strip() == "Up"


@given(grammars, texts)
def test_any_text_is_read(grammar, text):
    parsed = grammar.parse(text)
    assert set(codes(parsed)) <= FORMAT_CODES | ACTION_CODES
    assert parsed.well_formed == (not FORMAT_CODES & set(codes(parsed)))
    assert all(0 <= problem.start <= problem.end <= len(text) for problem in parsed.problems)
    assert len(parsed.actions) <= grammar.max_actions
    for action in parsed.actions:
        assert action.text.lower() in text[action.start : action.end].lower()
    if grammar.parsing == "strict" and not parsed.well_formed:
        assert not parsed.actions


@given(grammars.filter(lambda grammar: grammar.native_thinking == "reject"), st.data())
def test_one_tag_amiss_breaks_the_format(grammar, data):
    reply = grammar.render(["Up"], observation="o", reasoning="r", prediction="p")
    assert grammar.parse(reply).well_formed
    tag = data.draw(st.sampled_from(list(re.finditer("</?[a-z]+>", reply))))
    amiss = data.draw(st.sampled_from(["", tag[0] * 2, tag[0].upper(), f"x{tag[0]}" if tag.start() == 0 else ""]))
    assert not grammar.parse(reply[: tag.start()] + amiss + reply[tag.end() :]).well_formed


@given(grammars, words)
def test_json_gives_the_parse_back(grammar, word):
    parsed = grammar.parse(grammar.render(["Up", word], observation=word, reasoning=word, prediction=word))
    assert ParsedTurn.from_json(json.loads(json.dumps(asdict(parsed)))) == parsed


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "<answer>", "<answer></answer>", "<think></think>", "</answer><answer>"]
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_time_is_linear_in_the_text(piece, strategy):
    """Eight times the text takes far less than 64 times as long, which a quadratic parser would."""

    def seconds(count: int) -> float:
        text = piece * count + "<answer>" + "Up," * count
        began = time.process_time()
        Grammar(MOVES, strategy).parse(text)
        return time.process_time() - began

    small = min(seconds(2_000) for _ in range(3))
    assert any(seconds(16_000) < 32 * small + 0.05 for _ in range(3))


def test_two_blocks_are_not_well_formed():
    grammar = Grammar(MOVES, "free_think", max_actions=3)
    block = grammar.render(["Up"], think="x")
    parsed = grammar.parse(block + block)
    assert not parsed.well_formed
    assert "repeated_tag" in codes(parsed)


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


def test_an_unknown_action_stops_the_turn_and_costs_the_format():
    parsed = Grammar(MOVES, "no_think", max_actions=5).parse("<answer>Up,Jump,Down</answer>")
    assert [action.name for action in parsed.actions] == ["Up"]
    assert codes(parsed) == ["unknown_action"]
    assert parsed.well_formed
    assert not parsed.format_correct
    problem = parsed.problems[0]
    assert "<answer>Up,Jump,Down</answer>"[problem.start : problem.end] == "Jump"


def test_actions_beyond_the_maximum_are_cut_and_marked_but_cost_nothing():
    parsed = Grammar(MOVES, "no_think", max_actions=2).parse("<answer>Up,Down,Up,Right</answer>")
    assert [action.name for action in parsed.actions] == ["Up", "Down"]
    assert parsed.cut
    assert parsed.format_correct


def test_names_ignore_case_blanks_empty_pieces_and_image_marks():
    parsed = Grammar(MOVES, "no_think", max_actions=3).parse("<answer> up ,, DOWN\n,<image>left</answer>")
    assert [action.name for action in parsed.actions] == ["Up", "Down", "Left"]


@pytest.mark.parametrize(
    "reply",
    [
        "<think>so I wonder</think><think><observation>o</observation><prediction>p</prediction></think><answer>Up</answer>",
        "so I wonder</think>\n\n<think><observation>o</observation><prediction>p</prediction></think><answer>Up</answer>",
        "<think>so I wonder <think><observation>o</observation><prediction>p</prediction></think><answer>Up</answer>",
    ],
    ids=["closed", "opened by the chat template", "never closed"],
)
def test_a_thinking_models_own_text_is_set_aside(reply):
    rejected, allowed = Grammar(MOVES).parse(reply), Grammar(MOVES, native_thinking="allow").parse(reply)
    assert rejected.native_thinking == allowed.native_thinking == "so I wonder"
    assert rejected.observation == allowed.observation == "o"
    assert codes(rejected) == ["native_thinking"]
    assert allowed.format_correct


@pytest.mark.parametrize(
    ("grammar", "reply"),
    [
        (Grammar(MOVES, "no_think", native_thinking="allow"), "<think>so I wonder</think><answer>Up</answer>"),
        (Grammar(MOVES, "no_think", native_thinking="allow"), "so I wonder</think><answer>Up</answer>"),
        (
            Grammar(MOVES, "grounding", layout="flat", native_thinking="allow"),
            "<think>so I wonder</think><observation>o</observation><answer>Up</answer>",
        ),
        (
            Grammar(MOVES, "grounding", layout="flat", native_thinking="allow"),
            "<think>so I wonder</think><observation>o</observation><think>r</think><answer>Up</answer>",
        ),
    ],
)
def test_a_thinking_models_own_text_is_set_aside_where_replies_begin_with_no_thought(grammar, reply):
    parsed = grammar.parse(reply)
    assert parsed.native_thinking == "so I wonder"
    assert parsed.format_correct
    assert [action.name for action in parsed.actions] == ["Up"]


@pytest.mark.parametrize("closing", ["", "</think>"])
def test_a_thought_is_set_aside_before_one_that_is_never_closed(closing):
    parsed = Grammar(MOVES).parse(f"<think>so I wonder{closing}<think><answer>Up</answer>")
    assert parsed.native_thinking == "so I wonder"


@pytest.mark.parametrize(
    ("grammar", "reply"),
    [
        (Grammar(MOVES), "<think>so</think> hm <think><prediction>p</prediction></think><answer>Up</answer>"),
        (Grammar(MOVES, "no_think"), "<think>so <answer>Up</answer>"),
    ],
)
def test_what_is_no_thinking_models_text_is_not_set_aside(grammar, reply):
    parsed = grammar.parse(reply)
    assert parsed.native_thinking is None
    assert "native_thinking" not in codes(parsed)


def test_other_tags_in_free_text_are_text():
    free = Grammar(MOVES, "free_think").parse("<think>I <observation>see</observation></think><answer>Up</answer>")
    assert free.think == "I <observation>see</observation>"
    assert free.format_correct
    none = Grammar(MOVES, "no_think").parse("<observation>o</observation><answer>Up</answer>")
    assert codes(none) == ["text_outside"]


@pytest.mark.parametrize("end", ["", " so"])
def test_a_separator_after_the_answer_is_none(end):
    grammar = Grammar(MOVES, "world_modeling", layout="flat", max_actions=2)
    parsed = grammar.parse(grammar.render(["Up"], reasoning="r", prediction="now, then") + end)
    assert [action.name for action in parsed.actions] == ["Up"]
    assert not parsed.refused


@pytest.mark.parametrize(
    "reply",
    [
        "<think>maybe <answer>Left</answer> or so</think><answer>Up</answer>",
        "<answer>Up</answer> [Turn result] <answer>Left</answer>",
        "<think>never closed <answer>Up</answer> [Turn result] <answer>Left</answer>",
        "<think>maybe <answer>Left</answer></think> hm <think>never closed <answer>Up</answer>",
        "<answer>Left</answer> <think>or</think> <answer>Up</answer>",
        "<think>I go. <answer>Left</answer>? No. <answer>Up</answer></think>",
    ],
)
def test_an_answer_inside_a_thought_or_a_hallucinated_turn_is_not_taken(reply):
    parsed = Grammar(MOVES, parsing="lenient").parse(reply)
    assert [action.name for action in parsed.actions] == ["Up"]
    assert parsed.answer == "Up"


def test_a_field_that_is_begun_twice_begins_at_the_first():
    reply = "<observation>a<observation>b</observation> c</observation><answer>Up</answer>"
    assert Grammar(MOVES).parse(reply).observation == "a<observation>b"


def test_reasoning_may_be_left_out_unless_it_is_required():
    reply = "<think><observation>o</observation><prediction>p</prediction></think><answer>Up</answer>"
    assert Grammar(MOVES).parse(reply).format_correct
    assert codes(Grammar(MOVES, reasoning="required").parse(reply)) == ["missing_tag"]


def test_an_empty_field_breaks_the_format():
    reply = "<think><observation> </observation><prediction>p</prediction></think><answer>Up</answer>"
    assert codes(Grammar(MOVES).parse(reply)) == ["empty_field"]


def test_calls_read_numbers_and_say_what_is_wrong():
    grammar = Grammar(Calls({"pick": 3, "push": 6}), "no_think", separator="|", max_actions=2)
    parsed = grammar.parse("<answer>Pick(62, -55,20.0)|push(1,2,3,4,5,6)</answer>")
    assert [(action.name, action.args) for action in parsed.actions] == [
        ("pick", (62, -55, 20)),
        ("push", (1, 2, 3, 4, 5, 6)),
    ]
    assert parsed.actions[0].text == "pick(62, -55, 20)"
    for answer, code in {
        "pick(1,2)": "bad_argument",
        "pick(1,2,x)": "bad_argument",
        "pick(1,2,3.5)": "bad_argument",
        "pick(1,2,nan)": "bad_argument",
        "pick(1,2,1e999)": "bad_argument",
        "pick(1,2,٣)": "bad_argument",
        "pik(1,2,3)": "unknown_action",
        "pick 1 2 3": "unknown_action",
        "pick(pick(1,2,3))": "unknown_action",
    }.items():
        assert codes(grammar.parse(f"<answer>{answer}</answer>")) == [code], answer
    assert "Did you mean 'pick'" in grammar.parse("<answer>pik(1,2,3)</answer>").problems[0].message


def test_free_text_is_one_action():
    grammar = Grammar(FreeText(), "no_think", separator="~~")
    parsed = grammar.parse("<answer>\n<svg><path d='M0,0'/></svg>\n</answer>")
    assert [(action.name, action.args) for action in parsed.actions] == [("text", ())]
    assert [action.text for action in parsed.actions] == ["<svg><path d='M0,0'/></svg>"]
    assert [(action.start, action.end) for action in parsed.actions] == [(8, 37)]  # between the answer's tags
    assert grammar.actions.summary() == "free text"


@given(st.sampled_from([Names("Up", "Down"), Calls({"pick": 3, "push": 6, "wait": 0}), FreeText()]), st.integers(0, 9))
def test_actions_drawn_at_random_are_actions(actions, seed):
    drawn = actions.random(HashStream("a", seed), 3)
    assert drawn == actions.random(HashStream("a", seed), 3)
    parsed = Grammar(actions, "no_think", separator="|", max_actions=3).parse(f"<answer>{'|'.join(drawn)}</answer>")
    assert [action.text for action in parsed.actions] == list(drawn)


@pytest.mark.parametrize(
    ("actions", "drawn"),
    [
        (Names("Up", "Down"), ["Down", "Up", "Up"]),
        (Calls({"push": 6, "pick": 3, "wait": 0}), ["push(-53, -92, -75, -30, 88, -49)", "wait()", "wait()"]),
        (FreeText(), ["jtxmiigm", "eogewryi", "ffixttvn"]),
    ],
)
def test_what_is_drawn_at_random_is_the_same_everywhere(actions, drawn):
    assert actions.random(HashStream("drawn"), 3) == drawn


def test_numbers_are_drawn_from_minus_100_to_100():
    (call,) = Calls({"pick": 2000}).random(HashStream("drawn"), 1)
    assert set(map(int, re.findall(r"-?\d+", call))) == set(range(-100, 101))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strategy": "grond"}, "unknown strategy 'grond'; use one of no_think, free_think, grounding, world_modeling"),
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
THOUGHT = f"{OBSERVED}<reasoning>r</reasoning><prediction>p</prediction></think>"
UP = "<answer>Up</answer>"
GRAMMARS = {
    "all": Grammar(MOVES, max_actions=2),
    "none": Grammar(MOVES, "no_think", max_actions=2),
    "free": Grammar(MOVES, "free_think"),
    "firm": Grammar(MOVES, "free_think", parsing="strict"),
    "world": Grammar(MOVES, "world_modeling", reasoning="required"),
    "calls": Grammar(Calls({"pick": 3, "home": 0}), "no_think", separator="|"),
    "floats": Grammar(Calls({"pick": 3}, integers=False), "no_think", separator="|"),
}
AMISS = [
    (
        "all",
        "Up",
        [
            ("missing_tag", "<think> is missing", ""),
            ("missing_tag", "<observation> is missing", ""),
            ("missing_tag", "<prediction> is missing", ""),
            ("text_outside", "text stands outside the tags", "Up"),
            ("no_answer", "there is no <answer>…</answer>", "Up"),
        ],
    ),
    (
        "all",
        THOUGHT,
        [
            ("tag_order", f"the tags don't stand as in {NESTED['grounding_world_modeling']}", THOUGHT),
            ("no_answer", "there is no <answer>…</answer>", THOUGHT),
        ],
    ),
    ("all", f"hi {THOUGHT}{UP}", [("text_outside", "text stands outside the tags", "hi ")]),
    ("all", f"{THOUGHT} so {UP} then", [("text_outside", "text stands outside the tags", " so ")]),
    ("all", f"{THOUGHT}{UP} then", [("text_outside", "text stands outside the tags", " then")]),
    ("all", f"{OBSERVED}</think>{UP}", [("missing_tag", "<prediction> is missing", "")]),
    (
        "all",
        f"<think><observation>o<prediction>p</prediction></think>{UP}",
        [("unclosed_tag", "<observation> is not closed", "<observation>")],
    ),
    (
        "all",
        f"<think>o</observation><prediction>p</prediction></think>{UP}",
        [("missing_tag", "</observation> closes what was never opened", "</observation>")],
    ),
    (
        "all",
        f"{OBSERVED}<observation>q</observation><prediction>p</prediction></think>{UP}",
        [("repeated_tag", "<observation> stands 2 times", "<observation>")],
    ),
    (
        "all",
        f"<think><Observation>o</observation><prediction>p</prediction></think>{UP}",
        [("tag_form", "<observation> must be written in lower case, without anything else in it", "<Observation>")],
    ),
    (
        "all",
        f"{OBSERVED}<prediction> </prediction></think>{UP}",
        [("empty_field", "<prediction> is empty", "<prediction> </prediction>")],
    ),
    (
        "all",
        f"a thought</think>{THOUGHT}{UP}",
        [("native_thinking", "text of a thinking model stands before the reply", "a thought</think>")],
    ),
    (
        "all",
        f"hi {THOUGHT}<answer></answer>",
        [("text_outside", "text stands outside the tags", "hi "), ("no_action", "the answer has no action", "")],
    ),
    ("world", f"{THOUGHT}{UP}", [("unexpected_tag", "<observation> doesn't belong to this format", "<observation>")]),
    (
        "none",
        "<answer>Up, Jump</answer>",
        [("unknown_action", "'Jump' is not an action; use one of Up, Down, Left, Right", " Jump")],
    ),
    (
        "none",
        f"<answer>{'Up' * 30}</answer>",
        [("unknown_action", f"'{'Up' * 20}…' is not an action; use one of Up, Down, Left, Right", "Up" * 30)],
    ),
    (
        "none",
        f"<answer>{'Up' * 20}</answer>",
        [("unknown_action", f"'{'Up' * 20}' is not an action; use one of Up, Down, Left, Right", "Up" * 20)],
    ),
    (
        "none",
        "<answer>Up,Down,Up,Right</answer>",
        [("too_many_actions", "only the first 2 action(s) count", "Up,Right")],
    ),
    (
        "none",
        "<answer>Up,Down,Left,Right</answer>",
        [("no_action", "the answer repeats the list of all actions", "Up,Down,Left,Right")],
    ),
    ("none", "<answer> , </answer>", [("no_action", "the answer has no action", " , ")]),
    ("none", "<answer>Up", [("unclosed_tag", "<answer> is not closed", "<answer>")]),
    (
        "free",
        f"so {UP}",
        [
            ("missing_tag", "<think> is missing", ""),
            ("text_outside", "text stands outside the tags", "so "),
        ],
    ),
    (
        "firm",
        f"so {UP}",
        [
            ("missing_tag", "<think> is missing", ""),
            ("text_outside", "text stands outside the tags", "so "),
            ("withheld", "nothing was executed because the format is broken", "Up"),
        ],
    ),
    (
        "calls",
        "<answer>pik(1,2,3)</answer>",
        [("unknown_action", "'pik(1,2,3)' is not an action. Did you mean 'pick'?", "pik(1,2,3)")],
    ),
    (
        "calls",
        "<answer>pick 1</answer>",
        [("unknown_action", "'pick 1' is not an action. Use one of pick(n1, n2, n3), home().", "pick 1")],
    ),
    ("calls", "<answer>pick(1,2)</answer>", [("bad_argument", "pick takes 3 numbers, not 2", "pick(1,2)")]),
    ("calls", "<answer>home(1)</answer>", [("bad_argument", "home takes 0 numbers, not 1", "home(1)")]),
    ("calls", "<answer>pick(1,x,3)</answer>", [("bad_argument", "'x' in pick(…) is not an integer", "pick(1,x,3)")]),
    (
        "calls",
        "<answer>pick(1,2.5,3)</answer>",
        [("bad_argument", "'2.5' in pick(…) is not an integer", "pick(1,2.5,3)")],
    ),
    (
        "floats",
        "<answer>pick(1,2,1e999)</answer>",
        [("bad_argument", "'1e999' in pick(…) is not a finite number", "pick(1,2,1e999)")],
    ),
]


@pytest.mark.parametrize(("grammar", "reply", "wanted"), AMISS)
def test_problems_say_what_is_amiss_and_where(grammar, reply, wanted):
    """The model reads these messages, so that another wording is another version of the environments."""
    found = GRAMMARS[grammar].parse(reply).problems
    assert [(problem.code, problem.message, reply[problem.start : problem.end]) for problem in found] == wanted
    assert [problem.end - problem.start for problem in found] == [len(each[2]) for each in wanted]


def test_calls_without_arguments_and_with_fractions():
    reply = "<answer> home( ) | PICK(1.50, -2, 3e1)</answer>"
    calls = Calls({"pick": 3, "home": 0}, integers=False)
    home, pick = Grammar(calls, "no_think", separator="|", max_actions=2).parse(reply).actions
    assert (home.name, home.args, home.text) == ("home", (), "home()")
    assert (pick.name, pick.args, pick.text) == ("pick", (1.5, -2, 30), "pick(1.5, -2, 30)")
    assert reply[home.start : home.end].strip() == "home( )"
    assert reply[pick.start : pick.end].strip() == "PICK(1.50, -2, 3e1)"


def test_markdown_acts_when_lenient_and_costs_the_format():
    text = "<think>I go.</think><answer>**Up**, **Down**</answer>"
    lenient = Grammar(MOVES, "free_think", max_actions=3).parse(text)
    assert [text[action.start : action.end] for action in lenient.actions] == ["Up", "Down"]
    assert [problem.code for problem in lenient.problems] == ["markdown_answer"]
    assert not lenient.format_correct
    for parsing in ("strict", "released"):
        assert not Grammar(MOVES, "free_think", max_actions=3, parsing=parsing).parse(text).actions


@given(
    st.lists(st.sampled_from(["Up", "down", "fly", ",", "(", "2.", " ", "⇒", "/", "action", "<image>"]), max_size=12)
)
def test_a_markdown_answer_is_its_actions_in_their_order(parts):
    text = f"<answer>{' '.join(parts)}</answer>"
    parsed = Grammar(MOVES, "no_think", max_actions=20).parse(text)
    if [problem.code for problem in parsed.problems] == ["markdown_answer"]:
        assert [action.name.lower() for action in parsed.actions] == [
            part.lower() for part in parts if part.lower() in ("up", "down")
        ]


def test_no_number_is_made_of_marks_and_no_action_taken_for_a_caption():
    calls = Grammar(Calls({"pick": 3}), "no_think", separator="|")
    assert calls.parse("<answer>`pick(1²,2,3)`</answer>").actions == ()
    own = Grammar(Names("answer", "up"), "no_think", max_actions=2)
    assert [action.name for action in own.parse("<answer>**answer**, **up**</answer>").actions] == ["answer", "up"]


NAVIGATION = Names("moveahead", "moveback", "moveright", "moveleft", "rotateright", "rotateleft", "lookup", "lookdown")
KINDS = {
    "grid": Grammar(MOVES, "free_think", max_actions=3),
    "navigation": Grammar(NAVIGATION, "free_think", max_actions=5),
    "arm": Grammar(Calls({"pick": 3, "place": 3, "push": 6}), "free_think", separator="|", max_actions=2),
}
CASES = json.loads((Path(__file__).parent / "data" / "replies.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']} {case['label']}")
def test_what_a_human_reader_would_execute_executes(case):
    parsed = KINDS[case["kind"]].parse(case["reply"])
    assert " ".join(action.text for action in parsed.actions) == (case["executes"] or "")


@pytest.mark.parametrize(
    ("kind", "answer", "executes"),
    [
        ("grid", r"$\rightarrow$, $\uparrow$", "Right Up"),
        ("grid", "\U0001d5e8\U0001d5fd", "Up"),
        ("grid", "Up\\nLeft", "Up Left"),
        ("grid", "Up,&nbsp;Left", "Up Left"),
        ("grid", "Push the box Up, then Up again", "Up Up"),
        ("grid", '{"visual_state": "v", "executable_plan": [{"action_id": 0, "action_name": "Up"}]}', "Up"),
        ("navigation", "moveahead (0.5 m), rotateleft (90°)", "moveahead rotateleft"),
        ("grid", "👇👇", "Down Down"),
        ("grid", "👉 ⬇️", "Down"),
        ("grid", "(1) Left (2) Down", "Left Down"),
        ("grid", "① Left ② Down", "Left Down"),
        ("grid", "#1 Left, #2 Down", "Left Down"),
        ("grid", "| Step | Action |\n|---|---|\n| 1 | Right |\n| 2 | Up |", "Right Up"),
        ("grid", "Down, twice", "Down Down"),
        ("grid", "<Right>, <Up/>", "Right Up"),
        ("grid", '{"1": "Right", "2": "Up"}', "Right Up"),
        ("grid", '{"action": "move", "direction": "Right"}', "Right"),
        ("grid", '{"action": "jump", "direction": "Right"}', ""),
        ("grid", "env.step('Right')", "Right"),
        ("grid", "Press the Right arrow key", "Right"),
        ("grid", "ArrowRight, ArrowUp", "Right Up"),
        ("grid", "Right\nExpected result: the box moves up.", "Right"),
        ("grid", "Up, else Right", ""),
        ("grid", "**1.** Left\n**2.** Down", "Left Down"),
        ("grid", "[1] Left [2] Down", "Left Down"),
        ("grid", "Left (1 step), Up [2 times]", "Left Up Up"),
        ("navigation", "Rotate Left by 90 degrees", "rotateleft"),
        ("navigation", "moveahead(distance=0.5), rotateright(90)", "moveahead rotateright"),
        ("arm", 'pick("10", "20", "30")', "pick(10, 20, 30)"),
        ("arm", "pick(62, –55, 20)", "pick(62, -55, 20)"),
        ("arm", "push(start=(1,2,3), end=(4,5,6))", "push(1, 2, 3, 4, 5, 6)"),
        ("arm", "push(end=(4,5,6), start=(1,2,3))", ""),
    ],
)
def test_further_forms_of_an_answer_execute(kind, answer, executes):
    parsed = KINDS[kind].parse(f"<think>t</think><answer>{answer}</answer>")
    assert " ".join(action.text for action in parsed.actions) == executes


def test_a_tool_call_with_pairs_of_keys_and_values_executes():
    call = "<tool_call>move\n<arg_key>direction</arg_key>\n<arg_value>Left</arg_value>\n</tool_call>"
    assert [action.name for action in KINDS["grid"].parse(call).actions] == ["Left"]


def test_a_closing_tag_that_the_limit_of_tokens_cut_is_no_part_of_the_answer():
    for cut in ("", "<", "</", "</ans", "</answer"):
        parsed = KINDS["grid"].parse(f"<think>t</think><answer>Up,Left{cut}")
        assert [action.name for action in parsed.actions] == ["Up", "Left"]


def test_an_answer_quoted_as_code_in_a_thought_is_not_executed():
    assert KINDS["grid"].parse("<think>I could write `<answer>Down</answer>`</think>").actions == ()


MARKS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<scratchpad>", "</scratchpad>"),
    ("", "</think>"),
]
moves = st.lists(st.sampled_from(MOVES.names), min_size=1, max_size=3)
drafts = st.sampled_from(
    ["Maybe {0}.", "{0}? No.", "The example was {0}. Mine differs.", "I write `{0}`.", "{0}\n[Turn result] ok"]
)


@given(
    st.sampled_from(STRATEGIES),
    st.sampled_from(["nested", "flat"]),
    st.sampled_from(MARKS),
    drafts,
    moves,
    moves,
    st.booleans(),
)
def test_thoughts_that_quote_a_reply_change_nothing(strategy, layout, marks, draft, quoted, meant, whole):
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


def test_differing_answers_are_counted_and_drafts_are_among_them():
    grammar = Grammar(MOVES, "free_think", native_thinking="allow")
    assert grammar.parse("Maybe <answer>Up</answer>? No.</think><think>t</think><answer>Left</answer>").answers_differ
    assert not grammar.parse("So <answer>Left</answer></think><think>t</think><answer> left</answer>").answers_differ
    assert not grammar.parse("As <answer>...</answer> asks</think><think>t</think><answer>Left</answer>").answers_differ


@pytest.mark.parametrize("arguments", [{"actions": ["Up", "Left"]}, '{"actions": "Up, Left"}'])
def test_a_call_from_an_apis_own_field_is_read(arguments):
    reply = tool_call_reply("act", arguments, "I go.")
    assert [action.name for action in KINDS["grid"].parse(reply).actions] == ["Up", "Left"]
    assert KINDS["grid"].parse(tool_call_reply("act", "{broken")).actions == ()


def test_renamed_actions_are_read_and_written():
    grammar = Grammar(Names("Up", "Down", called=("north", "south")), "no_think", max_actions=2)
    assert grammar.render(["Down", "Up"]) == "<answer>south,north</answer>"
    parsed = grammar.parse("<answer>South,north</answer>")
    assert [(action.name, action.text) for action in parsed.actions] == [("Down", "south"), ("Up", "north")]
    assert not grammar.parse("<answer>Up</answer>").actions
    with pytest.raises(ValueError, match="give 2 different names"):
        Names("Up", "Down", called=("north",))
