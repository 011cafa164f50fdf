"""What branch-and-bound searches share: open nodes, best first, and the parts of a box."""

import heapq
import itertools
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import highspy
import numpy as np
from numpy import ndarray

from .lp import LPProposal, LPSolver
from .presolve import propagate_bounds, strengthen_coefficients
from .program import Program

INTEGRALITY_TOLERANCE = 1e-6
"""Distance from an integer up to which a value counts as integral."""


class BoundedNode(Protocol):
    """A node of a search for a minimum."""

    @property
    def bound(self) -> float:
        """No point of the node costs less."""


NodeT = TypeVar("NodeT", bound=BoundedNode)


class BestFirst(Generic[NodeT]):
    """The nodes of a best-first search for a minimum.

    Parameters
    ----------
    root
        The first node, in progress.

    Attributes
    ----------
    heap
        Open nodes, the weakest bound first.
    working
        Nodes in progress, which count until their children are open.
    fathomed_bound
        Weakest bound of the nodes that are not split.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nodes = BestFirst(SimpleNamespace(bound=1.0))
    >>> nodes.replace([SimpleNamespace(bound=2.0), SimpleNamespace(bound=1.5)])
    >>> nodes.bound, nodes.pop().bound, nodes.bound, nodes.below(2.0)
    (1.5, 1.5, 1.5, False)
    """

    def __init__(self, root: NodeT) -> None:
        self.heap: list[tuple[float, int, NodeT]] = []
        self.working = [root]
        self.fathomed_bound = np.inf
        self.number = itertools.count()

    @property
    def bound(self) -> float:
        """The bound of the search, at any time: the weakest one of all nodes."""
        nodes = [*self.working, *(node for *_, node in self.heap[:1])]
        return min([self.fathomed_bound, *(node.bound for node in nodes)])

    def below(self, cutoff: float) -> bool:
        """Return whether an open node has a bound below the cutoff and below that of all nodes that
        are not split.
        """
        return bool(self.heap) and self.heap[0][0] < min(cutoff, self.fathomed_bound)

    def pop(self) -> NodeT:
        """Begin with the open node of the weakest bound."""
        node = heapq.heappop(self.heap)[2]
        self.working.append(node)
        return node

    def fathom(self, node: NodeT) -> None:
        """Count a node as one that is not split."""
        self.fathomed_bound = min(self.fathomed_bound, node.bound)

    def replace(self, children: Sequence[NodeT]) -> None:
        """Replace the nodes in progress by their children."""
        for child in children:
            heapq.heappush(self.heap, (child.bound, next(self.number), child))
        self.working = []


class Relaxed(NamedTuple):
    """A program after presolving for one node, the bound of its relaxation, and the proposal of the
    LP solver.
    """

    program: Program
    bound: float
    proposal: LPProposal


def solve_relaxation(
    program: Program,
    solver: LPSolver,
    rounds: int,
    seconds: float = np.inf,
    basis: highspy.HighsBasis | None = None,
) -> Relaxed | None:
    """Return the bound of the linear relaxation of a program; None if it is proved to be empty.

    Parameters
    ----------
    program
        The program, in the box of a node.
    solver
        The solver, whose multipliers prove the bound.
    rounds
        Rounds of bound propagation.
    seconds
        Time limit of the linear program.
    basis
        Basis of a similar program.
    """
    propagated = propagate_bounds(program, rounds=rounds)
    if propagated is None:
        return None
    tight = strengthen_coefficients(propagated)
    proposal = solver.solve(tight, seconds, basis)
    if not proposal.empty:
        return Relaxed(tight, tight.lower_bound(proposal.multipliers), proposal)
    if tight.proves_infeasible(proposal.multipliers):
        return None
    return Relaxed(tight, -np.inf, proposal)


def fractionality(
    point: ndarray | None, integer: ndarray, lower: ndarray, upper: ndarray
) -> ndarray:
    """Return how far each integer variable is from an integer; 0 where it is fixed, or integral up
    to the tolerance.

    Parameters
    ----------
    point
        Values of all variables; None counts as integral.
    integer
        Which variables are integer.
    lower, upper
        Their bounds.
    """
    if point is None:
        return np.zeros(len(lower))
    distance = np.where(integer & (lower < upper), np.abs(point - np.round(point)), 0.0)
    return np.where(distance > INTEGRALITY_TOLERANCE, distance, 0.0)


def branches(
    lower: ndarray, upper: ndarray, index: int, below: float, above: float
) -> list[tuple[ndarray, ndarray]]:
    """Return the parts of a box in which a variable is at most `below`, or at least `above`."""
    at = np.arange(len(lower)) == index
    return [(lower, np.where(at, below, upper)), (np.where(at, above, lower), upper)]


def integer_branches(
    lower: ndarray, upper: ndarray, index: int, value: float
) -> list[tuple[ndarray, ndarray]]:
    """Return the parts of a box in which an integer variable is below a value, or above it."""
    below = float(np.clip(np.floor(value), lower[index], upper[index] - 1))
    return branches(lower, upper, index, below, below + 1)
