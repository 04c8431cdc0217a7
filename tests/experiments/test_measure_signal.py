"""How much of a gradient is signal."""

import pytest
import torch

from measure_signal import cosines, over_rms


def test_gradients_of_one_signal_and_little_noise_point_the_same_way():
    signal = torch.tensor([1.0, -2.0, 0.5])
    noisy = signal + torch.tensor([[0.01, 0.0, 0.0], [0.0, -0.01, 0.0], [0.0, 0.0, 0.01]])
    assert cosines(noisy) == pytest.approx([1.0] * 3, abs=1e-3)


def test_cosines_are_of_each_pair():
    assert cosines(torch.tensor([[1.0, 0.0], [0.0, 3.0], [-2.0, 0.0]])) == [0.0, -1.0, 0.0]


def test_weights_of_small_gradients_count_like_those_of_large_ones():
    gradients = torch.tensor([[100.0, 1e-3], [100.0, -1e-3]])
    assert cosines(gradients) == pytest.approx([1.0])
    assert cosines(over_rms(gradients)) == pytest.approx([0.0], abs=1e-6)


def test_a_weight_without_a_gradient_adds_nothing():
    assert over_rms(torch.tensor([[0.0, 2.0], [0.0, 2.0]])).tolist() == [[0.0, 1.0], [0.0, 1.0]]
