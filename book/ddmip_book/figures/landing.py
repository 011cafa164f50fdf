"""The figure of the landing page: who finds what on one instance, when, and what is proved about
it.
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from ddmip_lib.plots import GREEN, legend_below
from ..experiments.rows import Row
from .certificates import whole_bound
from .kit import beside, hold, method_look

LABELS = {
    "bigm": "exact model",
    "dd-paper": "Algorithm 1, paper's settings",
    "dd": "Algorithm 1, our defaults",
    "prices": "price coordination",
}


def plot_result(runs: Mapping[str, Row], certificate: Row, first: float = 0.3) -> Axes:
    """Best verified objective by seconds of each method, and the bound of the stored
    certificate.
    """
    ax = plt.subplots(figsize=(7.4, 4.0))[1]
    end = max(row.seconds or 0.0 for row in [*runs.values(), certificate])
    for method, row in runs.items():
        seconds, values = hold(row.incumbents, row.seconds or 0.0)
        look = method_look(method, markersize=5, label=LABELS[method])
        ax.step(seconds.clip(first), values, where="post", markevery=[-1], **look)
        beside(ax, f"{values[-1]:g}", (max(seconds[-1], first), values[-1]), (7, -3), fontsize=10)
    history = certificate.details["certificate"]["history"]
    offset = (certificate.seconds or 0.0) - certificate.details["certificate"]["seconds"]
    seconds, bounds = hold([[offset + at, bound] for at, bound in history], end)
    ax.step(
        seconds, bounds, where="post", color=GREEN, linestyle="-", marker="", label="proven bound"
    )
    whole = whole_bound(certificate)
    beside(ax, f"at most {whole:g}", (end, whole), (5, -3), fontsize=10)
    ax.axhline(certificate.size, color="#999999", linestyle=":", linewidth=1.2, marker="")
    beside(
        ax,
        f"{certificate.size}: all that the exact model proves",
        (1.2 * first, certificate.size),
        (0, -13),
        fontsize=9.5,
    )
    ax.set(xscale="log", xlim=(first, 3.2 * end), ylim=(0, 1.04 * certificate.size))
    ax.set(xlabel="seconds since the call", ylabel="samples called potable")
    legend_below(ax, 3, 0.16)
    return ax
