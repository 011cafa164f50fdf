"""Tree Planting: choose a species for each site, and the soils to sterilise."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from pyscipopt import MatrixVariable, Model
from torch import nn

from ddmip_book.data import Dataset, light_range, load_trees
from ddmip_lib import NeuralMIP
from ddmip_lib.errors import ProblemError
from ddmip_lib.pricing import Blocks, Mode

# Training of the networks that all problems of trees need.
NETS_REMEDY = (
    "train one on each of load_trees() with networks.train, or read stored ones with load_npz."
)
# Planting budget of a site, relative to the cost of the median species.
PLANTING_BUDGET_FACTOR = 1.2
# Features of a site: light; low, med, high; fungi; fungi of its soil; sterilised.
N_FEATURES = 7


def tree_planting(
    grid: int = 6,
    nets: Mapping[str, nn.Module] | Sequence[nn.Module] | None = None,
    seed: int = 42,
    beta: int | None = None,
    data: Mapping[str, Dataset] | None = None,
) -> NeuralMIP:
    r"""Build Tree Planting: maximise the expected number of surviving trees, one tree at each site.

    $$\max \sum_{ik} s'_{ik} \quad\text{s.t.}\quad \sum_i s'_{ik} \ge \gamma_k,\quad s'_{ik}
    \le p_{ik},\quad
    s'_{ik} \le s_{ik},\quad \sum_k p_{ik} = 1,\quad \sum_{ik} c_k p_{ik} \le B,\quad
    \sum_i z_i \le \beta,\quad s_{ik} = \max(0, f_k(w_i, z_i)),$$

    with $p_{ik}$ (plant species $k$ at site $i$) and $z_i$ (sterilise its soil) binary and $0 \le
    s' \le 1$: a planted tree counts $\min(\max(f_k, 0), 1)$.

    Parameters
    ----------
    grid : int
        Number of sites along each side.
    nets : mapping or sequence of nn.Module
        One network for each species in the order of `load_trees`, or by its name; each maps seven
        raw features, the last one $z_i$, to one survival.
    seed : int
        Draws the sites $w$, costs $c$, targets $\gamma$ and the sterilising budget $\beta$.
    beta : int, optional
        Sterilising budget instead of the drawn one (8 to 12).
    data : mapping of Dataset, optional
        Default: `load_trees`.

    Returns
    -------
    NeuralMIP
        The problem, which starts at the untreated sites.

    Raises
    ------
    ProblemError
        If the networks are missing or do not match the species, or a number is out of range.

    Examples
    --------
    >>> from ddmip_book.networks import mlp
    >>> tree_planting(grid=2, nets=[mlp(1, 4, 7, seed=k) for k in range(4)])
    NeuralMIP tree planting (2 x 2, seed=42)
      maximise, 52 variables (20 integer), 42 constraints
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
    budget = plot.beta if beta is None else beta
    model = Model("tree planting")
    z = model.addMatrixVar((len(plot.sites),), vtype="B", name="z")
    s = plant(model, plot)
    model.addCons(z.sum() <= budget, name="sterilising budget")
    problem = NeuralMIP(model, name=f"tree planting ({grid} x {grid}, seed={seed})")
    inputs = plot.sites.astype(object)
    inputs[:, 6] = z
    add_survivals(problem, ordered, inputs, s)
    problem.set_start(*[plot.sites] * len(ordered))
    problem.set_blocks(planting_blocks(plot, _treatments(plot), [budget], ["sterilising"]))
    return problem


class Plot(NamedTuple):
    r"""A drawn instance.

    Attributes
    ----------
    beta : int
        Sterilising budget $\beta$.
    cost, gamma : np.ndarray
        Cost $c$ and target $\gamma$ of each species.
    sites : np.ndarray
        Features of the untreated sites, in the order of `load_trees`.
    """

    beta: int
    cost: ndarray
    gamma: ndarray
    sites: ndarray

    @property
    def budget(self) -> float:
        """The planting budget B: a fifth more than the median species everywhere would cost."""
        return PLANTING_BUDGET_FACTOR * len(self.sites) * float(np.median(self.cost))


class Treatment(NamedTuple):
    """One treatment of all sites.

    Attributes
    ----------
    lower, upper, base : np.ndarray
        Box and base point of each site's features.
    fixed : np.ndarray
        What the base point uses of the treatments' budgets, (sites, budgets).
    rate : np.ndarray
        What a unit of change of each feature uses of them, (features, budgets).
    """

    lower: ndarray
    upper: ndarray
    base: ndarray
    fixed: ndarray
    rate: ndarray


def _treatments(plot: Plot) -> list[Treatment]:
    """Every site untreated, or sterilised."""
    sterilised = plot.sites.copy()
    sterilised[:, 6] = 1.0
    rate = np.zeros((N_FEATURES, 1))
    treatments = []
    for z, sites in enumerate((plot.sites, sterilised)):
        fixed = np.full((len(sites), 1), z)
        treatments.append(Treatment(sites, sites, sites, fixed, rate))
    return treatments


def planting_blocks(
    plot: Plot,
    treatments: Sequence[Treatment],
    budgets: Sequence[float] | ndarray,
    names: Sequence[str],
) -> Blocks:
    """Return the problem's blocks: one for each site, with a mode for each species and treatment.

    Targets are resources that survivals provide.

    Parameters
    ----------
    plot : Plot
        The instance.
    treatments : sequence of Treatment
        What may be done to each site.
    budgets : sequence of float
        The treatments' budgets.
    names : sequence of str
        Their names.

    Returns
    -------
    Blocks
        With the resources planting, treatments and targets.
    """
    targets = [f"target {k}" for k in range(len(plot.cost))]
    modes = []
    for species, treatment in itertools.product(range(len(plot.cost)), treatments):
        modes.append(_mode(plot, species, treatment))
    capacities = np.concatenate([[plot.budget], budgets, -plot.gamma])
    return Blocks(modes, capacities, optional=False, resources=["planting", *names, *targets])


def _mode(plot: Plot, species: int, treatment: Treatment) -> Mode:
    n_targets = len(plot.cost)
    site = np.arange(len(plot.sites))
    rate = np.pad(treatment.rate, ((0, 0), (1, n_targets)))
    fixed = np.pad(treatment.fixed.astype(float), ((0, 0), (1, n_targets)))
    fixed[:, 0] = plot.cost[species]
    per_value = np.zeros(fixed.shape[1])
    per_value[species - n_targets] = -1.0
    return Mode(
        block=site,
        row=site,
        lower=treatment.lower,
        upper=treatment.upper,
        base=treatment.base,
        up=rate,
        down=rate,
        fixed=fixed,
        per_value=per_value,
        predictor=species,
        cap=1.0,
    )


def draw_plot(grid: int, data: Mapping[str, Dataset], draw: np.random.RandomState) -> Plot:
    """Draw an instance of Tree Planting.

    Parameters
    ----------
    grid : int
        Number of sites along each side.
    data : mapping of Dataset
        One for each species.
    draw : np.random.RandomState
        Source of the random numbers.

    Returns
    -------
    Plot
        The instance.

    Raises
    ------
    ProblemError
        If `grid` is not positive.

    Examples
    --------
    >>> plot = draw_plot(2, load_trees(), np.random.RandomState(42))
    >>> plot.beta, plot.sites[0, 1:].tolist()
    (11, [0.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    """
    if grid < 1:
        raise ProblemError(
            f"grid={grid} must be at least 1: it is the number of sites along each side."
        )
    n = grid * grid
    beta = int(draw.randint(8, 13))
    cost = draw.uniform(25, 45, len(data))
    gamma = draw.uniform(n / 80, n / 60, len(data))
    light_low, light_high = light_range(data)
    sites = np.zeros((n, N_FEATURES))
    for i, site in enumerate(sites):
        site[0] = light_high - (i // grid) / grid * (light_high - light_low)
        site[1 + draw.randint(3)] = 1.0
        site[4] = draw.randint(2) == 0
        site[5] = draw.randint(2) == 0
    return Plot(beta, cost, gamma, sites)


def plant(model: Model, plot: Plot) -> MatrixVariable:
    """Add p, s and s' with all their constraints and the objective.

    Parameters
    ----------
    model : Model
        Receives them.
    plot : Plot
        The instance.

    Returns
    -------
    MatrixVariable
        The survivals s, (sites, species).
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
    problem: NeuralMIP, nets: Sequence[nn.Module], inputs: ndarray, s: MatrixVariable
) -> None:
    """Add $s_{ik} = max(0, f_k(x_i))$ for every species k.

    Parameters
    ----------
    problem : NeuralMIP
        Receives the networks.
    nets : sequence of nn.Module
        One for each species.
    inputs : np.ndarray
        Variables and numbers, (sites, features), that all networks share.
    s : MatrixVariable
        The survivals, (sites, species).
    """
    for k, net in enumerate(nets):
        # a negative survival counts as none: without the ReLU, constraints would forbid planting
        clipped = nn.Sequential(net, nn.ReLU())
        # eval() would also change the caller's network
        clipped.training = False
        clipped[1].training = False
        problem.add_predictor(clipped, inputs, s[:, [k]])


def in_order(
    nets: Mapping[str, nn.Module] | Sequence[nn.Module] | None, species: list[str]
) -> list[nn.Module]:
    """Return the networks in the order of the species.

    Parameters
    ----------
    nets : mapping or sequence of nn.Module
        One for each species, by its name or in its place.
    species : list of str
        The names.

    Returns
    -------
    list of nn.Module
        The networks.

    Raises
    ------
    ProblemError
        If networks are missing or do not match the species.
    TypeError
        If one of them is no module.
    """
    if isinstance(nets, Mapping) and set(nets) == set(species):
        nets = [nets[name] for name in species]
    if not isinstance(nets, Sequence) or len(nets) != len(species):
        raise ProblemError(
            f"nets must hold {len(species)} networks, for {', '.join(species)}: {NETS_REMEDY}"
        )
    for name, net in zip(species, nets, strict=True):
        if not isinstance(net, nn.Module):
            raise TypeError(
                f"the network of {name} must be a torch.nn.Module, not {type(net).__name__}."
            )
    return list(nets)
