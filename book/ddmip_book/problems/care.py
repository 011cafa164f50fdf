"""Site care: Tree Planting in which shading, soil and sterilising are all decisions."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from pyscipopt import MatrixVariable, Model
from torch import nn

from ddmip_book.data import Dataset, load_trees
from ddmip_lib import NeuralMIP
from ddmip_lib.errors import ProblemError
from .trees import (
    N_FEATURES,
    Plot,
    Treatment,
    add_survivals,
    draw_plot,
    in_order,
    plant,
    planting_blocks,
)

# Fungi and sterilising of a treated soil: as drawn for oaks, exchanged, sterilised.
SOILS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
# Sites that share one full range of light by the default budget.
SITES_PER_LIGHT_RANGE = 40
BUDGET_NAMES = ("light", "soil", "sterilising")


class SiteCare(NeuralMIP):
    """A problem of `site_care` with its instance, for methods that treat one site at a time.

    Attributes
    ----------
    plot : Plot
        The drawn instance.
    edges : np.ndarray
        Ends of the light categories: low from ``edges[0]`` to ``edges[1]``, and so on.
    budgets : np.ndarray
        Budgets of light, soil and sterilising.
    doses : bool
        Whether soil and sterilising are doses in [0, 1].
    """

    plot: Plot
    edges: ndarray
    budgets: ndarray
    doses: bool

    def usage(self, site: int | ndarray, x: ndarray) -> ndarray:
        """Return what treated features of sites use of each budget.

        Parameters
        ----------
        site : int or np.ndarray
            Number of the site, of all points or of each.
        x : np.ndarray
            Features, (points, 7).

        Returns
        -------
        np.ndarray
            Use of light, soil and sterilising, (points, 3).
        """
        light, soil = self.plot.sites[site][..., [0, 5]].T
        changed = np.where(soil, 1 - x[:, 5] - x[:, 6], x[:, 5])
        return np.column_stack([np.abs(x[:, 0] - light), changed, x[:, 6]])


class _Variables(NamedTuple):
    """The decisions on all sites."""

    light: MatrixVariable
    category: MatrixVariable
    soil: MatrixVariable
    sterilised: MatrixVariable
    clear: MatrixVariable
    shade: MatrixVariable

    @classmethod
    def of(cls, model: Model, n: int, edges: ndarray, vtype: str) -> "_Variables":
        """Add the variables of n sites to a model."""
        width = edges[3] - edges[0]
        return cls(
            model.addMatrixVar((n,), lb=edges[0], ub=edges[3], name="light"),
            model.addMatrixVar((n, 3), vtype="B", name="q"),
            model.addMatrixVar((n,), ub=1.0, vtype=vtype, name="m"),
            model.addMatrixVar((n,), ub=1.0, vtype=vtype, name="z"),
            model.addMatrixVar((n,), ub=width, name="clear"),
            model.addMatrixVar((n,), ub=width, name="shade"),
        )

    def inputs(self, plot: Plot) -> ndarray:
        """Network inputs, (sites, features): variables, and numbers where nothing is decided."""
        inputs = plot.sites.astype(object)
        inputs[:, 0] = self.light
        inputs[:, 1:4] = self.category
        inputs[:, 5] = self.soil
        inputs[:, 6] = self.sterilised
        return inputs


def site_care(
    grid: int = 6,
    nets: Mapping[str, nn.Module] | Sequence[nn.Module] | None = None,
    seed: int = 42,
    beta: float | None = None,
    kappa: float | None = None,
    light: float | None = None,
    doses: bool = False,
    data: Mapping[str, Dataset] | None = None,
) -> SiteCare:
    r"""Build Tree Planting in which six of the seven inputs of each site are decisions.

    One of them is continuous. The constraints are those of `tree_planting` on $p$, $s$, $s'$ with
    $s_{ik} = \max(0, f_k(\ell_i, q_i, w_i, m_i, z_i))$ and

    $$\ell_i = \ell^0_i + a_i - b_i, \quad \sum_i (a_i + b_i) \le \Lambda, \quad
    \sum_c e_{c-1} q_{ic} \le \ell_i \le \sum_c e_c q_{ic}, \quad \sum_c q_{ic} = 1,$$

    $$m_i + z_i \le 1, \quad \sum_{i: m^0_i = 0} m_i + \sum_{i: m^0_i = 1} (1 - m_i - z_i)
    \le \kappa, \quad
    \sum_i z_i \le \beta, \qquad a, b \ge 0, \quad q, m, z \text{ binary}.$$

    Clearing and shading ($a$, $b$) change the light $\ell$ of a site, and its category $q$ (low,
    med, high) follows: the ends $e$ of the categories are those of the data. Soil may be exchanged
    ($m$: the fungi of maples and cherries; 0: those of oaks) or sterilised, not both: the data hold
    no sterilised soil with fungi. The flag $w$ stays as drawn: in the published data it is a
    property of the species, and no network was trained on its change.

    Parameters
    ----------
    grid, nets, data
        As in `tree_planting`.
    seed : int
        Draws what `tree_planting` draws, then a light for each site, uniform in its category, then
        $\kappa$ (8 to 12).
    beta, kappa, light : float, optional
        The budgets $\beta$, $\kappa$ and $\Lambda$ (default of the last: a fortieth of the range
        of light for each site).
    doses : bool
        Whether $m$ and $z$ are doses in $[0, 1]$: three continuous inputs for each site, but
        between 0 and 1 no network was trained.

    Returns
    -------
    SiteCare
        The problem, which starts at the untreated plot.

    Raises
    ------
    ProblemError
        If the networks are missing or do not match the species, or a number is out of range.

    Examples
    --------
    >>> from ddmip_book.networks import mlp
    >>> site_care(grid=2, nets=[mlp(1, 4, 7, seed=k) for k in range(4)])
    SiteCare site care (2 x 2, seed=42)
      maximise, 80 variables (36 integer), 64 constraints
      predictor 0  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
      predictor 1  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
      predictor 2  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
      predictor 3  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
    """
    given = {"light": light, "kappa": kappa, "beta": beta}
    _check_budgets(given)
    data = load_trees() if data is None else data
    ordered = in_order(nets, list(data))
    edges = light_edges(data)
    plot, budgets_by_name = _draw(grid, seed, data)
    budgets_by_name |= {name: budget for name, budget in given.items() if budget is not None}
    budgets = np.array(list(budgets_by_name.values()), dtype=float)

    model = Model("site care")
    variables = _Variables.of(model, len(plot.sites), edges, "C" if doses else "B")
    s = plant(model, plot)
    _add_constraints(model, plot, edges, budgets, variables)

    suffix = ", doses" if doses else ""
    problem = SiteCare(model, name=f"site care ({grid} x {grid}, seed={seed}{suffix})")
    problem.plot = plot
    problem.edges = edges
    problem.budgets = budgets
    problem.doses = doses
    add_survivals(problem, ordered, variables.inputs(plot), s)
    problem.set_start(*[plot.sites] * len(ordered))
    if not doses:  # a block is a box: doses with m + z <= 1 are not
        problem.set_blocks(planting_blocks(plot, _treatments(problem), budgets, BUDGET_NAMES))
    return problem


def _check_budgets(given: Mapping[str, float | None]) -> None:
    for name, budget in given.items():
        if budget is not None and not 0 <= budget < np.inf:
            raise ProblemError(
                f"{name}={budget} must be finite and not negative: it is a budget for all sites"
                " together."
            )


def _draw(grid: int, seed: int, data: Mapping[str, Dataset]) -> tuple[Plot, dict[str, float]]:
    """An instance, and its budgets by name."""
    edges = light_edges(data)
    draw = np.random.RandomState(seed)
    plot = draw_plot(grid, data, draw)
    category = plot.sites[:, 1:4].argmax(axis=1)
    plot.sites[:, 0] = draw.uniform(edges[category], edges[category + 1])
    light = len(plot.sites) / SITES_PER_LIGHT_RANGE * (edges[3] - edges[0])
    return plot, {"light": light, "kappa": draw.randint(8, 13), "beta": plot.beta}


def _add_constraints(
    model: Model, plot: Plot, edges: ndarray, budgets: ndarray, v: _Variables
) -> None:
    """Add the constraints on the treatments."""
    start = plot.sites[:, 0]
    fungi = plot.sites[:, 5]
    model.addMatrixCons(v.light - v.clear + v.shade == start, name="lit")
    model.addMatrixCons(v.category.sum(axis=1) == 1, name="one category")
    lower = (v.category * edges[:3]).sum(axis=1)
    upper = (v.category * edges[1:]).sum(axis=1)
    model.addMatrixCons(v.light - lower >= 0, name="bright enough")
    model.addMatrixCons(v.light - upper <= 0, name="dark enough")
    model.addMatrixCons(v.soil + v.sterilised <= 1, name="one soil")
    exchanged = v.soil * (1 - 2 * fungi) - v.sterilised * fungi
    model.addCons((v.clear + v.shade).sum() <= budgets[0], name="light budget")
    model.addCons(exchanged.sum() <= budgets[1] - fungi.sum(), name="soil budget")
    model.addCons(v.sterilised.sum() <= budgets[2], name="sterilising budget")


def _treatments(problem: SiteCare) -> list[Treatment]:
    """A light category and a soil for every site; only the light inside the category is free."""
    sites = problem.plot.sites
    rate = np.zeros((N_FEATURES, 3))
    rate[0, 0] = 1.0
    treatments = []
    for category, soil in itertools.product(range(3), SOILS):
        base = sites.copy()
        base[:, 1:4] = np.eye(3)[category]
        base[:, 5:] = soil
        lower = base.copy()
        upper = base.copy()
        lower[:, 0] = problem.edges[category]
        upper[:, 0] = problem.edges[category + 1]
        base[:, 0] = np.clip(sites[:, 0], lower[:, 0], upper[:, 0])
        fixed = problem.usage(np.arange(len(sites)), base)
        treatments.append(Treatment(lower, upper, base, fixed, rate))
    return treatments


def light_edges(data: Mapping[str, Dataset]) -> ndarray:
    """Return the ends of the categories low, med and high.

    They are the quantiles of light below which as many samples lie as the data call low, and low or
    med. If the categories do not overlap (as in the published data), they are separated exactly.

    Parameters
    ----------
    data : mapping of Dataset
        One for each species.

    Returns
    -------
    np.ndarray
        Four increasing numbers.

    Examples
    --------
    >>> edges = light_edges(load_trees())
    >>> edges.shape, bool((np.diff(edges) > 0).all())
    ((4,), True)
    """
    samples = np.concatenate([table.features[:, :4] for table in data.values()])
    fractions = np.cumsum(samples[:, 1:3].mean(axis=0))
    return np.quantile(samples[:, 0], [0.0, *fractions, 1.0])
