"""Parts of points seen so far, put together anew: each network row keeps one of the inputs that it
was seen with.
"""

import numpy as np
import scipy.sparse as sp

from .elastic import Constraints, ElasticModel

OPTIONS = 24  # of each network row: those of the best point, then the latest


class Crossover:
    r"""For each network row the inputs $x^k$ that it was seen with, and what it said there, $y^k$.

    The program $x = \sum_k z_k x^k,\ y = \sum_k z_k y^k,\ \sum_k z_k = 1,\ z \in \{0, 1\}$ for
    every row, with the user's rows and objective, is exact: no line is in it. Rows that share
    inputs must agree on them.
    """

    def __init__(self, elastic: ElasticModel) -> None:
        self.elastic = elastic
        maps = elastic.instance.maps
        widths = [m.output.shape[1] for m in maps for _ in m.output]
        free = np.zeros(elastic.milp.n_variables, dtype=bool)
        free[elastic.inputs] = True
        self.inputs = [np.unique(row[row >= 0]) for m in maps for row in m.index]
        self.inputs = [row[free[row]] for row in self.inputs]
        self.outputs = np.split(np.arange(len(elastic.outputs)), np.cumsum(widths)[:-1])
        self.seen: list[dict[bytes, tuple[np.ndarray, np.ndarray]]] = [{} for _ in self.inputs]
        self.new = False

    @property
    def useful(self) -> bool:
        """Whether there is anything to put together anew."""
        return self.new and len(self.inputs) > 1 and sum(len(row) > 1 for row in self.seen) > 1

    def add(self, values: np.ndarray) -> None:
        """Remember the parts of a point whose outputs are the networks' own."""
        said = values[self.elastic.outputs]
        for at, out, seen in zip(self.inputs, self.outputs, self.seen, strict=True):
            key = values[at].tobytes()
            self.new |= key not in seen
            seen.pop(key, None)
            seen[key] = values[at], said[out]

    def best(self, incumbent: np.ndarray, seconds: float) -> np.ndarray | None:
        """Network inputs of the best point made of such parts, by a MILP that starts at the
        incumbent.
        """
        self.add(incumbent)
        self.new = False
        for row, seen in enumerate(self.seen):
            self.seen[row] = dict(list(seen.items())[-OPTIONS:])
        counts = np.array([len(seen) for seen in self.seen])
        n = self.elastic.milp.n_variables
        first = np.concatenate([[0], np.cumsum(counts)])
        owner = np.repeat(np.arange(len(counts)), counts)
        one = np.ones(len(counts))
        parts = [Constraints(owner, n + np.arange(first[-1]), np.ones(first[-1]), one, one)]
        for which, variables in enumerate((np.concatenate(self.inputs), self.elastic.outputs)):
            parts.append(self._tie(variables, which))
        start = np.concatenate([incumbent, np.zeros(first[-1])])
        start[n + first[1:] - 1] = 1.0
        found = self.elastic.choose(parts, first[-1], start, seconds)
        if found is None:
            return None
        values = found[:n].copy()
        z = found[n:]
        for row, seen in enumerate(self.seen):
            values[self.inputs[row]] = list(seen.values())[
                int(z[first[row] : first[row + 1]].argmax())
            ][0]
        return values

    def _tie(self, variables: np.ndarray, which: int) -> Constraints:
        """Rows v = sum of z_k v^k, for the inputs or the outputs of all network rows, one after the
        other.
        """
        each = [
            sp.coo_array(np.stack([option[which] for option in seen.values()], axis=1))
            for seen in self.seen
        ]
        seen = sp.block_diag(each).tocoo()
        zero = np.zeros(len(variables))
        row = np.arange(len(variables))
        entries = seen.row, self.elastic.milp.n_variables + seen.col, -seen.data
        return Constraints.terms(zero, zero, (row, variables, 1.0), entries)
