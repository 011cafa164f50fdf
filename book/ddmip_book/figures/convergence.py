"""The figures of the chapter on convergence."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import BLUE, DASHES, GREEN, INK, MARKERS, ORANGE, PALE_BLUE, RED
from ..examples.counterexamples import Exact
from ..examples.tiny import Path


def plot_descent(path: Path, bound: float) -> np.ndarray:
    r"""Left: how far $L_\rho^k$ and $F(x^k)$ are above the last $F(x^k)$.  Right: residuals below ``bound`` / (k - 1).

    >>> from ddmip_book.examples.tiny import quadratic
    >>> plot_descent(quadratic([[0], [1]], 1.0, 0.4).run(2.0, 8, lam=0.3), 1.0).shape
    (2,)
    """
    _, axes = plt.subplots(1, 2)
    k, last = np.arange(1, len(path.rows) + 1), path.total[-1]
    for values, label, style in ((path.merit, r"$L_\rho^k$", "-o"), (path.total, "$F(x^k)$", "--s")):
        seen = values - last > 1e-14
        axes[0].semilogy(k[seen], (values - last)[seen], style, label=label, ms=4)
    axes[0].set_ylabel("value minus $F(x^*)$")
    smallest = np.minimum.accumulate(path.residual[1:] ** 2)
    seen = smallest > 1e-28
    axes[1].semilogy(k[1:], bound / (k[1:] - 1), ":", color=INK, label="bound")
    axes[1].semilogy(k[1:][seen], smallest[seen], "-s", color=RED, ms=4, label="measured")
    axes[1].set_ylabel(r"smallest $\Vert u-x \Vert^2$ so far")
    for ax in axes:
        ax.set_xlabel("iteration $k$")
        ax.legend(loc="lower left")
    return np.asarray(axes)


def plot_thresholds(ratios: Sequence[float], tie: Sequence[float], cosine: Sequence[float]) -> np.ndarray:
    r"""Residuals after many iterations against $\rho/\ell$ for the two sharp examples, with their exact cycles.

    >>> [ax.get_xlabel() for ax in plot_thresholds([0.5, 2.5], [0.4, 0.0], [1.9, 0.0])]
    ['$\\rho/\\ell$', '$\\rho/\\ell$']
    """
    _, axes = plt.subplots(1, 2)
    amplitude = np.linspace(1e-3, np.pi, 400)
    below = np.linspace(0.02, 1.0, 50)
    exact = [(below, 1 / (below + 2)), (2 * np.sin(amplitude) / amplitude, amplitude)]
    titles = ["convex: $g=(u-1/2)^2/2$", "nonconvex: $g=\\cos u$"]
    for ax, (x, y), measured, title, limit in zip(axes, exact, (tie, cosine), titles, (1, 2), strict=True):
        ax.plot(x, y, ":", color=INK, label="cycle, by formula")
        ax.plot(ratios, measured, "o", color=BLUE, ms=4, label="measured")
        ax.axvline(limit, color=RED, ls="--", label=f"threshold {limit}")
        ax.set(xlabel=r"$\rho/\ell$", title=title, xlim=(0, max(ratios) + 0.1))
        ax.legend(fontsize=8.5)
    axes[0].set_ylabel("residual at the end")
    return np.asarray(axes)


def plot_window(
    rhos: Sequence[float], counts: Sequence[int], worst: Sequence[float], marks: Mapping[str, float]
) -> Axes:
    r"""How many points can be limits, and how bad the worst of them is, against $\rho$; ``marks`` are vertical lines.

    >>> plot_window([0.1, 1.0], [1, 4], [0.0, 0.5], {"freeze": 0.9}).get_xscale()
    'log'
    """
    _, ax = plt.subplots()
    ax.semilogx(rhos, counts, label="points that can be limits (left)")
    ax.set(xlabel=r"penalty $\rho$", ylabel="number of points", ylim=(0, 1.6 * max(counts)))
    right = ax.twinx()
    right.plot(rhos, worst, "--s", color=RED, label="loss of the worst one (right)")
    right.set(ylabel=r"$F - F_{\min}$", ylim=(0, 1.6 * max(worst)))
    right.grid(visible=False)
    for (label, value), colour, dash in zip(marks.items(), (GREEN, ORANGE), (DASHES[3], DASHES[2]), strict=False):
        ax.axvline(value, color=colour, ls=dash, label=label)
    handles = [handle for part in (ax, right) for handle in part.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, fontsize=8.5, loc="upper left")
    return ax


def plot_cycle(states: Sequence[Exact], normal: Sequence[float], low: float, high: float) -> Axes:
    r"""States of a run over a slab in the plane: from $x$ to $x - \lambda/\rho$ (cross) and, by projection, to $u$.

    >>> from fractions import Fraction
    >>> from ddmip_book.examples.counterexamples import SQUARE, rational_path, slab
    >>> path = rational_path(SQUARE, slab((3, -1), Fraction(9, 5), Fraction(21, 10)), 6)
    >>> plot_cycle(path[3:], (3, -1), 1.8, 2.1).get_xlabel()
    '$u_1$'
    """
    _, ax = plt.subplots(figsize=(6.2, 4.4))
    line = np.array([-1.0, 2.0])
    a, b = normal
    ax.fill_between(line, (low - a * line) / b, (high - a * line) / b, color=PALE_BLUE, ec=BLUE, label="the set $C$")
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    ax.plot(*corners[:3].T, "o", color=INK, ms=9, mfc="white", label="points of $X$ outside $C$")
    ax.plot(1, 1, "*", color=GREEN, ms=15, label="the only feasible point")
    before = np.array(states[-1].scaled, dtype=float)
    for number, (state, colour, mark) in enumerate(zip(states, (BLUE, RED, ORANGE), MARKERS[1:], strict=False), 1):
        x, u = np.array(state.x, dtype=float), np.array(state.u, dtype=float)
        target = x - before
        arrow = {"arrowstyle": "->", "color": colour, "ls": DASHES[number - 1], "lw": 1.4}
        for start, end in ((x, target), (target, u)):
            ax.annotate("", (end[0], end[1]), (start[0], start[1]), arrowprops=arrow)
        ax.plot(*target, "x", color=colour, ms=8, mew=2)
        size = 16 - 3 * number  # states may share their u: smaller marks over larger ones
        ax.plot(*u, mark, color=colour, ms=size, mec="white", label=f"$u$, state {number}")
        before = np.array(state.scaled, dtype=float)
    ax.set(xlim=(-0.35, 1.55), ylim=(-0.45, 1.3), xlabel="$u_1$", ylabel="$u_2$", aspect="equal")
    ax.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


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
