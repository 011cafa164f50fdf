"""Figures of the chapter on the set-up: what the networks know, what training does, and how times
are compared.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ddmip_lib.plots import BLUE, GREEN, INK, RED
from ..experiments.results import Results, time_to
from ..experiments.rows import Row
from .kit import beside, draw_lines, hold, look, method_look, ticks_at

WIDTH = 1.96
"""Half of a 95 % interval, in standard errors."""


def trained(rows: Results) -> dict[str, dict[int, float]]:
    """Test score by network and seed, networks by size; a network counts once, however
    often used.
    """
    known = [row for row in rows if row.test_score is not None]
    found: dict[str, dict[int, float]] = {}
    for row in sorted(known, key=lambda row: row.parameters or 0):
        found.setdefault(row.network, {})[row.seed] = float(row.test_score or 0.0)
    return found


def noise(share: float, tested: int) -> float:
    r"""Half the width of the 95 % interval of a share seen on `tested` records, $1.96 \sqrt{p (1 -
    p) / m}$.

    >>> round(noise(0.5, 100), 3)
    0.098
    """
    return float(WIDTH * np.sqrt(share * (1 - share) / tested))


def plot_accuracy(rows: Results, majority: float, tested: int) -> Axes:
    """One mark for each trained network, against the fraction of the larger class and what chance
    alone makes of it.

    >>> [text.get_text() for text in plot_accuracy(Results([]), 0.6, 400).get_legend().get_texts()]
    ['chance, 400 test rows', 'always the larger class']
    """
    _, axes = plt.subplots()
    half = noise(majority, tested)
    scores = trained(rows)
    axes.axhspan(
        majority - half, majority + half, color=RED, alpha=0.15, label=f"chance, {tested} test rows"
    )
    axes.axhline(majority, color=RED, linestyle="--", label="always the larger class")
    for at, by_seed in enumerate(scores.values()):
        values = list(by_seed.values())
        labels = (None, None) if at else ("a trained network", "mean over seeds")
        axes.plot([at] * len(values), values, "o", color=BLUE, alpha=0.7, label=labels[0])
        axes.plot(
            at, np.mean(values), "_", color=INK, markersize=16, markeredgewidth=2, label=labels[1]
        )
    axes.set_xticks(range(len(scores)), list(scores), rotation=30, ha="right")
    lowest = min([score for by_seed in scores.values() for score in by_seed.values()], default=0.5)
    axes.set(
        ylabel="test accuracy",
        ylim=(min(0.5, lowest - 0.02), 0.8),
        xlabel="network, fewest parameters first",
    )
    axes.legend(loc="upper left", ncols=2)
    return axes


def plot_logits(logits: Mapping[str, np.ndarray]) -> Axes:
    """For each network, the fraction of the untreated samples whose logit is at most a value.

    >>> axes = plot_logits({"a": np.array([-2.0, -1.0, 1.0])})
    >>> axes.lines[0].get_ydata().max()
    np.float64(1.0)
    """
    _, axes = plt.subplots()
    for number, (name, values) in enumerate(logits.items()):
        x = np.sort(values)
        style = look(number, markevery=max(1, len(x) // 8), label=name)
        axes.step(x, np.arange(1, len(x) + 1) / len(x), where="post", **style)
    axes.axvline(0, color=INK, linewidth=1)
    beside(axes, "potable →", (0.02, 0.04), (6, 0), xycoords=("data", "axes fraction"))
    axes.set(
        xlabel="logit of an untreated sample", ylabel="share of samples at or below", ylim=(0, 1.02)
    )
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.1))
    return axes


def plot_training(
    epochs: Sequence[int],
    accuracy: Mapping[str, Sequence[float]],
    majority: float,
    potable: Mapping[str, Sequence[float]],
    n: int,
) -> tuple[Axes, Axes]:
    """Left: accuracies against epochs; right: potable samples of `n`, before and after Algorithm 1.

    >>> left, right = plot_training([5, 60], {"test": [0.6, 0.6]}, 0.6, {"treated": [8, 20]}, 25)
    >>> len(left.lines), len(right.lines)
    (2, 1)
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.3))
    for axes, curves in ((left, accuracy), (right, potable)):
        draw_lines(axes, curves, epochs)
        axes.set(xscale="log", xlabel="epochs of training")
        ticks_at(axes, epochs)
    left.axhline(majority, color=INK, linestyle=":", linewidth=1.3, label="larger class")
    left.set(ylabel="accuracy", ylim=(0.5, 1.0))
    right.set(ylabel=f"potable samples of {n}", ylim=(0, n))
    for axes in (left, right):
        axes.legend(loc="upper left")
    return left, right


def plot_time_to(exact: Row, other: Row, label: str) -> Axes:
    """Verified objective over time of two runs, and when each first held what the exact model ended
    with.

    >>> from ddmip_book.experiments.case import Case
    >>> def row(method, found):
    ...     case = Case("e1", "water", "2x16", 4, 42, method)
    ...     return Row(
    ...         case.key,
    ...         **case.setting(),
    ...         status="optimal",
    ...         objective=4.0,
    ...         untreated=1.0,
    ...         incumbents=found,
    ...     )
    >>> axes = plot_time_to(
    ...     row("bigm", [[0.1, 1.0], [3.0, 4.0]]), row("dd", [[0.1, 1.0], [0.3, 4.0]]), "ours"
    ... )
    >>> [text.get_text() for text in axes.texts]
    ['3.00 s', '0.30 s']
    """
    _, axes = plt.subplots()
    goal = float(exact.objective or 0.0)
    end = 1.5 * max(time for row in (exact, other) for time, _ in row.incumbents)
    for row, style, shift in (
        (exact, method_look("bigm"), -15),
        (other, method_look("dd", label=label), 7),
    ):
        axes.step(*hold(row.incumbents, end), where="post", markevery=slice(0, -1), **style)
        reached = time_to(row, goal)
        if np.isfinite(reached):
            axes.axvline(reached, color=style["color"], linestyle=style["linestyle"], linewidth=1)
            beside(axes, f"{reached:.2f} s", (reached, goal), (4, shift), color=style["color"])
    axes.axhline(goal, color=GREEN, linestyle="--", linewidth=1.2, label="$v$")
    axes.set(xscale="log", xlabel="seconds since solve() was called", ylabel="verified objective")
    axes.set_ylim(top=goal + 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return axes
