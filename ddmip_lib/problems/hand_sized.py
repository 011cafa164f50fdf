"""The running example: a neural MIP with two binaries and three neurons."""

import torch
from pyscipopt import Model
from torch import nn

from ..bounds.layer import linear_layer
from ..model.problem import NeuralMIP

# Objective coefficients of the two inputs.
INPUT_COSTS = (1.5, 2.0)
# Weights of the network, layer by layer.
HIDDEN_WEIGHTS = ((-2.0, 1.0), (2.0, -2.0), (1.0, 1.0))
HIDDEN_BIASES = (-0.5, 1.5, -0.5)
OUTPUT_WEIGHTS = (3.0, 1.0, -3.0)


def hand_sized_net() -> nn.Sequential:
    r"""Return the network of the running example.

    It is $f(x) = 3(-2x_1 + x_2 - \tfrac12)_+ + (2x_1 - 2x_2 + \tfrac32)_+
    - 3(x_1 + x_2 - \tfrac12)_+$.

    Returns
    -------
    nn.Sequential
        In float64 and evaluation mode, without gradients of weights.

    Examples
    --------
    >>> hand_sized_net()(torch.tensor([[1.0, 1.0]], dtype=torch.float64)).item()
    -3.0
    """
    hidden = linear_layer(torch.tensor(HIDDEN_WEIGHTS), torch.tensor(HIDDEN_BIASES))
    last = linear_layer(torch.tensor([OUTPUT_WEIGHTS]), torch.zeros(1))
    return nn.Sequential(hidden, nn.ReLU(), last).double().eval()


def hand_sized() -> NeuralMIP:
    r"""Build the running example: two purchases that are profitable only together.

    $$\min \tfrac32 x_1 + 2 x_2 + y \quad\text{s.t.}\quad y = f(x),\quad x \in \{0, 1\}^2,$$

    with $f$ of `hand_sized_net`. The objective is 3/2 at (0, 0), 7/2 at (1, 0), 2 at (0, 1) and 1/2
    at (1, 1). The best fractional point (1/4, 1) rounds to one that is worse than (0, 0), which is
    the start.

    Returns
    -------
    NeuralMIP
        The problem.

    Examples
    --------
    >>> hand_sized()
    NeuralMIP hand-sized
      minimise, 3 variables (2 integer), 0 constraints
      predictor 0  Sequential, regression, 1 x 2 (2 free) -> 1 x 1
    """
    model = Model("hand-sized")
    x = model.addMatrixVar((1, 2), vtype="B", name="x")
    y = model.addMatrixVar((1, 1), lb=None, name="y")
    model.setObjective(INPUT_COSTS[0] * x[0, 0] + INPUT_COSTS[1] * x[0, 1] + y[0, 0], "minimize")
    problem = NeuralMIP(model, name="hand-sized")
    problem.add_predictor(hand_sized_net(), x, y)
    problem.set_start([[0.0, 0.0]])
    return problem
