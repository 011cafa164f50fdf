"""A user's `pyscipopt.Model`: read once into plain arrays, copied, fixed, asked.

Everything that the library does with a model goes through such arrays or through a copy that SCIP
makes of it, so the user's own model is never changed.
"""

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from pyscipopt import SCIP_EVENTTYPE, MatrixVariable, Model, quicksum

from ..clock import check_time, now
from ..errors import ProblemError

ROW_HANDLERS = {"linear", "knapsack", "setppc", "logicor", "varbound"}
# seconds: a model that took less the last time is not interrupted, Ctrl-C is heard after it
BRIEF = 0.2


@dataclass(frozen=True)
class OtherConstraint:
    """A constraint that is no linear row (indicator, SOS, nonlinear, ...): SCIP itself
    checks it.
    """

    name: str
    kind: str
    variables: tuple[int, ...]


@dataclass(frozen=True)
class MILP:
    r"""The model $\min s\,(c^\top v + c_0)$ s.t. $l_A \le A v \le u_A$, $l \le v \le u$,
    integrality.

    ``sign`` is $s = 1$ for a model that minimises and $-1$ for one that maximises; ``cost`` and
    ``offset`` are in the sense of the user's model. Variables are numbered as `Model.getVars` lists
    them.
    """

    sign: float
    cost: np.ndarray
    offset: float
    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    names: list[str]
    position: dict[int, int]
    rows: sp.csr_matrix
    row_lower: np.ndarray
    row_upper: np.ndarray
    row_names: list[str]
    others: tuple[OtherConstraint, ...]

    def objective(self, values: np.ndarray) -> float:
        """Objective at a full assignment, in the sense of the user's model."""
        return float(self.cost @ values + self.offset)

    def larger_helps(self, at: int) -> bool:
        """Whether variable `at` occurs only where a larger value helps: in the objective and in
        every row.
        """
        if (
            self.upper[at] < 1
            or self.sign * self.cost[at] > 0
            or any(at in c.variables for c in self.others)
        ):
            return False
        column = self.rows[:, [at]].tocoo()
        rises = column.row[column.data > 0]
        falls = column.row[column.data < 0]
        return bool(np.isinf(self.row_upper[rises]).all() and np.isinf(self.row_lower[falls]).all())

    @property
    def n_variables(self) -> int:
        return len(self.cost)

    @property
    def n_rows(self) -> int:
        return len(self.row_lower)

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        return self.row_lower, self.row_upper


def is_integral(variable: Any) -> bool:
    """Whether a variable takes integers alone; PySCIPOpt 5 knows no more of that than its type."""
    return bool(
        variable.isIntegral()
        if hasattr(variable, "isIntegral")
        else variable.vtype() != "CONTINUOUS"
    )


def excess(values: np.ndarray, lower: np.ndarray | float, upper: np.ndarray | float) -> np.ndarray:
    """By how much each value is below its lower or above its upper end."""
    found: np.ndarray = np.maximum(np.maximum(lower - values, values - upper), 0.0)
    return found


def relative_violation(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Violation of lower <= values <= upper, entry by entry, relative to max(1, |side|)."""
    violation = np.zeros(values.shape)
    for side, excess in ((lower, lower - values), (upper, values - upper)):
        finite = np.isfinite(side)
        scaled = excess[finite] / np.maximum(1.0, np.abs(side[finite]))
        violation[finite] = np.maximum(violation[finite], scaled)
    return violation


def require_unsolved(model: Model) -> None:
    """Refuse a model that SCIP has already transformed or solved."""
    if model.getStageName() != "PROBLEM":
        raise ProblemError(
            f"the model is in SCIP's stage {model.getStageName()}: it was already presolved or"
            " optimised. Call model.freeTransform() first, or build a fresh model."
        )


_parameters_of_scip = cache(lambda: Model().getParams().keys())


def require_copyable(model: Model) -> None:
    """Refuse what SCIP does not copy, Python code that decides which points are feasible:
    constraint handlers and pricers, known by their parameters, since PySCIPOpt lists neither.
    """
    parts = [name.split("/") for name in model.getParams().keys() - _parameters_of_scip()]
    handlers = {
        f"constraint handler {p[1]!r}"
        for p in parts
        if p[0] == "constraints" and p[-1] == "sepafreq"
    }
    for what in sorted(handlers | {f"pricer {p[1]!r}" for p in parts if p[0] == "pricers"}):
        raise ProblemError(
            f"the model has a {what} of its own, which copies lose: neither solvers nor verify"
            " would know of it. Write what it demands as constraints, or build the model"
            " without it."
        )


def read_model(model: Model) -> MILP:
    """Read variables, objective and rows of `model` without touching it."""
    require_unsolved(model)
    require_copyable(model)
    infinity = model.infinity()
    variables = model.getVars()
    position = {v.ptr(): i for i, v in enumerate(variables)}
    names = {v.name: i for i, v in enumerate(variables)}
    row_names: list[str] = []
    sides: list[tuple[float, float]] = []
    entries: tuple[list[int], list[int], list[float]] = ([], [], [])
    others: list[OtherConstraint] = []
    for constraint in model.getConss():
        kind = constraint.getConshdlrName()
        held = model.getConsVars(constraint) or ()
        members = [position.get(v.ptr(), -1) for v in held]
        if kind in ROW_HANDLERS and -1 in members:
            raise ProblemError(
                f"row {constraint.name} holds a negated variable ~b: write it as 1 - b."
            )
        if kind not in ROW_HANDLERS:
            members = [_position(v, position, names) for v in held]
            others.append(OtherConstraint(constraint.name, kind, tuple(members)))
            continue
        entries[0].extend([len(row_names)] * len(members))
        entries[1].extend(members)
        entries[2].extend(model.getConsVals(constraint) or ())
        row_names.append(constraint.name)
        sides.append((model.getLhs(constraint), model.getRhs(constraint)))
    shape = (len(row_names), len(variables))
    return MILP(
        sign=1.0 if model.getObjectiveSense() == "minimize" else -1.0,
        cost=np.array([v.getObj() for v in variables], dtype=float),
        offset=float(model.getObjoffset()),
        lower=_finite_or_inf([v.getLbOriginal() for v in variables], infinity),
        upper=_finite_or_inf([v.getUbOriginal() for v in variables], infinity),
        integer=np.array([is_integral(v) for v in variables], dtype=bool),
        names=[v.name for v in variables],
        position=position,
        rows=sp.csr_matrix((entries[2], (entries[0], entries[1])), shape=shape),
        row_lower=_finite_or_inf([s[0] for s in sides], infinity),
        row_upper=_finite_or_inf([s[1] for s in sides], infinity),
        row_names=row_names,
        others=tuple(others),
    )


def copy_model(model: Model, seed: int = 0) -> Model:
    """A silent, independent copy of the original problem; its variables keep their order."""
    copy = Model(sourceModel=model, origcopy=True)
    copy.resetParams()  # limits that the user set for their own solve would silently cut ours short
    copy.hideOutput()
    copy.setParam(
        "misc/catchctrlc", False
    )  # an interrupt ends the whole run, not one block: see `optimise`
    copy.setParam("randomization/randomseedshift", int(seed) % 2_000_000_000)
    return copy


def add_variables(
    model: Model,
    lower: np.ndarray,
    upper: np.ndarray,
    integer: np.ndarray,
    names: Sequence[str] = (),
) -> list[Any]:
    """New variables, binary where they are whole numbers from 0 to 1; infinite ends are none."""
    kinds = np.where(~integer, "C", np.where((lower == 0) & (upper == 1), "B", "I")).tolist()
    ends = ([end if np.isfinite(end) else None for end in side.tolist()] for side in (lower, upper))
    parts = zip(names or [""] * len(kinds), kinds, *ends, strict=True)
    return [model.addVar(name, vtype=kind, lb=low, ub=high) for name, kind, low, high in parts]


def add_rows(
    model: Model,
    variables: Sequence[Any],
    rows: sp.csr_matrix,
    lower: np.ndarray,
    upper: np.ndarray,
    names: Sequence[str] = (),
) -> None:
    """The rows lower <= rows @ variables <= upper; one without a finite side is left out."""
    sides = zip(names or [""] * rows.shape[0], lower.tolist(), upper.tolist(), strict=True)
    for r, (name, low, high) in enumerate(sides):
        check_time()
        span = slice(rows.indptr[r], rows.indptr[r + 1])
        entries = zip(rows.indices[span].tolist(), rows.data[span].tolist(), strict=True)
        row = quicksum(a * variables[j] for j, a in entries)
        if low == high:
            model.addCons(row == low, name=name)
        elif -np.inf < low < high < np.inf:
            model.addCons((row <= high) >= low, name=name)
        else:  # sides that cross are two rows, which SCIP finds to be infeasible
            if low > -np.inf:
                model.addCons(row >= low, name=name)
            if high < np.inf:
                model.addCons(row <= high, name=name)


def set_time_limit(model: Model, seconds: float) -> None:
    """Give SCIP `seconds`, which may be infinite or used up already."""
    model.setParam("limits/time", float(min(max(seconds, 0.0), 1e20)))


def optimise(model: Model, seconds: float, raised: Sequence[BaseException] | None = None) -> None:
    """Solve a model of the library's own. Ctrl-C ends the solve in good order, status
    "userinterrupt", and is raised after it: Python itself would hear it only at the end, or inside
    a callback, where SCIP takes it for an error.

    SCIP forgets a signal that comes as it ends, so solves that are brief, and have no callback, are
    not interrupted. Threads other than the main one get no signals. `raised` is the list of
    `add_event_handlers`.
    """
    main = threading.current_thread() is threading.main_thread() and callable(
        signal.getsignal(signal.SIGINT)
    )
    heard = main and (raised is not None or model.data is None or model.data > BRIEF)
    model.setParam("misc/catchctrlc", heard)
    set_time_limit(model, seconds)
    began = now()
    model.optimize()
    model.data = now() - began
    for problem in raised or ():
        raise problem
    if heard and model.getStatus() == "userinterrupt":
        signal.raise_signal(signal.SIGINT)


def add_event_handlers(
    model: Model, hear: Callable[[Model], Any], after_node: Callable[[Model], Any] | None = None
) -> list[BaseException]:
    """Call `hear` at every new incumbent, and `after_node` after every node. What these raise must
    not cross SCIP: it ends the solve and is in the list.
    """
    raised: list[BaseException] = []

    def listen(to: Any, call: Callable[[Model], Any], name: str) -> None:
        def on_event(scip: Model, _: Any) -> None:
            try:
                if not raised:
                    call(scip)
            except BaseException as problem:
                raised.append(problem)
                scip.interruptSolve()

        model.attachEventHandlerCallback(on_event, [to], name=name)

    listen(SCIP_EVENTTYPE.BESTSOLFOUND, hear, "verify incumbents")
    if after_node is not None:
        listen(SCIP_EVENTTYPE.NODESOLVED, after_node, "tell of nodes")
    return raised


def has_point(model: Model, seconds: float = 60.0) -> bool:
    """Whether a model may have a feasible point: only SCIP's proof says no. The model is
    used up.
    """
    model.setObjective(0.0)
    optimise(model, seconds)
    return bool(model.getStatus() != "infeasible")


def fix(model: Model, variables: Any, values: np.ndarray) -> None:
    """Fix each variable whose value is a number."""
    for at in np.flatnonzero(~np.isnan(values)):
        model.chgVarLb(variables[at], values[at])
        model.chgVarUb(variables[at], values[at])


def matrix_of(variables: Any) -> MatrixVariable:
    """A list of variables as one vector that PySCIPOpt handles at once."""
    return np.array(variables, dtype=object).view(MatrixVariable)


def solution_values(model: Model, variables: Any) -> np.ndarray:
    """Values of `variables`, a list or vector, in the best solution of `model`."""
    best = model.getBestSol()  # which before PySCIPOpt 6.1 takes no vectors
    return np.array([model.getSolVal(best, variable) for variable in variables], dtype=float)


def _position(variable: Any, position: dict[int, int], names: dict[str, int]) -> int:
    """Number of a variable of a constraint; SCIP lists the negation of b as a variable of its own,
    b_neg.
    """
    at = position.get(variable.ptr(), names.get(variable.name.removesuffix("_neg")))
    if at is None:
        raise ProblemError(
            f"variable {variable.name} of a constraint is not among the model's variables."
        )
    return at


def _finite_or_inf(values: list[float], infinity: float) -> np.ndarray:
    array = np.array(values, dtype=float)
    array[array >= infinity] = np.inf
    array[array <= -infinity] = -np.inf
    return array
