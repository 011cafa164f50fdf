"""The figures of the chapter on constraints and nonsmooth networks."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, PALE_BLUE, PALE_RED, RED
from ..examples.counterexamples import RationalState
from ..examples.tiny import Path
from .kit import draw_panels, legend_outside


def plot_cycle(
    states: Sequence[RationalState], normal: Sequence[float], low: float, high: float
) -> Axes:
    r"""The states of a cycle over a slab, one colour each: from $u + \lambda/\rho$ to the nearest
    point of the square's lower edge, and from there to the next $u$.

    >>> from fractions import Fraction
    >>> from ddmip_book.examples.counterexamples import SQUARE, rational_path, slab
    >>> path = rational_path(SQUARE, slab((3, -1), Fraction(9, 5), Fraction(21, 10)), 6)
    >>> len(plot_cycle(path[3:], (3, -1), 1.8, 2.1).patches)
    6
    """
    figure, ax = plt.subplots(figsize=(7.4, 4.4))
    edge = np.array([-1.0, 2.0])
    a, b = normal
    ax.fill_between(
        edge,
        (low - a * edge) / b,
        (high - a * edge) / b,
        color=PALE_BLUE,
        ec=BLUE,
        label="set $C$",
    )
    ax.plot([0, 1], [0, 0], "o", color=INK, ms=9, mfc="white", label="points of $X$ outside $C$")
    # two of the states lie on one line: curved arrows keep them apart
    bends = [(-0.45, -0.5), (-0.3, 0.25), (0.3, 0.0)]
    for number, (colour, bend) in enumerate(zip((ORANGE, INK, RED), bends, strict=True)):
        start = _draw_state(ax, states[number - 1], states[number], colour, bend)
        below_arrow = number == 2
        right, up = start + ([0.03, -0.05] if below_arrow else [0.02, 0.055])
        ax.annotate(f"state {number + 1}", (right, up), color=colour, fontsize=10)
    ax.annotate(
        "to the feasible point (1, 1)",
        (1.1, 0.43),
        (1.1, 0.3),
        arrowprops={"arrowstyle": "-|>", "color": GREEN, "lw": 1.6},
        color=GREEN,
        ha="center",
    )
    ax.set(xlim=(-0.12, 1.3), ylim=(-0.32, 0.44), aspect="equal")
    ax.set(xlabel="first coordinate", ylabel="second coordinate")
    legend_outside(figure, 2, "lower", fontsize=9)
    return ax


def _draw_state(
    ax: Axes,
    before: RationalState,
    state: RationalState,
    colour: str,
    bend: tuple[float, float],
) -> np.ndarray:
    start = np.array(before.u, dtype=float) + np.array(before.scaled, dtype=float)
    x = np.array(state.x, dtype=float)
    u = np.array(state.u, dtype=float)
    first = colour == ORANGE
    _draw_arrow(ax, start, x, colour, bend[0])
    _draw_arrow(ax, x, u, colour, bend[1])
    ax.plot(*start, "D", color=colour, ms=8, label=r"$u+\lambda/\rho$" if first else None)
    ax.plot(*u, "s", color=colour, ms=8, label="next $u$" if first else None)
    return start


def _draw_arrow(ax: Axes, begin: np.ndarray, end: np.ndarray, colour: str, bend: float) -> None:
    path = f"arc3,rad={bend}"
    arrow = FancyArrowPatch(
        tuple(begin),
        tuple(end),
        arrowstyle="-|>",
        connectionstyle=path,
        color=colour,
        mutation_scale=16,
        lw=2.0,
        shrinkA=5,
        shrinkB=6,
    )
    ax.add_patch(arrow)


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
    r"""Left a convex breakpoint with its subgradients; right a concave one, which the NN block
    crosses in every iteration.

    >>> [ax.get_title() for ax in plot_kinks()]
    ['convex breakpoint', 'concave breakpoint']
    """
    figure, axes = draw_panels(2, height=3.2, width=7.0)
    u = np.linspace(-1, 1, 201)
    axes[0].plot(u, np.abs(u), "-", color=BLUE, label="$g$")
    for subgradient in np.linspace(-1, 1, 9)[1:-1]:
        axes[0].plot(u, subgradient * u, "-", color=ORANGE, lw=0.8, label="subgradients at 0")
    axes[0].plot(u, 0.4 * u, "--", color=RED, lw=2.2, label=r"$-\lambda$ is a subgradient")
    axes[0].plot(0, 0, "o", color=INK, ms=7)
    axes[0].set(title="convex breakpoint", ylim=(-0.75, 1.15), xlabel="$u$", ylabel="value")
    for lam, colour, style in ((1.0, RED, "--"), (-1.0, GREEN, "-.")):
        objective = -np.abs(u) + lam * u + rho / 2 * u**2
        axes[1].plot(
            u, objective, style, color=colour, label=rf"NN block at $\lambda = {lam:+.0f}$"
        )
        axes[1].plot(-lam * 2 / rho, objective.min(), "o", color=colour, ms=7)
    axes[1].plot(u, -np.abs(u), "-", color=BLUE, label="$g$")
    axes[1].axvspan(-2 / rho, 2 / rho, color=PALE_RED, zorder=0)
    axes[1].annotate(
        "", (-2 / rho, -0.75), (2 / rho, -0.75), arrowprops={"arrowstyle": "<->", "color": INK}
    )
    axes[1].annotate(r"from $-2/\rho$ to $2/\rho$ and back", (0, -1.13), ha="center", fontsize=9)
    axes[1].set(title="concave breakpoint", ylim=(-1.25, 1.15), xlabel="$u$")
    legend_outside(figure, 3, "lower", fontsize=9)
    return axes
