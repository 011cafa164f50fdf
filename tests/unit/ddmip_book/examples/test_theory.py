"""The statements of the chapters on convergence and constraints, on random small problems with
exact steps.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples.counterexamples import (
    SQUARE,
    Lipschitz,
    Projection,
    constrained,
    random_slab,
    rational_path,
    relu_line,
    slab,
    three_cycle,
)
from ddmip_book.examples.smooth import (
    Slope,
    Smooth,
    on_the_line,
    random_bends,
    ridge,
    with_curvature,
)
from ddmip_book.examples.theorem_checks import (
    block_rest,
    joint_minimum,
    resting_points,
    run_inexact,
    shortfall,
    theorem_a_margins,
)
from ddmip_book.examples.tiny import quadratic

seeds = st.integers(0, 10**6)
curvatures = st.sampled_from([0.0, 0.3, 0.6, 1.0])
LATTICE = np.array(list(itertools.product(range(4), repeat=2)), dtype=float)
few = settings(max_examples=6, deadline=None)
some = settings(max_examples=15, deadline=None)


def network(seed: int, kind: str, p: int = 2, scale: float = 0.5) -> Smooth:
    rng = np.random.default_rng(seed)
    outer = rng.normal(size=5)
    return ridge(
        list(itertools.product(range(-2, 3), repeat=p)),
        scale * rng.normal(size=(5, p)),
        rng.normal(size=5),
        np.abs(outer) if kind == "convex" else outer,
        cost=rng.normal(size=p),
        kind="tanh" if kind == "tanh" else "softplus",
    )


kinds = st.sampled_from(["tanh", "convex", "softplus"])


@some
@given(seeds, kinds)
def test_identities(seed: int, kind: str) -> None:
    problem = network(seed, kind)
    rng = np.random.default_rng(seed + 1)
    rho = float(problem.m + rng.uniform(0.5, 5))
    x, u, lam, point = rng.normal(size=(4, 2))
    r = u - x
    here = problem.lagrangian(x, u, lam, rho)
    square = rho / 2 * ((r + lam / rho) ** 2).sum() - (lam**2).sum() / (2 * rho)
    assert here == pytest.approx(problem.cost @ x + problem.g(u) + square, abs=1e-10)
    assert problem.lagrangian(x, u, lam + rho * r, rho) - here == pytest.approx(
        rho * r @ r, abs=1e-10
    )
    low = problem.u_step(x - lam / rho, rho)
    rise = problem.lagrangian(x, point, lam, rho) - problem.lagrangian(x, low, lam, rho)
    assert rise == pytest.approx(
        problem.bregman(point, low) + rho / 2 * ((point - low) ** 2).sum(), abs=1e-9
    )


@some
@given(seeds, kinds, st.integers(1, 4))
def test_curvature_lemma(seed: int, kind: str, p: int) -> None:
    rng = np.random.default_rng(seed)
    net = network(seed, kind, p) if p < 3 else network(seed, kind, p, scale=1.0)
    a, b = rng.normal(size=(2, p)) * rng.choice([0.1, 1, 3])
    gap = a - b
    jump = net.gradient(a) - net.gradient(b)
    omega = jump + net.m * gap
    size = gap @ gap
    total = net.ell + net.m
    slack = 1e-10 * (1 + size)
    assert -net.m / 2 * size - slack <= net.bregman(a, b) <= net.ell / 2 * size + slack
    assert net.bregman(a, b) >= -net.m / 2 * size + omega @ omega / (2 * total) - slack
    assert omega @ gap >= omega @ omega / total - slack
    assert np.linalg.norm(omega) <= total * np.linalg.norm(gap) + slack


@some
@given(seeds, curvatures, st.floats(1.001, 3))
def test_descent_lemma(seed: int, m: float, factor: float) -> None:
    problem = random_bends(seed, m)
    rho = factor * problem.threshold
    path = problem.run(rho, 30, u=2.4, lam=1.0)
    moved = np.diff(path.u[:, 0]) ** 2
    assert (np.diff(path.merit) <= -problem.decrease(rho) * moved + 1e-9).all()


@pytest.mark.parametrize(
    ("curvature", "ell", "m"), [(1.0, 1.0, 0.4), (-0.4, 1.0, 0.4), (-1.0, 1.0, 1.0)]
)
def test_descent_constant_is_attained(curvature: float, ell: float, m: float) -> None:
    problem = with_curvature(quadratic([[0]], curvature=curvature, centre=1.0), ell, m)
    rho = (
        1.5 if curvature == 1.0 else 1.0 + 2.1 * m
    )  # the regime in which this curvature is the worst
    path = problem.run(rho, 6)
    dropped = -np.diff(path.merit) / np.diff(path.u[:, 0]) ** 2
    worst = (rho - 2 * m) * (rho + m) if curvature < 0 else (rho - ell) * (rho + 2 * ell)
    assert dropped == pytest.approx(worst / (2 * rho), rel=1e-6)


@some
@given(seeds, curvatures, st.floats(0.1, 3))
def test_lower_bound_lemma(seed: int, m: float, factor: float) -> None:
    problem = random_bends(seed, m)
    rho = m + factor  # also below the threshold
    path = problem.run(rho, 20, u=2.4)
    above = path.merit - path.total - (rho - problem.ell) / 2 * path.residual**2
    assert above.min() >= -1e-9 * (1 + np.abs(path.merit).max())


@some
@given(seeds, st.floats(1.001, 4))
def test_corrected_decrease(seed: int, factor: float) -> None:
    problem = random_bends(seed, 0.0)
    path = problem.run(factor, 30, u=2.4)
    assert (np.diff(path.merit) <= -(factor - 1) / 2 * path.residual[1:] ** 2 + 1e-9).all()
    parabola = quadratic([[0]], curvature=1.0, centre=1.0).run(2.0, 4)
    assert (parabola.merit[1:] > parabola.merit[:-1] - 0.5 * parabola.residual[:-1] ** 2).all(), (
        "the paper's form"
    )


@few
@given(seeds, kinds, st.floats(1.01, 3))
def test_theorem_a(seed: int, kind: str, factor: float) -> None:
    net = network(seed, kind)
    path = net.run(factor * net.threshold, 40, u=(0.3, -1.2), lam=(0.5, 0.1))
    margins = theorem_a_margins(path, net)
    assert min(margins.values()) >= -1e-8, margins


@some
@given(seeds, curvatures, st.floats(1.01, 3), st.integers(0, 6))
def test_theorem_a_never_worse(seed: int, m: float, factor: float, start: int) -> None:
    problem = random_bends(seed, m)
    x = np.array([float(start)])
    path = problem.run(factor * problem.threshold, 40, u=x, lam=-problem.gradient(x))
    assert path.total.max() <= problem.total(x) + 1e-9
    assert min(theorem_a_margins(path, problem).values()) >= -1e-8


@pytest.mark.parametrize("ell", [1.0, 3.0])
def test_thresholds_are_sharp(ell: float) -> None:
    tie = quadratic([[0], [1]], curvature=ell, centre=0.5)
    assert tie.run(0.95 * ell, 300, u=0.3).residual[-9:] == pytest.approx(1 / 2.95, rel=1e-6)
    assert tie.run(1.05 * ell, 300, u=0.3).residual[-1] < 1e-12
    hill = quadratic([[0]], curvature=-ell)
    for rho in (1.5 * ell, 2.5 * ell):
        path = hill.run(rho, 12, u=0.1, lam=0.1 * ell)
        assert path.residual[1:] / path.residual[:-1] == pytest.approx(ell / (rho - ell), rel=1e-9)
    cosine = on_the_line(
        [[0]],
        lambda u: ell * np.cos(u),
        lambda u: -ell * np.sin(u),
        lambda u: -ell * np.cos(u),
        ell,
        ell,
    )
    size = cosine.run(1.5 * ell, 200, u=0.1, lam=ell * np.sin(0.1)).residual[-1]
    assert np.sin(size) / size == pytest.approx(0.75)


@few
@given(st.floats(-4, 4), st.floats(-3, 3), st.floats(-27, 27))
def test_local_smoothness(cost: float, u: float, lam: float) -> None:
    points = np.arange(-2.0, 3.0)[:, None]
    quartic = on_the_line(
        points, lambda u: u**4 / 4, lambda u: u**3, lambda u: 3 * u**2, 27.0, 0.0, cost
    )
    rho = 110.0
    path = quartic.run(rho, 30, u=u, lam=lam)
    assert np.abs(path.u - path.x).max() < 1, "the ball never binds"
    assert (
        np.diff(path.merit) <= -(rho / 2 - 27**2 / rho) * np.diff(path.u[:, 0]) ** 2 + 1e-9
    ).all()
    assert path.residual[-1] < 1e-8
    assert shortfall(quartic, rho, path.x[-1]) >= -1e-9


@some
@given(seeds, st.integers(0, 6))
def test_inexact_steps(seed: int, start: int) -> None:
    problem = random_bends(seed, 1.0)
    rho = 6.05
    wide = 3.0
    path = run_inexact(problem, rho, 80, lambda u, slope: u - slope(u) / rho, u=float(start) + 0.3)
    moved = np.diff(path.u[:, 0]) ** 2
    psi = path.merit[1:] + wide / rho * moved
    due = (rho - 2 * wide) * (rho + wide) / (2 * rho) * moved[1:]
    assert (np.diff(psi) <= -due + 1e-9).all()
    assert psi.min() >= problem.optimum() - 1e-9
    assert path.residual[-1] < 1e-6
    assert shortfall(problem, rho, path.x[-1]) >= -1e-6


def test_too_few_short_steps_cycle() -> None:
    tie = quadratic([[0], [1]], curvature=1.0, centre=0.5)

    def short(count: int) -> float:
        def inner(u: np.ndarray, slope: Slope) -> np.ndarray:
            for _ in range(count):
                u = u - 0.01 * slope(u)
            return u

        return float(run_inexact(tie, 1.2, 200, inner, u=0.3).residual[-50:].min())

    assert short(25) > 0.4
    assert short(100) < 1e-6


@some
@given(seeds, curvatures, st.floats(0.05, 8))
def test_quality_of_a_limit(seed: int, m: float, rho: float) -> None:
    problem = random_bends(seed, m)
    values = np.array([problem.total(x) for x in problem.points])
    rest = resting_points(problem, rho)
    for x, value in zip(problem.points[rest], values[rest], strict=True):
        away = ((problem.points - x) ** 2).sum(axis=1)
        assert value <= (values + (rho + problem.m) / 2 * away).min() + 1e-9
    assert resting_points(problem, max(rho, problem.ell))[values.argmin()]
    if rho > m + 0.05:  # a resting point with its multiplier is a fixed point of Algorithm 1
        for x in problem.points[rest]:
            path = problem.run(rho, 3, u=x, lam=-problem.gradient(x))
            held = problem.lagrangian(path.x[0], x, -problem.gradient(x), rho)
            assert held >= problem.total(x) - 1e-9


@some
@given(seeds, curvatures)
def test_freeze(seed: int, m: float) -> None:
    problem = random_bends(seed, m)
    rho = 2.001 * max(np.abs(problem.slope(x)).max() for x in problem.points)
    assert resting_points(problem, rho).all()
    if rho > problem.m:
        for x in problem.points:
            assert (problem.run(rho, 5, u=x, lam=-problem.gradient(x)).x == x).all()


@some
@given(seeds, curvatures, st.floats(1.01, 4), st.integers(0, 6))
def test_projected_gradient_rests_at_the_same_points(
    seed: int, m: float, rho: float, start: int
) -> None:
    problem = random_bends(seed, m)
    x = np.array([float(start)])
    for _ in range(40):
        after = problem.x_step(x, problem.cost - problem.slope(x), rho)
        drop = (rho - problem.ell) / 2 * ((after - x) ** 2).sum()
        assert problem.total(after) <= problem.total(x) - drop + 1e-9
        x = after
    assert shortfall(problem, rho, x) >= -1e-9


def test_three_cycle_is_exact() -> None:
    strip = slab((3, -1), Fraction(9, 5), Fraction(21, 10))
    orbit = rational_path(SQUARE, strip, 30)
    assert all(orbit[k] == orbit[k + 3] for k in range(4, 27))
    assert len({(state.x, state.u, state.scaled) for state in orbit[4:]}) == 3
    assert min(state.margin for state in orbit) == Fraction(13, 50)
    assert all(state.x != (1, 1) for state in orbit)
    assert tuple(strip(np.array([Fraction(1), Fraction(1)]))) == (1, 1), (
        "and yet (1, 1) is feasible"
    )
    for rho in (1e-3, 1.0, 1e5):
        path = three_cycle().run(rho, 30)
        assert path.u[-1] == pytest.approx(np.array(orbit[29].u, dtype=float), abs=1e-9)


def test_catalogue_of_constraints() -> None:
    empty = quadratic([[0]], 0.0, low=1, high=2).run(1.0, 20, u=1)
    assert empty.lam.ravel().tolist() == list(range(1, 21))
    five = quadratic([[0], [1]], 0.0, cost=1.0, low=0.6, high=1).run(1.0, 60, u=0.6)
    assert five.residual.min() == pytest.approx(0.4)
    assert five.lam[-1] == pytest.approx(five.lam[-6])
    wall = constrained([[0], [1]], lambda w: np.minimum(w, 0.0), slope=-1.0).run(1.0, 5)
    assert wall.residual.max() == 0
    assert wall.lam[-1] + wall.problem.gradient(wall.u[-1]) == -1


@few
@given(seeds, st.floats(0.2, 10))
def test_bounded_multipliers(seed: int, rho: float) -> None:
    cost = np.random.default_rng(seed).normal(size=2)
    path = three_cycle(cost=cost).run(rho, 400, u=(0.6, 0.0))
    far = np.sqrt(18.0)
    ball = 0.15 / np.sqrt(10)
    assert (np.abs(path.u - 0.5) <= 1.5).all(), "the box that makes C compact does not bind"
    spread = np.ptp(np.array(SQUARE) @ cost) + rho * far**2
    bound = (2 * spread + rho * far**2) / (2 * ball) + rho * far
    assert np.linalg.norm(path.lam, axis=1).max() <= bound
    summed = np.cumsum(path.u - path.x, axis=0)
    assert summed * rho == pytest.approx(path.lam, abs=1e-8)
    growth = np.linalg.norm(path.lam, axis=1) ** 2 / np.arange(1, 401)
    assert growth.max() <= 2 * rho * spread + rho**2 * far**2


def through(seed: int) -> tuple[np.random.Generator, Projection]:
    rng = np.random.default_rng(seed)
    return rng, random_slab(rng, LATTICE, 0.3)


@few
@given(seeds)
def test_settled_points_are_feasible(seed: int) -> None:
    rng, cut = through(seed)
    problem = constrained(
        LATTICE, cut, rng.normal(size=2), curvature=0.5, centre=rng.uniform(0, 3, 2)
    )
    rho = rng.uniform(0.5, 5)
    path = problem.run(rho, 600, u=cut(np.zeros(2)))
    if (path.x[-500:] == path.x[-1]).all():
        last = path.x[-1]
        assert cut(last) == pytest.approx(last, abs=1e-9)
        feasible = [x for x in LATTICE if np.allclose(cut(x), x)]
        room = min(problem.total(x) + rho / 2 * ((x - last) ** 2).sum() for x in feasible)
        assert problem.total(last) <= room + 1e-7
    elif (path.x[-100:] != path.x[-1]).any():  # one that settles between may be anywhere on its way
        assert path.residual[-100:].max() > 1e-6, "the integer part never settles"


@pytest.mark.parametrize("rho", [4.0, 6.0])
def test_multiplier_limit(rho: float) -> None:
    """C-2 with a larger penalty: the multiplier converges, at the boundary of C = [0.6, 1]."""
    path = quadratic([[0], [1]], 0.0, cost=1.0, low=0.6, high=1).run(rho, 300, u=0.6)
    limit = path.lam[-1, 0]
    assert np.abs(path.lam[-100:] - limit).max() < 1e-9
    assert (path.x[-100:] == 1).all()
    assert path.u[-1] == pytest.approx(1)
    assert -limit >= -1e-9, "-grad g - lambda lies in the normal cone [0, inf) of C at 1"
    assert (1 - limit) <= rho / 2 + 1e-9, "x = 1 minimises (c - lambda) x + rho/2 |x - 1|^2"


def line_of_relus(seed: int) -> tuple[np.random.Generator, Lipschitz]:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=8)
    b = rng.uniform(-3, 3, 8)
    v = rng.normal(size=8)
    return rng, relu_line(np.arange(-3.0, 4.0)[:, None], w, b, v, cost=rng.normal())


@some
@given(seeds, st.floats(0.1, 10))
def test_lipschitz_residual(seed: int, factor: float) -> None:
    rng, net = line_of_relus(seed)
    steep = net.steepness
    rho = factor * steep
    path = net.run(rho, 30, u=float(rng.integers(-3, 4)))
    assert np.abs(path.lam).max() <= steep + 1e-9
    assert (path.residual[1:] <= 2 * steep / rho + 1e-9).all()
    if rho > 4 * steep:
        assert (np.round(path.u[1:]) == path.x[1:]).all()
    if rho > 2 * (abs(net.cost[0]) + 3 * steep):
        assert (path.x[1:] == path.x[1]).all()


@some
@given(seeds, st.floats(-5, 5), st.floats(0.1, 10))
def test_relu_step_is_the_global_minimiser(seed: int, v: float, rho: float) -> None:
    _, net = line_of_relus(seed)
    u = net.u_step(np.array([v]), rho)
    best = net.g(u) + rho / 2 * (u[0] - v) ** 2
    around = np.linspace(-60, 60, 301)
    assert all(net.g(np.array([t])) + rho / 2 * (t - v) ** 2 >= best - 1e-8 for t in around)


def test_kinks_cycle() -> None:
    roof = relu_line([[0]], weights=[1, -1], bias=[0, 0], outer=[-1, -1])
    valley = relu_line([[0], [1]], weights=[1, -1], bias=[-0.5, 0.5], outer=[1, 1])
    for rho in (0.5, 10.0, 1e4):
        assert rho * roof.run(rho, 20, lam=1.0).residual == pytest.approx(2)
    for rho in (4.2, 5.0, 5.99):
        path = valley.run(rho, 20, u=1 - 2 / rho, lam=1.0)
        assert path.residual == pytest.approx(2 / rho)
        assert (path.x[1:] == 1 - path.x[:-1]).all()
    assert valley.run(6.01, 20, u=1 - 2 / 6.01, lam=1.0).residual[-1] == 0


@some
@given(seeds, st.integers(0, 6))
def test_order_of_the_blocks(seed: int, start: int) -> None:
    problem = random_bends(seed, 1.0)
    rho = 5.05
    x = np.array([float(start)])
    path = problem.run(rho, 200, u=x, lam=1.0, order="ux")
    slopes = np.array([problem.gradient(u) for u in path.u])
    assert path.lam[1:] == pytest.approx(-slopes[1:] - rho * np.diff(path.x, axis=0), abs=1e-8)
    for before, after, slope in zip(path.x[:-1], path.x[1:], slopes[1:], strict=True):
        model = problem.points @ (problem.cost + slope) + rho / 2 * (
            (problem.points - before) ** 2
        ).sum(axis=1)
        chosen = (problem.points == after).all(axis=1).argmax()
        assert model[chosen] <= model.min() + 1e-8
    assert path.residual[-1] < 1e-6
    assert shortfall(problem, rho, path.x[-1]) >= -1e-6
    stairs = quadratic(np.arange(11.0)[:, None], curvature=0.0, cost=-3.0)
    assert stairs.run(1.0, 6, order="ux").merit.tolist() == [4.5, -18.0, -27.0, -30.0, -29.5, -30.0]


@some
@given(seeds)
def test_joint_minimum(seed: int) -> None:
    rng, cut = through(seed)
    slope, lam = rng.normal(size=(2, 2))
    problem = constrained(LATTICE, cut, rng.normal(size=2), slope=slope)
    away = np.array([np.linalg.norm(cut(x) - x) for x in LATTICE])
    values = np.array([problem.total(x) for x in LATTICE])
    inside = away < 1e-9
    best = values[inside].min()
    second = min((v for v in values[inside] if v > best + 1e-9), default=np.inf)
    steep = np.linalg.norm(slope) + np.linalg.norm(lam)
    near = away[~inside].min()
    needed = (
        steep**2 / (2 * (second - best)),
        steep / near,
        2 * (best - values.min() + steep * near) / near**2,
    )
    rho = 1.001 * max(needed)
    x, u, value = joint_minimum(problem, lam, rho)
    assert problem.total(x) == pytest.approx(best)
    assert best - steep**2 / (2 * rho) - 1e-7 * rho <= value <= best + 1e-9
    assert np.linalg.norm(u - x) <= 2 * steep / rho + 1e-9


@some
@given(seeds)
def test_sweeps_at_fixed_multipliers(seed: int) -> None:
    rng, cut = through(seed)
    problem = constrained(LATTICE, cut, rng.normal(size=2), slope=rng.normal(size=2))
    rho = 1e7
    x, u, changes = block_rest(problem, LATTICE[rng.integers(16)], rng.uniform(-1, 1, 2), rho)
    assert changes < 16
    distance = np.linalg.norm(cut(x) - x)
    assert distance - 1e-9 <= np.linalg.norm(u - x) <= distance + 1e-5
    nearest = np.linalg.norm(LATTICE - u, axis=1).min()
    assert np.linalg.norm(x - u) <= nearest + 1e-5, "x is a nearest point of X to u"


@some
@given(seeds, curvatures, st.floats(-6, 6))
def test_weak_duality(seed: int, m: float, lam: float) -> None:
    problem = random_bends(seed, m)
    line = np.linspace(0, 6, 61)
    mip = (problem.points[:, 0] * (problem.cost[0] - lam)).min()
    net = min(problem.g(np.array([u])) + lam * u for u in line)
    assert mip + net <= problem.optimum() + 1e-9
    if m == 0:  # the certificate of one MILP
        for x in problem.points:
            gap = ((x - problem.points) @ problem.slope(x)).max()
            assert problem.total(x) - gap <= problem.optimum() + 1e-9


def settles_at_rest(net: Smooth, rho: float) -> bool:
    """Whether a run from the first point ends with agreeing copies at a resting point."""
    path = net.run(rho, 400, u=net.points[0])
    return bool(path.residual[-1] < 1e-9 and shortfall(net, rho, path.x[-1]) >= -1e-9)


@few
@given(seeds)
def test_convex_networks_converge(seed: int) -> None:
    net = network(seed, "convex")
    assert net.m == 0
    assert settles_at_rest(net, 1.05 * net.ell)


@few
@given(seeds)
def test_smooth_networks_converge(seed: int) -> None:
    net = network(seed, "tanh")
    assert settles_at_rest(net, 2.05 * net.ell)


@some
@given(seeds, st.floats(1.05, 4.0))
def test_the_balance_of_a_quadratic_is_exact(seed: int, factor: float) -> None:
    """With one decision the merit falls by the sum over eigenvectors, neither more nor less."""
    rng = np.random.default_rng(seed)
    h = rng.uniform(-1, 1, 3)
    rho = factor * max(2 * -h.min(), h.max(), 0.1)
    problem = Smooth(
        [[0, 0, 0]],
        0.0,
        lambda u: float(u @ (h * u)) / 2,
        lambda u: h * u,
        lambda v, rho: rho * v / (h + rho),
    )
    start = rng.normal(size=3)
    path = problem.run(rho, 5, u=start, lam=-h * start)
    fall = ((rho - h) * (rho + 2 * h) / (2 * rho) * np.diff(path.u, axis=0) ** 2).sum(axis=1)
    np.testing.assert_allclose(-np.diff(path.merit), fall, atol=1e-12)


@some
@given(seeds)
def test_careless_steps_keep_the_sum_of_residuals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = network(seed, "tanh")
    rho = 2.1 * net.ell
    u = np.zeros(2)
    x = np.zeros(2)
    lam = -net.gradient(u)
    merits = []
    extra = 0.0
    residuals = 0.0
    for k in range(60):
        values = np.array([net.lagrangian(z, u, lam, rho) for z in net.points])
        near = net.points[values <= net.lagrangian(x, u, lam, rho) + 0.7**k]
        x = near[rng.integers(len(near))]
        u = net.u_step(x - lam / rho, rho)
        lam = lam + rho * (u - x)
        merits.append(net.lagrangian(x, u, lam, rho))
        if k:
            extra = extra + 0.7**k
            residuals = residuals + float((u - x) @ (u - x))
    extra = extra + merits[0] - net.optimum()
    assert residuals <= net.ell**2 * extra / (rho**2 * net.decrease(rho)) + 1e-9
    assert np.linalg.norm(u - x) < 1e-3


def test_convex_kinks_do_no_harm() -> None:
    kink = relu_line([[0]], weights=[1, -1], bias=[0, 0], outer=[1, 1])
    for lam, rho in itertools.product((-3.0, 0.4, 5.0), (0.5, 2.0, 10.0)):
        path = kink.run(rho, 3, lam=lam)
        assert path.lam[0, 0] == pytest.approx(np.clip(lam, -1, 1))
        assert np.abs(path.u[1:]).max() < 1e-12
