r"""The NN block's subproblem, which `PGD` and `LogBarrier` solve:

$$\min_u\ \varphi(u) = g(u) + \lambda^\top (\kappa(u) - w) + \tfrac12 \lVert \kappa(u) - w \rVert_\rho^2,$$

with $\kappa(u) = u$, $w = x$ in the paper split and $\kappa(u) = (u, f(u))$, $w = (x, y)$, $g = 0$ in the graph split.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np
import torch

from ..errors import ProblemError
from ..penalty import Penalty
from ..split import Split, vjp
from .projections import project_box


class NNSubproblem:
    """One u-step: the point `w` of the MIP block, the multiplier, the penalty; u falls into independent groups.

    `values_and_gradient` and `gradient` take and give arrays, and cost one pass forward and one back through the
    networks; `parts` and `hinge` are for methods that differentiate twice."""

    def __init__(self, split: Split, w: np.ndarray, lam: np.ndarray, rho: Penalty, deadline: float = np.inf) -> None:
        n = split.inputs.size
        self.split, self.rho, self.deadline = split, rho, deadline
        self._x, self._lam = w[:n], lam[:n]
        self.x, self.lam = torch.from_numpy(self._x), torch.from_numpy(self._lam)
        self.y, self.lam_y = torch.from_numpy(w[n:]), torch.from_numpy(lam[n:])
        self.lower, self.upper = split.box_tensors
        self.group, self.n_groups, self.sum_by_group = split.group, split.n_groups, split.sum_by_group
        self.row_group, self.row_has_interior = split.row_group, split.row_has_interior

    def _network_terms(self, y: torch.Tensor) -> torch.Tensor:
        """What each output adds to the objective: its cost, or its coupling."""
        if self.split.cost_of_outputs is not None:
            return self.split.cost_of_outputs * y
        r = y - self.y
        return (self.lam_y + 0.5 * self.rho.outputs * r) * r

    def _network_slope(self, y: torch.Tensor) -> torch.Tensor:
        if self.split.cost_of_outputs is not None:
            return self.split.cost_of_outputs
        return self.lam_y + self.rho.outputs * (y - self.y)

    def parts(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The objective without rows, one value for each group, and the rows h(u) <= 0; differentiable."""
        y, r = self.split.outputs(u), u - self.x
        value = self.sum_by_group(self._network_terms(y), self.split.output_group)
        value = value + self.sum_by_group((self.lam + 0.5 * self.rho.inputs * r) * r)
        return value, self.split.rows(u, y)

    def hinge(self, h: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The squared-hinge penalty of the rows (of those in the mask `rows`), one value for each group."""
        terms = self.split.hinge_terms(h)
        return self.sum_by_group(terms if rows is None else torch.where(rows, terms, 0.0), self.row_group)

    def values_and_gradient(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The objective with rows by hinge, one value for each group, and its gradient."""
        y, h, slope = self._differentiate(u)
        r = u - self._x
        values = np.bincount(self.split.output_group_index, self._network_terms(y).numpy(), self.n_groups)
        values += self.group_sums((self._lam + 0.5 * self.rho.inputs * r) * r)
        return (values + self.hinge(h).numpy() if len(h) else values), slope

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """The gradient alone."""
        return self._differentiate(u)[2]

    def _differentiate(self, u: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
        """Outputs, rows and gradient at u. The chain rule stops at the networks: one vector-Jacobian product."""
        split, point = self.split, torch.from_numpy(u).requires_grad_(True)
        with torch.enable_grad():
            raw = split.raw(point)
        with torch.no_grad():
            y = split.surrogate(raw.detach())
            h, slope_y = split.rows(point, y), self._network_slope(y)
            if len(h):
                pull = split.hinge_weight * torch.relu(h + split.tightening)
                slope_y = slope_y + split.rows_y.T @ pull
            slope = vjp(raw, point, slope_y * split.surrogate_slope(y)).numpy()
            slope = slope + self._lam + self.rho.inputs * (u - self._x)
            if len(h):
                slope += (split.rows_u.T @ pull).numpy()
        # one sum finds any NaN or infinity, in the outputs as well: they enter through slope_y or raw
        if not np.isfinite(slope.sum() + y.sum().item()):
            raise ProblemError(
                "the network's value or gradient is NaN or infinite inside the box of its inputs: "
                "tighten their bounds, or use a network that is finite there."
            )
        return y, h, slope

    def group_sums(self, values: np.ndarray) -> np.ndarray:
        """Sums of an array over the groups of the coordinates."""
        return np.bincount(self.split.group_index, values, self.n_groups)

    def project(self, u: np.ndarray) -> np.ndarray:
        """Projection on the box of the coupled variables."""
        return project_box(u, *self.split.box)

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline


class NNBlock(Protocol):
    """What Algorithm 1 needs of an NN block; each run works on its own copy, which may carry what it learns."""

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray: ...
