r"""Bounds for problems without blocks: weak duality, linear bounds of networks, and branching on
their inputs.

Written as a minimisation over the unfixed network inputs $x$, with $g$ the cost of the outputs, for
every $\lambda$

$$q(\lambda) = \min_{x \in X} (c - \lambda)^\top x + \min_{u \in B} \bigl(g(u)
+ \lambda^\top u\bigr) \le v^*
\qquad (\text{put } u = x = x^*).$$

With CROWN's $A^\top u + b \le g(u)$ on the box $B$ in the second term, $\lambda = -A$ is the best
choice: two minima never exceed their sum at one point, so $q(\lambda) \le \min_X (c + A)^\top x +
b$, and $\lambda = -A$ attains it.

The search bounds the user's model *with the linear bounds as constraints*, $A_l x + b_l \le y \le
A_u x + b_u$, which also has the constraints on outputs. This is at least as strong: the constraints
times the costs of their outputs add up to $d^\top y \ge A^\top x + b$, so the objective is nowhere
below that of $q(-A)$. With several linear bounds of each output it is as strong as every convex
combination of them, that is, as the best $\lambda$ among these; new ones are optimised for the
solution of the last relaxation. A class $y = 1[f > 0]$ is bounded by $y = 1 \Rightarrow A_u x + b_u
\ge 0$ and $y = 0 \Rightarrow A_l x + b_l \le 0$. Then the box of the inputs is split, the node with
the weakest bound first, and so are integer variables with fractional values in the relaxation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike

from ..bounds import Bounds, crown
from ..clock import now, unlimited
from ..errors import ProblemError
from ..methods.run import Run, start_run
from ..model.goal import Goal
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.progress import report_incumbent
from ..model.scaling import Units
from ..model.solution import Bounded, Solution
from ..model.text import shown
from ..model.verification import TOLERANCE
from ..programs.branch_and_bound import prove
from ..programs.program import Program
from ..proofs.checking import closes_gap, incumbent_cost
from ..proofs.encoding import relax_bounds, relaxed_program
from .bound_state import SUM_ROUNDING
from .input_search import SpatialBranchAndBound
from .relaxation import BoundedBox, output_cost


@dataclass(frozen=True, eq=False)
class LagrangianBound(Bounded):
    """Result of `lagrangian_bound`, in the sense of the user's model.

    Attributes
    ----------
    status
        "closed" (the bound is equal to the best objective known, or no node can be split),
        "time_limit", "interrupted", "infeasible" (proved; the bound is infinite) or "unbounded"
        (the search ended without a bound).
    bound
        Proven bound for every point that `verify` accepts; None where there is none.
    objective
        Best verified objective, of the given solution or of a point found by the search.
    multipliers
        The vector $-A$ of the entire domain, as in `crown_multipliers`.
    nodes
        Number of nodes whose relaxation was solved.
    seconds
        Running time.
    history
        Seconds and bound at every improvement.
    point
        Best verified point, in the order of `Model.getVars`.
    proved_for
        `Instance.digest` of the problem.
    method
        Name of the method.
    """

    status: str
    bound: float | None
    objective: float | None
    multipliers: ndarray
    nodes: int
    seconds: float
    history: tuple[tuple[float, float], ...]
    point: ndarray | None
    proved_for: str
    method: str = "Lagrangian bound: CROWN, branching on inputs"

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
    goal: Goal | None = None,
) -> LagrangianBound:
    """Bound the optimum of a problem by branch and bound on the inputs of its networks.

    The search ends when the bound is close to the objective of `solution`, or of a better point
    that the search finds. Ctrl-C ends it with the bound reached by then.

    Parameters
    ----------
    problem
        The problem; `ddmip_lib.bounds` must support its networks.
    solution
        A feasible solution of it.
    time_limit
        Seconds.
    seed
        Not used: the search is deterministic.
    progress
        Whether to print the progress.
    goal
        Gap at which the search ends, 1e-5 if left out.

    Returns
    -------
    LagrangianBound
        The bound, at least one from ranges of the networks.

    Raises
    ------
    UnsupportedNetworkError
        If a network has a layer that cannot be bounded.
    ProblemError
        If the solution is not feasible.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> found = lagrangian_bound(hand_sized())
    >>> found.status, round(found.bound, 5), found.objective
    ('closed', 0.5, 0.5)
    """
    run = start_run(problem, time_limit, seed, method="Lagrangian bound")
    run.goal = goal or Goal()

    def begin() -> SpatialBranchAndBound:
        incumbent = run.best or run.verified(solution)
        search = SpatialBranchAndBound(incumbent, run.deadline)
        run.state = search
        return search

    def search_to_end() -> LagrangianBound:
        with unlimited():  # the first bound, by ranges, is computed at any time limit
            search = begin()
            search.bound_by_ranges()
        incumbent = search.incumbent
        report_incumbent(run.instance, incumbent.objective, incumbent.nearest.distance)
        return _result(run, search.run() if time_limit > 0 else "time_limit")

    def result_so_far(status: str) -> LagrangianBound:
        if run.state is None:
            begin()
        return _result(run, "interrupted" if status == "stopped" else status)

    return run.finish(search_to_end, result_so_far, progress)


def _result(run: Run, status: str) -> LagrangianBound:
    """What was found and proved so far."""
    search: SpatialBranchAndBound = run.state
    incumbent = search.incumbent
    sign = run.instance.milp.sign
    lower = search.open.bound
    closes_gap(incumbent, lower)  # raises an error if the bound contradicts a verified point
    lower = min(lower, incumbent_cost(incumbent))
    if lower == np.inf:
        status = "infeasible"
    elif lower == -np.inf and status == "closed":
        status = "unbounded"
    return LagrangianBound(
        status=status,
        bound=None if lower == -np.inf else float(sign * lower),
        objective=incumbent.objective,
        multipliers=search.multipliers,
        nodes=search.nodes,
        seconds=run.seconds,
        history=tuple((seconds, float(sign * bound)) for seconds, bound in search.history),
        point=incumbent.values,
        proved_for=run.instance.digest,
    )


def dual_value(
    problem: NeuralMIP,
    multipliers: ArrayLike,
    bounds: Callable[..., Bounds] = crown,
    time_limit: float = 60.0,
) -> float:
    r"""Return the Lagrangian bound $q(\lambda)$ in the sense of the user's model.

    Parameters
    ----------
    problem
        The problem.
    multipliers : array_like
        Multipliers of the problem as a minimisation, one for each distinct unfixed network input in
        the order of the networks, as in Algorithm 1 ($\lambda^k$ of a `Trace`). In the graph split
        of regressions, those of the outputs follow, and $q = \min (c - \lambda_x)^\top x + (d -
        \lambda_y)^\top y + \min_u \lambda_x^\top u + \lambda_y^\top f(u)$.
    bounds
        Function that bounds a network: `crown`, `optimised_crown`, or `intervals`, whose linear
        bounds are constants.
    time_limit
        Seconds for the minimum over the user's model.

    Returns
    -------
    float
        The bound, rounded to the safe side; infinite if none is proved.

    Raises
    ------
    ProblemError
        If the number of multipliers is wrong, or one is not finite.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> [round(dual_value(problem, lam), 3) for lam in ([0, 0], crown_multipliers(problem))]
    [-3.0, -0.75]
    """
    instance = start_run(problem, time_limit, 0).instance
    of_inputs, of_outputs = _checked(instance, multipliers)
    units = Units(instance, TOLERANCE)
    box = BoundedBox(instance, *relax_bounds(instance, units))
    box.bound_networks(bounds)
    network = box.weighted_lower_bound(of_outputs)
    box.tighten_outputs()
    program = relaxed_program(instance, units, box.lower, box.upper)
    program = replace(program, cost=instance.milp.sign * instance.milp.cost)
    program.cost[instance.free_inputs] -= of_inputs
    program.cost[instance.outputs] -= of_outputs
    minimum = prove(program, deadline=now() + time_limit).bound
    weights = network.weights[instance.free_inputs] + of_inputs
    ends = (weights * end[instance.free_inputs] for end in (box.lower, box.upper))
    terms = np.append(np.minimum(*ends), network.constant)
    rounding = SUM_ROUNDING * (np.abs(terms).sum() + network.size + _cost_size(program))
    return float(instance.milp.sign * (minimum + terms.sum() - rounding))


def _checked(instance: Instance, multipliers: ArrayLike) -> tuple[ndarray, ndarray]:
    """Multipliers of the inputs, and weights of the outputs in the network's minimum."""
    values = np.asarray(multipliers, dtype=float).ravel()
    n_inputs = instance.free_inputs.size
    of_outputs = output_cost(instance)
    regressions = not any(predictor.gives_class for predictor in instance.predictors)
    if regressions and values.size == n_inputs + instance.outputs.size:
        of_outputs = values[n_inputs:]
    elif values.size != n_inputs:
        raise ProblemError(
            f"got {values.size} multipliers, but {n_inputs} unfixed variables enter the networks."
        )
    if not np.isfinite(values).all():
        raise ProblemError("the multipliers contain NaN or infinity.")
    return values[:n_inputs], of_outputs


def _cost_size(program: Program) -> float:
    """Sum of the absolute values of all terms of the cost, at most; of bounded variables."""
    sizes = np.abs([program.lower, program.upper])
    return np.abs(program.cost) @ np.where(np.isinf(sizes), 0.0, sizes).max(axis=0)


def crown_multipliers(problem: NeuralMIP) -> ndarray:
    r"""Return the best multipliers $-A$ for CROWN's linear lower bound $A^\top u + b$ of the cost
    of the outputs on the entire domain.

    Parameters
    ----------
    problem
        The problem.

    Returns
    -------
    ndarray
        Multipliers in the order of `dual_value`.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> crown_multipliers(hand_sized())
    array([0.25, 4.25])
    """
    instance = start_run(problem, np.inf, 0).instance
    box = BoundedBox(instance, instance.milp.lower, instance.milp.upper)
    box.bound_networks(crown)
    return box.best_multipliers()
