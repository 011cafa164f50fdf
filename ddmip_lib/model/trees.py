r"""Trees as linear constraints: a binary for each leaf, and one for each threshold of a variable.

A leaf binary $z_l$ is 1 where the inputs reach leaf $l$, and $b_{jt} = 1$ where $x_j \le t$. The
leaves of a tree sum to one; those to the left of a split sum to at most $b_{jt}$, those to the
right to at most $1 - b_{jt}$. All trees share the $b_{jt}$, whose steps bound $x_j$. The outputs
are a linear network of the $z_l$, which takes the place of the trees.
"""

import itertools
import math
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy import ndarray

from ..bounds.layer import linear_layer
from ..predictors.trees import Tree, TreeEnsemble, TreeSplit, splits_in
from .instance import InputMap
from .left_out import LeftOut
from .predictor import Predictor
from .reformulation import Reformulation

NEGLIGIBLE_ROOM = 1e-12
"""Rounding errors of a library, relative to its outputs, that proofs need not allow for."""
MAX_CLIPPED = 1e-5
"""Distance from an interval of thresholds, in units of the variable, up to which an input is moved
into it.
"""
MAX_TABULATED = 64
"""Combinations of the inputs of a sample up to which a table states trees better."""
MAX_LEAVES = 50_000
"""Leaves of all samples up to which trees become constraints."""


class ThresholdSteps(NamedTuple):
    """The indicators of the thresholds of one variable.

    Attributes
    ----------
    at
        The variable.
    thresholds
        The largest value on the left of each one, in increasing order.
    first_right
        The smallest value on the right of each one.
    binaries
        1 on the left; for a binary variable, itself.
    """

    at: int
    thresholds: ndarray
    first_right: ndarray
    binaries: ndarray

    @property
    def of_binary(self) -> bool:
        """Whether the variable is binary, and 0 on the left of its only threshold."""
        return int(self.binaries[0]) == self.at

    def term(self, threshold: float) -> tuple[int, float, float]:
        """The indicator of a threshold: variable, coefficient and constant."""
        if self.of_binary:
            return self.at, -1.0, 1.0
        return int(self.binaries[np.searchsorted(self.thresholds, threshold)]), 1.0, 0.0

    def extend(self, values: ndarray) -> None:
        """Set the binaries, in place."""
        if not self.of_binary:
            values[self.binaries] = values[self.at] <= self.thresholds

    def restrict(self, values: ndarray) -> None:
        """Move the variable, in place, into the interval of its binaries if it is close to it."""
        if self.of_binary:
            return
        is_left = values[self.binaries] > 0.5
        low = self.first_right[~is_left].max(initial=-np.inf)
        high = self.thresholds[is_left].min(initial=np.inf)
        moved = min(max(values[self.at], low), high)
        if abs(moved - values[self.at]) <= MAX_CLIPPED * max(1.0, abs(moved)):
            values[self.at] = moved


class TreeConstraints:
    """The trees of one predictor as constraints.

    Parameters
    ----------
    reformulation
        The problem that gets the variables and constraints.
    number
        The predictor.
    """

    def __init__(self, reformulation: Reformulation, number: int) -> None:
        self.reformulation = reformulation
        self.predictor = reformulation.predictors[number]
        self.mapping = reformulation.maps[number]
        self.ensemble = cast(TreeEnsemble, self.predictor.net.ensemble)
        self.lower, self.upper, self.integer = _box(reformulation, self.mapping)
        self.samples = [self._reachable(i) for i in range(len(self.lower))]
        self.leaves = np.empty((0, 0), dtype=int)
        self.columns: list[ndarray] = []

    def _reachable(self, sample: int) -> list[tuple[list[int], list[TreeSplit]]]:
        """Leaves and splits of each tree that a sample reaches."""
        trees = [_for_integers(tree, self.integer[sample]) for tree in self.ensemble.trees]
        return [splits_in(tree, self.lower[sample], self.upper[sample]) for tree in trees]

    @property
    def number_of_leaves(self) -> int:
        return sum(len(leaves) for sample in self.samples for leaves, _ in sample)

    def few_combinations(self) -> bool:
        """Whether the inputs of each sample take few values, so that tables are better."""
        return all(map(self._has_few_values, range(len(self.lower))))

    def _has_few_values(self, sample: int) -> bool:
        free = self.lower[sample] < self.upper[sample]
        values = {int(at): 1.0 for at in self.mapping.index[sample]}
        for at, low, high, integer in zip(
            self.mapping.index[sample][free],
            self.lower[sample][free],
            self.upper[sample][free],
            self.integer[sample][free],
            strict=True,
        ):
            values[int(at)] = high - low + 1 if integer else math.inf
        return math.prod(values.values()) <= MAX_TABULATED

    def thresholds(self) -> set[tuple[int, float]]:
        """The variables with their thresholds."""
        return {
            (int(self.mapping.index[i, split.feature]), split.threshold)
            for i, trees in enumerate(self.samples)
            for _, splits in trees
            for split in splits
        }

    def write(self, steps: dict[int, ThresholdSteps]) -> tuple[Predictor, InputMap]:
        """Write leaves and splits; return the linear network of the leaves."""
        trees = self.ensemble.trees
        weight = np.concatenate([tree.value[tree.feature < 0] for tree in trees]).T
        self.columns = self._number_leaves()
        self.leaves = np.full((len(self.samples), weight.shape[1]), -1)
        constant = np.zeros(self.leaves.shape)
        for i, sample in enumerate(self.samples):
            for column, (reached, splits) in zip(self.columns, sample, strict=True):
                if len(reached) == 1:
                    constant[i, column[reached]] = 1.0
                    continue
                self.leaves[i, column[reached]] = self._binaries(i, len(reached))
                for split in splits:
                    at = int(self.mapping.index[i, split.feature])
                    self._write_split(self.leaves[i, column], split, steps[at])
        return self._network(weight, self.leaves, constant)

    def _number_leaves(self) -> list[ndarray]:
        """For each tree, the number of each leaf among the leaves of all trees."""
        columns = []
        count = 0
        for tree in self.ensemble.trees:
            is_leaf = tree.feature < 0
            columns.append(np.where(is_leaf, count + np.cumsum(is_leaf) - 1, 0))
            count += int(is_leaf.sum())
        return columns

    def _binaries(self, sample: int, count: int) -> list[int]:
        """Add the binaries of a tree's leaves, which sum to one."""
        r = self.reformulation
        leaves = [r.variable(0, 1, True, f"leaf of sample {sample}") for _ in range(count)]
        r.constrain(leaves, [1.0] * count, 1.0, 1.0, "one leaf of a tree")
        return leaves

    def _write_split(self, binary_of: ndarray, split: TreeSplit, steps: ThresholdSteps) -> None:
        """Let the leaves on one side be chosen only where the threshold puts the variable there."""
        at, slope, constant = steps.term(split.threshold)
        name = f"{split.feature} <= {split.threshold:g}"
        for leaves, sign in ((split.left, 1.0), (split.right, -1.0)):
            entries = [*binary_of[leaves], at]
            weights = [*np.ones(len(leaves)), -sign * slope]
            side = constant if sign > 0 else 1.0 - constant
            self.reformulation.constrain(entries, weights, -np.inf, side, name)

    def _network(
        self, weight: ndarray, index: ndarray, constant: ndarray
    ) -> tuple[Predictor, InputMap]:
        """The linear network; where a library rounds to float32, with an input for its error."""
        room = self.ensemble.room
        if (room > NEGLIGIBLE_ROOM * np.abs(weight).sum(axis=1)).any():
            r = self.reformulation
            width = len(room)
            ends = np.tile(room, len(index))
            errors = [r.variable(-each, each, name="error") for each in ends]
            index = np.hstack([index, np.reshape(errors, (-1, width))])
            constant = np.hstack([constant, np.zeros((len(index), width))])
            weight = np.hstack([weight, np.eye(width)])
        net = linear_layer(torch.tensor(weight), torch.tensor(self.ensemble.intercept))
        predictor = replace(self.predictor, net=net.requires_grad_(False).eval(), inputs=index)
        return predictor, InputMap(index, constant, self.mapping.output)

    def extend(self, values: ndarray) -> None:
        """Set the leaf binaries, in place."""
        x = np.clip(self.mapping.at(values), self.lower, self.upper)
        for tree, column in zip(self.ensemble.trees, self.columns, strict=True):
            reached = column[tree.leaf_of(x)]
            all_columns = column[tree.feature < 0]
            for binaries, chosen in zip(self.leaves, reached, strict=True):
                values[binaries[all_columns][binaries[all_columns] >= 0]] = 0.0
                if binaries[chosen] >= 0:
                    values[binaries[chosen]] = 1.0

    def restrict(self, values: ndarray) -> None:
        """Set the outputs to what the library predicts, in place."""
        values[self.mapping.output] = self.predictor.predict(self.mapping.at(values))


def _box(r: Reformulation, mapping: InputMap) -> tuple[ndarray, ndarray, ndarray]:
    """Bounds of the inputs, and which of them are integer."""
    lower, upper = _bounds(r)
    integer = r.stated.milp.integer[mapping.index] & (mapping.index >= 0)
    return mapping.at(lower), mapping.at(upper), integer


def _bounds(r: Reformulation) -> tuple[ndarray, ndarray]:
    """Bounds of the user's variables; of outputs of other networks their ranges."""
    milp = r.stated.milp
    is_output = r.stated.is_output
    n = milp.n_variables
    lower = np.where(
        is_output, r.lower[:n], np.where(milp.integer, np.ceil(milp.lower), milp.lower)
    )
    upper = np.where(
        is_output, r.upper[:n], np.where(milp.integer, np.floor(milp.upper), milp.upper)
    )
    return lower, upper


def _for_integers(tree: Tree, integer: ndarray) -> Tree:
    """A tree with the largest integer that goes left as the threshold of integer inputs."""
    rounded = integer[tree.feature] & (tree.feature >= 0)
    return tree._replace(threshold=np.where(rounded, np.floor(tree.threshold), tree.threshold))


def as_constraints(r: Reformulation) -> None:
    """State trees by leaves, but where they are too many, or where tables of few values do: then
    there is nothing else in the problem that needs a proof.
    """
    found = [
        (number, TreeConstraints(r, number))
        for number, predictor in enumerate(r.predictors)
        if hasattr(predictor.net, "ensemble")
    ]
    alone = len(found) == len(r.predictors) and not r.stated.milp.others
    if r.tables and alone and all(trees.few_combinations() for _, trees in found):
        return
    written: list[tuple[int, TreeConstraints]] = []
    for number, trees in found:
        if trees.number_of_leaves > MAX_LEAVES:
            reason = f"{trees.number_of_leaves} leaves, more than {MAX_LEAVES}"
            remedy = "fit fewer or smaller trees"
            name = trees.predictor.name
            r.left_out.append(LeftOut(name, "bounds and exact models", reason, remedy))
        else:
            written.append((number, trees))
    _write_all(r, written)


def _write_all(r: Reformulation, written: list[tuple[int, TreeConstraints]]) -> None:
    """Replace predictors by the constraints of their trees, which share thresholds."""
    thresholds: set[tuple[int, float]] = set().union(*(trees.thresholds() for _, trees in written))
    variables = sorted({at for at, _ in thresholds})
    steps = {at: _add_steps(r, at, thresholds) for at in variables}
    for number, trees in written:
        r.predictors[number], r.maps[number] = trees.write(steps)
    parts: list[ThresholdSteps | TreeConstraints] = [
        *steps.values(),
        *(trees for _, trees in written),
    ]
    for part in parts:
        r.extending.append(part.extend)
        r.restricting.append(part.restrict)


def _add_steps(r: Reformulation, at: int, thresholds: set[tuple[int, float]]) -> ThresholdSteps:
    """Add the indicators of a variable's thresholds, which bound it."""
    milp = r.stated.milp
    last_left = np.array(sorted(t for variable, t in thresholds if variable == at))
    if milp.binary[at]:
        return ThresholdSteps(at, last_left, last_left + 1, np.array([at]))
    low, high = (float(end[at]) for end in _bounds(r))
    first_right = last_left + 1 if milp.integer[at] else np.nextafter(last_left, np.inf)
    name = milp.names[at]
    binaries = [r.variable(0, 1, True, f"{name} <= {t:g}") for t in last_left]
    for binary, following in itertools.pairwise(binaries):
        r.constrain([binary, following], [1.0, -1.0], -np.inf, 0.0, f"thresholds of {name}")
    rises = np.diff(first_right, prepend=low)
    falls = np.diff(last_left, append=high)
    r.constrain([at, *binaries], [1.0, *rises], float(first_right[-1]), np.inf, f"steps of {name}")
    r.constrain([at, *binaries], [1.0, *falls], -np.inf, float(high), f"steps of {name}")
    return ThresholdSteps(at, last_left, first_right, np.array(binaries))
