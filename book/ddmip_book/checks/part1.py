"""Self-checks of the quickstart and of Part I: foundations."""

from itertools import product
from typing import Any

import numpy as np
import pyscipopt
import torch
from torch import nn

from ddmip_lib import BigM, DualDecomposition, NeuralMIP
from ddmip_lib.predictors import mlp
from ddmip_lib.problems import hand_sized, water_potability
from ddmip_lib.problems.hand_sized import HIDDEN_BIASES, HIDDEN_WEIGHTS, OUTPUT_WEIGHTS
from ..examples.bounds import crown_layers, interval_layers, largest_output
from ..examples.hand_steps import hand_tiny
from .core import Check, FormError, calls


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


def _heaters(run: Any) -> int:
    return int(np.rint(run.inputs[0][:, 1]).max())


def _penalty_rows(answer: Any) -> np.ndarray:
    rows = np.asarray(answer, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != 3 or len(rows) < 3:
        raise FormError("at least three rows of three numbers are wanted")
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


def _visits(rhos: tuple[float, ...] = (1.0, 5.0)) -> dict[float, tuple[float | None, bool]]:
    runs = {
        rho: DualDecomposition(penalty=rho, max_iterations=30).solve(hand_sized()) for rho in rhos
    }
    return {rho: (run.objective, run.status == "converged") for rho, run in runs.items()}


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


def _held(square: bool, blocks: str = "both") -> list[int]:
    """How many decisions of the hand-sized example rest at price zero, for rho = 2, 8 and 16."""
    tiny = hand_tiny()
    side = np.linspace(0, 1, 41)
    grid = np.array(list(product(side, side)))
    network = np.maximum(grid @ np.array(HIDDEN_WEIGHTS).T + HIDDEN_BIASES, 0.0) @ OUTPUT_WEIGHTS
    cost = tiny.points @ tiny.cost

    def rests(x: np.ndarray, points: np.ndarray, values: np.ndarray, rho: float) -> bool:
        """Whether x minimises the values plus the penalty among these points."""
        away = np.linalg.norm(points - x, axis=1)
        merit = values + (rho / 2 * away**2 if square else rho * away)
        return bool(merit[away == 0][0] <= merit.min())

    def held(x: np.ndarray, rho: float) -> bool:
        u_rests = blocks == "x" or rests(x, grid, network, rho)
        return u_rests and (blocks == "u" or rests(x, tiny.points, cost, rho))

    return [sum(held(x, rho) for x in tiny.points) for rho in (2.0, 8.0, 16.0)]


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
                        "The last one holds no point that the poorer problem accepts: solve that"
                        " problem, and give it time."
                    ),
                    lambda a: not a[2].found or not a[1].verify(a[2]),
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-quick-penalty",
            "One penalty for the whole run",
            "a list of three or more rows `(rho, average residual, objective)`, weak to strong"
            " penalties",
            _fixed_runs,
            lambda s: [
                (
                    [[1.0, *row[1:]] for row in s],
                    "Use penalties that differ: the strongest at least ten times the weakest.",
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
            "A rule of your own",
            "the pair `(whole, ruled)`, the solutions without and with the rule",
            lambda: (_greenhouses(False), _greenhouses(True)),
            lambda s: [
                (
                    (s[1], s[0]),
                    "A rule cannot raise the best harvest: have you swapped the two?",
                    lambda a: a[0].objective < a[1].objective - 1e-6,
                ),
                (
                    (s[0], s[0]),
                    "A house still has more than one heater: add the rows and solve again.",
                    lambda a: _heaters(a[1]) > 1,
                ),
                (
                    (s[1], s[1]),
                    (
                        "The first solution already obeys the rule: it should be the one from"
                        " before you added it."
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
            "By hand",
            "the three brackets and $F$ at $(1, 0)$, a list of four numbers",
            lambda: [-2.5, 3.5, 0.5, hand_tiny().total([1, 0])],
            lambda s: [
                (
                    [0, *s[1:]],
                    "These are the neurons, after the ReLU; the brackets stand before it.",
                ),
                (
                    [*s[:3], s[3] - 1.5],
                    "The last number is the network alone: what does the first machine cost?",
                ),
                ([*s[:3], -4], "A bracket below zero is switched off before it is weighted."),
            ],
            "Put $x_1 = 1$, $x_2 = 0$ into each bracket, then weight those that are positive.",
        ),
        Check(
            "ex-price",
            "What a machine may cost",
            "the pair (largest $t$ at which buying both is optimal, $t$ below which the search buys"
            " something)",
            lambda: (2.5, -0.5),
            lambda s: [
                (
                    (3, s[1]),
                    "Compare buying both with the best alternative, not with one machine alone.",
                ),
                ((s[0], 0.5), "Check the sign: one machine alone must beat buying nothing."),
                (
                    (s[0], 1.5),
                    (
                        "One machine alone also changes what the network charges: read $F(1, 0)$"
                        " again."
                    ),
                ),
            ],
            "Write down all four costs as functions of $t$.",
        ),
        Check(
            "ex-rho",
            "Which penalty?",
            "a dict from the penalties 1.0 and 5.0 to the pair (best objective, whether the run"
            " reports convergence)",
            _visits,
            lambda s: [
                (
                    {rho: (best, True) for rho, (best, _) in s.items()},
                    (
                        "`converged` is one of several statuses: look at `run.status` of the weak"
                        " penalties."
                    ),
                ),
                (
                    {rho: (2.0 if rho < 4 else 1.5, done) for rho, (_, done) in s.items()},
                    (
                        "That is the last objective: what did the run see on its way? Read"
                        " `run.objective`."
                    ),
                ),
                (
                    {rho: (0.5, done) for rho, (_, done) in s.items()},
                    (
                        "Above a threshold of this chapter nothing moves, so the start is all that"
                        " the run sees."
                    ),
                ),
            ],
            "Thirty iterations each: `DualDecomposition(penalty=rho, max_iterations=30)`.",
        ),
        Check(
            "ex-enumerate",
            "When is enumeration enough?",
            "the largest m, a whole number",
            lambda: max(m for m in range(60) if 144 * 2**m * 1e-6 < 3600),
            lambda s: [
                (s + 1, "At this m the table takes over an hour: round the other way."),
                (31, "That is for a single pair: how many tables are there?"),
                (14, "A microsecond is a millionth of a second."),
            ],
            "Solve $144 \\cdot 2^m \\cdot 10^{-6} < 3600$.",
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
        Check(
            "ex-emb-slope",
            "Which slope?",
            "the pair (best slope $\\alpha$ of the third unit, upper bound with it)",
            lambda: (0.25, 25 / 8),
            lambda s: [
                (
                    (1, 4.25),
                    (
                        "That is the usual choice: at which corner of the square is its bound"
                        " attained, and how does the bound at that corner change with the slope?"
                    ),
                ),
                (
                    (0, 3.5),
                    (
                        "At this slope the bound falls as the slope grows: go on until another"
                        " corner takes over."
                    ),
                ),
                (
                    (0.5, 3.5),
                    (
                        "Too far: another corner has taken over, and there the bound grows with the"
                        " slope."
                    ),
                ),
            ],
            "The bound is the larger of two lines in $\\alpha$, one for each of two corners.",
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
                        "Intervals forget how inputs belong together: no other bound should be"
                        " wider than theirs."
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
    "augmented_lagrangian": [
        Check(
            "ex-alm-half",
            "Without the half",
            "for $\\rho = 3$ and price 0: condition number, violation, step length $s$ in"
            " $\\lambda^+ = \\lambda + s\\,r$, and the factor of the price error",
            lambda: (13, 2 / 13, 6, 1 / 13),
            lambda s: [
                ((7, 2 / 7, 3, 1 / 7), "These belong to the penalty with the half."),
                (
                    (*s[:2], 3, s[3]),
                    "Set the gradient to zero and see what stands in front of $A^\\top r$ now.",
                ),
                ((12, *s[1:]), "The objective has a curvature of its own."),
            ],
            "Compare with the penalty $\\tfrac\\rho2\\lVert r\\rVert^2$: which $\\rho$ would give"
            " the same?",
        ),
        Check(
            "ex-alm-step",
            "A shorter step",
            "three numbers: the ends of the interval of good $\\eta$, and the best $\\eta$",
            lambda: (0, 0.5, 0.25),
            lambda s: [
                ((0, 0.25, 0.25), "The error may change its sign, as long as it shrinks."),
                (
                    (0, 0.5, 0.5),
                    "At this step the error keeps its size: for which step is the factor zero?",
                ),
                ((0, 0.75, 0.75), "That is the natural step, for which the prices diverge."),
            ],
            "Derive the factor first; it must lie strictly between $-1$ and $1$.",
        ),
        Check(
            "ex-alm-tie",
            "Near a tie",
            "a function of $(\\ell, c)$ that returns the smallest exact $\\rho$",
            lambda: lambda ell, delta: ell**2 / (2 * delta) - ell,
            lambda s: [
                (
                    lambda ell, delta: ell**2 / (2 * delta),
                    "The network's own curvature helps the penalty: where is it?",
                ),
                (
                    lambda ell, delta: ell**2 / delta - ell,
                    "A minimum over $u$ of a parabola brings a factor one half.",
                ),
                (
                    lambda ell, delta: ell / (2 * delta) - ell,
                    "The slope at the balanced price enters squared.",
                ),
            ],
            "At the price that balances the slope at $x = 0$, compare the minimum over $u$ for $x ="
            " 1$ with $v^*$.",
            judge=calls((8.0, 1.0), (8.0, 0.1), (2.0, 0.5)),
        ),
        Check(
            "ex-alm-deaf",
            "Why not simply use the norm?",
            "two lists, for the norm and for the square: the number of decisions that are held for"
            " $\\rho = 2, 8, 16$",
            lambda: (_held(False), _held(True)),
            lambda s: [
                (
                    s[::-1],
                    "The norm comes first: a wedge holds $u$ where a parabola lets it drift.",
                ),
                (
                    (_held(False, "x"), _held(True, "x")),
                    "You asked the MIP block alone: $u$ must rest as well.",
                ),
                (
                    (_held(False, "u"), _held(True, "u")),
                    "You asked the NN block alone: $x$ must rest as well.",
                ),
            ],
            "Two conditions for each decision: $u = x$ minimises over the box, and $x$ over the"
            " four decisions.",
        ),
    ],
}
