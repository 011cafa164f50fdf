r"""The NN block's subproblem, which `PGD` and `LogBarrier` solve:

$$\min_u\ \varphi(u) = g(u) + \lambda^\top (w(u) - w) + \tfrac12 \lVert w(u)
- w \rVert_\rho^2,$$

with $w(u) = u$, $w = x$ in the paper split and $w(u) = (u, f(u))$, $w = (x, y)$, $g = 0$
in the graph split.
"""

import copy
import math
from typing import Any, Self

import numpy as np
import torch
from numpy import ndarray

from ..clock import now
from ..errors import ProblemError
from ..model.gradients import flat, vjp
from .penalty import Penalty
from .split import Split


class NNSubproblem:
    """One u-update; u decomposes into independent groups.

    `values_and_gradient` takes and returns arrays, for one forward and one backward pass through
    the networks; `parts` and `hinge` are for methods that differentiate twice. All of them, `x`,
    `lower` and `upper` count inputs in units of the split's `input_unit`, in which one penalty
    applies to all.

    Parameters
    ----------
    split
        The coupled variables, and what the block owns.
    w
        Coupled part of the MIP block's point.
    lam
        Multipliers of the coupling constraints.
    rho
        The penalty.
    deadline
        End of the time limit, in seconds of the clock in force.
    """

    def __init__(
        self, split: Split, w: ndarray, lam: ndarray, rho: Penalty, deadline: float = np.inf
    ) -> None:
        n = split.inputs.size
        self.split = split
        self.rho = rho
        self.deadline = deadline
        self.input_unit = split.input_unit
        self._x = w[:n] / self.input_unit
        self._lam = lam[:n] * self.input_unit
        self._y = w[n:]
        self._lam_y = lam[n:]
        self.x = torch.from_numpy(self._x)
        self.lam = torch.from_numpy(self._lam)
        self.lower, self.upper = split.box_tensors
        self.group = split.group
        self.n_groups = split.n_groups
        self.sum_by_group = split.sum_by_group
        self.constraint_group = split.constraint_group
        self.constraint_has_interior = split.constraint_has_interior

    def _output_terms(self, y: torch.Tensor) -> torch.Tensor:
        """Term of each output in the objective: its cost, or its coupling."""
        if self.split.cost_of_outputs is not None:
            return torch.from_numpy(self.split.cost_of_outputs) * y
        r = y - torch.from_numpy(self._y)
        return (torch.from_numpy(self._lam_y) + 0.5 * self.rho.outputs * r) * r

    def parts(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the objective without constraints, by group, and the values h(u) of the
        constraints h <= 0; both are differentiable.
        """
        inputs = u * torch.from_numpy(self.input_unit)
        r = u - self.x
        y = self.split.outputs(inputs)
        value = self.sum_by_group(self._output_terms(y), self.split.output_group)
        value = value + self.sum_by_group((self.lam + 0.5 * self.rho.inputs * r) * r)
        return value, self.split.constraint_values(inputs, y)

    def hinge(self, h: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return the squared-hinge penalty of the constraints, by group.

        Parameters
        ----------
        h
            Values of the constraints.
        mask
            Which constraints are penalised; None for all.
        """
        terms = self.split.hinge_terms(h)
        if mask is not None:
            terms = torch.where(mask, terms, 0.0)
        return self.sum_by_group(terms, self.constraint_group)

    def values_and_gradient(self, u: ndarray) -> tuple[ndarray, ndarray]:
        """Return the objective with the hinge penalty, by group, and its gradient."""
        split = self.split
        inputs = torch.from_numpy(u * self.input_unit)
        point = split.shaped(inputs).requires_grad_(True)
        with torch.enable_grad():
            raws = split.raw_outputs(point)
        raw = flat(raws)
        y, derivative = split.surrogate_and_derivative(raw)
        gradient = self._lam + self.rho.inputs * (u - self._x)
        values = np.bincount(
            split.output_group_index, self._output_terms(torch.from_numpy(y)).numpy(), self.n_groups
        )
        values += self.group_sums(0.5 * (self._lam + gradient) * (u - self._x))
        if split.cost_of_outputs is None:
            of_outputs = self._lam_y + self.rho.outputs * (y - self._y)
        else:
            of_outputs = split.cost_of_outputs
        if split.rows_b.numel():
            h = split.constraint_values(inputs.detach(), torch.from_numpy(y))
            values += self.hinge(h).numpy()
            force = split.hinge_weight * torch.relu(h + split.tightening)
            of_outputs = of_outputs + (split.rows_y.T @ force).numpy()
            gradient = gradient + (split.rows_u.T @ force).numpy() * self.input_unit
        of_outputs = of_outputs * derivative
        gradient = gradient + self.input_unit * vjp(raws, point, of_outputs).numpy().ravel()
        if not math.isfinite(raw.sum() + gradient.sum()):
            split.instance.raise_not_finite(split.points(u * self.input_unit))
        return values, gradient

    def gradient(self, u: ndarray) -> ndarray:
        """Return the gradient of the objective with the hinge penalty."""
        return self.values_and_gradient(u)[1]

    def group_sums(self, values: ndarray) -> ndarray:
        """Return the sums of an array over the groups of the coordinates."""
        return np.bincount(self.split.group_index, values, self.n_groups)

    def project(self, u: ndarray) -> ndarray:
        """Return the projection of u on the box of the coupled inputs."""
        return np.minimum(np.maximum(u, self.lower.numpy()), self.upper.numpy())

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return now() >= self.deadline


def finite(values: torch.Tensor) -> torch.Tensor:
    """Return the same values.

    Raises
    ------
    ProblemError
        If one of them is NaN or infinite.
    """
    if not math.isfinite(values.sum()):
        raise ProblemError(
            "the network's value or gradient is NaN or infinite inside the box of its inputs: "
            "tighten their bounds, or use a network that is finite there."
        )
    return values


class NNBlock:
    """Base class of the methods for the u-update: derive from it and write `minimise`."""

    def minimise(self, sub: NNSubproblem, u: ndarray) -> ndarray:
        """Return an approximate minimiser of `sub`.

        Parameters
        ----------
        sub
            The subproblem.
        u
            The start, in the units of `sub`, as the result.
        """
        raise NotImplementedError

    def step(self, sub: NNSubproblem, u: ndarray) -> ndarray:
        """Return the next u from the last one, both in the units of the problem."""
        return self.minimise(sub, u / sub.input_unit) * sub.input_unit

    def fresh(self) -> Self:
        """Return a copy for one run, in which it may keep a state between calls."""
        return copy.deepcopy(self)

    @property
    def holds_rows(self) -> bool:
        """Whether the block satisfies constraints on outputs itself, instead of by a hinge."""
        return False

    def remarks(self) -> dict[str, Any]:
        """Return entries for the details of the solution, after the run."""
        return {}
