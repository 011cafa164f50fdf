"""Water Potability: treat unsafe samples, within shared budgets, until a classifier calls them drinkable."""

from __future__ import annotations

import numpy as np
from pyscipopt import Model
from torch import nn

from ..data import Dataset, draw_nonpotable, load_water
from ..problem import NeuralMIP


def water_potability(
    n: int, net: nn.Module, seed: int = 42, budget: float = 2.0, data: Dataset | None = None
) -> NeuralMIP:
    r"""Maximise the number of potable samples among `n` that are not, in standardised units:

    $$\max \sum_i y_i \quad\text{s.t.}\quad x_{ij} = w_{ij} + a_{ij} - b_{ij},\quad
    \sum_i a_{ij} \le \gamma,\quad \sum_i b_{ij} \le \gamma,\quad y_i = 1[f(x_i) > 0],\quad 0 \le a, b \le \gamma.$$

    The samples $w$ are drawn from the rows labelled 0 by `seed`; `budget` is $\gamma$, shared by all samples, for
    each feature and direction. `net` maps nine standardised features to one logit; where it carries `mean` and
    `std` (every network from `train` and `load_npz` does) these standardise the data.

    >>> from ddmip_lib.predictors import mlp
    >>> water_potability(n=3, net=mlp(2, 16, 9))
    NeuralMIP water potability (n=3, seed=42)
      maximise, 84 variables (3 integer), 45 rows
      predictor 0  Sequential, classification, 3 x 9 (27 free) -> 3 x 1
    """
    if budget <= 0:
        raise ValueError(f"budget={budget} must be positive: it is what may be added to each feature.")
    data = load_water() if data is None else data
    rows = draw_nonpotable(data, n, seed)
    mean = np.asarray(getattr(net, "mean", data.mean), dtype=float)
    std = np.asarray(getattr(net, "std", data.std), dtype=float)
    w = (data.features[rows] - mean) / std

    model = Model("water potability")
    x = model.addMatrixVar(w.shape, lb=w - budget, ub=w + budget, name="x")
    a = model.addMatrixVar(w.shape, ub=budget, name="a")
    b = model.addMatrixVar(w.shape, ub=budget, name="b")
    y = model.addMatrixVar((n, 1), vtype="B", name="y")
    model.addMatrixCons(x - a + b == w, name="treated")
    for j, feature in enumerate(data.feature_names):
        model.addCons(a[:, j].sum() <= budget, name=f"budget up {feature}")
        model.addCons(b[:, j].sum() <= budget, name=f"budget down {feature}")
    model.setObjective(y.sum(), "maximize")

    problem = NeuralMIP(model, name=f"water potability (n={n}, seed={seed})")
    problem.add_predictor(net, x, y, output="classification")
    problem.set_start(w)
    return problem
