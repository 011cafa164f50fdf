r"""Deep networks that do not react to their inputs: how to see it and avoid it; and x-steps exact
to the digit.
"""

import copy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ddmip_lib import DualDecomposition, NeuralMIP
from ddmip_lib.decomposition import ADMMState, Split
from ddmip_lib.decomposition.mip_block import MIPBlock
from ddmip_lib.decomposition.scip_block import BlockResult


class Response(NamedTuple):
    """How a network with one output reacts to its inputs, over given points."""

    spread: float
    """Largest minus smallest output."""
    slope: float
    """Largest norm of the gradient with respect to the inputs."""


def response(net: nn.Module, x: Tensor) -> Response:
    """Spread of the outputs over the rows of x, and the steepest slope there.

    >>> response(
    ...     nn.Linear(2, 1).double().requires_grad_(False), torch.zeros(3, 2, dtype=torch.float64)
    ... ).spread
    0.0
    """
    u = x.detach().clone().requires_grad_(True)
    y = net(u)
    (slope,) = torch.autograd.grad(y.sum(), u)
    return Response(float((y.max() - y.min()).detach()), float(slope.norm(dim=1).max()))


def he_start(net: nn.Module, seed: int) -> nn.Module:
    r"""A copy with weights drawn from $\mathcal N(0, 2/\text{fan-in})$ and no biases, which keeps
    slopes at any depth.

    >>> he_start(nn.Linear(9, 1), seed=0).bias.abs().sum().item()
    0.0
    """
    own = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in own.modules():
            if isinstance(layer, nn.Linear):
                weight = torch.randn(layer.weight.shape, generator=generator)
                layer.weight.copy_(weight * (2 / layer.in_features) ** 0.5)
                layer.bias.zero_()
    return own


class ToTheDigit:
    """A MIP block whose coupled values equal the NN block's copies to the last digit where they are
    `near` anyway.
    """

    def __init__(self, block: MIPBlock, split: Split, near: float = 1e-6) -> None:
        self.block = block
        self.split = split
        self.near = near

    def solve(
        self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """One x-step."""
        found = self.block.solve(lam, copies, rho, deadline)
        if found.values is not None:
            x = found.values[self.split.coupled]
            found.values[self.split.coupled] = np.where(np.abs(x - copies) < self.near, copies, x)
        return found


def solve_to_the_digit(solver: DualDecomposition, problem: NeuralMIP, seed: int = 0) -> ADMMState:
    """The solver's run with `ToTheDigit` x-steps.

    >>> from ddmip_lib.problems import hand_sized
    >>> solve_to_the_digit(DualDecomposition(penalty=10.0), hand_sized()).stopped
    'converged'
    """
    run = solver.start(problem, seed=seed)
    run.mip_block = ToTheDigit(run.mip_block, run.split)
    while run.stopped is None and run.k < solver.max_iterations:
        solver.step(run)
    return run
