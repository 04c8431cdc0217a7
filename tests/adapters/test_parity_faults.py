"""The parity kit's table of faults: 42 that trainers have had or could have, each planted into a
trainer without any, and what the kit says of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

pytest.importorskip("trl", reason="needs the extra ppo")

import parity_faults as planted
from parity_faults import passed_on, rows, sampled, system_prompt, template, trained_by
from parity_reports import failed

from vagen_adapters.parity import run

USER = "<|im_start|>user\n"
REPLY = "<|im_start|>assistant\n"


@dataclass(frozen=True)
class Fault:
    """A fault, and how the kit names it.

    Attributes:
        plant: makes the faulty trainer, given pytest's monkeypatch and the kit's model.
        recording: the episode in which it shows.
        checks: those that fail; none where the kit can't tell.
        says: a part of what one of them says.
    """

    plant: object
    recording: str
    checks: str
    says: str = ""


FAULTS = {
    # Trained rows. Numbers are those of the reports of libraries that have had the fault.
    "verl #3469: tokens are cut at a length, pictures aren't": Fault(
        rows(planted.cut),
        "truncated",
        "pictures positions log-probs rewards context tokens mask",
        "tokens 43, features 48: 3 runs of image tokens, 3 pictures",
    ),
    "verl #4050: the picture of a dropped observation stays": Fault(
        rows(planted.leave_a_picture), "no room", "pictures log-probs", "features 48"
    ),
    "prime-rl #2786: pixels are lost on the way": Fault(
        rows(planted.lose_pixels),
        "truncated",
        "pictures log-probs",
        "no pixels reach the forward pass",
    ),
    "agent-lightning #559: the batch is token ids alone": Fault(
        rows(planted.tokens_alone),
        "truncated",
        "pictures positions log-probs",
        "no pixels reach the forward pass",
    ),
    "SkyRL #1486: an observation loses its beginning": Fault(
        rows(planted.swallow),
        "truncated",
        "context pictures positions log-probs",
        "turn 1: the sampler read",
    ),
    "TRL #5224: a reply is decoded and encoded again": Fault(
        rows(planted.tokenise_again),
        "truncated",
        "tokens context mask log-probs",
        "turn 1, token 0: sampled was ['<'] 't' 'h' 'i' 'n', trained is ['<think>']",
    ),
    "prime-rl #2243: positions count through pictures": Fault(
        rows(planted.count_positions_by_one), "solved", "positions log-probs", "the model's own"
    ),
    "TRL #6274: pixels are sliced as if each row were a picture": Fault(
        rows(planted.slice_pixels), "solved", "pictures log-probs", "pixels (1,"
    ),
    "pictures in another order": Fault(
        rows(planted.swap_pictures),
        "solved",
        "pictures log-probs",
        "picture 0 is another one than was shown there",
    ),
    "the mask covers observations": Fault(
        rows(planted.train_observations), "truncated", "mask", "is trained and was not sampled"
    ),
    "the mask leaves the ends of replies out": Fault(
        rows(planted.train_no_ends), "truncated", "mask", "is sampled and not trained"
    ),
    "the template's end is trained": Fault(
        rows(planted.train_the_templates_end),
        "cut reply",
        "mask",
        "is trained and was not sampled",
    ),
    "a reply loses its end": Fault(
        rows(planted.drop_an_end), "truncated", "tokens rewards", "turn 2, token"
    ),
    "rewards a token later": Fault(
        rows(planted.pay_a_token_later), "truncated", "rewards", "its tokens are paid 0, it earned"
    ),
    "rewards a token earlier": Fault(rows(planted.pay_a_token_earlier), "truncated", ""),
    "all rewards at the first token": Fault(
        rows(planted.pay_at_the_first_token), "truncated", "rewards", "its tokens are paid 0"
    ),
    "an episode is paid its mean": Fault(
        rows(planted.pay_the_mean), "truncated", "rewards", "the episode is paid"
    ),
    "a cut episode is kept as ended": Fault(
        rows(planted.end(terminated=True)), "truncated", "ends", "the episode was cut"
    ),
    "an ended episode is kept as cut": Fault(
        rows(planted.end(terminated=False)), "solved", "ends", "the episode was terminated"
    ),
    "log-probabilities of another temperature": Fault(
        rows(planted.another_temperature), "truncated", "log-probs", "the trainer keeps"
    ),
    "a failed episode is trained with 0": Fault(
        trained_by(planted.ZeroForFailure), "broken", "failure", "paid [0.0]"
    ),
    # What the sampler is given.
    "slime #1847: the sampler sees the first picture only": Fault(
        sampled(planted.blind_after_the_first_turn),
        "truncated",
        "pictures log-probs",
        "turn 1: the sampler was given 1 pictures for 2 places",
    ),
    "the sampler sees the first picture again": Fault(
        sampled(planted.the_first_picture_again),
        "truncated",
        "pictures log-probs",
        "turn 1: the sampler's picture 1 is another one than was shown",
    ),
    "the sampler reads replies without their thoughts": Fault(
        sampled(planted.without_earlier_thoughts),
        "truncated",
        "context log-probs",
        "turn 1: the sampler read",
    ),
    "TRL #5663: the template drops pictures of later turns": Fault(
        planted.no_later_pictures,
        "truncated",
        "pictures log-probs read",
        "the sampler was given 2 pictures for 1 places",
    ),
    "verl-agent #202: a sampled image token counts as a picture": Fault(
        planted.no_check_of_pictures,
        "image token",
        "pictures positions log-probs",
        "4 places; tokens 49, features 48",
    ),
    # What the environment is given and shows.
    "thinking is cut before the environment": Fault(
        passed_on(action=planted.cut_thinking),
        "truncated",
        "played",
        "the environment played '<answer>Left</answer>'",
    ),
    "an action is replaced": Fault(
        passed_on(action=planted.replace_an_action),
        "truncated",
        "played",
        "turn 1: sampled was '<think>I go up.</think><answer>Up</answer>'",
    ),
    "white space between the tags": Fault(
        passed_on(action=planted.space_the_tags), "truncated", "played", "turn 0: sampled was"
    ),
    "a reply is played twice": Fault(
        passed_on(planted.Twice), "truncated", "played pictures read", "turn 1: sampled was"
    ),
    "the last reply isn't played": Fault(
        passed_on(planted.LosesTheLast),
        "truncated",
        "played rewards",
        "turn 2: the sampled reply was never played",
    ),
    "an earlier turn's text is shown again": Fault(
        passed_on(text=planted.earlier_text), "truncated", "read", "turn 1: the model read"
    ),
    "the text is cut": Fault(
        passed_on(text=planted.cut_text), "truncated", "read", "turn 0: the model read"
    ),
    "the picture stands at the end": Fault(
        passed_on(text=planted.picture_last), "truncated", "read", "turn 0: the model read"
    ),
    "no system prompt": Fault(
        system_prompt(""), "truncated", "read", "doesn't begin with a system prompt"
    ),
    "another system prompt": Fault(
        system_prompt("Hi."), "truncated", "read", "the system prompt is 'Hi.'"
    ),
    # A wrong chat template, for the sampler and for the trainer.
    "no line break behind the role": Fault(
        template(USER, "<|im_start|>user"), "truncated", "read", "the prompt has"
    ),
    "another role": Fault(
        template(USER, "<|im_start|>human\n"), "truncated", "read", "the prompt has"
    ),
    "no end of messages": Fault(
        template(f"<|im_end|>\n{REPLY}", f"\n{REPLY}"), "truncated", "read", "the prompt has"
    ),
    "no beginning of the reply": Fault(
        template(REPLY, ""), "truncated", "read", "the prompt doesn't end where a reply begins"
    ),
    # A trainer that stumbles or leaves out refuses nothing, unless its adapter declares how.
    "a video token is an exception": Fault(
        trained_by(planted.Stumbles), "video token", "plays", "it stops with AttributeError"
    ),
    "an episode is left out": Fault(
        trained_by(planted.LeavesOut), "video token", "plays", "the episode is left out"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(model, monkeypatch, name):
    fault = FAULTS[name]
    report = run(fault.plant(monkeypatch, model), model, [fault.recording])
    assert failed(report) == set(fault.checks.split())
    if fault.checks:
        assert any(fault.says in each.message for each in report.failed), report.text()


def test_all_but_one_of_the_42_are_caught():
    """A reward one token earlier is still within the reply that earned it."""
    assert len(FAULTS) == 42
    assert [name for name, fault in FAULTS.items() if not fault.checks] == [
        "rewards a token earlier"
    ]
