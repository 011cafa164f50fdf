"""The figures of the chapter on convergence: balance, phases, descent, thresholds, window."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import BLUE, DASHES, GREEN, INK, ORANGE, PALE, PALE_BLUE, PALE_RED, RED
from ..examples.hand_phase import Ending
from ..examples.tiny import Path
from .kit import draw_panels, legend_outside


def plot_balance(highest: float = 3.2) -> list[Axes]:
    r"""What a unit move of $u$ earns in the u-step and costs in the multiplier step, against
    $\rho/\ell$.

    Each panel shows the curvature that decides its threshold: $\ell$ for $m = 0$, and $-\ell$ for
    $m = \ell$.

    >>> [ax.get_title() for ax in plot_balance()]
    ['convex, $m = 0$', 'any smooth $g$, $m = \\ell$']
    """
    figure, axes = draw_panels(2, height=3.3, width=7.0, sharey=True)
    cases = ((1.0, 1.0, "convex, $m = 0$"), (-1.0, 2.0, r"any smooth $g$, $m = \ell$"))
    for ax, (bend, threshold, title) in zip(axes, cases, strict=True):
        ratio = np.linspace(max(0.3, -bend), highest, 200)
        earned = (ratio + bend) / 2
        cost = bend**2 / ratio
        ax.fill_between(
            ratio,
            cost,
            earned,
            where=(earned >= cost).tolist(),
            color=PALE_BLUE,
            label="the merit falls",
        )
        ax.fill_between(
            ratio,
            cost,
            earned,
            where=(earned <= cost).tolist(),
            color=PALE_RED,
            label="it may rise",
        )
        ax.plot(ratio, earned, "-", color=BLUE, label="the u-step earns")
        ax.plot(ratio, cost, "--", color=RED, label="the multiplier step costs")
        ax.axvline(threshold, color=INK, ls=":", lw=1.4)
        ax.plot(threshold, bend**2 / threshold, "o", color=INK)
        ax.annotate(
            f"threshold {threshold:g}", (threshold, 2.25), xytext=(4, 0), textcoords="offset points"
        )
        ax.set(title=title, xlabel=r"$\rho/\ell$", xlim=(0, highest), ylim=(0, 2.5))
    axes[0].set_ylabel(r"in units of $\ell\,\Vert\Delta\Vert^2$")
    legend_outside(figure, 4, "lower", fontsize=9)
    return axes


def plot_phases(endings: Sequence[Ending], borders: Sequence[float]) -> Axes:
    r"""The costs of the decisions that a run of the running example repeats for ever, against
    $\rho$.

    >>> from ddmip_book.examples.hand_phase import ending
    >>> plot_phases([ending(3.0), ending(6.0), ending(10.0)], (17 / 3, 22 / 3)).get_ylabel()
    'costs visited for ever'
    """
    _, ax = plt.subplots(figsize=(6.4, 3.3))
    edges = [0.0, *borders, max(end.rho for end in endings) + 0.25]
    looks = (
        ("cycle", PALE_RED, RED, "s"),
        ("optimum", PALE_BLUE, BLUE, "o"),
        ("frozen", PALE, INK, "D"),
    )
    for (kind, shade, colour, mark), left, right in zip(looks, edges[:-1], edges[1:], strict=True):
        ax.axvspan(left, right, color=shade, zorder=0)
        pairs = [
            (end.rho, cost)
            for end in endings
            if end.kind == kind
            for cost in sorted(set(end.costs))
        ]
        ax.plot(*np.array(pairs).T, mark, color=colour, ms=4.5)
        ax.annotate(
            kind, ((left + right) / 2, 2.3), ha="center", color=colour, weight="bold", fontsize=9.5
        )
    for edge in borders:
        ax.axvline(edge, color=INK, ls=":", lw=1.4)
    ax.axhline(0.5, color=BLUE, ls="--", lw=1)
    ax.annotate("optimum 0.5", (0.1, 0.55), fontsize=9, color=BLUE)
    ax.set(
        xlabel=r"penalty $\rho$",
        ylabel="costs visited for ever",
        ylim=(0.2, 2.55),
        xlim=(0, edges[-1]),
    )
    return ax


def plot_descent(path: Path, bound: float) -> np.ndarray:
    r"""Left: how far $L_\rho^k$ and $F(x^k)$ are above the last $F(x^k)$.  Right: residuals below
    ``bound`` / (k - 1).

    >>> from ddmip_book.examples.tiny import quadratic
    >>> plot_descent(quadratic([[0], [1]], 1.0, 0.4).run(2.0, 8, lam=0.3), 1.0).shape
    (2,)
    """
    _, axes = plt.subplots(1, 2)
    k = np.arange(1, len(path.rows) + 1)
    last = path.total[-1]
    for values, label, style in (
        (path.merit, r"$L_\rho^k$", "-o"),
        (path.total, "$F(x^k)$", "--s"),
    ):
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


def plot_thresholds(
    ratios: Sequence[float], tie: Sequence[float], cosine: Sequence[float]
) -> np.ndarray:
    r"""Residuals after many iterations against $\rho/\ell$ for the two sharp examples, with their
    exact cycles.

    >>> [ax.get_xlabel() for ax in plot_thresholds([0.5, 2.5], [0.4, 0.0], [1.9, 0.0])]
    ['$\\rho/\\ell$', '$\\rho/\\ell$']
    """
    _, axes = plt.subplots(1, 2)
    amplitude = np.linspace(1e-3, np.pi, 400)
    below = np.linspace(0.02, 1.0, 50)
    exact = [(below, 1 / (below + 2)), (2 * np.sin(amplitude) / amplitude, amplitude)]
    titles = ["convex: $g=(u-1/2)^2/2$", "nonconvex: $g=\\cos u$"]
    for ax, (x, y), measured, title, limit in zip(
        axes, exact, (tie, cosine), titles, (1, 2), strict=True
    ):
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
    r"""How many points can be limits, and how bad the worst of them is, against $\rho$; ``marks``
    are vertical lines.

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
    for (label, value), colour, dash in zip(
        marks.items(), (GREEN, ORANGE), (DASHES[3], DASHES[2]), strict=False
    ):
        ax.axvline(value, color=colour, ls=dash, label=label)
    handles = [handle for part in (ax, right) for handle in part.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, fontsize=8.5, loc="upper left")
    return ax
