"""The vectorised estimators against literal loops, and the laws that they must keep."""

import dataclasses

import pytest
import torch
from batches import batches, without
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ppo_training import config

from perf import advantage_loops
from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo import advantages as ppo
from vagen_adapters.ppo import group_advantages as grouped
from vagen_adapters.ppo.trajectories import Trajectories

EXACT = {"rtol": 0.0, "atol": 1e-12}
TWO_LEVELS = ("gamma_turn", "lam_turn", "gamma_token", "lam_token")
COEFFICIENTS = {
    "token_gae": ("gamma", "lam"),
    "dual_discount_gae": TWO_LEVELS,
    "bilevel_gae": TWO_LEVELS,
    "bilevel_gae_released": ("gamma_turn", "gamma_token", "lam"),
    "bilevel_gae_mixed": ("gamma_turn", "lam_turn", "lam_token", "mix"),
    "turn_gae": ("gamma", "lam"),
}
WITH_CRITIC = list(COEFFICIENTS)
IN_GROUPS = ["grpo", "rloo", "rloo_turns", "gigpo"]

unit = st.sampled_from([0.0, 0.5, 0.9, 0.95, 1.0]) | st.floats(0, 1)


def estimator(name):
    return getattr(grouped if name in IN_GROUPS else ppo, name)


@st.composite
def coefficients(draw, name):
    return {each: draw(unit) for each in COEFFICIENTS[name]}


def seams_of(batch, b):
    return [] if batch.seams is None else batch.seams[b].nonzero()[:, 0].tolist()


def by_loop(name, batch, **options):
    """The literal loop over each row of a batch whose rows are whole episodes."""
    rows, length = batch.turn_ids.shape
    dense = (
        torch.zeros(rows, length, dtype=torch.float64),
        torch.zeros(rows, length + 1, dtype=torch.float64),
    )
    present = tuple(torch.zeros_like(each, dtype=torch.bool) for each in dense)
    kl = batch.kl_rewards if batch.kl_rewards is not None else torch.zeros(rows, length)
    for b in range(rows):
        cut = batch.truncated[b] and not batch.terminated[b] and batch.bootstrap_values is not None
        row = [each[b].tolist() for each in (batch.turn_ids, batch.turn_rewards, batch.values, kl)]
        end_value = float(batch.bootstrap_values[b]) if cut else 0.0
        for entries, out, mask in zip(
            getattr(advantage_loops, name)(*row, end_value, **options, seams=seams_of(batch, b)),
            dense,
            present,
            strict=True,
        ):
            for i, entry in entries.items():
                out[b, i], mask[b, i] = entry, True
    return ppo.Advantages(dense[0], present[0], dense[1], present[1])


def assert_equal(found, expected, **tolerance):
    assert torch.equal(found.mask, expected.mask)
    assert torch.equal(found.value_mask, expected.value_mask)
    torch.testing.assert_close(found.advantages, expected.advantages, **(tolerance or EXACT))
    torch.testing.assert_close(found.returns, expected.returns, **(tolerance or EXACT))


def an_episode(**changes):
    """Two turns of two tokens, each after an observation, with padding on both sides."""
    fields = {
        "turn_ids": torch.tensor([[-1, -1, 0, 0, -1, 1, 1, -1]]),
        "turn_rewards": torch.tensor([[1.0, 10.0]], dtype=torch.float64),
        "terminated": torch.tensor([True]),
        "truncated": torch.tensor([False]),
        "values": torch.arange(9, dtype=torch.float64)[None] / 10,
    }
    return Trajectories(**{**fields, **changes})


@pytest.mark.parametrize("name", WITH_CRITIC)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_estimator_equals_the_literal_loop(name, data):
    batch, options = data.draw(batches(seams=True)), data.draw(coefficients(name))
    assert_equal(getattr(ppo, name)(batch, **options), by_loop(name, batch, **options))


@settings(max_examples=60, deadline=None)
@given(batch=batches(seams=True), gamma=unit, lam=unit)
def test_vanilla_ppo_equals_the_literal_loop(batch, gamma, lam):
    batch = dataclasses.replace(
        batch, values=batch.values.nan_to_num(0.5), kl_rewards=batch.kl_rewards.nan_to_num(-0.25)
    )
    options = {"gamma": gamma, "lam": lam, "mask_observations": False}
    assert_equal(ppo.token_gae(batch, **options), by_loop("token_gae", batch, **options))


@settings(max_examples=50, deadline=None)
@given(batch=batches(kl=False), gamma_turn=unit)
def test_both_bilevel_forms_agree_without_kl_at_lambda_and_gamma_token_one(batch, gamma_turn):
    batch = dataclasses.replace(batch, values=batch.values.nan_to_num(0.0))
    written, released = (
        ppo.bilevel_gae(batch, gamma_turn=gamma_turn),
        ppo.bilevel_gae_released(batch, gamma_turn=gamma_turn),
    )
    torch.testing.assert_close(written.advantages, released.advantages, rtol=0, atol=2e-14)
    at_tokens = released.value_mask
    torch.testing.assert_close(
        written.returns[at_tokens], released.returns[at_tokens], rtol=0, atol=2e-14
    )


def test_bilevel_forms_differ_at_smaller_lambda_and_with_kl():
    batch = an_episode()
    written = ppo.bilevel_gae(batch, lam_turn=0.9, lam_token=0.9)
    assert not torch.allclose(
        written.advantages, ppo.bilevel_gae_released(batch, lam=0.9).advantages
    )
    with_kl = an_episode(kl_rewards=torch.full((1, 8), -0.5, dtype=torch.float64))
    difference = ppo.bilevel_gae(with_kl).advantages - ppo.bilevel_gae_released(with_kl).advantages
    # The released turn recursion carries the KL of the next turn's last token back into the first turn.
    torch.testing.assert_close(
        difference, torch.tensor([[0, 0, 0.5, 0.5, 0, 0, 0, 0]], dtype=torch.float64)
    )


def test_algorithm_2_by_hand():
    found = ppo.bilevel_gae(
        an_episode(), gamma_turn=0.5, lam_turn=0.5, gamma_token=1.0, lam_token=0.5
    )
    turn_1 = 10 - 0.7
    turn_0 = 1 + 0.5 * 0.7 - 0.4 + 0.25 * turn_1
    last_0, last_1 = (0.4 - 0.3) + turn_0, (0.7 - 0.6) + turn_1
    expected = [0, 0, (0.3 - 0.2) + 0.5 * last_0, last_0, 0, (0.6 - 0.5) + 0.5 * last_1, last_1, 0]
    torch.testing.assert_close(found.advantages, torch.tensor([expected], dtype=torch.float64))
    assert found.value_mask.tolist() == [[False, False, True, True, True, True, True, True, False]]
    torch.testing.assert_close(
        found.returns[0, [4, 7]], torch.tensor([turn_0 + 0.4, 10.0], dtype=torch.float64)
    )


@pytest.mark.parametrize("name", [*WITH_CRITIC, *IN_GROUPS, "vine"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_row_a_turn_in_any_order_equals_whole_episodes(name, data):
    """Windowed rollouts (Verlog) and the order of the batch change nothing."""
    batch = data.draw(batches())
    options = data.draw(coefficients(name)) if name in COEFFICIENTS else {}
    groups = torch.arange(len(batch.turn_ids)) // 2
    states, worth = (
        torch.arange(batch.turn_rewards.numel()).view(batch.turn_rewards.shape) % 3,
        batch.turn_rewards + 1,
    )
    grouping = {"group_ids": groups, "turn_states": states, "turn_values": worth}
    whole = estimator(name)(dataclasses.replace(batch, **grouping), **options)
    pieces = [
        (b, t)
        for b, ids in enumerate(batch.turn_ids)
        for t in sorted({int(i) for i in ids if i >= 0})
    ]
    assume(pieces)
    pieces = data.draw(st.permutations(pieces))
    rows, turns = torch.tensor(pieces).T
    # The flags of a row that isn't an episode's last don't count: only the last piece says how it ended.
    is_last = turns == batch.turn_ids.amax(1)[rows]
    own = batch.turn_ids[rows] == turns[:, None]
    split = Trajectories(
        turn_ids=torch.where(own, batch.turn_ids[rows], -1),
        turn_rewards=batch.turn_rewards[rows]
        * torch.nn.functional.one_hot(turns, batch.turn_rewards.shape[1]),
        terminated=batch.terminated[rows] & is_last,
        truncated=batch.truncated[rows] & is_last,
        values=batch.values[rows],
        kl_rewards=batch.kl_rewards[rows],
        bootstrap_values=None
        if batch.bootstrap_values is None
        else batch.bootstrap_values[rows].where(is_last, torch.nan),
        episode_ids=100 - 7 * rows,
        group_ids=groups[rows],
        turn_states=states[rows],
        turn_values=worth[rows],
    )
    found = estimator(name)(split, **options)
    joined = torch.zeros_like(whole.advantages).index_add(0, rows, found.advantages)
    torch.testing.assert_close(joined, whole.advantages, rtol=1e-9, atol=1e-12)
    targets = torch.where(found.value_mask, found.returns, torch.nan)
    expected = torch.where(whole.value_mask, whole.returns, torch.nan)[rows]
    mine = found.value_mask & whole.value_mask[rows]
    if (
        name == "bilevel_gae"
    ):  # the value after a turn may be the value before the next, which is in another row
        mine[:, :-1] &= own
    torch.testing.assert_close(targets[mine], expected[mine], **EXACT)


@pytest.mark.parametrize("name", WITH_CRITIC)
@settings(max_examples=30, deadline=None)
@given(batch=batches(), seed=st.integers(0, 1000))
def test_a_lost_episode_leaves_the_others_as_if_it_had_never_been(name, batch, seed):
    lost = torch.rand(len(batch.turn_ids), generator=torch.Generator().manual_seed(seed)) < 0.5
    found = getattr(ppo, name)(without(batch, lost))
    alone = getattr(ppo, name)(batch)
    assert not found.mask[lost].any()
    assert not found.advantages[lost].any()
    assert not found.value_mask[lost].any()
    torch.testing.assert_close(found.advantages[~lost], alone.advantages[~lost], **EXACT)


@pytest.mark.parametrize("name", [*WITH_CRITIC, "grpo"])
def test_batch_without_any_sampled_token_gives_zeros(name):
    batch = without(an_episode(group_ids=torch.tensor([0])), torch.tensor([True]))
    found = estimator(name)(batch)
    assert not any(
        each.any() for each in (found.advantages, found.mask, found.returns, found.value_mask)
    )
    assert_equal(found.whitened(), found)


@pytest.mark.parametrize("name", WITH_CRITIC)
def test_no_gradient_flows_through_the_estimates(name):
    values = torch.randn(1, 9, dtype=torch.float64, requires_grad=True)
    found = getattr(ppo, name)(an_episode(values=values))
    assert not found.advantages.requires_grad
    assert not found.returns.requires_grad


@pytest.mark.parametrize("name", WITH_CRITIC)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_float32_is_close_to_float64_on_thousands_of_tokens(name, device):
    generator = torch.Generator().manual_seed(1)
    turn_ids = (torch.arange(2048) // 256).where(torch.arange(2048) % 256 > 40, -1).repeat(4, 1)
    double = Trajectories(
        turn_ids=turn_ids,
        turn_rewards=torch.randn(4, 8, generator=generator, dtype=torch.float64),
        terminated=torch.ones(4, dtype=torch.bool),
        truncated=torch.zeros(4, dtype=torch.bool),
        values=torch.randn(4, 2049, generator=generator, dtype=torch.float64),
    )
    on_device = {
        field.name: None
        if (entry := getattr(double, field.name)) is None
        else entry.to(device).float()
        if entry.is_floating_point()
        else entry.to(device)
        for field in dataclasses.fields(double)
    }
    single = getattr(ppo, name)(Trajectories(**on_device))
    assert single.advantages.dtype == torch.float32
    assert single.advantages.device.type == device
    torch.testing.assert_close(
        single.advantages.cpu().double(), getattr(ppo, name)(double).advantages, rtol=0, atol=2e-4
    )


@pytest.mark.parametrize(
    ("raw", "white"),
    [([1.0, 3.0], [-(0.5**0.5), 0.5**0.5]), ([2.0, 2.0], [0.0, 0.0]), ([2.9], [2.9])],
)
def test_tokens_are_whitened_equal_ones_become_zero_and_one_alone_stays(raw, white):
    advantages, nothing = torch.tensor([raw], dtype=torch.float64), torch.zeros(1, len(raw) + 1)
    found = ppo.Advantages(
        advantages, torch.ones(1, len(raw), dtype=torch.bool), nothing, nothing.bool()
    ).whitened()
    assert found.advantages[0].tolist() == pytest.approx(white)


@pytest.mark.parametrize("name", WITH_CRITIC)
@pytest.mark.parametrize(("field", "culprit"), [("values", torch.nan), ("kl_rewards", torch.inf)])
def test_a_number_that_is_none_is_refused_where_it_counts(name, field, culprit):
    length = 9 if field == "values" else 8
    broken = torch.zeros(1, length, dtype=torch.float64)
    broken[0, 6] = culprit
    with pytest.raises(TrainingDataError, match=rf"row 0: {field} holds (nan|inf)"):
        getattr(ppo, name)(an_episode(**{field: broken}))


@pytest.mark.parametrize("name", [*WITH_CRITIC, "grpo"])
def test_an_episode_with_a_broken_reward_is_refused_until_it_is_left_out(name):
    rewards = torch.tensor([[1.0, torch.nan]], dtype=torch.float64)
    batch = an_episode(turn_rewards=rewards, group_ids=torch.tensor([0]))
    with pytest.raises(TrainingDataError, match="row 0: turn_rewards holds nan"):
        estimator(name)(batch)
    assert not estimator(name)(without(batch, torch.tensor([True]))).mask.any()


def test_a_bootstrap_value_that_is_nan_is_refused_for_a_truncated_episode():
    batch = an_episode(
        bootstrap_values=torch.tensor([torch.nan], dtype=torch.float64),
        terminated=torch.tensor([False]),
        truncated=torch.tensor([True]),
    )
    with pytest.raises(TrainingDataError, match="bootstrap_values holds nan"):
        ppo.dual_discount_gae(batch)


def test_an_episode_without_an_end_is_refused():
    with pytest.raises(
        TrainingDataError, match=r"neither terminated nor truncated, so what .* unknown; set one"
    ):
        ppo.token_gae(an_episode(terminated=torch.tensor([False])))


def test_missing_critic_and_missing_groups_are_named():
    with pytest.raises(TrainingDataError, match=r"^this estimator needs a critic"):
        ppo.bilevel_gae(an_episode(values=None))
    for name in IN_GROUPS[:3]:
        with pytest.raises(
            TrainingDataError, match=r"^this estimator compares the episodes .* group_ids"
        ):
            estimator(name)(an_episode())
    with pytest.raises(TrainingDataError, match=r"^GiGPO compares turns .* turn_states"):
        grouped.gigpo(an_episode())
    with pytest.raises(TrainingDataError, match=r"^vine needs the worth .* turn_values"):
        ppo.vine(an_episode())


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize(
    ("name", "coefficient"), [(name, each) for name in WITH_CRITIC for each in COEFFICIENTS[name]]
)
def test_a_discount_outside_zero_and_one_is_refused(name, coefficient, value):
    with pytest.raises(TrainingConfigError, match=f"{coefficient}={value} is not valid"):
        config("unused", advantage=name, advantage_settings={coefficient: value})
