"""Exact neighbourhoods: near a point most ReLUs cannot switch, so that the exact model of a problem there is small."""

import time
from collections.abc import Sequence

import numpy as np

from ..bounds import Graph, network_graph
from ..bounds.activations import ACTIVATIONS
from ..bounds.graph import Activation
from ..errors import ProblemError, UnsupportedNetworkError
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.solution import Proof, Solution
from ..model.solver import begin
from ..proofs.checking import best_cost, check, meets
from ..proofs.embedding import Ends
from ..proofs.exact import embedded
from .elastic import Elastic
from .milp import Answer, solve_program

MARGIN = 1e-6  # by which a logit of class 1 is kept away from 0
UNITS = 20_000  # of all networks and rows together, up to which their exact model is written


def exact_graphs(instance: Instance) -> list[Graph] | None:
    """The graphs of all networks if a mixed-integer program of reasonable size can say them exactly."""
    if instance.milp.others:
        return None
    graphs, units = [], 0
    for predictor in instance.predictors:
        try:
            graph = network_graph(predictor.net, predictor.inputs.shape[1])
        except UnsupportedNetworkError:
            return None
        if any(isinstance(node, Activation) and ACTIVATIONS[node.kind].rows is None for node in graph.nodes):
            return None
        graphs.append(graph)
        units += len(predictor.inputs) * sum(node.units for node in graph.nodes if isinstance(node, Activation))
    return graphs if units <= UNITS else None


def search_box(
    incumbent: Incumbent, graphs: Sequence[Graph], box: Ends, seconds: float, nodes: int, seed: int = 0
) -> Answer:
    """The best point of a box by the exact model, from the best point known; its inputs still have to be completed."""
    instance, began = incumbent.instance, time.perf_counter()
    program = embedded(instance, incumbent.units, graphs, box, tolerance=0.0, margin=MARGIN)
    start = np.full(len(program.cost), np.nan)
    if incumbent.values is not None:
        start[: instance.milp.n_variables] = incumbent.values
    answer = solve_program(program, seconds - (time.perf_counter() - began), nodes, seed, start)
    return answer if answer.point is None else answer._replace(point=answer.point[: instance.milp.n_variables])


def local_bound(problem: NeuralMIP, solution: Solution, radius: float, time_limit: float = 60.0) -> Solution:
    """The best point within a radius of a solution's, with a bound **for that box alone**, checked outside any solver.

    Status "optimal" there means: no point that `verify` accepts, with every network input within `radius` of its
    range (whole ones within at least 1), is better. ``details["box"]`` holds the ends of the network inputs.
    """
    begun = begin(problem, time_limit, 0)
    incumbent = begun.incumbent(with_start=False)
    if solution.values is None or not incumbent.consider(solution.values).feasible:
        raise ProblemError("a local bound belongs to a point: pass a solution of this problem that has one.")
    graphs = exact_graphs(begun.instance)
    if graphs is None:
        raise ProblemError("a local bound needs networks of ReLUs and linear rows alone: see certify for others.")
    elastic = Elastic(begun.instance)
    box = elastic.box(incumbent.values, radius)  # type: ignore[arg-type]  # it was considered
    proved = check(incumbent, embedded(begun.instance, incumbent.units, graphs, box), begun.deadline, np.inf)
    done = meets(incumbent, proved.bound)
    bound = begun.instance.milp.sign * min(proved.bound, best_cost(incumbent))
    details = {"radius": radius, "nodes": proved.nodes, "box": [end[elastic.inputs] for end in box]}
    proof = Proof(f"{begun.instance.digest} within {radius:g}", "exact model of a box", True)
    return Solution("optimal" if done else "time_limit", "local bound", bound=bound, proof=proof, **incumbent.point(),
                    seconds=time.perf_counter() - begun.began, details=details)  # fmt: skip
