r"""The units of a problem: how large its numbers are, so that tolerances mean the same whatever
these are.

A variable in the box $[l, h]$ has the size $\min(1, \max(|l|, |h|))$, or 1 where it is unbounded;
the output of a network the largest value that the network has at the ends and in the middle of its
inputs' boxes, up to 1. What is larger than 1 needs no unit of its own: 1e-6 of it is accuracy
enough.
"""

import numpy as np

from .instance import Instance

ROUNDING = 1e-12
"""What adding up floating-point numbers may cost, of the sum of their absolute values."""
LARGE = 1e6  # an unbounded variable counts in such a sum with at most this


def variable_sizes(instance: Instance) -> np.ndarray:
    """The size of every variable, between 0 (not included) and 1."""
    s = instance.milp
    sizes = _at_most_one(np.maximum(np.abs(s.lower), np.abs(s.upper)))
    for predictor, m in zip(instance.predictors, instance.maps, strict=True):
        if not predictor.gives_class:
            low = m.at(s.lower)
            high = m.at(s.upper)
            said = np.max(
                [np.abs(predictor.raw(x)) for x in (low, 0.5 * low + 0.5 * high, high)], axis=0
            )
            sizes[m.output] = np.minimum(sizes[m.output], _at_most_one(said))
    sizes[s.integer] = 1.0
    return sizes


def _at_most_one(sizes: np.ndarray) -> np.ndarray:
    return np.where(
        (sizes > 0) & (sizes < 1), sizes, 1.0
    )  # also where there is none: NaN, infinity, 0


class Units:
    """By what violations of an instance's rows and bounds are divided: `verify` allows 1e-6 of it.

    A row counts in the largest of its sides and of its coefficients times the sizes of their
    variables. A row on whole numbers alone has no solver's tolerance to forgive: all that it may
    miss is what adding up has cost.
    """

    def __init__(self, instance: Instance, tolerance: float) -> None:
        s = instance.milp
        self.milp = s
        self.tolerance = tolerance
        self.sizes = variable_sizes(instance)
        self.fixed = (s.lower == s.upper) & ~instance.is_output
        self.exact = s.integer | self.fixed
        self.coefficients = abs(s.rows)
        largest = (
            self.coefficients.multiply(self.sizes[None, :]).max(axis=1).toarray().ravel()
            if s.n_rows
            else _NONE
        )
        self.side = np.maximum(
            *(np.abs(np.where(np.isfinite(side), side, 0.0)) for side in s.sides)
        )
        bounded = np.isfinite(s.lower) & np.isfinite(s.upper)
        finite = [np.abs(np.where(np.isfinite(end), end, 0.0)) for end in (s.lower, s.upper)]
        self.most = np.where(bounded, np.inf, np.maximum(LARGE, np.maximum(*finite)))
        whole = np.diff(s.rows[:, ~s.integer].tocsr().indptr) == 0
        self.row = np.where(whole, 0.0, np.maximum(largest, self.side))

    def rows(self, values: np.ndarray) -> np.ndarray:
        """Of every row at a point with these absolute values (or with at most these)."""
        terms = self.coefficients @ np.minimum(values, self.most) + self.side
        return self.row + ROUNDING / self.tolerance * terms + 1e-300  # never 0

    def bound(self, ends: np.ndarray) -> np.ndarray:
        """Of every variable at one of its bounds; a whole number, or one that is fixed, has nothing
        to forgive.
        """
        finite = np.where(np.isfinite(ends), np.abs(ends), 0.0)
        return np.where(
            self.exact,
            ROUNDING / self.tolerance * (self.sizes + finite),
            np.maximum(self.sizes, finite),
        )

    def objective(self, values: np.ndarray | float) -> float:
        """Of the objective at a point, or of this one."""
        s = self.milp
        value = values if isinstance(values, float) else s.objective(np.asarray(values))
        return max(abs(value), float((np.abs(s.cost) * self.sizes).max(initial=0.0)))


_NONE = np.zeros(0)
