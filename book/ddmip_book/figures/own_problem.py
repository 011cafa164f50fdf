"""Figures of one's own problems: a recipe among random ones, loads of a kiln, a shared supply, and
what runs say.
"""

from collections.abc import Mapping, Sequence
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, GREEN, INK, PALE_BLUE, RED
from ..experiments.suite import KINDS, Choice
from .kit import GREY, Look, legend_outside

THICK = "#f6d3bd"
"""The colour of thick-walled orders."""


def plot_recipes(
    outcomes: np.ndarray,
    costs: np.ndarray,
    kept: np.ndarray,
    answer: Sequence[float],
    limits: tuple[float, float],
) -> Figure:
    """Random recipes by what the network predicts of them: feasible ones, infeasible ones, and
    the solution.

    >>> outcomes, kept = np.array([[21, 30], [10, 50]]), np.array([True, False])
    >>> plot_recipes(outcomes, np.array([5, 4]), kept, [20, 35], (20, 35)).axes[0].get_xlabel()
    'strength, MPa'
    """
    figure, ax = plt.subplots(figsize=(6.4, 3.8))
    ax.plot(*outcomes[~kept].T, "x", color=GREY, markersize=3.5, alpha=0.5, label="infeasible")
    shades = ax.scatter(
        outcomes[kept, 0],
        outcomes[kept, 1],
        c=costs[kept],
        cmap="viridis",
        s=26,
        edgecolor=INK,
        linewidth=0.4,
    )
    shades.set_label("feasible")
    ax.plot(
        *answer,
        "*",
        color=RED,
        markersize=17,
        markeredgecolor="white",
        label="solution",
        zorder=5,
    )
    ax.axvline(limits[0], color=INK, linestyle="--", linewidth=1.2)
    ax.axhline(limits[1], color=INK, linestyle="--", linewidth=1.2)
    near = [
        (limit - below, limit + above)
        for limit, below, above in zip(limits, (4.5, 7), (3.5, 22), strict=True)
    ]
    ax.set(xlabel="strength, MPa", ylabel="curing time, minutes", xlim=near[0], ylim=near[1])
    figure.colorbar(shades, ax=ax, label="cost, euros a part")
    legend_outside(figure, 3)
    return figure


def plot_loads(
    loads: np.ndarray,
    mass: np.ndarray,
    glazed: np.ndarray,
    thick: np.ndarray,
    capacity: float,
    titles: Sequence[str],
) -> Figure:
    """Which orders go into which firing, as bars of kilograms with their number; hatched: glazed,
    dotted: thick-walled.

    >>> orders = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)
    >>> plot_loads(np.eye(2), np.array([5, 7]), *orders, 10, ["first", "second"]).axes[
    ...     0
    ... ].get_xlabel()
    'kilograms'
    """
    figure, ax = plt.subplots(figsize=(6.4, 2.6))
    circle = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": INK}
    for k, load in enumerate(loads.T):
        left = 0.0
        for order in np.flatnonzero(load > 0.5):
            hatch = "////" * bool(glazed[order]) + ".." * bool(thick[order])
            colour = THICK if thick[order] else PALE_BLUE
            look: Look = {"color": colour, "edgecolor": INK, "hatch": hatch, "linewidth": 1.0}
            ax.barh(k, mass[order], 0.6, left=left, **look)
            middle = left + mass[order] / 2
            ax.text(middle, k, str(order + 1), ha="center", va="center", bbox=circle)
            left += mass[order]
    ax.axvline(capacity, color=RED, linestyle="--", label="capacity of the kiln")
    ax.bar(0, 0, edgecolor=INK, label="glazed", hatch="////", facecolor=PALE_BLUE)
    ax.bar(0, 0, edgecolor=INK, label="thick-walled", hatch="..", facecolor=THICK)
    ax.set_yticks(range(len(titles)), titles)
    ax.set(xlabel="kilograms", ylim=(len(titles) - 0.45, -0.55))
    ax.grid(visible=False)
    legend_outside(figure, 3)
    return figure


def plot_stores(
    outside: np.ndarray, inside: np.ndarray, fans: np.ndarray, won: np.ndarray
) -> Figure:
    """What each store does with its fraction of the power, the hottest to the right: degrees, fans,
    and additional tonnes.

    >>> len(
    ...     plot_stores(
    ...         np.array([20, 30]), np.array([5, 3]), np.array([0, 2]), np.array([1, 2])
    ...     ).axes
    ... )
    2
    """
    figure, (top, low) = plt.subplots(2, 1, figsize=(6.4, 4.2), sharex=True, height_ratios=(1.5, 1))
    order = np.argsort(outside, kind="stable")
    place = np.arange(1, len(order) + 1)
    top.vlines(place, inside[order], outside[order], color=GREY, linewidth=1.0)
    top.plot(place, outside[order], "o", color=RED, markersize=8, label="outside")
    top.plot(place, inside[order], "s", color=BLUE, markersize=8, label="inside")
    for x, count in zip(place, np.rint(fans[order]).astype(int), strict=True):
        word = {0: "", 1: "1 fan"}.get(int(count), f"{count} fans")
        top.annotate(
            word, (x, inside[order][x - 1]), (6, 6), textcoords="offset points", fontsize=9
        )
    top.set(ylabel="degrees Celsius", ylim=(0, None))
    low.bar(place, won[order], 0.65, color=GREEN, edgecolor=INK)
    low.set(
        xlabel="store, from the coolest to the hottest place",
        ylabel="additional tonnes",
        xticks=place,
    )
    legend_outside(figure, 2)
    return figure


def plot_gap(points: Mapping[str, float], bound: float, start: float) -> Figure:
    """Objectives of some plans below a proven bound, all as bars from a plan without effort.

    >>> plot_gap({"prices": 3.0}, 4.0, 1.0).axes[0].get_xlabel()
    'tonnes saleable'
    """
    figure, ax = plt.subplots(figsize=(6.4, 1.1 + 0.42 * len(points)))
    names = list(points)
    ax.barh(
        names,
        [points[name] - start for name in names],
        0.55,
        left=start,
        color=PALE_BLUE,
        edgecolor=INK,
    )
    for name in names:
        ax.annotate(
            f"{points[name]:.2f}",
            (points[name], name),
            (4, 0),
            textcoords="offset points",
            va="center",
        )
    ax.axvline(bound, color=RED, linestyle="--", label=f"proved: at most {bound:.2f}")
    ax.set(xlabel="tonnes saleable", xlim=(start, bound + 0.18 * (bound - start)))
    ax.invert_yaxis()
    legend_outside(figure, 1)
    return figure


COMPARED = ("solve", "sequential", "dd", "prices", "bigm", "enumeration", "random-points")
"""Across the chart: what a user of the library may call, and what one gets without any of it."""
HEADS = {
    "solve": "solve",
    "sequential": "Sequen-\ntialMIP",
    "dd": "Dual-\nDecom-\nposition",
    "prices": "Price-\nCoordi-\nnation",
    "bigm": "BigM",
    "enumeration": "Enumer-\nation",
    "random-points": "random\npoints",
}


def plot_choice(choices: Sequence[Choice], methods: Sequence[str] = COMPARED) -> Figure:
    """The decision chart: what one sees of a problem down, methods across, the shade is the share
    of models solved.

    In each cell: on how many of these models the method came within 1 % of the best value known,
    its median distance from that value, and the median seconds until it was that near.

    >>> features = {
    ...     "points": 9,
    ...     "blocks": 1,
    ...     "whole": 1,
    ...     "output_rows": 0,
    ...     "networks": 1,
    ...     "activations": ["ReLU"],
    ...     "rows": 2,
    ... }
    >>> choice = Choice(
    ...     "small", features, {"solve": 0.3}, {"solve": 0.0, "dd": 0.021, "bigm": np.inf}
    ... )
    >>> [
    ...     text.get_text()
    ...     for text in plot_choice([choice], ["solve", "dd", "bigm", "prices"]).axes[0].texts
    ... ]
    ['1 of 1\\n0 %\\n0.3 s', '0 of 1\\n2.1 %', '0 of 1\\nno point', '–']
    """
    if not choices:
        figure, ax = plt.subplots(figsize=(6.6, 1.2))
        ax.text(0.5, 0.5, "no rows of the suite are stored yet", ha="center", va="center")
        ax.set_axis_off()
        return figure
    kinds = {
        kind: fitting
        for kind, fits in KINDS.items()
        if (fitting := [c for c in choices if fits(c.features)])
    }
    figure, ax = plt.subplots(figsize=(6.6, 1.0 + 0.62 * len(kinds)))
    shares = [
        [sum(method in c.seconds for c in own) / len(own) for method in methods]
        for own in kinds.values()
    ]
    ax.imshow(np.array(shares), vmin=0.0, vmax=2.0, cmap="Blues", aspect="auto")
    for i, own in enumerate(kinds.values()):
        for j, method in enumerate(methods):
            ax.text(
                j,
                i,
                _said(own, method),
                ha="center",
                va="center",
                fontsize=8,
                color=INK,
                linespacing=1.05,
            )
    ax.set_xticks(
        range(len(methods)), [HEADS.get(method, method) for method in methods], fontsize=8
    )
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(kinds)), [f"{kind} ({len(own)})" for kind, own in kinds.items()])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    return figure


def _said(choices: Sequence[Choice], method: str) -> str:
    ran = [choice.distance[method] for choice in choices if method in choice.distance]
    if not ran:
        return "–"
    times = [choice.seconds[method] for choice in choices if method in choice.seconds]
    lines = [f"{len(times)} of {len(choices)}", _per_cent(median(ran))]
    return "\n".join([*lines, f"{median(times):.2g} s"] if times else lines)


def _per_cent(distance: float) -> str:
    if np.isinf(distance):
        return "no point"
    return "0 %" if distance < 5e-5 else f"{100 * distance:.2g} %" if distance < 1 else "> 100 %"
