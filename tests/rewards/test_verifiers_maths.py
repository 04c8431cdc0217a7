"""MathVerify: what is right, what is wrong, whose mistake it is, and what no answer may do."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import threading
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("math_verify")

from vagen_envs.sample.answer import AnswerText, boxed
from vagen_envs.sample.schema import RewardModel, Sample
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers import (
    MathVerifyVerifier,
    Verifier,
    VerifierResult,
    register,
    score,
    score_many,
    verifier_names,
)
from vagen_rewards.verifiers.base import _verifiers


@pytest.fixture(scope="module")
def verifier():
    made = MathVerifyVerifier(seconds=1.0)
    yield made
    made.close()


def sample(truth, verifier="mathverify"):
    prompt = ({"role": "user", "content": "How much?"},)
    return Sample("mine", (), prompt, "math", RewardModel(truth, truth, 1.0, 0.0, verifier))


def pids_of(verifier):
    return tuple(worker.process.pid for worker in verifier._idle)


def right(verifier, truth, response):
    return verifier.verify(sample(truth), response, 0.85).accuracy


RIGHT = r"""
7 = 7 ; 7 = 7.0 ; 7 = 6+1 ; 7 = \sqrt{49} ; \frac{1}{2} = 0.5 ; 1/2 = \dfrac12 ; 1,000 = 1000 ; $12$ = 12
\boxed{12} = 12 ; <answer> \boxed{12} </answer> = 12 ; 50\% = 0.5 ; x^2+2x+1 = (x+1)^2 ; 2\pi = \pi+\pi
B = B ; B = \text{B} ; cat = cat ; cat = Cat ; cat = \text{cat} ; stop sign = Stop sign
2024-01-02 = 2024-01-02 ; 10:30 = 10:30 ; H2O = H2O ; H2O = \text{H2O} ; H_2O = H_{2}O ; H_2O = \mathrm{H_2O}
H2O = H_2O ; Ca(OH)_2 = \text{Ca(OH)}_2 ; x_1y_1 = y_1x_1 ; B = b ; 3-1 = 2 ; 3.5 = 7/2 ; 2x = x+x
2^{10000} = 2^{10000} ; 2^{10} = 1024 ; 5! = 120 ; 2020-2021 = 2020-2021 ; 10.0.0.7 = 10.0.0.7 ; 0xFF = 0xff
1999 = 2000-1 ; Yes = Yes. ; cat = cat. ; \text{cat} = cat
"""  # truth = answer ; …
WRONG = r"""
7 = 8 ; 7 = -7 ; 0.5 = 0.51 ; x^2 = y^2 ; 7 = 7, 8 ; 7 = \{7, 8\} ; 7 = 7 \text{ or } 8 ; 7 =  ; 7 = ? ; B = C
cat = tac ; cat = act ; stop sign = sign stop ; red = der ; 2021 = 2024-01-02 ; 2024-01-02 = 2021
3/4/2020 = 3/4/2021 ; 10:30 = 1/3 ; O2H = H2O ; H_2O = OH_2 ; CO_2 = O_2C ; Ca(OH)2 = Ca(HO)2 ; H_2O = 8
A12 = 12A ; AB = BA ; 7 = 9^{9^{9^9}} ; 7 = 99999! ; 1999-12 = 1987 ; 2024-1 = 2023 ; 2020-2021 = -1
555-1234 = -679 ; 1-800 = -799 ; 192.168.0.1 = 0 ; 0xFF = 0 ; a1b2 = b2a ; 5e = e5 ; x2 = 2x
cat = \text{}tac ; \text{cat} = tac ; cat = \text{tac}
"""


def pairs(table):
    return [
        item.split(" = ") for line in table.strip("\n").split("\n") for item in line.split(" ; ")
    ]


@pytest.mark.parametrize(
    ("truth", "answer", "accuracy"),
    [(*pair, 1) for pair in pairs(RIGHT)] + [(*pair, 0) for pair in pairs(WRONG)],
)
def test_right_and_wrong(verifier, truth, answer, accuracy):
    assert right(verifier, truth, f"So it is \\boxed{{{answer}}}.") == accuracy


@settings(max_examples=60)
@given(st.fractions(-50, 50, max_denominator=60), st.fractions(-50, 50, max_denominator=60))
def test_fractions_are_equal_when_they_are(verifier, one, other):
    def latex(value):
        return f"{'-' if value < 0 else ''}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"

    assert right(verifier, latex(one), f"\\boxed{{{latex(other)}}}") == (one == other)
    assert right(verifier, latex(one), f"\\boxed{{{latex(Fraction(one * 3, 3))}}}") == 1


@given(st.text("\\boxed{}a", max_size=40))
def test_boxes_are_found_as_a_literal_search_finds_them(text):
    """Every `\\boxed{` tried from the last to the first, its braces counted one by one."""
    expected = None
    starts = [i for i in range(len(text)) if text.startswith("\\boxed{", i)]
    starts = [i for i in starts if not is_escaped(text, i)]
    for start in reversed(starts):
        depth, i = 1, start + len("\\boxed{")
        while i < len(text) and depth:
            if text[i] == "\\":
                i += 2
                continue
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
        if depth == 0:
            expected = text[start + len("\\boxed{") : i - 1].strip()
            break
    assert boxed(text) == expected


def is_escaped(text, place):
    """Whether the backslash there is the second of a pair, counted from the first `\\boxed`, where reading begins."""
    i = max(text.find("\\boxed"), 0)
    while i < place:
        i += (
            2
            if text[i] == "\\" and not text.startswith("\\boxed{", i)
            else len("\\boxed{")
            if text[i] == "\\"
            else 1
        )
    return i != place


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["\\boxed{", "\\boxed{}", "{", "\\", "\\boxed"])
def test_a_long_text_is_searched_for_its_box(unit):
    """At once; in the square of its length it would be hours."""
    boxed("\\boxed{" + unit * 200_000)


def test_the_actions_of_the_environment_are_boxes_of_either_kind():
    read = AnswerText().read
    assert read("so \\boxed{ 7 } it is", 0, 9).text == "\\boxed{7}"
    assert read("```json\n[{'a': 1}]\n```", 0, 9).text == "[{'a': 1}]"
    for nothing in ("7", "\\boxed{}", "] [", "\\boxed{7"):
        assert read(nothing, 0, 9).code == "unknown_action"


def test_rows_of_mixed_data_may_have_the_parameters_of_detection():
    parameters = {"det_verifier_normalized": False, "det_reward_ratio": {"map": 0.0}}
    given = sample("7")
    model = dataclasses.replace(given.reward_model, verifier_parm=parameters)
    assert score(dataclasses.replace(given, reward_model=model), "\\boxed{7}").accuracy == 1
    model = dataclasses.replace(model, verifier_parm={"iou_threshold": 0.5})
    with pytest.raises(VerifierError, match="unknown parameter"):
        score(dataclasses.replace(given, reward_model=model), "\\boxed{7}")


def test_a_truth_that_cant_be_read_is_the_datas_mistake(verifier):
    with pytest.raises(VerifierError, match="can't read the ground truth"):
        right(verifier, "\\text{}", "\\boxed{7}")


@settings(max_examples=40)
@given(st.text(max_size=30) | st.text("0123456789+-*/^(){}\\frac sqrt!=.,%$_", max_size=20))
def test_any_answer_is_right_or_wrong(verifier, text):
    assert right(verifier, "7", f"\\boxed{{{text}}}") in (0, 1)


# -- limits and faults ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    ["9^{9^{9^9}}", "(" * 40 + "1" + ")" * 40, "\\sqrt{" * 60 + "1" + "}" * 60, "(99999!)!"],
)
def test_what_nobody_could_calculate_is_not_tried(verifier, answer):
    pids = pids_of(verifier)
    verdict = verifier.verify(sample("7"), f"\\boxed{{{answer}}}", 0.85)
    assert (verdict.accuracy, verdict.reason) == (0, "not equal to the truth")
    assert pids_of(verifier) == pids  # no process was lost to it


@pytest.mark.parametrize("answer", ["\\binom{9999999}{499999}", "(x+y+z+w)^{400}"])
def test_what_takes_forever_is_wrong_after_its_time(verifier, answer):
    verdict = verifier.verify(sample("7"), f"\\boxed{{{answer}}}", 0.85)
    assert verdict.accuracy == 0
    assert verdict.reason == "it takes too long to compare"
    assert (
        right(verifier, "7", "\\boxed{7}") == 1
    )  # and the next is compared as if nothing had been


def test_long_answers_are_not_read(verifier):
    verdict = verifier.verify(sample("7"), "\\boxed{" + "7 " * 1_000_000 + "}", 0.85)
    assert verdict.accuracy == 0
    assert len(verdict.answer) == 500


def test_a_process_that_is_killed_is_replaced(verifier):
    assert right(verifier, "7", "\\boxed{7}") == 1
    (pid,) = pids_of(verifier)
    os.kill(pid, signal.SIGKILL)
    assert right(verifier, "7", "\\boxed{7}") == 1
    assert pids_of(verifier) != (pid,)


def test_a_fork_has_processes_of_its_own(verifier):
    assert right(verifier, "7", "\\boxed{7}") == 1
    pids = pids_of(verifier)
    results = multiprocessing.get_context("fork").Queue()

    def child():
        results.put((right(verifier, "7", "\\boxed{7}"), pids_of(verifier)))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    accuracy, theirs = results.get(timeout=60)
    process.join(timeout=60)
    assert accuracy == 1
    assert not set(theirs) & set(pids)
    assert right(verifier, "8", "\\boxed{8}") == 1
    assert pids_of(verifier) == pids


def test_many_threads_get_their_own_answers(verifier):
    told = {}

    def ask(number):
        told[number] = [
            right(verifier, str(number), f"\\boxed{{{number + offset}}}") for offset in (0, 1)
        ]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert told == {number: [1, 0] for number in range(24)}


# -- verifiers by name ---------------------------------------------------------------------------


class Length(Verifier):
    name = "length"
    parameters = frozenset({"most"})

    def verify(self, sample, response, iou_threshold):
        if response == "break":
            raise ZeroDivisionError("as asked")
        if response == "nan":
            return VerifierResult(float("nan"))
        if response == "other":
            return 1.0
        return VerifierResult(
            float(len(response) <= sample.reward_model.verifier_parm.get("most", 3))
        )


@pytest.fixture
def length():
    register(Length())
    yield
    del _verifiers["length"]


def test_a_verifier_of_ones_own(length):
    assert {"detection", "length", "mathverify"} <= {*verifier_names()}
    assert score(sample("x", "length"), "abc").accuracy == 1
    assert score(sample("x", "length"), "abcd").accuracy == 0
    told = score_many(
        [sample("x", "length")] * 4 + [sample("x", "lenght")], ["abc", "break", "nan", "other", "x"]
    )
    assert [verdict.scored for verdict in told] == [True, False, False, False, False]
    reasons = [
        "ZeroDivisionError: as asked",
        "accuracy=nan",
        "gave float, not a VerifierResult",
        "Did you mean 'length'?",
    ]
    for verdict, reason in zip(told[1:], reasons, strict=True):
        assert reason in verdict.reason
        assert verdict.reward(sample("x")) == 0


def test_names_are_not_taken_twice(length):
    class Other(Length):
        pass

    register(Length())  # once more the same is fine, as when a module is loaded again
    with pytest.raises(VerifierError, match="the name 'length' is taken by Length"):
        register(Other())
    register(Other(), replace=True)
    with pytest.raises(VerifierError, match="is not a Verifier"):
        register(Length)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: score(sample("7"), None), "the response is NoneType"),
        (lambda: score(sample("7"), "x", 0.0), "iou_threshold=0.0"),
        (lambda: score(sample("7"), "x", float("nan")), "iou_threshold=nan"),
        (lambda: score(sample("7", "mathverfy"), "x"), "Did you mean 'mathverify'?"),
        (lambda: score_many([sample("7")], []), "1 samples and 0 responses"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(VerifierError) as caught:
        call()
    assert said in str(caught.value)


def test_a_process_that_is_stopped_makes_no_answer_wrong(monkeypatch):
    """Time by the clock is the machine's affair: who says nothing for too long is replaced, not believed."""
    monkeypatch.setattr("vagen_rewards.verifiers.maths._PATIENCE", 0.5)
    verifier = MathVerifyVerifier(seconds=1.0)
    try:
        assert right(verifier, "7", "\\boxed{7}") == 1
        (pid,) = pids_of(verifier)
        os.kill(pid, signal.SIGSTOP)
        assert right(verifier, "7", "\\boxed{7}") == 1
        assert pids_of(verifier) != (pid,)
    finally:
        verifier.close()
