"""Figures of the fifth experiment: two NN blocks on Tree Planting, and how far each method gets from the start."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, PINK, RED
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..experiments.claims.printed import E5_BARRIER, E5_EXACT, E5_PGD
from ..experiments.grids import E5_NETWORKS
from ..experiments.results import Results
from ..experiments.rows import Row, decode

MARKS = {
    "dd-paper": ("paper's settings, PGD", "s", RED),
    "dd-barrier": ("paper's settings, barrier", "v", ORANGE),
    "random": ("random inputs", "x", INK),
    "bigm": ("Big-M", "D", PINK),
    "dd": ("our defaults", "o", BLUE),
    "enumeration": ("enumeration", "^", GREEN),
    "grid-search": ("grid search", "P", GREEN),
}
PRINTED: dict[str, dict[str, float]] = {
    "dd-paper": dict(zip(E5_NETWORKS, E5_PGD, strict=True)),
    "dd-barrier": dict(zip(E5_NETWORKS, E5_BARRIER, strict=True)),
    "bigm": {E5_NETWORKS[0]: E5_EXACT[0], E5_NETWORKS[-1]: E5_EXACT[1]},
}
Instance = tuple[str, str, int]
"""Problem, network, seed."""


def best_known(full: Results) -> dict[Instance, float]:
    """The best verified objective of each instance; for Tree Planting only where enumeration has proved it.

    >>> best_known(Results([]))
    {}
    """
    best: dict[Instance, float] = {}
    for row in full:
        key = row.problem, row.network, row.seed
        best[key] = max(best.get(key, -np.inf), -np.inf if row.objective is None else row.objective)
    proved = {(r.problem, r.network, r.seed) for r in full.where(method="enumeration", status="optimal")}
    return {key: value for key, value in best.items() if key[0] != "trees" or key in proved}


def closed(objective: float, start: float, best: float) -> float:
    """The share of the way from the start to the best value; NaN where there is no way to go.

    >>> closed(9.5, 9.0, 10.0), closed(9.0, 9.0, 9.0)
    (0.5, nan)
    """
    return float("nan") if best - start <= 1e-6 * max(1.0, abs(best)) else (objective - start) / (best - start)


def closed_runs(full: Results, problem: str, method: str) -> list[tuple[str, float]]:
    """Network and share closed of every run of a method, on instances that leave something to gain.

    >>> closed_runs(Results([]), "trees", "dd")
    []
    """
    best, found = best_known(full), []
    for row in full.where(problem=problem, method=method):
        key = row.problem, row.network, row.seed
        if key in best and row.objective is not None and row.untreated is not None:
            found.append((row.network, closed(row.objective, row.untreated, best[key])))
    return [(network, share) for network, share in found if np.isfinite(share)]


def survivals(row: Row) -> np.ndarray:
    """The networks' outputs at the point of a Tree Planting run, (sites, species).

    Behind the sterilising variable of each site stand four planting variables, then the four survivals.
    """
    n, values = row.size**2, decode(row.point["values"], row.point["dtype"])
    return values[5 * n : 9 * n].reshape(n, 4)


def reactions(full: Results) -> dict[tuple[str, int], np.ndarray]:
    """By network and seed: how far each species' output ranges over the sites of the plot at the optimum.

    >>> reactions(Results([]))
    {}
    """
    rows = full.where(problem="trees", method="enumeration")
    return {(row.network, row.seed): np.ptp(survivals(row), axis=0) for row in rows if row.point}


def first_move(row: Row) -> int | None:
    """The first iteration whose verified point is better than the start; None if there is none."""
    start = np.inf if row.untreated is None else row.untreated
    steps = zip(row.trace.get("k", []), row.trace.get("objective", []), strict=True)
    return next((int(k or 0) for k, value in steps if value is not None and value > start + 1e-3), None)


def timed(full: Results, network: str, method: str) -> Results:
    """Tree Planting runs whose seconds mean something: an exact model must end by a proof or by the time limit.

    >>> len(timed(Results([]), "8x32", "bigm"))
    0
    """
    runs = full.where(problem="trees", network=network, method=method)
    return runs.where(status=("optimal", "time_limit")) if method == "bigm" else runs


def plot_seconds(full: Results) -> Axes:
    """The paper's figure: seconds by network, ours (filled; one mark a run) beside the printed ones (hollow).

    >>> plot_seconds(Results([])).get_yscale()
    'log'
    """
    _, ax = plt.subplots()
    for shift, (method, printed) in enumerate(PRINTED.items()):
        label, mark, colour = MARKS[method]
        for place, network in enumerate(E5_NETWORKS):
            x, own = place + 0.25 * (shift - 1), timed(full, network, method)
            if len(own):
                ax.plot(np.full(len(own), x - 0.05), own.values("seconds"), mark, color=colour, linestyle="")
            if network in printed:
                ax.plot(x + 0.05, printed[network], mark, color=colour, markerfacecolor="none", markersize=8)
        ax.plot([], [], mark, color=colour, linestyle="", label=label)
    ax.plot([], [], "o", color=INK, markerfacecolor="none", linestyle="", label="hollow: the paper")
    ax.set_xticks(range(len(E5_NETWORKS)), E5_NETWORKS)
    ax.set(yscale="log", ylabel="seconds", xlim=(-0.5, len(E5_NETWORKS) - 0.5), ylim=(0.2, 2000))
    ax.figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return ax


def plot_closed(full: Results) -> Figure:
    """Share closed, one mark a run: Tree Planting on the left, site care on the right.

    >>> [ax.get_title() for ax in plot_closed(Results([])).axes]
    ['Tree Planting', 'site care']
    """
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.4), sharex=True)
    for ax, problem, title in zip(axes, ("trees", "site_care"), ("Tree Planting", "site care"), strict=True):
        methods = [m for m in MARKS if m != ("grid-search" if problem == "trees" else "enumeration")]
        if problem == "site_care":
            methods = [m for m in methods if m not in ("dd-paper", "dd-barrier")]
        for place, method in enumerate(methods):
            _, mark, colour = MARKS[method]
            shares = [share for _, share in closed_runs(full, problem, method)]
            ax.plot(shares, [place] * len(shares), mark, color=colour, linestyle="", markersize=7)
        ax.set_yticks(range(len(methods)), [MARKS[m][0] for m in methods], fontsize=9)
        ax.set_ylim(-0.6, len(methods) - 0.4)
        ax.set_xlabel("share closed")
        ax.set_title(title, fontsize=10.5)
    axes[0].set_xlim(-0.08, 1.08)
    return figure


def plot_penalties(shares: Mapping[float, float], gain: float) -> Axes:
    """Share closed against the penalty, and the penalty at which asking rho / 2 equals the gain of the best flip.

    >>> plot_penalties({10.0: 0.0, 0.1: 1.0}, 0.5).get_xlabel()
    'penalty'
    """
    _, ax = plt.subplots(figsize=(6.2, 3.0))
    ax.plot(list(shares), list(shares.values()), "o-", color=BLUE, label="share closed")
    ax.axvline(2 * gain, color=INK, linestyle="--", marker="", label="half the penalty = gain of the best flip")
    ax.set(xscale="log", xlabel="penalty", ylabel="share closed", ylim=(-0.08, 1.08))
    ax.legend(fontsize=9)
    return ax
