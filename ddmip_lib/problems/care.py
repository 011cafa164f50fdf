"""Site care: Tree Planting in which shading, soil and sterilising are all decisions."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from pyscipopt import Model
from torch import nn

from ..data import Dataset, load_trees
from ..errors import ProblemError
from ..model.problem import NeuralMIP
from .trees import Plot, Treatment, add_survivals, draw_plot, in_order, plant, planting_blocks


class SiteCare(NeuralMIP):
    """A problem of `site_care` together with its instance, for methods that look at one site at a
    time.
    """

    plot: Plot
    edges: (
        np.ndarray
    )  #: Ends of the light categories: low from `edges[0]` to `edges[1]`, and so on.
    budgets: np.ndarray  #: Budgets of light, soil and sterilising, in the order of `usage`.
    doses: bool

    def usage(self, site: int, x: np.ndarray) -> np.ndarray:
        """What treated features x, (points, 7), of one site take from each budget: (points, 3)."""
        light, soil = self.plot.sites[site, [0, 5]]
        changed = 1 - x[:, 5] - x[:, 6] if soil else x[:, 5]
        return np.column_stack([np.abs(x[:, 0] - light), changed, x[:, 6]])


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
    r"""Tree Planting in which six of the seven inputs of each site are free, one of them
    continuous: the rows of `tree_planting` on $p$, $s$, $s'$ with $s_{ik} = \max(0, f_k(\ell_i,
    q_i, w_i, m_i, z_i))$ and

    $$\ell_i = \ell^0_i + a_i - b_i, \quad \sum_i (a_i + b_i) \le \Lambda, \quad
    \sum_c e_{c-1} q_{ic} \le \ell_i \le \sum_c e_c q_{ic}, \quad \sum_c q_{ic} = 1,$$

    $$m_i + z_i \le 1, \quad \sum_{i: m^0_i = 0} m_i + \sum_{i: m^0_i = 1} (1 - m_i - z_i)
    \le \kappa, \quad
    \sum_i z_i \le \beta, \qquad a, b \ge 0, \quad q, m, z \text{ binary}.$$

    Clearing and shading ($a$, $b$) change the light $\ell$ of a site, and its category $q$ (low,
    med, high) follows: the ends $e$ of the categories are those of the data. Soil may be exchanged
    ($m$: the fungi of maples and cherries; 0: those of oaks) or sterilised, not both: the data hold
    no sterilised soil with fungi. The flag $w$ stays as drawn: in the published data it is a
    property of the species, and no network has seen it change. With ``doses=True``, $m$ and $z$ are
    doses in $[0, 1]$: three continuous inputs for each site, but between 0 and 1 no network was
    trained.

    `seed` draws what `tree_planting` draws, then a light for each site, uniform in its category,
    then $\kappa$ (8 to 12). `beta`, `kappa` and `light` set $\beta$, $\kappa$ and $\Lambda$
    (default: a fortieth of the range of light for each site). The start is the untreated plot.

    >>> from ddmip_lib.predictors import mlp
    >>> site_care(grid=2, nets=[mlp(1, 4, 7, seed=k) for k in range(4)])
    NeuralMIP site care (2 x 2, seed=42)
      maximise, 80 variables (36 integer), 64 rows
      predictor 0  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
      predictor 1  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
      predictor 2  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
      predictor 3  Sequential, regression, 4 x 7 (24 free) -> 4 x 1 in [0, inf)
    """
    for name, given in (("beta", beta), ("kappa", kappa), ("light", light)):
        if given is not None and not 0 <= given < np.inf:
            raise ProblemError(
                f"{name}={given} must be a number from 0 on: it is a budget for all sites together."
            )
    data = load_trees() if data is None else data
    ordered = in_order(nets, list(data))
    edges = light_edges(data)
    n = grid * grid
    draw = np.random.RandomState(seed)
    plot = draw_plot(grid, data, draw)
    category = plot.sites[:, 1:4].argmax(axis=1)
    plot.sites[:, 0] = draw.uniform(edges[category], edges[category + 1])
    drawn = (n / 40 * (edges[3] - edges[0]), draw.randint(8, 13), plot.beta)
    chosen = zip((light, kappa, beta), drawn, strict=True)
    budgets = np.array(
        [default if given is None else given for given, default in chosen], dtype=float
    )

    model = Model("site care")
    inputs = plot.sites.astype(object)
    inputs[:, 0] = lit = model.addMatrixVar((n,), lb=edges[0], ub=edges[3], name="light")
    inputs[:, 1:4] = q = model.addMatrixVar((n, 3), vtype="B", name="q")
    m, z = (
        model.addMatrixVar((n,), ub=1.0, vtype="C" if doses else "B", name=name) for name in "mz"
    )
    inputs[:, 5], inputs[:, 6] = m, z
    a, b = (
        model.addMatrixVar((n,), ub=edges[3] - edges[0], name=name) for name in ("clear", "shade")
    )
    s = plant(model, plot)
    model.addMatrixCons(lit - a + b == plot.sites[:, 0], name="lit")
    model.addMatrixCons(q.sum(axis=1) == 1, name="one category")
    model.addMatrixCons(lit - (q * edges[:3]).sum(axis=1) >= 0, name="bright enough")
    model.addMatrixCons(lit - (q * edges[1:]).sum(axis=1) <= 0, name="dark enough")
    model.addMatrixCons(m + z <= 1, name="one soil")
    fungi = plot.sites[:, 5]
    model.addCons((a + b).sum() <= budgets[0], name="light budget")
    model.addCons(
        (m * (1 - 2 * fungi) - z * fungi).sum() <= budgets[1] - fungi.sum(), name="soil budget"
    )
    model.addCons(z.sum() <= budgets[2], name="sterilising budget")

    problem = SiteCare(model, name=f"site care ({grid} x {grid}, seed={seed}{', doses' * doses})")
    problem.plot = plot
    problem.edges = edges
    problem.budgets = budgets
    problem.doses = doses
    add_survivals(problem, ordered, inputs, s)
    problem.set_start(*[plot.sites] * len(ordered))
    if not doses:  # a block is a box: doses with m + z <= 1 are not
        problem.set_blocks(
            planting_blocks(plot, _ways(problem), budgets, ["light", "soil", "sterilising"])
        )
    return problem


def _ways(problem: SiteCare) -> list[Treatment]:
    """A light category and a soil for every site; only the light inside the category is left to
    choose.
    """
    sites = problem.plot.sites
    each = np.arange(len(problem.plot.sites))
    rate = np.zeros((7, 3))
    ways = []
    rate[0, 0] = 1.0
    for category, soil in itertools.product(range(3), ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))):
        lower = sites.copy()
        lower[:, 1:4], lower[:, 5:] = np.eye(3)[category], soil
        upper = lower.copy()
        base = lower.copy()
        lower[:, 0], upper[:, 0] = problem.edges[category], problem.edges[category + 1]
        base[:, 0] = np.clip(sites[:, 0], lower[:, 0], upper[:, 0])
        fixed = np.concatenate([problem.usage(i, base[[i]]) for i in each.tolist()])
        ways.append(Treatment(each, lower, upper, base, fixed, rate))
    return ways


def light_edges(data: Mapping[str, Dataset]) -> np.ndarray:
    """Ends of the categories low, med and high: the quantiles of light at which as many rows lie
    below as the data call low, and low or med. Where the categories do not overlap (the published
    data) they part them exactly.

    >>> edges = light_edges(load_trees())
    >>> edges.shape, bool((np.diff(edges) > 0).all())
    ((4,), True)
    """
    rows = np.concatenate([table.features[:, :4] for table in data.values()])
    return np.quantile(
        rows[:, 0], np.concatenate([[0.0], np.cumsum(rows[:, 1:3].mean(axis=0)), [1.0]])
    )
