r"""Blocks found in a model: what falls apart when a few linking rows are taken away.

All variables that enter or leave one row of a network belong together, and so do those of network
rows that share a variable: a *cell*. A row of the model that meets one cell alone draws its other
variables into it, rows with the fewest such variables first; a variable that several cells claim at
the same time belongs to none. Then every row *spans* a number of cells, and rows of a span up to
$k$ are kept inside of blocks, all others link:

$$\min_v \sum_b c_b^\top v_b + c_0^\top v_0 \quad\text{s.t.}\quad l \le \sum_b L_b v_b
+ L_0 v_0 \le u, \qquad
v_b \in \text{block } b.$$

Of all $k$ the one with the most blocks for each linking row is taken. The variables $v_0$ of no
block are the master's.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..clock import check_time
from ..errors import ProblemError
from .instance import Instance


@dataclass(frozen=True)
class Structure:
    """Which block each variable belongs to, and which rows link blocks; or what keeps the model in
    one piece.

    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> find_structure(water_potability(n=3, net=mlp(2, 16, 9)).instance())
    Structure: 3 blocks of 28 variables, 18 linking rows (budget up ph, ...), no master variable
    """

    block: (
        np.ndarray
    )  #: (variables,) numbers from 0 on; -1 for the master's variables and for fixed ones.
    linking: (
        np.ndarray
    )  #: (rows,) whether a row holds variables of several blocks, or of the master.
    n: int  #: How many blocks.
    master: int  #: How many variables that matter belong to no block.
    names: tuple[str, ...]  #: Of the linking rows.
    obstacle: str = ""  #: What keeps the model in one piece; empty where it has blocks.

    def require(self, what: str) -> None:
        """An error that says what links everything, where there are no blocks."""
        if self.obstacle:
            raise ProblemError(
                f"{what} needs a problem that falls into blocks, and this one does not:"
                f" {self.obstacle}. Use DualDecomposition, or describe blocks that you know of with"
                " problem.set_blocks(Blocks(...))."
            )

    def __repr__(self) -> str:
        if self.obstacle:
            return f"Structure: no blocks, {self.obstacle}"
        sizes = np.bincount(self.block[self.block >= 0])
        low = int(sizes.min())
        high = int(sizes.max())
        each = f"{low}" if low == high else f"{low} to {high}"
        rows = len(self.names)
        more = ", ..." * (len(self.names) > 1)
        said = f" ({self.names[0]}{more})" if self.names else ""
        return (
            f"Structure: {self.n} blocks of {each} variables, {rows} linking"
            f" row{'s' * (rows != 1)}{said}, {self.master or 'no'} master"
            f" variable{'s' * (self.master > 1)}"
        )


def find_structure(instance: Instance) -> Structure:
    """The blocks of a model; where there are none, the obstacle in words."""
    s = instance.milp
    free = s.lower < s.upper
    networks = _network_rows(instance, free)
    nothing = np.full(s.n_variables, -1), np.zeros(s.n_rows, dtype=bool), 0, 0, ()
    if s.others:
        first = s.others[0]
        return Structure(
            *nothing,
            f"{first.kind} {first.name} is no linear row, and its pieces are not seen apart",
        )
    cell = _cells(networks)
    count = int(cell.max(initial=-1)) + 1
    if count < 2:
        entering = np.bincount(networks.tocoo().col, minlength=s.n_variables)
        shared = f"variable {s.names[int(entering.argmax())]} joins its network rows"
        return Structure(
            *nothing,
            shared if entering.max(initial=0) > 1 else "one row of a network is all there is",
        )
    met = sp.csr_matrix((np.ones(s.rows.nnz), s.rows.indices, s.rows.indptr), shape=s.rows.shape)
    met = (met @ sp.diags(free.astype(float))).tocsr()
    met.eliminate_zeros()
    cell = _drawn_in(met, cell)
    best = None
    matters = free & ((np.bincount(met.indices, minlength=len(free)) > 0) | (s.cost != 0))
    spans = _meetings(met, cell, count)
    span = np.diff(spans.indptr)
    for most in np.unique(np.append(span, 1)):
        check_time()
        joined = _joined(spans[span <= most])
        blocks = int(joined.max()) + 1
        block = _drawn_in(met, np.where(cell >= 0, joined[cell], -1))
        master = matters & (block < 0)
        linking = (np.diff(_meetings(met, block, blocks).indptr) > 1) | (
            met @ master.astype(float) > 0
        )
        worth = blocks / (1 + int(linking.sum()))
        if blocks > 1 and (best is None or worth > best[0]):
            best = worth, block, linking, blocks, int(master.sum())
    assert best is not None  # rows that span one cell leave all cells apart
    return Structure(*best[1:], tuple(s.row_names[r] for r in np.flatnonzero(best[2])))


def _network_rows(instance: Instance, free: np.ndarray) -> sp.csr_matrix:
    """Which free variables enter or leave each row of each network: (network rows, variables)."""
    at = [np.zeros(0, dtype=int)]
    number = [np.zeros(0, dtype=int)]
    rows = 0
    for m in instance.maps:
        for index in (m.index, m.output):
            row, _ = np.nonzero((index >= 0) & free[index])
            at.append(index[(index >= 0) & free[index]])
            number.append(rows + row)
        rows += len(m.output)
    entries = np.concatenate(number), np.concatenate(at)
    return sp.csr_matrix((np.ones(len(entries[0])), entries), shape=(rows, len(free)))


def _joined(incidence: sp.csr_matrix) -> np.ndarray:
    """Numbers of the pieces into which columns fall that meet in no row."""
    label = connected_components(
        sp.block_array([[None, incidence], [incidence.T, None]]), directed=False
    )[1]
    pieces: np.ndarray = np.unique(label[incidence.shape[0] :], return_inverse=True)[1]
    return pieces


def _cells(networks: sp.csr_matrix) -> np.ndarray:
    """The cell of every variable of a network, numbered in the order of the network rows; -1 for
    all others.
    """
    label = _joined(networks)
    inside = np.diff(networks.tocsc().indptr) > 0
    order: dict[int, int] = {}
    for variable in networks.indices[
        np.argsort(np.repeat(np.arange(networks.shape[0]), np.diff(networks.indptr)))
    ]:
        order.setdefault(int(label[variable]), len(order))
    return np.array(
        [order[int(k)] if own else -1 for k, own in zip(label, inside, strict=True)], dtype=int
    )


def _drawn_in(met: sp.csr_matrix, cell: np.ndarray) -> np.ndarray:
    """Cells with all variables that rows draw into them; what several claim at once stays
    outside.
    """
    entries, cell, outside = met.tocoo(), cell.copy(), np.zeros(len(cell), dtype=bool)
    row = entries.row
    at = entries.col
    rows = met.shape[0]
    while True:
        low = np.full(rows, len(cell))
        high = np.full(rows, -1)
        known = cell[at] >= 0
        np.minimum.at(low, row[known], cell[at[known]])
        np.maximum.at(high, row[known], cell[at[known]])
        open_ = (cell < 0) & ~outside
        unknown = np.zeros(rows, dtype=int)
        np.add.at(unknown, row, open_[at])
        draws = (low == high) & (unknown > 0)
        if not draws.any():
            return cell
        pulled = (draws & (unknown == unknown[draws].min()))[row] & open_[at]
        first = np.full(len(cell), len(cell))
        last = np.full(len(cell), -1)
        np.minimum.at(first, at[pulled], low[row[pulled]])
        np.maximum.at(last, at[pulled], low[row[pulled]])
        cell[first == last] = first[first == last]
        outside |= (last >= 0) & (first < last)


def _meetings(met: sp.csr_matrix, label: np.ndarray, count: int) -> sp.csr_matrix:
    """Which cells, or blocks, each row meets: (rows, count)."""
    owned = np.flatnonzero(label >= 0)
    member = sp.csr_matrix((np.ones(len(owned)), (owned, label[owned])), shape=(len(label), count))
    return (met @ member).tocsr()
