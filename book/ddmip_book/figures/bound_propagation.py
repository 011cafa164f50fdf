"""Figures of the chapter on bound propagation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddmip_lib.plots import BLUE, INK, ORANGE, PALE_BLUE
from .kit import draw_panels


def plot_linear_bounds(low: float, high: float, coefficients: Sequence[float]) -> np.ndarray:
    r"""Draw the ReLU over $[M^-, M^+]$ between its chord and a lower linear bound $\alpha a$, a
    panel for each $\alpha$.

    >>> plot_linear_bounds(-1.0, 2.0, [0.0, 1.0]).shape
    (2,)
    """
    axes = draw_panels(len(coefficients), 2.9, sharex=True, sharey=True)[1]
    ends = np.array([low, high])
    filled: dict[str, Any] = {"facecolor": PALE_BLUE, "edgecolor": BLUE, "hatch": "//"}
    for ax, alpha in zip(axes, coefficients, strict=True):
        ax.fill_between(ends, alpha * ends, [0, high], **filled)
        ax.plot([low, 0, high], [0, 0, high], "-", color=INK, linewidth=2.4)
        ax.plot(ends, alpha * ends, "--", color=ORANGE, linewidth=2.0)
        area = high * (high - low) / 2 - alpha * (high**2 - low**2) / 2
        ax.set(title=rf"$\alpha = {alpha:g}$, area {area:g}", xlabel="$a$")
    axes[0].set_ylabel("$z$")
    return np.asarray(axes)
