r"""The paper's split: a copy $u$ of the network's inputs, coupled to the MIP's $x$ by $u = x$.

Written as a minimisation, the MIP block keeps $c^\top x$ and every row without an output; the NN block keeps

$$g(u) = d^\top \hat y(u) + \tfrac{\tau}{2} \sum_j \bigl(a_j^\top [u; \hat y(u)] - b_j\bigr)_+^2,$$

with $\hat y = f$ for a regression and the surrogate $\hat y = \operatorname{sigmoid}(f / T)$ for a classifier, whose
0/1 output has no gradient to follow. Rows on outputs enter by the squared hinge with weight $\tau$: the set that they
define has no cheap projection.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from .compiled import Compiled
from .errors import ProblemError


class PaperSplit:
    """Which variables are coupled, what each block owns, and the NN block's function g with its gradient."""

    def __init__(self, compiled: Compiled, temperature: float = 1.0, hinge_weight: float | None = None) -> None:
        self.compiled = compiled
        self.temperature = temperature
        s = compiled.snapshot
        entering = np.unique(np.concatenate([m.index[m.index >= 0] for m in compiled.maps] or [[]]).astype(int))
        self.coupled: np.ndarray = entering[s.lower[entering] < s.upper[entering]]
        if self.coupled.size == 0:
            raise ProblemError("every network input is fixed: there is nothing to decide. Evaluate the network instead.")
        self.box = (s.lower[self.coupled], s.upper[self.coupled])
        on_outputs = np.asarray((s.rows[:, compiled.is_output] != 0).sum(axis=1)).ravel() > 0
        self._require_separable(on_outputs)
        self.mip_rows = ~on_outputs
        self._prepare_torch(np.flatnonzero(on_outputs))
        self.hinge_weight = self._default_hinge_weight() if hinge_weight is None else hinge_weight

    def _require_separable(self, on_outputs: np.ndarray) -> None:
        """Rows with outputs may hold network inputs and fixed variables beside them, nothing else."""
        s, compiled = self.compiled.snapshot, self.compiled
        allowed = compiled.is_output | (s.lower >= s.upper)
        allowed[self.coupled] = True
        used = np.unique(s.rows[on_outputs].indices)
        others = [c for c in s.others if compiled.is_output[list(c.variables)].any()]
        stray = used[~allowed[used]]
        if stray.size or others:
            what = f"variable {s.names[stray[0]]}" if stray.size else f"{others[0].kind} constraint {others[0].name}"
            raise ProblemError(
                f"{what} shares a constraint with a network output, so the paper split does not exist for this "
                "problem: the NN block owns outputs and network inputs only. Use the exact model (BigM), or rewrite "
                "the constraint on inputs and outputs alone."
            )

    def _prepare_torch(self, output_rows: np.ndarray) -> None:
        s, compiled = self.compiled.snapshot, self.compiled
        slot = np.full(s.n_variables, -1)
        slot[self.coupled] = np.arange(self.coupled.size)
        self._gather: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        for m in compiled.maps:
            fixed = np.where(m.index >= 0, s.lower[m.index], m.constant)
            index = np.where(m.index >= 0, slot[m.index], -1)
            self._gather.append((torch.tensor(index >= 0), torch.tensor(np.maximum(index, 0)), torch.tensor(fixed)))
        outputs = np.concatenate([m.output.ravel() for m in compiled.maps])
        self._weights = torch.tensor(s.sign * s.cost[outputs])
        # rows and output bounds as  A_u u + A_y y <= b, one-sided
        rows = s.rows[output_rows].tocsc()
        a_u, a_y = rows[:, self.coupled], rows[:, outputs]
        rest = np.setdiff1d(np.arange(s.n_variables), np.concatenate([self.coupled, outputs]))
        shift = np.asarray(rows[:, rest] @ s.lower[rest]).ravel() if rest.size and rows.nnz else np.zeros(rows.shape[0])
        upper, lower = s.row_upper[output_rows] - shift, s.row_lower[output_rows] - shift
        eye = sp.identity(outputs.size, format="csr")
        none = sp.csr_matrix((outputs.size, self.coupled.size))
        bounded = np.concatenate([np.full(m.output.size, p.kind == "regression") for p, m in self._pairs()])
        pieces = [
            (a_u, a_y, upper),
            (-a_u, -a_y, -lower),
            (none, eye, np.where(bounded, s.upper[outputs], np.inf)),
            (none, -eye, np.where(bounded, -s.lower[outputs], np.inf)),
        ]
        side = np.concatenate([b for _, _, b in pieces])
        keep = np.isfinite(side)
        self._rows_u = _sparse(sp.vstack([a for a, _, _ in pieces]).tocsr()[keep])
        self._rows_y = _sparse(sp.vstack([a for _, a, _ in pieces]).tocsr()[keep])
        self._rows_b = torch.tensor(side[keep])

    def _pairs(self):  # type: ignore[no-untyped-def]
        return zip(self.compiled.predictors, self.compiled.maps, strict=True)

    def _default_hinge_weight(self) -> float:
        """Ten times the largest output cost, at least ten: rows matter more than the objective."""
        return 10.0 * max(1.0, float(self._weights.abs().max()))

    def outputs(self, u: torch.Tensor) -> torch.Tensor:
        r"""$\hat y(u)$, all outputs of all predictors in one vector."""
        parts = []
        for predictor, (free, index, fixed) in zip(self.compiled.predictors, self._gather, strict=True):
            raw = predictor.net(torch.where(free, u[index], fixed))
            if predictor.kind == "classification":
                raw = torch.sigmoid(raw / self.temperature)
            parts.append(raw.reshape(-1))
        return torch.cat(parts)

    def g(self, u: torch.Tensor) -> torch.Tensor:
        """The NN block's own objective, as a differentiable scalar."""
        y = self.outputs(u)
        value = (self._weights * y).sum()
        if len(self._rows_b):
            excess = torch.relu(self._rows_u @ u + self._rows_y @ y - self._rows_b)
            value = value + 0.5 * self.hinge_weight * (excess**2).sum()
        return value

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradient of g, through the network; weight gradients are never computed."""
        point = torch.tensor(u, requires_grad=True)
        (slope,) = torch.autograd.grad(self.g(point), point)
        return slope.numpy()

    @cached_property
    def box_tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The box of the coupled variables, for the NN block."""
        return torch.tensor(self.box[0]), torch.tensor(self.box[1])

    @cached_property
    def cost(self) -> np.ndarray:
        """Cost vector c of the MIP block over all variables, as a minimisation; outputs cost nothing there."""
        s = self.compiled.snapshot
        return np.where(self.compiled.is_output, 0.0, s.sign * s.cost)

    def start(self) -> np.ndarray:
        """u at the problem's start, else the point of the box nearest to zero."""
        s = self.compiled.snapshot
        values = np.clip(np.zeros(s.n_variables), s.lower, s.upper)
        return values[self.coupled]

    def from_inputs(self, inputs: list[np.ndarray]) -> np.ndarray:
        """u for given input matrices, clipped to the box."""
        values = np.zeros(self.compiled.snapshot.n_variables)
        for m, x in zip(self.compiled.maps, inputs, strict=True):
            values[m.index[m.index >= 0]] = x[m.index >= 0]
        return np.clip(values[self.coupled], *self.box)


def _sparse(matrix: sp.csr_matrix) -> torch.Tensor:
    coo = matrix.tocoo()
    index = torch.tensor(np.vstack([coo.row, coo.col]))
    return torch.sparse_coo_tensor(index, torch.tensor(coo.data), coo.shape, check_invariants=True).coalesce()
