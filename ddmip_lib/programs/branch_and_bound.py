"""Branch and bound on the integer variables of a program, with bounds that are computed from
multipliers alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy import ndarray

from ..clock import TimeOver, check_time, interrupt, now
from .bound_tightening import optimality_based_tightening
from .branching import (
    INTEGRALITY_TOLERANCE,
    BestFirst,
    fractionality,
    integer_branches,
    solve_relaxation,
)
from .lp import LPSolver
from .presolve import cover_cuts, probe_binaries, propagate_bounds, strengthen_coefficients
from .program import Program

NODE_PROPAGATION_ROUNDS = 5
"""Passes of bound propagation at a node."""
NODES_BEFORE_RANGES = 60
"""Nodes after which bound tightening by linear programs pays."""
RANGES_TIME_FRACTION = 0.3
"""Fraction of the remaining time that this bound tightening may take."""
RELIABLE_TRIES = 3
"""Branchings on a variable, each way, after which its gain per unit is relied on."""
MAX_CANDIDATES = 8
"""Variables that are tried at a node."""
NODES_BEFORE_JUDGING = 256
"""Nodes after which an impatient search may end early."""
EARLIEST_TIME_FRACTION = 0.1
"""Fraction of its time before which an impatient search with that many nodes does not end early."""
EARLIEST_TIME_FRACTION_FEW_NODES = 0.3
"""The same fraction with fewer nodes."""
GAIN_FACTOR = 3.0
"""Factor by which the bound may rise faster in future than it did since it was judged last."""


class Proved(NamedTuple):
    """The result of a search.

    Attributes
    ----------
    bound
        No point costs less; inf: there is no point.
    nodes
        Number of nodes.
    complete
        Whether no node below the cutoff is left.
    """

    bound: float
    nodes: int
    complete: bool


@np.errstate(divide="ignore")  # a coefficient that became 0 in a box implies nothing
def prove(
    program: Program,
    cutoff: float = np.inf,
    deadline: float = np.inf,
    on_point: Callable[[ndarray], Any] | None = None,
    max_nodes: float = np.inf,
    patient: bool = True,
    on_bound: Callable[[float], Any] | None = None,
) -> Proved:
    """Prove a lower bound of a program by branch and bound.

    Ctrl-C and the time limit in force end the search early, with what is proved until then.

    Parameters
    ----------
    program
        The program.
    cutoff
        Bound with which the search ends.
    deadline
        Time at which it ends.
    on_point
        Function that is called with every proposed point whose integer variables are integral. It
        may return a smaller cutoff.
    max_nodes
        Number of nodes after which the search ends.
    patient
        Whether the search continues where it will hardly reach the cutoff in time.
    on_bound
        Function that is called with the current bound before each node is split.

    Returns
    -------
    Proved
        The bound, also of an incomplete search.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from .program import Rows
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[2.0, 3.0]]))
    >>> program = Program(one, rows, 4 * one[:1], np.inf * one[:1], 0 * one, 3 * one, one > 0)
    >>> prove(program).bound
    2.0
    """
    tree = SearchTree(program, now(), deadline, cutoff, on_point, on_bound)
    complete = False
    try:
        tree.program = presolved(program, deadline)
        complete = tree.prove(max_nodes, patient)
    except TimeOver:
        pass
    except KeyboardInterrupt:
        interrupt()
    return Proved(tree.proved, tree.nodes, complete)


def presolved(program: Program, deadline: float) -> Program:
    """Return an equivalent program in a smaller box, by all that is done once, before branching."""
    propagated = propagate_bounds(program, rounds=NODE_PROPAGATION_ROUNDS)
    if propagated is None:
        return program
    return cover_cuts(probe_binaries(strengthen_coefficients(propagated), deadline))


class OpenNode(NamedTuple):
    """A box, the bound of the program in it, and the point and basis of its linear program."""

    lower: ndarray
    upper: ndarray
    bound: float
    point: ndarray | None
    basis: highspy.HighsBasis | None


@dataclass(eq=False)
class SearchTree:
    """The open nodes of a program, and the average gains of branching on each variable so far.

    Attributes
    ----------
    program
        The program, presolved.
    began
        Time at which its proof began.
    deadline, cutoff, on_point, on_bound
        As for `prove`.
    solver
        The solver of all linear programs.
    nodes
        Number of nodes so far.
    judged_bound, next_judged
        The bound when `hopeless` was called last, and the nodes after which it is called again.
    first_bound, excluded_cost
        The bound of the first search, and the cost from which on the second one excludes points.
    """

    program: Program
    began: float
    deadline: float
    cutoff: float
    on_point: Callable[[ndarray], Any] | None
    on_bound: Callable[[float], Any] | None = None
    solver: LPSolver = field(default_factory=LPSolver)
    nodes: int = 0
    judged_bound: float = -np.inf
    next_judged: int = 1
    first_bound: float = -np.inf
    excluded_cost: float = np.inf

    def __post_init__(self) -> None:
        # sums over all branchings on a variable, down and up: gain per unit, and their number
        self.gained = np.zeros((2, len(self.program.cost)))
        self.tried = np.zeros((2, len(self.program.cost)))
        self.open = BestFirst(self._box())

    def _box(self) -> OpenNode:
        """Return the whole box, without a bound."""
        return OpenNode(self.program.lower, self.program.upper, -np.inf, None, None)

    def prove(self, most_nodes: float, patient: bool) -> bool:
        """Search; after some nodes tighten all bounds by linear programs, and search again; return
        whether the search is complete.
        """
        complete = self._search(min(NODES_BEFORE_RANGES, most_nodes), patient)
        after_first = now()
        if complete or after_first >= self.deadline or self.nodes >= most_nodes:
            return complete
        self.first_bound = self.proved
        if not patient and self.hopeless(self.first_bound):
            return False
        self.excluded_cost = self.cutoff
        until = after_first + RANGES_TIME_FRACTION * (self.deadline - after_first)
        cheaper = optimality_based_tightening(self.program, self.cutoff, until)
        if cheaper is None:
            self.open = BestFirst(self._box()._replace(bound=np.inf))
            return True
        self.program = cheaper
        return self._search(most_nodes, patient)

    def _search(self, most_nodes: float, patient: bool) -> bool:
        """Search best first, until the cutoff or a limit is reached or the search is hopeless;
        return whether it is complete.
        """
        box = self._box()
        self.open = BestFirst(box)
        root = self._bounded(box)
        self.open.replace([] if root is None else [root])
        while self.open.below(self.cutoff):
            if now() >= self.deadline or self.nodes >= most_nodes:
                return False
            judged = not patient and self.nodes >= self.next_judged
            if judged and self.hopeless(self.open.bound):
                return False
            if self.on_bound is not None:
                self.on_bound(min(self.open.bound, self.cutoff))
            self._branch()
        return True

    def _branch(self) -> None:
        """Split the node of the weakest bound, after its point was passed on."""
        node = self.open.pop()
        distance = fractionality(node.point, self.program.integer, node.lower, node.upper)
        fractional = distance > 0
        if self.on_point is not None and node.point is not None and not fractional.any():
            cutoff = self.on_point(node.point)
            if cutoff is not None:
                self.cutoff = min(self.cutoff, cutoff)
        children = self._children(node, fractional)
        if children is None:  # all integer variables are fixed
            self.open.fathom(node)
        self.open.replace(children or [])

    @property
    def proved(self) -> float:
        """The bound proved so far, at any time."""
        return max(self.first_bound, min(self.open.bound, self.excluded_cost))

    def hopeless(self, bound: float) -> bool:
        """Return whether the search will hardly reach the cutoff until its deadline.

        That is where a bound, late or after many nodes, stays below the cutoff even if every
        doubling of the time gains several times what was gained since the last call.
        """
        gained = bound - self.judged_bound if bound > -np.inf else 0.0
        self.judged_bound = bound
        self.next_judged = 2 * self.nodes
        if self.deadline == np.inf:
            return False
        passed = (now() - self.began) / (self.deadline - self.began)
        rise = -GAIN_FACTOR * gained * np.log2(passed)
        few = self.nodes < NODES_BEFORE_JUDGING
        earliest = EARLIEST_TIME_FRACTION_FEW_NODES if few else EARLIEST_TIME_FRACTION
        return bool(passed > earliest and self.cutoff - bound > rise)

    def _bounded(self, node: OpenNode) -> OpenNode | None:
        """Return a node, with the bound and basis of its parent, after it is solved; None if it is
        empty.
        """
        check_time()
        self.nodes += 1
        box = self.program.within(node.lower, node.upper)
        left = self.deadline - now()
        relaxed = solve_relaxation(box, self.solver, NODE_PROPAGATION_ROUNDS, left, node.basis)
        if relaxed is None:
            return None
        tight, bound, proposal = relaxed
        bound = max(node.bound, bound)
        return OpenNode(tight.lower, tight.upper, bound, proposal.point, proposal.basis)

    def _children(self, node: OpenNode, fractional: ndarray) -> list[OpenNode] | None:
        """Return the halves of a node for the best of a few variables; None where all are fixed.

        A variable whose gains are not reliable yet is tried out.
        """
        if not fractional.any():
            width = np.where(self.program.integer, node.upper - node.lower, 0.0)
            if width.max(initial=0.0) < 1:
                return None
            return self._split(node, int(width.argmax()))[0]
        best: list[OpenNode] | None = None
        best_score = -np.inf
        for tries, index in enumerate(self._candidates(node, np.flatnonzero(fractional))):
            reliable = self.tried[:, index].min() >= RELIABLE_TRIES
            if tries and (reliable or tries >= MAX_CANDIDATES or now() >= self.deadline):
                break
            children, gains = self._split(node, index)
            useful = np.clip(np.minimum(gains, self.cutoff - node.bound), 1e-12, 1e100)
            score = float(np.prod(useful))
            if score > best_score:
                best = children
                best_score = score
            if len(children) < 2 or reliable:
                break
        return best

    def _candidates(self, node: OpenNode, variables: ndarray) -> list[int]:
        """Return variables in the order of the gains to be expected, best first."""
        assert node.point is not None
        fraction = node.point[variables] - np.floor(node.point[variables])
        gained = self.gained[:, variables]
        tried = self.tried[:, variables]
        count = self.tried.sum()
        mean = self.gained.sum() / count if count else 1.0
        down, up = np.where(tried > 0, gained / np.maximum(tried, 1), mean)
        score = np.maximum(down * fraction, 1e-12) * np.maximum(up * (1 - fraction), 1e-12)
        return variables[np.argsort(-score, kind="stable")].tolist()

    def _split(self, node: OpenNode, index: int) -> tuple[list[OpenNode], ndarray]:
        """Return the nonempty halves of a node, and the gain of the bound in each of the two."""
        middle = 0.5 * (node.lower[index] + node.upper[index])
        value = middle if node.point is None else node.point[index]
        fraction = value - np.floor(value)
        distances = (fraction, 1 - fraction)
        gains = np.full(2, np.inf)
        children = []
        for side, box in enumerate(integer_branches(node.lower, node.upper, index, value)):
            child = self._bounded(OpenNode(*box, node.bound, None, node.basis))
            if child is None:
                continue
            children.append(child)
            if np.isinf(node.bound):  # any bound is a gain, which tells nothing about other nodes
                gains[side] = np.inf if np.isfinite(child.bound) else 0.0
                continue
            gains[side] = child.bound - node.bound
            self.gained[side, index] += gains[side] / max(distances[side], INTEGRALITY_TOLERANCE)
            self.tried[side, index] += 1
        return children, gains
