"""Self-checks of the first model and of Part I: models and exact methods."""

from typing import Any

import numpy as np
import pyscipopt
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import BigM, DualDecomposition, NeuralMIP
from ddmip_lib.problems import hand_sized
from ..examples.bounds import crown_layers, interval_layers, largest_output
from ..examples.hand_steps import hand_tiny
from .core import Check, FormError


def _quick_budget() -> tuple[Any, Any, Any]:
    net = mlp(1, 4, 9).double().eval()
    whole, poorer = (water_potability(n=3, net=net, budget=budget) for budget in (2.0, 1.0))
    return whole, poorer, DualDecomposition(max_iterations=2).solve(poorer, 600)


def _greenhouses(ruled: bool) -> Any:
    """Two houses with a harvest that grows with heaters, solved with or without the rule."""
    model = pyscipopt.Model()
    x = model.addMatrixVar((2, 2), vtype="I", ub=3)
    y = model.addMatrixVar((2, 1), lb=None)
    model.setObjective(y.sum(), "maximize")
    if ruled:
        model.addMatrixCons(x[:, 1] <= 1)
    net = nn.Sequential(nn.Linear(2, 1)).double().requires_grad_(False).eval()
    net[0].weight.copy_(torch.tensor([[1.0, 2.0]]))  # type: ignore[operator]
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, y)
    return BigM().solve(problem, 600)


def _prices(vtype: str = "I", constrained: bool = True) -> tuple[Any, Any]:
    """A price problem of two products with a linear network, and its solution."""
    model = pyscipopt.Model()
    x = model.addMatrixVar((1, 2), vtype=vtype, ub=4)
    y = model.addMatrixVar((1, 1), lb=None)
    if constrained:
        model.addCons(x[0, 0] + x[0, 1] <= 5)
    model.setObjective(y[0, 0], "maximize")
    net = nn.Sequential(nn.Linear(2, 1)).double().requires_grad_(False).eval()
    net[0].weight.copy_(torch.tensor([[1.0, 2.0]]))  # type: ignore[operator]
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, y)
    return problem, BigM().solve(problem, 600)


def _heaters(run: Any) -> int:
    return int(np.rint(run.inputs[0][:, 1]).max())


def _penalty_rows(answer: Any) -> np.ndarray:
    rows = np.asarray(answer, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != 3 or len(rows) < 3:
        raise FormError("at least three triples of numbers are wanted")
    return rows[rows[:, 0].argsort()]


def _fixed_runs() -> list[list[float]]:
    """Rows (rho, average residual, objective) of three fixed penalties on the hand-sized
    example.
    """
    runs = {
        rho: DualDecomposition(penalty=rho, max_iterations=20).solve(hand_sized())
        for rho in (0.5, 1.0, 10.0)
    }
    return [
        [rho, run.history["primal_residual"].mean(), run.objective or 0.0]
        for rho, run in runs.items()
    ]


def _ladder() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Bounds of the second layer of a small network in four ways."""
    layers: Any = list(mlp(2, 2, 3, seed=1).double().eval())[:3]
    box = np.zeros((1, 3)), np.ones((1, 3))
    by_interval = interval_layers(layers, *box)
    start = crown_layers(layers, *box)
    found = {"interval": by_interval[1], "CROWN": start[1]}
    for name, relaxed in (("LP", True), ("exact", False)):
        ends = [
            s
            * np.array(
                [[largest_output(layers, box, start, j, s, relaxed).value for j in range(2)]]
            )
            for s in (-1.0, 1.0)
        ]
        found[name] = (ends[0], ends[1])
    return found


def _nested(found: Any, outer: str, inner: str) -> bool:
    (low, high), (tight_low, tight_high) = (map(np.asarray, found[name]) for name in (outer, inner))
    return bool((tight_low >= low - 1e-4).all() and (tight_high <= high + 1e-4).all())


CHECKS = {
    "quickstart": [
        Check(
            "ex-quick-budget",
            "Half the budget",
            "the triple `(problem, poorer, half)`: the problem, the one with half its budget, and a"
            " solution of that",
            _quick_budget,
            lambda s: [
                (
                    (s[0], s[0], s[2]),
                    (
                        "The second problem has the budget of the first: pass `budget` a smaller"
                        " number."
                    ),
                    lambda a: np.allclose(a[0].blocks.capacities, a[1].blocks.capacities),
                ),
                (
                    (s[0], water_potability(n=3, net=mlp(1, 4, 9), budget=0.5), s[2]),
                    "The budget has changed, but it is not one half of the first.",
                    lambda a: not np.allclose(a[0].blocks.capacities, 2 * a[1].blocks.capacities),
                ),
                (
                    (s[0], s[1], DualDecomposition(max_iterations=2).solve(s[1], 0)),
                    (
                        "The last one contains no feasible point of the second problem: solve that"
                        " problem, with sufficient time."
                    ),
                    lambda a: not a[2].found or not a[1].verify(a[2]),
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-quick-penalty",
            "Constant penalty parameter",
            "a list of three or more triples `(rho, average residual, objective)`, in increasing"
            " order of $\\rho$",
            _fixed_runs,
            lambda s: [
                (
                    [[1.0, *row[1:]] for row in s],
                    "Use different penalties: the largest at least ten times the smallest.",
                    lambda a: _penalty_rows(a)[-1, 0] < 10 * _penalty_rows(a)[0, 0],
                ),
                (
                    [[row[0], -1.0, row[2]] for row in s],
                    "A residual is a norm and cannot be negative.",
                    lambda a: _penalty_rows(a)[:, 1].min() < 0,
                ),
                (
                    [[row[0], row[0] * 0.1, row[2]] for row in s],
                    (
                        "The residual should fall as the penalty grows: is it the primal one,"
                        " averaged over all iterations?"
                    ),
                    lambda a: _penalty_rows(a)[-1, 1] >= _penalty_rows(a)[0, 1],
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-quick-row",
            "An additional constraint",
            "the pair `(whole, ruled)`, the solutions without and with the constraint",
            lambda: (_greenhouses(False), _greenhouses(True)),
            lambda s: [
                (
                    (s[1], s[0]),
                    "A constraint cannot improve the objective: the two may be swapped.",
                    lambda a: a[0].objective < a[1].objective - 1e-6,
                ),
                (
                    (s[0], s[0]),
                    "A house still has more than one heater: add the constraints and solve again.",
                    lambda a: _heaters(a[1]) > 1,
                ),
                (
                    (s[1], s[1]),
                    (
                        "The first solution already satisfies the constraint: it should be the"
                        " solution without it."
                    ),
                    lambda a: _heaters(a[0]) <= 1,
                ),
            ],
            judge=None,
        ),
    ],
    "neural_mips": [
        Check(
            "ex-neurons",
            "Evaluation of the network",
            "the three brackets and $F$ at $(1, 0)$, a list of four numbers",
            lambda: [-2.5, 3.5, 0.5, hand_tiny().total([1, 0])],
            lambda s: [
                (
                    [0, *s[1:]],
                    "These are the outputs after the ReLU; the brackets are the pre-activations.",
                ),
                (
                    [*s[:3], s[3] - 1.5],
                    "The last number is the network alone: what does the first machine cost?",
                ),
                ([*s[:3], -4], "The ReLU of a negative bracket is zero before it is weighted."),
            ],
            "Put $x_1 = 1$, $x_2 = 0$ into each bracket, then weight those that are positive.",
        ),
        Check(
            "ex-price",
            "Price range of a machine",
            "the pair (largest $t$ at which $(1, 1)$ is optimal, $t$ below which the search leaves"
            " its starting point)",
            lambda: (2.5, -0.5),
            lambda s: [
                (
                    (3, s[1]),
                    "Compare $(1, 1)$ with the best alternative, not with one machine alone.",
                ),
                ((s[0], 0.5), "Check the sign: one machine alone must cost less than none."),
                (
                    (s[0], 1.5),
                    (
                        "One machine alone also changes the output of the network: compute"
                        " $F(1, 0)$ again."
                    ),
                ),
            ],
            "Write down all four costs as functions of $t$.",
        ),
        Check(
            "ex-enumerate",
            "Limits of enumeration",
            "the largest m, an integer",
            lambda: max(m for m in range(60) if 144 * 2**m * 1e-6 < 3600),
            lambda s: [
                (s + 1, "At this m the tabulation takes more than an hour: round down."),
                (31, "That is for a single pair: multiply by the number of pairs."),
                (14, "A microsecond is a millionth of a second."),
            ],
            "Solve $144 \\cdot 2^m \\cdot 10^{-6} < 3600$.",
        ),
        Check(
            "ex-own",
            "A price problem in general form",
            "the pair `(problem, solution)`: a `NeuralMIP` with an integer variable and a"
            " constraint, and a verified solution",
            _prices,
            lambda s: [
                (
                    _prices(vtype="C"),
                    "The model has no integer variable: declare one with vtype `I` or `B`.",
                    lambda a: a[0].model.getNBinVars() + a[0].model.getNIntVars() == 0,
                ),
                (
                    _prices(constrained=False),
                    "The model has no constraint besides bounds: add one with `addCons`.",
                    lambda a: a[0].model.getNConss() == 0,
                ),
                (
                    (s[0], BigM().solve(s[0], 0)),
                    "The solution has no verified point of this problem: allow more time.",
                    lambda a: not a[1].found or not a[0].verify(a[1]),
                ),
            ],
            judge=None,
        ),
    ],
    "exact_embeddings": [
        Check(
            "ex-emb-unit",
            "One unit on paper",
            "four numbers: the area, the largest $z$ at $a = 0$, and the factors by which the two"
            " grow",
            lambda: (6, 1.5, 100, 10),
            lambda s: [
                ((12, *s[1:]), "The area of a triangle has a factor one half."),
                (
                    (6, 6, *s[2:]),
                    "That is the end of the chord, at $a = 6$; read the chord at $a = 0$.",
                ),
                ((*s[:2], 10, 10), "An area grows in both directions."),
            ],
            "The triangle has its corners at $(-2, 0)$, $(0, 0)$ and $(6, 6)$.",
        ),
        Check(
            "ex-emb-sos",
            "SOS1 has the same triangle",
            "the largest $z$ at $a = 0$ for $M^- = -3$, $M^+ = 4$: the pair (by the bounds alone,"
            " with the inequality)",
            lambda: (3, 12 / 7),
            lambda s: [
                ((4, s[1]), "At $a = 0$ both variables are equal, so both bounds count."),
                (
                    s[::-1],
                    (
                        "The inequality can only make the largest $z$ smaller: have you swapped the"
                        " two?"
                    ),
                ),
                (
                    (3, 3),
                    "With the inequality, both terms are positive at $a = 0$ and share the 1.",
                ),
            ],
            "At $a = 0$ we have $\\bar z = z$.",
        ),
    ],
    "bound_propagation": [
        Check(
            "ex-bound-widths",
            "Interval widths by hand",
            "the pair (width by intervals, width by CROWN) for $r = 3$",
            lambda: (12, 0),
            lambda s: [
                (
                    (6, s[1]),
                    "That is the half-width: subtract the lower end from the upper end.",
                ),
                (
                    (s[0], 12),
                    "Both units are stable: replace them by $x + c$ and $x + d$ and subtract.",
                ),
                (
                    (4, s[1]),
                    "That is the width for $r = 1$.",
                ),
            ],
            "Write the range of each unit as a function of $r$.",
        ),
        Check(
            "ex-emb-slope",
            "Optimal lower bound of a unit",
            "the pair (best coefficient $\\alpha$ of the third unit, upper bound with it)",
            lambda: (0.25, 25 / 8),
            lambda s: [
                (
                    (1, 4.25),
                    (
                        "That is the default: at which corner of the square is its bound"
                        " attained, and how does the bound at that corner change with $\\alpha$?"
                    ),
                ),
                (
                    (0, 3.5),
                    (
                        "At this $\\alpha$ the bound decreases as $\\alpha$ grows: continue until"
                        " the maximum moves to another corner."
                    ),
                ),
                (
                    (0.5, 3.5),
                    (
                        "Too large: the maximum is at another corner, and there the bound grows"
                        " with $\\alpha$."
                    ),
                ),
            ],
            "The bound is the maximum of two affine functions of $\\alpha$, one for each corner.",
        ),
        Check(
            "ex-emb-project",
            "Tightening by optimisation",
            "a dict with the keys `interval`, `CROWN`, `LP`, `exact`, each the pair (lower, upper)"
            " of arrays for layer two",
            _ladder,
            lambda s: [
                (
                    {**s, "LP": s["LP"][::-1]},
                    (
                        "A lower bound lies above its upper one: for the lower end maximise with "
                        "sign $-1$ and turn the sign of the result."
                    ),
                    lambda a: any(
                        (np.asarray(low) > np.asarray(high) + 1e-4).any()
                        for low, high in map(a.get, s)
                    ),
                ),
                (
                    {**s, "CROWN": s["interval"], "interval": s["CROWN"]},
                    (
                        "Intervals drop the dependence between the inputs: no other bound should"
                        " be wider than theirs."
                    ),
                    lambda a: not _nested(a, "interval", "CROWN"),
                ),
                (
                    {**s, "LP": s["exact"], "exact": s["LP"]},
                    (
                        "The exact range lies inside every sound bound: have you swapped it with"
                        " the relaxation?"
                    ),
                    lambda a: not _nested(a, "LP", "exact"),
                ),
            ],
            judge=None,
        ),
    ],
    "exact_scaling": [
        Check(
            "ex-scale-class",
            "Relaxed classes",
            "the pair of the largest $y$ for $o^- = -4$ and for $o^- = -40$",
            lambda: (3 / 4.001, 39 / 40.001),
            lambda s: [
                (
                    (0, 0),
                    "That holds for integer $y$: the relaxation admits every $y$ in $[0, 1]$.",
                ),
                (
                    (1 / 4.001, 1 / 40.001),
                    "Measure the logit from its lower bound, not from zero.",
                ),
                (
                    s[::-1],
                    "A wider bound relaxes the constraint: the second value is the larger one.",
                ),
            ],
            "Solve the first class constraint for $y$.",
        ),
        Check(
            "ex-scale-root",
            "Trivial root bound of the workshop",
            "the pair of the largest relaxed logit with interval bounds and with $M = 10$",
            lambda: (-1.5, 12.75),
            lambda s: [
                (
                    (1.5, 12.75),
                    "The first one is the network output $f$: the logit is $-f$.",
                ),
                (
                    (-1.5, 14.25),
                    "The second unit has the output three halves and the weight one in $f$.",
                ),
                (
                    (-1.5, -1.5),
                    "The chord of the third unit depends on the bounds: compute it for $M = 10$.",
                ),
            ],
            "Only the output of the third unit differs between the two cases.",
        ),
    ],
}
