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
from ..split import Split, slope_of


class NNSubproblem:
    """One u-step: the point `w` of the MIP block, the multiplier, the penalty; u falls into independent groups."""

    def __init__(
        self, split: Split, w: np.ndarray, lam: np.ndarray, rho: Penalty, deadline: float = np.inf
    ) -> None:
        n = split.inputs.size
        self.split, self.rho, self.deadline = split, rho, deadline
        self.x, self.lam = torch.from_numpy(w[:n]), torch.from_numpy(lam[:n])
        self.y, self.lam_y = torch.from_numpy(w[n:]), torch.from_numpy(lam[n:])
        self.lower, self.upper = split.box_tensors
        self.group, self.n_groups, self.sum_by_group = split.group, split.n_groups, split.sum_by_group
        self.row_group, self.row_has_interior = split.row_group, split.row_has_interior

    def _network_terms(self, y: torch.Tensor) -> torch.Tensor:
        """What each output adds to the objective: its cost, or its coupling."""
        terms = self.split.own_terms(y)
        if terms is None:
            r = y - self.y
            terms = (self.lam_y + 0.5 * self.rho.outputs * r) * r
        return terms

    def _input_terms(self, u: torch.Tensor) -> torch.Tensor:
        r = u - self.x
        return (self.lam + 0.5 * self.rho.inputs * r) * r

    def parts(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The objective without rows, one value for each group, and the rows h(u) <= 0."""
        y = self.split.outputs(u)
        value = self.sum_by_group(self._network_terms(y), self.split.output_group)
        return value + self.sum_by_group(self._input_terms(u)), self.split.rows(u, y)

    def hinge(self, h: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The squared-hinge penalty of the rows (of those in the mask `rows`), one value for each group."""
        terms = self.split.hinge_terms(h)
        return self.sum_by_group(terms if rows is None else torch.where(rows, terms, 0.0), self.row_group)

    def values(self, u: torch.Tensor) -> torch.Tensor:
        """The objective with rows by hinge, one value for each group."""
        value, h = self.parts(u)
        return value + self.hinge(h) if len(h) else value

    def values_and_gradient(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`values` and their gradient; only the network goes through autograd."""
        network, rows, slope = self._differentiate(u)
        values = self.sum_by_group(network, self.split.output_group) + self.sum_by_group(self._input_terms(u))
        if len(rows):
            values = values + self.sum_by_group(rows, self.row_group)
        return self._finite(values), self._finite(slope)

    def gradient(self, u: torch.Tensor) -> torch.Tensor:
        """The gradient alone."""
        return self._finite(self._differentiate(u)[2])

    def _differentiate(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            point = u.detach().requires_grad_(True)
            y = self.split.outputs(point)
            terms, rows = self._network_terms(y), self.split.hinge_terms(self.split.rows(point, y))
            total = terms.sum() + rows.sum() if len(rows) else terms.sum()
            slope = slope_of(total, point)
        return terms.detach(), rows.detach(), slope + self.lam + self.rho.inputs * (u - self.x)

    def _finite(self, values: torch.Tensor) -> torch.Tensor:
        if not torch.isfinite(values.sum()):
            raise ProblemError(
                "the network's value or gradient is NaN or infinite inside the box of its inputs: "
                "tighten their bounds, or use a network that is finite there."
            )
        return values

    def project(self, u: torch.Tensor) -> torch.Tensor:
        """Projection on the box of the coupled variables."""
        return torch.clamp(u, self.lower, self.upper)

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline


class NNBlock(Protocol):
    """What Algorithm 1 needs of an NN block; each run works on its own copy, which may carry what it learns."""

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray: ...
