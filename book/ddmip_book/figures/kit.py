"""What the figures of all chapters share: looks by number and by method, legends, ticks, heat maps,
ranges, regions.

The style of `ddmip_lib.plots.use_style` gives every new line a colour, dashes and a marker. A
format string such as ``"--"`` or ``"o"`` in a call of `plot` drops the marker or the line, so calls
need not say it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ddmip_lib.plots import (
    BLUE,
    COLOURS,
    DASHES,
    GREEN,
    INK,
    MARKERS,
    ORANGE,
    PALE_BLUE,
    PINK,
    RED,
    legend_below,
)
from ..experiments.grids import E1_NETWORKS, E1_SIZES
from ..experiments.rows import Row

E1_CELLS = [[(network, size) for size in E1_SIZES] for network in E1_NETWORKS]
GREY = "#777777"
Look = dict[str, Any]
"""Keywords of a plot."""
HOLLOW: Look = {"linestyle": "", "markerfacecolor": "none", "markersize": 8}
"""A mark for what the paper prints."""


def look(number: int, **more: Any) -> dict[str, Any]:
    """Colour, dashes and marker of the line with that number; `more` overrides and adds.

    >>> look(1, marker="")
    {'color': '#D55E00', 'linestyle': '--', 'marker': ''}
    """
    at = number % len(COLOURS)
    return {"color": COLOURS[at], "linestyle": DASHES[at], "marker": MARKERS[at]} | more


class MethodLook(NamedTuple):
    """How a method looks in every chapter."""

    label: str
    color: str
    linestyle: Any
    marker: str


METHOD_LOOKS = {
    "bigm": MethodLook("Big-M", INK, DASHES[3], "X"),
    "dd-paper": MethodLook("paper's settings", RED, DASHES[1], "s"),
    "dd": MethodLook("our defaults", BLUE, DASHES[0], "o"),
    "dd-graph": MethodLook("graph split", GREEN, DASHES[2], "^"),
    "dd-no-multipliers": MethodLook("… without multipliers", GREEN, DASHES[2], "^"),
    "dd-barrier": MethodLook("paper's settings, barrier", ORANGE, DASHES[2], "v"),
    "ssg-printed": MethodLook("SSG as published", PINK, DASHES[3], "x"),
    "ssg": MethodLook("SSG repaired", PINK, DASHES[4], "v"),
    "prices": MethodLook("price coordination", PINK, DASHES[4], "D"),
    "random": MethodLook("random inputs", GREY, DASHES[3], "x"),
    "enumeration": MethodLook("enumeration", GREEN, DASHES[0], "^"),
    "grid-search": MethodLook("grid search", GREEN, DASHES[0], "P"),
}


def method_look(method: str, **more: Any) -> dict[str, Any]:
    """Label, colour, dashes and marker of a method; `more` overrides and adds.

    >>> method_look("dd", linestyle="")
    {'label': 'our defaults', 'color': '#0072B2', 'linestyle': '', 'marker': 'o'}
    """
    return METHOD_LOOKS[method]._asdict() | more


def draw_lines(ax: Axes, curves: Mapping[str, Any], x: Any = None, **more: Any) -> None:
    """One curve for each label, distinguished by colour, dashes and marker, over `x` or else over
    1, 2, ...
    """
    for number, (label, values) in enumerate(curves.items()):
        at = np.arange(1, len(values) + 1) if x is None else x
        ax.plot(at, values, **look(number, label=label, **more))


def plot_lines(
    curves: Mapping[str, Any],
    xlabel: str,
    ylabel: str,
    x: Any = None,
    log: str = "",
    below: int = 0,
    **more: Any,
) -> Axes:
    """Several curves in one figure; `log` names the logarithmic axes, `below` the columns of a
    legend under them.

    >>> ax = plot_lines({"one": [3, 2, 1], "two": [1, 1, 1]}, "iteration $k$", "merit", log="y")
    >>> len(ax.lines), ax.get_yscale()
    (2, 'log')
    """
    ax = plt.subplots()[1]
    draw_lines(ax, curves, x, **more)
    ax.set(xlabel=xlabel, ylabel=ylabel, **{f"{axis}scale": "log" for axis in log})
    if "x" not in log:
        whole(ax)
    if below:
        legend_below(ax, below)
    else:
        ax.legend()
    return ax


def draw_panels(
    count: int, height: float = 3.4, width: float = 6.2, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    figure, axes = plt.subplots(1, count, figsize=(width, height), squeeze=False, **options)
    return figure, list(axes[0])


def legend_outside(figure: Any, ncols: int, where: str = "upper", **options: Any) -> None:
    """One legend above or below all panels, which names every label once; none where nothing has a
    label.
    """
    parts = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    named = {label: handle for part in parts for handle, label in part}
    if named:
        figure.legend(
            named.values(), named.keys(), loc=f"outside {where} center", ncols=ncols, **options
        )


def whole(*axes: Axes) -> None:
    """Ticks at integers along x."""
    for ax in axes:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def ticks_at(ax: Axes, values: Iterable[float]) -> None:
    """Ticks along x at these values alone, written in full, as a logarithmic axis needs them.

    >>> ax = plt.subplots()[1]
    >>> ticks_at(ax, [0.5, 1000])
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['0.5', '1,000']
    """
    shown = list(values)
    ax.set_xticks(shown, [f"{value:,g}" for value in shown])
    ax.xaxis.set_minor_locator(plt.NullLocator())


def plain_log(axis: Axis, unit: float = 1.0) -> None:
    """1, 2, 5, 10, ... units in full: for a logarithmic axis that spans too little for powers of
    ten.
    """
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / unit:,g}"))
    axis.set_minor_formatter(NullFormatter())


def names_below(ax: Axes, names: Sequence[str], **options: Any) -> None:
    """One place for each name along x."""
    ax.set_xticks(range(len(names)), names, **options)
    ax.set_xlim(-0.6, max(0.6, len(names) - 0.4))


def ranges(ax: Axes, cells: Mapping[float, Any], **style: Any) -> None:
    """Mean and range of the values at each place; places without a value stay empty.

    >>> ax = plt.subplots()[1]
    >>> ranges(ax, {0: [1.0, 3.0], 1: []}, label="runs")
    >>> ax.containers[0].lines[0].get_ydata()
    array([2.])
    """
    known = {place: np.asarray(cell, dtype=float) for place, cell in cells.items() if len(cell)}
    mean = np.array([cell.mean() for cell in known.values()])
    reach = [[m - cell.min(), cell.max() - m] for m, cell in zip(mean, known.values(), strict=True)]
    ax.errorbar(
        list(known),
        mean,
        yerr=np.array(reach).T if reach else None,
        **style | {"linestyle": "none"},
    )


def beside(ax: Axes, text: str, point: Any, shift: tuple[float, float], **options: Any) -> None:
    """A text beside a point, `shift` away in points of print."""
    ax.annotate(text, point, xytext=shift, textcoords="offset points", **options)


def hold(found: Sequence[Sequence[float]], end: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of a step line that keeps its last value until `end`.

    >>> [part.tolist() for part in hold([[0.1, 5], [2.0, 7]], 9.0)]
    [[0.1, 2.0, 9.0], [5.0, 7.0, 7.0]]
    """
    times, values = np.array([*found, [max(end, found[-1][0]), found[-1][1]]], dtype=float).T
    return times, values


def shade(ax: Axes, xs: np.ndarray, ys: np.ndarray, heights: np.ndarray) -> None:
    """Where heights are at most 0, with the border."""
    ax.contourf(xs, ys, heights, [-np.inf, 0], colors=[PALE_BLUE])
    ax.contour(xs, ys, heights, [0], colors=[BLUE], linewidths=1.6, linestyles="-")
    ax.grid(visible=False)


class HeatMap(NamedTuple):
    """Numbers by network (down) and size (across) of E1, NaN where nothing is stored."""

    title: str
    values: np.ndarray
    low: float = 0.0
    high: float = 1.0
    form: str = ".2f"
    cut: np.ndarray | None = None
    """Cells whose number would be larger had a time limit not cut the runs off."""
    log: bool = False
    """Whether the colours follow the logarithm of the numbers."""


def heat_maps(maps: Sequence[HeatMap]) -> Figure:
    """Three or four maps over networks and sizes, with the number in every cell and a dash where
    there is none.

    >>> cells = np.full((len(E1_NETWORKS), len(E1_SIZES)), -0.01)
    >>> heat_maps([HeatMap("share", cells, form=".1f")] * 4).axes[0].texts[0].get_text()
    '0.0'
    >>> heat_maps([HeatMap("share", cells, form=".1f", cut=cells < 0)] * 4).axes[0].texts[
    ...     0
    ... ].get_text()
    '≥0.0'
    """
    shape, size = ((1, 3), (6.8, 2.7)) if len(maps) == 3 else ((2, 2), (6.6, 5.0))
    figure, grid = plt.subplots(*shape, figsize=size, sharex=True, sharey=True)
    for ax, shown in zip(grid.flat, maps, strict=True):
        _heat_map(ax, shown, fontsize=8.5 if len(maps) == 3 else 10)
    return figure


def _heat_map(ax: Axes, shown: HeatMap, fontsize: float) -> None:
    """One map: colours, a number in every cell, names of networks and sizes."""
    scale = LogNorm if shown.log else Normalize
    norm = scale(shown.low, shown.high, clip=True)
    ax.imshow(shown.values, norm=norm, cmap="Blues", aspect="auto")
    for (i, j), value in np.ndenumerate(shown.values):
        known = bool(np.isfinite(value))
        word = format(value, "z" + shown.form) if known else "–"  # z: no "-0.0"
        if known and shown.cut is not None and shown.cut[i, j]:
            word = "≥" + word
        ink = "white" if known and norm(value) > 0.6 else INK
        ax.text(j, i, word, ha="center", va="center", color=ink, fontsize=fontsize)
    ax.set(title=shown.title, xlabel="samples $n$")
    ax.set_xticks(range(len(E1_SIZES)), [str(size) for size in E1_SIZES])
    ax.set_yticks(range(len(E1_NETWORKS)), E1_NETWORKS)
    ax.grid(visible=False)
    ax.label_outer()


def each_cell(pairs: Sequence[tuple[Row, Row]], value: Callable[[Row, Row], float]) -> np.ndarray:
    """Mean of a value over the pairs of runs in each cell of E1's grid, NaN where there is none."""
    cells = [
        [[value(a, b) for a, b in pairs if (b.network, b.size) == cell] for cell in line]
        for line in E1_CELLS
    ]
    return np.array([[np.mean(cell) if cell else np.nan for cell in line] for line in cells])


def plot_runs(
    runs: Mapping[str, Any], columns: Mapping[str, str], linear: Sequence[str] = ()
) -> list[Axes]:
    """One panel for each column (name: axis label), one curve for each run; a run maps a name to a
    series.

    Columns named in `linear` are counts on a linear scale; all others have a logarithmic one, where
    values that are not positive leave a gap.

    >>> axes = plot_runs({"a": {"rho": [1.0, 2.0]}, "b": {"rho": [3.0]}}, {"rho": "penalty"})
    >>> axes[0].get_yscale(), len(axes[0].get_lines())
    ('log', 2)
    """
    count = len(columns)
    _, grid = plt.subplots(count, 1, sharex=True, figsize=(6.2, 1.0 + 1.65 * count), squeeze=False)
    axes: list[Axes] = list(grid[:, 0])
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        for number, (name, run) in enumerate(runs.items()):
            values = np.asarray(run[column], dtype=float)
            if column not in linear:
                values = np.where(values > 0, values, np.nan)
                ax.set_yscale("log")
            style = look(number, markersize=4.5, markevery=(2 * number, 2 * len(runs)), label=name)
            ax.plot(np.arange(1, len(values) + 1), values, **style)
        ax.set_ylabel(label)
        if column in linear:
            ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        low, high = ax.get_ylim()
        if ax.get_yscale() == "log" and high < 100 * low:  # too narrow for powers of ten alone
            plain_log(ax.yaxis)
    axes[-1].set_xlabel("iteration")
    whole(axes[-1])
    legend_below(axes[-1], 2, 0.3)
    return axes
