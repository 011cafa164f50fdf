"""Figures of solutions, in one style (`use_style`): curves differ in colour, markers and dashes;
the colours are safe for colour-blind readers.

Every function draws into the given axes, or into a new figure, and returns the axes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

try:
    import matplotlib.pyplot as plt
    from cycler import cycler
    from matplotlib.axes import Axes
    from matplotlib.ticker import LogLocator, MaxNLocator
except ModuleNotFoundError as error:
    raise ImportError(
        "ddmip_lib.plots needs matplotlib: pip install 'ddmip-lib[plots]'."
    ) from error

from .model.solution import History, Solution

__all__ = [
    "incumbent_times",
    "plot_history",
    "plot_incumbents",
    "plot_iterates",
    "plot_multipliers",
    "plot_objective",
    "plot_penalty",
    "plot_residuals",
    "use_style",
]


BLUE = "#0072B2"
RED = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
ORANGE = "#E69F00"
INK = "#333333"
PALE_BLUE = "#E3F0F8"
PALE_RED = "#FBE9DF"
PALE = "#F4F4F4"
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, INK)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE: dict[str, Any] = {
    "figure.figsize": (6.2, 3.4),
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "text.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=DASHES) + cycler(marker=MARKERS),
    "axes.titlesize": 10.5,
    "font.size": 10.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


def use_style() -> None:
    """Set matplotlib to the book's style; the first cell of a chapter calls it.

    >>> use_style()
    >>> plt.rcParams["figure.facecolor"]
    'white'
    """
    plt.rcParams.update(STYLE)  # type: ignore[arg-type]


def _iterations(run: Solution | History) -> History:
    """The history of a run, which must have iterations."""
    history = run if isinstance(run, History) else run.history
    if not len(history):
        raise ValueError("the run has no iterations to plot: use plot_incumbents.")
    return history


def _axes(ax: Axes | None, **options: Any) -> Axes:
    """The given axes or new ones, where the next curves have the first styles."""
    if ax is None:
        ax = plt.subplots(**options)[1]
    ax.set_prop_cycle(STYLE["axes.prop_cycle"])
    return ax


def legend_below(ax: Axes, ncols: int, drop: float = 0.2, **options: Any) -> None:
    """Add a legend below the axes, where it covers no curve.

    Parameters
    ----------
    ax
        The axes.
    ncols
        Number of columns.
    drop
        Distance from the axes, in heights of the axes.
    **options
        Further arguments of `matplotlib.axes.Axes.legend`.
    """
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -drop), ncols=ncols, **options)


def _over_iterations(ax: Axes, ylabel: str) -> Axes:
    ax.set(xlabel="iteration", ylabel=ylabel)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def _log_lines(
    ax: Axes, history: History, lines: Sequence[tuple[str, str, str, str]], ylabel: str
) -> Axes:
    """Plot columns of a history on a logarithmic scale, without entries that are not positive."""
    for column, label, colour, dashes in lines:
        values = history[column]
        shown = np.where(values > 0, values, np.nan)
        ax.semilogy(history["k"], shown, color=colour, linestyle=dashes, marker="", label=label)
    ax.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))  # the default labels run into each other
    legend_below(ax, 3)
    return _over_iterations(ax, ylabel)


def plot_objective(run: Solution | History, ax: Axes | None = None) -> Axes:
    """Plot the verified objective of every feasible iterate, and the incumbent as steps.

    Parameters
    ----------
    run
        A solution with a history, or the history.
    ax
        Axes to draw into.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ValueError
        If there are no iterations.
    """
    history = _iterations(run)
    ax = _axes(ax)
    k = history["k"]
    ax.plot(
        k,
        history["objective"],
        "o",
        color=ORANGE,
        markersize=3,
        label="this iterate, verified",
        zorder=3,
    )
    ax.step(
        k,
        history["incumbent"],
        where="post",
        color=BLUE,
        linestyle="-",
        marker="",
        label="best so far",
    )
    if np.all(np.isclose(history["incumbent"] % 1, 0)):
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))  # a count
    legend_below(ax, 2)
    return _over_iterations(ax, "objective")


def plot_residuals(run: Solution | History, ax: Axes | None = None) -> Axes:
    r"""Plot the primal residual $\lVert u-x\rVert_\infty$ and the dual residual
    $\rho\lVert u-u'\rVert_\infty$ on a logarithmic scale.

    Parameters
    ----------
    run
        A solution with a history, or the history.
    ax
        Axes to draw into.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    lines = (
        ("primal_residual", "primal residual", RED, "-"),
        ("dual_residual", "dual residual", GREEN, "--"),
    )
    return _log_lines(_axes(ax), _iterations(run), lines, "residuals")


def plot_penalty(run: Solution | History, ax: Axes | None = None) -> Axes:
    r"""Plot the penalty $\rho$ on a logarithmic scale, and that of coupled outputs if there is one.

    Parameters
    ----------
    run
        A solution with a history, or the history.
    ax
        Axes to draw into.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    history = _iterations(run)
    lines = [("rho", "penalty ρ", INK, ":")]
    if np.isfinite(history["rho_outputs"]).any():
        lines.append(("rho_outputs", "penalty ρ of outputs", ORANGE, "-."))
    return _log_lines(_axes(ax), history, lines, "penalty")


def plot_history(solution: Solution) -> tuple[Axes, Axes]:
    """Plot the objective, and below it residuals and penalty, in a new figure.

    Parameters
    ----------
    solution
        A solution with a history.

    Returns
    -------
    tuple of matplotlib.axes.Axes
        The upper and the lower axes.
    """
    _iterations(solution)
    _, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.4), height_ratios=(2, 3))
    plot_objective(solution, above).set_xlabel("")
    above.legend(loc="best")
    plot_residuals(solution, below)
    plot_penalty(solution, below).set_ylabel("residuals, penalty")
    legend_below(below, 2 if len(below.get_lines()) > 3 else 3, 0.32)
    return above, below


def plot_multipliers(lams: Any, ax: Axes | None = None, highlight: int = 4) -> Axes:
    r"""Plot multipliers $\lambda^k_i$: the largest of the last iteration as curves, the range of
    the others as a band.

    Parameters
    ----------
    lams
        Array (iterations, coordinates).
    ax
        Axes to draw into.
    highlight
        Number of curves.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ValueError
        If `lams` has another shape.
    """
    values = np.asarray(lams, dtype=float)
    ax = _axes(ax)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"lams has shape {values.shape}: pass one row for each iteration (see Trace)."
        )
    k = np.arange(1, len(values) + 1)
    order = np.argsort(-np.abs(values[-1]), kind="stable")
    rest = values[:, order[highlight:]]
    if rest.size:
        ax.fill_between(
            k,
            rest.min(axis=1),
            rest.max(axis=1),
            facecolor=PALE,
            edgecolor="#999999",
            linewidth=0.8,
            label=f"the other {rest.shape[1]}",
        )
    for number, i in enumerate(order[:highlight]):
        label = f"$\\lambda_{{{i + 1}}}$"
        ax.plot(k, values[:, i], markevery=(0.05 * number, 0.2), label=label)
    ax.axhline(0, color=INK, linewidth=0.8, linestyle="-", marker="")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _over_iterations(ax, "multiplier")


SQUARE_STYLE: dict[str, Any] = {
    "marker": "s",
    "markersize": 9,
    "markerfacecolor": "none",
    "markeredgecolor": RED,
    "markeredgewidth": 1.6,
    "linestyle": "none",
    "label": "$x^k$",
}
"""Style of the iterates of the MIP block."""
PATH_STYLE: dict[str, Any] = {
    "color": INK,
    "linestyle": "-",
    "linewidth": 1.1,
    "marker": "o",
    "markersize": 4,
    "markerfacecolor": "white",
    "label": "$u^k$",
}
"""Style of the iterates of the NN block."""
LAST_ITERATE_STYLE: dict[str, Any] = {
    "marker": "*",
    "markersize": 13,
    "color": INK,
    "markeredgecolor": "white",
    "linestyle": "none",
    "label": "last $u$",
}
"""Style of the last iterate of the NN block."""
COUNT_STYLE: dict[str, Any] = {
    "xytext": (7, 7),
    "textcoords": "offset points",
    "fontsize": 9,
    "color": INK,
    "annotation_clip": False,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.8},
}
"""Style of the number of iterations at a point."""


def plot_iterates(xs: Any, us: Any, ax: Axes | None = None) -> Axes:
    """Plot iterates with one or two coordinates: $x^k$ as squares, $u^k$ as a path.

    One coordinate is plotted over the iterations; two in the plane, with the number of iterations
    at each square.

    Parameters
    ----------
    xs, us
        Arrays (iterations, 1 or 2).
    ax
        Axes to draw into.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ValueError
        If the arrays have other shapes.
    """
    x = np.asarray(xs, dtype=float)
    u = np.asarray(us, dtype=float)
    if x.ndim != 2 or x.shape != u.shape or not len(x) or x.shape[1] > 2:
        raise ValueError(
            f"xs and us have shapes {x.shape} and {u.shape}: need the same (iterations, 1 or 2)."
        )
    if x.shape[1] == 2:
        return _plot_plane(x, u, _axes(ax, figsize=(5.4, 4.6)))
    ax = _axes(ax, figsize=(6.2, 3.4))
    k = np.arange(1, len(x) + 1)
    ax.plot(k, x[:, 0], **SQUARE_STYLE | {"markersize": 6, "markeredgewidth": 1.2})
    ax.plot(k, u[:, 0], **PATH_STYLE)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    legend_below(ax, 2)
    return _over_iterations(ax, "value")


def _plot_plane(x: ndarray, u: ndarray, ax: Axes) -> Axes:
    points, counts = np.unique(x.round(6), axis=0, return_counts=True)
    ax.plot(*u.T, **PATH_STYLE, clip_on=False, zorder=7)
    ax.plot(*u[-1], **LAST_ITERATE_STYLE, clip_on=False, zorder=9)
    ax.plot(*points.T, **SQUARE_STYLE, clip_on=False, zorder=8)
    for point, count in zip(points, counts, strict=True):
        ax.annotate(f"{count}", point, **COUNT_STYLE, zorder=8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    ax.set(xlabel="$x_1$, $u_1$", ylabel="$x_2$, $u_2$", aspect="equal")
    legend_below(ax, 3, 0.14)
    return ax


def incumbent_times(solution: Solution) -> tuple[ndarray, ndarray]:
    """Return when the incumbent changed, and its objectives; the last one at the end of the run.

    Parameters
    ----------
    solution
        The solution.

    Returns
    -------
    seconds : numpy.ndarray
        Seconds since the start of the run.
    values : numpy.ndarray
        Verified objectives.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> from ddmip_lib import BigM
    >>> incumbent_times(BigM().solve(hand_sized(), time_limit=10))[1][-1]
    np.float64(0.5)
    """
    if len(solution.history):
        seconds = solution.history["seconds"]
        values = solution.history["incumbent"]
    else:
        pairs = np.array(solution.details.get("incumbents", []), dtype=float).reshape(-1, 2)
        seconds, values = pairs.T
    if solution.objective is None:
        return seconds, values
    return np.append(seconds, solution.seconds), np.append(values, solution.objective)


def plot_incumbents(solutions: Mapping[str, Solution], ax: Axes | None = None) -> Axes:
    """Plot verified objectives against seconds, one curve for each solution, marked at its end.

    Parameters
    ----------
    solutions
        Solutions by label.
    ax
        Axes to draw into.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    ax = _axes(ax)
    for label, solution in solutions.items():
        seconds, values = incumbent_times(solution)
        if not np.isfinite(values).any():
            label += " (no solution)"
        end = (len(values) - 1, 1)
        (curve,) = ax.step(seconds, values, where="post", markevery=end, markersize=7, label=label)
        colour = curve.get_color()
        if solution.bound is not None:
            ax.axhline(solution.bound, color=colour, linestyle=":", linewidth=1.2)
            ax.annotate(
                f"bound of {label}",
                (0.99, solution.bound),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="top",
                fontsize=9,
                color=INK,
                xytext=(0, -2),
                textcoords="offset points",
            )
    ax.set(xlabel="seconds", ylabel="verified objective", xlim=(0, None))
    legend_below(ax, 2)
    return ax
