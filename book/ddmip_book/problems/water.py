"""Water Potability: treat unsafe samples, within shared budgets, until they count as drinkable."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy import ndarray
from pyscipopt import Model
from torch import nn

from ddmip_book.data import Dataset, draw_nonpotable, load_water
from ddmip_lib import NeuralMIP
from ddmip_lib.model.arrays import ArrayMIP
from ddmip_lib.pricing import Blocks, Mode
from ddmip_lib.programs.scip import MILP

UP_AND_DOWN = np.eye(2)[:, :, None]
"""For each feature the first of two constraints is on what is added, the second on the rest."""


def water_potability(
    n: int,
    net: nn.Module,
    seed: int = 42,
    budget: float | ndarray = 2.0,
    data: Dataset | None = None,
    repeat: bool = False,
    arrays: bool = False,
) -> NeuralMIP:
    r"""Build Water Potability: maximise the number of potable samples among `n` that are not.

    In standardised units:

    $$\max \sum_i y_i \quad\text{s.t.}\quad x_{ij} = w_{ij} + a_{ij} - b_{ij},\quad
    \sum_i a_{ij} \le \gamma,\quad \sum_i b_{ij}
    \le \gamma,\quad y_i = 1[f(x_i) > 0],\quad 0 \le a, b \le \gamma.$$

    Parameters
    ----------
    n : int
        Number of samples.
    net : nn.Module
        Maps nine standardised features to one logit. Its ``mean`` and ``std``, where it has them
        (networks of `train` and `load_npz` do), standardise the data.
    seed : int
        Draws the samples $w$ from those labelled 0.
    budget : float or np.ndarray
        $\gamma$, shared by all samples, for each feature and direction: one number, or an array
        (2, 9) of what may be added and taken away.
    data : Dataset, optional
        Default: `load_water`.
    repeat : bool
        Whether to draw with replacement.
    arrays : bool
        Whether to state the problem as an `ArrayMIP`, which large `n` needs: SCIP's variables would
        fill the memory.

    Returns
    -------
    NeuralMIP
        The problem, which starts at the untreated samples.

    Raises
    ------
    ValueError
        If the budget is not positive or of another shape.

    Examples
    --------
    >>> from ddmip_book.networks import mlp
    >>> water_potability(n=3, net=mlp(2, 16, 9))
    NeuralMIP water potability (n=3, seed=42)
      maximise, 84 variables (3 integer), 45 constraints
      predictor 0  Sequential, classification, 3 x 9 (27 free) -> 3 x 1
    """
    data = load_water() if data is None else data
    budget = _budgets(budget, len(data.feature_names))
    mean = np.asarray(getattr(net, "mean", data.mean), dtype=float)
    std = np.asarray(getattr(net, "std", data.std), dtype=float)
    w = (data.features[draw_nonpotable(data, n, seed, repeat)] - mean) / std
    formulate = _formulate_by_arrays if arrays else _formulate_by_scip
    problem, x, y = formulate(w, budget, data.feature_names)
    repeated = ", repeated" if repeat else ""
    problem.name = f"water potability (n={n}, seed={seed}{repeated})"
    problem.add_predictor(net, x, y, output="classification")
    problem.set_start(w)
    problem.set_blocks(_blocks(w, budget, data.feature_names))
    return problem


def _budgets(budget: float | ndarray, n_features: int) -> ndarray:
    """Budgets (2, features): what may be added, what may be taken away."""
    given = np.asarray(budget)
    if not np.all(given > 0) or given.shape not in ((), (2, n_features)):
        raise ValueError(
            f"budget={budget} must be positive, one number or two for each feature: added, taken"
            " away."
        )
    return np.broadcast_to(given.astype(float), (2, n_features))


def _formulate_by_scip(
    w: ndarray, budget: ndarray, features: Sequence[str]
) -> tuple[NeuralMIP, Any, Any]:
    model = Model("water potability")
    up = np.tile(budget[0], (len(w), 1))
    down = np.tile(budget[1], (len(w), 1))
    x = model.addMatrixVar(w.shape, lb=w - down, ub=w + up, name="x")
    a = model.addMatrixVar(w.shape, ub=up, name="a")
    b = model.addMatrixVar(w.shape, ub=down, name="b")
    y = model.addMatrixVar((len(w), 1), vtype="B", name="y")
    model.addMatrixCons(x - a + b == w, name="treated")
    for j, feature in enumerate(features):
        model.addCons(a[:, j].sum() <= budget[0, j], name=f"budget up {feature}")
        model.addCons(b[:, j].sum() <= budget[1, j], name=f"budget down {feature}")
    model.setObjective(y.sum(), "maximize")
    return NeuralMIP(model), x, y


def _formulate_by_arrays(
    w: ndarray, budget: ndarray, features: Sequence[str]
) -> tuple[NeuralMIP, Any, Any]:
    """The same variables and constraints, in the order y, x, a, b."""
    n = len(w)
    flat = w.ravel()
    up = np.tile(budget[0], n)
    down = np.tile(budget[1], n)
    n_variables = n + 3 * w.size
    names, constraint_names = _names(w.shape, features)
    milp = MILP(
        sign=-1.0,
        cost=np.pad(np.ones(n), (0, 3 * w.size)),
        offset=0.0,
        lower=np.concatenate([np.zeros(n), flat - down, np.zeros(2 * w.size)]),
        upper=np.concatenate([np.ones(n), flat + up, up, down]),
        integer=np.arange(n_variables) < n,
        position={},
        names=names,
        rows=_constraint_matrix(w.shape),
        row_lower=np.concatenate([flat, np.full(budget.size, -np.inf)]),
        row_upper=np.concatenate([flat, budget.T.ravel()]),
        row_names=constraint_names,
        others=(),
    )
    x = n + np.arange(w.size).reshape(w.shape)
    return ArrayMIP(milp), x, np.arange(n)[:, None]


def _names(shape: tuple[int, ...], features: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of all variables, and of all constraints."""
    cells = [f"{i}_{j}" for i, j in np.ndindex(shape)]
    variables = [f"y_{i}_0" for i in range(shape[0])]
    variables += [f"{kind}_{cell}" for kind in "xab" for cell in cells]
    constraints = [f"treated_{cell}" for cell in cells]
    constraints += [f"budget {way} {feature}" for feature in features for way in ("up", "down")]
    return variables, constraints


def _constraint_matrix(shape: tuple[int, ...]) -> sp.csr_matrix:
    """Coefficients of x - a + b, then for each feature of the sums of a and of b."""
    n, p = shape
    one = sp.identity(n * p)
    sums = [
        sp.kron(np.ones((1, n)), sp.coo_matrix(np.kron(np.eye(p), up)), format="coo")
        for up in UP_AND_DOWN
    ]
    treated = [sp.coo_matrix((n * p, n)), one, -one, one]
    return sp.csr_matrix(sp.bmat([treated, [None, None, *sums]]))


def _blocks(w: ndarray, budget: ndarray, features: Sequence[str]) -> Blocks:
    """Each sample is a block: one mode, which uses the budgets by what is added and taken away."""
    n, p = w.shape
    sample = np.arange(n)
    mode = Mode(
        block=sample,
        row=sample,
        lower=w - budget[1],
        upper=w + budget[0],
        base=w,
        up=np.eye(p, 2 * p),
        down=np.eye(p, 2 * p, k=p),
        fixed=np.zeros((n, 2 * p)),
        per_value=np.zeros(2 * p),
    )
    resources = [f"{direction} {feature}" for direction in ("up", "down") for feature in features]
    return Blocks([mode], budget.ravel(), resources=resources)
