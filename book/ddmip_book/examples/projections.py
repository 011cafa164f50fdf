r"""Euclidean projections $P_C(v) = \arg\min_{w \in C} \lVert w - v \rVert_2$ with closed forms.

Each returns the unique point $w$ with $\langle v - w, y - w \rangle \le 0$ for all $y \in C$.
"""

import numpy as np


def project_box(v: np.ndarray, lower: np.ndarray | float, upper: np.ndarray | float) -> np.ndarray:
    """Projection on {w : lower <= w <= upper}: clip.

    >>> project_box(np.array([-2.0, 0.5, 3.0]), 0.0, 1.0)
    array([0. , 0.5, 1. ])
    """
    return np.clip(v, lower, upper)


def project_halfspace(v: np.ndarray, a: np.ndarray, b: float) -> np.ndarray:
    r"""Projection on $\{w : a^\top w \le b\}$: $v - \frac{(a^\top v - b)_+}{\lVert a \rVert^2} a$.

    >>> project_halfspace(np.array([2.0, 2.0]), np.array([1.0, 0.0]), 1.0)
    array([1., 2.])
    """
    norm2 = float(a @ a)
    if norm2 == 0.0:
        if b < 0:
            raise ValueError("the halfspace 0'w <= b with b < 0 is empty")
        return v.copy()
    return v - max(0.0, float(a @ v) - b) / norm2 * a


def project_capped_sum(v: np.ndarray, budget: float) -> np.ndarray:
    r"""Projection on $\{w \ge 0 : \sum_i w_i \le \gamma\}$: $(v - \theta)_+$, the smallest $\theta
    \ge 0$ that fits.

    >>> project_capped_sum(np.array([3.0, 1.0, -1.0]), 2.0)
    array([2., 0., 0.])
    """
    if budget < 0:
        raise ValueError(f"the budget is {budget}: a sum of nonnegative numbers cannot be negative")
    positive = np.maximum(v, 0.0)
    if positive.sum() <= budget:
        return positive
    ordered = np.sort(positive)[::-1]
    excess = (np.cumsum(ordered) - budget) / np.arange(1, v.size + 1)
    theta = excess[np.flatnonzero(ordered >= excess)[-1]]
    return np.maximum(v - theta, 0.0)


def project_two_sided_budget(v: np.ndarray, up: float, down: float) -> np.ndarray:
    r"""Projection on $\{w : \sum_i (w_i)_+ \le \gamma^+,\ \sum_i (-w_i)_+ \le \gamma^-\}$.

    A projection never flips a sign here, so positive and negative parts are projected apart.

    >>> project_two_sided_budget(np.array([3.0, 1.0, -4.0]), 2.0, 1.0)
    array([ 2.,  0., -1.])
    """
    return project_capped_sum(np.maximum(v, 0.0), up) - project_capped_sum(
        np.maximum(-v, 0.0), down
    )
