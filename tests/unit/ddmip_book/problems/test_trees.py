"""Tree Planting against an instance and an optimum computed apart from the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.data import load_trees, source
from ddmip_book.networks import mlp
from ddmip_book.problems import tree_planting
from ddmip_lib import Enumeration
from ddmip_lib.errors import ProblemError
from ddmip_lib.proofs import CLOSED
from tests.builders.networks import linear, tree_networks

torch.set_num_threads(1)
FILES = {name: name.lower().replace(" ", "_") for name in load_trees()}
OPTIMA = {  # with the best sterilisation, and without any; on the published data
    ("2x16", 42): (29.464368, 27.160841),
    ("2x16", 123): (30.374669, 28.047652),
    ("2x16", 456): (29.943522, 27.465139),
    ("2x16", 789): (29.727967, 27.504528),
    ("2x16", 1024): (29.821609, 28.019900),
    ("8x32", 42): (28.059474, 25.897374),
    ("8x32", 123): (28.045197, 26.520029),
    ("8x32", 456): (28.141968, 25.706177),
    ("8x32", 789): (27.916113, 25.793881),
    ("8x32", 1024): (27.824831, 26.089956),
}


def light_bounds():
    light = np.concatenate([data.features[:, 0] for data in load_trees().values()])
    return light.min(), light.max()


def steep():
    """Survivals that fall with light from above one to below zero for every species, and rise if
    sterilised.
    """
    low, high = light_bounds()
    nets = []
    for k in range(4):
        slope = (2.3 + 0.1 * k) / (high - low)
        weights = [-slope, 0.01 * k, 0.0, 0.02, 0.03 * (k - 2), 0.05, 0.1 + 0.05 * k]
        nets.append(linear(*weights, bias=1.8 + 0.05 * k + slope * low))
    return nets


@dataclass
class Instance:
    """The draws of one seed and the survival tables, written down a second time."""

    grid: int
    nets: list[nn.Module]
    seed: int

    def __post_init__(self):
        n = self.grid**2
        draw = np.random.RandomState(self.seed)
        low, high = light_bounds()
        self.beta = draw.randint(8, 13)
        self.cost = draw.uniform(25, 45, size=4)
        self.gamma = draw.uniform(n / 80, n / 60, size=4)
        self.budget = 1.2 * n * np.median(self.cost)
        sites = []
        for row in range(self.grid):
            for _ in range(self.grid):
                category = draw.randint(3)
                myco = draw.randint(2)
                soil = draw.randint(2)
                light = high - (row / self.grid) * (high - low)
                sites.append(
                    [light, category == 0, category == 1, category == 2, myco == 0, soil == 0, 0]
                )
        self.sites = np.array(sites, dtype=float)

    def raw(self, z):
        x = self.sites.copy()
        x[:, 6] = z
        with torch.no_grad():
            return np.hstack([net.double()(torch.tensor(x)).numpy() for net in self.nets])

    def brute_force(self, beta):
        """Best total over every set of at most `beta` sterilised sites and every assignment of
        species to sites.
        """
        n = self.grid**2

        def totals(per_site):
            """Sums over the sites of `per_site[i, k_i]`, for all 4^n assignments k."""
            total = np.zeros(1)
            for row in per_site:
                total = (total[:, None] + row).ravel()
            return total

        affordable = totals(np.tile(self.cost, (n, 1))) <= self.budget
        counts = np.clip(np.stack([self.raw(0.0), self.raw(1.0)]), 0.0, 1.0)
        best = -np.inf
        for code in range(2**n):
            z = np.array([code >> i & 1 for i in range(n)])
            if z.sum() > beta:
                continue
            survival = counts[z, np.arange(n)]
            species = [totals(survival * (np.arange(4) == k)) for k in range(4)]
            ok = affordable.copy()
            for total, target in zip(species, self.gamma, strict=True):
                ok &= total >= target
            best = max(best, np.where(ok, sum(species), -np.inf).max())
        return best


@pytest.mark.parametrize(
    ("nets", "seed", "beta"), [("reference", 42, 3), ("reference", 7, 2), ("steep", 1, 2)]
)
def test_three_by_three_equals_brute_force_over_z_and_p(nets, seed, beta):
    nets = list(tree_networks().values()) if nets == "reference" else steep()
    best = Instance(3, nets, seed).brute_force(beta)
    problem = tree_planting(grid=3, nets=nets, seed=seed, beta=beta)
    solution = Enumeration().solve(problem)
    assert np.isfinite(best)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, abs=1e-6)
    assert solution.bound == pytest.approx(solution.objective, rel=CLOSED)
    assert problem.verify(solution).feasible
    assert solution.inputs[0][:, 6].sum() <= beta


def test_a_survival_below_zero_counts_as_none_and_above_one_as_one():
    """In the brightest row every species has f < 0: trees are planted there all the same, and count
    nothing.
    """
    raw = Instance(3, steep(), 1).raw(np.zeros(9))
    assert raw[:3].max() < 0
    assert raw.max() > 1
    problem = tree_planting(grid=3, nets=steep(), seed=1, beta=0)
    solution = Enumeration().solve(problem)
    names = [v.name for v in problem.model.getVars()]
    value = {name: float(v) for name, v in zip(names, solution.values, strict=True)}
    planted = np.reshape([value[f"p_{i}_{k}"] for i, k in np.ndindex(9, 4)], (9, 4))
    counted = np.reshape([value[f"s'_{i}_{k}"] for i, k in np.ndindex(9, 4)], (9, 4))
    np.testing.assert_allclose(counted, planted * np.clip(raw, 0, 1), atol=1e-6)
    np.testing.assert_allclose(np.hstack(solution.outputs), np.maximum(raw, 0), atol=1e-9)


@pytest.mark.parametrize("seed", [42, 1024])
def test_the_draws_are_those_of_the_definition(seed):
    net = mlp(1, 3, 7)
    instance = Instance(6, [net] * 4, seed)
    problem = tree_planting(nets=[net] * 4, seed=seed)
    model = problem.model
    rows = {c.name: c for c in model.getConss()}
    assert model.getRhs(rows["sterilising budget"]) == instance.beta
    assert model.getRhs(rows["planting budget"]) == pytest.approx(instance.budget)
    sides = [model.getLhs(rows[f"target_{k}"]) for k in range(4)]
    np.testing.assert_allclose(sides, instance.gamma)
    budget = rows["planting budget"]
    prices = dict(
        zip([v.name for v in model.getConsVars(budget)], model.getConsVals(budget), strict=True)
    )
    assert prices == pytest.approx(
        {f"p_{i}_{k}": instance.cost[k] for i in range(36) for k in range(4)}
    )
    for start in problem.start:
        np.testing.assert_allclose(start, instance.sites)
    shared = {v.ptr() for p in problem.predictors for v in p.inputs[:, 6]}
    assert len(shared) == 36  # one z for each site, not one for each network


def optima_hold(size, seed):
    nets = tree_networks(size)
    with_z = Enumeration().solve(tree_planting(nets=nets, seed=seed))
    without = Enumeration().solve(tree_planting(nets=nets, seed=seed, beta=0))
    assert {with_z.status, without.status} <= {
        "optimal",
        "claimed_optimal",
    }  # a proof may take longer than it gets
    assert without.objective < with_z.objective <= 36
    if source("trees") == "real":
        assert (with_z.objective, without.objective) == pytest.approx(OPTIMA[size, seed], abs=1e-5)


@pytest.mark.parametrize(
    ("size", "seed"),
    [pytest.param(*key, marks=[] if key[1] == 42 else pytest.mark.long) for key in OPTIMA],
)
def test_optima_of_the_reference_instances(size, seed):
    optima_hold(size, seed)


def test_networks_by_name_come_in_the_order_of_the_data():
    nets = tree_networks()
    turned = dict(reversed(nets.items()))
    ordered, named = (tree_planting(grid=2, nets=n, seed=3) for n in (list(nets.values()), turned))
    for one, other in zip(ordered.predictors, named.predictors, strict=True):
        x = ordered.start[0]
        np.testing.assert_array_equal(one.predict(x), other.predict(x))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"nets": None}, "load_npz"),
        ({"nets": [mlp(1, 3, 7)] * 3}, "4 networks"),
        ({"nets": mlp(1, 3, 7)}, "4 networks"),
        ({"nets": {"oak": mlp(1, 3, 7)}}, "Quercus alba"),
        ({"grid": 0}, "grid=0"),
        ({"beta": -1}, "beta=-1"),
        ({"nets": [mlp(1, 3, 9)] * 4}, "7 features"),
        ({"nets": [mlp(1, 3, 7, n_out=2)] * 4}, "outputs have shape"),
        ({"nets": [mlp(1, 3, 7).train()] * 4}, "training mode"),
    ],
)
def test_bad_arguments_are_refused_with_a_remedy(arguments, text):
    with pytest.raises(ProblemError, match=text):
        tree_planting(**({"nets": [mlp(1, 3, 7)] * 4} | arguments))


def test_what_is_no_network_is_refused():
    with pytest.raises(TypeError, match="Acer saccharum"):
        tree_planting(nets=[abs] * 4)


def test_the_callers_networks_are_left_as_they_are():
    net = mlp(1, 3, 7)
    net[1].train()
    with pytest.raises(ProblemError, match="training mode"):
        tree_planting(nets=[net] * 4)
    assert net[1].training
