"""The log-barrier block on problems with known answers, and as a swap for PGD."""

import itertools
from types import SimpleNamespace

import numpy as np
import piqp
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ddmip_lib import PGD, DualDecomposition
from ddmip_lib.decomposition.barrier import LogBarrier
from ddmip_lib.decomposition.interior import BarrierPoint, BarrierProblem
from ddmip_lib.errors import ProblemError
from tests.builders.clocks import LONG
from tests.builders.instances import build
from tests.builders.smooth import Quadratic, smooth


class Subproblem:
    """phi(u) = sum_i terms(u)_i + rho/2 |u - x|^2 and rows(u) <= 0 over a box, with the groups
    given.
    """

    out_of_time = False

    def __init__(
        self,
        terms,
        lower,
        upper,
        rows=None,
        x=0.0,
        rho=1.0,
        group=None,
        constraint_group=None,
        interior=None,
    ):
        self.terms = terms
        self.rows = rows or (lambda u: u[:0])
        self.lower, self.upper = (
            torch.tensor(side, dtype=torch.float64) for side in (lower, upper)
        )
        p = len(lower)
        m = len(self.rows(self.lower))
        self.x = torch.zeros(p, dtype=torch.float64) + torch.as_tensor(x)
        self.rho = SimpleNamespace(inputs=rho, outputs=rho)
        self.group = torch.zeros(p, dtype=torch.long) if group is None else torch.tensor(group)
        self.constraint_group = (
            torch.zeros(m, dtype=torch.long)
            if constraint_group is None
            else torch.tensor(constraint_group)
        )
        self.n_groups = int(self.group.max()) + 1
        self.constraint_has_interior = (
            torch.full((m,), True) if interior is None else torch.tensor(interior)
        )

    def sum_by_group(self, values, group=None):
        group = self.group if group is None else group
        return torch.zeros(self.n_groups, dtype=values.dtype).index_add(0, group, values)

    def parts(self, u):
        return self.sum_by_group(
            self.terms(u) + 0.5 * self.rho.inputs * (u - self.x) ** 2
        ), self.rows(u)

    def hinge(self, h, mask=None):
        terms = 500 * torch.relu(h) ** 2
        return self.sum_by_group(
            terms if mask is None else torch.where(mask, terms, 0.0), self.constraint_group
        )

    def phi(self, u):
        return self.parts(torch.tensor(u))[0].sum().item()


def nothing(u):
    return 0.0 * u


def fixed(mu, **options):
    """A block that ends every call at the same mu."""
    block = LogBarrier(mu=max(mu, 1e-2), mu_final=mu, steps=60, **options)
    block._carried.end = mu
    return block


def polytope(seed, rho=1.0, scale=1.0):
    """Nearest point of {A u <= b} in a box to x: the subproblem and its solution by a QP solver."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 6))
    m = int(rng.integers(1, 9))
    a = rng.normal(size=(m, p))
    b = rng.uniform(0.1, 1.0, m)
    x = 3 * rng.normal(size=p)
    box = (np.full(p, -3.0), np.full(p, 2.0))
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-13
    solver.setup(np.eye(p), -x, None, None, a, None, b, *box)
    solver.solve()
    rows = (torch.tensor(a), torch.tensor(b))
    sub = Subproblem(nothing, *box, lambda u: rows[0] @ u - rows[1], x, rho * scale)
    return sub, np.array(solver.result.x)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(-9, -2), st.floats(0.1, 10))
def test_distance_and_gap_on_convex_problems(seed, exponent, rho):
    sub, best = polytope(seed, rho)
    mu = 10.0**exponent
    u = fixed(mu).minimise(sub, np.zeros(len(best)))
    gap = (
        mu * rho * 25 * (2 * len(best) + len(sub.constraint_group))
    )  # mu sum(weights), weights = rho width^2
    assert sub.phi(u) - sub.phi(best) <= gap
    assert np.linalg.norm(u - best) <= np.sqrt(2 * gap / rho) + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_every_newton_step_is_strictly_feasible(seed):
    sub, _ = polytope(seed)
    path = []
    block = fixed(1e-10, callback=lambda u, mu: path.append((u.copy(), mu[0])))
    block.minimise(sub, np.zeros(len(sub.lower)))
    assert len(path) >= 5
    assert all(b <= a for (_, a), (_, b) in itertools.pairwise(path))
    for u, _ in path:
        point = torch.tensor(u)
        assert (point > sub.lower).all()
        assert (point < sub.upper).all()
        assert (sub.rows(point) < 0).all()


def boundary(block, rows, iterations, rho=1.0):
    """Algorithm 1 on X = {0}, C = (-inf, 0], g = 0: multipliers and residuals."""
    width = 2.0
    lam = 0.0
    u = np.array([-0.5])
    trace = []
    for _ in range(iterations):
        at = lam
        if rows:
            sub = Subproblem(lambda u: at * u, [-width], [width], lambda u: u, rho=rho)  # noqa: B023
        else:
            sub = Subproblem(lambda u: at * u, [-width], [0.0], rho=rho)  # noqa: B023
        u = block.minimise(sub, u)
        lam += rho * u[0]
        trace.append((lam, abs(u[0])))
    return np.array(trace)


@pytest.mark.parametrize("rows", [True, False])
def test_a_fixed_mu_never_lets_u_meet_x_on_the_boundary(rows):
    rho = 1.0
    k = 100
    width = 4.0 if rows else 2.0
    mu = 1e-3
    lam, residual = boundary(fixed(mu), rows, k, rho)[-1]
    absolute = mu * rho * width**2
    # exact up to the logarithms of the other sides and the inner tolerance
    assert lam == pytest.approx(-np.sqrt(2 * rho * absolute * k), rel=0.1)
    assert residual == pytest.approx(np.sqrt(absolute / (2 * rho * k)), rel=0.1)


@pytest.mark.parametrize("rows", [True, False])
def test_with_mu_to_zero_they_meet(rows):
    trace = boundary(LogBarrier(), rows, 12)
    assert trace[-1, 1] < 1e-6
    assert abs(trace[-1, 0]) < 0.05


def test_negative_curvature_still_leads_to_a_local_minimiser():
    # double well u^4/4 - u^2/2 in each coordinate, started at its top, with a tilt
    sub = Subproblem(
        lambda u: u**4 / 4 - u**2 / 2 + 1e-3 * u, np.full(3, -2.0), np.full(3, 3.0), rho=1e-3
    )
    start = np.array([0.0, 0.05, -0.1])
    u = fixed(1e-12).minimise(sub, start)
    assert sub.phi(u) < sub.phi(start)
    slope = u**3 - u + 1e-3 + 1e-3 * u
    np.testing.assert_allclose(slope, 0, atol=1e-5)
    assert (3 * u**2 - 1 > 0).all()


def test_phase_one_finds_the_inside_of_a_nonconvex_set():
    # a ring, cut by a half-plane: the start is in its hole
    def rows(u):
        r = (u**2).sum()
        return torch.stack([1.0 - r, r - 2.0, 0.5 - u[0]])

    sub = Subproblem(nothing, [-2.0, -2.0], [2.0, 2.0], rows, x=[0.0, 0.3])
    block = fixed(1e-10)
    u = block.minimise(sub, np.array([-0.2, 0.1]))
    assert block.phase_one == "ok"
    assert (rows(torch.tensor(u)) < 0).all()
    assert sub.phi(u) == pytest.approx(
        0.5 * (1 + 0.09 - 0.6 * np.sqrt(0.75)), abs=1e-4
    )  # at (1/2, sqrt(3)/2)


def test_an_empty_set_is_reported_and_handled_by_the_hinge():
    sub = Subproblem(nothing, [-1.0], [1.0], lambda u: torch.cat([u + 0.5, 0.5 - u]), x=[0.2])
    block = fixed(1e-10)
    u = block.minimise(sub, np.array([0.7]))
    assert block.phase_one == "failed"
    assert u[0] == pytest.approx(
        0.2 / 2001, abs=1e-4
    )  # the rows pull with 1000 (u + 1/2) - 1000 (1/2 - u)
    np.testing.assert_allclose(block.minimise(sub, u), u, atol=1e-6)


def test_equalities_have_no_inside_and_take_the_hinge():
    sub = Subproblem(
        nothing,
        [-1.0],
        [1.0],
        lambda u: torch.cat([u - 0.5, 0.5 - u, u - 0.9]),
        interior=[False, False, True],
    )
    block = fixed(1e-10)
    assert block.minimise(sub, np.array([0.0]))[0] == pytest.approx(0.5, abs=1e-3)
    assert block.phase_one == "ok"
    only = Subproblem(
        nothing, [-1.0], [1.0], lambda u: torch.cat([u - 0.5, 0.5 - u]), interior=[False, False]
    )
    assert block.minimise(only, np.array([0.0]))[0] == pytest.approx(0.5, abs=1e-3)
    assert block.phase_one == "no rows"


def tanh_net(n, p, seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(p, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    net.requires_grad_(False)
    return lambda u: net(u.view(n, p)).reshape(-1)


def networks(n, p, which=None, factor=1.0, x=None):
    """n samples of p inputs with one tanh row each; `which` picks one of them."""
    net = tanh_net(n, p) if which is None else tanh_net(1, p)
    count = n if which is None else 1
    x = np.random.default_rng(3).uniform(-1.5, 1.5, (n, p))
    x = x.ravel() if which is None else x[which]
    return Subproblem(
        lambda u: factor * (net(u)[:, None] * torch.ones(count, p) / p).reshape(-1),
        np.full(count * p, -1.0),
        np.full(count * p, 1.0),
        lambda u: factor * (-net(u) - 0.1),
        x,
        2.0 * factor,
        np.repeat(np.arange(count), p),
        np.arange(count),
    )


def test_groups_together_give_what_each_gives_alone():
    n = 6
    p = 4
    together = LogBarrier(mu_final=1e-8).minimise(networks(n, p), np.zeros(n * p)).reshape(n, p)
    for i in range(n):
        alone = LogBarrier(mu_final=1e-8).minimise(networks(n, p, which=i), np.zeros(p))
        np.testing.assert_allclose(together[i], alone, atol=1e-7)


def test_units_of_the_objective_do_not_matter():
    plain = LogBarrier()
    large = LogBarrier()
    u = v = np.zeros(24)
    for _ in range(3):
        u = plain.minimise(networks(6, 4), u)
        v = large.minimise(networks(6, 4, factor=1024.0), v)
        np.testing.assert_allclose(u, v, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_lbfgsb_agrees_on_convex_problems(seed):
    sub, best = polytope(seed)
    start = np.zeros(len(best))
    for method in ("newton", "lbfgsb"):
        np.testing.assert_allclose(fixed(1e-7, method=method).minimise(sub, start), best, atol=5e-3)
    free = Subproblem(nothing, [-1.0, -1.0], [1.0, 1.0], x=[2.0, 0.3])
    # L-BFGS-B ends where the value falls by rounding alone: phi - min phi <= 50 eps, and phi bends
    # by rho = 1
    off = np.sqrt(2 * 50 * np.finfo(float).eps)
    np.testing.assert_allclose(
        LogBarrier("lbfgsb").minimise(free, np.zeros(2)), [1.0, 0.3], rtol=0, atol=off
    )


def test_hessian_vector_products_against_finite_differences():
    sub = networks(3, 4)
    weights = torch.rand(
        2 * 12 + 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    mu = torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64)
    groups = (sub.group, sub.constraint_group, 3)
    barred = torch.tensor([True, False, True])
    weights[-2] = 0.0
    f = BarrierProblem(sub.parts, sub.lower, sub.upper, *groups, barred, weights, 2.0)
    u = torch.tensor(LogBarrier(mu_final=1e-2).minimise(sub, np.zeros(12)))
    v = torch.tensor(np.random.default_rng(0).normal(size=12))

    def at(w):
        point = BarrierPoint(f, w)
        point.differentiate(weights * mu[f.side_group] / point.slack)
        return point

    step = 1e-6
    expected = (at(u + step * v).gradient(mu) - at(u - step * v).gradient(mu)) / (2 * step)
    np.testing.assert_allclose(at(u).hessian_times(v, mu), expected, rtol=1e-5, atol=1e-6)
    value = [(p.phi - mu * p.logs).sum() for p in (at(u + step * v), at(u - step * v))]
    assert (at(u).gradient(mu) * v).sum().item() == pytest.approx(
        (value[0] - value[1]).item() / (2 * step), rel=1e-6
    )


def test_piecewise_linear_objectives_have_no_curvature_of_their_own():
    sub = Subproblem(lambda u: 3 * torch.relu(u - 0.25) - u, [-1.0], [1.0], rho=0.5)
    assert fixed(1e-12).minimise(sub, np.array([-0.5]))[0] == pytest.approx(0.25, abs=1e-2)


def test_a_network_without_a_value_is_named():
    sub = Subproblem(torch.log, [-1.0], [1.0])
    with pytest.raises(ProblemError, match="NaN"):
        LogBarrier().minimise(sub, np.array([-0.5]))


def fused_attention(u):
    tokens = u.view(1, 1, 3, 1)
    return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens).reshape(-1)


def test_a_network_without_second_derivatives_is_named_with_the_remedy():
    sub = Subproblem(fused_attention, np.full(3, -1.0), np.full(3, 1.0), x=[0.9, 0.1, -0.3])
    with pytest.raises(ProblemError, match="lbfgsb"):
        LogBarrier().minimise(sub, np.zeros(3))
    u = LogBarrier("lbfgsb").minimise(sub, np.zeros(3))
    np.testing.assert_allclose(gradient_step(sub, u), u, atol=1e-6)


def gradient_step(sub, u):
    """One projected gradient step."""
    point = torch.tensor(u, requires_grad=True)
    (slope,) = torch.autograd.grad(sub.parts(point)[0].sum(), point)
    return torch.clamp(point - slope, sub.lower, sub.upper).detach().numpy()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"method": "sqp"}, "newton"),
        ({"mu": 0.0}, "mu_final"),
        ({"mu_final": 1.0}, "mu_final"),
        ({"shrink": 1.0}, "shrink"),
        ({"steps": 0}, "steps"),
        ({"cg_steps": 0}, "steps"),
    ],
)
def test_arguments_are_checked(options, word):
    with pytest.raises(ValueError, match=word):
        LogBarrier(**options)
    assert (
        repr(LogBarrier.paper("lbfgsb")) == "LogBarrier(method='lbfgsb', mu=0.01, mu_final=1e-08)"
    )


@pytest.mark.parametrize("kind", ["quadratic", "softplus", "tanh"])
@pytest.mark.parametrize(
    "block", [LogBarrier(), LogBarrier("lbfgsb"), LogBarrier.paper()], ids=repr
)
def test_swapping_blocks_changes_little_on_smooth_problems(kind, block):
    net = smooth(kind, p=3, seed=1)
    rho = 1.5 * net.threshold
    answers = [
        DualDecomposition(nn_block=b, penalty=rho).solve(
            build(net.net, 3, vtype="I", low=-2, high=2).problem
        )
        for b in (PGD(steps=200), block)
    ]
    assert answers[0].objective == pytest.approx(answers[1].objective, abs=1e-6)


def test_rows_on_outputs_are_kept_strictly():
    # the lowest corner of a ball that each of three samples must stay in
    built = build(
        Quadratic(np.eye(2), np.zeros(2)), 2, n=3, low=-2.0, high=2.0, cost=np.array([0.9, -0.6])
    )
    for y in built.y.flat:
        built.model.addCons(y <= 0.18)
    built.model.setObjective((built.x * np.array([0.9, -0.6])).sum())
    inside = []
    solver = DualDecomposition(
        LogBarrier(), 2.0, max_iterations=40, callback=lambda run: inside.append(run.u.copy())
    )
    solution = solver.solve(built.problem, time_limit=LONG)
    assert solution.objective == pytest.approx(-3 * 0.6 * np.hypot(0.9, 0.6), abs=1e-3)
    assert all((np.sum(u.reshape(3, 2) ** 2, axis=1) < 0.36).all() for u in inside)


class Square(nn.Module):
    """|x|^2, through a parameter so that its type can be read off."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(1, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one * (x**2).sum(1, keepdim=True)


def test_a_run_with_rows_held_by_the_barrier_ends_as_converged() -> None:
    """min -x1 - x2 on the unit disc: the row is active, and its multiplier lives in the block."""
    built = build(Square(), 2, low=-2.0, high=2.0, cost=np.array([-1.0, -1.0]))
    built.model.addCons(built.y[0, 0] <= 1.0)
    built.model.setObjective(-built.x.sum(), "minimize")
    solution = DualDecomposition(LogBarrier(steps=30), penalty=1.0, max_iterations=300).solve(
        built.problem, time_limit=LONG
    )
    assert solution.status == "converged"
    assert solution.objective == pytest.approx(-np.sqrt(2), abs=1e-3)
    assert built.problem.verify(solution).feasible
