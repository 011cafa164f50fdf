"""Crossover: the best combination of (input, output) pairs that were evaluated for each sample."""

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from .elastic import Constraints, ElasticModel

# Pairs kept for each sample: that of the best point, then the latest.
MAX_PAIRS_PER_SAMPLE = 24

Pair = tuple[ndarray, ndarray]
"""Inputs of a sample and the outputs of its network there."""


class Crossover:
    r"""For each sample the inputs $x^k$ at which it was evaluated, with the outputs $y^k$.

    The MIP $x = \sum_k z_k x^k,\ y = \sum_k z_k y^k,\ \sum_k z_k = 1,\ z \in \{0, 1\}$ for every
    sample, with the user's constraints and objective, is exact: it has no linearisation. Samples
    that share inputs must agree on them.

    Parameters
    ----------
    elastic : ElasticModel
        The model that solves these MIPs.
    """

    def __init__(self, elastic: ElasticModel) -> None:
        self.elastic = elastic
        self.inputs: list[ndarray] = []
        self.outputs: list[ndarray] = []
        for mapping in elastic.instance.maps:
            self.outputs += list(mapping.output)
            self.inputs += [np.intersect1d(index, elastic.inputs) for index in mapping.index]
        self.seen: list[dict[bytes, Pair]] = [{} for _ in self.inputs]
        self.new = False

    @property
    def useful(self) -> bool:
        """Whether there are new pairs, and combinations of at least two samples."""
        choices = sum(len(pairs) > 1 for pairs in self.seen)
        return self.new and len(self.inputs) > 1 and choices > 1

    def add(self, values: ndarray) -> None:
        """Store the pairs of a point.

        Parameters
        ----------
        values : np.ndarray
            A full assignment whose outputs are the networks' own.
        """
        for inputs, outputs, pairs in zip(self.inputs, self.outputs, self.seen, strict=True):
            key = values[inputs].tobytes()
            self.new |= key not in pairs
            pairs.pop(key, None)
            pairs[key] = values[inputs], values[outputs]

    def best(self, incumbent: ndarray) -> ndarray | None:
        """Combine the stored pairs by a MIP that starts at the incumbent.

        Parameters
        ----------
        incumbent : np.ndarray
            The best point known.

        Returns
        -------
        np.ndarray or None
            A full assignment with the network inputs of the best combination, or None.
        """
        self.add(incumbent)
        self.new = False
        self.seen = [dict(list(pairs.items())[-MAX_PAIRS_PER_SAMPLE:]) for pairs in self.seen]
        n = self.elastic.milp.n_variables
        counts = [len(pairs) for pairs in self.seen]
        end = np.cumsum(counts)
        start = np.concatenate([incumbent, np.zeros(end[-1])])
        start[n + end - 1] = 1.0
        found = self.elastic.choose(self._constraints(counts), start)
        if found is None:
            return None
        values = found[:n].copy()
        choices = np.split(found[n:], end[:-1])
        for inputs, pairs, z in zip(self.inputs, self.seen, choices, strict=True):
            values[inputs] = list(pairs.values())[int(z.argmax())][0]
        return values

    def _constraints(self, counts: list[int]) -> list[Constraints]:
        """One pair for every sample, and its inputs and outputs."""
        sample = np.repeat(np.arange(len(counts)), counts)
        none = sp.csr_matrix((len(counts), self.elastic.milp.n_variables))
        one = np.ones(len(counts))
        chosen = sp.eye(len(counts), format="csr")[:, sample]
        one_pair = Constraints(sp.hstack([none, chosen], format="csr"), one, one)
        inputs = self._tie(np.concatenate(self.inputs), 0)
        outputs = self._tie(np.concatenate(self.outputs), 1)
        return [one_pair, inputs, outputs]

    def _tie(self, variables: ndarray, part: int) -> Constraints:
        """Constraints v = sum of z_k v^k, for the inputs (part 0) or outputs (part 1) of all
        samples.
        """
        blocks = []
        for pairs in self.seen:
            columns = [pair[part] for pair in pairs.values()]
            blocks.append(np.stack(columns, axis=1))
        own = sp.eye(self.elastic.milp.n_variables, format="csr")[variables]
        matrix = sp.hstack([own, -sp.block_diag(blocks)], format="csr")
        zero = np.zeros(len(variables))
        return Constraints(matrix, zero, zero)
