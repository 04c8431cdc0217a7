"""Replies: what executes is the last complete answer after the thinking."""

from __future__ import annotations

import itertools
import json

import gymnasium as gym
import pytest
import runs
from commands import vagen
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents.custom import custom_agent
from vagen_rewards import RuleJudge
from vagen_rewards.scores import statements_of

MOVES = ("Up", "Down", "Left", "Right")
moves = st.lists(st.sampled_from(MOVES), min_size=1, max_size=3)
thoughts = st.text("abc .,;:\n", max_size=30)


@pytest.fixture(scope="module")
def play():
    """Plays one reply on a lake without holes or end nearby; the turn."""
    lake = ("FFFFFF", "FFFFFF", "FFFSFF", "FFFFFF", "FFFFFF", "FFFFFG")
    env = gym.make("vagen/FrozenLake-v0", desc=lake, disable_env_checker=True).unwrapped

    def of(reply):
        env.reset(seed=0)
        return env.step(reply)[4]["turn"]

    return of


def names(turn):
    return [executed.text for executed in turn.executed]


def codes(turn):
    return {problem.code for problem in turn.parsed.problems}


def answer(actions):
    return f"<answer>{', '.join(actions)}</answer>"


# -- the last complete answer -------------------------------------------------------------------------


@given(drafts=st.lists(moves, max_size=3), final=moves, thought=thoughts)
@settings(max_examples=40)
def test_the_last_complete_answer_after_the_thinking_executes(play, drafts, final, thought):
    """Of several complete replies in one text, the actions of the last one are carried out."""
    whole = "\n".join(f"<think>{thought}.</think>{answer(each)}" for each in [*drafts, final])
    assert names(play(whole)) == final


@given(drafts=st.lists(moves, min_size=1, max_size=3), final=moves)
@settings(max_examples=40)
def test_a_draft_within_the_thoughts_never_executes(play, drafts, final):
    """An answer within thoughts is a draft, with or without an answer after them."""
    draft = " or ".join(map(answer, drafts))
    assert names(play(f"<think>Maybe {draft} or not.</think>{answer(final)}")) == final
    assert names(play(f"<think>Maybe {draft} or not.</think>")) == []


FULL = (
    "<think><observation>{0}</observation><reasoning>-</reasoning>"
    "<prediction>-</prediction></think><answer>{1}</answer>"
)


@given(st.lists(st.tuples(st.sampled_from(("one", "two", "three")), moves), min_size=2, max_size=3))
@settings(max_examples=30)
def test_what_is_judged_belongs_to_the_answer_that_executes(play, replies):
    """Of several full replies in one text, observation and actions come from the same one, the last."""
    turn = play("\n".join(FULL.format(said, ", ".join(actions)) for said, actions in replies))
    said, actions = replies[-1]
    assert names(turn) == actions
    statements = {each.part: each.text for each in statements_of(turn, RuleJudge().needs_pictures)}
    assert statements.get("grounding", said) == said
    assert turn.parsed.observation in (said, None)


FORMS = {
    "names in any case": lambda a: ", ".join(a).lower(),
    "names in capitals": lambda a: ", ".join(a).upper(),
    "bold": lambda a: ", ".join(f"**{each}**" for each in a),
    "code": lambda a: ", ".join(f"`{each}`" for each in a),
    "a fence": lambda a: "```\n" + "\n".join(a) + "\n```",
    "quotes": lambda a: ", ".join(f'"{each}"' for each in a),
    "arrows between": " → ".join,
    "a numbered list": lambda a: "\n".join(f"{i}. {each}" for i, each in enumerate(a, 1)),
    "a list": lambda a: "\n".join(f"- {each}" for each in a),
    "semicolons": "; ".join,
    "LaTeX": lambda a: r"\boxed{" + ", ".join(a) + "}",
    "JSON list": json.dumps,
    "JSON object": lambda a: json.dumps({"actions": a}),
    "counts": lambda a: ", ".join(
        f"{each} x{len(list(run))}" for each, run in itertools.groupby(a)
    ),
    "full width": "，".join,
}


@pytest.mark.parametrize("form", FORMS)
def test_answers_in_every_form_of_the_table_execute_as_meant(play, form):
    """Names in any dress, JSON and lists mean the actions that they name, in order."""
    for actions in itertools.chain.from_iterable(
        itertools.product(MOVES, repeat=count) for count in (1, 2)
    ):
        given = FORMS[form](list(actions))
        assert names(play(f"<think>ok</think><answer>{given}</answer>")) == list(actions), given


def test_a_call_is_an_answer(play):
    """A tool call that names the actions executes them."""
    call = json.dumps({"name": "act", "arguments": {"actions": ["Up", "Left"]}})
    assert names(play(f"<think>ok</think><tool_call>{call}</tool_call>")) == ["Up", "Left"]


# -- where thinking ends ------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(MOVES), min_size=1, max_size=2), moves, st.integers(1, 3))
@settings(max_examples=40)
def test_thinking_ends_at_the_matching_closing_tag(play, draft, final, depth):
    """Thoughts within thoughts are thoughts: an answer between inner and outer end is a draft."""
    inner = "<think>" * depth + "inner" + "</think>" * depth
    reply = f"<think>plan {inner} {answer(draft)} so</think>{answer(final)}"
    assert names(play(reply)) == final


@pytest.mark.parametrize(
    "reply",
    [
        "<think>plan <think>inner</think> <answer>Up</answer> The hole is above me, let me look again",
        "<think>plan <think>inner</think> <answer>Up</answer> so <think>more",
        "<think>The answer will be <answer>Up</answer> perhaps",
    ],
)
def test_thoughts_that_may_still_be_open_execute_nothing(play, reply):
    """An answer that may stand within thoughts without an end isn't executed."""
    assert names(play(reply)) == []


@pytest.mark.parametrize("quote", ["`</think>`", '"</think>"'])
def test_a_quoted_tag_does_not_end_the_thinking(play, quote):
    """A tag that thoughts quote is a word of theirs."""
    reply = f"<think>I end with {quote} and then {answer(['Up'])} or so</think>{answer(['Left'])}"
    assert names(play(reply)) == ["Left"]


# -- what argues, what is made up, what was cut -------------------------------------------------------

ARGUES = [
    "I can't go Left, so Down",
    "Up is blocked, therefore Right",
    "Not Up but Down",
    "Instead of Up I go Left",
    "Up ✗, Left ✓",
    "Should I go Up or Left? Left is better",
    '["not", "Up"]',
    '["Up", "instead of", "Left"]',
    '["Up", "if free"]',
    "Up, Up (2 steps)",
    "Up, Left, two moves",
]


@pytest.mark.parametrize("text", ARGUES)
def test_an_answer_that_argues_executes_nothing_and_is_recorded(play, text):
    """English isn't read: what weighs one action against another carries out none and says so."""
    turn = play(f"<think>ok</think><answer>{text}</answer>")
    assert names(turn) == []
    assert "unclear_answer" in codes(turn)


MARKED = {
    "JSON": '{"action": "Up"}',
    "a call": '<tool_call>{"name": "move", "arguments": {"action": "Up"}}</tool_call>',
    "a function": "<function=move><parameter=action>Up</parameter></function>",
    "LaTeX": r"\boxed{Up}",
    "a fence": '```json\n{"action": "Up"}\n```',
    "a tag": "<action>Up</action>",
}


@pytest.mark.parametrize("form", MARKED)
@pytest.mark.parametrize("dress", ["{}", "I look.\n{}", "<think>ok</think>{}", "Final answer: {}"])
def test_an_answer_in_another_form_that_stands_alone_executes(play, form, dress):
    """JSON, calls and the like count where nothing but a label stands beside them."""
    assert names(play(dress.format(MARKED[form]))) == ["Up"]


@pytest.mark.parametrize("form", MARKED)
@pytest.mark.parametrize(
    "sentence",
    [
        "I would never answer {}.",
        "not {}",
        "For example, {} would be wrong.",
        "Example: {}",
        "Example:\n{}",
        "Beispiel: {}",
        "e.g. {}",
        "{} is a hole, so I need to look again.",
        "{}?",
        "The format is {}.",
        "The last call was {}",
        "If there was no hole: {}",
        "~~{}~~",
        "> {}\nI disagree",
        "{}\nNo, that's a hole.",
        "{}\n\nOn reflection, look again.",
        "{}\n不对",
        "<rejected>{}</rejected>",
        "<think>ok</think>Instead of {} I wait.",
    ],
)
def test_an_answer_in_another_form_within_a_sentence_executes_nothing(play, form, sentence):
    """What stands before or after it may reject it, in whatever words."""
    turn = play(sentence.format(MARKED[form]))
    assert names(turn) == []
    assert "unclear_answer" in codes(turn)


@pytest.mark.parametrize(
    "sentence",
    [
        "e.g. {}",
        "z.B. {}",
        "Incorrect: {}",
        "Example: {}",
        "Beispiel: {}",
        "Example:\n{}",
        "**Example:**\n\n{}",
        "The format is {}.",
        "The last answer was {}",
        "If there was no hole: {}",
        "Look around, or answer {}",
        "Wer antwortet {}",
        "~~{}~~",
        "> {}\nI disagree",
        "{}\nis a hole",
        "{} (a hole)",
        "{} ❌",
        "✗ {}",
        "{}: a hole",
        "{}?",
        "{}. No, that's a hole.",
        "{}\nThat is a hole.",
        "<think>ok</think>Incorrect: {}",
        "I'll reply in the form <think>ok</think>{}",
        "I'll reply in the form <think>ok.</think>**<think>ok.</think>{}",
        "Reply format: <think>ok</think>\n{}",
        "{}\n\nCorrection: Down",
        "{}\n\nFinal answer: Down, Left",
        "{}\n\n**Down**",
        '{}\n\n{{"action": "Down"}}',
        "{}\n\n\\boxed{{Down}}",
    ],
)
def test_a_tagged_answer_that_a_sentence_speaks_of_executes_nothing(play, sentence):
    """Before it on its line stand whole sentences and words that lead to an action, or it is unclear."""
    turn = play(sentence.format(answer(["Up"])))
    assert names(turn) == []
    assert "unclear_answer" in codes(turn)


@pytest.mark.parametrize(
    "sentence",
    [
        "{}",
        "I go {}.",
        "So I move {}",
        "The answer is {}",
        "The hole is to the left. {}",
        "Got it, let's see! {}",
        "The goal is above me, so {}",
        "Based on the picture, the next action is: {}",
        "Here is the plan to reach the goal:\n\n{}",
        "I looked at every cell:\n- the hole is on the right\n{}",
        "**Final answer:** {}",
        "My corrected answer:\n{}",
        "Step 1: {}",
        "I look at the map\n{}",
        "# Answer\n{}",
        "<think>ok</think> {} I hope that helps!",
        "<think>ok</think>\n{}\n\nThis brings me closer to the goal.",
        "<think>ok</think>\n{}\n\nThis is the shortest path to the goal, avoiding all holes.",
        "Sure. <think>ok</think>\n{}\n\nFinal answer: Up",
        "The best move is {}",
        "Here's my answer: <think>ok</think>{}",
        "```\n{}\n```",
    ],
)
def test_a_tagged_answer_that_is_led_to_executes(play, sentence):
    """Sentences before and after it take nothing back."""
    assert names(play(sentence.format(answer(["Up"])))) == ["Up"]


def test_adjacent_answers_of_one_action_each_are_one_plan(play):
    """Others are drafts of the last one."""
    assert names(play(answer(["Up"]) + answer(["Left"]))) == ["Up", "Left"]
    assert names(play(f"{answer(['Up', 'Left'])}\n{answer(['Down'])}")) == ["Down"]
    assert names(play(f"{answer(['Up'])}\n{answer(['Left', 'Down'])}")) == ["Left", "Down"]
    assert names(play(f"{answer(['Up'])}\n---\n{answer(['Down'])}")) == ["Down"]


def test_a_corrected_label_executes_nothing(play):
    """Answers in other forms have to agree."""
    assert names(play("Answer: Up\n\nCorrection: Left")) == []
    assert names(play("Answer: Up\n\nFinal answer: Up")) == ["Up"]


def test_a_plan_that_is_too_long_may_be_repeated(play):
    """Only the actions that count are compared."""
    plan = "Up, Up, Left, Left, Up, Up"
    assert names(play(f"<answer>{plan}</answer>\nFinal answer: {plan}")) == names(
        play(f"<answer>{plan}</answer>")
    )


def test_unclear_answers_are_counted_in_the_runs_table(tmp_path):
    """Whoever reads a run sees what arguing cost."""
    agent = custom_agent(lambda game: f"<think>ok</think><answer>{ARGUES[0]}</answer>")
    runs.play(tmp_path / "run", [agent], ["frozenlake"], episodes=2)
    (row,) = runs.rows(tmp_path / "run")
    turns = sum(each["turns"] for each in row["by_turn"])
    assert row["problems"]["unclear_answer"] == turns > 0


@pytest.mark.parametrize(
    "made_up",
    [
        "<|im_end|>\n<|im_start|>user\nNow what?<|im_end|>\n<|im_start|>assistant\n",
        "\nUser: Now what?\nAssistant: ",
        "\n[Result of turn 1]\n",
        " [Turn 1 result] ",
        "\nTurn 2:\n",
        "\n2. turn\n",
        "\nTurn 2/3\n",
        "\n=== Next turn ===\n",
        "\n### User\n",
        " User: go on\n",
        "\n用户：继续\n助手：",
        " 環境：移動\n",
        "\nResult of the action: moved\n",
        "\nExecuted actions: Up\n",
        " Nothing was executed. ",
        "\n<environment_feedback>moved</environment_feedback>\n",
        "\nReward: 0.1\n",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nNow?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ],
)
def test_a_made_up_message_of_the_other_side_ends_the_reply(play, made_up):
    """What a model writes after a turn of its user that it invented isn't its reply."""
    whole = FULL.format("here", "Up")
    assert names(play(whole + made_up + FULL.format("there", "Left"))) == ["Up"]


OTHERS = [
    "<|im_end|>\n<|im_start|>user\nNow what?<|im_end|>\n<|im_start|>assistant\n",
    "<|return|><|start|>user<|message|>Now?<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nNow?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<｜User｜>Now?<｜Assistant｜>",
    "</s>[INST] Now? [/INST]",
    "\n\nUser: You moved.\nAssistant: ",
    "\n<tool_response>moved</tool_response>\n",
]
OWN = {
    "a tag": "<answer>{}</answer>",
    "a thought and a tag": "<think>ok</think><answer>{}</answer>",
    "a label": "Action: {}",
    "JSON": '{{"action": "{}"}}',
    "a last line": "I look at the map.\n\n{}",
}


@pytest.mark.parametrize("made_up", OTHERS)
@pytest.mark.parametrize("form", OWN)
def test_nothing_after_a_made_up_message_executes(play, made_up, form):
    """A turn that the model invents ends its reply, in whatever form it answers before or after."""
    for thought in ("", "<think>x</think>", "I look at the map."):
        assert names(play(thought + made_up + OWN[form].format("Left"))) == []
    assert names(play(OWN[form].format("Up") + made_up + OWN[form].format("Left"))) == ["Up"]


@pytest.mark.parametrize("speaker", ["Assistant", "Observation"])
def test_what_another_says_after_an_answer_in_another_form_is_not_read(play, speaker):
    """A message of the other side ends the reply, so the answer before it stands alone."""
    assert names(play(f"I look.\n\\boxed{{Up}}\n\n{speaker}: Go on.")) == ["Up"]


def test_what_a_tool_is_made_to_say_executes_nothing(play):
    """A result isn't a call."""
    assert names(play('<tool_response>{"action": "Up"}</tool_response>')) == []


@pytest.mark.parametrize(
    "header",
    [
        "<|im_start|>assistant\n",
        "<|start|>assistant<|channel|>final<|message|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<start_of_turn>model\n",
        "<｜Assistant｜>",
        "[/INST]",
        "assistant\n\n",
        "Assistant: ",
    ],
)
@pytest.mark.parametrize("form", OWN)
def test_the_own_header_of_a_template_ends_nothing(play, header, form):
    """Some servers leave it at the beginning of the reply."""
    assert names(play(header + OWN[form].format("Left"))) == ["Left"]


@pytest.mark.parametrize("layout", ["nested", "flat", "untagged"])
@pytest.mark.parametrize("strategy", ["grounding", "world_modeling", "grounding_world_modeling"])
@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_of_two_whole_replies_the_last_executes_in_every_layout(layout, strategy, between):
    """Also where a reply begins with the observation, as messages of the other side may."""
    env = gym.make("vagen/FrozenLake-v0", layout=layout, strategy=strategy).unwrapped
    texts = [
        env.grammar.render([move], observation=move, reasoning="so", prediction=move)
        for move in ("Up", "Left")
    ]
    parsed = env.grammar.parse(between.join(texts))
    assert [action.name for action in parsed.actions] == ["Left"]
    assert {parsed.observation, parsed.prediction} <= {"Left", None}


@pytest.mark.parametrize("reason", ["", "reason"])
def test_a_closing_tag_in_a_fence_within_the_thoughts_ends_nothing(play, reason):
    """The prompt's example, quoted in thoughts."""
    reply = f"<think>Example:\n```\n{reason}</think>\n<answer>Up</answer>\n```\nso I go"
    assert names(play(reply)) == []
    assert names(play(f"{reply}</think><answer>Left</answer>")) == ["Left"]
    assert names(play("```\n<think>ok</think>\n<answer>Up</answer>\n```")) == ["Up"]


@pytest.mark.parametrize(
    "between",
    [
        "The answer was executed. Now decide again.",
        "Game state updated.",
        "You moved up. Next?",
        "Now the board looks like this:",
        "After your answer, the valid action is: Up. You moved up. The environment image is:",
        "After your answer, you moved up.",
        "You moved up, but the box stays. Your answer is needed again.",
        "Your move was legal. The box is at its target.",
    ],
)
def test_what_tells_of_a_turn_corrects_no_answer(play, between):
    """Where it isn't clear who speaks between two answers, none executes."""
    turn = play(f"{FULL.format('here', 'Up')}\n{between}\n{FULL.format('there', 'Left')}")
    assert names(turn) == []
    assert "unclear_answer" in codes(turn)


@given(moves)
@settings(max_examples=20)
def test_an_answer_cut_at_its_closing_tag_is_an_answer(play, final):
    """A stop string takes the closing tag away; the answer before it counts."""
    cut = answer(final).removesuffix("</answer>")
    turn = play(f"<think>ok</think>{cut}")
    assert names(turn) == final


# -- profiles -----------------------------------------------------------------------------------------


def test_tags_layout_and_thinking_tokens_are_options_and_no_code():
    """A model's way to write is data: the same reply in other tags and another order executes alike."""
    tags = ("plan", "see", "why", "next", "act")
    env = gym.make("vagen/FrozenLake-v0", tags=tags, layout="nested").unwrapped
    env.reset(seed=0)
    reply = env.grammar.render(["Up"], observation="o", reasoning="r", prediction="p")
    assert reply.startswith("<plan><see>o</see>")
    turn = env.step(reply)[4]["turn"]
    assert turn.parsed.format_correct
    assert names(turn) == ["Up"]


def test_a_models_profile_is_data_of_the_users_file(tmp_path, endpoint, monkeypatch):
    """A profile in a TOML file sets how a model's replies are read, without code."""
    monkeypatch.setenv("MINE_KEY", "k" * 20)
    models = tmp_path / "models.toml"
    models.write_text(
        '[providers.mine]\nclient = "openai"\nkey = "MINE_KEY"\n'
        '[models.mine]\nprovider = "mine"\nid = "m"\n'
        'profile = "flat"\n[profiles.flat]\noptions = { layout = "flat" }\n'
    )
    flat = (
        "<observation>o</observation><think>r</think><answer>Up</answer><prediction>p</prediction>"
    )
    endpoint.script = lambda number, body: flat
    done = vagen(
        *("bench", "-e", "frozenlake", "-n", "1", "-a", "mine", "--models", str(models)),
        *("--base-url", endpoint.url, "--out", str(tmp_path / "run")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (episode,) = runs.episodes(tmp_path / "run")
    assert all(turn["parsed"]["well_formed"] for turn in episode.turns)


@pytest.mark.parametrize(
    ("answer", "executed"),
    [
        ('{"action": "Up", "distance": 3}', 0),
        ('{"action": "Up", "distance": "0.75m"}', 0),
        ('{"name": "Up", "arguments": {"amount": 2}}', 0),
        ('[{"action": "Up", "distance": 2}, {"action": "Left"}]', 0),
        ('["Up 0.25m", "Left"]', 0),
        ('["Up(3)"]', 0),
        ('{"action": "Up", "count": 0}', 0),
        ('{"action": "Up", "value": 3}', 0),
        ('[["Up", 3]]', 0),
        ('{"actions": [["Up", 3]]}', 0),
        ('{"actions": ["Up"], "value": 3}', 0),
        ('{"name": "Up", "arguments": {"steps": 3}}', 3),
        ('{"action": "Up", "steps": 2}', 2),
        ('{"step": 2, "action": "Up", "confidence": 0.9}', 1),
    ],
)
def test_numbers_in_json_count_or_leave_the_answer_unclear(play, answer, executed):
    """JSON follows the table as text does: `Up 0.25m` and `Up(3)` execute nothing, nor does what follows them."""
    assert names(play(f"<think>ok</think><answer>{answer}</answer>")) == ["Up"] * executed
