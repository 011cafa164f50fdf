r"""Bounds for blocks of any form: the coupling constraints are priced, and every component of the
exact model is bounded separately.

For all multipliers $\pi$ of the coupling constraints $a \le L v \le b$ of a minimisation, weak
duality gives

$$c^\top v \;\ge\; \sum_{\pi_i > 0} \pi_i a_i + \sum_{\pi_i < 0} \pi_i b_i
\; + \sum_p \min_{v_p \in \text{component } p} (c - L^\top \pi)_p^\top v_p ,$$

where the components are those of the model without the coupling constraints. Each minimum is
bounded by branch and bound on the exact model of the component with CROWN's ranges
(`proofs.prove`), all of whose bounds are computed from multipliers alone. What rounding can have
changed in $c - L^\top\pi$ is subtracted, times the range of each variable.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy import ndarray
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from ..clock import TimeOver, check_time, now
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..model.structure import Structure
from ..numerics import gamma
from ..programs import Program, prove
from ..programs.lp import LPSolver
from ..programs.program import Rows
from ..proofs.checking import cutoff, incumbent_cost
from ..proofs.exact import exact_program
from .bound_state import checked_prices
from .certificate import Certificate

NODES_PER_STAGE = (1, 20, 400, np.inf)  # nodes of a component, so that none waits for a harder one


@dataclass(eq=False)
class LagrangianDual:
    """The exact model of a problem at one vector of multipliers of its coupling constraints, and
    what is proved of its components so far.

    Parameters
    ----------
    incumbent
        Best verified point of the problem.
    structure
        Blocks and coupling constraints.
    prices : array_like or None
        Multipliers; those of infinite sides count as 0. By default those of the linear relaxation.
    deadline
        Time limit of the linear relaxation, in seconds of `ddmip_lib.clock.now`.

    Raises
    ------
    ProblemError
        If the number of multipliers is wrong, or one is not finite.

    Attributes
    ----------
    program
        The exact model.
    coupling, inside
        Numbers of the coupling constraints, and of all others.
    coupling_matrix, inside_matrix
        Coefficients of both.
    component
        Component of each variable.
    cost
        Reduced cost of every variable.
    components
        Numbers of the components of nonzero cost.
    proved, complete
        For each of them, the proven bound, and whether it is the minimum up to the tolerance.
    nodes
        Nodes of all searches together.
    history
        Seconds and bound, as a minimisation, at every improvement.
    """

    incumbent: Incumbent
    structure: Structure
    prices: ArrayLike | None
    deadline: float

    def __post_init__(self) -> None:
        self.began = now()
        self.program = exact_program(self.incumbent.instance, self.incumbent.units)
        self.nodes = 0
        self.history: list[tuple[float, float]] = []
        self._find_components()
        prices = self.prices
        if prices is None:
            proposal = LPSolver().solve(self.program, self.deadline - now())
            prices = proposal.multipliers[self.coupling]
        low = self.program.row_lower[self.coupling]
        high = self.program.row_upper[self.coupling]
        mu = checked_prices(prices, len(self.coupling), "coupling constraints")
        mu = np.where((mu > 0) & np.isinf(low) | (mu < 0) & np.isinf(high), 0.0, mu)
        self.multipliers = mu
        self.cost = self.program.cost - self.coupling_matrix.T @ mu
        side = np.select([mu > 0, mu < 0], [low, high])
        self.terms = np.concatenate([mu * side, -self._rounding(), [self.program.constant]])
        self.components = np.unique(self.component[self.cost != 0])
        self.proved = np.full(len(self.components), -np.inf)
        self.complete = np.zeros(len(self.components), dtype=bool)

    def _find_components(self) -> None:
        """Find the components of the exact model without the coupling constraints."""
        matrix = self.program.rows.matrix(len(self.program.cost))
        is_coupling = np.zeros(matrix.shape[0], dtype=bool)
        is_coupling[: len(self.structure.coupling)] = self.structure.coupling
        self.coupling = np.flatnonzero(is_coupling)
        self.inside = np.flatnonzero(~is_coupling)
        self.coupling_matrix = matrix[self.coupling]
        self.inside_matrix = inside = matrix[self.inside]
        adjacency = sp.block_array([[None, inside], [inside.T, None]])
        label = connected_components(adjacency, directed=False)[1]
        self.component = label[len(self.inside) :]

    def _rounding(self) -> ndarray:
        """Rounding error of the reduced cost, times the range of each variable."""
        program = self.program
        matrix = self.coupling_matrix
        size = np.abs(program.cost) + abs(matrix).T @ np.abs(self.multipliers)
        size[np.diff(matrix.tocsc().indptr) == 0] = 0.0  # the cost was not changed there
        largest = np.maximum(np.abs(program.lower), np.abs(program.upper))
        largest = np.where(size == 0, 0.0, largest)
        return gamma(len(self.multipliers) + 8) * (size * largest)

    @property
    def bound(self) -> float:
        """The proven bound of the problem, as a minimisation, rounded down."""
        terms = np.concatenate([self.terms, self.proved])
        if (terms == -np.inf).any() or np.isnan(terms).any():
            return -np.inf
        if np.isinf(terms).any():
            return np.inf
        return float(terms.sum() - gamma(len(terms) + 8) * np.abs(terms).sum())

    def subproblem(self, number: int) -> tuple[ndarray, Program]:
        """Return the variables of a component, and its program.

        Parameters
        ----------
        number
            Position in `components`.
        """
        program = self.program
        columns = np.flatnonzero(self.component == self.components[number])
        matrix = self.inside_matrix[:, columns]
        rows = np.flatnonzero(np.diff(matrix.indptr))
        constraints = self.inside[rows]
        return columns, Program(
            self.cost[columns],
            Rows.of(matrix[rows]),
            program.row_lower[constraints],
            program.row_upper[constraints],
            program.lower[columns],
            program.upper[columns],
            program.integer[columns],
        )

    def _target(self, columns: ndarray) -> float:
        """The bound with which the search of a component may end: its cost at the incumbent, less a
        part of the tolerance.
        """
        values = self.incumbent.values
        if values is None:
            return np.inf
        columns = columns[columns < len(values)]
        tolerance = incumbent_cost(self.incumbent) - cutoff(self.incumbent)
        cost = float(self.cost[columns] @ values[columns])
        return cost - 0.5 * (tolerance / len(self.components))

    def prove_all(self, deadline: float) -> None:
        """Bound the components in stages of more and more nodes.

        Parameters
        ----------
        deadline
            End of the proof, in seconds of `ddmip_lib.clock.now`.
        """
        sign = self.incumbent.instance.milp.sign
        best = -np.inf
        with suppress(TimeOver):
            for max_nodes in NODES_PER_STAGE:
                self.prove(deadline, max_nodes)
                if best < self.bound < np.inf:
                    best = self.bound
                    self.history.append((now() - self.began, best))
                    report_progress(bound=sign * best)

    def prove(self, deadline: float, max_nodes: float) -> None:
        """Bound every component that is not complete, in equal fractions of the time.

        Parameters
        ----------
        deadline
            End of this stage, in seconds of `ddmip_lib.clock.now`.
        max_nodes
            Nodes of each component, at most.
        """
        for number in map(int, np.flatnonzero(~self.complete)):
            left = deadline - now()
            if left <= 0 or self.bound >= cutoff(self.incumbent):
                return
            until = now() + left / max(1, int((~self.complete).sum()))
            columns, program = self.subproblem(number)
            if not len(program.row_lower):  # nothing but bounds of variables
                self.proved[number] = program.lower_bound(np.zeros(0))
                self.complete[number] = True
                continue
            found = prove(program, self._target(columns), until, max_nodes=max_nodes)
            self.nodes += found.nodes
            self.proved[number] = max(self.proved[number], found.bound)
            self.complete[number] = found.complete
            check_time()

    def certificate(self) -> Certificate:
        """Return what is proved, block by block."""
        structure = self.structure
        sign = self.incumbent.instance.milp.sign
        values = self.incumbent.values
        profit_bound = np.zeros(structure.n)
        profit_known = np.full(structure.n, -np.inf)
        closed = np.ones(structure.n, dtype=bool)
        for block in range(structure.n):
            columns = np.flatnonzero(structure.block == block)
            mine = np.isin(self.components, self.component[columns])
            profit_bound[block] = -sum(self.proved[mine])
            closed[block] = self.complete[mine].all()
            if values is not None:
                profit_known[block] = -float(self.cost[columns] @ values[columns])
        return Certificate(
            bound=sign * self.bound,
            objective=self.incumbent.objective,
            prices=self.multipliers,
            profit_bound=profit_bound,
            profit_known=profit_known,
            closed=closed,
            method=tuple(np.where(closed, "exact model", "open").tolist()),
            nodes=self.nodes,
            seconds=now() - self.began,
            history=tuple((seconds, sign * bound) for seconds, bound in self.history),
        )
