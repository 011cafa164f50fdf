r"""The user's model with networks replaced by something linear, all its blocks at once or joined by its linking rows.

$$\min c^\top v + \mu^\top (p + q) \quad\text{s.t.}\quad \text{rows and bounds}, \qquad
e_l \le E v + p - q \le e_u, \qquad p, q \ge 0,$$

with the rows on $E$ in one of three forms: outputs near a point $\bar v$, $y = f + J (x - \bar x)$ or for a class
$y = 1 \Rightarrow f + J (x - \bar x) > 0$ and conversely; true outputs, with the inputs fixed; and inputs, which are to
be as near as the rows allow. Without linking rows the model falls apart, and one solve serves every block.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import Bounds, LinearConstraint, milp

from ..model.gradients import vjp
from ..model.instance import Instance
from ..model.structure import Structure

MARGIN = 1e-5  # logit from which on a linear network gives class 1
GAP = 1e-3  # at which HiGHS ends: the next step is another model


class Targets(NamedTuple):
    """The rows E v + p - q between two ends, and what a unit of p and q costs."""

    matrix: sp.csr_matrix
    low: np.ndarray
    high: np.ndarray
    price: np.ndarray


class Linearised:
    """Models around points of one instance; `linking` says whether blocks are joined."""

    def __init__(self, instance: Instance, structure: Structure, linking: bool) -> None:
        s = instance.milp
        self.instance = instance
        self.kept = np.ones(s.n_rows, dtype=bool) if linking else ~structure.linking
        self.lower, self.upper = s.lower.copy(), s.upper.copy()
        if not linking:  # the master's variables are no block's business
            idle = structure.block < 0
            self.lower[idle] = self.upper[idle] = np.clip(0.0, s.lower, s.upper)[idle]
        self.width = np.where(np.isfinite(s.upper - s.lower), s.upper - s.lower, 1.0)
        self.inputs = instance.free_inputs

    def solve(
        self, cost: np.ndarray, targets: Targets, box: tuple[np.ndarray, np.ndarray], seconds: float
    ) -> np.ndarray | None:
        """The best v in a box, or None where HiGHS finds none in time."""
        s, k = self.instance.milp, len(targets.low)
        eye = sp.identity(k, format="csr")
        rows = sp.block_array([[s.rows[self.kept], None, None], [targets.matrix, eye, -eye]], format="csr")
        sides = [np.concatenate([side[self.kept], end]) for side, end in zip(s.sides, targets[1:3], strict=True)]
        ends = [np.concatenate([end, np.full(2 * k, far)]) for end, far in zip(box, (0.0, np.inf), strict=True)]
        answer = milp(
            np.concatenate([cost, targets.price, targets.price]), constraints=LinearConstraint(rows, *sides),
            bounds=Bounds(*ends), integrality=np.concatenate([s.integer, np.zeros(2 * k)]),
            options={"time_limit": max(seconds, 0.1), "mip_rel_gap": GAP},
        )  # fmt: skip
        return None if answer.x is None else self.instance.rounded(np.clip(answer.x[: s.n_variables], *box))

    def nearest(self, values: np.ndarray, seconds: float) -> np.ndarray | None:
        """A point that keeps the rows, if not the networks, with inputs as near to those of `values` as can be."""
        at = self.inputs
        targets = Targets(self._pick(at), values[at], values[at], 1.0 / self.width[at])
        return self.solve(np.zeros(len(values)), targets, (self.lower, self.upper), seconds)

    def complete(self, values: np.ndarray, cost: np.ndarray, price: float, seconds: float) -> np.ndarray | None:
        """The best point with the inputs of `values` whose outputs are the true ones, or at a price almost."""
        at, lower, upper = self.instance.outputs, self.lower.copy(), self.upper.copy()
        lower[self.inputs] = upper[self.inputs] = values[self.inputs]
        true = self.instance.with_outputs(values)[at]
        targets = Targets(self._pick(at), true, true, np.full(len(at), price))
        return self.solve(cost, targets, (lower, upper), seconds)

    def step(
        self, values: np.ndarray, cost: np.ndarray, price: float, radius: np.ndarray, seconds: float
    ) -> np.ndarray | None:
        """The best point for networks linear around `values`, inputs within `radius`, a share of each one's range."""
        at, lower, upper = self.inputs, self.lower.copy(), self.upper.copy()
        reach = (radius * self.width)[at]
        reach = np.where(self.instance.milp.integer[at], np.maximum(np.round(reach), 1.0), reach)
        lower[at], upper[at] = np.maximum(lower[at], values[at] - reach), np.minimum(upper[at], values[at] + reach)
        return self.solve(cost, self._tangents(values, lower, upper, price), (lower, upper), seconds)

    def _pick(self, at: np.ndarray) -> sp.csr_matrix:
        entries = np.ones(len(at)), (np.arange(len(at)), at)
        return sp.csr_matrix(entries, shape=(len(at), self.instance.milp.n_variables))

    def _tangents(self, values: np.ndarray, lower: np.ndarray, upper: np.ndarray, price: float) -> Targets:
        parts, low, high = [], [], []
        for predictor, m in zip(self.instance.predictors, self.instance.maps, strict=True):
            x = torch.tensor(m.at(values)).requires_grad_()
            with torch.enable_grad():
                raw = predictor.net(x)
            said, pick = raw.detach().numpy(), np.eye(raw.shape[1])
            slopes = np.stack([vjp([raw], x, np.tile(row, len(x)), keep=True).numpy() for row in pick], axis=1)
            slopes = np.where(m.index[:, None, :] >= 0, slopes, 0.0)
            rest, size = said - (slopes * m.at(values)[:, None, :]).sum(axis=2), np.ones(said.shape)
            if predictor.gives_class:
                size = 1.0 + np.abs(said) + (np.abs(slopes) * (m.at(upper) - m.at(lower))[:, None, :]).sum(axis=2)
            low.append(rest.ravel())
            high.append((rest + (size - MARGIN if predictor.gives_class else 0.0)).ravel())
            place = np.arange(said.size).reshape(said.shape)
            row = np.concatenate([place.ravel(), np.broadcast_to(place[:, :, None], slopes.shape).ravel()])
            column = np.broadcast_to(m.index[:, None, :], slopes.shape).ravel()
            entries = np.concatenate([size.ravel(), -slopes.ravel()])
            column = np.concatenate([m.output.ravel(), np.maximum(column, 0)])
            parts.append(sp.csr_matrix((entries, (row, column)), shape=(said.size, len(values))))
        ends = np.concatenate(low), np.concatenate(high)
        return Targets(sp.vstack(parts, format="csr"), *ends, np.full(len(ends[0]), price))
