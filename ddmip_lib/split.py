r"""The paper's split: a copy $u$ of the network's inputs, coupled to the MIP's $x$ by $u = x$.

Written as a minimisation, the MIP block keeps $c^\top x$ and every row without an output; the NN block keeps

$$g(u) = d^\top \hat y(u) + \tfrac{\tau}{2} \sum_j \bigl(a_j^\top [u; \hat y(u)] - b_j + t_j\bigr)_+^2,$$

with $\hat y = f$ for a regression and the surrogate $\hat y = \operatorname{sigmoid}(f / T)$ for a classifier, whose
0/1 output has no gradient to follow. Rows on outputs enter by a squared hinge: the set that they define has no cheap
projection. A hinge alone would be violated a little for ever, so each row is tightened by $t_j \ge 0$, which grows by
what $x^k$ violates and shrinks by what it leaves free ($\tau t_j$ is the row's multiplier in an augmented Lagrangian).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from .compiled import Compiled
from .errors import ProblemError

TEMPERATURE = 0.5
"""Default temperature of the sigmoid, relative to the median size of the logits at the start."""
ROW_MARGIN = 1e-5
"""Rows on outputs are aimed at with this much to spare, ten times the tolerance of `verify`."""


class Gather:
    """The input matrix of one network as a function of u; a plain reshape where u is just that matrix."""

    def __init__(self, index: np.ndarray, fixed: np.ndarray, n_coupled: int) -> None:
        self.free = torch.tensor(index >= 0)
        self.index = torch.tensor(np.maximum(index, 0))
        self.fixed = torch.tensor(fixed)
        self.plain = index.size == n_coupled and bool((index.ravel() == np.arange(n_coupled)).all())

    def __call__(self, u: torch.Tensor) -> torch.Tensor:
        if self.plain:
            return u.view(self.index.shape).clone()  # a network may work in place
        return torch.where(self.free, u[self.index], self.fixed)


class PaperSplit:
    """Which variables are coupled, what each block owns, and the NN block's function g with its gradient."""

    def __init__(
        self,
        compiled: Compiled,
        start: list[np.ndarray] | None = None,
        temperature: float | None = None,
    ) -> None:
        self.compiled = compiled
        s = compiled.snapshot
        entering = np.concatenate([m.index[m.index >= 0] for m in compiled.maps])
        _, first = np.unique(entering, return_index=True)
        entering = entering[np.sort(first)]  # in the order of the networks' inputs
        self.coupled: np.ndarray = entering[s.lower[entering] < s.upper[entering]]
        if self.coupled.size == 0:
            raise ProblemError(
                "every network input is fixed: there is nothing to decide. Evaluate the network instead."
            )
        self.box = (s.lower[self.coupled], s.upper[self.coupled])
        on_outputs = np.asarray((s.rows[:, compiled.is_output] != 0).sum(axis=1)).ravel() > 0
        self._require_separable(on_outputs)
        self.mip_rows = ~on_outputs
        self._prepare_torch(np.flatnonzero(on_outputs))
        self.start = self._start(start)
        self.temperature = self._default_temperature() if temperature is None else temperature
        self.hinge_weight = self._hinge_weight()

    def _require_separable(self, on_outputs: np.ndarray) -> None:
        """Rows with outputs may hold network inputs and fixed variables beside them, nothing else."""
        s, compiled = self.compiled.snapshot, self.compiled
        allowed = compiled.is_output | (s.lower >= s.upper)
        allowed[self.coupled] = True
        used = np.unique(s.rows[on_outputs].indices)
        others = [c for c in s.others if compiled.is_output[list(c.variables)].any()]
        stray = used[~allowed[used]]
        if stray.size or others:
            what = (
                f"variable {s.names[stray[0]]}"
                if stray.size
                else f"{others[0].kind} constraint {others[0].name}"
            )
            raise ProblemError(
                f"{what} shares a constraint with a network output, so the paper split does not exist for this "
                "problem: the NN block owns outputs and network inputs only. Use the exact model (BigM), or rewrite "
                "the constraint on inputs and outputs alone."
            )

    def _prepare_torch(self, output_rows: np.ndarray) -> None:
        s, compiled = self.compiled.snapshot, self.compiled
        slot = np.full(s.n_variables, -1)
        slot[self.coupled] = np.arange(self.coupled.size)
        self._gather = [
            Gather(
                np.where(m.index >= 0, slot[m.index], -1),
                np.where(m.index >= 0, s.lower[m.index], m.constant),
                self.coupled.size,
            )
            for m in compiled.maps
        ]
        outputs = np.concatenate([m.output.ravel() for m in compiled.maps])
        self._weights = torch.tensor(s.sign * s.cost[outputs])
        # rows and output bounds as  A_u u + A_y y <= b, one-sided
        rows = s.rows[output_rows].tocsc()
        a_u, a_y = rows[:, self.coupled], rows[:, outputs]
        rest = np.setdiff1d(np.arange(s.n_variables), np.concatenate([self.coupled, outputs]))
        shift = (
            np.asarray(rows[:, rest] @ s.lower[rest]).ravel()
            if rest.size and rows.nnz
            else np.zeros(rows.shape[0])
        )
        upper, lower = s.row_upper[output_rows] - shift, s.row_lower[output_rows] - shift
        eye = sp.identity(outputs.size, format="csr")
        none = sp.csr_matrix((outputs.size, self.coupled.size))
        bounded = np.concatenate([np.full(m.output.size, p.kind == "regression") for p, m in self._pairs()])
        pieces = [
            (a_u, a_y, upper),
            (-a_u, -a_y, -lower),
            (none, eye, np.where(bounded | (s.upper[outputs] < 1), s.upper[outputs], np.inf)),
            (none, -eye, np.where(bounded | (s.lower[outputs] > 0), -s.lower[outputs], np.inf)),
        ]
        side = np.concatenate([b for _, _, b in pieces])
        keep = np.isfinite(side)
        rows_u = sp.vstack([a for a, _, _ in pieces]).tocsr()[keep]
        rows_y = sp.vstack([a for _, a, _ in pieces]).tocsr()[keep]
        self._rows_u, self._rows_y = _sparse(rows_u), _sparse(rows_y)
        self._find_groups(rows_u, rows_y)
        self._rows_b = torch.tensor(side[keep])
        self.tightening = torch.zeros(int(keep.sum()), dtype=torch.float64)
        equal = np.concatenate([upper == lower, upper == lower, np.zeros(2 * outputs.size, dtype=bool)])
        self._row_margin = torch.tensor(np.where(equal[keep], 0.0, ROW_MARGIN))

    def _find_groups(self, rows_u: sp.csr_matrix, rows_y: sp.csr_matrix) -> None:
        """Number the independent parts of g: inputs that meet in no network row and in no row on outputs."""
        enters = []
        for gather, m in zip(self._gather, self.compiled.maps, strict=True):
            row, column = np.nonzero(gather.free.numpy())
            shape = (len(m.index), self.coupled.size)
            index = gather.index.numpy()[row, column]
            enters.append(sp.csr_matrix((np.ones(row.size), (row, index)), shape=shape))
        per_row = [np.full(len(m.output), m.output.shape[1]) for m in self.compiled.maps]
        network_row = np.repeat(np.arange(sum(map(len, per_row))), np.concatenate(per_row))
        emits = sp.csr_matrix((np.ones(network_row.size), (np.arange(network_row.size), network_row)))
        entering = sp.vstack(enters)
        blank = [sp.csr_matrix((k, k)) for k in (self.coupled.size, emits.shape[1], rows_u.shape[0])]
        links = [
            [blank[0], entering.T, rows_u.T],
            [entering, blank[1], (abs(rows_y) @ emits).T],
            [rows_u, None, blank[2]],
        ]
        _, label = connected_components(sp.bmat(links, format="csr"), directed=False)
        _, label = np.unique(label, return_inverse=True)
        self.n_groups = int(label.max()) + 1
        self.group = torch.tensor(label[: self.coupled.size])
        self._output_group = torch.tensor(label[self.coupled.size + network_row])
        self._row_group = torch.tensor(label[self.coupled.size + emits.shape[1] :])

    def sum_by_group(self, values: torch.Tensor, group: torch.Tensor | None = None) -> torch.Tensor:
        """Sums of `values` over the groups (of the coupled variables, unless `group` says otherwise)."""
        where = self.group if group is None else group
        return torch.zeros(self.n_groups, dtype=values.dtype).index_add(0, where, values)

    @property
    def has_output_rows(self) -> bool:
        """Whether some row or bound restricts a network output."""
        return len(self._rows_b) > 0

    def _pairs(self):  # type: ignore[no-untyped-def]
        return zip(self.compiled.predictors, self.compiled.maps, strict=True)

    @torch.enable_grad()
    def _hinge_weight(self, samples: int = 16) -> float:
        """A weight with which a typical violation of a row pulls ten times as hard as the objective does."""
        if not self.has_output_rows:
            return 1.0
        low, high = self.box
        rng = np.random.default_rng(0)
        points = [
            torch.tensor(low + (high - low) * rng.random(low.size), requires_grad=True)
            for _ in range(samples)
        ]
        rows, slopes, pulls = [], [], []
        for u in points:
            y = self.outputs(u)
            left = self._rows_u @ u + self._rows_y @ y
            rows.append(left.detach())
            slopes.append(_gradient(left.sum(), u, keep=True))
            pull = _gradient((self._weights * y).sum(), u)
            pulls.append(pull + torch.tensor(self.cost[self.coupled]))
        spread = torch.stack(rows).std(dim=0).pow(2).mean().sqrt().item()
        slope = torch.stack(slopes).pow(2).mean().sqrt().item()
        pull_size = torch.stack(pulls).pow(2).mean().sqrt().item()
        return 10.0 * max(pull_size, slope) / max(slope * spread, 1e-12) if slope > 0 else 1.0

    def outputs(self, u: torch.Tensor) -> torch.Tensor:
        r"""$\hat y(u)$, all outputs of all predictors in one vector."""
        parts = []
        for predictor, gather in zip(self.compiled.predictors, self._gather, strict=True):
            raw = predictor.net(gather(u))
            if predictor.kind == "classification":
                raw = torch.sigmoid(raw / self.temperature)
            parts.append(raw.reshape(-1))
        return torch.cat(parts)

    def g_by_group(self, u: torch.Tensor) -> torch.Tensor:
        """g as a sum of independent parts, one entry each: samples that share no input do not wait for each other."""
        y = self.outputs(u)
        value = self.sum_by_group(self._weights * y, self._output_group)
        if len(self._rows_b):
            excess = torch.relu(self._rows_u @ u + self._rows_y @ y - self._rows_b + self.tightening)
            value = value + self.sum_by_group(0.5 * self.hinge_weight * excess**2, self._row_group)
        return value

    def g(self, u: torch.Tensor) -> torch.Tensor:
        """The NN block's own objective, as a differentiable scalar."""
        return self.g_by_group(u).sum()

    def tighten(self, x: np.ndarray) -> None:
        """Move the tightening of each row on outputs by what the true network leaves of it at x."""
        if not len(self._rows_b):
            return
        point = torch.tensor(x)
        outputs = [
            p.predict(gather(point).numpy()).ravel()
            for p, gather in zip(self.compiled.predictors, self._gather, strict=True)
        ]
        left = self._rows_u @ point + self._rows_y @ torch.tensor(np.concatenate(outputs)) - self._rows_b
        self.tightening = torch.relu(self.tightening + left + self._row_margin)

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradient of g, through the network; weight gradients are never computed."""
        with torch.enable_grad():
            point = torch.tensor(u, requires_grad=True)
            return _gradient(self.g(point), point).numpy()

    @cached_property
    def box_tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The box of the coupled variables, for the NN block."""
        return torch.tensor(self.box[0]), torch.tensor(self.box[1])

    @cached_property
    def cost(self) -> np.ndarray:
        """Cost vector c of the MIP block over all variables, as a minimisation; outputs cost nothing there."""
        s = self.compiled.snapshot
        return np.where(self.compiled.is_output, 0.0, s.sign * s.cost)

    def _start(self, inputs: list[np.ndarray] | None) -> np.ndarray:
        """u for the given input matrices, else a point of the box near zero (at zero itself many ReLUs have a kink)."""
        low, high = self.box
        if inputs is None:
            near = np.clip(np.zeros(low.size), low, high)
            return np.clip(
                near + 0.01 * (high - low) * np.random.default_rng(0).uniform(-1, 1, low.size), low, high
            )
        values = np.zeros(self.compiled.snapshot.n_variables)
        for m, x in zip(self.compiled.maps, inputs, strict=True):
            values[m.index[m.index >= 0]] = x[m.index >= 0]
        return np.clip(values[self.coupled], low, high)

    def _default_temperature(self) -> float:
        """A fraction of the typical size of a logit at the start: sharp enough to spend nothing on samples that
        are safely potable, not so sharp that far ones feel no slope."""
        point = torch.tensor(self.start)
        logits = [
            np.abs(p.raw(gather(point).numpy())).ravel()
            for p, gather in zip(self.compiled.predictors, self._gather, strict=True)
            if p.kind == "classification"
        ]
        size = float(np.median(np.concatenate(logits))) if logits else 0.0
        return TEMPERATURE * size if size > 1e-6 else 1.0


def _sparse(matrix: sp.csr_matrix) -> torch.Tensor:
    coo = matrix.tocoo()
    index = torch.tensor(np.vstack([coo.row, coo.col]))
    return torch.sparse_coo_tensor(index, torch.tensor(coo.data), coo.shape, check_invariants=True).coalesce()


def _gradient(value: torch.Tensor, u: torch.Tensor, keep: bool = False) -> torch.Tensor:
    try:
        return torch.autograd.grad(value, u, retain_graph=keep)[0]
    except RuntimeError as error:
        raise ProblemError(
            f"no gradient flows from the network's outputs to its inputs ({error}). The NN block needs one: "
            "remove detach() or no_grad() from the network's forward()."
        ) from error
