"""Tree Planting: which species to plant where, and which soils to sterilise, for the most surviving
trees.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pyscipopt import MatrixVariable, Model
from torch import nn

from ..data import Dataset, light_range, load_trees
from ..errors import ProblemError
from ..model.blocks import Blocks, Mode
from ..model.problem import NeuralMIP


def tree_planting(
    grid: int = 6,
    nets: Mapping[str, nn.Module] | Sequence[nn.Module] | None = None,
    seed: int = 42,
    beta: int | None = None,
    data: Mapping[str, Dataset] | None = None,
) -> NeuralMIP:
    r"""Maximise the expected number of surviving trees on `grid` x `grid` sites, one tree at each:

    $$\max \sum_{ik} s'_{ik} \quad\text{s.t.}\quad \sum_i s'_{ik} \ge \gamma_k,\quad s'_{ik}
    \le p_{ik},\quad
    s'_{ik} \le s_{ik},\quad \sum_k p_{ik} = 1,\quad \sum_{ik} c_k p_{ik} \le B,\quad
    \sum_i z_i \le \beta,\quad s_{ik} = \max(0, f_k(w_i, z_i)),$$

    with $p_{ik}$ (plant species $k$ at site $i$) and $z_i$ (sterilise its soil) binary and $0 \le
    s' \le 1$: a planted tree counts $\min(\max(f_k, 0), 1)$. `nets` holds one network for each
    species in the order of `load_trees`, or by its name: seven raw features, the last one $z_i$, to
    one survival. `seed` draws the sites $w$, costs $c$, targets $\gamma$ and the sterilising budget
    $\beta$ (8 to 12, unless `beta` sets it).

    >>> from ddmip_lib.predictors import mlp
    >>> tree_planting(grid=2, nets=[mlp(1, 4, 7, seed=k) for k in range(4)])
    NeuralMIP tree planting (2 x 2, seed=42)
      maximise, 52 variables (20 integer), 42 rows
      predictor 0  Sequential, regression, 4 x 7 (4 free) -> 4 x 1 in [0, inf)
      predictor 1  Sequential, regression, 4 x 7 (4 free) -> 4 x 1 in [0, inf)
      predictor 2  Sequential, regression, 4 x 7 (4 free) -> 4 x 1 in [0, inf)
      predictor 3  Sequential, regression, 4 x 7 (4 free) -> 4 x 1 in [0, inf)
    """
    if beta is not None and beta < 0:
        raise ProblemError(
            f"beta={beta} must not be negative: it is how many sites may be sterilised."
        )
    data = load_trees() if data is None else data
    ordered = in_order(nets, list(data))
    # RandomState, whose stream numpy guarantees for ever; the order of the draws defines the
    # instance
    plot = draw_plot(grid, data, np.random.RandomState(seed))

    model = Model("tree planting")
    z = model.addMatrixVar((grid * grid,), vtype="B", name="z")
    s = plant(model, plot)
    most = plot.beta if beta is None else beta
    model.addCons(z.sum() <= most, name="sterilising budget")

    problem = NeuralMIP(model, name=f"tree planting ({grid} x {grid}, seed={seed})")
    inputs = plot.sites.astype(object)
    inputs[:, 6] = z
    add_survivals(problem, ordered, inputs, s)
    problem.set_start(*[plot.sites] * len(ordered))
    treated = plot.sites.copy()
    treated[:, 6] = 1.0
    each = np.arange(len(treated))
    ways = [
        Treatment(each, x, x, x, np.full((len(x), 1), z), np.zeros((7, 1)))
        for z, x in enumerate((plot.sites, treated))
    ]
    problem.set_blocks(planting_blocks(plot, ways, [most], ["sterilising"]))
    return problem


class Plot(NamedTuple):
    r"""A drawn plot: $\beta$, $c$, $\gamma$, and the untreated features of each site in the order
    of `load_trees`.
    """

    beta: int
    cost: np.ndarray
    gamma: np.ndarray
    sites: np.ndarray

    @property
    def budget(self) -> float:
        """The planting budget B: a fifth more than the median species everywhere would cost."""
        return 1.2 * len(self.sites) * float(np.median(self.cost))


class Treatment(NamedTuple):
    """One treatment of some sites: their number, box and base point, and what it takes of the
    treatments' budgets.
    """

    site: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    base: np.ndarray
    fixed: np.ndarray
    rate: np.ndarray


def planting_blocks(
    plot: Plot,
    ways: Sequence[Treatment],
    budgets: Sequence[float] | np.ndarray,
    names: Sequence[str],
) -> Blocks:
    """Each site is a block, each species on each treatment a mode; targets are resources that
    survivals give.
    """
    kinds = len(plot.cost)
    modes = []
    for k, way in itertools.product(range(kinds), ways):
        b = len(way.site)
        per_value = np.zeros(1 + len(names) + kinds)
        per_value[1 + len(names) + k] = -1.0
        fixed = np.hstack([np.full((b, 1), plot.cost[k]), way.fixed, np.zeros((b, kinds))])
        rate = np.hstack([np.zeros((7, 1)), way.rate, np.zeros((7, kinds))])
        box = way.lower, way.upper, way.base
        modes.append(
            Mode(way.site, way.site, *box, rate, rate, fixed, per_value, predictor=k, cap=1.0)
        )
    capacities = np.concatenate([[plot.budget], budgets, -plot.gamma])
    targets = [f"target {k}" for k in range(kinds)]
    return Blocks(modes, capacities, optional=False, resources=["planting", *names, *targets])


def draw_plot(grid: int, data: Mapping[str, Dataset], draw: np.random.RandomState) -> Plot:
    """The plot of Tree Planting; `draw` is left behind its last number.

    >>> plot = draw_plot(2, load_trees(), np.random.RandomState(42))
    >>> plot.beta, plot.sites[0, 1:].tolist()
    (11, [0.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    """
    if grid < 1:
        raise ProblemError(
            f"grid={grid} must be at least 1: it is the number of sites along each side."
        )
    n = grid * grid
    kinds = len(data)
    beta = int(draw.randint(8, 13))
    cost = draw.uniform(25, 45, kinds)
    gamma = draw.uniform(n / 80, n / 60, kinds)
    light_low, light_high = light_range(data)
    sites = np.zeros((n, 7))  # light, low, med, high, myco, soil myco, sterilised
    for i, site in enumerate(sites):
        site[0] = light_high - (i // grid) / grid * (light_high - light_low)
        site[1 + draw.randint(3)] = 1.0
        site[4], site[5] = draw.randint(2) == 0, draw.randint(2) == 0
    return Plot(beta, cost, gamma, sites)


def plant(model: Model, plot: Plot) -> MatrixVariable:
    """Add p, s and s' with all rows on them and the objective; the survivals s, (sites, species),
    are returned.
    """
    shape = len(plot.sites), len(plot.cost)
    p = model.addMatrixVar(shape, vtype="B", name="p")
    s = model.addMatrixVar(shape, name="s")
    counted = model.addMatrixVar(shape, ub=1.0, name="s'")
    model.addMatrixCons(counted.sum(axis=0) >= plot.gamma, name="target")
    model.addMatrixCons(counted <= p, name="planted")
    model.addMatrixCons(counted - s <= 0, name="survives")  # holds without p too: s >= 0
    model.addMatrixCons(p.sum(axis=1) == 1, name="one tree")
    model.addCons((p * plot.cost).sum() <= plot.budget, name="planting budget")
    model.setObjective(counted.sum(), "maximize")
    return s


def add_survivals(
    problem: NeuralMIP, nets: Sequence[nn.Module], inputs: np.ndarray, s: MatrixVariable
) -> None:
    """Add $s_{ik} = max(0, f_k(x_i))$ for every species k; all networks share the inputs."""
    for k, net in enumerate(nets):
        # below zero a survival counts as none: without the ReLU, the rows would forbid planting
        # there
        clipped = nn.Sequential(net, nn.ReLU())
        clipped.training = clipped[1].training = (
            False  # eval() would also change the caller's network
        )
        problem.add_predictor(clipped, inputs, s[:, [k]])


def in_order(
    nets: Mapping[str, nn.Module] | Sequence[nn.Module] | None, species: list[str]
) -> list[nn.Module]:
    """The networks in the order of `species`, or an error that says how to get them."""
    remedy = (
        "train one on each of load_trees() with predictors.train, or read stored ones with"
        " load_npz."
    )
    if nets is None:
        raise ProblemError(
            f"nets is missing, a survival network for each of {', '.join(species)}: {remedy}"
        )
    if isinstance(nets, Mapping):
        if set(nets) != set(species):
            raise ProblemError(
                f"nets names {', '.join(nets)}, the species are {', '.join(species)}: {remedy}"
            )
        nets = [nets[name] for name in species]
    if isinstance(nets, nn.Module) or len(nets) != len(species):
        raise ProblemError(
            f"nets must hold {len(species)} networks, for {', '.join(species)}: {remedy}"
        )
    for name, net in zip(species, nets, strict=True):
        if not isinstance(net, nn.Module):
            raise TypeError(
                f"the network of {name} must be a torch.nn.Module, not {type(net).__name__}."
            )
    return list(nets)
