"""The result of a solver: a verified point, a bound if there is one, and the history of the run."""

import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy import ndarray

from ..errors import ProblemError, of_extra
from ..renamed import Details
from .goal import Goal
from .log import Log, LogEntry
from .point_files import plain, read_json, write_sol
from .report import Report, Violation
from .text import shown
from .variables import Variables
from .verification import CLOSED, OPTIMAL_GAP, Verification

STATUSES = (
    "optimal",
    "gap_limit",
    "target_reached",
    "claimed_optimal",
    "converged",
    "cycle",
    "iteration_limit",
    "time_limit",
    "stopped",
    "infeasible",
    "no_solution_found",
)
"""The statuses of a solution.

"optimal" and "infeasible" were proved independently of the solver that reported them: "optimal" by
a gap of at most 1e-4, "gap_limit" by a larger one that the call accepted
(`Solution.gap_tolerance`). "target_reached" is a verified point that is at least as good as the
target of the call.
"claimed_optimal" is a verified point that attains the solver's own bound, which was not checked.
See `contradiction` for what each of them requires.
"""
MAX_PRINTED_PARTS = 3
"""Parts of the problem left out by a proof that a printed solution names."""


@dataclass(frozen=True)
class Iteration:
    r"""One outer iteration of Algorithm 1.

    Attributes
    ----------
    k
        Number of the iteration.
    objective
        Verified objective of $x^k$, NaN if $x^k$ is infeasible.
    incumbent
        Objective of the best point so far.
    primal_residual
        $\lVert u^k - x^k \rVert_\infty$.
    dual_residual
        $\rho \lVert u^k - u^{k-1} \rVert_\infty$.
    rho
        Penalty of coupled inputs.
    rho_outputs
        Penalty of coupled outputs, NaN if there are none.
    lagrangian
        $L_\rho(x^k, u^k, \lambda^k)$ of the problem as a minimisation; not a bound.
    seconds_mip, seconds_nn
        Seconds for the MIP block and for the NN block.
    seconds_solver
        Seconds of the MIP block inside SCIP or PIQP.
    seconds
        Seconds since `solve` was called.
    """

    k: int
    objective: float
    incumbent: float
    primal_residual: float
    dual_residual: float
    rho: float
    rho_outputs: float
    lagrangian: float
    seconds_mip: float
    seconds_solver: float
    seconds_nn: float
    seconds: float


class History(list[Any]):
    """The iterations of a run: ``history[3]`` is an iteration, ``history["rho"]`` a column.

    Parameters
    ----------
    iterations
        The iterations, oldest first.
    """

    columns = tuple(f.name for f in fields(Iteration))

    @property
    def iterations(self) -> list[Any]:
        """The iterations as a list."""
        return list(self)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.columns:
            raise KeyError(f"no column {key!r}; a history has {', '.join(self.columns)}")
        return np.array([getattr(iteration, key) for iteration in self], dtype=float)

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each iteration.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns = {column: self[column] for column in self.columns}
        return of_extra("pandas", "frames", "to_frame()").DataFrame(columns)

    def __repr__(self) -> str:
        if not self:
            return "History: no iterations"
        last = self[-1]
        return (
            f"History: {len(self)} iterations, incumbent {last.incumbent:.6g}, "
            f"residuals {last.primal_residual:.1e} / {last.dual_residual:.1e}, rho {last.rho:.3g}"
        )


@dataclass(frozen=True)
class Proof:
    """Where a bound comes from, and whether it was checked.

    Attributes
    ----------
    problem
        Digest of the problem (`Instance.digest`).
    method
        Method that proved the bound, or claims it.
    checked
        Whether the bound was computed from multipliers or by evaluation, in arithmetic that is
        rounded safely, and holds for every point that `verify` accepts. If not, it is the claim of
        a solver.
    margin
        Smallest absolute value of a logit that the solver's model requires, which the problem does
        not; 0 if there is none.
    """

    problem: str
    method: str
    checked: bool
    margin: float = 0.0

    def __str__(self) -> str:
        text = "checked" if self.checked else "claimed, not checked"
        return f"{text}; for logits of at least {self.margin:g}" if self.margin else text


class Bounded:
    """A result with an objective and a bound.

    Attributes
    ----------
    objective, bound
        In the sense of the user's model, None where there is none.
    """

    objective: float | None
    bound: float | None

    @property
    def gap(self) -> float | None:
        """|objective - bound| / max(1, |objective|), or None where either is missing."""
        if self.objective is None or self.bound is None:
            return None
        return abs(self.objective - self.bound) / max(1.0, abs(self.objective))


@dataclass(frozen=True, eq=False)
class Solution(Bounded):
    """The result of a solver.

    ``solution[x]`` is the value of a variable, a name, a linear expression, or an array of these.

    Attributes
    ----------
    status
        One of `STATUSES`.
    method
        Name of the solver.
    objective, bound
        In the sense of the user's model. The objective was computed by the true network; the bound
        is None if there is none.
    proof
        Where the bound comes from; a bound without a proof is not used.
    inputs, outputs
        One array for each `add_predictor`, in order.
    values
        Values of all variables, in the order of `Model.getVars`.
    verification
        Verification of the point.
    history
        The iterations, for methods that record them.
    seconds
        Seconds of the call.
    objective_last
        Verified objective of the last iterate, None if it is infeasible; Algorithm 1 as published
        returns that one.
    details
        Further results, by method.
    variables
        The positions of the variables in `values`.
    nearest
        If no point was feasible, the least infeasible one and its violations.
    start
        What the problem's start violates and whether a feasible point was found near it; empty for
        a feasible start.
    gap_tolerance
        Relative gap at which the call accepted a point; None where it has no such tolerance.
    """

    status: str
    method: str
    objective: float | None = None
    bound: float | None = None
    proof: Proof | None = None
    inputs: list[ndarray] = field(default_factory=list)
    outputs: list[ndarray] = field(default_factory=list)
    values: ndarray | None = None
    verification: Verification | None = None
    history: History = field(default_factory=History)
    seconds: float = 0.0
    objective_last: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    variables: Variables | None = None
    nearest: Report | None = None
    start: str = ""
    gap_tolerance: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", Details(self.details))  # renamed keys
        if self.status not in STATUSES:
            raise ValueError(f"unknown status {self.status!r}")
        if self.objective is not None and not self.verification:
            raise ValueError("an objective may only be reported with a verification that holds")
        checked = self.proof and self.proof.checked
        if self.status in ("optimal", "gap_limit") and not checked:
            raise ValueError(
                f"a solution may only be called {self.status} with a bound that was checked"
            )
        wrong = contradiction(self)
        if wrong:
            raise ValueError(wrong)

    @property
    def found(self) -> bool:
        """Whether there is a verified point."""
        return self.objective is not None

    def __getitem__(self, what: Any) -> Any:
        return self._variables().at(self.values, what)

    def report(self) -> str:
        """Return whether the point is feasible, or what the least infeasible one violates."""
        if self.found:
            return "The point is feasible: networks, constraints and bounds were verified."
        text = "No point was evaluated that could be verified."
        if self.nearest is not None:
            text = repr(self.nearest)
        if self.status == "infeasible":
            text += "\nThe problem was proved infeasible."
        return text

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the solution as JSON, which `from_json` reads.

        It contains everything but those `details` that JSON cannot hold, such as the state of a
        method; ``"details_left_out"`` names them.

        Parameters
        ----------
        path
            File that the text is written to as well.
        """
        record = dict(vars(self))
        del record["values"]
        record["variables"] = self.by_name() if self.found else None
        for name in ("proof", "verification", "nearest"):
            if record[name] is not None:
                record[name] = vars(record[name])
        columns = {name: self.history[name] for name in self.history.columns}
        record["history"] = {
            name: np.where(np.isfinite(column), column.astype(object), None)
            for name, column in columns.items()
        }
        record["details"] = {}
        record["details_left_out"] = []
        for key, value in self.details.items():
            try:
                entries = list(map(vars, value)) if isinstance(value, Log) else value
                record["details"][key] = plain(entries)
            except TypeError:
                record["details_left_out"].append(key)
        text = json.dumps(plain(record), indent=1)
        if path is not None:
            Path(path).write_text(text + "\n")
        return text

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Read a solution that `to_json` wrote; its variables are found by name.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        ProblemError
            If the file is not a solution as `to_json` writes it.

        Examples
        --------
        >>> import tempfile
        >>> from ddmip_lib import solve
        >>> from ddmip_lib.problems import hand_sized
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = solve(hand_sized()).to_json(f"{folder}/solution.json")
        ...     read = Solution.from_json(f"{folder}/solution.json")
        >>> read.status, round(read.objective, 6), round(read["x_0_0"], 6)
        ('optimal', 0.5, 1.0)
        """
        record = read_json(path)
        missing = cls.__dataclass_fields__.keys() - {"values"} - record.keys()
        if missing:
            raise ProblemError(
                f"{os.fspath(path)!r} has no entry {min(missing)!r}: pass a file that"
                " Solution.to_json wrote."
            )
        del record["details_left_out"]
        by_name = record.pop("variables")
        if by_name is not None:
            record["variables"] = Variables(list(by_name), {}, None)
            record["values"] = np.array(list(by_name.values()))
        record["inputs"] = _matrices(record["inputs"])
        record["outputs"] = _matrices(record["outputs"])
        record["proof"] = record["proof"] and Proof(**record["proof"])
        check = record["verification"]
        if check is not None:
            check["other_violations"] = tuple(check["other_violations"])
            record["verification"] = Verification(**check)
        nearest = record["nearest"]
        if nearest is not None:
            violations = [Violation(*entry) for entry in nearest["violations"]]
            inputs = _matrices(nearest["inputs"])
            record["nearest"] = Report(violations, np.array(nearest["values"]), inputs)
        columns = np.array(list(record["history"].values()), dtype=float)  # null becomes NaN
        record["history"] = History([Iteration(int(k), *row) for k, *row in columns.T.tolist()])
        if "log" in record["details"]:
            entries = record["details"]["log"]
            record["details"]["log"] = Log(LogEntry(**entry) for entry in entries)
        return cls(**record)

    def to_sol(self, path: str | os.PathLike[str]) -> None:
        """Write the point in SCIP's format .sol, which `NeuralMIP.set_start` reads.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        ProblemError
            If there is no point, or a name is not unique or holds white space.
        """
        names = self._variables().names
        write_sol(path, names, self.values, self.status, self.objective)  # type: ignore[arg-type]

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each variable.

        Raises
        ------
        ProblemError
            If there is no point.
        ImportError
            If pandas is not installed.
        """
        values = self.by_name()
        columns = {"variable": list(values), "value": list(values.values())}
        return of_extra("pandas", "frames", "to_frame()").DataFrame(columns)

    def by_name(self) -> dict[str, float]:
        """Return the value of each variable by its name, or by ``name#position`` if it is shared.

        Raises
        ------
        ProblemError
            If there is no point.
        """
        names = self._variables().keys
        return dict(zip(names, self.values.tolist(), strict=True))  # type: ignore[union-attr]

    def _variables(self) -> Variables:
        if self.values is None or self.variables is None:
            raise ProblemError(
                f"no point was found ({self.status}), so nothing has a value: see"
                " solution.report()."
            )
        return self.variables

    def __repr__(self) -> str:
        rows = {
            "status": self.status,
            "objective": shown(self.objective),
            "nearest": "",
            "bound": shown(self.bound),
            "gap": "",
            "seconds": f"{self.seconds:.2f}",
            "start": self.start,
            "iterations": str(len(self.history) or ""),
        }
        if self.found:
            rows["objective"] += "  (verified by the true network)"
        if self.nearest is not None and self.nearest.violations:
            rows["nearest"] = f"{self.nearest.violations[0]}  (more in solution.report())"
        if self.bound is not None and self.proof:
            rows["bound"] += f"  ({self.proof})"
        if self.gap is not None:
            asked = "" if self.gap_tolerance is None else f"  (tolerance {self.gap_tolerance:g})"
            rows["gap"] = f"{self.gap:.2g}{asked}"
        lines = [f"  {name:<11} {text}" for name, text in rows.items() if text]
        for key, value in self.details.items():
            if isinstance(value, (int, str, float)):
                text = f"{value:.4g}" if isinstance(value, float) else value
                lines.append(f"  {key:<11} {text}")
        parts = self.details.get("left_out", ())
        if parts:
            names = "; ".join(part[0] for part in parts[:MAX_PRINTED_PARTS])
            more = f" and {len(parts) - MAX_PRINTED_PARTS} more" * (len(parts) > MAX_PRINTED_PARTS)
            lines.append(f'  left out    {names}{more}  (reasons in details["left_out"])')
        return "\n".join([f"Solution by {self.method}", *lines])


def _matrices(tables: list[Any]) -> list[ndarray]:
    return [np.array(rows, dtype=float, ndmin=2) for rows in tables]


def contradiction(solution: Solution, status: str | None = None) -> str:
    """Return how status, objective and bound contradict each other; empty if they do not.

    "optimal" requires an objective and a bound whose gap is at most `OPTIMAL_GAP`,
    "claimed_optimal" one of at most `CLOSED`, and "gap_limit" any. "infeasible" and
    "no_solution_found" require that there is no point, and "infeasible" that there is no finite
    bound.

    Parameters
    ----------
    solution
        The solution.
    status
        Another status for it.
    """
    status = status or solution.status
    objective = solution.objective
    bound = solution.bound
    if status in ("infeasible", "no_solution_found") and objective is not None:
        return (
            f"the status is {status}, and there is a point of objective {objective:.9g}: call it"
            " stopped."
        )
    if status == "infeasible" and bound is not None and np.isfinite(bound):
        return (
            f"the status is infeasible, and the bound {bound:.9g} is finite: leave the bound out."
        )
    if status not in ("optimal", "gap_limit", "claimed_optimal"):
        return ""
    if objective is None or bound is None:
        return (
            f"the status is {status}, which takes an objective and a bound: {shown(objective)} and"
            f" {shown(bound)}."
        )
    unit = max(abs(objective), getattr(solution.verification, "objective_unit", 0.0))
    goal = Goal(OPTIMAL_GAP if status == "optimal" else CLOSED)
    if status == "gap_limit" or abs(objective - bound) <= goal.allowed(objective, unit):
        return ""
    return (
        f"the status is {status}, and the bound {bound:.9g} leaves a gap to the objective"
        f" {objective:.9g}: report why the solver ended, such as time_limit or stopped."
    )
