r"""Blocks of a model, that is, what it decomposes into without a few coupling constraints.

All variables of one sample of a network, its inputs and its outputs, belong together, and so do
those of samples with a common variable: a *cell*. A constraint whose network variables are of one
cell adds its other variables to that cell, constraints with the fewest such variables first; a
variable that several cells claim at the same time belongs to none. Then every constraint *spans* a
number of cells. Constraints that span up to $k$ cells are kept inside of blocks, all others link:

$$\min_v \sum_b c_b^\top v_b + c_0^\top v_0 \quad\text{s.t.}\quad l \le \sum_b L_b v_b
+ L_0 v_0 \le u, \qquad
v_b \in \text{block } b.$$

The $k$ with the most blocks for each coupling constraint is chosen. The variables $v_0$ of no block
are those of the master problem.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy import ndarray
from scipy.sparse.csgraph import connected_components

from ..clock import check_time
from ..errors import ProblemError
from ..programs.scip import MILP
from ..renamed import renamed_fields
from .instance import Instance
from .text import counted


@renamed_fields(linking="coupling")
@dataclass(frozen=True)
class Structure:
    """The block of each variable and the constraints that link blocks; or why there are none.

    Attributes
    ----------
    block
        (variables,) numbers from 0 on; -1 for variables of the master problem and for fixed ones.
    coupling
        (constraints,) whether a constraint has variables of several blocks, or of the master
        problem.
    n
        Number of blocks.
    master
        Number of variables that occur in a constraint or the objective and belong to no block.
    names
        Names of the coupling constraints.
    obstacle
        Why the model does not decompose; empty if it does.

    Examples
    --------
    >>> from ddmip_lib.problems import shared_budget
    >>> structure = find_structure(shared_budget().instance())
    >>> structure.n, structure.names[0]
    (3, 'budget')
    """

    block: ndarray
    coupling: ndarray
    n: int
    master: int
    names: tuple[str, ...]
    obstacle: str = ""

    def require(self, what: str) -> None:
        """Raise an error if there are no blocks.

        Parameters
        ----------
        what : str
            The method that needs blocks.

        Raises
        ------
        ProblemError
            If the model does not decompose; the message names the obstacle.
        """
        if self.obstacle:
            raise ProblemError(
                f"{what} needs a problem that decomposes into blocks, and this one does not:"
                f" {self.obstacle}. Use solve or SequentialMIP, or describe the blocks with"
                " problem.set_blocks(Blocks(...))."
            )

    def __repr__(self) -> str:
        if self.obstacle:
            return f"Structure: no blocks, {self.obstacle}"
        sizes = np.bincount(self.block[self.block >= 0])
        size = " to ".join(map(str, sorted({sizes.min(), sizes.max()})))
        examples = ", ".join([*self.names[:1], "..."][: len(self.names)])
        return (
            f"Structure: {counted(self.n, 'block')} of {size} variables,"
            f" {counted(len(self.names), 'coupling constraint')}{examples and f' ({examples})'},"
            f" {counted(self.master, 'master variable')}"
        )


def find_structure(instance: Instance) -> Structure:
    """Find the blocks of a model.

    Parameters
    ----------
    instance : Instance
        The problem.

    Returns
    -------
    Structure
        The blocks, or the obstacle.
    """
    milp = instance.milp
    free = milp.lower < milp.upper
    samples = _sample_incidence(instance, free)
    cell = _numbered(_components(samples), samples, -1)
    obstacle = _obstacle(milp, samples, cell)
    if obstacle:
        return Structure(np.full(len(free), -1), np.zeros(milp.n_rows, bool), 0, 0, (), obstacle)
    incidence = _constraint_incidence(milp, free)
    relevant = free & (milp.cost != 0)
    relevant[incidence.indices] = True
    partitions = _partitions(milp, incidence, _extended(incidence, cell), relevant)
    several = [found for found in partitions if found.n > 1]
    return max(several, key=lambda found: found.n / (1 + len(found.names)))


def independent_components(instance: Instance) -> ndarray:
    """Return the component of each variable: components have no constraint and no network sample
    in common.

    Parameters
    ----------
    instance : Instance
        The problem.

    Returns
    -------
    numpy.ndarray
        Numbers from 0 on in the order of the samples, -1 for fixed variables. Variables that no
        network sample depends on belong to the first component.
    """
    milp = instance.milp
    free = milp.lower < milp.upper
    samples = _sample_incidence(instance, free)
    component = _components(sp.vstack([samples, _constraint_incidence(milp, free)], format="csr"))
    return np.where(free, _numbered(component, samples, 0), -1)


def _obstacle(milp: MILP, samples: sp.csr_matrix, cell: ndarray) -> str:
    """Why a model does not decompose; empty if it has several cells."""
    if milp.others:
        other = milp.others[0]
        return f"{other.kind} {other.name} is not linear, so that its parts are not separated"
    if cell.max(initial=-1) > 0:
        return ""
    n_samples = np.bincount(samples.indices, minlength=milp.n_variables)
    if n_samples.max(initial=0) > 1:
        return f"variable {milp.names[int(n_samples.argmax())]} joins its network samples"
    return "it has only one sample of a network"


def _partitions(
    milp: MILP, incidence: sp.csr_matrix, cell: ndarray, relevant: ndarray
) -> Iterator[Structure]:
    """The structure for each largest span of a constraint inside of a block.

    Constraints that span one cell join no cells, so that the first structure has several blocks.
    """
    spanned = _groups_of_constraints(incidence, cell)
    span = np.diff(spanned.indptr)
    for max_span in np.unique(np.append(span, 1)):
        check_time()
        block_of_cell = _components(spanned[span <= max_span])
        block = _extended(incidence, np.where(cell >= 0, block_of_cell[cell], -1))
        in_master = relevant & (block < 0)
        joins_blocks = np.diff(_groups_of_constraints(incidence, block).indptr) > 1
        linking = joins_blocks | (incidence @ in_master.astype(float) > 0)
        names = tuple(milp.row_names[row] for row in np.flatnonzero(linking))
        yield Structure(block, linking, int(block.max()) + 1, int(in_master.sum()), names)


def _sample_incidence(instance: Instance, free: ndarray) -> sp.csr_matrix:
    """Which free variables are inputs or outputs of each sample: (samples, variables)."""
    parts = []
    for mapping in instance.maps:
        index = np.hstack([mapping.index, mapping.output])
        sample, column = np.nonzero((index >= 0) & free[index])
        entries = sample, index[sample, column]
        shape = len(index), len(free)
        parts.append(sp.csr_matrix((np.ones(len(sample)), entries), shape=shape))
    return sp.vstack(parts, format="csr")


def _constraint_incidence(milp: MILP, free: ndarray) -> sp.csr_matrix:
    """Which free variables each constraint has: (constraints, variables)."""
    rows = milp.rows
    entries = free[rows.indices].astype(float), rows.indices, rows.indptr
    incidence = sp.csr_matrix(entries, shape=rows.shape, copy=True)
    incidence.eliminate_zeros()
    return incidence


def _components(incidence: sp.csr_matrix) -> ndarray:
    """The connected component of each column, where columns of one row are connected."""
    graph = sp.block_array([[None, incidence], [incidence.T, None]])
    _, label = connected_components(graph, directed=False)
    return np.unique(label[incidence.shape[0] :], return_inverse=True)[1]


def _numbered(component: ndarray, samples: sp.csr_matrix, others: int) -> ndarray:
    """Components with numbers in the order of the samples; `others` for those without a sample."""
    found, first = np.unique(component[samples.indices], return_index=True)
    number = np.full(component.max(initial=-1) + 1, others)
    number[found[np.argsort(first)]] = np.arange(len(found))
    return number[component]


def _extended(incidence: sp.csr_matrix, cell: ndarray) -> ndarray:
    """Add to cells the variables that only their constraints have.

    A variable that several cells claim at the same time is not added to any.
    """
    entries = incidence.tocoo()
    cell = cell.copy()
    contested = np.zeros(len(cell), dtype=bool)
    while True:
        first, last = _claims(entries, cell, (cell < 0) & ~contested)
        if (last < 0).all():
            return cell
        claimed_once = first == last
        cell[claimed_once] = first[claimed_once]
        contested |= (last >= 0) & ~claimed_once


def _claims(entries: sp.coo_matrix, cell: ndarray, unassigned: ndarray) -> tuple[ndarray, ndarray]:
    """The first and the last cell that claims each unassigned variable.

    Of all constraints on one cell, those with the fewest unassigned variables claim them.
    """
    n_constraints, n_variables = entries.shape
    lowest, highest = _label_range(entries.row, cell[entries.col], n_constraints)
    count = np.bincount(entries.row[unassigned[entries.col]], minlength=n_constraints)
    claims = (lowest == highest) & (count > 0)
    claims &= count == count[claims].min(initial=n_variables)
    chosen = claims[entries.row] & unassigned[entries.col]
    return _label_range(entries.col[chosen], lowest[entries.row[chosen]], n_variables)


def _label_range(group: ndarray, label: ndarray, n_groups: int) -> tuple[ndarray, ndarray]:
    """The lowest and the highest label from 0 on in each group; the highest is -1 without any."""
    known = label >= 0
    lowest = np.full(n_groups, np.iinfo(int).max)
    highest = np.full(n_groups, -1)
    np.minimum.at(lowest, group[known], label[known])
    np.maximum.at(highest, group[known], label[known])
    return lowest, highest


def _groups_of_constraints(incidence: sp.csr_matrix, label: ndarray) -> sp.csr_matrix:
    """Which cells, or blocks, have a variable in each constraint: (constraints, cells)."""
    owned = np.flatnonzero(label >= 0)
    shape = len(label), label.max() + 1
    member = sp.csr_matrix((np.ones(len(owned)), (owned, label[owned])), shape=shape)
    return (incidence @ member).tocsr()
