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

from ..linearisation.milp import solve_program
from ..linearisation.slopes import lines_at
from ..model.instance import Instance
from ..model.structure import Structure
from ..proofs.program import Program, Rows

MARGIN = 1e-5  # logit from which on a linear network gives class 1


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
        eye, more = sp.identity(k, format="csr"), np.zeros(2 * k)
        rows = sp.block_array([[s.rows[self.kept], None, None], [targets.matrix, eye, -eye]], format="csr")
        sides = [np.concatenate([side[self.kept], end]) for side, end in zip(s.sides, targets[1:3], strict=True)]
        program = Program(
            np.concatenate([cost, targets.price, targets.price]), Rows.of(rows), sides[0], sides[1],
            np.concatenate([box[0], more]), np.concatenate([box[1], more + np.inf]),
            np.concatenate([s.integer, more > 0]),
        )  # fmt: skip
        found = solve_program(program, seconds).point
        return None if found is None else self.instance.rounded(np.clip(found[: s.n_variables], *box))

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
        line, at = lines_at(self.instance, values), self.instance.outputs
        maps = zip(self.instance.predictors, self.instance.maps, strict=True)
        classes = np.concatenate([np.full(m.output.size, p.gives_class) for p, m in maps])
        width = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
        size = np.where(classes, 1.0 + np.abs(line.said) + abs(line.slopes) @ width, 1.0)
        matrix = sp.diags(size) @ self._pick(at) - line.slopes
        high = line.rest + np.where(classes, size - MARGIN, 0.0)
        return Targets(matrix.tocsr(), line.rest, high, np.full(len(at), price))
