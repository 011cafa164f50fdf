"""Water Potability: treat unsafe samples, within shared budgets, until a classifier calls them
drinkable.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from pyscipopt import Model
from torch import nn

from ..data import Dataset, draw_nonpotable, load_water
from ..model.arrays import ArrayMIP
from ..model.blocks import Blocks, Mode
from ..model.problem import NeuralMIP
from ..programs.scip import MILP


def water_potability(
    n: int,
    net: nn.Module,
    seed: int = 42,
    budget: float | np.ndarray = 2.0,
    data: Dataset | None = None,
    repeat: bool = False,
    arrays: bool = False,
) -> NeuralMIP:
    r"""Maximise the number of potable samples among `n` that are not, in standardised units:

    $$\max \sum_i y_i \quad\text{s.t.}\quad x_{ij} = w_{ij} + a_{ij} - b_{ij},\quad
    \sum_i a_{ij} \le \gamma,\quad \sum_i b_{ij}
    \le \gamma,\quad y_i = 1[f(x_i) > 0],\quad 0 \le a, b \le \gamma.$$

    The samples $w$ are drawn from the rows labelled 0 by `seed` (with `repeat`, with replacement);
    `budget` is $\gamma$, shared by all samples, for each feature and direction: one number, or two
    rows of nine, what may be added and what taken away. `net` maps nine standardised features to
    one logit; its `mean` and `std`, where it has them (networks from `train` and `load_npz` do),
    standardise the data. With `arrays` the same problem is an `ArrayMIP`, which large `n` needs:
    SCIP's variables would fill the memory.

    >>> from ddmip_lib.predictors import mlp
    >>> water_potability(n=3, net=mlp(2, 16, 9))
    NeuralMIP water potability (n=3, seed=42)
      maximise, 84 variables (3 integer), 45 rows
      predictor 0  Sequential, classification, 3 x 9 (27 free) -> 3 x 1
    """
    data = load_water() if data is None else data
    if not np.all(np.asarray(budget) > 0) or np.shape(budget) not in (
        (),
        (2, len(data.feature_names)),
    ):
        raise ValueError(
            f"budget={budget} must be positive, one number or two for each feature: added, taken"
            " away."
        )
    budget = np.broadcast_to(np.asarray(budget, dtype=float), (2, len(data.feature_names)))
    rows = draw_nonpotable(data, n, seed, repeat)
    mean = np.asarray(getattr(net, "mean", data.mean), dtype=float)
    std = np.asarray(getattr(net, "std", data.std), dtype=float)
    w = (data.features[rows] - mean) / std
    if arrays:
        problem, x, y = _stated_by_arrays(w, budget, data.feature_names)
    else:
        problem, x, y = _modelled(w, budget, data.feature_names)
    problem.name = f"water potability (n={n}, seed={seed}{', repeated' * repeat})"
    problem.add_predictor(net, x, y, output="classification")
    problem.set_start(w)
    problem.set_blocks(_blocks(w, budget, data.feature_names))
    return problem


def _modelled(
    w: np.ndarray, budget: np.ndarray, features: Sequence[str]
) -> tuple[NeuralMIP, Any, Any]:
    model = Model("water potability")
    up, down = (np.tile(most, (len(w), 1)) for most in budget)
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


def _stated_by_arrays(
    w: np.ndarray, budget: np.ndarray, features: Sequence[str]
) -> tuple[NeuralMIP, Any, Any]:
    """The same variables and rows, in the order y, x, a, b."""
    (n, p), size = w.shape, w.size
    x, a, b = n + np.arange(3 * size).reshape(3, n, p)
    each = np.arange(size)
    budgets = size + 2 * np.tile(np.arange(p), n)
    row = np.concatenate([each, each, each, budgets, budgets + 1])
    column = np.concatenate([part.ravel() for part in (x, a, b, a, b)])
    entry = np.repeat([1.0, -1.0, 1.0, 1.0, 1.0], size)
    none = np.zeros(size)
    one = np.ones(n)
    flat = w.ravel()
    shared = budget.T.ravel()
    up, down = (np.tile(most, n) for most in budget)
    cells = [f"{i}_{j}" for i in range(n) for j in range(p)]
    milp = MILP(
        sign=-1.0,
        cost=np.concatenate([one, none, none, none]),
        offset=0.0,
        lower=np.concatenate([0 * one, flat - down, none, none]),
        upper=np.concatenate([one, flat + up, up, down]),
        integer=np.arange(n + 3 * size) < n,
        position={},
        names=[f"y_{i}_0" for i in range(n)]
        + [f"{kind}_{cell}" for kind in "xab" for cell in cells],
        rows=sp.csr_matrix((entry, (row, column)), shape=(size + 2 * p, n + 3 * size)),
        row_lower=np.concatenate([flat, -np.inf * shared]),
        row_upper=np.concatenate([flat, shared]),
        row_names=[f"treated_{cell}" for cell in cells]
        + [f"budget {way} {name}" for name in features for way in ("up", "down")],
        others=(),
    )
    return ArrayMIP(milp), x, np.arange(n)[:, None]


def _blocks(w: np.ndarray, budget: np.ndarray, features: Sequence[str]) -> Blocks:
    """Each sample is a block: one mode, which uses the budgets by what is added and taken away."""
    (n, p), each = w.shape, np.arange(len(w))
    up = np.hstack([np.eye(p), np.zeros((p, p))])
    down = np.hstack([np.zeros((p, p)), np.eye(p)])
    mode = Mode(
        each, each, w - budget[1], w + budget[0], w, up, down, np.zeros((n, 2 * p)), np.zeros(2 * p)
    )
    names = [f"{way} {feature}" for way in ("up", "down") for feature in features]
    return Blocks([mode], budget.ravel(), resources=names)
