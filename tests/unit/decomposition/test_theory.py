"""Identities and Theorem A of the theory chapter, on real runs of `DualDecomposition`."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_lib import DualDecomposition
from ddmip_lib.decomposition.nn_block import NNSubproblem
from ddmip_lib.decomposition.penalty import Penalty
from tests.builders.instances import Built, build, lattice
from tests.builders.networks import linear
from tests.builders.smooth import WIDE, Cosine, Quadratic, Trace, exact, restricted, smooth


class TestIdentities:
    """I1 to I3, with the library's own L_rho, step and NN subproblem."""

    @pytest.mark.parametrize("kind", ["quadratic", "softplus", "tanh"])
    @pytest.mark.parametrize("seed", range(3))
    def test_all(self, kind: str, seed: int) -> None:
        rng = np.random.default_rng(100 + seed)
        p = 2
        rho = float(rng.uniform(2, 8))
        s = smooth(kind, p, seed)
        cost = rng.normal(size=2)
        solver = exact(rho)
        run = solver.start(restricted(s.net, p, -2, 2, cost).problem)
        run.lam = rng.normal(size=p)
        before = run.lam
        solver.step(run)
        assert run.x is not None
        r = run.u - run.x[run.split.coupled]
        # I2: the multiplier step is lam + rho r and raises L_rho by rho |r|^2
        np.testing.assert_allclose(run.lam, before + rho * r, rtol=1e-12)
        raised = run.lagrangian() - replace(run, lam=before).lagrangian()
        assert raised == pytest.approx(rho * r @ r, rel=1e-9, abs=1e-11)
        assert run.history["lagrangian"][-1] == pytest.approx(run.lagrangian(), rel=1e-12)
        # I1: completing the square
        g = s.net(torch.tensor(run.u)[None]).item()
        x = run.x[run.split.coupled]
        square = 0.5 * rho * ((r + run.lam / rho) ** 2).sum() - (run.lam**2).sum() / (2 * rho)
        assert run.lagrangian() == pytest.approx(cost @ x + g + square, rel=1e-10)
        # I3: above the minimiser of the u-step, phi grows by D_g + rho/2 |.|^2
        sub = NNSubproblem(run.split, x, before, Penalty.both(rho))
        low, slope = sub.values_and_gradient(run.u)
        left = s.slope_left(rho, low.sum())
        assert np.linalg.norm(slope) < left
        move = rng.normal(size=p)
        point = run.u + move
        gradient = run.split.gradient(run.u)
        bregman = s.net(torch.tensor(point)[None]).item() - g - gradient @ move
        rise = (sub.values_and_gradient(point)[0] - low).sum()
        assert rise == pytest.approx(
            bregman + 0.5 * rho * move @ move, rel=0, abs=left * np.linalg.norm(move)
        )
        # stationarity of the u-step: the multiplier is minus the gradient
        np.testing.assert_allclose(run.lam, -gradient, rtol=0, atol=left)

    def test_order_of_the_updates_is_douglas_rachford(self) -> None:
        """With s = u - lam/rho: x+ = P_X(2u - s - c/rho), s+ = s + x+ - u."""
        cost = np.array([0.4, -0.7])
        rho = 2.3
        s = smooth("quadratic", 2, 5)
        solver = exact(rho)
        run = solver.start(restricted(s.net, 2, -2, 2, cost).problem)
        points = lattice(-2, 2, 2)
        for _ in range(6):
            u = run.u
            shifted = run.u - run.lam / rho
            solver.step(run)
            target = 2 * u - shifted - cost / rho
            nearest = points[((points - target) ** 2).sum(axis=1).argmin()]
            assert run.x is not None
            np.testing.assert_array_equal(run.x[run.split.coupled], nearest)
            np.testing.assert_allclose(run.u - run.lam / rho, shifted + nearest - u, atol=1e-9)


class TestTheoremA:
    """Above max{L, 2m}, without rows on outputs and with a box that never binds."""

    @pytest.mark.parametrize("factor", [1.02, 2.5])
    @pytest.mark.parametrize(
        ("kind", "seed"), [("quadratic", 0), ("quadratic", 1), ("softplus", 2), ("tanh", 3)]
    )
    def test_every_clause(self, kind: str, seed: int, factor: float) -> None:
        p = 2
        s = smooth(kind, p, seed)
        rho = factor * s.threshold
        cost = 0.5 * np.random.default_rng(seed).normal(size=p)
        built = restricted(s.net, p, -3, 3, cost)
        built.model.addCons(built.x.sum() <= 4)
        points = lattice(-3, 3, p)
        points = points[points.sum(axis=1) <= 4]
        trace = Trace()
        solution = exact(rho, trace).solve(built.problem)
        assert solution.status == "converged"

        u = np.array(trace.u)
        x = np.array(trace.x)
        lam = np.array(trace.lam)
        assert np.abs(u).max() < WIDE - 1
        f = points @ cost + s.net(torch.tensor(points)).numpy().ravel()
        lagrangian = solution.history["lagrangian"]
        objective = solution.history["objective"]
        r2 = ((u - x) ** 2).sum(axis=1)
        du2 = (np.diff(u, axis=0) ** 2).sum(axis=1)
        delta = s.delta(rho)
        # the proofs meet each slope that a u-step leaves at most five times, as a factor of a move
        # or a residual
        slack = (
            5
            * s.slope_left(rho, np.abs(lagrangian).max())
            * max(1.0, np.sqrt(max(du2.max(), r2.max())))
        )
        # (i) and Lemma 2, Lemma 3
        assert (np.diff(lagrangian) <= -delta * du2 + slack).all()
        assert (lagrangian >= objective + 0.5 * (rho - s.upper) * r2 - slack).all()
        assert (objective >= f.min() - slack).all()
        # (ii)
        room = lagrangian[0] - f.min() + len(u) * slack
        assert du2.sum() <= room / delta
        bound = s.upper**2 * room / (rho**2 * delta)
        assert r2[1:].sum() <= bound
        steps = np.arange(1, len(r2))
        assert (np.minimum.accumulate(r2[1:]) <= bound / steps).all()
        # (iv), (v)
        last = x[-1]
        slope = (
            cost
            + torch.autograd.functional.jacobian(s.net, torch.tensor(last)[None])[0, 0, 0].numpy()
        )
        d = points - last
        assert (d @ slope + 0.5 * rho * (d**2).sum(axis=1)).min() >= -1e-6 * rho
        np.testing.assert_allclose(lam[-1], cost - slope, atol=1e-5 * rho)
        assert lagrangian[-1] == pytest.approx(objective[-1], abs=1e-6 * rho)
        # the incumbent is the best of the visited points, not the last
        assert solution.objective == pytest.approx(objective.min(), abs=1e-9)

    def test_started_at_a_point_with_its_multiplier_it_never_gets_worse(self) -> None:
        """(viii)"""
        s = smooth("tanh", 2, 7)
        built = restricted(s.net, 2, -3, 3)
        built.problem.set_start([[2.0, -1.0]])
        solver = exact(1.05 * s.threshold)
        run = solver.start(built.problem)
        run.lam = -run.split.gradient(run.u)
        at_start = s.net(torch.tensor([[2.0, -1.0]], dtype=torch.float64)).item()
        for _ in range(15):
            solver.step(run)
            assert run.history[-1].objective <= at_start + 1e-8


class TestSharpness:
    """Below the threshold the examples cycle, with the amplitudes that the theory states."""

    def tie(self, big: float) -> Built:
        return restricted(Quadratic(np.array([[big]]), np.array([0.5])), 1, 0, 1)

    @pytest.mark.parametrize(("ratio", "big"), [(0.5, 1.0), (0.99, 1.0), (0.99, 3.0)])
    def test_tie_cycles_below(self, ratio: float, big: float) -> None:
        built = self.tie(big)
        built.problem.set_start([[0.3]])
        trace = Trace()
        rho = ratio * big
        solution = exact(rho, trace, detect_cycles=False, max_iterations=60).solve(built.problem)
        assert solution.status == "iteration_limit"
        amplitude = (1 / ratio) / (1 + 2 / ratio)
        np.testing.assert_allclose(solution.history["primal_residual"][-10:], amplitude, atol=1e-5)
        x = np.array(trace.x)[-10:, 0]
        np.testing.assert_array_equal(x[1:], 1 - x[:-1])

    def test_tie_is_reported_as_a_cycle(self) -> None:
        built = self.tie(1.0)
        built.problem.set_start([[0.3]])
        solution = exact(0.99, max_iterations=400).solve(built.problem)
        assert solution.status == "cycle"
        # both points are optimal and were verified on the way
        assert solution.objective == pytest.approx(1 / 8)

    def test_tie_converges_above(self) -> None:
        built = self.tie(1.0)
        built.problem.set_start([[0.3]])
        assert exact(1.01).solve(built.problem).status == "converged"

    def only_zero(self, net: nn.Module, rho: float, iterations: int) -> np.ndarray:
        """|u^k - x^k| for X = {0}, from lam = -g'(0.1)."""
        solver = exact(rho, detect_cycles=False)
        run = solver.start(restricted(net, 1, 0, 0).problem)
        run.lam = -run.split.gradient(np.array([0.1]))
        for _ in range(iterations):
            solver.step(run)
        return run.history["primal_residual"]

    @pytest.mark.parametrize(("rho", "residual"), [(1.5, 1.276), (1.9, 0.552)])
    def test_cosine_cycles_below_twice_its_curvature(self, rho: float, residual: float) -> None:
        r = self.only_zero(Cosine(), rho, 120)
        np.testing.assert_allclose(r[-5:], residual, atol=2e-3)

    def test_cosine_converges_above(self) -> None:
        assert self.only_zero(Cosine(), 2.1, 120)[-1] < 1e-4

    @pytest.mark.parametrize("rho", [1.5, 2.0, 2.5])
    def test_concave_quadratic_moves_by_its_factor(self, rho: float) -> None:
        """u+ = -m/(rho - m) u with m = 1: doubles, keeps its size, shrinks to two thirds."""
        concave = Quadratic(np.array([[-1.0]]), np.array([0.0]))
        r = self.only_zero(concave, rho, 6)
        np.testing.assert_allclose(r[1:] / r[:-1], 1 / (rho - 1), rtol=1e-6)


class TestStoppingRule:
    """B-5: X = {0, ..., 10}, c = -3, g = 0, rho = 1 has residual 0 at every iterate, long before
    the optimum.
    """

    def built(self) -> Built:
        built = build(linear(0.0), 1, vtype="I", low=0, high=10, cost=np.array([-3.0]))
        built.problem.set_start([[0.0]])
        return built

    def test_primal_residual_alone_stops_too_early(self) -> None:
        trace = Trace()
        solution = DualDecomposition(penalty=1.0, dual_tolerance=None, callback=trace).solve(
            self.built().problem
        )
        assert solution.status == "converged"
        assert solution.objective == -9.0
        assert np.ravel(trace.x).tolist() == [3.0]
        assert solution.history["dual_residual"].tolist() == [pytest.approx(3.0)]

    def test_with_the_dual_residual_it_goes_on(self) -> None:
        trace = Trace()
        solution = DualDecomposition(penalty=1.0, callback=trace).solve(self.built().problem)
        assert solution.status == "converged"
        assert solution.objective == -30.0
        assert np.ravel(trace.x).tolist() == [3.0, 6.0, 9.0, 10.0, 10.0]
