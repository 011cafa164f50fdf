"""The numbers behind the figures that a reader can move, and the still pictures that stand in for
them.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from pyscipopt import Model

from ddmip_lib.plots import BLUE, GREEN, INK, PALE_BLUE, RED, use_style
from ddmip_lib.problems import hand_sized
from ddmip_lib.problems.hand_sized import HIDDEN_BIASES, HIDDEN_WEIGHTS, INPUT_COSTS, OUTPUT_WEIGHTS
from ..examples.hand_phase import Ending, border, ending
from ..examples.hand_steps import hand_tiny
from .convergence import plot_balance, plot_phases
from .neural_mips import landscape

TARGET = 2.0
WANTED = 0.5
PENALTIES = (0.7, 1.5, 3.0, 5.0, 6.0, 7.0, 8.0, 10.0)
PHASES = tuple(k / 4 for k in range(1, 49) if k != 8)
"""Penalties of the phase diagram; at 2, where the period changes, rounding would decide."""
LOOSENESS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0)


def stepping(rho: float, iterations: int = 16) -> dict[str, Any]:
    """Algorithm 1 on the running example, both blocks exact: $x$, $u$, $\\lambda$ and $F(x)$ of
    every iteration.

    >>> run = stepping(10.0)
    >>> run["status"], run["total"]
    ('converged', [1.5, 1.5])
    """
    path = hand_tiny().run(rho, iterations)
    still = np.flatnonzero(
        (path.residual < 1e-12) & (np.abs(np.diff(path.lam, axis=0, prepend=np.nan)).max(1) < 1e-12)
    )
    end = int(still[0]) + 1 if still.size else iterations
    x, u, lam, total = (
        np.round(rows[:end], 4).tolist() for rows in (path.x, path.u, path.lam, path.total)
    )
    status = "converged" if still.size else "cycle"
    return {"rho": rho, "x": x, "u": u, "lam": lam, "total": total, "status": status}


def hand_sized_bounds() -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of each neuron's bracket over the unit square.

    >>> [side.tolist() for side in hand_sized_bounds()]
    [[-2.5, -0.5, -0.5], [0.5, 3.5, 1.5]]
    """
    weights = np.array(HIDDEN_WEIGHTS)
    bias = np.array(HIDDEN_BIASES)
    return bias + np.minimum(weights, 0).sum(1), bias + np.maximum(weights, 0).sum(1)


def root_bound(looseness: float) -> float:
    r"""Bound of the LP relaxation of the Big-M model of the running example, every $M$ multiplied
    by ``looseness``.

    >>> root_bound(2.0) < root_bound(1.0) < 0.5
    True
    """
    low, high = (looseness * side for side in hand_sized_bounds())
    model = Model()
    model.hideOutput()
    x = [model.addVar(ub=1.0) for _ in range(2)]
    cost = INPUT_COSTS[0] * x[0] + INPUT_COSTS[1] * x[1]
    for j, (row, bias, out) in enumerate(
        zip(HIDDEN_WEIGHTS, HIDDEN_BIASES, OUTPUT_WEIGHTS, strict=True)
    ):
        bracket = row[0] * x[0] + row[1] * x[1] + bias
        z = model.addVar()
        on = model.addVar(ub=1.0)
        model.addCons(z >= bracket)
        model.addCons(z <= bracket - low[j] * (1 - on))
        model.addCons(z <= high[j] * on)
        cost += out * z
    model.setObjective(cost)
    model.optimize()
    return float(model.getObjVal())


def endings() -> tuple[list[Ending], list[float]]:
    r"""What runs of the running example repeat for ever, for many $\rho$, and the two $\rho$
    between the phases.

    >>> found, borders = endings()
    >>> [round(3 * rho) for rho in borders], found[0].kind
    ([17, 22], 'cycle')
    """
    return [ending(rho) for rho in PHASES], [border(5.5, 6.0), border(7.0, 7.5)]


def moving_data() -> dict[str, Any]:
    """Everything that the moving figures read, by figure."""
    side = np.linspace(0, 1, 21)
    grid = np.array([[a, b] for b in side for a in side])
    corners = [[a, b] for a in (0, 1) for b in (0, 1)]
    problem = hand_sized()
    found, borders = endings()
    return {
        "penalty-multiplier": {"target": TARGET, "wanted": WANTED},
        "algorithm-steps": {
            "side": len(side),
            "heights": np.round(landscape(problem, grid), 3).tolist(),
            "corners": [[*c, float(landscape(problem, np.array([c]))[0])] for c in corners],
            "runs": [stepping(rho) for rho in PENALTIES],
        },
        "relu-envelope": {
            "low": -1.0,
            "high": 2.0,
            "optimum": 0.5,
            "bounds": [[t, round(root_bound(t), 4)] for t in LOOSENESS],
        },
        "penalty-balance": {"highest": 4.0},
        "hand-phases": {
            "borders": [round(rho, 6) for rho in borders],
            "optimum": hand_tiny().optimum(),
            "runs": [
                {"rho": end.rho, "kind": end.kind, "x": end.x, "costs": end.costs} for end in found
            ],
        },
    }


def still_penalty() -> Axes:
    """The penalty figure as a picture: two augmented Lagrangians of the one-dimensional problem."""
    use_style()
    ax = plt.subplots()[1]
    x = np.linspace(-1, 4, 301)
    for rho, lam, dash in ((1.0, 0.0, "--"), (1.0, 1.5, "-")):
        y = (x - TARGET) ** 2 / 2 + lam * (x - WANTED) + rho / 2 * (x - WANTED) ** 2
        ax.plot(x, y, dash, color=BLUE, label=rf"$\rho$ = {rho:g}, $\lambda$ = {lam:g}")
        ax.plot(x[y.argmin()], y.min(), "o", color=BLUE)
    ax.plot(x, (x - TARGET) ** 2 / 2, ":", color=INK, label="objective")
    ax.axvline(WANTED, color=RED, linestyle="-.", label="x = 0.5")
    ax.set(xlabel="x", ylim=(0, 6))
    ax.legend()
    return ax


def still_steps(rho: float = 3.0) -> Axes:
    """The stepping figure as a picture: all iterates of one run on the unit square."""
    use_style()
    ax = plt.subplots(figsize=(4.4, 4.0))[1]
    run = stepping(rho)
    u = np.array(run["u"])
    x = np.array(run["x"])
    ax.plot(u[:, 0], u[:, 1], "o--", color=BLUE, label="u")
    ax.plot(x[:, 0], x[:, 1], "s", color=RED, markersize=9, linestyle="", label="x")
    ax.set(xlabel="first machine", ylabel="second machine", xlim=(-0.1, 1.1), ylim=(-0.1, 1.1))
    ax.legend(loc="lower right")
    return ax


def still_envelope(looseness: float = 2.0) -> Axes:
    """The envelope figure as a picture: the relaxation of one ReLU for tight and for loose
    bounds.
    """
    use_style()
    ax = plt.subplots()[1]
    low = -1.0
    high = 2.0
    a = np.linspace(low, high, 61)
    relu = np.maximum(a, 0)
    for t, colour, dash in ((1.0, GREEN, "-"), (looseness, BLUE, "--")):
        top = t * high * (a - t * low) / (t * high - t * low)
        ax.plot(a, top, dash, color=colour, marker="", label=f"upper edge, bounds x {t:g}")
        if t > 1:
            ax.fill_between(a, relu, top, color=PALE_BLUE)
    ax.plot(a, relu, color=INK, marker="", label="ReLU")
    ax.set(xlabel="a", ylabel="z")
    ax.legend()
    return ax


def still_balance() -> Axes:
    """The balance figure as a picture: convex and nonconvex side by side."""
    use_style()
    return plot_balance()[0]


def still_phases() -> Axes:
    """The phase diagram as a picture."""
    use_style()
    return plot_phases(*endings())
