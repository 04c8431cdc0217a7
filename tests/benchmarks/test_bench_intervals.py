"""Intervals and tests of the table's statistics, against exact counts, SciPy and what their sources state."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_benchmarks.results.stats import (
    Estimate,
    average,
    by_level,
    combined,
    difference,
    pass_at,
    rate,
    sign_flip,
    t95,
    wilson,
)
from vagen_experiments.report import relabel


@given(trials=st.integers(1, 5000), data=st.data())
def test_wilson_bounds_are_where_the_score_test_turns(trials, data):
    """At each bound p, the observed rate is exactly 1.96 standard errors of p away (Wilson 1927)."""
    successes = data.draw(st.integers(0, trials))
    rate = successes / trials
    low, high = wilson(successes, trials)
    assert 0 <= low <= rate <= high <= 1
    for bound, at_edge in ((low, successes == 0), (high, successes == trials)):
        if at_edge:
            assert bound == rate
        else:
            assert abs(rate - bound) == pytest.approx(
                1.959964 * math.sqrt(bound * (1 - bound) / trials), rel=1e-5
            )


@given(tries=st.integers(1, 8), data=st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_success(tries, data):
    successes, k = data.draw(st.integers(0, tries)), data.draw(st.integers(1, tries))
    outcomes = [True] * successes + [False] * (tries - successes)
    draws = list(itertools.combinations(outcomes, k))
    assert pass_at(k, tries, successes) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(st.integers(0, 12), st.integers(0, 12))
def test_sign_flip_of_one_play_a_level_is_mcnemars_exact_test(one, other):
    n = one + other
    as_odd = [i for i in range(n + 1) if abs(2 * i - n) >= abs(one - other)]
    expected = sum(Fraction(math.comb(n, i), 2**n) for i in as_odd)
    assert sign_flip([1] * other + [-1] * one + [0, 0]) == pytest.approx(float(expected))


@given(st.lists(st.integers(-5, 5), max_size=9))
def test_sign_flip_counts_every_way_to_flip(differences):
    flipped = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert sign_flip(differences) == pytest.approx(
        sum(each >= abs(sum(differences)) for each in flipped) / len(flipped)
    )


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
)
def test_relabelling_counts_every_way_to_part_the_values(one, other):
    """With equal values each has a label of its own, so that they count as often as there are ways to choose them."""
    values = one + other

    def apart(chosen):
        here = [values[i] for i in chosen]
        there = [values[i] for i in range(len(values)) if i not in chosen]
        return abs(Fraction(sum(here), len(here)) - Fraction(sum(there), len(there)))

    ways = [apart(chosen) for chosen in itertools.combinations(range(len(values)), len(one))]
    seen = apart(range(len(one)))
    assert relabel(one, other) == pytest.approx(sum(each >= seen for each in ways) / len(ways))


@pytest.mark.parametrize("freedom", [1, 2, 3, 3.7, 5, 9.2, 31, 127, 1e4])
def test_t_quantile_is_scipys(freedom):
    stats = pytest.importorskip("scipy.stats")
    assert t95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


EXPANSION = [
    (4, {3: 1, 1: 1}),
    (96, {5: 5, 3: 16, 1: 3}),
    (384, {7: 3, 5: 19, 3: 17, 1: -15}),
    (92160, {9: 79, 7: 776, 5: 1482, 3: -1920, 1: -945}),
]
"""Abramowitz and Stegun 26.7.5: for each power of 1 / freedom a divisor, and factors of the powers
of the normal distribution's point.
"""


@pytest.mark.parametrize("freedom", [3, 4.5, 17])
def test_t_quantile_is_the_expansion_of_its_source(freedom):
    z = Fraction(1.959963984540054)
    expected = z
    for order, (divisor, factors) in enumerate(EXPANSION, 1):
        polynomial = sum(factor * z**power for power, factor in factors.items())
        expected += polynomial / divisor / Fraction(freedom) ** order
    assert t95(freedom) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706205), (1.9, 12.706205), (2, 4.302653)])
def test_t_quantile_of_few_degrees_is_exact(freedom, quantile):
    """Between one and two degrees that of one, which is wider."""
    assert t95(freedom) == pytest.approx(quantile, rel=1e-6)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40))
def test_rate_lies_within_its_interval(drawn):
    levels = [(float(solved), solved + missed + (solved + missed == 0)) for solved, missed in drawn]
    found = rate(levels)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(
        sum(each for each, _ in levels) / sum(size for _, size in levels)
    )
    turned = rate([(size - each, size) for each, size in levels])
    assert (turned.low, turned.high) == pytest.approx((1 - found.high, 1 - found.low))


@pytest.mark.parametrize("solved", [0, 3, 16, 32])
def test_repeats_that_always_agree_add_nothing(solved):
    once = rate([(1.0, 1)] * solved + [(0.0, 1)] * (32 - solved))
    often = rate([(5.0, 5)] * solved + [(0.0, 5)] * (32 - solved))
    assert (often.low, often.high, often.levels) == pytest.approx((once.low, once.high, 32))
    low, high = wilson(solved, 32)
    assert (once.low, once.high) == pytest.approx((low, high), abs=0.02)


def test_average_is_students_t():
    stats = pytest.importorskip("scipy.stats")
    values = [float(i % 10) + i / 7 for i in range(40)]
    expected = stats.t.interval(0.95, 39, loc=sum(values) / 40, scale=stats.sem(values))
    found = average([(each, 1) for each in values])
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-3)
    assert math.isnan(average([]).value)


def test_two_metrics_of_the_same_episodes_say_no_more_than_one():
    """As SVG's two scores do; of different levels they would."""
    one = average(by_level((str(i), i % 5 / 4) for i in range(40)))
    same, other = replace(one, drawn="test 0 a"), replace(one, drawn="test 0 b")
    twice = combined([same, same])
    assert (twice.low, twice.high, twice.levels) == (
        pytest.approx(one.low),
        pytest.approx(one.high),
        one.levels,
    )
    assert combined([same, other]).high - one.value == pytest.approx(
        (one.high - one.value) / 2**0.5, rel=0.02
    )
    assert combined([twice, other]).high < one.high


def test_nothing_measured_is_an_open_interval():
    none = rate([])
    assert (none.low, none.high, none.levels, none.effective) == (0.0, 1.0, 0, 0.0)
    assert math.isnan(none.value)
    assert wilson(0, 0) == (0.0, 1.0)
    none = average([])
    assert math.isnan(none.low)
    assert math.isnan(none.high)
    assert not none.is_bounded
    assert (none.levels, none.effective) == (0, 0.0)


@pytest.mark.parametrize("solved", [0, 1, 2, 3])
def test_levels_that_all_agree_count_as_so_many_plays(solved):
    """Thirds have a variance of rounding, which is none."""
    found = rate([(float(solved), 3)] * 7)
    assert found.effective == 7.0
    assert (found.low, found.high) == wilson(found.value * 7, 7, t95(found.freedom))


def test_two_levels_have_one_degree_of_freedom():
    for levels in ([(1.0, 1), (0.0, 1)], [(1.0, 2), (1.0, 2)], [(2.0, 3), (1.0, 3)]):
        assert rate(levels).freedom == average(levels).freedom == 1.0


def test_a_single_level_bounds_nothing():
    one = rate([(3.0, 4)])
    assert (one.value, one.low, one.high, one.levels, one.effective) == (0.75, 0.0, 1.0, 1, 1.0)
    one = average([(3.0, 4)])
    assert (one.value, one.low, one.high) == (0.75, -math.inf, math.inf)
    assert (one.levels, one.effective, one.is_bounded) == (1, 1.0, False)


def test_values_of_a_level_are_added_in_the_order_of_names():
    assert by_level([("b", 1.0), ("a", 0.5), ("b", 2.0)]) == [(0.5, 1), (3.0, 2)]


def test_the_average_of_equal_values_is_exact():
    found = average([(2.0, 1)] * 5)
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)
    assert (found.levels, found.effective, found.freedom) == (5, 5.0, 4.0)
    assert found.is_bounded


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 4)), min_size=2, max_size=12))
def test_the_average_weights_levels_by_their_plays(levels):
    """The ratio estimator's variance between levels, as survey sampling has it (Cochran 1977, equation 6.9)."""
    found, count = average(levels), len(levels)
    plays = sum(size for _, size in levels)
    mean = sum(value for value, _ in levels) / plays
    assert found.value == pytest.approx(mean, abs=1e-9)
    between = sum((value - mean * size) ** 2 for value, size in levels)
    variance = between * count / (count - 1) / plays**2
    half = t95(found.freedom) * math.sqrt(variance)
    assert found.high - found.value == pytest.approx(half, abs=1e-6)
    assert found.value - found.low == pytest.approx(half, abs=1e-6)
    assert 1 <= found.freedom <= max(1, count - 1)


def test_repeats_that_differ_add_and_repeats_that_agree_do_not():
    """A level's five plays that agree are one play; plays that vary within every level are nearly five."""
    agree = rate([(5.0, 5)] * 10 + [(0.0, 5)] * 10)
    assert agree.effective == pytest.approx(19.0, abs=1.0)
    varied = rate([(2.0, 5), (3.0, 5)] * 10)
    assert varied.effective > 100
    assert varied.high - varied.low < agree.high - agree.low


def test_few_levels_that_stand_out_leave_few_degrees_of_freedom():
    lone = rate([(2.0, 5), *[(0.0, 5)] * 20])
    even = rate([(5.0, 5), (0.0, 5)] * 10)
    assert 2 <= lone.freedom < 5 < even.freedom <= 19
    assert average([(9.0, 1)] + [(0.1 * i, 1) for i in range(20)]).freedom < 5


def test_a_mean_of_independent_estimates_adds_their_errors_as_variances():
    one = Estimate(0.5, 0.3, 0.6, 10, 10.0, freedom=8.0)
    other = Estimate(0.7, 0.6, 0.9, 20, 15.0, freedom=30.0, flagged=True)
    found = combined([one, other])
    assert found.value == pytest.approx(0.6)

    def reach(first, second):
        errors = [(first / t95(8)) ** 2, (second / t95(30)) ** 2]
        freedom = sum(errors) ** 2 / (errors[0] ** 2 / 8 + errors[1] ** 2 / 30)
        return t95(freedom) * math.sqrt(sum(errors)) / 2, freedom

    (down, below), (up, above) = reach(0.2, 0.1), reach(0.1, 0.2)
    assert found.low == pytest.approx(0.6 - down)
    assert found.high == pytest.approx(0.6 + up)
    assert (found.levels, found.effective, found.flagged) == (30, 25.0, True)
    assert found.freedom == pytest.approx(min(below, above))
    assert found.drawn == ""


def test_estimates_of_the_same_levels_err_together():
    one = Estimate(0.5, 0.3, 0.6, 10, 10.0, freedom=8.0, drawn="same")
    other = Estimate(0.7, 0.6, 0.9, 12, 8.0, freedom=11.0, drawn="same")
    found = combined([one, other])
    down = (0.2 / t95(8) + 0.1 / t95(11)) * t95(8) / 2
    assert found.low == pytest.approx(found.value - down)
    assert (found.levels, found.effective, found.drawn) == (12, 10.0, "same")
    assert not found.flagged
    exact = Estimate(1.0, 1.0, 1.0, 3, 3.0)
    assert (combined([exact]).low, combined([exact]).high) == (1.0, 1.0)
    assert combined([exact]).freedom == 1.0
    unbounded = Estimate(1.0, -math.inf, math.inf, 1, 1.0)
    assert not combined([exact, unbounded]).is_bounded


def test_a_gain_on_the_same_levels_is_newcombes():
    """Method 10: the two intervals, joined with the correlation between the levels."""
    one = [(1.0, 1), (0.0, 1), (1.0, 1), (0.0, 1), (1.0, 1), (0.0, 1)]
    other = [(1.0, 1), (1.0, 1), (1.0, 1), (0.0, 1), (1.0, 1), (0.0, 1)]
    first, second, found = rate(one), rate(other), difference(one, other)
    assert found.value == pytest.approx(1 / 6)
    shared = 0.7071067811865475  # phi of the paired table
    up, down = second.high - second.value, first.value - first.low
    assert found.high - found.value == pytest.approx(
        math.sqrt(up**2 - 2 * shared * up * down + down**2)
    )
    up, down = first.high - first.value, second.value - second.low
    assert found.value - found.low == pytest.approx(
        math.sqrt(up**2 - 2 * shared * up * down + down**2)
    )
    assert (found.levels, found.freedom) == (6, 5.0)
    assert found.effective == min(first.effective, second.effective)
    turned = difference(other, one)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_levels_that_all_agree_correlate_with_nothing():
    one, other = [(1.0, 1)] * 4, [(1.0, 1), (0.0, 1), (0.0, 1), (1.0, 1)]
    first, second, found = rate(one), rate(other), difference(one, other)
    up, down = second.high - second.value, first.value - first.low
    assert found.high - found.value == pytest.approx(math.hypot(up, down))


@pytest.mark.parametrize(("k", "tries"), [(0, 3), (4, 3), (-1, 3)])
def test_pass_at_k_needs_k_tries(k, tries):
    with pytest.raises(ValueError, match="must be from 1 to 3"):
        pass_at(k, tries, 1)


def test_no_difference_is_no_evidence():
    assert sign_flip([]) == sign_flip([0, 0]) == 1.0
