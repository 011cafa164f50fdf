"""Figures of the fifth experiment: two NN blocks on Tree Planting, and how far each method gets
from the start.
"""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, INK
from ..experiments.claims.printed import E5_BARRIER, E5_EXACT, E5_PGD
from ..experiments.grids import E5_NETWORKS
from ..experiments.results import Results
from ..experiments.rows import Row, decode
from .kit import GREY, HOLLOW, legend_outside, look, method_look, names_below

E5_METHODS = ("dd-paper", "dd-barrier", "random", "bigm", "dd", "enumeration", "grid-search")
"""The methods, from the paper's to what is known to be best."""
PRINTED: dict[str, dict[str, float]] = {
    "dd-paper": dict(zip(E5_NETWORKS, E5_PGD, strict=True)),
    "dd-barrier": dict(zip(E5_NETWORKS, E5_BARRIER, strict=True)),
    "bigm": {E5_NETWORKS[0]: E5_EXACT[0], E5_NETWORKS[-1]: E5_EXACT[1]},
}
Instance = tuple[str, str, int]
"""Problem, network, seed."""


def same_networks(full: Results) -> Results:
    """The runs whose networks are, bit by bit, those of enumeration on the same instance, or else
    of its first run.

    Weights of large networks are not stored. Trained again on another processor they differ in
    their last digits: no objective of theirs can be compared with one that was found before.
    """
    used: dict[Instance, str | None] = {}
    for row in sorted(full, key=lambda row: row.method != "enumeration"):
        used.setdefault((row.problem, row.network, row.seed), row.weights.get("sha256"))
    known = [(row, used[row.problem, row.network, row.seed]) for row in full]
    return Results([row for row, digest in known if row.weights.get("sha256") in (digest, None)])


def best_known(full: Results) -> dict[Instance, float]:
    """The best verified objective of each instance; for Tree Planting only where enumeration has
    ended.
    """
    best: dict[Instance, float] = {}
    for row in same_networks(full):
        key = row.problem, row.network, row.seed
        best[key] = max(best.get(key, -np.inf), -np.inf if row.objective is None else row.objective)
    ended = {(r.problem, r.network, r.seed) for r in full.where(method="enumeration") if r.ended}
    return {key: value for key, value in best.items() if key[0] != "trees" or key in ended}


def closed(objective: float, start: float, best: float) -> float:
    """The share of the way from the start to the best value; NaN where there is no way to go.

    >>> closed(9.5, 9.0, 10.0), closed(9.0, 9.0, 9.0)
    (0.5, nan)
    """
    return (
        float("nan")
        if best - start <= 1e-6 * max(1.0, abs(best))
        else (objective - start) / (best - start)
    )


def closed_runs(full: Results, problem: str, method: str) -> list[tuple[str, float]]:
    """Network and relative gap closed of every run of a method, on instances that leave something
    to gain.
    """
    best = best_known(full)
    found = []
    for row in same_networks(full).where(problem=problem, method=method):
        key = row.problem, row.network, row.seed
        if key in best and row.objective is not None and row.untreated is not None:
            found.append((row.network, closed(row.objective, row.untreated, best[key])))
    return [(network, share) for network, share in found if np.isfinite(share)]


def survivals(row: Row) -> np.ndarray:
    """The networks' outputs at the point of a Tree Planting run, (sites, species).

    Behind the sterilising variable of each site stand four planting variables, then the four
    survivals.
    """
    n = row.size**2
    values = decode(row.point["values"], row.point["dtype"])
    return values[5 * n : 9 * n].reshape(n, 4)


def reactions(full: Results) -> dict[tuple[str, int], np.ndarray]:
    """By network and seed: how far each species' output ranges over the sites of the plot at the
    optimum.
    """
    rows = full.where(problem="trees", method="enumeration")
    return {(row.network, row.seed): np.ptp(survivals(row), axis=0) for row in rows if row.point}


def first_move(row: Row) -> int | None:
    """The first iteration whose verified point is better than the start; None if there is none."""
    start = np.inf if row.untreated is None else row.untreated
    steps = zip(row.trace.get("k", []), row.trace.get("objective", []), strict=True)
    return next(
        (int(k or 0) for k, value in steps if value is not None and value > start + 1e-3), None
    )


def timed(full: Results, network: str, method: str) -> Results:
    """Tree Planting runs whose seconds mean something: an exact model must end by a proof or by the
    time limit.
    """
    runs = full.where(problem="trees", network=network, method=method)
    return (
        runs.where(status=("optimal", "claimed_optimal", "time_limit"))
        if method == "bigm"
        else runs
    )


def _look(method: str, **more: Any) -> dict[str, Any]:
    """A method's marks; beside the barrier, the paper's settings are named by their NN block."""
    name = {"label": "paper's settings, PGD"} if method == "dd-paper" else {}
    return method_look(method, linestyle="") | name | more


def flat_instances(full: Results) -> set[tuple[str, int]]:
    """Networks and seeds of Tree Planting on which nothing can be gained."""
    rows = full.where(problem="trees", method="enumeration")
    return {
        (row.network, row.seed)
        for row in rows
        if (row.objective or 0) - (row.untreated or 0) <= 1e-6
    }


def plot_seconds(full: Results) -> Axes:
    """The paper's figure: seconds by network, its own (hollow) and ours (filled; dots where
    networks are constant).
    """
    ax = plt.subplots()[1]
    flat = flat_instances(full)
    for shift, (method, printed) in zip((-0.25, 0.0, 0.25), PRINTED.items(), strict=True):
        for place, network in enumerate(E5_NETWORKS):
            runs = timed(full, network, method)
            for constant, style in (
                (False, _look(method)),
                (True, {"color": GREY, "marker": ".", "linestyle": ""}),
            ):
                chosen = Results(
                    [row for row in runs if ((row.network, row.seed) in flat) == constant]
                )
                own = chosen.values("seconds")
                label = "networks constant, nothing to do" if constant else _look(method)["label"]
                if len(own):
                    ax.plot([place + shift - 0.05] * len(own), own, **style | {"label": label})
        beside = [E5_NETWORKS.index(network) + shift + 0.05 for network in printed]
        name = f"{_look(method)['label']}, in the paper"
        ax.plot(beside, list(printed.values()), **_look(method, label=name) | HOLLOW)
    names_below(ax, E5_NETWORKS)
    ax.set(yscale="log", ylabel="seconds", ylim=(0.2, 2000))
    legend_outside(ax.figure, 2, "lower")
    return ax


def plot_closed(full: Results) -> Figure:
    """Relative gap closed, one mark a run: Tree Planting on the left, site care on the right."""
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.4), sharex=True)
    left_out = {"trees": ("grid-search",), "site_care": ("dd-paper", "dd-barrier", "enumeration")}
    for ax, problem, title in zip(axes, left_out, ("Tree Planting", "site care"), strict=True):
        methods = [method for method in E5_METHODS if method not in left_out[problem]]
        for place, method in enumerate(methods):
            shares = [share for _, share in closed_runs(full, problem, method)]
            ax.plot(shares, [place] * len(shares), **_look(method, markersize=7))
        ax.set_yticks(
            range(len(methods)), [_look(method)["label"] for method in methods], fontsize=9
        )
        ax.set(
            title=title, xlabel="share closed", ylim=(-0.6, len(methods) - 0.4), xlim=(-0.08, 1.08)
        )
    return figure


def plot_closed_by_network(react: Results) -> Axes:
    """Relative gap closed on Tree Planting where all networks are input-sensitive, one mark a run,
    distinguished by the networks' size.

    `react` has the plain names of the networks.
    """
    ax = plt.subplots(figsize=(6.2, 3.2))[1]
    methods = [
        method
        for method in E5_METHODS
        if method != "grid-search" and len(react.where(method=method))
    ]
    for number, network in enumerate(E5_NETWORKS):
        shift = 0.22 * (1 - number)
        drawn = [
            (share, place)
            for place, method in enumerate(methods)
            for own, share in closed_runs(react, "trees", method)
            if own == network
        ]
        style = look(number, linestyle="", label=network, markersize=7)
        ax.plot([share for share, _ in drawn], [place + shift for _, place in drawn], **style)
    ax.set_yticks(range(len(methods)), [_look(method)["label"] for method in methods])
    ax.set(xlabel="share closed", xlim=(-0.08, 1.08), ylim=(-0.6, max(len(methods), 1) - 0.4))
    legend_outside(ax.figure, 3, "lower")
    return ax


def plot_penalties(shares: Mapping[float, float], gain: float) -> Axes:
    """Relative gap closed against the penalty, and the penalty at which asking rho / 2 equals the
    gain of the best flip.

    >>> plot_penalties({10.0: 0.0, 0.1: 1.0}, 0.5).get_xlabel()
    'penalty'
    """
    ax = plt.subplots(figsize=(6.2, 3.0))[1]
    ax.plot(list(shares), list(shares.values()), "o-", color=BLUE, label="share closed")
    ax.axvline(
        2 * gain, color=INK, linestyle="--", label="half the penalty = gain of the best flip"
    )
    ax.set(xscale="log", xlabel="penalty", ylabel="share closed", ylim=(-0.08, 1.08))
    ax.legend()
    return ax
