"""Site care against an instance and an optimum computed apart from the library."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from ddmip_book.data import light_range, load_trees, source
from ddmip_book.examples.care_grid import grid_search
from ddmip_book.networks import mlp
from ddmip_book.problems import site_care, tree_planting
from ddmip_book.problems.care import light_edges
from ddmip_lib import BigM, DualDecomposition, Enumeration
from ddmip_lib.errors import ProblemError
from ddmip_lib.programs.scip import is_integral
from tests.builders.clocks import LONG
from tests.builders.networks import tree_networks

torch.set_num_threads(1)
TINY = {"grid": 2, "beta": 1, "kappa": 1}


@cache
def reference():
    return list(tree_networks().values())


@cache
def small():
    """Four networks of four units, on which light weighs as much as the flags."""
    (low, high), nets = light_range(load_trees()), []
    for k in range(4):
        net = mlp(1, 4, 7, seed=k).double()
        with torch.no_grad():
            net[0].weight[:, 0] *= 2 / (high - low)
            net[0].bias -= net[0].weight[:, 0] * (low + high) / 2
            net[-1].weight *= 0.6
            net[-1].bias.fill_(0.5)
        nets.append(net.eval())
    return nets


@cache
def exact(seed, doses=False):
    problem = site_care(nets=small(), seed=seed, doses=doses, **TINY)
    return problem, BigM(feastol=1e-9).solve(problem, time_limit=LONG)


def untreated(problem):
    return grid_search(problem, levels=2).details["incumbents"][0][1]


def lights_within(site, edges, budget, steps):
    """Budgets 0, ..., `budget`, the lights on either side that each can just reach, and their
    categories.
    """
    reach = np.linspace(0, budget, steps + 1)
    lit = np.stack([site[0] - reach, site[0] + reach])
    return (
        lit,
        np.clip(np.searchsorted(edges, lit) - 1, 0, 2),
        (lit >= edges[0]) & (lit <= edges[3]),
    )


def table(net, site, edges, budget, steps):
    """Best survival of one site for every budget of light, number of changed soils and of
    sterilised soils.
    """
    best = np.full((steps + 1, 2, 2), -np.inf)
    lit, category, possible = lights_within(site, edges, budget, steps)
    for m, z in ((0, 0), (1, 0), (0, 1)):
        x = np.zeros((*lit.shape, 7))
        x[..., 0], x[..., 1:4], x[..., 4], x[..., 5], x[..., 6] = (
            lit,
            np.eye(3)[category],
            site[4],
            m,
            z,
        )
        with torch.no_grad():
            value = net(torch.tensor(x)).numpy()[..., 0]
        at_most = np.maximum.accumulate(
            np.where(possible, np.clip(value, 0, 1), -np.inf).max(axis=0)
        )
        changed = int(not z and m != site[5])
        best[:, changed:, z:] = np.maximum(best[:, changed:, z:], at_most[:, None, None])
    return best


def joined(one, other):
    """Best sum for every total budget: the max-plus convolution of two tables."""
    total = np.full(one.shape, -np.inf)
    for t, k, b in np.ndindex(one.shape):
        rest = one[t, k, b] + other[: len(other) - t, : 2 - k, : 2 - b]
        total[t:, k:, b:] = np.maximum(total[t:, k:, b:], rest)
    return total


def brute_force(seed, nets, steps=100):
    """The best of all assignments of the four species to four sites, at `steps` levels of the light
    budget.
    """
    draw = np.random.RandomState(seed)
    data = load_trees()
    n = 4
    edges = light_edges(data)
    draw.randint(8, 13)
    cost = draw.uniform(25, 45, size=4)
    gamma = draw.uniform(n / 80, n / 60, size=4)
    flags = [[draw.randint(3), draw.randint(2), draw.randint(2)] for _ in range(n)]
    sites = []
    for (category, myco, soil), share in zip(flags, draw.uniform(size=n), strict=True):
        light = edges[category] + share * (edges[category + 1] - edges[category])
        sites.append([light, category == 0, category == 1, category == 2, myco == 0, soil == 0, 0])
    # every target is positive and each site holds one tree, so each species has exactly one site
    assert (gamma > 0).all()
    assert cost.sum() <= 1.2 * n * np.median(cost)
    budget = n / 40 * (edges[3] - edges[0])
    tables = [
        [table(net, site, edges, budget, steps) for net in nets]
        for site in np.array(sites, dtype=float)
    ]
    pairs = [
        {
            (k, h): joined(tables[i][k], tables[i + 1][h])
            for k, h in itertools.permutations(range(4), 2)
        }
        for i in (0, 2)
    ]
    best = -np.inf
    for first, rest in itertools.product(*pairs):
        if not {*first} & {*rest}:
            both = (
                pairs[0][first][::-1, ::-1, ::-1] + pairs[1][rest]
            )  # what one pair leaves, the other may use
            best = max(best, both.max())
    return best


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.long), 42])
def test_two_by_two_equals_brute_force_over_light_soil_and_species(seed):
    problem, solution = exact(seed)
    best = brute_force(seed, small(), steps=200)
    assert solution.status == "optimal"
    assert problem.verify(solution).feasible
    assert (
        best - 1e-6 <= solution.objective <= best + 2e-4
    )  # the optimum may lie between two steps of the budget
    assert solution.objective > untreated(problem) + 0.05


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, pytest.param(42, marks=pytest.mark.long)])
def test_the_reference_networks_on_two_by_two_equal_brute_force(seed):
    problem = site_care(nets=reference(), seed=seed, **TINY)
    solution = BigM().solve(problem, time_limit=LONG)
    assert solution.status in (
        "optimal",
        "claimed_optimal",
    )  # SCIP's word, which the next line checks
    assert solution.objective == pytest.approx(brute_force(seed, reference()), abs=1e-4)


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.long), 42])
def test_grid_search_is_a_lower_bound_close_to_the_optimum(seed):
    """Of what treating the plot can gain, a grid of nine lights for each category misses a few per
    cent.
    """
    problem = site_care(nets=reference(), seed=seed, **TINY)
    nets = reference()
    best, coarse, fine = brute_force(seed, nets), *(grid_search(problem, levels=k) for k in (2, 9))
    assert problem.verify(fine).feasible
    assert best - 0.05 * (best - untreated(problem)) <= fine.objective <= best + 1e-4
    assert coarse.objective <= fine.objective + 1e-6 <= fine.details["grid_bound"] + 1e-4
    assert fine.bound is None
    assert fine.status == "stopped"


@pytest.mark.long
def test_doses_can_only_help_and_lie_between_none_and_all():
    problem, solution = exact(42, doses=True)
    assert solution.objective >= exact(42)[1].objective - 1e-6
    assert not {
        v.name for v in problem.model.getVars() if v.name[:2] in ("m_", "z_") and is_integral(v)
    }
    found = grid_search(problem, levels=3)
    assert problem.verify(found).feasible
    assert found.objective <= solution.bound + 1e-6


@pytest.mark.long
def test_what_a_point_uses_is_what_the_budget_rows_count():
    problem, solution = exact(3)
    s = {v.name: x for v, x in zip(problem.model.getVars(), solution.values, strict=True)}
    x = solution.inputs[0]
    rows = {c.name: c for c in problem.model.getConss()}
    used = sum(problem.usage(i, x[[i]])[0] for i in range(4))
    assert (used <= problem.budgets + 1e-6).all()
    assert used[0] == pytest.approx(
        sum(abs(s[f"clear_{i}"] - s[f"shade_{i}"]) for i in range(4)), abs=1e-6
    )
    for name, use, budget in zip(
        ("soil budget", "sterilising budget"), used[1:], problem.budgets[1:], strict=True
    ):
        terms = zip(
            problem.model.getConsVars(rows[name]),
            problem.model.getConsVals(rows[name]),
            strict=True,
        )
        slack = problem.model.getRhs(rows[name]) - sum(a * s[v.name] for v, a in terms)
        assert budget - use == pytest.approx(slack, abs=1e-6)


def test_every_treated_site_is_one_that_the_data_could_hold():
    problem, solution = exact(42)
    for light, *flags, _, soil, sterilised in solution.inputs[0]:
        category = flags.index(1.0)
        assert sum(flags) == 1
        assert problem.edges[category] - 1e-6 <= light <= problem.edges[category + 1] + 1e-6
        assert soil + sterilised <= 1


def test_the_sites_are_those_of_tree_planting_but_for_their_light():
    nets = [mlp(1, 3, 7)] * 4
    care = site_care(nets=nets, seed=123)
    plain = tree_planting(nets=nets, seed=123)
    np.testing.assert_array_equal(care.start[0][:, 1:], plain.start[0][:, 1:])

    def sides(problem):
        return {c.name: problem.model.getRhs(c) for c in problem.model.getConss()}

    for name in ("planting budget", "sterilising budget", "planted_0_0"):
        assert sides(care)[name] == sides(plain)[name]
    assert 8 <= care.budgets[1] <= 12
    shared = {v.ptr() for p in care.predictors for v in p.inputs.flat if not isinstance(v, float)}
    assert len(shared) == 6 * 36  # all networks of a site share its inputs


def test_the_ends_of_the_categories_part_the_published_data():
    data = load_trees()
    edges = light_edges(data)
    assert (edges[0], edges[3]) == light_range(data)
    rows = np.concatenate([table.features for table in data.values()])
    found = np.clip(np.searchsorted(edges, rows[:, 0]) - 1, 0, 2)
    agree = (found == rows[:, 1:4].argmax(axis=1)).mean()
    assert agree == 1 if source("trees") == "real" else agree > 0.8


@pytest.mark.parametrize("doses", [False, True])
def test_enumeration_refuses_it(doses):
    with pytest.raises(ProblemError, match=r"light_0 is continuous.*SequentialMIP"):
        Enumeration().solve(site_care(nets=[mlp(1, 3, 7)] * 4, doses=doses))


def test_dual_decomposition_improves_on_the_untreated_plot():
    problem, solution = exact(42)
    found = DualDecomposition(max_iterations=20).solve(problem, time_limit=LONG)
    assert found.details["split"] == "graph"
    assert problem.verify(found).feasible
    assert untreated(problem) + 0.1 * (solution.objective - untreated(problem)) < found.objective
    assert found.objective <= solution.bound + 1e-6
    with pytest.raises(ProblemError):
        DualDecomposition(split="paper", restarts=0).solve(problem)


def test_without_any_budget_the_plot_stays_untreated():
    problem = site_care(nets=reference(), seed=3, grid=2, beta=0, kappa=0, light=0)
    solution = grid_search(problem)
    np.testing.assert_allclose(solution.inputs[0], problem.plot.sites, atol=1e-9)
    assert len(solution.details["incumbents"]) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"nets": None}, "load_npz"),
        ({"grid": 0}, "grid=0"),
        ({"beta": -1}, "beta=-1"),
        ({"kappa": float("nan")}, "kappa=nan"),
        ({"light": -0.1}, "light=-0.1"),
        ({"nets": [mlp(1, 3, 9)] * 4}, "7 features"),
    ],
)
def test_bad_arguments_are_refused_with_a_remedy(arguments, text):
    with pytest.raises(ProblemError, match=text):
        site_care(**({"nets": [mlp(1, 3, 7)] * 4} | arguments))


def test_grid_search_is_for_site_care_and_needs_two_levels():
    nets = [mlp(1, 3, 7)] * 4
    with pytest.raises(TypeError, match="site_care"):
        grid_search(tree_planting(grid=2, nets=nets))
    with pytest.raises(ProblemError, match="levels=1"):
        grid_search(site_care(grid=2, nets=nets), levels=1)


@pytest.mark.filterwarnings(
    "ignore:Conversion of an array"
)  # PySCIPOpt 5 converts constraints of one row so
def test_grid_search_says_when_it_finds_nothing():
    solution = grid_search(
        site_care(grid=1, nets=small())
    )  # one site cannot hold a tree of each species
    assert solution.status == "no_solution_found"
    assert solution.objective is None
