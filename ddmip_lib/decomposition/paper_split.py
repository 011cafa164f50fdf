r"""The paper's split: outputs and every row on them stay in the NN block, and only $u = x$ couples
the blocks.

Written as a minimisation, the MIP block keeps $c^\top x$ and every row without an output; the NN
block keeps

$$g(u) = d^\top \hat y(u) + \tfrac{\tau}{2} \sum_j \bigl(a_j^\top [u; \hat y(u)] - b_j
+ t_j\bigr)_+^2,$$

with $\hat y = f$ for a regression and the surrogate $\hat y = \operatorname{sigmoid}(f / T)$ for a
classifier, whose 0/1 output has no gradient to follow. Rows on outputs enter by a squared hinge:
the set that they define has no cheap projection. A hinge alone would be violated a little for ever,
so each row is tightened by $t_j \ge 0$, which grows by what $x^k$ violates and shrinks by what it
leaves free ($\tau t_j$ is the row's multiplier in an augmented Lagrangian).
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from pyscipopt import Model
from scipy.special import expit

from ..errors import ProblemError
from ..model.gradients import vjp
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.verification import Verification
from ..programs.scip import copy_model
from .penalty import Penalty
from .split import Split

TEMPERATURES = 0.25, 0.125, 0.5
"""Of the sigmoid in one sweep after the other, relative to the median size of the logits at the
start.
"""
# rows on outputs are aimed at with this much to spare, ten times the tolerance of `verify`
ROW_MARGIN = 1e-5


class PaperSplit(Split):
    """The split of the paper, with the NN block's function g."""

    name = "paper"
    couples_outputs = False

    def __init__(
        self,
        instance: Instance,
        start: list[np.ndarray] | None = None,
        temperature: float | None = None,
        weighted: bool = False,
    ) -> None:
        super().__init__(instance, start, weighted)
        s = self.milp
        on_outputs = np.asarray((s.rows[:, instance.is_output] != 0).sum(axis=1)).ravel() > 0
        self._require_separable(on_outputs)
        self.owned = ~instance.is_output
        self.mip_rows = ~on_outputs
        self.cost_of_outputs: np.ndarray = s.sign * s.cost[self.output_positions]
        self._prepare_rows(np.flatnonzero(on_outputs))
        self._chosen, self._sweep, self._logit_size = temperature is None, 0, self._typical_logit()
        self.temperature = (
            TEMPERATURES[0] * self._logit_size if temperature is None else temperature
        )
        self.hinge_weight = self._hinge_weight()

    def _require_separable(self, on_outputs: np.ndarray) -> None:
        """Rows with outputs may hold network inputs and fixed variables beside them,
        nothing else.
        """
        s = self.milp
        instance = self.instance
        allowed = instance.is_output | (s.lower >= s.upper)
        allowed[self.inputs] = True
        used = np.unique(s.rows[on_outputs].indices)
        others = [c for c in s.others if instance.is_output[list(c.variables)].any()]
        stray = used[~allowed[used]]
        if stray.size or others:
            what = (
                f"variable {s.names[stray[0]]}"
                if stray.size
                else f"{others[0].kind} constraint {others[0].name}"
            )
            raise NotSeparable(
                f"{what} shares a constraint with a network output, so the paper split does not"
                " exist for this problem: the NN block owns outputs and network inputs only. Use"
                ' split="graph" (the default where it is needed), or rewrite the constraint on'
                " inputs and outputs alone."
            )

    def _prepare_rows(self, output_rows: np.ndarray) -> None:
        """Rows on outputs and bounds of outputs as  A_u u + A_y y <= b, one-sided."""
        s = self.milp
        outputs = self.output_positions
        rows = s.rows[output_rows].tocsc()
        a_u = rows[:, self.inputs]
        a_y = rows[:, outputs]
        rest = np.setdiff1d(np.arange(s.n_variables), np.concatenate([self.inputs, outputs]))
        shift = rows[:, rest] @ np.where(np.isfinite(s.lower[rest]), s.lower[rest], 0.0)
        upper = s.row_upper[output_rows] - shift
        lower = s.row_lower[output_rows] - shift
        eye = sp.identity(outputs.size, format="csr")
        none = sp.csr_matrix((outputs.size, self.inputs.size))
        pairs = zip(self.instance.predictors, self.instance.maps, strict=True)
        bounded = np.concatenate([np.full(m.output.size, not p.gives_class) for p, m in pairs])
        self._class = ~bounded
        self._some = not bounded.all()
        self._all = not bounded.any()
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
        self.rows_u = _sparse(rows_u)
        self.rows_y = _sparse(rows_y)
        self.rows_b = torch.tensor(side[keep])
        self._find_groups(rows_u, rows_y)
        self.tightening = torch.zeros(int(keep.sum()), dtype=torch.float64)
        fixed = s.lower[outputs] == s.upper[outputs]
        equal = np.concatenate([upper == lower, upper == lower, fixed, fixed])[keep]
        self._row_margin = torch.tensor(np.where(equal, 0.0, ROW_MARGIN))
        self.row_has_interior = torch.tensor(~equal)

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        r"""$\hat y$: a prediction as it is, a class by the sigmoid of its logit."""
        if not self._some:
            return raw
        return torch.where(
            torch.from_numpy(self._class), torch.sigmoid(raw / self.temperature), raw
        )

    def surrogate_and_slope(self, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        if not self._some:
            return raw, 1.0
        soft = expit(raw / self.temperature)
        slope = soft * (1.0 - soft) / self.temperature
        if self._all:
            return soft, slope
        return np.where(self._class, soft, raw), np.where(self._class, slope, 1.0)

    def next_sweep(self) -> None:
        """Change a temperature that nobody has chosen: a sharp sigmoid spends on near samples
        alone, which pays where there is little to spend; a soft one lets far samples feel a slope,
        which pays where there is much.
        """
        if self._chosen:
            self._sweep = (self._sweep + 1) % len(TEMPERATURES)
            self.temperature = TEMPERATURES[self._sweep] * self._logit_size

    def tighten(self, x: np.ndarray) -> None:
        """Move the tightening of each row on outputs by what the true network leaves of it at x."""
        if not len(self.rows_b):
            return
        point = torch.tensor(x)
        pairs = zip(self.instance.predictors, self.gathers, strict=True)
        outputs = [p.outputs_of(p.finite_raw(gather(point).numpy())).ravel() for p, gather in pairs]
        left = self.rows(point, torch.tensor(np.concatenate(outputs)))
        self.tightening = torch.relu(self.tightening + left + self._row_margin)

    def block_model(self, seed: int = 0) -> Model:
        """A SCIP copy of the user's model without the constraints on outputs."""
        model = copy_model(self.instance.model, seed)
        variables = model.getVars()
        outputs = {variables[at].ptr() for at in np.flatnonzero(self.instance.is_output)}
        for constraint in model.getConss():
            if any(v.ptr() in outputs for v in model.getConsVars(constraint) or ()):
                model.delCons(constraint)
        return model

    def judge(self, incumbent: Incumbent, x: np.ndarray, seconds: float) -> Verification:
        """The block decides all variables but outputs, which the networks give."""
        return incumbent.consider(self.users(x))

    def proves_infeasible(self, seconds: float) -> bool:
        """The block has a part of the user's rows and nothing else."""
        return True

    def scale(self, gain: float, seed: int) -> Penalty:
        r"""A penalty that weighs as much as the network's slope: $4\,\mathrm{rms}(\nabla F)$ by the
        box's half-width.

        On integers a penalty above $2 \lVert\nabla F\rVert_\infty$ freezes the iterates, so there
        the scale is a quarter of the rms slope of $F$. Slopes are taken at the start; on integers,
        and where the start is flat, at random points of the box too.
        """
        low, high = self.box
        integer = self.milp.integer[self.inputs]
        points = [
            self.start,
            *(low + (high - low) * np.random.default_rng(seed).random((8, low.size))),
        ]
        pull = self._pull(points[:1])
        if integer.any() or np.abs(pull - self.cost[self.inputs] * self.stretch).max() < 1e-6:
            pull = self._pull(points)
        if integer.any():
            scale = 0.25 * np.sqrt(np.mean((pull * self.stretch)[:, integer] ** 2))
        else:
            scale = (
                4.0 * np.sqrt(np.mean(pull**2)) / float(np.mean((high - low) / self.stretch) / 2)
            )
        return Penalty.both(float(scale) if scale > 1e-12 else 1.0)

    def _pull(self, points: Sequence[np.ndarray]) -> np.ndarray:
        """Slopes of F in units of `stretch`; without the hinges of rows, unless these are all there
        is.
        """
        own = np.array([self._slope_of_cost(p) for p in points]) + self.cost[self.inputs]
        if len(self.rows_b) and np.abs(own).max() < 1e-9:
            own = np.array([self.gradient(p) for p in points])
        return own * self.stretch

    @torch.enable_grad()
    def _slope_of_cost(self, u: np.ndarray) -> np.ndarray:
        point = torch.tensor(u, requires_grad=True)
        return vjp([torch.from_numpy(self.cost_of_outputs) @ self.outputs(point)], point).numpy()

    @torch.enable_grad()
    def _hinge_weight(self, samples: int = 16) -> float:
        """A weight with which a typical violation of a row pulls ten times as hard as the objective
        does.
        """
        if not len(self.rows_b):
            return 1.0
        low, high = self.box
        rng = np.random.default_rng(0)
        rows = []
        slopes = []
        pulls = []
        for _ in range(samples):
            u = torch.tensor(low + (high - low) * rng.random(low.size), requires_grad=True)
            y = self.outputs(u)
            left = self.rows_u @ u + self.rows_y @ y
            rows.append(left.detach())
            slopes.append(vjp([left.sum()], u, keep=True))
            pulls.append(
                vjp([torch.from_numpy(self.cost_of_outputs) @ y], u)
                + torch.tensor(self.cost[self.inputs])
            )
        spread = torch.stack(rows).std(dim=0).pow(2).mean().sqrt().item()
        slope = torch.stack(slopes).pow(2).mean().sqrt().item()
        pull = torch.stack(pulls).pow(2).mean().sqrt().item()
        return 10.0 * max(pull, slope) / max(slope * spread, 1e-12) if slope > 0 else 1.0

    def _typical_logit(self) -> float:
        """The median size of the logits at the start."""
        point = torch.tensor(self.start)
        pairs = zip(self.instance.predictors, self.gathers, strict=True)
        logits = [
            np.abs(p.finite_raw(gather(point).numpy())).ravel()
            for p, gather in pairs
            if p.gives_class
        ]
        size = float(np.median(np.concatenate(logits))) if logits else 0.0
        return size if size > 1e-6 else 1.0


class NotSeparable(ProblemError):
    """The paper split does not exist for this problem."""


def _sparse(matrix: sp.csr_matrix) -> torch.Tensor:
    coo = matrix.tocoo()
    index = torch.tensor(np.vstack([coo.row, coo.col]))
    return torch.sparse_coo_tensor(
        index, torch.tensor(coo.data), coo.shape, check_invariants=True
    ).coalesce()
