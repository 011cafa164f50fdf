"""Good points for `site_care` from tables: each site's networks on a grid of treatments, and a MILP
that chooses.
"""

import itertools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, milp

from ddmip_book.problems import SiteCare
from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.errors import ProblemError
from ddmip_lib.methods import start_run


def grid_search(problem: NeuralMIP, levels: int = 5, time_limit: float = 60.0) -> Solution:
    r"""The best treatment and species of each site among finitely many options:

    $$\max \sum_{ij} v_{ij} \delta_{ij} \quad\text{s.t.}\quad \sum_j \delta_{ij} = 1, \quad
    \sum_{ij} r_{ij} \delta_{ij} \le R, \quad \delta \in \{0, 1\},$$

    an option $j$ of site $i$ being a species and a point of a grid, $v$ the survival that counts
    there, and $r$ what it takes of the budgets $R$ (light, soil, sterilising, planting) and gives
    to its species' target. The grid holds the light of the untreated site and `levels` lights in
    each category, and `levels` steps of a dose. Options that take no less than another and give no
    more are left out.

    The objective is verified, so it is a lower bound on the optimum. ``details["grid_bound"]`` is
    proved for the grid alone and bounds nothing else; `bound` is None.

    >>> from ddmip_book.networks import mlp
    >>> from ddmip_book.problems import site_care
    >>> nets = [mlp(1, 4, 7, seed=k) for k in range(4)]
    >>> for net in nets:
    ...     _ = net[-1].bias.data.fill_(0.5)
    >>> solution = grid_search(site_care(grid=2, nets=nets), levels=3)
    >>> solution.status, solution.objective <= solution.details["grid_bound"] + 1e-6
    ('stopped', True)
    """
    if not isinstance(problem, SiteCare):
        raise TypeError(f"grid_search needs a problem of site_care, not {type(problem).__name__}.")
    if levels < 2:
        raise ProblemError(
            f"levels={levels} must be at least 2: the ends of each category are levels."
        )
    run = start_run(problem, time_limit, 0, method="grid search")
    incumbent = run.incumbent()
    options = _options(problem, levels)
    chosen, bound = options.chosen(problem, run.seconds_left)
    run.details |= {"options": len(options.value), "levels": levels}
    if bound is not None:
        run.details["grid_bound"] = bound
    if chosen is not None:
        inputs = [options.point[chosen]] * len(problem.predictors)  # options are sorted by site
        values = incumbent.completer.complete(inputs, max(1.0, 0.2 * time_limit))
        if values is not None:
            incumbent.consider(values)
    status = "stopped" if incumbent.values is not None else "no_solution_found"
    if run.seconds_left <= 0:
        status = "time_limit"
    return run.solution(status)


class _Options(NamedTuple):
    """Treatments of single sites, one in each row."""

    point: np.ndarray
    site: np.ndarray
    species: np.ndarray
    value: np.ndarray
    use: np.ndarray

    def chosen(self, problem: SiteCare, seconds: float) -> tuple[np.ndarray | None, float | None]:
        """The best choice of one option for each site, and a bound on its value."""
        plot = problem.plot
        each = np.arange(len(self.value))
        one = sp.csr_matrix((np.ones(len(each)), (self.site, each)))
        cost = sp.csr_matrix(plot.cost[self.species][None])
        survival = sp.csr_matrix((self.value, (self.species, each)))
        free = np.full(4, np.inf)
        sites = np.ones(len(plot.sites))
        constraints = LinearConstraint(
            sp.vstack([one, sp.csr_matrix(self.use.T), cost, survival]),
            np.concatenate([sites, -free, plot.gamma]),
            np.concatenate([sites, problem.budgets, [plot.budget], free]),
        )
        result = milp(
            -self.value,
            integrality=1,
            bounds=(0, 1),
            constraints=constraints,
            options={"time_limit": max(0.0, seconds), "mip_rel_gap": 1e-6},
        )
        bound = None if result.mip_dual_bound is None else -float(result.mip_dual_bound)
        return None if result.x is None else result.x > 0.5, bound


def _options(problem: SiteCare, levels: int) -> _Options:
    """The options of all sites on the grid that no other option dominates."""
    parts = []
    for site in range(len(problem.plot.sites)):
        x = _points(problem, site, levels)
        use = problem.usage(site, x)
        for species, predictor in enumerate(problem.predictors):
            value = np.minimum(predictor.predict(x)[:, 0], 1.0)
            kept = _undominated(np.column_stack([use, -value]))
            place = (np.full(len(kept), site), np.full(len(kept), species))
            parts.append((x[kept], *place, value[kept], use[kept]))
    return _Options(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _points(problem: SiteCare, site: int, levels: int) -> np.ndarray:
    """The treated features of one site on the grid, (points, 7)."""
    untreated = problem.plot.sites[site]
    steps = np.linspace(0, 1, levels) if problem.doses else np.array([0.0, 1.0])
    soils = [(m, z) for m, z in itertools.product(steps, steps) if m + z <= 1]
    if problem.doses and untreated[5]:  # exchanging nothing, at every dose of sterilising
        soils = sorted({*soils, *((1 - z, z) for z in steps)})
    points = []
    for category in range(3):
        lights = np.linspace(problem.edges[category], problem.edges[category + 1], levels)
        if untreated[1 + category]:
            lights = np.append(lights, untreated[0])
        for light, (m, z) in itertools.product(lights, soils):
            points.append([light, *np.eye(3)[category], untreated[4], m, z])
    return np.array(points)


def _undominated(cost: np.ndarray) -> np.ndarray:
    """Rows that no other row beats or equals in every column; of equal rows the first.

    >>> _undominated(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]])).tolist()
    [0, 1]
    """
    below = (cost[:, None] <= cost[None]).all(
        axis=2
    )  # row j is no more than row i, in every column
    earlier = np.arange(len(cost))[:, None] < np.arange(len(cost))[None]
    return np.flatnonzero(~(below & (~below.T | earlier)).any(axis=0))
