"""Column selection: a problem in the plane, and evaluated points as columns, before or after the
boundary search.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP
from ddmip_lib.model import Incumbent
from ddmip_lib.pricing import Blocks, Mode, PricingProblem, reduce_to_boundary
from ddmip_lib.pricing.columns import ColumnPool
from ddmip_lib.pricing.state import CoordinationState


def plane_network() -> nn.Module:
    r"""A smooth logit on the plane, $f(u) = 2\tanh(u_1) + \tanh(2 u_2) + \tanh(u_1 + u_2) - 2$.

    >>> plane_network()(torch.zeros(1, 2, dtype=torch.float64)).item()
    -2.0
    """
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    numbers = ([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [0.0, 0.0, 0.0], [[2.0, 1.0, 1.0]], [-2.0])
    for parameter, values in zip(net.parameters(), numbers, strict=True):
        parameter.data = torch.tensor(values, dtype=torch.float64)
    return net.eval()


def plane_problem(net: nn.Module, w: np.ndarray, budget: float) -> NeuralMIP:
    r"""Water Potability in the plane: the number of samples `w` of class 1 is maximised with one
    `budget` for each direction of each feature.

    >>> plane_problem(plane_network(), np.zeros((3, 2)), 1.0).blocks
    Blocks: 3 blocks, 1 mode, 4 shared resources
    """
    n, p = w.shape
    model = Model("shared budget")
    x = model.addMatrixVar(w.shape, lb=w - budget, ub=w + budget)
    a, b = (model.addMatrixVar(w.shape, ub=budget) for _ in range(2))
    y = model.addMatrixVar((n, 1), vtype="B")
    model.addMatrixCons(x - a + b == w)
    for j in range(p):
        model.addCons(a[:, j].sum() <= budget)
        model.addCons(b[:, j].sum() <= budget)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model, name=f"shared budget (n={n})")
    problem.add_predictor(net, x, y, output="classification")
    problem.set_start(w)
    problem.set_blocks(_shared_budget(w, budget))
    return problem


def _shared_budget(w: np.ndarray, budget: float) -> Blocks:
    """A block for each sample; a resource for each feature and direction."""
    n, p = w.shape
    each = np.arange(n)
    up = np.eye(p, 2 * p)
    nothing = np.zeros((n, 2 * p))
    down = np.roll(up, p, axis=1)
    mode = Mode(each, each, w - budget, w + budget, w, up, down, nothing, nothing[0])
    return Blocks([mode], np.full(2 * p, budget))


class Visits(NamedTuple):
    """Columns of evaluated points: the pool, and for each column the number of its point."""

    pool: ColumnPool
    origin: np.ndarray


def visited_options(
    problem: NeuralMIP, points: Sequence[np.ndarray], pulled: bool = True
) -> Visits:
    """Every sample of class 1 of every point, (n, p), as a column of its block, after the boundary
    search if `pulled`.

    For problems whose block i is sample i of one classifier, in one mode. Columns that exceed the
    capacities are included.

    >>> problem = plane_problem(plane_network(), np.zeros((1, 2)), 2.0)
    >>> plain, short = (
    ...     visited_options(problem, [np.array([[2.0, 2.0]])], pulled) for pulled in (False, True)
    ... )
    >>> bool((short.pool.use <= plain.pool.use).all()), short.pool.u[0].round(2).tolist()
    (True, [0.8, 0.0])
    """
    blocks = problem.blocks
    network = problem.predictors[0]
    assert blocks is not None
    u = np.clip(np.stack(points), blocks.lower, blocks.upper)
    origin, at = np.nonzero(network.raw(u.reshape(-1, u.shape[2]))[:, 0].reshape(u.shape[:2]) > 0)
    pool = ColumnPool(blocks)
    found = u[origin, at]
    if pulled and len(at):
        up, down = (rate[at] for rate in blocks.rates(1.0 / blocks.capacities))
        task = PricingProblem.of(blocks, at, up, down, np.full(len(at), np.inf))
        found = reduce_to_boundary(network.net, task, torch.from_numpy(found)).numpy()
    pool.at = at
    pool.u = found
    pool.value = blocks.worth[at]
    pool.use = blocks.use(at, found, pool.value)
    return Visits(pool, origin)


def best_choice(problem: NeuralMIP, pool: ColumnPool) -> np.ndarray:
    """The columns that `recover` selects from a pool, verified on the model; of equal columns the
    first.

    >>> problem = plane_problem(plane_network(), np.zeros((3, 2)), 2.0)
    >>> len(best_choice(problem, visited_options(problem, [np.full((3, 2), 1.5)]).pool))
    2
    """
    assert problem.blocks is not None
    incumbent = Incumbent(problem.instance(), time.perf_counter())
    market = CoordinationState.empty(problem.blocks, incumbent, np.inf, seed=0)
    first = np.unique(np.column_stack([pool.at, np.round(pool.u, 6)]), axis=0, return_index=True)[1]
    market.pool.at, market.pool.u, market.pool.value, market.pool.use = (
        part[first] for part in (pool.at, pool.u, pool.value, pool.use)
    )
    market.lp = market.pool.prices()
    market.offer(market.pool.rounded(market.lp.weights))
    market.choose(gap=1e-6, nodes=300)
    return first[:0] if market.chosen is None else first[market.chosen]


def visit_spread(points: Sequence[np.ndarray]) -> float:
    r"""The spread of evaluated points, $\frac{1}{Kn}\sum_k\sum_i\lVert u_i^k - \bar u_i\rVert_1$,
    $\bar u_i$ being the mean over the points.

    >>> visit_spread([np.zeros((4, 2)), np.ones((4, 2))])
    1.0
    """
    u = np.stack(points)
    return float(np.abs(u - u.mean(axis=0)).sum(axis=2).mean())
