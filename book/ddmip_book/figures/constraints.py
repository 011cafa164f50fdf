"""The figures of the chapter on constraints, kinks and order."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, PALE_BLUE, PALE_RED, RED
from ..examples.counterexamples import RationalState
from ..examples.tiny import Path
from .kit import draw_panels, legend_outside


def plot_cycle(
    states: Sequence[RationalState], normal: Sequence[float], low: float, high: float
) -> list[Axes]:
    r"""One panel for each state of a cycle over a slab: from $u + \lambda/\rho$ to the nearest $x$,
    on to $x - \lambda/\rho$, and by projection to the next $u$.

    >>> from fractions import Fraction
    >>> from ddmip_book.examples.counterexamples import SQUARE, rational_path, slab
    >>> path = rational_path(SQUARE, slab((3, -1), Fraction(9, 5), Fraction(21, 10)), 6)
    >>> len(plot_cycle(path[3:], (3, -1), 1.8, 2.1))
    3
    """
    figure, axes = draw_panels(len(states), height=3.3, width=7.4, sharex=True, sharey=True)
    line = np.array([-1.0, 2.0])
    a, b = normal
    lower = (low - a * line) / b
    upper = (high - a * line) / b
    for number, ax in enumerate(axes):
        ax.fill_between(line, lower, upper, color=PALE_BLUE, ec=BLUE, label="set $C$")
        ax.plot([0, 1, 0], [0, 0, 1], "o", color=INK, ms=7, mfc="white", label="$X$ outside $C$")
        ax.plot(1, 1, "*", color=GREEN, ms=13, label="feasible point")
        _draw_iteration(ax, states[number - 1], states[number])
        ax.set(xlim=(-0.3, 1.3), ylim=(-0.42, 1.2), xlabel="first coordinate", aspect="equal")
        ax.set_title(f"state {number + 1}")
    axes[0].set_ylabel("second coordinate")
    legend_outside(figure, 4, "lower", fontsize=9)
    return axes


def _draw_iteration(ax: Axes, before: RationalState, state: RationalState) -> None:
    scaled = np.array(before.scaled, dtype=float)
    start = np.array(before.u, dtype=float) + scaled
    x = np.array(state.x, dtype=float)
    u = np.array(state.u, dtype=float)
    # the first and the last arrow may lie on one line
    _draw_arrow(ax, start, x, "1", ORANGE, bend=0.45)
    _draw_arrow(ax, x, x - scaled, "2", INK)
    _draw_arrow(ax, x - scaled, u, "3", RED)
    ax.plot(*start, "D", color=ORANGE, ms=6, label=r"$u+\lambda/\rho$")
    ax.plot(*x, "o", color=INK, ms=7, label="$x$ chosen")
    ax.plot(*(x - scaled), "x", color=INK, ms=7, mew=2, label=r"$x-\lambda/\rho$")
    ax.plot(*u, "s", color=RED, ms=7, label="new $u$")


def _draw_arrow(
    ax: Axes, begin: np.ndarray, end: np.ndarray, name: str, colour: str, bend: float = 0.0
) -> None:
    """An arrow with its name beside it."""
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 2}
    bent = {**arrow, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", tuple(end), tuple(begin), arrowprops=bent)
    along = end - begin
    aside = (0.09 / np.hypot(*along) + bend / 2) * np.array([along[1], -along[0]])
    middle = (begin + end) / 2
    ax.annotate(name, middle + aside, color=colour, ha="center", va="center", fontsize=9)


def plot_averages(path: Path) -> Axes:
    r"""$\lVert u^k - x^k \rVert$ and the norm of the average of $u^t - x^t$ over $t \le k$.

    >>> from ddmip_book.examples.counterexamples import three_cycle
    >>> len(plot_averages(three_cycle().run(1.0, 9)).lines)
    2
    """
    _, ax = plt.subplots()
    k = np.arange(1, len(path.rows) + 1)
    mean = np.linalg.norm(np.cumsum(path.u - path.x, axis=0), axis=1) / k
    some = np.unique(np.geomspace(1, len(k), 60).astype(int)) - 1
    seen = some[mean[some] > 1e-12]  # in a cycle the average is zero now and then
    ax.loglog(k[some], path.residual[some], label=r"$\Vert u^k - x^k \Vert$")
    ax.loglog(k[seen], mean[seen], label="norm of the average so far", ls="--", marker="s")
    ax.set(xlabel="iteration $k$")
    ax.legend()
    return ax


def plot_kinks(rho: float = 5.0) -> list[Axes]:
    r"""Left a convex kink, whose slopes leave room for a price in between; right a concave one,
    which leaves none.

    >>> [ax.get_title() for ax in plot_kinks()]
    ['convex kink: a fan of slopes', 'concave kink: two slopes, a jump']
    """
    figure, axes = draw_panels(2, height=3.2, width=7.0)
    u = np.linspace(-1, 1, 201)
    axes[0].plot(u, np.abs(u), "-", color=BLUE, label="$g$")
    for slope in np.linspace(-1, 1, 9)[1:-1]:
        axes[0].plot(u, slope * u, "-", color=ORANGE, lw=0.8, label="slopes of the kink")
    axes[0].plot(
        u, 0.4 * u, "--", color=RED, lw=2.2, label=r"slope $-\lambda$: $u$ rests at the kink"
    )
    axes[0].plot(0, 0, "o", color=INK, ms=7)
    axes[0].set(
        title="convex kink: a fan of slopes", ylim=(-0.75, 1.15), xlabel="$u$", ylabel="height"
    )
    for lam, colour, style in ((1.0, RED, "--"), (-1.0, GREEN, "-.")):
        whole = -np.abs(u) + lam * u + rho / 2 * u**2
        axes[1].plot(u, whole, style, color=colour, label=rf"NN block at $\lambda = {lam:+.0f}$")
        axes[1].plot(-lam * 2 / rho, whole.min(), "o", color=colour, ms=7)
    axes[1].plot(u, -np.abs(u), "-", color=BLUE, label="$g$")
    axes[1].axvspan(-2 / rho, 2 / rho, color=PALE_RED, zorder=0)
    axes[1].annotate(
        "", (-2 / rho, -0.75), (2 / rho, -0.75), arrowprops={"arrowstyle": "<->", "color": INK}
    )
    axes[1].annotate(r"from $-2/\rho$ to $2/\rho$ and back", (0, -1.13), ha="center", fontsize=9)
    axes[1].set(title="concave kink: two slopes, a jump", ylim=(-1.25, 1.15), xlabel="$u$")
    legend_outside(figure, 3, "lower", fontsize=9)
    return axes
