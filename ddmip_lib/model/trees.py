r"""Trees as linear constraints: a binary for each leaf, and one for each threshold of a variable.

A leaf binary $z_l$ is 1 where the inputs reach leaf $l$, and $b_{jt} = 1$ where $x_j \le t$. The
leaves of a tree sum to one; those to the left of a split sum to at most $b_{jt}$, those to the
right to at most $1 - b_{jt}$. All trees share the $b_{jt}$, whose steps bound $x_j$. The outputs
are a linear network of the $z_l$, which takes the place of the trees.
"""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy import ndarray

from ..bounds.layer import linear_layer
from ..predictors.trees import Tree, TreeEnsemble, TreeSplit, splits_in
from .instance import InputMap
from .left_out import LeftOut
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

    def term(self, threshold: float) -> tuple[int, float, float]:
        """The indicator of a threshold: variable, coefficient and constant."""
        indicator = int(self.binaries[np.searchsorted(self.thresholds, threshold)])
        return (indicator, 1.0, 0.0) if indicator != self.at else (indicator, -1.0, 1.0)

    def extend(self, values: ndarray) -> None:
        """Set the binaries, in place."""
        values[self.binaries] = values[self.at] <= self.thresholds

    def restrict(self, values: ndarray) -> None:
        """Move the variable, in place, into the interval of its binaries if it is close to it."""
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
        self.number = number
        self.predictor = reformulation.predictors[number]
        self.mapping = reformulation.maps[number]
        self.ensemble = cast(TreeEnsemble, self.predictor.net.ensemble)
        lower, upper = _bounds(reformulation)
        self.lower = self.mapping.at(lower)
        self.upper = self.mapping.at(upper)
        integer = reformulation.stated.milp.integer
        self.integer = integer[self.mapping.index] & (self.mapping.index >= 0)
        self.samples = [self._reachable(i) for i in range(len(self.lower))]
        is_leaf = [tree.feature < 0 for tree in self.ensemble.trees]
        number_of_leaf = np.cumsum(np.concatenate(is_leaf)) - 1
        self.columns = np.split(number_of_leaf, np.cumsum([len(part) for part in is_leaf])[:-1])
        self.leaves = np.full((len(self.samples), number_of_leaf[-1] + 1), -1)

    def _reachable(self, sample: int) -> list[tuple[list[int], list[TreeSplit]]]:
        """Leaves and splits of each tree that a sample reaches."""
        trees = [_for_integers(tree, self.integer[sample]) for tree in self.ensemble.trees]
        return [splits_in(tree, self.lower[sample], self.upper[sample]) for tree in trees]

    @property
    def number_of_leaves(self) -> int:
        return sum(len(leaves) for sample in self.samples for leaves, _ in sample)

    def few_combinations(self) -> bool:
        """Whether the inputs of each sample take few values, so that tables are better."""
        ranges = self.upper - self.lower
        counts = np.where(self.integer | (ranges == 0), ranges + 1, np.inf)
        for at, count in zip(self.mapping.index, counts, strict=True):
            _, first = np.unique(at, return_index=True)
            if np.prod(count[first]) > MAX_TABULATED:
                return False
        return True

    def thresholds(self) -> set[tuple[int, float]]:
        """The variables with their thresholds."""
        return {
            (int(self.mapping.index[i, split.feature]), split.threshold)
            for i, trees in enumerate(self.samples)
            for _, splits in trees
            for split in splits
        }

    def write(self, steps: dict[int, ThresholdSteps]) -> None:
        """Replace the predictor by leaves, splits, and the linear network of the leaves."""
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
        self._write_network(constant)
        self.reformulation.extending.append(self.extend)
        self.reformulation.restricting.append(self.restrict)

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
        sides = (split.left, -slope, constant), (split.right, slope, 1.0 - constant)
        for leaves, weight, side in sides:
            weights = [*np.ones(len(leaves)), weight]
            self.reformulation.constrain([*binary_of[leaves], at], weights, -np.inf, side, name)

    def _write_network(self, constant: ndarray) -> None:
        """The linear network; where a library rounds to float32, with an input for its error."""
        r = self.reformulation
        trees = self.ensemble.trees
        weight = np.concatenate([tree.value[tree.feature < 0] for tree in trees]).T
        index = self.leaves
        room = self.ensemble.room
        if (room > NEGLIGIBLE_ROOM * np.abs(weight).sum(axis=1)).any():
            ends = np.tile(room, (len(index), 1))
            errors = [r.variable(-each, each, name="error") for each in ends.flat]
            index = np.hstack([index, np.reshape(errors, ends.shape)])
            constant = np.hstack([constant, np.zeros(ends.shape)])
            weight = np.hstack([weight, np.eye(len(room))])
        net = linear_layer(torch.tensor(weight), torch.tensor(self.ensemble.intercept)).eval()
        r.predictors[self.number] = replace(self.predictor, net=net, inputs=index)
        r.maps[self.number] = InputMap(index, constant, self.mapping.output)

    def extend(self, values: ndarray) -> None:
        """Set the leaf binaries, in place."""
        x = np.clip(self.mapping.at(values), self.lower, self.upper)
        chosen = np.zeros(self.leaves.shape)
        for tree, column in zip(self.ensemble.trees, self.columns, strict=True):
            chosen[np.arange(len(x)), column[tree.leaf_of(x)]] = 1.0
        is_binary = self.leaves >= 0
        values[self.leaves[is_binary]] = chosen[is_binary]

    def restrict(self, values: ndarray) -> None:
        """Set the outputs to what the library predicts, in place."""
        values[self.mapping.output] = self.predictor.predict(self.mapping.at(values))


def _bounds(r: Reformulation) -> tuple[ndarray, ndarray]:
    """Bounds of the user's variables; of outputs of other networks their ranges."""
    milp = r.stated.milp
    is_output = r.stated.is_output
    n = milp.n_variables
    lower = np.where(milp.integer, np.ceil(milp.lower), milp.lower)
    upper = np.where(milp.integer, np.floor(milp.upper), milp.upper)
    return np.where(is_output, r.lower[:n], lower), np.where(is_output, r.upper[:n], upper)


def _for_integers(tree: Tree, integer: ndarray) -> Tree:
    """A tree with the largest integer that goes left as the threshold of integer inputs."""
    rounded = integer[tree.feature] & (tree.feature >= 0)
    return tree._replace(threshold=np.where(rounded, np.floor(tree.threshold), tree.threshold))


def as_constraints(r: Reformulation) -> None:
    """State trees by leaves, but where they are too many, or where tables of few values do: then
    there is nothing else in the problem that needs a proof.
    """
    numbers = [k for k, predictor in enumerate(r.predictors) if hasattr(predictor.net, "ensemble")]
    found = [TreeConstraints(r, number) for number in numbers]
    alone = len(found) == len(r.predictors) and not r.stated.milp.others
    if r.tables and alone and all(trees.few_combinations() for trees in found):
        return
    written = [trees for trees in found if trees.number_of_leaves <= MAX_LEAVES]
    for trees in found:
        if trees not in written:
            reason = f"{trees.number_of_leaves} leaves, more than {MAX_LEAVES}"
            remedy = "fit fewer or smaller trees"
            name = trees.predictor.name
            r.left_out.append(LeftOut(name, "bounds and exact models", reason, remedy))
    thresholds = sorted(set().union(*(trees.thresholds() for trees in written)))
    groups = itertools.groupby(thresholds, key=itemgetter(0))
    steps = {at: _add_steps(r, at, group) for at, group in groups}
    for trees in written:
        trees.write(steps)


def _add_steps(
    r: Reformulation, at: int, thresholds: Iterable[tuple[int, float]]
) -> ThresholdSteps:
    """Add the indicators of a variable's thresholds, which bound it."""
    milp = r.stated.milp
    last_left = np.array([threshold for _, threshold in thresholds])
    if milp.binary[at]:
        return ThresholdSteps(at, last_left, last_left + 1, np.array([at]))
    low, high = (end[at] for end in _bounds(r))
    first_right = last_left + 1 if milp.integer[at] else np.nextafter(last_left, np.inf)
    name = milp.names[at]
    binaries = [r.variable(0, 1, True, f"{name} <= {t:g}") for t in last_left]
    for binary, following in itertools.pairwise(binaries):
        r.constrain([binary, following], [1.0, -1.0], -np.inf, 0.0, f"thresholds of {name}")
    rises = np.diff(first_right, prepend=low)
    falls = np.diff(last_left, append=high)
    r.constrain([at, *binaries], [1.0, *rises], first_right[-1], np.inf, f"steps of {name}")
    r.constrain([at, *binaries], [1.0, *falls], -np.inf, high, f"steps of {name}")
    steps = ThresholdSteps(at, last_left, first_right, np.array(binaries))
    r.extending.append(steps.extend)
    r.restricting.append(steps.restrict)
    return steps
