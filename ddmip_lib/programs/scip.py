"""A user's `pyscipopt.Model`: read once into plain arrays, copied, fixed and solved.

Everything that the library does with a model goes through such arrays or through a copy that SCIP
makes of it, so the user's own model is never changed.
"""

import signal
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy import ndarray
from pyscipopt import SCIP_EVENTTYPE, MatrixVariable, Model

from ..clock import now
from ..errors import ProblemError
from .program import Program, Rows, stacked_rows

ROW_HANDLERS = {"linear", "knapsack", "setppc", "logicor", "varbound"}
"""SCIP's handlers of linear constraints."""
SECONDS_WITHOUT_INTERRUPT = 0.2
"""A model whose last solve took less is not interrupted: Ctrl-C takes effect after its solve."""


@dataclass(frozen=True)
class OtherConstraint:
    """A constraint that is not linear (indicator, SOS, nonlinear, ...), which SCIP itself checks.

    Attributes
    ----------
    name, kind
        Its name, and the name of SCIP's constraint handler.
    variables
        Indices of its variables.
    negated
        Whether the first variable is the negation of a binary.
    quadratic
        The expression of a quadratic constraint, None for other kinds.
    """

    name: str
    kind: str
    variables: tuple[int, ...]
    negated: bool = False
    quadratic: "Quadratic | None" = None


@dataclass(frozen=True)
class Quadratic:
    r"""The constraint $l \le \sum_{ij} q_{ij} v_i v_j + a^\top v \le u$.

    Attributes
    ----------
    products
        Indices $i$, $j$ and coefficients of the products, squares among them.
    linear
        Indices and coefficients of the linear terms.
    low, high
        Its sides.
    """

    products: tuple[tuple[int, int, float], ...]
    linear: tuple[tuple[int, float], ...]
    low: float
    high: float

    @property
    def factors(self) -> list[int]:
        """The variables of the products."""
        return sorted({v for one, other, _ in self.products for v in (one, other)})

    def largest_value(self, sizes: ndarray) -> float:
        """Return a bound of the sum of the absolute terms, from sizes of all variables."""
        products = sum(abs(a) * sizes[v] * sizes[w] for v, w, a in self.products)
        return float(products + sum(abs(a) * sizes[v] for v, a in self.linear))


@dataclass(frozen=True)
class MILP:
    r"""The model $\min s\,(c^\top v + c_0)$ s.t. $l_A \le A v \le u_A$, $l \le v \le u$,
    integrality.

    Variables are numbered as `Model.getVars` lists them.

    Attributes
    ----------
    sign
        $s$: 1 for a model that minimises, -1 for one that maximises.
    cost, offset
        $c$ and $c_0$, in the sense of the user's model.
    lower, upper, integer, names
        Bounds of the variables, which of them are integer, and their names.
    position
        Index of a variable by its pointer.
    rows, row_lower, row_upper, row_names
        The linear constraints: $A$, $l_A$, $u_A$ and their names.
    others
        All other constraints.
    """

    sign: float
    cost: ndarray
    offset: float
    lower: ndarray
    upper: ndarray
    integer: ndarray
    names: list[str]
    position: dict[int, int]
    rows: sp.csr_matrix
    row_lower: ndarray
    row_upper: ndarray
    row_names: list[str]
    others: tuple[OtherConstraint, ...]

    @property
    def binary(self) -> ndarray:
        """Which variables are integer with bounds 0 and 1."""
        return self.integer & (self.lower == 0) & (self.upper == 1)

    @property
    def kind(self) -> ndarray:
        """Place of each variable's type where SCIP lists a new model: 0 for a binary one, to which
        an integer one fixed at 0 or 1 belongs, 1 for other integers, 2 for continuous ones.
        """
        within = (self.lower >= 0) & (self.upper <= 1)
        return np.select([self.integer & within, self.integer], [0, 1], default=2)

    @property
    def program(self) -> Program:
        """The program as a minimisation, without constraints that are not linear."""
        return Program(
            self.sign * self.cost,
            Rows.of(self.rows),
            *self.sides,
            self.lower,
            self.upper,
            self.integer,
            self.sign * self.offset,
        )

    def objective(self, values: ndarray) -> float:
        """Return the objective at a full assignment, in the sense of the user's model."""
        return float(self.cost @ values + self.offset)

    def is_monotone(self, at: int) -> bool:
        """Return whether a larger value of variable `at` never makes a point worse.

        The objective and all constraints must be monotone in it, and 1 within its bounds.
        """
        if self.upper[at] < 1 or self.sign * self.cost[at] > 0:
            return False
        if any(at in constraint.variables for constraint in self.others):
            return False
        column = self.rows[:, [at]].toarray().ravel()
        limits = np.append(self.row_upper[column > 0], self.row_lower[column < 0])
        return bool(np.isinf(limits).all())

    @property
    def n_variables(self) -> int:
        return len(self.cost)

    @property
    def n_rows(self) -> int:
        return len(self.row_lower)

    @property
    def sides(self) -> tuple[ndarray, ndarray]:
        """Lower and upper sides of the linear constraints."""
        return self.row_lower, self.row_upper


def is_integral(variable: Any) -> bool:
    """Return whether a variable is integer or binary."""
    if hasattr(variable, "isIntegral"):
        return bool(variable.isIntegral())
    return bool(variable.vtype() != "CONTINUOUS")  # PySCIPOpt 5


def excess(values: ndarray, lower: ndarray | float, upper: ndarray | float) -> ndarray:
    """Return by how much each value is below its lower or above its upper bound."""
    violation: ndarray = np.maximum(np.maximum(lower - values, values - upper), 0.0)
    return violation


def relative_violation(values: ndarray, lower: ndarray, upper: ndarray) -> ndarray:
    """Return the violation of lower <= values <= upper, relative to max(1, |side|)."""
    return np.maximum(
        excess(values, lower, np.inf) / np.maximum(1.0, np.abs(lower)),
        excess(values, -np.inf, upper) / np.maximum(1.0, np.abs(upper)),
    )


def require_unsolved(model: Model) -> None:
    """Check that SCIP has neither transformed nor solved a model.

    Raises
    ------
    ProblemError
        If it has.
    """
    if model.getStageName() != "PROBLEM":
        raise ProblemError(
            f"the model is in SCIP's stage {model.getStageName()}: it was already presolved or"
            " optimised. Call model.freeTransform() first, or build a fresh model."
        )


@cache
def _default_parameters() -> Collection[str]:
    return Model().getParams().keys()


def require_copyable(model: Model) -> None:
    """Check that SCIP copies the whole model: it loses constraint handlers and pricers in Python.

    They are recognised by their parameters, since PySCIPOpt lists neither.

    Raises
    ------
    ProblemError
        If the model has a constraint handler or a pricer of its own.
    """
    plugins = []
    for parameter in model.getParams().keys() - _default_parameters():
        parts = parameter.split("/")
        if parts[0] == "constraints" and parts[-1] == "sepafreq":
            plugins.append(f"constraint handler {parts[1]!r}")
        elif parts[0] == "pricers":
            plugins.append(f"pricer {parts[1]!r}")
    if plugins:
        raise ProblemError(
            f"the model has a {min(plugins)} of its own, which copies lose: neither solvers nor"
            " verify would apply it. Write what it requires as constraints, or build the model"
            " without it."
        )


def read_model(model: Model) -> MILP:
    """Read variables, objective and constraints of a model, which is not changed.

    Parameters
    ----------
    model
        The model.

    Returns
    -------
    MILP
        The same model as arrays.

    Raises
    ------
    ProblemError
        If the model was solved already, or has parts that cannot be read or copied.
    """
    require_unsolved(model)
    require_copyable(model)
    infinity = model.infinity()
    variables = model.getVars()
    reader = _ConstraintReader(model, variables)
    linear: list[Any] = []
    others: list[Any] = []
    for constraint in model.getConss():
        part = linear if constraint.getConshdlrName() in ROW_HANDLERS else others
        part.append(constraint)
    return MILP(
        sign=1.0 if model.getObjectiveSense() == "minimize" else -1.0,
        cost=np.array([v.getObj() for v in variables], dtype=float),
        offset=float(model.getObjoffset()),
        lower=_finite_or_inf([v.getLbOriginal() for v in variables], infinity),
        upper=_finite_or_inf([v.getUbOriginal() for v in variables], infinity),
        integer=np.array([is_integral(v) for v in variables], dtype=bool),
        names=[v.name for v in variables],
        position=reader.position,
        rows=stacked_rows([reader.row(constraint) for constraint in linear], len(variables)),
        row_lower=_finite_or_inf([model.getLhs(constraint) for constraint in linear], infinity),
        row_upper=_finite_or_inf([model.getRhs(constraint) for constraint in linear], infinity),
        row_names=[constraint.name for constraint in linear],
        others=tuple(reader.other(constraint) for constraint in others),
    )


class _ConstraintReader:
    """Reads constraints of a model."""

    def __init__(self, model: Model, variables: list[Any]) -> None:
        self.model = model
        self.position = {v.ptr(): i for i, v in enumerate(variables)}
        self.position_by_name = {v.name: i for i, v in enumerate(variables)}

    def row(self, constraint: Any) -> tuple[list[int], list[float]]:
        """Return the variables of a linear constraint, by their index, and its coefficients."""
        variables: Any = self.model.getConsVars(constraint) or ()
        columns = [self.position.get(v.ptr(), -1) for v in variables]
        if -1 in columns:
            raise ProblemError(
                f"constraint {constraint.name} holds a negated variable ~b: write it as 1 - b."
            )
        return columns, self.model.getConsVals(constraint) or []

    def other(self, constraint: Any) -> OtherConstraint:
        """Return a constraint that is not linear."""
        kind = constraint.getConshdlrName()
        variables: Any = self.model.getConsVars(constraint) or ()
        return OtherConstraint(
            constraint.name,
            kind,
            variables=tuple(self._index(v) for v in variables),
            negated=kind == "indicator" and variables[0].ptr() not in self.position,
            quadratic=self._quadratic(constraint) if kind == "nonlinear" else None,
        )

    def _quadratic(self, constraint: Any) -> Quadratic | None:
        """Return a nonlinear constraint as a quadratic one, None if it is of another form."""
        if not self.model.checkQuadraticNonlinear(constraint):
            return None
        found: Any = self.model.getTermsQuadratic(constraint)
        products, squares, linear = found
        products = [*products, *((v, v, a) for v, a, _ in squares if a)]
        linear = [*linear, *((v, a) for v, _, a in squares if a)]
        sides = [self.model.getLhs(constraint), self.model.getRhs(constraint)]
        return Quadratic(
            tuple((self._index(v), self._index(w), float(a)) for v, w, a in products),
            tuple((self._index(v), float(a)) for v, a in linear),
            *_finite_or_inf(sides, self.model.infinity()).tolist(),
        )

    def _index(self, variable: Any) -> int:
        """Return the index of a variable; SCIP lists the negation of b as a variable b_neg."""
        by_name = self.position_by_name.get(variable.name.removesuffix("_neg"))
        index = self.position.get(variable.ptr(), by_name)
        if index is None:
            raise ProblemError(
                f"variable {variable.name} of a constraint is not among the model's variables."
            )
        return index


def copy_model(model: Model, seed: int = 0) -> Model:
    """Return a silent, independent copy of the original problem, variables in the same order."""
    copy = Model(sourceModel=model, origcopy=True)
    copy.resetParams()  # limits that the user set for their own solve would silently cut ours short
    set_quiet(copy, seed)
    return copy


def set_quiet(model: Model, seed: int) -> None:
    """Let a model print nothing, leave Ctrl-C to `optimise`, and use this random seed."""
    model.hideOutput()
    model.setParam("misc/catchctrlc", False)
    model.setParam("randomization/randomseedshift", int(seed) % 2_000_000_000)


def set_time_limit(model: Model, seconds: float) -> None:
    """Set the time limit of a model, which may be infinite or negative."""
    model.setParam("limits/time", float(min(max(seconds, 0.0), 1e20)))


def optimise(model: Model, seconds: float, raised: Sequence[BaseException] | None = None) -> None:
    """Solve a model of the library's own.

    Ctrl-C ends the solve with status "userinterrupt", and `KeyboardInterrupt` is raised after it.
    Python itself would raise it at the end of the solve, or inside a callback, where SCIP takes it
    for an error. SCIP loses a signal that comes as it ends, so solves that are brief and have no
    callback are not interrupted, nor are those outside the main thread, which gets no signals.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit.
    raised
        The list of `add_event_handlers`, whose exceptions are raised after the solve.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C.
    """
    may_be_long = model.data is None or model.data > SECONDS_WITHOUT_INTERRUPT
    interruptible = (
        threading.current_thread() is threading.main_thread()
        and callable(signal.getsignal(signal.SIGINT))
        and (raised is not None or may_be_long)
    )
    model.setParam("misc/catchctrlc", interruptible)
    set_time_limit(model, seconds)
    began = now()
    model.optimize()
    model.data = now() - began
    for problem in raised or ():
        raise problem
    if interruptible and model.getStatus() == "userinterrupt":
        signal.raise_signal(signal.SIGINT)


def add_event_handlers(
    model: Model,
    on_incumbent: Callable[[Model], Any],
    after_node: Callable[[Model], Any] | None = None,
) -> list[BaseException]:
    """Call functions during a solve.

    Parameters
    ----------
    model
        The model.
    on_incumbent
        Function that is called with the model at every new incumbent.
    after_node
        Function that is called with the model after every node.

    Returns
    -------
    list of BaseException
        Filled with the exception that one of them raises, which ends the solve: it must not pass
        through SCIP. `optimise` raises it again.
    """
    raised: list[BaseException] = []

    def attach(event: Any, function: Callable[[Model], Any], name: str) -> None:
        def on_event(scip: Model, _: Any) -> None:
            try:
                if not raised:
                    function(scip)
            except BaseException as problem:
                raised.append(problem)
                scip.interruptSolve()

        model.attachEventHandlerCallback(on_event, [event], name=name)

    attach(SCIP_EVENTTYPE.BESTSOLFOUND, on_incumbent, "verify incumbents")
    if after_node is not None:
        attach(SCIP_EVENTTYPE.NODESOLVED, after_node, "report nodes")
    return raised


def has_point(model: Model, seconds: float = 60.0) -> bool:
    """Return whether a model may have a feasible point; False only if SCIP proves that it has none.

    The model is solved without its objective.
    """
    model.setObjective(0.0)
    optimise(model, seconds)
    return bool(model.getStatus() != "infeasible")


def change_bounds(model: Model, variables: Sequence[Any], lower: ndarray, upper: ndarray) -> None:
    """Give variables these bounds, where they are finite."""
    for variable, low, high in zip(variables, lower.tolist(), upper.tolist(), strict=True):
        if low > high:  # there is no point, and SCIP is to find that out
            model.addCons(variable >= low)
            model.addCons(variable <= high)
            continue
        if np.isfinite(low):
            model.chgVarLb(variable, low)
        if np.isfinite(high):
            model.chgVarUb(variable, high)


def fix(model: Model, variables: Sequence[Any], values: ndarray) -> None:
    """Fix each variable whose value is not NaN."""
    change_bounds(model, variables, values, values)


def solve_fixed(
    model: Model, variables: Sequence[Any], values: ndarray, seconds: float
) -> ndarray | None:
    """Solve a model with each variable fixed whose value is not NaN.

    Parameters
    ----------
    model
        The model.
    variables, values
        Its variables, and one value for each.
    seconds
        Time limit.

    Returns
    -------
    numpy.ndarray or None
        The values of the variables in the best solution; None if there is none.
    """
    fix(model, variables, values)
    optimise(model, seconds)
    return solution_values(model, variables) if model.getNSols() else None


def add_start(model: Model, variables: Sequence[Any], values: ndarray) -> None:
    """Let SCIP start from a point; variables that are left out are 0."""
    start = model.createSol()
    for variable, value in zip(variables, values, strict=True):
        model.setSolVal(start, variable, value)
    model.addSol(start)


def matrix_of(variables: Any) -> MatrixVariable:
    """Return a list of variables as one vector that PySCIPOpt handles at once."""
    return np.array(variables, dtype=object).view(MatrixVariable)


def solution_values(model: Model, variables: Any) -> ndarray:
    """Return the values of `variables`, a list or vector, in the best solution of `model`."""
    best = model.getBestSol()  # which before PySCIPOpt 6.1 takes no vectors
    return np.array([model.getSolVal(best, variable) for variable in variables], dtype=float)


def _finite_or_inf(values: list[float], infinity: float) -> ndarray:
    array = np.array(values, dtype=float)
    return np.where(np.abs(array) >= infinity, np.copysign(np.inf, array), array)
