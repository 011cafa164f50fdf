r"""Bounds for blocks of any form: linking rows are priced, and the exact model of every piece is
proved by itself.

For all multipliers $\mu$ of the linking rows $a \le L v \le b$ of a minimisation, weak duality
gives

$$c^\top v \;\ge\; \sum_{\mu_i > 0} \mu_i a_i + \sum_{\mu_i < 0} \mu_i b_i
\; + \sum_p \min_{v_p \in \text{piece } p} (c - L^\top \mu)_p^\top v_p ,$$

where the pieces are what falls apart once the linking rows are gone. Each minimum is bounded by
branch and bound on the piece's exact model with CROWN's ranges (`proofs.prove`), every bound of
which is computed from multipliers alone. What rounding can have changed in $c - L^\top\mu$ is taken
off, times the range of each variable.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..bounds import Graph, network_graph
from ..clock import TimeOver, check_time, now
from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..model.structure import Structure
from ..numerics import gamma
from ..programs import Program, prove
from ..programs.lp import LPSolver
from ..programs.program import Rows
from ..proofs.checking import AIM, cutoff, incumbent_cost
from ..proofs.exact import exact_program
from .certificate import Certificate

UNITS = 20_000  # of all networks and rows together, up to which their exact model is written
NODES = (1, 20, 400, np.inf)
"""Nodes of a piece in one stage after the other: no piece waits for a harder one."""


class LagrangianRelaxation:
    """The exact program of a problem, its linking rows at prices, in pieces."""

    def __init__(self, incumbent: Incumbent, structure: Structure, graphs: Sequence[Graph]) -> None:
        self.incumbent = incumbent
        self.structure = structure
        self.began = now()
        self.program = exact_program(incumbent.instance, incumbent.units, graphs)
        rows = self.program.rows.matrix(len(self.program.cost))
        at = np.zeros(rows.shape[0], dtype=bool)
        at[: len(structure.linking)] = structure.linking
        self.linking = np.flatnonzero(at)
        self.own = np.flatnonzero(~at)
        self.links = rows[self.linking]
        inside = rows[self.own]
        joined = sp.block_array([[None, inside], [inside.T, None]])
        label = (
            connected_components(joined, directed=False)[1]
            if inside.nnz
            else np.arange(sum(inside.shape))
        )
        self.row_piece, self.piece = np.split(label, [inside.shape[0]])
        self.inside = inside

    def proposed(self, seconds: float) -> np.ndarray:
        """Multipliers of the linking rows in the linear relaxation of the whole."""
        return LPSolver().ask(self.program, seconds).multipliers[self.linking]


class LagrangianDual:
    """The pieces at one vector of multipliers, and what is proved of them so far."""

    def __init__(self, apart: LagrangianRelaxation, multipliers: np.ndarray) -> None:
        whole = apart.program
        low = whole.row_lower[apart.linking]
        high = whole.row_upper[apart.linking]
        mu = np.where(
            (multipliers > 0) & np.isinf(low) | (multipliers < 0) & np.isinf(high), 0.0, multipliers
        )
        self.apart = apart
        self.multipliers = mu
        self.nodes = 0
        self.cost = whole.cost - apart.links.T @ mu
        size = np.abs(whole.cost) + abs(apart.links).T @ np.abs(mu)
        size[np.diff(apart.links.tocsc().indptr) == 0] = 0.0  # nothing was computed there
        reach = np.maximum(np.abs(whole.lower), np.abs(whole.upper))
        lost = gamma(len(mu) + 8) * np.where(size == 0, 0.0, size * np.where(size == 0, 0.0, reach))
        side = np.where(mu > 0, low, high)
        self.parts = np.concatenate([mu * np.where(mu == 0, 0.0, side), -lost, [whole.constant]])
        self.pieces = np.unique(apart.piece[self.cost != 0])  # others add nothing
        self.proved = np.full(len(self.pieces), -np.inf)
        self.complete = np.zeros(len(self.pieces), dtype=bool)

    @property
    def bound(self) -> float:
        """A bound of the whole, as a minimisation, rounded down."""
        parts = np.concatenate([self.parts, self.proved])
        if not np.isfinite(parts).all():
            return -np.inf if (parts == -np.inf).any() or np.isnan(parts).any() else np.inf
        return float(parts.sum() - gamma(len(parts) + 8) * np.abs(parts).sum())

    def part(self, number: int) -> tuple[np.ndarray, Program]:
        """The variables of a piece, and its program."""
        apart = self.apart
        whole = self.apart.program
        columns = np.flatnonzero(apart.piece == self.pieces[number])
        rows = np.flatnonzero(apart.row_piece == self.pieces[number])
        own = apart.own[rows]
        return columns, Program(
            self.cost[columns],
            Rows.of(apart.inside[rows][:, columns]),
            whole.row_lower[own],
            whole.row_upper[own],
            whole.lower[columns],
            whole.upper[columns],
            whole.integer[columns],
        )

    def known(self, columns: np.ndarray) -> float:
        """What the incumbent's part of a piece costs, less the share of what counts as closed."""
        best = incumbent_cost(self.apart.incumbent)
        values = self.apart.incumbent.values
        if values is None:
            return np.inf
        mine = columns[columns < len(values)]
        share = AIM * self.apart.incumbent.units.objective(best) / len(self.pieces)
        return float(self.cost[mine] @ values[mine]) - 0.5 * share

    def prove(self, deadline: float, most_nodes: float) -> None:
        """One stage: every piece that is not complete, in an equal share of the time."""
        for number in map(int, np.flatnonzero(~self.complete)):
            left = deadline - now()
            aim = cutoff(self.apart.incumbent)
            if left <= 0 or self.bound >= aim:
                return
            share = now() + left / max(1, int((~self.complete).sum()))
            columns, program = self.part(number)
            if not len(program.row_lower):  # the box is all there is
                self.proved[number] = program.value(np.zeros(0), program.lower, program.upper)
                self.complete[number] = True
                continue
            found = prove(program, self.known(columns), share, most_nodes=most_nodes)
            self.nodes += found.nodes
            self.proved[number], self.complete[number] = (
                max(self.proved[number], found.bound),
                found.complete,
            )
            check_time()

    def certificate(self, history: list[tuple[float, float]]) -> Certificate:
        """What is proved, block by block."""
        apart = self.apart
        sign = self.apart.incumbent.instance.milp.sign
        of_piece = {p: k for k, p in enumerate(self.pieces)}
        values = apart.incumbent.values
        proved, known = np.zeros((2, apart.structure.n))
        closed = np.ones(apart.structure.n, dtype=bool)
        for block in range(apart.structure.n):
            columns = np.flatnonzero(apart.structure.block == block)
            mine = {of_piece[p] for p in apart.piece[columns] if p in of_piece}
            proved[block] = -sum(self.proved[k] for k in mine)
            closed[block] = all(self.complete[k] for k in mine)
            known[block] = (
                -np.inf if values is None else -float(self.cost[columns] @ values[columns])
            )
        return Certificate(
            sign * self.bound,
            apart.incumbent.objective,
            self.multipliers,
            proved,
            known,
            closed,
            tuple("exact model" if done else "open" for done in closed),
            self.nodes,
            now() - apart.began,
            tuple((when, sign * value) for when, value in history),
        )


class BlockBounds(NamedTuple):
    """What is proved of all pieces together, as a minimisation; and whether Ctrl-C ended it."""

    bound: float = -np.inf
    certificate: Certificate | None = None
    interrupted: bool = False

    def reported(self, sign: float) -> float | None:
        """The bound in the sense of the user's model; None where there is none."""
        return None if self.bound == -np.inf else sign * self.bound


def blocks_bound(
    incumbent: Incumbent, structure: Structure, prices: Any, deadline: float
) -> BlockBounds:
    """A bound, as a minimisation, of a problem of general blocks at prices of its linking rows.

    Without prices, those of the linear relaxation are taken, which are far from the best. Where the
    exact model would be too large, nothing is proved.
    """
    predictors = incumbent.instance.predictors
    graphs = [network_graph(p.net, p.inputs.shape[1]) for p in predictors]
    units = sum(
        len(p.inputs) * sum(graph.nodes[k].units for k in graph.activations)
        for p, graph in zip(predictors, graphs, strict=True)
    )
    if units > UNITS:
        return BlockBounds()
    apart = LagrangianRelaxation(incumbent, structure, graphs)
    proposed = apart.proposed(deadline - now()) if prices is None else prices
    best = LagrangianDual(apart, _checked(proposed, len(apart.linking)))
    history: list[tuple[float, float]] = []
    by_hand = False
    try:
        for nodes in NODES:
            best.prove(deadline, nodes)
            if np.isfinite(best.bound) and (not history or best.bound > history[-1][1]):
                history.append((now() - apart.began, best.bound))
                report_progress(bound=incumbent.instance.milp.sign * best.bound)
    except KeyboardInterrupt:
        by_hand = True
    except TimeOver:
        pass
    return BlockBounds(best.bound, best.certificate(history), by_hand)


def _checked(prices: Any, count: int) -> np.ndarray:
    mu = np.asarray(prices, dtype=float).ravel()
    if mu.size != count:
        raise ProblemError(f"{mu.size} prices for {count} linking rows: pass one for each.")
    if not np.isfinite(mu).all():
        raise ProblemError("prices must be finite: others prove nothing.")
    return mu
