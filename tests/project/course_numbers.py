"""Every number in the examination's solutions and in the quizzes, computed again."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch
from scipy.optimize import linprog

from ddmip_book.examples.alm import EqualityQP
from ddmip_book.examples.linearise import Formula, descend, minimise
from ddmip_book.examples.pgd import contraction_factor
from ddmip_book.examples.prices import Listed, hand_market
from ddmip_book.examples.projections import project_halfspace, project_two_sided_budget
from ddmip_book.examples.tiny import Tiny, quadratic
from ddmip_book.figures.neural_mips import landscape
from ddmip_book.networks import mlp
from ddmip_lib.pricing import PricingProblem, reduce_to_boundary
from ddmip_lib.problems import hand_sized

CORNERS = list(itertools.product((0, 1), repeat=2))
COST = np.array([1.0, 1.0])
SIDE = np.linspace(0, 1, 61)
PLANE = EqualityQP(np.eye(2), [2, 1], [[1, 1]], [1])  # S = 2, the right price is 1
SQUARE = np.array(list(itertools.product(SIDE, SIDE)))


def plain(text: str) -> str:
    r"""LaTeX with every small fraction in its long form, so that \tfrac34 and \tfrac{3}{4} are the
    same.
    """
    text = re.sub(r"\\tfrac(\d)", r"\\tfrac{\1}", text)
    return re.sub(r"(\\tfrac\{\d+\})(\d)", r"\1{\2}", text)


def t(value: float) -> str:
    """A number as the solutions print it: whole, or a small fraction."""
    f = Fraction(value).limit_denominator(5000)
    assert abs(float(f) - value) < 1e-6, f"{value} is no small fraction"
    if f.denominator == 1:
        return str(f.numerator)
    return f"{'-' if f < 0 else ''}\\tfrac{{{abs(f.numerator)}}}{{{f.denominator}}}"


def pair(values: object) -> str:
    return "(" + ", ".join(t(float(v)) for v in np.ravel(values)) + ")"  # type: ignore[arg-type]


def network(u: np.ndarray) -> np.ndarray:
    """The network of problems 2, 4 and 11."""
    u = np.atleast_2d(u)
    return 2 * np.maximum(0, u[:, 0] - u[:, 1] - 0.5) - 3 * np.maximum(0, u.sum(axis=1) - 1)


def triangle(low: float, high: float) -> tuple[float, float]:
    """Area of the relaxed Big-M rows of a unit, and the largest z at 0 (by a linear program)."""
    # variables z, delta at a = 0: z <= -low (1 - delta), z <= high delta
    rows = [[1, -low], [1, -high]]
    right = [-low, 0]
    highest = -linprog([-1, 0], rows, right, bounds=[(0, None), (0, 1)]).fun
    return -low * high / 2, highest


def root_bound(first: tuple[float, float], second: tuple[float, float]) -> float:
    """The linear relaxation of problem 2's Big-M model with these bounds; variables x1, x2, z1, z2,
    d1, d2.
    """
    rows = []
    right = []
    for (low, high), weights, shift, z, d in (
        (first, (1, -1), -0.5, 2, 4),
        (second, (1, 1), -1.0, 3, 5),
    ):
        a = np.zeros(6)
        a[:2] = weights
        e_z = np.eye(6)[z]
        e_d = np.eye(6)[d]
        rows += [
            a - e_z,
            e_z - a - low * e_d,
            e_z - high * e_d,
        ]  # z >= a, z <= a - low (1 - d), z <= high d
        right += [-shift, shift - low, 0.0]
    bounds = [(0, 1), (0, 1), (0, None), (0, None), (0, 1), (0, 1)]
    return float(linprog([1, 1, 2, -3, 0, 0], rows, right, bounds=bounds).fun)


def one_unit() -> list[str]:
    (area, height), (lazy_area, lazy_height) = triangle(-1, 3), triangle(-12, 12)
    return [
        f"area ${t(area)}$, largest $z$ at zero ${t(height)}$",
        f"area ${t(lazy_area)}$, largest $z$ at zero ${t(lazy_height)}$",
        f"$z = {t(3 / 4)} (a + 1)$",
        f"$z = {t(12 / 24)} (a + 12)$",
        "At $x = \\tfrac{1}{2}$",
    ]


def two_decisions() -> list[str]:
    total = {x: float(COST @ x + network(np.array(x, float))[0]) for x in CORNERS}
    assert min(total, key=lambda x: total[x]) == (1, 1)
    said = [f"$F{x} = {t(value)}$".replace(",)", ")") for x, value in total.items()]
    tight = root_bound((-1.5, 0.5), (-1, 1))
    lazy = root_bound((-5, 5), (-5, 5))
    return [*said, f"the root bound is ${t(tight)}$", f"the root bound is ${t(lazy)}$"]


def prices_and_penalties() -> list[str]:
    qp = EqualityQP(np.diag([1.0, 2.0]), [0, 0], [[1, 2]], [3])
    x, lam = qp.solution()
    s = float(qp.dual_hessian()[0, 0])
    price = 0.0
    rounds = []
    for _ in range(2):
        r = float(qp.residual(qp.minimiser(1.0, price))[0])
        price += r
        rounds.append((price, r))
    moved = EqualityQP(np.diag([1.0, 2.0]), [0, 0], [[1, 2]], [3 + 1e-5])
    slope = (moved.lagrangian(moved.solution()[0]) - qp.lagrangian(x)) / 1e-5
    assert abs(slope + lam[0]) < 1e-4
    needed = math.ceil(math.log(1e3) / math.log(1 + s))
    return [
        f"$\\lambda^* = {t(lam[0])}$, $x^* = {pair(x)}$, optimal value ${t(qp.lagrangian(x))}$",
        f"= {t(s)}$ and the factor is $1/(1 + 3\\rho) = {t(1 / (1 + s))}$",
        f"multipliers are ${t(rounds[0][0])}$ and ${t(rounds[1][0])}$",
        f"residuals are ${t(rounds[0][1])}$ and ${t(rounds[1][1])}$",
        f"{needed} rounds",
        f"$\\rho = {t(2999 / 3)}$",
        f"3/(1 + 3\\rho) = {t(abs(qp.residual(qp.minimiser(1.0))[0]))}$",
    ]


def exact_blocks() -> Tiny:
    """Problem 4: both steps by trying a grid that contains the minimisers."""

    def u_step(v: np.ndarray, rho: float) -> np.ndarray:
        return SQUARE[(network(SQUARE) + rho / 2 * ((SQUARE - v) ** 2).sum(axis=1)).argmin()]

    return Tiny(CORNERS, COST, lambda u: float(network(u)[0]), lambda u: np.zeros(2), u_step)


def by_hand() -> list[str]:
    problem = exact_blocks()
    path = problem.run(2.0, 3)
    rho = 2.0
    bids = [np.zeros(2), path.lam[0] + rho * path.u[0]]
    rows = [
        f"| {k + 1} | ${pair(bids[k])}$ | ${pair(path.x[k])}$ | ${pair(path.u[k])}$ |"
        f" ${pair(path.lam[k])}$ |"
        for k in range(2)
    ]
    assert (path.x[2] == path.x[1]).all()
    assert path.residual[1] == 0
    leaves = [problem.u_step(np.zeros(2), rho).any() for rho in (2.9, 3.1, 5.0, 8.0)]
    assert leaves == [True, False, False, False]
    near = network(np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 0.01]]))
    assert (near == 0).all(), "the slope at the origin is zero"
    return [*rows, f"$c_i + \\tfrac\\rho2 = {t(1 + rho / 2)}$", "exactly for $\\rho < 3$"]


def x_step() -> list[str]:
    def chosen(lam: float, rho: float) -> int:
        x = np.arange(3.0)
        return int(((1 - lam) * x + rho / 2 * (x - 0.5) ** 2).argmin())

    assert [chosen(lam, 2) for lam in (0.99, 1.01, 2.99, 3.01)] == [0, 1, 1, 2]
    assert [chosen(lam, 0) for lam in (0.99, 1.01)] == [0, 2]
    fine = np.linspace(0, 2, 2001)
    chords = -2.5 * fine + np.maximum(fine, 3 * fine - 2) + 0.25
    square = -2.5 * fine + fine**2 + 0.25
    return [
        "$x = 0$ for $\\lambda < 1$, $x = 1$ for $1 < \\lambda < 3$, $x = 2$ for $\\lambda > 3$",
        f"its minimum is ${t(chords.min())}$, at $x = {t(fine[chords.argmin()])}$",
        f"it is ${t(square.min())}$, at $x = {t(fine[square.argmin()])}$",
    ]


def nn_block() -> list[str]:
    counts = {}
    for eta in (0.01, 1 / 8, 2 / 13):
        factor = float(contraction_factor(eta, 5, 8))
        counts[eta] = (factor, math.ceil(math.log(1e3) / -math.log(factor)))
    aim = np.array([3.0, 3.0])
    rows = ([2.0, 1.0], [1.0, 1.0])
    ends = [project_halfspace(aim, np.array(row), 3.0) for row in rows]
    slopes = [aim - end for end in ends]
    assert slopes[0][0] != slopes[0][1]
    assert slopes[1][0] == slopes[1][1]
    return [
        f"| $0.95$ | {counts[0.01][1]} |",
        f"| ${t(counts[1 / 8][0])}$ | {counts[1 / 8][1]} |",
        f"| ${t(counts[2 / 13][0])}$ | {counts[2 / 13][1]} |",
        f"Together ${pair(project_two_sided_budget(np.array([3.0, 2.0, -4.0]), 2.0, 1.0))}$",
        f"minimiser is ${pair(ends[0])}$; the gradient there is $-{pair(slopes[0])}$",
        f"the minimiser is ${pair(ends[1])}$",
    ]


def stop_and_freeze() -> list[str]:
    line = quadratic(np.arange(7)[:, None], curvature=0.0, cost=-2.0)
    path = line.run(1.0, 4)
    dual = np.abs(np.diff(np.r_[0.0, path.u[:, 0]]))
    assert (path.residual == 0).all()
    for rho, stays in ((1.9, False), (2.1, True)):  # kappa = 1
        frozen = quadratic(np.arange(7)[:, None], curvature=0.0, cost=-1.0).run(rho, 5).x
        assert (frozen == 0).all() == stays
    return [
        f"$x = {', '.join(t(x) for x in path.x[:, 0])}$",
        f"the dual ones are ${', '.join(t(d) for d in dual)}$",
        f"cost ${t(path.total[0])}$",
        f"costs ${t(line.optimum())}$, so it loses {t(path.total[0] - line.optimum())}",
    ]


def thresholds() -> list[str]:
    tie = quadratic([[0], [1]], curvature=2.0, centre=0.5)
    cycle = tie.run(1.0, 200, u=0.3)
    ends = {int(x[0]): (float(u[0]), float(lam[0])) for x, u, lam, _ in cycle.rows[-2:]}
    settled = tie.run(3.0, 12, u=0.3)
    rate = (settled.u[-1, 0] - settled.x[-1, 0]) / (settled.u[-2, 0] - settled.x[-1, 0])
    hill = [
        quadratic([[0]], curvature=-1.0).run(rho, 3, u=0.1, lam=0.1).u[1:, 0] for rho in (1.5, 3.0)
    ]
    return [
        *(f"$({x}, {t(u)}, {t(lam)})$" for x, (u, lam) in ends.items()),
        f"with residual ${t(cycle.residual[-1])}$",
        f"= {t(rate)}$",
        (
            f"the multiples are ${t(hill[0][1] / hill[0][0])}$ (diverges) and"
            f" ${t(hill[1][1] / hill[1][0])}$"
        ),
    ]


def multiply_adds(net: torch.nn.Module) -> int:
    """Of a dense network: one for each weight."""
    return sum(weight.numel() for weight in net.parameters() if weight.ndim == 2)


def counting() -> list[str]:
    net = mlp(3, 20, 9)
    work = multiply_adds(net)
    n = 50
    units = 60
    parameters = sum(p.numel() for p in net.parameters())
    rates = np.arange(16) / 15
    possible = [bool((abs(rates - rate) <= 0.005).any()) for rate in (0.33, 0.55, 0.87)]
    assert possible == [True, False, True]

    def big(number: int) -> str:
        return f"{number:,}".replace(",", "{,}")

    return [
        f"= {big(work)}$, $P = {big(parameters)}$",
        f"= {big(40 * 25 * 2 * n * work)}$ multiply-adds",
        f"= {big(n * (29 + 3 * units))}$ variables",
        f"= {big(n * (1 + units))}$ binary",
        f"$300/6 = {t(300 / 6)}$",
        f"$41/0.8 = {41 / 0.8}$",
        f"becomes {t(900 / 6)}",
    ]


def market() -> list[str]:
    uses = [[2, 0], [0, 2], [1, 1], [0, 2], [1, 0], [1, 1]]
    listed = Listed([0, 0, 1, 1, 2, 2], np.ones(6), uses, [2, 2])
    halves = listed.demand([0.5, 0.5])[0]
    skewed = listed.demand([1.0, 0.0])
    assert skewed[1].tolist() == [2, -2]
    assert listed.best() <= listed.linear().value <= halves < listed.best() + 1
    one = torch.ones(1, 2, dtype=torch.float64)
    layer = torch.nn.Linear(2, 1).double().requires_grad_(False)
    layer.weight[0], layer.bias[0] = torch.tensor([2.0, 1.0]), -2.0
    far = torch.full((1,), torch.inf, dtype=torch.float64)
    task = PricingProblem(-9 * one, 9 * one, 0 * one, one, one, gain=far, cap=far, margin=0.0)
    end = reduce_to_boundary(layer, task, torch.tensor([[2.0, 1.0]], dtype=torch.float64))[
        0
    ].numpy()
    return [
        f"treats {t(listed.best())} samples",
        f"$\\theta = {t(halves)}$",
        f"$\\theta = {t(skewed[0])}$",
        f"${t(listed.best())} \\le \\theta^* \\le {t(halves)}$",
        f"the point is ${pair(end.round(3))}$",
    ]


def certificate() -> list[str]:
    slope = np.array([-1.5, -1.5])
    assert (network(SQUARE) >= SQUARE @ slope - 1e-12).all()
    points = np.array(CORNERS, float)
    best = (points @ (COST + slope)).min()
    zero = (points @ COST).min() + (SQUARE @ slope).min()
    return [f"so $D = {t(best)}$", f"so $D = {t(zero)}$", f"$A = {pair(slope)}$"]


EXAM: dict[int, Callable[[], list[str]]] = dict(
    enumerate(
        [
            one_unit,
            two_decisions,
            prices_and_penalties,
            by_hand,
            x_step,
            nn_block,
            stop_and_freeze,
            thresholds,
            counting,
            market,
            certificate,
        ],
        1,
    )
)


def kept_share(at: float, radius: float) -> float:
    """What a step of sequential linearisation on the square keeps of its prediction."""
    step = descend(minimise(Formula(lambda x: x * x), [0.0], [1.0]), [at], radius=radius).tried[0]
    return step.decrease / step.predicted


QUIZZES: dict[str, Callable[[], float]] = {
    "cost-by-hand": lambda: float(landscape(hand_sized(), np.array([[0.0, 1.0]]))[0]),
    "height-of-the-triangle": lambda: triangle(-1, 4)[1],
    "factor-of-the-multipliers": lambda: 1 - 2.0 * float(PLANE.residual(PLANE.minimiser(2.0))[0]),
    "the-bid": lambda: 1 + 3 * 0.5,
    "contraction": lambda: float(contraction_factor(1 / 10, 6, 10)),
    "threshold": lambda: max(4, 2 * 3),
    "residual-of-the-tie": lambda: float(
        quadratic([[0], [1]], curvature=1.0, centre=0.5).run(0.5, 200, u=0.3).residual[-1]
    ),
    "multiply-adds": lambda: multiply_adds(mlp(2, 16, 9)),
    "limit-as-speed-up": lambda: 900 / 15,
    "share-closed": lambda: (27.5 - 26) / (28 - 26),
    "table-of-values": lambda: 2 * 25 * 3,
    "read-a-price-list": lambda: hand_market().demand([0.5, 0.5])[0],
    "rounding": lambda: math.ceil(99.6 - 18),
    "one-tangent": lambda: kept_share(1.0, 0.5),
}
