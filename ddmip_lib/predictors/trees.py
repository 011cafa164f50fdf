"""Ensembles of decision trees as arrays, whatever library fitted them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray

GoesLeft = Callable[[ndarray], ndarray]
"""Whether each of some numbers, one for each split, goes to the left."""
INFINITE_KEY = int(np.array(np.inf).view(np.int64))
"""Position of infinity in the order of all doubles."""


class Tree(NamedTuple):
    """A binary tree; node 0 is its root.

    Attributes
    ----------
    feature
        Input that a node splits by, -1 at a leaf.
    threshold
        The largest double that goes left.
    left, right
        Children of each node.
    value
        Contribution of each leaf to the outputs, of shape (nodes, q).
    """

    feature: ndarray
    threshold: ndarray
    left: ndarray
    right: ndarray
    value: ndarray

    def leaf_of(self, x: ndarray) -> ndarray:
        """Return the leaf that each sample reaches."""
        node = np.zeros(len(x), dtype=int)
        samples = np.arange(len(x))
        while (self.feature[node] >= 0).any():
            feature = self.feature[node]
            goes_left = x[samples, feature] <= self.threshold[node]
            child = np.where(goes_left, self.left[node], self.right[node])
            node = np.where(feature >= 0, child, node)
        return node


class TreeSplit(NamedTuple):
    """A node of which both children can be reached.

    Attributes
    ----------
    feature, threshold
        The comparison.
    left, right
        Leaves that can be reached on each side.
    """

    feature: int
    threshold: float
    left: list[int]
    right: list[int]


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """A sum of trees: the outputs are the intercept plus one leaf value of each tree.

    Attributes
    ----------
    trees
        The trees.
    intercept
        Constant of each output.
    room
        Largest difference of each output from that of the library, by rounding.
    """

    trees: list[Tree]
    intercept: ndarray
    room: ndarray

    def predict(self, x: ndarray) -> ndarray:
        """Return the outputs at samples of shape (n, p).

        Examples
        --------
        >>> node = np.array([0, -1, -1]), np.array([1.5, 0.0, 0.0])
        >>> tree = Tree(
        ...     *node, np.array([1, 0, 0]), np.array([2, 0, 0]), np.array([[0.0], [3], [4]])
        ... )
        >>> ensemble = TreeEnsemble([tree, tree], np.array([1.0]), np.zeros(1))
        >>> ensemble.predict(np.array([[1.5], [1.6]]))
        array([[7.],
               [9.]])
        """
        total = np.tile(self.intercept, (len(x), 1))
        for tree in self.trees:
            total += tree.value[tree.leaf_of(x)]
        return total

    @property
    def range(self) -> tuple[ndarray, ndarray]:
        """Lower and upper bounds of the outputs, whatever the inputs are."""
        low, high = np.cumsum(leaf_ranges(self.trees), axis=1)[:, -1]
        return self.intercept - self.room + low, self.intercept + self.room + high


def leaf_ranges(trees: list[Tree]) -> ndarray:
    """Return the smallest and the largest value of a leaf, of shape (2, trees, q)."""
    leaves = [tree.value[tree.feature < 0] for tree in trees]
    low = [value.min(axis=0) for value in leaves]
    return np.array([low, [value.max(axis=0) for value in leaves]])


def splits_in(tree: Tree, lower: ndarray, upper: ndarray) -> tuple[list[int], list[TreeSplit]]:
    """Return the leaves and the splits that inputs in a box can reach.

    Parameters
    ----------
    tree
        The tree.
    lower, upper
        Ends of the box, both included.

    Examples
    --------
    >>> node = np.array([0, -1, -1]), np.array([1.5, 0.0, 0.0])
    >>> tree = Tree(*node, np.array([1, 0, 0]), np.array([2, 0, 0]), np.zeros((3, 1)))
    >>> splits_in(tree, np.array([0.0]), np.array([1.5]))
    ([1], [])
    >>> splits_in(tree, np.array([0.0]), np.array([2.0]))
    ([1, 2], [TreeSplit(feature=0, threshold=1.5, left=[1], right=[2])])
    """
    splits: list[TreeSplit] = []
    low = lower.astype(float)
    high = upper.astype(float)

    def leaves_below(node: int) -> list[int]:
        j = int(tree.feature[node])
        if j < 0:
            return [node]
        ends = low[j], high[j]
        last = float(tree.threshold[node])
        high[j] = min(last, ends[1])
        left = leaves_below(int(tree.left[node])) if ends[0] <= last else []
        high[j] = ends[1]
        low[j] = max(np.nextafter(last, np.inf), ends[0])
        right = leaves_below(int(tree.right[node])) if last < ends[1] else []
        low[j] = ends[0]
        if left and right:
            splits.append(TreeSplit(j, last, left, right))
        return left + right

    return leaves_below(0), splits


def last_left(goes_left: GoesLeft, count: int) -> ndarray:
    """Return for each split the largest double that goes left, by bisection among all doubles.

    Parameters
    ----------
    goes_left
        Evaluated at one number for each split; true up to a number, then false.
    count
        Number of splits.

    Examples
    --------
    >>> float(last_left(lambda x: x.astype(np.float32) <= np.array([0.1]), 1)[0])
    0.09999999776482582
    """
    low = np.full(count, -INFINITE_KEY)
    high = np.full(count, INFINITE_KEY)
    with np.errstate(over="ignore"):
        while (high - 1 > low).any():
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            is_left = goes_left(_double_at(middle))
            low = np.where(is_left, middle, low)
            high = np.where(is_left, high, middle)
    return _double_at(low)


def _double_at(key: ndarray) -> ndarray:
    """The doubles at these positions of their order, in which 0 has position 0."""
    bits = np.where(key >= 0, key, np.iinfo(np.int64).min - key)
    return bits.view(np.float64)
