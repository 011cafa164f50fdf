"""A problem stated by arrays: the same `NeuralMIP`, where millions of variables of SCIP would be
the bottleneck.
"""

from functools import cached_property
from typing import Any

import numpy as np
from pyscipopt import Model, quicksum

from ..errors import ProblemError
from ..programs.scip import MILP, add_rows, add_variables
from .exported import Network
from .instance import Instance
from .network_checks import on_copies, validate_network
from .predictor import KINDS, Predictor, frozen_double, output_width
from .problem import NeuralMIP


class ArrayMIP(NeuralMIP):
    """A `NeuralMIP` whose rows, bounds and objective are a `MILP`; networks connect variables by
    their numbers.

    Everything works as on a model, verification included. `model` is built when a method first
    needs SCIP itself; from then on the model is what counts, so that rows may be added to it.

    >>> import scipy.sparse as sp
    >>> from torch import nn
    >>> one = np.ones(3)
    >>> milp = MILP(
    ...     -1.0,
    ...     np.array([0.0, 0.0, 1.0]),
    ...     0.0,
    ...     -one,
    ...     one,
    ...     one > 1,
    ...     ["x0", "x1", "y"],
    ...     {},
    ...     sp.csr_matrix([[1.0, 1.0, 0.0]]),
    ...     -np.inf * one[:1],
    ...     one[:1],
    ...     ["budget"],
    ...     (),
    ... )
    >>> problem = ArrayMIP(milp)
    >>> _ = problem.add_predictor(nn.Linear(2, 1).eval(), [[0, 1]], [[2]])
    >>> problem
    ArrayMIP
      maximise, 3 variables (0 integer), 1 row
      predictor 0  Linear, regression, 1 x 2 -> 1 x 1
    """

    def __init__(self, milp: MILP, name: str = "") -> None:
        kind = np.where(~milp.integer, 2, np.where((milp.lower == 0) & (milp.upper == 1), 0, 1))
        if (np.diff(kind) < 0).any():
            raise ProblemError(
                "state binary variables first, then other integers, then the rest: as SCIP lists"
                " them."
            )
        self.milp = milp
        self.name = name
        self.predictors = []
        self.start = None
        self.start_point = {}
        self.blocks = None
        self.start_failed = False

    @cached_property
    def model(self) -> Model:  # type: ignore[override]  # there an attribute
        """The same as a model of SCIP."""
        return model_of(self.milp)

    def add_predictor(
        self, net: Network, inputs: Any, outputs: Any = None, output: str = "regression"
    ) -> Predictor:
        """Add the constraint outputs = net(inputs), row by row; both are matrices of numbers of
        variables.
        """
        s = self.milp
        frozen = frozen_double(net)
        kind = KINDS[output]
        x = np.asarray(inputs, dtype=int)
        y = np.asarray(outputs, dtype=int)
        shape = len(x), output_width(frozen, x.shape[1])
        if y.shape != shape or len(np.unique(y)) < y.size:
            raise ProblemError(
                f"outputs have shape {y.shape}, but must be {shape}, a variable of its own for"
                " each."
            )
        if not np.isfinite(s.upper[x] - s.lower[x]).all():
            raise ProblemError("an input variable is unbounded: give it finite bounds.")
        if kind.gives_class and not (s.integer[y] & (s.lower[y] >= 0) & (s.upper[y] <= 1)).all():
            raise ProblemError("a variable that carries a class must be binary.")
        frozen = on_copies(frozen, s.lower[x], s.upper[x])
        validate_network(frozen, s.lower[x], s.upper[x], kind.gives_class)
        self.predictors.append(kind(frozen, x, y, type(net).__name__))
        return self.predictors[-1]

    def instance(self) -> Instance:
        """The problem as arrays and maps."""
        milp = None if "model" in self.__dict__ else self.milp
        return Instance(lambda: self.model, self.predictors, self.start_point, milp)

    def __repr__(self) -> str:
        s = self.milp
        rows = self.milp.n_rows
        lines = [
            f"ArrayMIP {self.name}".rstrip(),
            (
                f"  {'min' if s.sign > 0 else 'max'}imise, {s.n_variables} variables"
                f" ({int(s.integer.sum())} integer), {rows} row{'s' * (rows != 1)}"
            ),
        ]
        for i, p in enumerate(self.predictors):
            shapes = [" x ".join(map(str, grid.shape)) for grid in (p.inputs, p.outputs)]
            lines.append(f"  predictor {i}  {p.name}, {p.kind}, {shapes[0]} -> {shapes[1]}")
        return "\n".join(lines)


def model_of(milp: MILP) -> Model:
    """A model of SCIP with the variables, rows and objective of a `MILP`, in its order."""
    model = Model()
    variables = add_variables(model, milp.lower, milp.upper, milp.integer, milp.names)
    add_rows(model, variables, milp.rows, *milp.sides, milp.row_names)
    cost = (
        quicksum(c * v for c, v in zip(milp.cost.tolist(), variables, strict=True) if c)
        + milp.offset
    )
    model.setObjective(cost, "minimize" if milp.sign > 0 else "maximize")
    return model
