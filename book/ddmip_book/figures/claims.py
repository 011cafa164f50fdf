"""Figures of the claims ledger: how many claims have which verdict, and where in the paper they
stand.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.typing import FillStyleType

from ddmip_lib.plots import GREEN, INK, ORANGE, PALE, PALE_BLUE, RED
from .kit import GREY, legend_outside

LOOKS: dict[str, tuple[str, str, str, FillStyleType]] = {
    "holds": (GREEN, "", "o", "full"),
    "holds with changes": (PALE_BLUE, "//", "o", "left"),
    "not reproduced": (ORANGE, "..", "o", "none"),
    "not shown": ("white", "", "D", "none"),
    "fails": (RED, "xx", "X", "full"),
    "untestable here": (GREY, "--", "_", "full"),
    "open": (PALE, "", ".", "full"),
}
"""For each verdict: colour, hatching, marker and how the marker is filled."""


def plot_verdicts(counts: Mapping[str, Mapping[str, int]]) -> Axes:
    """Stacked bars, one for each group: how many claims have which verdict.

    >>> ax = plot_verdicts({"theory": {"holds": 2, "fails": 3}})
    >>> int(sum(bar.get_width() for bar in ax.patches))
    5
    """
    ax = plt.subplots(figsize=(6.2, 2.6))[1]
    groups = list(counts)
    left = [0] * len(groups)
    for verdict, (colour, hatch, _, _) in LOOKS.items():
        widths = [counts[group].get(verdict, 0) for group in groups]
        if any(widths):
            bars = ax.barh(
                groups, widths, left=left, color=colour, edgecolor=INK, hatch=hatch, label=verdict
            )
            inside = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            for text in ax.bar_label(
                bars, [str(w) if w > 1 else "" for w in widths], label_type="center"
            ):
                text.set_bbox(inside if text.get_text() else None)
            left = [a + b for a, b in zip(left, widths, strict=True)]
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set(xlabel="claims", xlim=(0, max(left) + 1))
    legend_outside(ax.figure, 3)
    return ax


def plot_parts(verdicts: Mapping[str, Sequence[str]]) -> Axes:
    """One mark for each claim, in rows by part of the paper; its shape and filling tell the
    verdict.

    >>> ax = plot_parts({"Theory": ["holds", "fails"], "E1": ["open"]})
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['Theory', 'E1']
    """
    ax = plt.subplots(figsize=(6.2, 4.8))[1]
    rows = list(verdicts)
    for verdict, (colour, _, marker, fill) in LOOKS.items():
        places = [
            (i, row)
            for row, part in enumerate(rows)
            for i, v in enumerate(verdicts[part])
            if v == verdict
        ]
        if places:
            x, y = zip(*places, strict=True)
            line = Line2D(
                x, y, linestyle="", marker=marker, fillstyle=fill, markersize=9, label=verdict
            )
            line.set(
                color=GREEN if fill == "left" else colour, markeredgecolor=INK, markeredgewidth=1.2
            )
            ax.add_line(line)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xticks([])
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlim=(-0.7, max(map(len, verdicts.values())) - 0.3))
    ax.grid(visible=False)
    legend_outside(ax.figure, 3)
    return ax
