"""Exact models of neighbourhoods: close to a point few ReLUs can switch, so that they are small."""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from ..clock import now
from ..errors import ProblemError
from ..methods.run import start_run
from ..model.incumbent import Incumbent
from ..model.problem import NeuralMIP
from ..model.solution import Bounded, Solution
from ..programs.mip import MIPResult, solve_program
from ..proofs.encoding import Ends, tighten_at
from ..proofs.exact import exact_program, has_exact_model
from .elastic import ElasticModel, fixed_bounds

# Distance from 0 that exact models keep the logit of class 1 at.
EXACT_LOGIT_MARGIN = 1e-6
# Relative gap at which an exact model counts as solved.
EXACT_RELATIVE_GAP = 1e-4
# Binaries of an exact model, above which it is not solved.
MAX_EXACT_BINARIES = 1_000
# Radius of the box in which a point is repaired, as a fraction of each variable's range.
REPAIR_RADIUS = 0.01
# Branch-and-bound nodes of a repair.
REPAIR_NODES = 20
# Result of an exact model that has too many binaries.
TOO_LARGE = MIPResult(None, False)


def search_box(
    incumbent: Incumbent, box: Ends, seconds: float, nodes: int, seed: int = 0
) -> MIPResult:
    """Solve the exact model in a box, from the incumbent.

    Parameters
    ----------
    incumbent : Incumbent
        The best point known, which the solver starts from.
    box : tuple of np.ndarray
        Lower and upper bounds of all variables.
    seconds : float
        Time limit.
    nodes : int
        Limit of branch-and-bound nodes.
    seed : int
        Seed of the solver.

    Returns
    -------
    MIPResult
        A point whose network inputs still have to be completed; `TOO_LARGE` if the model is.
    """
    n = incumbent.instance.milp.n_variables
    began = now()
    program = exact_program(
        incumbent.instance, incumbent.units, box, tolerance=0.0, margin=EXACT_LOGIT_MARGIN
    )
    if program.integer.sum() > MAX_EXACT_BINARIES:
        return TOO_LARGE
    start = incumbent.values
    seconds -= now() - began
    # sub-MIP heuristics would take most of the time, and descents find what they find
    result = solve_program(
        program, seconds, nodes, seed, start, EXACT_RELATIVE_GAP, heuristics=False
    )
    if result.point is None:
        return result
    return result._replace(point=result.point[:n])


class FeasibilityRepair:
    """Restores feasibility of points that fail `verify` slightly.

    The exact model is solved in a small box around the point with integers fixed, once in each
    neighbourhood.

    Parameters
    ----------
    incumbent : Incumbent
        Receives the points.
    deadline : float
        Time on the clock of `now` at which the last repair ends.
    seed : int
        Seed of the solver.
    """

    def __init__(self, incumbent: Incumbent, deadline: float, seed: int = 0) -> None:
        self.incumbent = incumbent
        self.deadline = deadline
        self.seed = seed
        s = incumbent.instance.milp
        self.inputs = incumbent.instance.free_inputs
        radius = np.where(s.integer, 0.0, REPAIR_RADIUS * (s.upper - s.lower))
        self.radius = radius[self.inputs]
        self.fixed = s.integer & ~incumbent.instance.is_output
        self.places: list[ndarray] = []

    def __call__(self, values: ndarray) -> None:
        """Search close to a point.

        Parameters
        ----------
        values : np.ndarray
            A full assignment.
        """
        inputs = values[self.inputs]
        near = 0.5 * self.radius
        if any((np.abs(inputs - place) <= near).all() for place in self.places):
            return
        self.places.append(inputs)
        s = self.incumbent.instance.milp
        box = fixed_bounds((s.lower, s.upper), self.fixed, values)
        tighten_at(box, self.inputs, inputs - self.radius, inputs + self.radius)
        seconds = self.deadline - now()
        result = search_box(self.incumbent, box, seconds, REPAIR_NODES, self.seed)
        if result.point is not None:
            self.incumbent.consider(result.point)


@dataclass(frozen=True, eq=False)
class LocalBound(Bounded):
    """What `local_bound` proves, in the sense of the user's model: for one box only.

    Attributes
    ----------
    objective : float or None
        Objective of the best verified point in the box.
    bound : float or None
        Bound of all objectives in the box.
    closed : bool
        Whether objective and bound agree to tolerance: the point is optimal in the box.
    radius : float
        Radius of the box, as a fraction of each input's range.
    lower, upper : np.ndarray
        Bounds of the network inputs that are not fixed.
    point : np.ndarray
        The best point, in the order of ``Model.getVars``.
    nodes : int
        Branch-and-bound nodes.
    """

    objective: float | None
    bound: float | None
    closed: bool
    radius: float
    lower: ndarray
    upper: ndarray
    point: ndarray
    nodes: int


def local_bound(
    problem: NeuralMIP, solution: Solution, radius: float, time_limit: float = 60.0
) -> LocalBound:
    """Prove a bound of all points in a box around a solution, verified outside any solver.

    The bound holds for all points that `verify` accepts with every network input in the box.

    Parameters
    ----------
    problem : NeuralMIP
        The problem.
    solution : Solution
        A solution with a feasible point.
    radius : float
        Radius of the box, as a fraction of each input's range; at least 1 for integers.
    time_limit : float
        Time limit in seconds.

    Returns
    -------
    LocalBound
        Bound and best point of the box.

    Raises
    ------
    ProblemError
        If the solution has no feasible point, or the problem has no exact model.

    Examples
    --------
    >>> from ddmip_lib import SequentialMIP
    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> local = local_bound(problem, SequentialMIP().solve(problem), radius=1.0)
    >>> local.closed, round(local.objective, 6)
    (True, 0.5)
    """
    run = start_run(problem, time_limit, 0)
    incumbent = run.incumbent(with_start=False)
    if solution.values is None or not incumbent.consider(solution.values).feasible:
        raise ProblemError(
            "a local bound requires a feasible point: pass a solution of this problem that has one."
        )
    if not has_exact_model(run.instance):
        raise ProblemError(
            "a local bound requires ReLU networks and linear constraints alone: use certify for"
            " other problems."
        )
    inputs = run.instance.free_inputs
    bounds = ElasticModel(run.instance).box(solution.values, radius)
    infinite = np.full(len(solution.values), np.inf)
    box = -infinite, infinite  # bounds of other variables are relaxed by the tolerance
    tighten_at(box, inputs, bounds[0][inputs], bounds[1][inputs])
    program = exact_program(run.instance, incumbent.units, box)
    proved = run.prove(program)
    assert incumbent.values is not None
    return LocalBound(
        incumbent.objective,
        run.bound,
        run.gap_closed,
        radius,
        box[0][inputs],
        box[1][inputs],
        incumbent.values,
        proved.nodes,
    )
