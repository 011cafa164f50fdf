"""Recording the states of Algorithm 1, for figures and checks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .state import Run


@dataclass
class Trace:
    r"""A callback for `DualDecomposition` that keeps $x^k$ (coupled part), $u^k$ and $\lambda^k$ of every iteration.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> trace = Trace()
    >>> solution = DualDecomposition(penalty=10.0, max_iterations=3, callback=trace).solve(hand_sized())
    >>> len(trace.x) == len(solution.history), trace.u[0].shape
    (True, (2,))
    """

    x: list[np.ndarray] = field(default_factory=list)
    u: list[np.ndarray] = field(default_factory=list)
    lam: list[np.ndarray] = field(default_factory=list)

    def __call__(self, run: Run) -> None:
        assert run.x is not None
        self.x.append(run.x[run.split.coupled])
        self.u.append(run.u.copy())
        self.lam.append(run.lam.copy())
