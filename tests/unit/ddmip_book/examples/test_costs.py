"""Counts that are exact: multiply-adds, what the reverse pass keeps, slopes, curvature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples import costs
from ddmip_book.networks import conv1d, lstm, mlp, resnet

torch.set_num_threads(1)


@given(st.integers(1, 5), st.integers(1, 20), st.integers(1, 9), st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_dense_networks_cost_their_weights(depth: int, width: int, n_in: int, n: int) -> None:
    net = mlp(depth, width, n_in)
    weights = n_in * width + (depth - 1) * width**2 + width
    assert costs.multiply_adds(net, n_in, n=n) == n * weights
    assert costs.multiply_adds(net, n_in, "gradient", n) == 2 * n * weights
    assert costs.multiply_adds(net, n_in, "training", n) == 3 * n * weights
    assert costs.parameter_count(net) == weights + depth * width + 1


def test_shared_weights_work_more_than_once() -> None:
    conv = conv1d(3, 8, 9)
    recurrent = lstm(1, 8, 9)
    by_hand = 9 * (3 * 1 * 8 + 2 * 3 * 8 * 8) + 8 * 9
    assert costs.multiply_adds(conv, 9) == by_hand
    assert costs.multiply_adds(recurrent, 9) == 9 * 4 * (8 + 8 * 8) + 8
    assert costs.multiply_adds(resnet(2, 8, 9), 9) == 9 * 8 + 2 * 2 * 64 + 8
    with pytest.raises(ValueError, match="use 'forward'"):
        costs.multiply_adds(conv, 9, "back")


def test_counting_leaves_the_network_as_it_was() -> None:
    net = costs.as_frozen(mlp(1, 4, 3))
    costs.multiply_adds(net, 3, "training")
    assert all(weight.grad is None and not weight.requires_grad for weight in net.parameters())


def test_what_is_kept_grows_with_units_and_samples_not_with_parameters() -> None:
    one = costs.saved_bytes(costs.as_frozen(mlp(4, 32, 9)), n=10)
    assert costs.saved_bytes(costs.as_frozen(mlp(4, 32, 9)), n=30) == 3 * one
    wide = costs.saved_bytes(costs.as_frozen(mlp(4, 64, 9)), n=10)
    assert wide == 2 * one, "twice the units, four times the parameters"


@given(st.floats(0.2, 3.0), st.floats(0.1, 10.0), st.integers(0, 99))
def test_power_law_recovers_a_slope_within_its_error(
    slope: float, factor: float, seed: int
) -> None:
    x = np.geomspace(1, 1000, 12)
    noise = np.exp(0.05 * np.random.default_rng(seed).normal(size=12))
    law = costs.power_law(x, factor * x**slope * noise)
    assert abs(law.slope - slope) < 6 * max(law.error, 1e-9)
    assert costs.power_law(x, factor * x**slope).slope == pytest.approx(slope)


def test_time_of_others_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call takes a second of the processor, and others take a minute more each time."""
    calls: list[int] = []
    monkeypatch.setattr(costs.time, "process_time", lambda: float(len(calls)))
    monkeypatch.setattr(costs.time, "perf_counter", lambda: 60.0 * len(calls))
    assert costs.median_seconds(lambda: calls.append(1), 3) == 1.0
    assert len(calls) == 5, (
        "one to warm up, one to see how many fill a bunch, and three that are measured"
    )


def test_calls_too_short_for_the_clock_are_timed_in_bunches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    for name in ("process_time", "perf_counter"):
        monkeypatch.setattr(costs.time, name, lambda: 1e-5 * len(calls))
    assert costs.median_seconds(lambda: calls.append(1), 3) == pytest.approx(1e-5)
    assert len(calls) >= 2 + 3 * 200


def test_gradient_is_that_of_the_network() -> None:
    net = costs.tanh_net(2, 8, 3, gain=1.5, seed=1)
    x = torch.zeros(2, 3, dtype=torch.float64) + 0.2
    found = costs.input_gradient(net, x)
    step = 1e-6
    for j in range(3):
        up = x.clone()
        down = x.clone()
        up[:, j] += step
        down[:, j] -= step
        expected = (net(up) - net(down))[:, 0] / (2 * step)
        torch.testing.assert_close(found[:, j], expected, atol=1e-7, rtol=1e-5)


def test_curvature_is_a_lower_bound_of_the_gradients_lipschitz_constant() -> None:
    net = costs.tanh_net(2, 16, 4, gain=1.5, seed=0)
    few, many = (costs.largest_curvature(net, 4, points) for points in (10, 200))
    assert 0 < few <= many
    x = torch.rand(200, 4, dtype=torch.float64) * 2 - 1
    quotient = (costs.input_gradient(net, x) - costs.input_gradient(net, x + 1e-5)).norm(
        dim=1
    ) / 2e-5
    assert quotient.max() <= 1.5 * many
