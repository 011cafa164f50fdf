"""A `NeuralMIP` read into arrays at the moment of solving: what all solvers work on."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from pyscipopt import Model, quicksum
from scipy.optimize import Bounds, LinearConstraint, milp

from ..device import place
from ..errors import ProblemError
from .onoff import OnOff, OnOffRow
from .predictor import Predictor, is_variable
from .scip import ROW_HANDLERS, Snapshot, copy_model, fix, matrix_of, read_model, set_time_limit, solution_values
from .verification import TOLERANCE, Verification, relative_violation


@dataclass(frozen=True)
class InputMap:
    """Where the inputs of one predictor sit: `index` into a full assignment, or -1 for a constant."""

    index: np.ndarray
    constant: np.ndarray
    output: np.ndarray

    def at(self, values: np.ndarray) -> np.ndarray:
        """The input matrix at a full assignment."""
        return np.where(self.index >= 0, values[self.index], self.constant)


class Compiled:
    """A `NeuralMIP` read into arrays at the moment of solving: what all solvers work on."""

    def __init__(self, model: Model, predictors: list[Predictor]) -> None:
        if not predictors:
            raise ProblemError("the problem has no predictor: call problem.add_predictor(net, x, y) first.")
        self.model = model
        self.predictors = predictors
        self.snapshot: Snapshot = read_model(model)
        self.maps = [self._locate(p) for p in predictors]
        self.onoff: list[OnOff] = []
        """Outputs that a binary switches off, where a split has found some: `complete` is faster with them."""
        self._asked: list[np.ndarray] = []
        self._said: list[np.ndarray] = []
        self.is_output = np.zeros(self.snapshot.n_variables, dtype=bool)
        for m in self.maps:
            self.is_output[m.output] = True

    def elsewhere(self, device: torch.device) -> Compiled:
        """The same with the networks on another device, in double precision; all else is shared."""
        other = copy.copy(self)
        placed = [place(p.net, device, torch.float64, torch.zeros(p.inputs.shape).double()) for p in self.predictors]
        pairs = zip(self.predictors, placed, strict=True)
        other.predictors = [replace(p, net=net) for p, net in pairs]  # type: ignore[arg-type]  # it is called alike
        other._asked, other._said = [], []
        return other

    def _locate(self, predictor: Predictor) -> InputMap:
        position, lower, upper = self.snapshot.position, self.snapshot.lower, self.snapshot.upper
        index = np.full(predictor.inputs.shape, -1)
        constant = np.zeros(predictor.inputs.shape)
        for cell, entry in np.ndenumerate(predictor.inputs):
            if not is_variable(entry):
                constant[cell] = float(entry)
                continue
            at = position[entry.ptr()]
            if not (np.isfinite(lower[at]) and np.isfinite(upper[at])):
                raise ProblemError(f"input variable {entry.name} is unbounded: give it finite lb and ub.")
            index[cell] = at
        output = np.array([[position[v.ptr()] for v in row] for row in predictor.outputs])
        return InputMap(index, constant, output)

    def inputs(self, values: np.ndarray) -> list[np.ndarray]:
        """Input matrices of the predictors at a full assignment."""
        return [m.at(values) for m in self.maps]

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """The same assignment with every integer variable at an integer."""
        return np.where(self.snapshot.integer, np.round(values), values)

    def with_outputs(self, values: np.ndarray) -> np.ndarray:
        """The same assignment with every integer rounded and every output replaced by the true network's."""
        values = self.rounded(values)
        for predictor, m, raw in zip(self.predictors, self.maps, self.raws(values), strict=True):
            values[m.output] = predictor.outputs_of(raw)
        return values

    def raws(self, values: np.ndarray) -> list[np.ndarray]:
        """What each network says at a full assignment; kept, since a point is asked for its outputs, then checked."""
        inputs = self.inputs(values)
        if not self._asked or not all(map(np.array_equal, inputs, self._asked)):
            self._asked, self._said = inputs, [p.raw(x) for p, x in zip(self.predictors, inputs, strict=True)]
        return self._said

    def check(self, values: np.ndarray, tolerance: float = TOLERANCE) -> Verification:
        """Verify a full assignment: rows, bounds, integrality, outputs, other constraints."""
        s = self.snapshot
        if values.shape != (s.n_variables,):
            raise ProblemError(f"a point has {s.n_variables} values, one for each variable; got {values.shape}.")
        known = np.isfinite(values) | self.is_output
        if not known.all():
            raise ProblemError(f"the point has no finite value for {s.names[int(np.argmin(known))]}.")
        raws = self.raws(values)
        if not all(np.isfinite(raw).all() for raw in raws):
            return Verification.impossible("the network's output is NaN or infinite here", tolerance)
        if not np.isfinite(values).all():
            return Verification.impossible("an output variable has no finite value", tolerance)
        rows = relative_violation(s.rows @ values, s.row_lower, s.row_upper)
        bounds = relative_violation(values, s.lower, s.upper)
        integrality = np.where(s.integer, np.abs(values - np.round(values)), 0.0)
        error, wrong, logit = 0.0, 0, np.inf
        for predictor, m, raw in zip(self.predictors, self.maps, raws, strict=True):
            difference = np.abs(values[m.output] - predictor.outputs_of(raw))
            if predictor.kind == "classification":
                wrong += int((difference > 0.5).sum())
                logit = min(logit, float(np.abs(raw).min()))
            else:
                error = max(error, float((difference / np.maximum(1.0, np.abs(raw))).max()))
        linear_ok = max(rows.max(initial=0.0), bounds.max(initial=0.0)) <= tolerance
        worst = ""
        if rows.size and rows.max() > tolerance:
            worst = f"row {s.row_names[int(rows.argmax())]}"
        elif bounds.size and bounds.max() > tolerance:
            worst = f"bound of {s.names[int(bounds.argmax())]}"
        elif integrality.max(initial=0.0) > tolerance:
            worst = f"integrality of {s.names[int(integrality.argmax())]}"
        elif wrong or error > tolerance:
            worst = "an output variable differs from what the network says"
        return Verification(
            objective=s.objective(values),
            row_violation=float(rows.max(initial=0.0)),
            bound_violation=float(bounds.max(initial=0.0)),
            integrality_violation=float(integrality.max(initial=0.0)),
            output_error=error,
            wrong_classes=wrong,
            smallest_logit=None if logit == np.inf else logit,
            other_violations=self._check_others(values) if linear_ok else (),
            worst=worst,
            tolerance=tolerance,
        )

    @cached_property
    def _checker(self) -> tuple[Model, Any]:
        model = copy_model(self.model)
        model.setObjective(0.0)
        return model, model.getVars()

    def _check_others(self, values: np.ndarray) -> tuple[str, ...]:
        """Constraints that are no rows: SCIP judges a copy in which every variable is fixed, all of them together."""
        if not self.snapshot.others:
            return ()
        model, variables = self._checker
        model.freeTransform()
        fix(model, variables, values)
        model.optimize()
        if model.getNSols():
            return ()
        return tuple(f"{c.kind} {c.name}" for c in self.snapshot.others)

    def complete(self, inputs: list[np.ndarray], seconds: float = 10.0) -> np.ndarray | None:
        """Best full assignment with these network inputs: outputs from the network, the rest by HiGHS or SCIP."""
        s = self.snapshot
        values = np.full(s.n_variables, np.nan)
        for m, x in zip(self.maps, inputs, strict=True):
            values[m.index[m.index >= 0]] = x[m.index >= 0]
        values = self.rounded(values)
        fixed = ~np.isnan(values)
        values[fixed] = np.clip(values, s.lower, s.upper)[fixed]
        outputs = self.with_outputs(np.where(fixed, values, 0.0))
        values[self.is_output] = outputs[self.is_output]
        fixed |= self.is_output
        if not fixed.all() and not s.others and not s.integer[~fixed].any():
            return self._completed_by_lp(values, fixed, seconds)
        if not fixed.all():
            model, variables, switched = self._completer
            model.freeTransform()
            fix(model, variables, np.where(fixed, values, np.nan))
            for y, b, row, constraint in switched:
                model.chgCoefLinear(constraint, variables[b], row.sigma * values[y] - row.on + row.off)
            set_time_limit(model, seconds)
            model.optimize()
            if model.getNSols() == 0:
                return None
            rest = solution_values(model, matrix_of(variables))
            values = np.where(fixed, values, rest)
        return self.with_outputs(values)

    def _completed_by_lp(self, values: np.ndarray, fixed: np.ndarray, seconds: float) -> np.ndarray | None:
        """The rest is continuous and meets rows alone: no copy of the model is needed."""
        s = self.snapshot
        given, free = s.rows[:, fixed] @ values[fixed], s.rows[:, ~fixed]
        met = np.diff(free.indptr) > 0
        if relative_violation(given[~met], s.row_lower[~met], s.row_upper[~met]).max(initial=0.0) > TOLERANCE:
            return None
        rows = LinearConstraint(free[met], (s.row_lower - given)[met], (s.row_upper - given)[met])
        bounds = Bounds(s.lower[~fixed], s.upper[~fixed])
        answer = milp(s.sign * s.cost[~fixed], constraints=rows, bounds=bounds, options={"time_limit": seconds})
        if answer.x is None:
            return None
        values[~fixed] = np.clip(answer.x, bounds.lb, bounds.ub)
        return self.with_outputs(values)

    @cached_property
    def _completer(self) -> tuple[Model, Any, list[tuple[int, int, OnOffRow, Any]]]:
        """A copy of the model whose inputs and outputs get fixed; rows on on/off outputs stand in their tight form."""
        model = copy_model(self.model)
        variables, switched = model.getVars(), []
        rows = [c for c in model.getConss() if c.getConshdlrName() in ROW_HANDLERS]
        for onoff in self.onoff:
            for r in onoff.replaced:
                model.delCons(rows[r])
            for row in onoff.rows:
                others = quicksum(a * variables[i] for i, a in row.others.items())
                constraint = model.addCons(others + variables[onoff.switch] <= row.off)
                switched.append((onoff.variable, onoff.switch, row, constraint))
        return model, variables, switched
