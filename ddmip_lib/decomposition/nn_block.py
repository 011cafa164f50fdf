r"""The NN block's subproblem, which `PGD` and `LogBarrier` solve:

$$\min_u\ \varphi(u) = g(u) + \lambda^\top (\kappa(u) - w) + \tfrac12 \lVert \kappa(u)
- w \rVert_\rho^2,$$

with $\kappa(u) = u$, $w = x$ in the paper split and $\kappa(u) = (u, f(u))$, $w = (x, y)$, $g = 0$
in the graph split.
"""

import copy
import math
from typing import Any, Self, TypeVar

import numpy as np
import torch

from ..clock import now
from ..errors import ProblemError
from ..model.gradients import flat, vjp
from .penalty import Penalty
from .split import Split


class NNSubproblem:
    """One u-step: the point `w` of the MIP block, the multiplier, the penalty; u falls into
    independent groups.

    `values_and_gradient` and `gradient` take and give arrays, and cost one pass forward and one
    back through the networks; `parts` and `hinge` are for methods that differentiate twice. All of
    them, `x`, `lower` and `upper` count inputs in units of the split's `input_unit`, in which one
    penalty fits all.
    """

    def __init__(
        self, split: Split, w: np.ndarray, lam: np.ndarray, rho: Penalty, deadline: float = np.inf
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
        self.short_step = split.short_step
        self.group = split.group
        self.n_groups = split.n_groups
        self.sum_by_group = split.sum_by_group
        self.constraint_group = split.constraint_group
        self.constraint_has_interior = split.constraint_has_interior

    def _network_terms(self, y: torch.Tensor) -> torch.Tensor:
        """What each output adds to the objective: its cost, or its coupling."""
        if self.split.cost_of_outputs is not None:
            return torch.from_numpy(self.split.cost_of_outputs) * y
        r = y - torch.from_numpy(self._y)
        return (torch.from_numpy(self._lam_y) + 0.5 * self.rho.outputs * r) * r

    def parts(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The objective without rows, one value for each group, and the rows h(u) <= 0;
        differentiable.
        """
        inputs = u * torch.from_numpy(self.input_unit)
        r = u - self.x
        y = self.split.outputs(inputs)
        value = self.sum_by_group(self._network_terms(y), self.split.output_group)
        value = value + self.sum_by_group((self.lam + 0.5 * self.rho.inputs * r) * r)
        return value, self.split.constraint_values(inputs, y)

    def hinge(self, h: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The squared-hinge penalty of the rows (of those in the mask `rows`), one value for each
        group.
        """
        terms = self.split.hinge_terms(h)
        return self.sum_by_group(
            terms if rows is None else torch.where(rows, terms, 0.0), self.constraint_group
        )

    def values_and_gradient(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The objective with rows by hinge, one value for each group, and its gradient."""
        y, h, slope, coupling = self._differentiate(u)
        terms = self._network_terms(torch.from_numpy(y)).numpy()
        values = np.bincount(self.split.output_group_index, terms, self.n_groups)
        values += self.group_sums(coupling)
        if h.size:
            values += self.hinge(torch.from_numpy(h)).numpy()
        return values, slope

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """The gradient alone."""
        return self._differentiate(u)[2]

    def _differentiate(
        self, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Outputs, rows, gradient, and the inputs' coupling terms at u; networks cost one
        vector-Jacobian product.
        """
        split = self.split
        inputs = u * self.input_unit
        point = torch.from_numpy(inputs)
        if (
            len(split.gathers) == 1 and split.gathers[0].is_reshape
        ):  # u is the input matrix: one node less in the graph
            point = point.view(split.gathers[0].index.shape)
        point.requires_grad_(True)
        with torch.enable_grad():
            raws = split.raws(point)
        y, bend = split.surrogate_and_derivative(raw := flat(raws))
        r = u - self._x
        slope = self._lam + self.rho.inputs * r
        coupling = 0.5 * (self._lam + slope) * r
        if split.cost_of_outputs is not None:
            slope_y = split.cost_of_outputs
        else:
            slope_y = self._lam_y + self.rho.outputs * (y - self._y)
        h = split.rows_b.numpy()
        if h.size:
            h = split.constraint_values(torch.from_numpy(inputs), torch.from_numpy(y)).numpy()
            pull = torch.from_numpy(
                split.hinge_weight * np.maximum(h + split.tightening.numpy(), 0.0)
            )
            slope_y = slope_y + (split.rows_y.T @ pull).numpy()
            slope += (split.rows_u.T @ pull).numpy() * self.input_unit
        slope += vjp(raws, point, slope_y * bend).numpy().ravel() * self.input_unit
        if not math.isfinite(raw.sum() + slope.sum()):
            split.instance.blame(split.points(inputs))
        return y, h, slope, coupling

    def group_sums(self, values: np.ndarray) -> np.ndarray:
        """Sums of an array over the groups of the coordinates."""
        return np.bincount(self.split.group_index, values, self.n_groups)

    def project(self, u: np.ndarray) -> np.ndarray:
        """Projection on the box of the coupled variables."""
        return np.minimum(np.maximum(u, self.lower.numpy()), self.upper.numpy())

    @property
    def out_of_time(self) -> bool:
        return now() >= self.deadline


Values = TypeVar("Values", np.ndarray, torch.Tensor)


def finite(values: Values) -> Values:
    """The same values, or an error that names the remedy; one sum finds any NaN or infinity."""
    if not math.isfinite(values.sum()):
        raise ProblemError(
            "the network's value or gradient is NaN or infinite inside the box of its inputs: "
            "tighten their bounds, or use a network that is finite there."
        )
    return values


class NNBlock:
    """What Algorithm 1 asks of an NN block: derive yours from it and say how to `minimise`."""

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Approximate minimiser of `sub`, started at `u`, both in the units of `sub`."""
        raise NotImplementedError

    def step(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """The u-step in the units of the problem."""
        return self.minimise(sub, u / sub.input_unit) * sub.input_unit

    def fresh(self) -> Self:
        """A copy for one run, which may carry what it learns from call to call."""
        return copy.deepcopy(self)

    @property
    def holds_rows(self) -> bool:
        """Whether rows on outputs are kept by the block itself, with multipliers that no
        hinge has.
        """
        return False

    def remarks(self) -> dict[str, Any]:
        """What the solution's details should say of this block at the end of a run."""
        return {}
