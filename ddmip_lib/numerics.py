r"""Constants and functions of floating-point arithmetic, used by several packages.

Sums in floating point are bounded by the standard model of rounding: a sum of $k$ products is wrong
by at most $\gamma_k \sum_i |a_i b_i|$ with $\gamma_k = k\epsilon / (1 - k\epsilon)$.
"""

import sys

import numpy as np
from numpy import ndarray

EPSILON = sys.float_info.epsilon
"""Distance from 1.0 to the next double: twice the unit roundoff, so that rounding errors of the
error bounds themselves are covered.
"""


def gamma(count: int) -> float:
    r"""Return $\gamma_k$, the relative error bound of a sum of `count` products.

    >>> round(gamma(100) / EPSILON)
    100
    """
    return count * EPSILON / (1 - count * EPSILON)


def power_of_two(sizes: ndarray | float) -> ndarray:
    """Return the power of two nearest to each size, and 1 for 0: scaling by it causes no rounding.

    >>> power_of_two(np.array([0.0, 0.1, 3.0]))
    array([1.   , 0.125, 4.   ])
    """
    sizes = np.asarray(sizes)
    return np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0))))


def finite_size(*values: ndarray) -> ndarray:
    """Return the largest absolute value of the finite numbers at each place of these arrays.

    It is 0 where no number is finite.

    >>> finite_size(np.array([-2.0, np.inf]), np.array([1.0, -np.inf]))
    array([2., 0.])
    """
    return np.max([np.where(np.isfinite(part), np.abs(part), 0.0) for part in values], axis=0)
