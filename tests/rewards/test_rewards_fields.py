"""Many states and turns looked at together: the same as each by itself."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.seeding import HashStream
from vagen_rewards.audit import audit
from vagen_rewards.rules import read
from vagen_rewards.rules.truths import States, code, truths_of
from vagen_rewards.worth import Reference, Transition, Worth
from vagen_rewards.worth.fields import Field
from vagen_rewards.worth.reference import SHIPPED, SHIPPED_IDS, STAGES
from vagen_rewards.worth.shares import Shares
from vagen_rewards.worth.weighing import unique

PARTS = ("grounding", "world_modeling")


@pytest.fixture(scope="module", params=SHIPPED_IDS)
def halves(request):
    """What an environment's claims are weighed by, and turns of other levels; found by its id, without a simulator."""
    every = [json.loads(gzip.decompress(path.read_bytes())) for path in SHIPPED.glob("*.json.gz")]
    whole = Reference.from_json(next(each for each in every if each["env_id"] == request.param))
    whole = replace(whole, options={**whole.options, "positions_in_text": False})
    return tuple(
        replace(whole, reset=whole.reset[part], play=whole.play[part], blind=whole.blind[:200])
        for part in (slice(0, 300), slice(300, 330))
    )


def described(turns, part):
    """The claims of some descriptions, and of what was false there."""
    for each in turns:
        for form in ("natural_language", "structured"):
            text = each.after.describe(form)
            yield from [claim.key for claim in read(each.after.kind, text.replace(" is ", " is not ", 1), part).claims]
            yield from [claim.key for claim in read(each.after.kind, text, part).claims]


@pytest.mark.parametrize("part", PARTS)
def test_facts_hold_of_many_states_as_of_each(halves, part):
    whole, others = halves
    states = States(each.before for each in (*whole.reset, *whole.play))
    claims = unique(described(others.play[::5], part))
    assert len(claims) > 10
    assert len({type(claim) for claim in claims if hasattr(claim, "truths")}) <= 1
    for claim in claims:
        assert truths_of(claim, states).tolist() == [code(claim.holds(each)) for each in states], claim


def values(worth, claims, part, stage, turns):
    """What a statement is worth in each turn, one after the other."""
    return [
        worth.observation(claims, here.before, stage, here.done).value
        if part == "grounding"
        else worth.prediction(claims, (), here.before, here.after, stage, here.done).value
        for here in turns
    ]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("part", PARTS)
def test_turns_are_weighed_together_as_one_by_one(halves, stage, part):
    reference, others = halves
    worth, turns, dice = Worth(reference), getattr(others, stage), HashStream("fields", stage)
    field = Field(worth, stage, part, turns)
    claims = unique(described(turns[::6], part))
    for count in (1, 1, 2, 3, 5, 9):
        some = dice.sample(claims, min(count, len(claims)))
        slow = values(worth, some, part, stage, turns)
        assert field.mean(some) == pytest.approx(math.fsum(slow) / len(slow), abs=1e-12)


def test_to_the_last_bit(halves):
    """So that a search is the same, whichever is asked."""
    reference, others = halves
    worth, dice = Worth(reference), HashStream("bits", 0)
    field = Field(worth, "play", "world_modeling", others.play)
    claims = dice.sample(unique(described(others.play[::6], "world_modeling")), 4)
    nets = []
    for here in others.play:
        shares, net = worth.shares("play", here.before), 0.0
        known = shares.known("world_modeling", here)
        settled = list(known.given)
        for claim in claims:
            held, holds = claim.holds(here.before) is True, claim.holds(here.after)
            if holds and getattr(claim, "where", "") == "drawing":
                held = True
            brings, bits = shares.bet(shares.held(claim, after=True), held, holds, settled, known.blind)
            settled.append(bits)
            net += brings
        nets.append(net)
    assert field._nets(claims).tolist() == nets


def test_an_audit_says_what_is_paid(halves):
    reference, others = halves
    worth = Worth(reference)
    found = audit(worth, others, others, tries=40, keep=2)
    for (stage, part), each in found.best.items():
        claims = [claim.key for claim in read(others.reset[0].before.kind, each[0].text, part).claims]
        paid = values(worth, claims, part, stage, getattr(others, stage))
        assert each[0].means[stage, part] == pytest.approx(math.fsum(paid) / len(paid), abs=1e-12)


def test_states_keep_what_was_worked_out():
    asked = []
    states = States((1, 2))
    assert [states.table(make) for make in [lambda each: asked.append(each) or 7] * 2] == [7, 7]
    assert asked == [(1, 2)]


class Even:
    def holds(self, state):
        return None if state == 3 else state % 2 == 0


def test_bits_are_those_of_the_states_in_which_a_claim_holds():
    shares = Shares([Transition(each, each + 1) for each in range(70)])
    held = shares.held(Even(), after=True)
    assert [held.before >> 69 - each & 1 for each in range(70)] == [int(each % 2 == 0) for each in range(70)]
    assert [held.after >> 69 - each & 1 for each in range(70)] == [
        int(each % 2 == 1 and each != 2) for each in range(70)
    ]
    assert truths_of(Even(), States((1, 2, 3))).tolist() == [0, 1, -1]
    assert truths_of(Even(), States()).dtype == np.int8
