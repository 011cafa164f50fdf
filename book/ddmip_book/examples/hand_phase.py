r"""Where Algorithm 1 ends on the running example, for any penalty: in a cycle, at the optimum,
or where it began.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddmip_lib.problems.hand_sized import HIDDEN_BIASES, HIDDEN_WEIGHTS, OUTPUT_WEIGHTS
from .hand_steps import CORNERS, LINES, SLOPES, hand_tiny
from .tiny import Tiny

_LINES, _SLOPES, _CORNERS = (np.array(rows, dtype=float) for rows in (LINES, SLOPES, CORNERS))
_NORMALS = _LINES[:, :2]


def quick_prox(v: Any, rho: float) -> np.ndarray:
    r"""`hand_prox` in floating point, for many penalties: the best of the same candidates.

    >>> quick_prox([0, 0], 3.0).round(6).tolist()
    [0.333333, 1.0]
    """
    free = np.asarray(v, dtype=float) - _SLOPES / rho
    steps = (free @ _NORMALS.T + _LINES[:, 2]) / (_NORMALS**2).sum(axis=1)
    onto = (free[:, None] - steps[:, :, None] * _NORMALS).reshape(-1, 2)
    found = np.vstack([_CORNERS, free, onto])
    found = found[((found >= -1e-12) & (found <= 1 + 1e-12)).all(axis=1)]
    found = found[np.lexsort(found.T[::-1])]
    brackets = found @ np.array(HIDDEN_WEIGHTS).T + np.array(HIDDEN_BIASES)
    heights = np.maximum(brackets, 0.0) @ np.array(OUTPUT_WEIGHTS) + rho / 2 * (
        (found - v) ** 2
    ).sum(axis=1)
    return found[np.flatnonzero(heights <= heights.min() + 1e-12)[0]]


@dataclass(frozen=True)
class Ending:
    """What a run repeats for ever: the decisions of one period, the cheapest first, and their
    costs.
    """

    rho: float
    x: list[list[int]]
    costs: list[float]

    @property
    def kind(self) -> str:
        """`cycle`, `optimum` or `frozen`; a run that rests at the wrong decision is frozen, since
        it began there.
        """
        if len(self.x) > 1:
            return "cycle"
        return "optimum" if self.costs[0] < _cheapest() + 1e-9 else "frozen"


def ending(rho: float, most: int = 60) -> Ending:
    r"""Algorithm 1 from $u^0 = \lambda^0 = 0$ with both blocks exact, until a state $(x, u,
    \lambda)$ returns.

    >>> [ending(rho).kind for rho in (3.0, 6.0, 10.0)], ending(3.0).costs
    (['cycle', 'optimum', 'frozen'], [0.5, 2.0, 2.0])
    """
    path = _tiny().run(rho, most)
    states = np.round(np.hstack([path.x, path.u, path.lam]), 8)
    seen: dict[tuple[float, ...], int] = {}
    for k, state in enumerate(map(tuple, states)):
        if state in seen:
            period = np.arange(seen[state], k)
            period = np.roll(period, -int(path.total[period].argmin()))
            return Ending(
                rho, path.x[period].astype(int).tolist(), np.round(path.total[period], 6).tolist()
            )
        seen[state] = k
    if most > 5000:
        raise ArithmeticError(f"no state returned within {most} iterations at rho = {rho}.")
    return ending(rho, 10 * most)


def border(
    low: float, high: float, differs: Callable[[Ending], Any] = lambda end: end.kind
) -> float:
    r"""The penalty between `low` and `high` at which the ending changes, by bisection.

    >>> round(border(7.0, 8.0), 6)
    7.333333
    """
    below = differs(ending(low))
    while high - low > 1e-8:
        middle = (low + high) / 2
        low, high = (middle, high) if differs(ending(middle)) == below else (low, middle)
    return high


def _tiny() -> Tiny:
    return replace(hand_tiny(), u_step=quick_prox)


def _cheapest() -> float:
    return hand_tiny().optimum()
