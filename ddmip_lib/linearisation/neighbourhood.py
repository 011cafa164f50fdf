"""Exact neighbourhoods: near a point most ReLUs cannot switch, so that the exact model of a problem
there is small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..bounds import Graph, network_graph
from ..bounds.graph import Elementwise
from ..clock import now
from ..errors import ProblemError, UnsupportedNetworkError
from ..methods.run import start_run
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.solution import Bounded, Solution
from ..programs.mip import MIPResult, solve_program
from ..proofs.checking import closes_gap, incumbent_cost, prove_optimality
from ..proofs.encoding import Ends
from ..proofs.exact import exact_program
from .elastic import ElasticModel

MARGIN = 1e-6  # by which a logit of class 1 is kept away from 0
CLOSED = 1e-4  # relative gap at which an exact neighbourhood counts as closed
BINARIES = 1_000  # of an exact neighbourhood that is worth a solver's time
CLOSE = 0.01
# box, as a share of each input's range, and nodes in which a point that just fails is mended
MENDING = 20
TOO_LARGE = MIPResult(None, False)
UNITS = 20_000  # of all networks and rows together, up to which their exact model is written


def exact_graphs(instance: Instance) -> list[Graph] | None:
    """The graphs of all networks if a mixed-integer program of reasonable size can say them
    exactly.
    """
    if instance.milp.others:
        return None
    graphs = []
    units = 0
    for predictor in instance.predictors:
        try:
            graph = network_graph(predictor.net, predictor.inputs.shape[1])
        except UnsupportedNetworkError:
            return None
        if graph.curved:
            return None
        graphs.append(graph)
        units += len(predictor.inputs) * sum(
            node.units for node in graph.nodes if isinstance(node, Elementwise)
        )
    return graphs if units <= UNITS else None


def search_box(
    incumbent: Incumbent,
    graphs: Sequence[Graph],
    box: Ends,
    seconds: float,
    nodes: int,
    seed: int = 0,
) -> MIPResult:
    """The best point of a box by the exact model, from the best point known; its inputs still have
    to be completed.
    """
    instance = incumbent.instance
    began = now()
    program = exact_program(instance, incumbent.units, graphs, box, tolerance=0.0, margin=MARGIN)
    if program.integer.sum() > BINARIES:
        return TOO_LARGE
    start = np.full(len(program.cost), np.nan)
    if incumbent.values is not None:
        start[: instance.milp.n_variables] = incumbent.values
    left = seconds - (
        now() - began
    )  # MIPs inside the MIP would take most of it, for what descents find
    answer = solve_program(program, left, nodes, seed, start, CLOSED, heuristics=False)
    return (
        answer
        if answer.point is None
        else answer._replace(point=answer.point[: instance.milp.n_variables])
    )


class FeasibilityRepair:
    """Finds points that pass `verify` close to others that fail by little, such as a search of
    bounds proposes: by the exact model in a small box, whole numbers kept; once at each place.
    """

    def __init__(
        self, incumbent: Incumbent, graphs: Sequence[Graph], deadline: float, seed: int = 0
    ) -> None:
        self.incumbent = incumbent
        self.graphs = graphs
        self.deadline = deadline
        self.seed = seed
        s = incumbent.instance.milp
        self.inputs = incumbent.instance.free_inputs
        self.reach = np.where(s.integer, 0.0, CLOSE * (s.upper - s.lower))[self.inputs]
        self.whole = s.integer & ~incumbent.instance.is_output
        self.places: list[np.ndarray] = []

    def __call__(self, values: np.ndarray) -> None:
        s = self.incumbent.instance.milp
        near = values[self.inputs]
        if any((np.abs(near - place) <= 0.5 * self.reach).all() for place in self.places):
            return
        self.places.append(near)
        lower = s.lower.copy()
        upper = s.upper.copy()
        lower[self.inputs] = np.maximum(lower[self.inputs], near - self.reach)
        upper[self.inputs] = np.minimum(upper[self.inputs], near + self.reach)
        lower[self.whole] = upper[self.whole] = values[self.whole]
        seconds = self.deadline - now()
        found = search_box(
            self.incumbent, self.graphs, (lower, upper), seconds, MENDING, self.seed
        ).point
        if found is not None:
            self.incumbent.consider(found)


@dataclass(frozen=True, eq=False)
class LocalBound(Bounded):
    """What `local_bound` proved, in the sense of the user's model: of one box, never of the whole
    problem.

    `objective` is the best verified one in the box, `point` that point in the order of
    `Model.getVars`; `closed` says whether the two have met. `lower` and `upper` are the ends of the
    network inputs that may move.
    """

    objective: float | None
    bound: float | None
    closed: bool
    radius: float
    lower: np.ndarray
    upper: np.ndarray
    point: np.ndarray
    nodes: int


def local_bound(
    problem: NeuralMIP, solution: Solution, radius: float, time_limit: float = 60.0
) -> LocalBound:
    """A bound, checked outside any solver, of all points that `verify` accepts with every network
    input within `radius` times its range of a solution's (whole ones within at least 1).
    """
    run = start_run(problem, time_limit, 0)
    incumbent = run.incumbent(with_start=False)
    if solution.values is None or not incumbent.consider(solution.values).feasible:
        raise ProblemError(
            "a local bound belongs to a point: pass a solution of this problem that has one."
        )
    graphs = exact_graphs(run.instance)
    if graphs is None:
        raise ProblemError(
            "a local bound needs networks of ReLUs and linear rows alone: see certify for others."
        )
    elastic = ElasticModel(run.instance)
    everywhere = np.full(run.instance.milp.n_variables, np.inf)
    lower, upper = (end[elastic.inputs] for end in elastic.box(solution.values, radius))
    box = -everywhere, everywhere.copy()  # all other variables keep what `verify` forgives them
    box[0][elastic.inputs], box[1][elastic.inputs] = lower, upper
    proved = prove_optimality(
        incumbent,
        exact_program(run.instance, incumbent.units, graphs, box),
        run.deadline,
        np.inf,
    )
    closed = closes_gap(incumbent, proved.bound)
    sign = run.instance.milp.sign
    bound = min(proved.bound, incumbent_cost(incumbent))
    assert incumbent.values is not None
    return LocalBound(
        incumbent.objective,
        None if bound == -np.inf else float(sign * bound),
        closed,
        radius,
        lower,
        upper,
        incumbent.values,
        proved.nodes,
    )
