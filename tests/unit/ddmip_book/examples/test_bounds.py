"""Bounds of ReLU networks: sound, ordered as the theory says, and exact models that agree with
brute force.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model, Variable
from torch import nn

from ddmip_book.examples.bounds import (
    Bounds,
    ambiguous,
    crown_layers,
    embed,
    interval_layers,
    largest_output,
    weights,
)
from ddmip_book.figures import exact_embeddings as figures
from ddmip_book.figures.bound_propagation import plot_linear_bounds
from ddmip_book.networks import mlp
from ddmip_lib.bounds import flat_layers
from ddmip_lib.problems import hand_sized_net
from tests.builders.networks import relu_layers

nets = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
slopes = st.sampled_from([None, 0.0, 0.4, 1.0])


def layers_of(depth: int, width: int, n_in: int, seed: int) -> list[nn.Module]:
    """A random network with weights large enough to matter, and biases off centre."""
    net = mlp(depth, width, n_in, n_out=2, seed=seed)
    for parameter in net.parameters():
        parameter.data.mul_(3.0)
    return flat_layers(net, n_in)


@settings(max_examples=40, deadline=None)
@given(nets, slopes, st.floats(0.0, 2.0))
def test_every_value_lies_within_crown_and_crown_within_the_intervals(
    shape: tuple[int, int, int, int], slope: float | None, radius: float
) -> None:
    layers = layers_of(*shape)
    rng = np.random.default_rng(shape[3])
    centre = rng.normal(size=(2, shape[2]))
    lower = centre - radius
    upper = centre + radius
    corners = rng.integers(0, 2, (100, 1, shape[2])) * 2.0 - 1.0
    points = np.concatenate(
        [centre + radius * corners, rng.uniform(lower, upper, (200, *lower.shape))]
    )
    crown = crown_layers(layers, lower, upper, slope)
    interval = interval_layers(layers, lower, upper)
    for i, ((low, high), (outer_low, outer_high)) in enumerate(zip(crown, interval, strict=True)):
        values = nn.Sequential(*layers[: 2 * i + 1])(torch.tensor(points)).numpy()
        slack = 1e-9 * (1 + np.abs(values).max())
        assert (values >= low - slack).all()
        assert (values <= high + slack).all()
        assert (low >= outer_low - slack).all()
        assert (high <= outer_high + slack).all()


def brute_force(layers: list[nn.Module], lower: np.ndarray, upper: np.ndarray) -> float:
    """The largest first output of a one-layer network on a plane box: at a corner of its linear
    pieces.
    """
    (theta, beta), _ = weights(layers)
    edges = [
        ((1.0, 0.0), -lower[0]),
        ((1.0, 0.0), -upper[0]),
        ((0.0, 1.0), -lower[1]),
        ((0.0, 1.0), -upper[1]),
    ]
    lines = [*zip(theta, beta, strict=True), *edges]
    found = []
    for (one, a), (two, b) in itertools.combinations(lines, 2):
        matrix = np.array([one, two])
        if abs(np.linalg.det(matrix)) > 1e-9:
            found.append(np.linalg.solve(matrix, [-a, -b]))
    inside = [p for p in found if (p >= lower - 1e-9).all() and (p <= upper + 1e-9).all()]
    return float(nn.Sequential(*layers)(torch.tensor(np.array(inside)))[:, 0].max())


@pytest.mark.parametrize("seed", range(4))
def test_truth_relaxation_crown_and_intervals_come_in_this_order(seed: int) -> None:
    layers = layers_of(1, 5, 2, seed)
    box = np.full((1, 2), -1.0), np.ones((1, 2))
    interval = interval_layers(layers, *box)
    crown = crown_layers(layers, *box)
    truth = brute_force(layers, box[0][0], box[1][0])
    for bounds in (interval, crown):
        assert largest_output(layers, box, bounds).value == pytest.approx(truth, abs=1e-5)
    relaxed = largest_output(layers, box, interval, relaxed=True).value
    by_slope = [crown_layers(layers, *box, slope=s)[-1][1][0, 0] for s in (0.0, 0.3, 1.0)]
    ends = [truth, relaxed, min(crown[-1][1][0, 0], *by_slope), interval[-1][1][0, 0]]
    assert all(a <= b + 1e-6 for a, b in itertools.pairwise(ends)), ends


@pytest.mark.parametrize("rule", [interval_layers, crown_layers])
def test_the_exact_model_computes_the_network_and_stable_units_cost_no_binary(rule: object) -> None:
    layers = layers_of(3, 6, 3, seed=1)
    centre = np.random.default_rng(1).normal(size=(1, 3))
    bounds = rule(layers, centre - 0.3, centre + 0.3)  # type: ignore[operator]
    for step in (-0.3, 0.0, 0.17):
        model = Model()
        model.hideOutput()
        x = [model.addVar(lb=float(v), ub=float(v)) for v in (centre + step)[0]]
        outputs = embed(model, x, layers, bounds)
        assert model.getNBinVars() == ambiguous(bounds).sum() > 0
        model.optimize()
        expected = nn.Sequential(*layers)(torch.tensor(centre + step))[0].tolist()
        assert [model.getVal(y) for y in outputs] == pytest.approx(expected, abs=1e-4)


def test_crown_is_exact_where_no_unit_can_switch_and_intervals_are_not() -> None:
    layers = flat_layers(
        relu_layers(([[1.0], [1.0]], [2.0, 1.5]), ([[1.0, -1.0]], [0.0])).float(), 1
    )
    box = -np.ones((1, 1)), np.ones((1, 1))
    assert [end.item() for end in crown_layers(layers, *box)[-1]] == pytest.approx(
        [0.5, 0.5], abs=1e-11
    )
    assert [end.item() for end in interval_layers(layers, *box)[-1]] == pytest.approx(
        [-1.5, 2.5], abs=1e-11
    )
    assert ambiguous(crown_layers(layers, *box)).tolist() == [0]


def test_the_best_slope_reaches_the_linear_relaxation() -> None:
    net = list(hand_sized_net())
    box = (np.zeros((1, 2)), np.ones((1, 2)))
    best = min(crown_layers(net, *box, slope=s)[-1][1].item() for s in np.linspace(0, 1, 41))
    relaxed = largest_output(net, box, interval_layers(net, *box), relaxed=True).value
    assert (best, relaxed) == (pytest.approx(25 / 8), pytest.approx(25 / 8, abs=1e-6))


def test_other_activations_are_refused() -> None:
    with pytest.raises(ValueError, match="Linear, ReLU, Linear"):
        weights([nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1)])


def test_figures_show_what_they_are_given() -> None:
    ax = figures.plot_envelopes([(-2.0, 6.0)])[0]
    corners = ax.patches[0].get_xy()[:3]
    assert corners.tolist() == [[-2.0, 0.0], [0.0, 0.0], [6.0, 6.0]]
    assert "area 6" in ax.get_title()
    ax = figures.plot_sweep(
        {25: [0.6, 0.8], 50: [0.5]}, {25: [1.0, 1.0], 50: [1.0]}, {25: 1, 50: 0}
    )
    proved, found = (bars.lines[0].get_ydata() for bars in ax.containers)
    assert [proved.tolist(), found.tolist()] == [[1.0, 1.0], [pytest.approx(0.7), 0.5]]
    assert [text.get_text() for text in ax.texts] == ["1 of 2", "0 of 1"]
    ax = figures.plot_nodes([0.1, 0.2], {"interval": [(3, 5), (6, 70)], "CROWN": [(2, 4), (4, 9)]})
    assert [list(line.get_ydata()) for line in ax.get_lines()] == [[5, 70], [4, 9]]
    assert [text.get_text() for text in ax.texts] == ["3", "6", "2", "4"]
    ax = figures.plot_widths({"seen": [1.0, 2.0], "interval": [1.0, 9.0]})
    assert [text.get_text() for text in ax.texts] == ["seen", "interval"]


def test_linear_bounds_are_drawn_with_their_areas() -> None:
    axes = plot_linear_bounds(-1.0, 2.0, [0.0, 1.0])
    assert [ax.get_title().split("area ")[1] for ax in axes] == ["3", "1.5"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=4, max_size=4), st.floats(0.0, 1.0))
def test_the_ideal_formulation_admits_the_graph_and_lies_inside_the_triangle(
    values: list[float], xi: float
) -> None:
    """Every inequality holds at integer points; two of them are those of Big-M."""
    theta = np.array(values[:2])
    x = np.tanh(values[2:])
    beta = 0.5
    best = np.where(theta >= 0, 1.0, -1.0)

    def limit(chosen: tuple[int, ...], on: float) -> float:
        others = [j for j in range(2) if j not in chosen]
        inside = sum(theta[j] * (x[j] + best[j] * (1 - on)) for j in chosen)
        return float(inside + (beta + theta[others] @ best[others]) * on)

    subsets = [(), (0,), (1,), (0, 1)]
    a = float(theta @ x + beta)
    assert all(max(a, 0.0) <= limit(chosen, float(a > 0)) + 1e-9 for chosen in subsets)
    reach = float(np.abs(theta).sum())
    assert limit((), xi) == pytest.approx((beta + reach) * xi)
    assert limit((0, 1), xi) == pytest.approx(a - (beta - reach) * (1 - xi))


def root_bound(
    bounds: list[Bounds], w: np.ndarray, layers: list[nn.Module], branched: int
) -> float:
    """Bound of Water with these bounds of each sample's units, where the first classes are 0."""
    model = Model()
    model.hideOutput()
    classes = []
    treated = []
    for sample, known in zip(w, bounds, strict=True):
        x, changes = treated_sample(model, sample)
        (logit,) = embed(model, x, layers, known, relaxed=True)
        y = model.addVar(ub=0.0 if len(classes) < branched else 1.0)
        low = known[-1][0].item()
        model.addCons(logit >= low + (1e-3 - low) * y)
        classes.append(y)
        treated.append(changes)
    for column in np.array(treated).reshape(len(w), -1).T:
        model.addCons(sum(column) <= 0.5)
    model.setObjective(sum(classes), "maximize")
    model.optimize()
    return float(model.getObjVal())


def treated_sample(
    model: Model, sample: np.ndarray
) -> tuple[list[Variable], tuple[list[Variable], list[Variable]]]:
    """Variables of a treated sample, and by how much each feature is raised and lowered."""
    x = [model.addVar(lb=v - 1.0, ub=v + 1.0) for v in sample]
    raised = [model.addVar() for _ in sample]
    lowered = [model.addVar() for _ in sample]
    for j, value in enumerate(sample):
        model.addCons(x[j] == float(value) + raised[j] - lowered[j])
    return x, (raised, lowered)


def test_the_root_bound_is_trivial_where_relaxed_logits_are_positive() -> None:
    """The bound of a node is at least n minus the number of samples with a branched variable."""
    layers = flat_layers(mlp(2, 8, 3, seed=1), 3)
    w = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    wide = [interval_layers(layers, v[None] - 20.0, v[None] + 20.0) for v in w]
    relaxed = [
        largest_output(layers, (v[None], v[None]), known, relaxed=True).value
        for v, known in zip(w, wide, strict=True)
    ]
    assert min(relaxed) >= 1e-3
    for branched in range(4):
        assert root_bound(wide, w, layers, branched) == pytest.approx(4 - branched)
