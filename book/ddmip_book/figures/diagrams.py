"""Drawings of boxes and arrows: how a decision is made, one iteration of Algorithm 1, and which
method fits.
"""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from ddmip_lib.plots import BLUE, INK, PALE, PALE_BLUE, PALE_RED, RED


def _canvas(width: float, height: float, enlarged: float = 1.0) -> Axes:
    """Axes without frame whose unit is a tenth of an inch, so that boxes keep their shape; text
    `enlarged` relative to the boxes can be read on slides.
    """
    _, ax = plt.subplots(figsize=(width / enlarged, height / enlarged))
    ax.set(xlim=(0, 10 * width), ylim=(0, 10 * height), aspect="equal")
    ax.set_axis_off()
    return ax


def _box(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    title: str,
    text: str = "",
    edge: str = INK,
    fill: str = PALE,
) -> None:
    """A rounded box with its lower left corner at (x, y)."""
    ax.add_patch(
        FancyBboxPatch(
            (x + 0.6, y + 0.6),
            width - 1.2,
            height - 1.2,
            boxstyle="round,pad=0.6",
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.6,
        )
    )
    middle = x + width / 2
    top = y + height / 2 if not text else y + height - 2.6
    ax.text(
        middle, top, title, ha="center", va="center", fontsize=10.5, fontweight="bold", color=INK
    )
    ax.text(
        middle,
        y + (height - 2.6) / 2,
        text,
        ha="center",
        va="center",
        fontsize=10,
        linespacing=1.35,
    )


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    label: str = "",
    at: tuple[float, float] | None = None,
    dashed: bool = False,
    bend: float = 0.0,
) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=14,
            linewidth=1.6,
            color=INK,
            linestyle="--" if dashed else "-",
            shrinkA=1,
            shrinkB=1,
            connectionstyle=f"arc3,rad={bend}",
        )
    )
    if label:
        x, y = at or ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 1)
        ax.text(x, y, label, ha="center", va="center", fontsize=9.5, color=INK)


def draw_workflow() -> Axes:
    """From data and rules to a verified decision: training, model, solver, verification."""
    ax = _canvas(5.8, 4.6, enlarged=1.3)
    _box(ax, 1, 34.5, 24, 10.5, "Data", "observed inputs\nand outcomes", BLUE, PALE_BLUE)
    _box(
        ax, 33, 34.5, 24, 10.5, "Rules", "costs, budgets, limits,\nbinary decisions", RED, PALE_RED
    )
    _box(ax, 1, 18.5, 24, 10.5, "Network", "$y = f(x)$, trained,\nthen frozen", BLUE, PALE_BLUE)
    _box(
        ax,
        33,
        18.5,
        24,
        10.5,
        "Neural MIP",
        "constraints, integers,\nand $y = f(x)$",
        RED,
        PALE_RED,
    )
    _box(ax, 33, 2.5, 24, 10.5, "Solver", "exact model,\nor decomposition")
    _box(ax, 1, 2.5, 24, 10.5, "Verified decision", "$f$ evaluated again,\nconstraints checked")
    _arrow(ax, (13, 34.5), (13, 29), "train", (17, 31.8))
    _arrow(ax, (45, 34.5), (45, 29), "model", (49.3, 31.8))
    _arrow(ax, (25, 23.8), (33, 23.8), "embed", (29, 25.3))
    _arrow(ax, (45, 18.5), (45, 13), "solve", (48.9, 15.8))
    _arrow(ax, (33, 7.8), (25, 7.8), "$x$", (29, 9.3))
    _arrow(ax, (13, 18.5), (13, 13), "check", (17.2, 15.8), dashed=True)
    return ax


def draw_first_model() -> Axes:
    """The steps of the first model: a PySCIPOpt model and a network, a neural MIP, `solve`, and the
    solution.
    """
    ax = _canvas(5.8, 2.9)
    model = "variables, constraints,\nobjective in PySCIPOpt"
    _box(ax, 1, 17, 24, 10.5, "Model", model, RED, PALE_RED)
    _box(ax, 1, 1.5, 24, 10.5, "Network", "a trained module\nof PyTorch", BLUE, PALE_BLUE)
    _box(ax, 33, 17, 24, 10.5, "Neural MIP", "the model and\n$y = f(x)$", RED, PALE_RED)
    _box(ax, 33, 1.5, 24, 10.5, "Solution", "status, objective,\nbound, verification")
    _arrow(ax, (25, 22.3), (33, 22.3))
    _arrow(ax, (25, 8.5), (33, 19.0), "add", (27.0, 14.8))
    _arrow(ax, (45, 17), (45, 12), "solve", (48.9, 14.5))
    return ax


def draw_question() -> Axes:
    """Water Potability: samples, a treatment within common budgets, the network and the
    objective.
    """
    ax = _canvas(5.8, 2.9)
    _box(ax, 1, 17, 24, 10.5, "Samples", "nine features each,\nall labelled unsafe", INK, PALE)
    _box(
        ax,
        33,
        17,
        24,
        10.5,
        "Treatment",
        "raise and lower; one\nbudget for all samples",
        RED,
        PALE_RED,
    )
    _box(ax, 33, 1.5, 24, 10.5, "Network", "$f(x_i) > 0$:\nsample $i$ is potable", BLUE, PALE_BLUE)
    _box(ax, 1, 1.5, 24, 10.5, "Objective", "number of potable\nsamples, verified")
    _arrow(ax, (25, 22.3), (33, 22.3), "$w_i$", (29, 23.8))
    _arrow(ax, (45, 17), (45, 12), "$x_i$", (47.5, 14.5))
    _arrow(ax, (33, 6.8), (25, 6.8), "$y_i$", (29, 8.3))
    return ax


def draw_split() -> Axes:
    """One iteration of Algorithm 1: MIP block, NN block, multiplier, and the check of every
    iterate.
    """
    ax = _canvas(5.8, 4.4, enlarged=1.3)
    mip = "constraints, integers\nminimises over $x$\nMIP or QP solver"
    nn = "the network itself\nminimises over $u$\ngradient steps"
    _box(ax, 1, 26, 22, 16.5, "1  MIP block", mip, RED, PALE_RED)
    _box(ax, 35, 26, 22, 16.5, "2  NN block", nn, BLUE, PALE_BLUE)
    _box(ax, 18, 11.5, 22, 9, "3  Multiplier", r"$\lambda \leftarrow \lambda + \rho\,(u - x)$")
    end = "every $x$ is verified by the network;\nthe best one is returned"
    _box(ax, 1, 0.5, 56, 8.5, end)
    _arrow(ax, (23, 38), (35, 38), "$x$", (29, 39.6))
    _arrow(ax, (35, 31), (23, 31), "$u$", (29, 32.6))
    _arrow(ax, (46, 26), (40, 17), "$u - x$", (47.5, 20.8), bend=-0.25)
    _arrow(ax, (18, 17), (12, 26), r"$\lambda,\ \rho$", (10.8, 20.8), bend=-0.25)
    _arrow(ax, (33, 20.5), (40, 26), r"$\lambda,\ \rho$", (33.6, 24.3), bend=0.15)
    _arrow(ax, (5.5, 26), (5.5, 9), dashed=True)
    return ax


def draw_choice() -> Axes:
    """Five questions about a problem, in the order in which `solve` asks them, and what follows
    from each.
    """
    ax = _canvas(6.6, 6.2)
    steps = [
        (
            "Few combinations?",
            "all inputs integer, and few\nassignments are feasible",
            "Enumeration",
            "evaluates all of them;\na proof",
        ),
        (
            "Blocks?",
            "samples are coupled by\na few constraints only",
            "PriceCoordination, certify",
            "prices of the constraints;\na bound for each block",
        ),
        (
            "Only ReLUs?",
            "or layers that become ReLUs,\nsuch as leaky ones",
            "SequentialMIP, exact model",
            "linearisation and local exact\nmodels; a proof if they finish",
        ),
        (
            "Other layers?",
            "tanh, sigmoid, GELU,\nattention, recurrent, ...",
            "SequentialMIP, DualDecomposition",
            "steps by derivatives;\na bound for tanh and sigmoid",
        ),
        (
            "No derivatives?",
            "trees, tables, a simulator:\nvalues only",
            "the same, on black_box",
            "difference quotients;\na heuristic, no bound",
        ),
    ]
    for number, (question, meaning, method, worth) in enumerate(steps):
        y = 50 - 12.2 * number
        _box(ax, 0.5, y, 25, 10.5, question, meaning, RED, PALE_RED)
        _box(ax, 31.5, y, 34, 10.5, method, worth, BLUE, PALE_BLUE)
        _arrow(ax, (25.5, y + 5.2), (31.5, y + 5.2), "yes", (28.4, y + 6.6))
        if number < len(steps) - 1:
            _arrow(ax, (13, y), (13, y - 1.9))
    return ax


def draw_column_generation() -> Axes:
    """One round of price coordination: master problem, pricing problems, pool, selection."""
    ax = _canvas(5.8, 4.4)
    master = "linear program over the pool\nmultipliers $\\pi$ and $\\mu_i$"
    pricing = "one network per block\nmax $v_o - \\pi^T a_o$"
    _box(ax, 1, 30, 23, 12, "1  Master problem", master, RED, PALE_RED)
    _box(ax, 34, 30, 23, 12, "2  Pricing problems", pricing, BLUE, PALE_BLUE)
    _box(ax, 17.5, 15, 23, 9, "Pool of columns", "$u_o$, $v_o$, $a_o$")
    _box(ax, 1, 1, 56, 8, "3  Selection", "MIP over the pool; the network verifies the solution")
    _arrow(ax, (24, 36), (34, 36), "$\\pi$", (29, 37.6))
    _arrow(ax, (45, 30), (40, 20.5), "new columns", (49.5, 24.5), bend=-0.25)
    _arrow(ax, (17.5, 20.5), (12, 30), "all columns", (8.5, 24.5), bend=-0.25)
    _arrow(ax, (29, 15), (29, 9), dashed=True)
    return ax
