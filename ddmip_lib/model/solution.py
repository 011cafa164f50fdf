"""What a solver returns: a verified point, a bound where one is certified, and the history of the
run.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ProblemError, of_extra
from .report import Report
from .variables import Variables
from .verification import CLOSED, Verification

STATUSES = (
    "optimal",
    "claimed_optimal",
    "converged",
    "cycle",
    "iteration_limit",
    "time_limit",
    "stopped",
    "infeasible",
    "no_solution_found",
)
"""An "optimal" point and its bound were both checked outside the solver that found them, and
"infeasible" was proved so too; "claimed_optimal" is a point that a solver's own bound meets, which
was not checked. See `contradiction`.
"""


@dataclass(frozen=True)
class Iteration:
    """One outer iteration of Algorithm 1."""

    k: int
    objective: (
        float  #: Verified objective of $x^k$ (NaN where $x^k$ is infeasible for the true problem).
    )
    incumbent: float
    primal_residual: float  #: $\lVert u^k - x^k \rVert_\infty$
    dual_residual: float  #: $\rho \lVert u^k - u^{k-1} \rVert_\infty$
    rho: float
    rho_outputs: float  #: The penalty of coupled outputs (NaN where there are none).
    # : $L_\rho(x^k, u^k, \lambda^k)$, of the problem written as a minimisation. It is not a bound.
    lagrangian: float
    seconds_mip: float
    seconds_solver: float  #: Of these, seconds inside SCIP or PIQP.
    seconds_nn: float
    seconds: float  #: Seconds since `solve` was called.


class History:
    """The iterations of a run: ``history[3]`` is an iteration, ``history["rho"]`` a column."""

    columns = tuple(f.name for f in fields(Iteration))

    def __init__(self, iterations: list[Any] | None = None) -> None:
        self.iterations: list[Any] = list(iterations or [])

    def append(self, iteration: Any) -> None:
        self.iterations.append(iteration)

    def __len__(self) -> int:
        return len(self.iterations)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterations)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(f"no column {key!r}; a history has {', '.join(self.columns)}")
            return np.array([getattr(it, key) for it in self.iterations], dtype=float)
        return self.iterations[key]

    def to_frame(self) -> Any:
        """A pandas.DataFrame with a row for each iteration."""
        return _frame({column: self[column] for column in self.columns})

    def __repr__(self) -> str:
        if not self.iterations:
            return "History: no iterations"
        last = self.iterations[-1]
        return (
            f"History: {len(self)} iterations, incumbent {last.incumbent:.6g}, "
            f"residuals {last.primal_residual:.1e} / {last.dual_residual:.1e}, rho {last.rho:.3g}"
        )


def _frame(columns: dict[str, Any]) -> Any:
    return of_extra("pandas", "frames", "to_frame()").DataFrame(columns)


def shown(value: float | None) -> str:
    """A number that may be missing, for a summary."""
    return "none" if value is None else f"{value:.6g}"


@dataclass(frozen=True)
class Proof:
    """What a bound is worth: of which problem (`Instance.digest`), by which method, and whether it
    is `checked`.

    A checked bound was computed from multipliers or by evaluation, in arithmetic that is rounded
    safely, and holds for every point that `verify` accepts. Any other is what a solver claims, of a
    model that may demand a `margin` which the problem does not.
    """

    problem: str
    method: str
    checked: bool
    margin: float = 0.0

    def __str__(self) -> str:
        said = "checked" if self.checked else "claimed, not checked"
        return said + (f"; for logits of at least {self.margin:g}" if self.margin else "")


class Bounded:
    """What has an objective and a bound has a gap."""

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
    """Result of a solver, the same for all of them.

    `objective` and `bound` are in the sense of the user's model; `objective` was recomputed by the
    true network, `bound` is None where nothing is certified. `inputs` and `outputs` hold one array
    for each `add_predictor`, in order; `values` the full assignment in the order of
    `Model.getVars`. `solution[x]` is the value of a variable, a name or a linear expression, or of
    an array of these.
    """

    status: str
    method: str
    objective: float | None = None
    bound: float | None = None
    proof: Proof | None = None
    """What the bound is worth; a bound without one counts for nothing."""
    inputs: list[np.ndarray] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)
    values: np.ndarray | None = None
    verification: Verification | None = None
    history: History = field(default_factory=History)
    seconds: float = 0.0
    objective_last: float | None = None
    """Verified objective of the last iterate (None: infeasible); Algorithm 1 as printed returns
    that one.
    """
    details: dict[str, Any] = field(default_factory=dict)
    variables: Variables | None = None
    """Which value belongs to which variable of the model."""
    nearest: Report | None = None
    """Where no point was feasible, the one that came nearest, and what it violates."""

    start: str = ""
    """What the start that was given violates, and how it was repaired; empty where it violates
    nothing.
    """

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown status {self.status!r}")
        if self.objective is not None and (
            self.verification is None or not self.verification.feasible
        ):
            raise ValueError("an objective may only be reported with a verification that holds")
        if self.status == "optimal" and (self.proof is None or not self.proof.checked):
            raise ValueError("a solution may only be called optimal with a bound that was checked")
        if wrong := contradiction(self):
            raise ValueError(wrong)

    @property
    def found(self) -> bool:
        """Whether there is a verified point."""
        return self.objective is not None

    def __getitem__(self, what: Any) -> Any:
        return self._variables().at(self.values, what)

    def report(self) -> str:
        """Whether there is a feasible point and, if not, what the nearest one violates, by how
        much, and where.
        """
        if self.found:
            return "The point is feasible: the true network and all rows and bounds were checked."
        proved = "\nThe problem was proved infeasible." if self.status == "infeasible" else ""
        return (
            repr(self.nearest) if self.nearest else "No point was visited that could be checked."
        ) + proved

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Status, objective, bound with its proof, seconds, variables by name and history, also
        written to `path`.
        """
        names = ("status", "method", "objective", "bound", "seconds")
        said = {name: getattr(self, name) for name in names} | {
            "proof": self.proof and asdict(self.proof)
        }
        said["variables"] = self._by_name() if self.found else None
        columns = {column: self.history[column].tolist() for column in self.history.columns}
        said["history"] = {
            key: [x if np.isfinite(x) else None for x in column] for key, column in columns.items()
        }
        text = json.dumps(said, indent=1)
        if path is not None:
            Path(path).write_text(text + "\n")
        return text

    def to_frame(self) -> Any:
        """A pandas.DataFrame with a row for each variable."""
        return _frame({"variable": list(self._by_name()), "value": list(self._by_name().values())})

    def _by_name(self) -> dict[str, float]:
        return dict(zip(self._variables().keys, self.values.tolist(), strict=True))  # type: ignore[union-attr]

    def _variables(self) -> Variables:
        if self.values is None or self.variables is None:
            raise ProblemError(
                f"no point was found ({self.status}), so nothing has a value: see"
                " solution.report()."
            )
        return self.variables

    def __repr__(self) -> str:
        lines = [
            f"Solution by {self.method}",
            f"  status      {self.status}",
            f"  objective   {shown(self.objective)}"
            + ("  (verified by the true network)" if self.found else ""),
            f"  bound       {shown(self.bound)}"
            + (f"  ({self.proof})" if self.bound is not None and self.proof else ""),
            f"  seconds     {self.seconds:.2f}",
        ]
        if self.nearest is not None and self.nearest.violations:
            lines.insert(
                3, f"  nearest     {self.nearest.violations[0]}  (more in solution.report())"
            )
        if self.start:
            lines.append(f"  start       {self.start}")
        if len(self.history):
            lines.append(f"  iterations  {len(self.history)}")
        for key, value in self.details.items():
            if isinstance(value, (int, float, str)):
                lines.append(
                    f"  {key:<11} {value:.4g}"
                    if isinstance(value, float)
                    else f"  {key:<11} {value}"
                )
        return "\n".join(lines)


def contradiction(solution: Solution, status: str | None = None) -> str:
    """What status (or another one), objective and bound say against each other, or nothing.

    Where a solver's status is "optimal" or "claimed_optimal", objective and bound meet up to
    `CLOSED`; where it is "infeasible" or "no_solution_found", there is no point, and "infeasible"
    has no finite bound.
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
    if status not in ("optimal", "claimed_optimal"):
        return ""
    if objective is None or bound is None:
        return (
            f"the status is {status}, which takes an objective and a bound: {shown(objective)} and"
            f" {shown(bound)}."
        )
    unit = abs(objective) if solution.verification is None else solution.verification.objective_unit
    if abs(objective - bound) <= CLOSED * max(unit, abs(objective)):
        return ""
    return (
        f"the status is {status}, and the bound {bound:.9g} leaves a gap to the objective"
        f" {objective:.9g}: say why the solver ended, such as time_limit or stopped."
    )
