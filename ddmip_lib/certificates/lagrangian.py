r"""Bounds for problems without blocks: weak duality, linear forms of the networks, and branching on
their inputs.

Written as a minimisation over the unfixed network inputs $x$, with $g$ the cost of the outputs, for
every $\lambda$

$$q(\lambda) = \min_{x \in X} (c - \lambda)^\top x + \min_{u \in B} \bigl(g(u)
+ \lambda^\top u\bigr) \le v^*
\qquad (\text{put } u = x = x^*).$$

With CROWN's $A^\top u + b \le g(u)$ on the box $B$ in the second term, $\lambda = -A$ is the best
choice: two minima never exceed their sum at one point, so $q(\lambda) \le \min_X (c + A)^\top x +
b$, and $\lambda = -A$ attains it.

The search bounds the user's model *with the forms as rows*, $A_l x + b_l \le y \le A_u x + b_u$,
which also knows the rows on outputs. This is at least as strong: the rows times the costs of their
outputs add up to $d^\top y \ge A^\top x
+ b$, so the objective is nowhere below that of $q(-A)$. With several forms for each output it is as
strong as every convex combination of them, that is, as the best $\lambda$ among these; new forms
come from the slopes that are best at the point where the last relaxation ended. A class $y = 1[f >
0]$ is tied by $y = 1 \Rightarrow A_u x + b_u \ge 0$ and $y = 0 \Rightarrow A_l x + b_l \le 0$. Then
the box of the inputs is split, the node with the weakest bound first. Whole numbers are split as
well, where the relaxation's point leaves them between two. `relaxation` says how tolerances and
rounding are accounted for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..bounds import Bounds, crown
from ..clock import now, unlimited
from ..errors import ProblemError
from ..methods.run import Run, start_run
from ..model.problem import NeuralMIP
from ..model.progress import ProgressLine
from ..model.scaling import Units
from ..model.solution import Bounded, Solution, shown
from ..model.verification import TOLERANCE
from ..programs.branch_and_bound import prove
from ..proofs.checking import closes_gap, incumbent_cost
from ..proofs.encoding import relax_bounds, relaxed_program
from .input_search import SpatialBranchAndBound
from .relaxation import (
    best_multipliers,
    entire_box,
    form_below,
    output_cost,
    read_problem,
    tighten_outputs,
)


@dataclass(frozen=True, eq=False)
class LagrangianBound(Bounded):
    """What `lagrangian_bound` proved, in the sense of the user's model.

    `status`: "closed" (the bound meets the best objective known, or nothing is left to split),
    "time_limit", "interrupted", "infeasible" (proved; the bound is then infinite) or "unbounded"
    (the search ended, and proved nothing). `bound` is None where there is none; it holds for every
    point that `verify` accepts. `objective` is the best verified one, of the solution given or of a
    point met on the way, and `point` that point, in the order of `Model.getVars`; `proved_for` is
    the problem's `Instance.digest`. `multipliers` are $-A$ of the whole box, as in
    `crown_multipliers`.
    """

    status: str
    bound: float | None
    objective: float | None
    multipliers: np.ndarray
    nodes: int
    seconds: float
    history: tuple[tuple[float, float], ...]  #: Seconds and bound, whenever it improved.
    point: np.ndarray | None
    proved_for: str
    method: str = "Lagrangian bound: CROWN forms, branching on inputs"

    def __repr__(self) -> str:
        return (
            f"{self.method}\n"
            f"  status      {self.status}\n"
            f"  bound       {shown(self.bound)}\n"
            f"  objective   {shown(self.objective)}  (best verified)\n"
            f"  gap         {shown(self.gap)}\n"
            f"  nodes       {self.nodes}\n"
            f"  seconds     {self.seconds:.2f}"
        )


def lagrangian_bound(
    problem: NeuralMIP,
    solution: Solution | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: bool = False,
) -> LagrangianBound:
    """A bound on the optimum of any problem whose networks `ddmip_lib.bounds` can read; stop it
    whenever you like.

    The search ends where the bound meets the objective of `solution`, or of a better point that it
    meets itself.

    >>> from ddmip_lib.problems import hand_sized
    >>> found = lagrangian_bound(hand_sized())
    >>> found.status, round(found.bound, 5), found.objective
    ('closed', 0.5, 0.5)
    """
    run = start_run(problem, time_limit, seed)

    def bounded() -> LagrangianBound:
        with unlimited():  # a first bound by intervals, however short the time
            point = None if solution is None else solution.values
            search = SpatialBranchAndBound(problem, point, run.began, run.deadline)
            run.state = search
        line.see(search.incumbent)
        return _bound_of(search, search.run() if time_limit > 0 else "time_limit")

    def so_far(status: str) -> LagrangianBound:
        known = "interrupted" if status == "stopped" else status
        if run.state is None:
            return _nothing(run, solution, known)
        return _bound_of(run.state, known)

    with ProgressLine(problem, "Lagrangian bound", run.began, progress) as line:
        return run.finish(bounded, so_far)


def _nothing(run: Run, solution: Solution | None, status: str) -> LagrangianBound:
    """The result of a call that ended before any bound was computed."""
    incumbent = run.incumbent(with_start=False)
    if solution is not None and solution.values is not None:
        incumbent.consider(solution.values)
    return LagrangianBound(
        status,
        None,
        incumbent.objective,
        np.zeros(run.instance.free_inputs.size),
        0,
        now() - run.began,
        (),
        incumbent.values,
        run.instance.digest,
    )


def _bound_of(search: SpatialBranchAndBound, status: str) -> LagrangianBound:
    """What a search has proved, in the sense of the user's model."""
    sign = search.instance.milp.sign
    incumbent = search.incumbent
    low = search.bound()
    closes_gap(incumbent, low)  # a bound beyond a verified point is an error
    low = min(low, incumbent_cost(incumbent))
    return LagrangianBound(
        status=(
            "infeasible"
            if low == np.inf
            else "unbounded"
            if low == -np.inf and status == "closed"
            else status
        ),
        bound=None if low == -np.inf else float(sign * low),
        objective=incumbent.objective,
        multipliers=search.multipliers,
        nodes=search.nodes,
        seconds=now() - search.began,
        history=tuple((when, float(sign * v)) for when, v in search.history),
        point=incumbent.values,
        proved_for=search.instance.digest,
    )


def dual_value(
    problem: NeuralMIP,
    multipliers: Any,
    bounds: Callable[..., Bounds] = crown,
    time_limit: float = 60.0,
) -> float:
    r"""$q(\lambda)$, a bound in the sense of the user's model (infinite where none is proved).

    `multipliers` belong to the problem as a minimisation, one for each distinct unfixed network
    input in the order of the networks, as in Algorithm 1 ($\lambda^k$ of a `Trace`); of the graph
    split of regressions, where $(\lambda_x, \lambda_y)$ couples the outputs too, $q = \min (c -
    \lambda_x)^\top x + (d - \lambda_y)^\top y
    + \min_u \lambda_x^\top u + \lambda_y^\top f(u)$. `bounds` says how the networks are bounded:
    `crown`, `optimised_crown`, or `intervals`, whose forms are constants.

    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> [round(dual_value(problem, lam), 3) for lam in ([0, 0], crown_multipliers(problem))]
    [-3.0, -0.75]
    """
    instance, graphs = read_problem(problem)
    s = instance.milp
    inputs = instance.free_inputs
    outputs = instance.outputs
    weight = output_cost(instance)
    lam = np.asarray(multipliers, dtype=float).ravel()
    if lam.size == inputs.size + outputs.size and not any(
        p.gives_class for p in instance.predictors
    ):
        weight = lam[inputs.size :]
    elif lam.size != inputs.size:
        raise ProblemError(
            f"got {lam.size} multipliers, but {inputs.size} unfixed variables enter the networks."
        )
    if not np.isfinite(lam).all():
        raise ProblemError("the multipliers contain NaN or infinity.")
    units = Units(instance, TOLERANCE)
    lower, upper = relax_bounds(instance, units)
    rows = entire_box(instance, graphs, bounds, lower, upper)
    slope, constant, size = form_below(instance, rows, weight, lower, upper)
    cost = s.sign * s.cost
    cost[inputs] -= lam[: inputs.size]
    cost[outputs] -= weight
    tighten_outputs(instance, rows, lower, upper)
    base = relaxed_program(instance, units, lower, upper)
    first = prove(replace(base, cost=cost), deadline=now() + time_limit).bound
    total = slope[inputs] + lam[: inputs.size]
    terms = np.append(np.minimum(total * lower[inputs], total * upper[inputs]), constant)
    reach = np.maximum(
        *(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (base.lower, base.upper))
    )
    rounding = 1e-12 * (np.abs(terms).sum() + size + np.abs(cost) @ reach)
    return float(s.sign * (first + terms.sum() - rounding))


def crown_multipliers(problem: NeuralMIP) -> np.ndarray:
    r"""$-A$ for CROWN's linear form $A^\top u + b$ below the cost of the outputs on the whole box:
    the best multipliers for that form, in the order of `dual_value`.

    >>> from ddmip_lib.problems import hand_sized
    >>> crown_multipliers(hand_sized())
    array([0.25, 4.25])
    """
    instance, graphs = read_problem(problem)
    ends = instance.milp.lower, instance.milp.upper
    return best_multipliers(instance, entire_box(instance, graphs, crown, *ends), *ends)
