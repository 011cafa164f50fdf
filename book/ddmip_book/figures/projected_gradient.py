"""The figures of the chapter on projected gradient."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import INK, ORANGE, RED, legend_below, plot_iterates
from ..examples.pgd import adam_path, projected_path
from ..examples.projections import (
    project_box,
    project_capped_sum,
    project_halfspace,
    project_two_sided_budget,
)
from .kit import beside, draw_lines, draw_panels, look, shade

Height = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _plane(ax: Axes, span: Sequence[float], inside: Height) -> tuple[np.ndarray, np.ndarray]:
    """Shade where `inside` is at most 0, with its border; the grid for more."""
    xs, ys = np.meshgrid(np.linspace(span[0], span[1], 241), np.linspace(span[2], span[3], 241))
    shade(ax, xs, ys, inside(xs, ys))
    ax.set(xlim=span[:2], ylim=span[2:], aspect="equal", xlabel="$u_1$", ylabel="$u_2$")
    return xs, ys


def plot_descents(
    paths: Mapping[str, np.ndarray], a: np.ndarray, b: float, target: np.ndarray
) -> Axes:
    """Paths in a half-plane {u : a'u <= b} over circles around the `target`; a mark ends each path.

    >>> paths = {"steps": np.array([[0.0, 0.0], [1.0, 0.0]])}
    >>> len(plot_descents(paths, np.array([1.0, 2.0]), 1.0, np.array([2.0, 2.0])).get_lines())
    3
    """
    ax = plt.subplots(figsize=(6.2, 4.4))[1]
    xs, ys = _plane(ax, (-0.6, 3.0, -1.0, 2.3), lambda x, y: a[0] * x + a[1] * y - b)
    ax.contour(
        xs, ys, np.hypot(xs - target[0], ys - target[1]), 8, colors="#bbbbbb", linewidths=0.7
    )
    for number, (label, path) in enumerate(paths.items()):
        ax.plot(*path.T, **look(number, marker="", linewidth=4.5 - 2.5 * number, zorder=3))
        ax.plot(*path[-1], **look(number, markersize=10, label=label, zorder=4))
    ax.annotate("allowed", (-0.35, -0.75), fontsize=11)
    ax.plot(*target, "*", markersize=14, color=INK, label="aim")
    legend_below(ax, 3, 0.17)
    return ax


def plot_surprise(steps: int = 4_000) -> Axes:
    """Where projected gradient and Adam with a projection end, on the nearest point of a half-plane
    to (2, 2).

    >>> ax = plot_surprise(2_000)
    >>> [line.get_label() for line in ax.get_lines() if not line.get_label().startswith("_")]
    ['projected gradient', 'Adam with a projection', 'aim']
    """
    aim = np.array([2.0, 2.0])
    normal = np.array([1.0, 2.0])
    problem = (
        lambda u: u - aim,
        lambda v: project_halfspace(v, normal, 1.0),
        np.zeros(2),
        steps,
        0.01,
    )
    paths = {
        "projected gradient": projected_path(*problem),
        "Adam with a projection": adam_path(*problem),
    }
    return plot_descents(paths, normal, 1.0, aim)


def plot_contraction(
    etas: np.ndarray,
    bound: np.ndarray,
    measured: Mapping[str, np.ndarray],
    marks: Mapping[str, float],
    errors: Mapping[str, tuple[np.ndarray, float]],
) -> tuple[Axes, Axes]:
    """Left: contraction factor against step length, bound and measured. Right: errors by step, line
    = bound.

    >>> one = np.ones(3)
    >>> left, right = plot_contraction(one, one, {"net": one}, {"here": 1.0}, {"here": (one, 0.5)})
    >>> right.get_yscale()
    'log'
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.6, 4.0))
    left.plot(etas, bound, "-", color=INK, label="bound")
    draw_lines(left, measured, etas, linestyle="", markersize=4.5)
    for label, eta in marks.items():
        left.axvline(eta, color="#888888", linestyle=":", linewidth=1.2)
        beside(left, label, (eta, 1.03), (-10, 0), fontsize=9, rotation=90)
    left.axhline(1.0, color=RED, linestyle="--", linewidth=1.0)
    left.set(
        xlabel=r"step length $\eta$",
        ylabel="contraction factor",
        ylim=(0, 1.4),
        xlim=(-0.012, None),
    )
    for number, (label, (values, factor)) in enumerate(errors.items()):
        t = np.arange(len(values))
        right.semilogy(t, values, **look(number, linestyle="", label=label))
        right.semilogy(t, values[0] * factor**t, **look(number, marker=""))
    right.set(xlabel="step $t$", ylabel="distance to the minimiser", ylim=(1e-9, 3))
    legend_below(left, 1, 0.17)
    legend_below(right, 1, 0.17)
    return left, right


def plot_projections() -> list[Axes]:
    """Four sets with closed forms, and where each of a ring of points goes.

    >>> len(plot_projections())
    4
    """
    a = np.array([1.0, 2.0])
    sets: dict[str, tuple[Height, Callable[[np.ndarray], np.ndarray]]] = {
        "box": (lambda x, y: np.maximum(abs(x), abs(y)) - 1, lambda v: project_box(v, -1.0, 1.0)),
        "halfspace": (lambda x, y: x + 2 * y - 1, lambda v: project_halfspace(v, a, 1.0)),
        "capped sum": (
            lambda x, y: np.maximum(x + y - 1.2, -np.minimum(x, y)),
            lambda v: project_capped_sum(v, 1.2),
        ),
        "two-sided budget": (
            lambda x, y: np.maximum(x.clip(0) + y.clip(0) - 1.4, (-x).clip(0) + (-y).clip(0) - 0.8),
            lambda v: project_two_sided_budget(v, 1.4, 0.8),
        ),
    }
    _, grid = plt.subplots(2, 2, figsize=(6.2, 6.2))
    angles = 2 * np.pi * (np.arange(12) + 0.35) / 12
    for ax, (name, (inside, project)) in zip(grid.ravel(), sets.items(), strict=True):
        _plane(ax, (-2.2, 2.2, -2.2, 2.2), inside)
        for v in 1.95 * np.stack([np.cos(angles), np.sin(angles)], axis=1):
            w = project(v)
            ax.plot(*np.stack([v, w]).T, "-", color=INK, linewidth=0.9)
            ax.plot(*v, "o", color=ORANGE, markersize=4)
            ax.plot(*w, "s", color=RED, markersize=5)
        ax.set(title=name, xlabel="", ylabel="")
    return list(grid.ravel())


def plot_alternation(runs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[Axes]:
    """Iterates $x^k$ and $u^k$ of one-dimensional runs side by side, the first ones of each.

    >>> path = np.zeros((5, 1))
    >>> [ax.get_title() for ax in plot_alternation({"short": (path, path)})]
    ['short']
    """
    axes = draw_panels(len(runs), 3.2, 6.4, sharey=True)[1]
    for ax, (title, (x, u)) in zip(axes, runs.items(), strict=True):
        plot_iterates(x, u, ax).set(title=title, ylabel="")
    return axes


def plot_jump(
    inside: Height, points: np.ndarray, nearest: np.ndarray, span: Sequence[float]
) -> Axes:
    """A set that is not convex, points beside it and the nearest point of each.

    >>> points = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> plot_jump(lambda x, y: 1 - abs(y), points, points + 1.0, (-2, 2, -2, 2)).get_xlim()
    (np.float64(-2.0), np.float64(2.0))
    """
    ax = plt.subplots(figsize=(6.2, 4.4))[1]
    _plane(ax, span, inside)
    for v, w in zip(points, nearest, strict=True):
        ax.plot(*np.stack([v, w]).T, "-", color=INK, linewidth=0.9)
    ax.plot(*points.T, "o", color=ORANGE, label="point")
    ax.plot(*nearest.T, "s", color=RED, markersize=6, label="its projection")
    legend_below(ax, 2, 0.17)
    return ax
