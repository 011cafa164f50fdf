"""Copies of one block that share a budget: the smallest problem for price coordination."""

import torch
from pyscipopt import Model
from torch import nn

from ..bounds.layer import linear_layer
from ..model.problem import NeuralMIP


def shared_budget(n: int = 3) -> NeuralMIP:
    r"""Build n equal blocks with one input each and one budget in common.

    $$\max \sum_i y_i \quad\text{s.t.}\quad y_i = f(x_i),\quad \sum_i x_i \le \tfrac n3,\quad
    x \in [0, 1]^n,$$

    with $f(x) = 2 (x)_+ - 2 (x - \tfrac12)_+$: the first half of an input returns twice its cost,
    the other half nothing. The best objective is $2n/3$.

    Parameters
    ----------
    n : int, default: 3
        Number of blocks.

    Returns
    -------
    NeuralMIP
        The problem. Its start is x = 0.

    Examples
    --------
    >>> shared_budget()
    NeuralMIP shared-budget
      maximise, 6 variables (0 integer), 1 constraint
      predictor 0  Sequential, regression, 3 x 1 (3 free) -> 3 x 1
    """
    hidden = linear_layer(torch.ones(2, 1), torch.tensor([0.0, -0.5]))
    last = linear_layer(torch.tensor([[2.0, -2.0]]), torch.zeros(1))
    net = nn.Sequential(hidden, nn.ReLU(), last).double().eval()
    model = Model("shared-budget")
    x = model.addMatrixVar((n, 1), ub=1.0, name="x")
    y = model.addMatrixVar((n, 1), lb=None, name="y")
    model.addCons(x.sum() <= n / 3, name="budget")
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model, name="shared-budget")
    problem.add_predictor(net, x, y)
    problem.set_start([[0.0]] * n)
    return problem
