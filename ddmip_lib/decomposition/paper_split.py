r"""The paper's split: outputs and all constraints on them belong to the NN block, and only $u = x$
couples the blocks.

Written as a minimisation, the MIP block has $c^\top x$ and every constraint without an output; the
NN block has

$$g(u) = d^\top \hat y(u) + \tfrac{\tau}{2} \sum_j \bigl(a_j^\top [u; \hat y(u)] - b_j
+ t_j\bigr)_+^2,$$

with $\hat y = f$ for a regression and the surrogate $\hat y = \operatorname{sigmoid}(f / T)$ for a
classifier, whose 0/1 output has no useful gradient. Constraints on outputs enter by a squared
hinge: the set that they define has no cheap projection. A hinge alone would leave a small violation
in the limit, so each constraint is tightened by $t_j \ge 0$, which increases by the violation at
$x^k$ and decreases by the slack ($\tau t_j$ is the multiplier in an augmented Lagrangian).
"""

import itertools

import numpy as np
import scipy.sparse as sp
import torch
from numpy import ndarray
from pyscipopt import Model
from scipy.special import expit

from ..errors import ProblemError
from ..model.gradients import vjp
from ..model.instance import Instance
from ..programs.scip import copy_model
from .penalty import Penalty
from .split import Split

CYCLE_TEMPERATURES = (0.25, 0.125, 0.5)
"""Temperatures of the sigmoid in consecutive penalty cycles, in units of the median logit."""
CONSTRAINT_MARGIN = 1e-5
"""Margin of inequalities on outputs, ten times the tolerance of `verify`."""
SCALE_SAMPLES = 8
"""Number of random points at which gradients are evaluated for the first penalty."""
INTEGER_SCALE = 0.25
CONTINUOUS_SCALE = 4.0
"""First penalty of integer and of continuous inputs, in units of the root mean square gradient."""
ZERO_GRADIENT = 1e-6
"""Size up to which the gradient of the network's part of the objective counts as zero."""
ZERO_OBJECTIVE_GRADIENT = 1e-9
"""Size up to which the gradient of the whole objective counts as zero."""
HINGE_SAMPLES = 16
"""Number of random points at which the weight of the hinge is estimated."""
HINGE_RATIO = 10.0
"""Gradient of the hinge at a typical violation, in units of the gradient of the objective."""
MIN_LOGIT = 1e-6
"""Smallest median logit that determines the temperature."""


class PaperSplit(Split):
    """The split of the paper, with the NN block's function g.

    Parameters
    ----------
    instance, start, weighted
        As in `Split`.
    temperature
        Temperature of the sigmoid; None for one that depends on the logits at the start and
        changes with every penalty cycle.

    Raises
    ------
    NotSeparable
        If a constraint on outputs holds variables that are neither inputs nor outputs.
    """

    name = "paper"
    couples_outputs = False
    cost_of_outputs: ndarray

    def __init__(
        self,
        instance: Instance,
        start: list[ndarray] | None = None,
        temperature: float | None = None,
        weighted: bool = False,
    ) -> None:
        super().__init__(instance, start, weighted)
        self._any_class = bool(instance.classes.any())
        self._all_classes = bool(instance.classes.all())
        milp = self.milp
        on_outputs = abs(milp.rows) @ instance.is_output > 0
        self._require_separable(on_outputs)
        self.owned = ~instance.is_output
        self.mip_constraints = ~on_outputs
        self.cost_of_outputs = milp.sign * milp.cost[self.output_positions]
        self._set_constraints(np.flatnonzero(on_outputs))
        temperatures = self._median_logit() * np.array(CYCLE_TEMPERATURES)
        if temperature is not None:
            temperatures = np.array([temperature])
        self._temperatures = itertools.cycle(temperatures.tolist())
        self.temperature = next(self._temperatures)
        if len(self.rows_b):
            self.hinge_weight = self._estimate_hinge_weight()

    def _require_separable(self, on_outputs: ndarray) -> None:
        """Raise an error if a constraint on outputs holds anything but network inputs and fixed
        variables beside them.
        """
        milp = self.milp
        is_output = self.instance.is_output
        allowed = is_output | (milp.lower >= milp.upper)
        allowed[self.inputs] = True
        used = np.unique(milp.rows[on_outputs].indices)
        offending = [f"variable {milp.names[at]}" for at in used[~allowed[used]]]
        for other in milp.others:
            if is_output[list(other.variables)].any():
                offending.append(f"{other.kind} constraint {other.name}")
        if offending:
            raise NotSeparable(
                f"{offending[0]} shares a constraint with a network output, so the paper split does"
                " not exist for this problem: the NN block owns outputs and network inputs only."
                ' Use split="graph" (the default where it is needed), or rewrite the constraint on'
                " inputs and outputs alone."
            )

    def _set_constraints(self, on_outputs: ndarray) -> None:
        """Write the constraints on outputs and the bounds of outputs as rows_u u + rows_y y <=
        rows_b.
        """
        milp = self.milp
        outputs = self.output_positions
        rows = milp.rows[on_outputs].tocsc()
        bounds = sp.identity(milp.n_variables, format="csc")[outputs]
        left = sp.vstack([rows, -rows, bounds, -bounds], format="csc")
        right, is_equality = self._right_hand_sides(on_outputs)
        kept = np.isfinite(right)
        rows_u = left[:, self.inputs].tocsr()[kept]
        rows_y = left[:, outputs].tocsr()[kept]
        self._find_groups(rows_u, rows_y)
        self.rows_u = _sparse_tensor(rows_u)
        self.rows_y = _sparse_tensor(rows_y)
        self.rows_b = torch.tensor(right[kept])
        self.tightening = torch.zeros_like(self.rows_b)
        self.constraint_has_interior = torch.tensor(~is_equality[kept])
        self._margin = CONSTRAINT_MARGIN * self.constraint_has_interior.double()

    def _right_hand_sides(self, on_outputs: ndarray) -> tuple[ndarray, ndarray]:
        """Right-hand sides of the constraints on outputs, less the terms of fixed variables, and of
        the bounds of outputs; and which of them are those of equalities.
        """
        milp = self.milp
        fixed = np.where((milp.lower >= milp.upper) & ~self.instance.is_output, milp.lower, 0.0)
        constant = milp.rows[on_outputs] @ fixed
        row_lower = milp.row_lower[on_outputs] - constant
        row_upper = milp.row_upper[on_outputs] - constant
        lower = milp.lower[self.output_positions]
        upper = milp.upper[self.output_positions]
        equalities = [row_lower == row_upper] * 2 + [lower == upper] * 2
        # every class satisfies the bounds 0 and 1
        classes = self.instance.classes
        lower = np.where(classes & (lower <= 0), -np.inf, lower)
        upper = np.where(classes & (upper >= 1), np.inf, upper)
        return np.concatenate([row_upper, -row_lower, upper, -lower]), np.concatenate(equalities)

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        r"""Return $\hat y$: a prediction as it is, a class by the sigmoid of its logit."""
        if not self._any_class:
            return raw
        is_class = torch.from_numpy(self.instance.classes)
        return torch.where(is_class, torch.sigmoid(raw / self.temperature), raw)

    def surrogate_and_derivative(self, raw: ndarray) -> tuple[ndarray, ndarray | float]:
        if not self._any_class:
            return raw, 1.0
        soft = expit(raw / self.temperature)
        derivative = soft * (1.0 - soft) / self.temperature
        if self._all_classes:
            return soft, derivative
        classes = self.instance.classes
        return np.where(classes, soft, raw), np.where(classes, derivative, 1.0)

    def end_cycle(self) -> None:
        """Change the temperature, unless the user has set it.

        With a sharp sigmoid only samples near their threshold have a gradient, which suits tight
        budgets; with a soft one the others have a gradient too, which suits large budgets.
        """
        self.temperature = next(self._temperatures)

    def tighten(self, x: ndarray) -> None:
        """Update the tightening by the violation or slack of the true network at x."""
        if not len(self.rows_b):
            return
        pairs = zip(self.instance.predictors, self.predictions(x), strict=True)
        y = np.concatenate([predictor.outputs_of(raw).ravel() for predictor, raw in pairs])
        h = self.constraint_values(torch.tensor(x), torch.tensor(y))
        self.tightening = torch.relu(self.tightening + h + self._margin)

    def block_model(self, seed: int = 0) -> Model:
        """Return a SCIP copy of the user's model without the constraints on outputs."""
        model = copy_model(self.instance.model, seed)
        variables = model.getVars()
        outputs = {variables[at].ptr() for at in np.flatnonzero(self.instance.is_output)}
        for constraint in model.getConss():
            if any(v.ptr() in outputs for v in model.getConsVars(constraint) or ()):
                model.delCons(constraint)
        return model

    def scale(self, gain: float, seed: int) -> Penalty:
        r"""Return $4\,\mathrm{rms}(\nabla F)$ divided by half the width of the box.

        On integers the iterates stall for penalties above $2 \lVert\nabla F\rVert_\infty$, so
        there it is a quarter of the root mean square of $\nabla F$. Gradients are taken at the
        start; on integers, and where the network's gradient is zero at the start, at random points
        of the box too.
        """
        integer = self.milp.integer[self.inputs]
        gradient = self._gradients([self.start])
        of_networks = gradient - self.cost[self.inputs] * self.input_unit
        if integer.any() or np.abs(of_networks).max() < ZERO_GRADIENT:
            gradient = self._gradients([self.start, *self._sample(SCALE_SAMPLES, seed)])
        if integer.any():
            gradient = (gradient * self.input_unit)[:, integer]
            scale = INTEGER_SCALE * np.sqrt(np.mean(gradient**2))
        else:
            width = (self.box[1] - self.box[0]) / self.input_unit
            half_width = float(np.mean(width) / 2)
            scale = CONTINUOUS_SCALE * np.sqrt(np.mean(gradient**2)) / half_width
        return Penalty.both(float(scale) if scale > 1e-12 else 1.0)

    def _sample(self, n: int, seed: int) -> ndarray:
        """Return random points of the box."""
        lower, upper = self.box
        return lower + (upper - lower) * np.random.default_rng(seed).random((n, lower.size))

    def _gradients(self, points: list[ndarray]) -> ndarray:
        """Gradients of F in units of `input_unit`, without the hinge unless the objective is
        constant.
        """
        gradients = np.array([self.gradient(p, with_hinge=False) for p in points])
        gradients += self.cost[self.inputs]
        if len(self.rows_b) and np.abs(gradients).max() < ZERO_OBJECTIVE_GRADIENT:
            gradients = np.array([self.gradient(p) for p in points])
        return gradients * self.input_unit

    @torch.enable_grad()
    def _estimate_hinge_weight(self) -> float:
        """Weight with which the hinge of a typical violation has `HINGE_RATIO` times the gradient
        of the objective.
        """
        values = []
        constraint_gradients = []
        cost_gradients = []
        for sample in self._sample(HINGE_SAMPLES, seed=0):
            u = torch.tensor(sample, requires_grad=True)
            value = self.rows_u @ u + self.rows_y @ self.outputs(u)
            values.append(value.detach())
            constraint_gradients.append(vjp([value.sum()], u))
            of_cost = self.gradient(sample, with_hinge=False) + self.cost[self.inputs]
            cost_gradients.append(torch.from_numpy(of_cost))
        spread = torch.stack(values).std(dim=0).pow(2).mean().sqrt().item()
        of_constraints = _root_mean_square(constraint_gradients)
        if of_constraints <= 0:
            return 1.0
        largest = max(_root_mean_square(cost_gradients), of_constraints)
        return HINGE_RATIO * largest / max(of_constraints * spread, 1e-12)

    def _median_logit(self) -> float:
        """Median absolute logit at the start, 1 where it is zero or there is none."""
        pairs = zip(self.instance.predictors, self.predictions(self.start), strict=True)
        logits = [np.abs(raw).ravel() for predictor, raw in pairs if predictor.gives_class]
        size = float(np.median(np.concatenate(logits))) if logits else 0.0
        return size if size > MIN_LOGIT else 1.0


class NotSeparable(ProblemError):
    """The paper split does not exist for this problem."""


def _root_mean_square(gradients: list[torch.Tensor]) -> float:
    return torch.stack(gradients).pow(2).mean().sqrt().item()


def _sparse_tensor(matrix: sp.csr_matrix) -> torch.Tensor:
    coo = matrix.tocoo()
    index = torch.tensor(np.vstack([coo.row, coo.col]))
    values = torch.tensor(coo.data)
    return torch.sparse_coo_tensor(index, values, coo.shape, check_invariants=True).coalesce()
