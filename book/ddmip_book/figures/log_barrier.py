"""The figures of the chapter on the logarithmic barrier."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from ddmip_lib.plots import DASHES, GREEN, INK, ORANGE, RED, legend_below
from ..examples.barrier import bound_step, two_dips
from ..examples.tiny import Path
from .kit import beside, look, shade


def _draw_barrier(ax: Axes) -> None:
    """One bound and its barrier function for three parameters, with their lowest points."""
    u = -np.geomspace(1e-6, 2, 400)
    ax.plot(u, 0.5 * (u - 0.5) ** 2, "-", color=INK, label=r"$\varphi$")
    for number, mu in enumerate((1.0, 0.3, 0.05)):
        low = bound_step(0.5, 1.0, mu)
        ax.plot(
            u,
            0.5 * (u - 0.5) ** 2 - mu * np.log(-u),
            **look(number, linestyle=DASHES[number + 1], marker=""),
        )
        lowest = 0.5 * (low - 0.5) ** 2 - mu * np.log(-low)
        ax.plot(low, lowest, **look(number, linestyle="", label=rf"$\mu = {mu:g}$"))
    ax.axvspan(0, 0.25, facecolor="#eeeeee", edgecolor="#999999", hatch="//", linewidth=0)
    ax.set(xlabel="$u$", xlim=(-2, 0.25), ylim=(0, 3.2), title=r"$\Phi_\mu$ over $u < 0$")
    ax.legend(loc="upper center", ncols=2, columnspacing=0.8, handlelength=1.5)


def plot_opening(rho: float = 10.0, mu: float = 0.01, iterations: int = 200) -> tuple[Axes, Axes]:
    """The barrier function of one bound, and the multiplier of Algorithm 1 on {0} with a barrier
    parameter that is fixed.

    >>> _, right = plot_opening(iterations=3)
    >>> right.get_lines()[0].get_ydata().round(3)
    array([0.316, 0.512, 0.663])
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.3))
    _draw_barrier(left)
    sizes = np.zeros(iterations + 1)
    for k in range(iterations):  # u = -mu / |lambda|, as the chapter derives
        sizes[k + 1] = (sizes[k] + np.sqrt(sizes[k] ** 2 + 4 * rho * mu)) / 2
    right.plot(np.arange(1, iterations + 1), sizes[1:], "-", color=RED)
    right.set(xlabel="iteration $k$", ylabel=r"$|\lambda^k|$", title=r"fixed $\mu$, one decision")
    return left, right


def plot_central_path(
    row: Callable[[Tensor], Tensor], x: np.ndarray, path: np.ndarray, mus: Sequence[float]
) -> Axes:
    r"""The set {row <= 0} of the unit square and the path of the minimisers, one for each of
    `mus`, towards the point nearest to `x`.

    >>> path = np.array([[0.6, 0.2]])
    >>> plot_central_path(lambda u: 0.5 - u[:, :1], np.zeros(2), path, [1.0]).get_xlabel()
    '$u_1$'
    """
    ax = plt.subplots(figsize=(4.4, 4.2))[1]
    side = np.linspace(0, 1, 121)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    heights = row(torch.tensor(grid)).detach().numpy().reshape(121, 121)
    shade(ax, side, side, heights)
    for radius in np.arange(0.2, 1.5, 0.2):
        ax.add_patch(plt.Circle(tuple(x), radius, fill=False, color="#bbbbbb", linewidth=0.7))
    ax.plot(*path.T, "-o", color=RED, markersize=4)
    for mu, point in zip(mus, path, strict=True):
        exponent = np.log10(mu)
        if abs(exponent - round(exponent)) < 1e-9 and -1 <= exponent <= 0:
            beside(ax, rf"$\mu = {mu:g}$", point, (-5, 5), ha="right", fontsize=9)
    ax.plot(*x, "s", color=INK, markersize=7, clip_on=False)
    beside(ax, "$x$", x, (7, 5))
    ax.plot(*path[-1], "*", color=INK, markersize=12)
    beside(ax, r"$\mu \to 0$", path[-1], (2, -16), fontsize=9)
    ax.set(xlabel="$u_1$", ylabel="$u_2$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_title("$C$ (shaded), central path")
    return ax


def plot_phase_one(starts: np.ndarray, ends: np.ndarray) -> Axes:
    r"""The row `two_dips`, and where phase I ends from each start: inside (circle) or at another
    local minimum (cross).

    >>> plot_phase_one(np.array([-0.8, 1.0]), np.array([-1.0, 1.2])).get_xlabel()
    '$u$'
    """
    ax = plt.subplots(figsize=(6.2, 3.0))[1]
    u = np.linspace(-2, 2.5, 400)

    def height(v: np.ndarray) -> np.ndarray:
        return two_dips(torch.tensor(v)).numpy()

    ax.axhline(0, color=INK, linestyle=":", linewidth=1.2)
    ax.plot(u, height(u), "-", color=INK)
    ax.plot(starts, height(starts), "v", color=ORANGE, label="start")
    inside = height(ends) < 0
    for chosen, marker, colour, label in (
        (inside, "o", GREEN, "inside"),
        (~inside, "X", RED, "phase I fails"),
    ):
        ax.plot(ends[chosen], height(ends)[chosen], marker, color=colour, markersize=9, label=label)
    ax.set(xlabel="$u$", ylabel="$h(u)$")
    legend_below(ax, 3)
    return ax


def plot_cg(residuals: Mapping[int, Sequence[float]], marked: int = 5) -> Axes:
    """Residual of CG, relative to its start, against steps: a curve for each number of active
    constraints.

    >>> plot_cg({1: [1.0, 1e-3, 1e-9]}).get_ylabel()
    'residual'
    """
    ax = plt.subplots()[1]
    for number, (active, values) in enumerate(residuals.items()):
        ax.semilogy(
            range(len(values)), np.maximum(values, 1e-12), **look(number, label=str(active))
        )
    ax.axvline(marked, color=INK, linestyle=":", linewidth=1.4)
    ax.annotate(f" {marked} steps", (marked, 2), fontsize=9.5)
    ax.set(xlabel="steps of CG", ylabel="residual", ylim=(1e-9, 8))
    ax.legend(title="active constraints", ncols=2)
    return ax


def plot_drift(paths: Mapping[str, Path], saw: Mapping[str, Path]) -> list[Axes]:
    r"""Left: $\lvert\lambda^k\rvert$ of each path, on logarithmic axes. Right: $\lambda^k$ of
    `saw`, with a ring at each iteration where the MIP block leaves $x = 0$.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> path = quadratic([[0.0]]).run(1.0, 5, u=1.0, lam=1.0)
    >>> len(plot_drift({"a": path}, {"a": path}))
    2
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.2, 3.3))
    for number, (label, path) in enumerate(paths.items()):
        k = np.arange(1, len(path.rows) + 1)
        left.loglog(k, np.abs(path.lam[:, 0]), **look(number, marker="", label=label))
    left.set(xlabel="iteration $k$", ylabel=r"$|\lambda^k|$", title="$X = \\{0\\}$")
    legend_below(left, 3, fontsize=9, columnspacing=0.7, handlelength=2.2, handletextpad=0.4)
    for number, (label, path) in enumerate(saw.items()):
        k = np.arange(1, len(path.rows) + 1)
        lam = path.lam[:, 0]
        right.plot(k, lam, **look(number, marker="", label=label))
        away = path.x[:, 0] != 0
        right.plot(k[away], lam[away], "o", color=INK, fillstyle="none", markersize=8)
    right.set(xlabel="iteration $k$", ylabel=r"$\lambda^k$", title="$X = \\{-1, 0\\}$")
    legend_below(right, 2, fontsize=9)
    return [left, right]
