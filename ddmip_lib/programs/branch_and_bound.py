"""Branch and bound on the whole numbers of a program, every bound of which is computed from
multipliers alone.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..clock import TimeOver, check_time, interrupt, now
from .bound_tightening import optimality_based_tightening
from .lp import LPSolver
from .presolve import cover_cuts, probe_binaries, propagate_bounds, strengthen_coefficients
from .program import Program

ROUNDS = 5  # of bounds that rows imply
FIRST = 60  # nodes after which ranges by linear programs are worth their time
SHARE = 0.3  # of the time that is left: for these ranges at most
RELIABLE = 3
TRIES = (
    8  # tries of a variable after which its gains are believed; variables that are tried at a node
)
JUDGED = 256
EARLY = 0.1
LATE = 0.3  # nodes and share of the time, or share alone, after which it may be given up
QUICKENS = 3.0  # by so much the rise of a bound may gather pace
# a proposed value so near to a whole number is not branched on, as long as another one is farther
# away
WHOLE = 1e-6


class Proved(NamedTuple):
    """What is proved: no point costs less than `bound` (inf: there is none); `complete` if all was
    searched.
    """

    bound: float
    nodes: int
    complete: bool


@np.errstate(
    divide="ignore"
)  # rows that are fitted to a box can lose a weight: nothing follows from 0
def prove(
    program: Program,
    enough: float = np.inf,
    deadline: float = np.inf,
    on_point: Callable[[np.ndarray], Any] | None = None,
    most_nodes: float = np.inf,
    patient: bool = True,
    hear: Callable[[float], Any] | None = None,
) -> Proved:
    """A bound of the program; it ends at `enough`, or with what is proved at the deadline, at
    Ctrl-C or after so many nodes, or, if it is not `patient`, as soon as it looks as if it would
    not come to `enough` in time.

    `on_point` hears the points that HiGHS proposes where all whole numbers are whole, and may
    return a
    smaller `enough`; `hear` gets the bound before each node is split.

    >>> import scipy.sparse as sp
    >>> from .program import Rows
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[2.0, 3.0]]))
    >>> program = Program(one, rows, 4 * one[:1], np.inf * one[:1], 0 * one, 3 * one, one > 0)
    >>> prove(program).bound
    2.0
    """
    began = now()
    tree = None
    first = Proved(-np.inf, 0, False)
    known = np.inf
    try:
        program = presolved(
            program, deadline
        )  # its rows say what the old ones did within its box alone
        tree = SearchTree(program, began, deadline, enough, on_point, hear)
        first = tree.search(min(FIRST, most_nodes), patient)
        after_first = now()
        if first.complete or after_first >= deadline or tree.nodes >= most_nodes:
            return first
        if not patient and tree.hopeless(first.bound):
            return first
        known = tree.enough  # what the program loses from here on costs at least so much
        cheaper = optimality_based_tightening(
            program, known, after_first + SHARE * (deadline - after_first)
        )
        if cheaper is None:
            return Proved(max(first.bound, known), tree.nodes, True)
        tree.program = cheaper
        second = tree.search(most_nodes, patient)
        return second._replace(bound=max(first.bound, min(second.bound, known)))
    except TimeOver:
        pass
    except KeyboardInterrupt:
        interrupt()
    if tree is None:
        return first
    return Proved(max(first.bound, min(tree.proved, known)), tree.nodes, False)


def presolved(program: Program, deadline: float) -> Program:
    """What can be done once, before any branching."""
    box = propagate_bounds(program, program.lower, program.upper, rounds=ROUNDS)
    if box is None:
        return program
    program = strengthen_coefficients(program, *box).within(*box)
    return cover_cuts(probe_binaries(program, deadline))


class OpenNode(NamedTuple):
    """A box, the bound of the program in it, and the point that was proposed there."""

    lower: np.ndarray
    upper: np.ndarray
    bound: float
    point: np.ndarray | None
    basis: Any  # of the linear program, where the next one begins


class SearchTree:
    """Nodes of one program, and what branching on each variable has gained so far."""

    def __init__(
        self,
        program: Program,
        began: float,
        deadline: float,
        enough: float,
        on_point: Callable[[np.ndarray], Any] | None,
        hear: Callable[[float], Any] | None = None,
    ) -> None:
        self.program = program
        self.began = began
        self.deadline = deadline
        self.enough = enough
        self.on_point = on_point
        self.hear = hear
        self.proposer = LPSolver()
        self.nodes = 0
        self.last = -np.inf
        self.next = 1  # the bound when it was judged last, and the nodes after which it is again
        self.heap: list[tuple[float, int, OpenNode]] = []
        self.settled = np.inf  # the weakest bound of nodes that are split no further
        self.working = (
            -np.inf
        )  # the bound of the node in progress, whose children are not in the heap yet
        self.gained, self.tried = np.zeros((2, 2, len(program.cost)))
        """Sum over tries of the gain for each unit of the fraction, down and up; and how many
        tries.
        """

    def search(self, most_nodes: float, patient: bool = True) -> Proved:
        """Best first, until the bound is enough or a limit is met, or until it is given up."""
        self.heap = []
        self.settled = np.inf
        self.working = -np.inf
        root = self.node(self.program.lower, self.program.upper, -np.inf)
        if root is not None:
            self.heap.append((root.bound, 0, root))
        self.working = np.inf
        number = itertools.count(1)
        while self.heap and self.heap[0][0] < min(self.enough, self.settled):
            late = now() >= self.deadline or self.nodes >= most_nodes
            if late or (not patient and self.nodes >= self.next and self.hopeless(self.heap[0][0])):
                return Proved(self.proved, self.nodes, False)
            if self.hear is not None:
                self.hear(min(self.proved, self.enough))
            self.working = self.heap[0][0]
            node = heapq.heappop(self.heap)[2]
            open_ = self.open(node)
            if self.on_point is not None and node.point is not None and not open_.any():
                found = self.on_point(node.point)
                self.enough = self.enough if found is None else min(self.enough, found)
            children = self.children(node, open_)
            if children is None:  # everything is decided: the bound is what it is
                self.settled = min(self.settled, node.bound)
            for child in children or ():
                heapq.heappush(self.heap, (child.bound, next(number), child))
            self.working = np.inf
        return Proved(self.proved, self.nodes, True)

    @property
    def proved(self) -> float:
        """What the search has proved so far, at any moment of it."""
        first = self.heap[0][0] if self.heap else np.inf
        return min(self.settled, self.working, first)

    def hopeless(self, bound: float) -> bool:
        """Whether a bound, late or after many nodes, stays below `enough` until the deadline even
        if every doubling of the time from now on gains several times what it has since it was asked
        last.
        """
        gained = bound - self.last if bound > -np.inf else 0.0
        self.last = bound
        self.next = 2 * self.nodes
        if self.deadline == np.inf:
            return False
        passed = (now() - self.began) / (self.deadline - self.began)
        rise = -QUICKENS * gained * np.log2(passed)
        return bool(
            passed > (EARLY if self.nodes >= JUDGED else LATE) and self.enough - bound > rise
        )

    def node(
        self, lower: np.ndarray, upper: np.ndarray, bound: float, basis: Any = None
    ) -> OpenNode | None:
        """The node of a box in which `bound` holds already; None if it has no point."""
        check_time()
        self.nodes += 1
        box = propagate_bounds(self.program, lower, upper, rounds=ROUNDS)
        if box is None:
            return None
        tight = strengthen_coefficients(self.program, *box).within(*box)
        proposal = self.proposer.ask(tight, self.deadline - now(), basis)
        if not proposal.empty:
            return OpenNode(
                *box,
                max(bound, tight.value(proposal.multipliers, *box)),
                proposal.point,
                proposal.basis,
            )
        return (
            None
            if tight.proves_empty(proposal.multipliers, *box)
            else OpenNode(*box, bound, None, None)
        )

    def open(self, node: OpenNode) -> np.ndarray:
        """The whole numbers that the point leaves between two."""
        if node.point is None:
            return np.zeros(len(node.lower), dtype=bool)
        away = np.abs(node.point - np.round(node.point))
        return self.program.integer & (node.lower < node.upper) & (away > WHOLE)

    def children(self, node: OpenNode, open_: np.ndarray) -> list[OpenNode] | None:
        """The two halves of a node for the variable that promises most; None where nothing is left
        to split.

        What is not known yet of a few variables that look best is tried out.
        """
        if not open_.any():
            width = np.where(self.program.integer, node.upper - node.lower, 0.0)
            return (
                self._split(node, int(width.argmax()))[0] if width.max(initial=0.0) >= 1 else None
            )
        best: list[OpenNode] | None = None
        record = -np.inf
        for tries, at in enumerate(self._promising(node, np.flatnonzero(open_))):
            known = self.tried[:, at].min() >= RELIABLE
            if tries and (known or tries >= TRIES or now() >= self.deadline):
                break
            found, gains = self._split(node, at)
            score = float(
                np.prod(np.clip(np.minimum(gains, self.enough - node.bound), 1e-12, 1e100))
            )
            if score > record:
                best = found
                record = score
            if len(found) < 2 or known:
                break
        return best

    def _promising(self, node: OpenNode, among: np.ndarray) -> list[int]:
        """Variables in the order of what branching on them should gain."""
        assert node.point is not None
        part = node.point[among] - np.floor(node.point[among])
        total = self.gained.sum()
        count = self.tried.sum()
        mean = total / count if count else 1.0
        rate = np.where(
            self.tried[:, among] > 0,
            self.gained[:, among] / np.maximum(self.tried[:, among], 1),
            mean,
        )
        score = np.maximum(rate[0] * part, 1e-12) * np.maximum(rate[1] * (1 - part), 1e-12)
        return [int(at) for at in among[np.argsort(-score, kind="stable")]]

    def _split(self, node: OpenNode, at: int) -> tuple[list[OpenNode], np.ndarray]:
        """The halves of a node that have points, and what each of the two gained."""
        value = 0.5 * (node.lower[at] + node.upper[at]) if node.point is None else node.point[at]
        gains = np.full(2, np.inf)
        found = []
        for side, (lower, upper) in enumerate(
            branches(node.lower, node.upper, at, np.floor(value))
        ):
            child = self.node(lower, upper, node.bound, node.basis)
            if child is None:
                continue
            found.append(child)
            if np.isinf(
                node.bound
            ):  # from no bound at all any bound is a gain, and says nothing about others
                gains[side] = np.inf if np.isfinite(child.bound) else 0.0
                continue
            gains[side] = child.bound - node.bound
            part = value - np.floor(value)
            self.gained[side, at] += gains[side] / max((part, 1 - part)[side], WHOLE)
            self.tried[side, at] += 1
        return found, gains


def branches(
    lower: np.ndarray, upper: np.ndarray, at: int, below: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The two parts of a box in which one whole number is at most `below`, or more."""
    below = float(np.clip(below, lower[at], upper[at] - 1))
    left = upper.copy()
    right = lower.copy()
    left[at], right[at] = below, below + 1
    return [(lower, left), (right, upper)]
