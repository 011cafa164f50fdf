"""Penalty rules on exact small problems: what the chapter on penalties and stopping proves, and its
figures.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples.tiny import Tiny, quadratic, ruled_by
from ddmip_book.examples.tradeoff import tanh_problem
from ddmip_book.figures import penalties_stopping as figures
from ddmip_book.figures.kit import plot_runs
from ddmip_lib import DescentTest, Fixed, IncreaseOnStagnation, ResidualBalancing, Sweeps


def tie(ell: float = 1.0, cost: float = 0.0) -> Tiny:
    return quadratic([[0], [1]], curvature=ell, centre=0.5, cost=cost)


class TestRules:
    def test_fixed_holds_and_one_sweep_follows_its_schedule(self) -> None:
        assert (tie().run(ruled_by(Fixed(0.3)), 8, u=0.3).rho == 0.3).all()
        rho = tie().run(ruled_by(Sweeps(0.25, 4.0, (5,)), scale=2.0), 7, u=0.3).rho
        np.testing.assert_allclose(rho, [0.5, 1, 2, 4, 8, 8, 8])

    def test_a_rule_can_be_used_twice(self) -> None:
        """A run does not change the rule that the reader holds."""
        rule = IncreaseOnStagnation(0.2, patience=2)
        first, second = (tie().run(ruled_by(rule), 20, u=0.3, lam=0.2) for _ in range(2))
        np.testing.assert_array_equal(first.rho, second.rho)
        assert first.rho[-1] > 1

    @pytest.mark.parametrize("ell", [0.02, 0.5, 1.0, 8.0])
    def test_balancing_rests_where_the_ratio_of_the_cycle_says(self, ell: float) -> None:
        """The ratio of the residuals in the cycle is rho^2 / ell, so a rest below ell needs rho^2
        >= ell / 10.
        """
        path = tie(ell).run(ruled_by(ResidualBalancing(1e-3 * ell)), 200, u=0.3, lam=0.2 * ell)
        rho = path.rho[-1]
        if ell < 0.1:
            assert rho > ell
            assert path.residual[-1] < 1e-6
        else:
            assert np.sqrt(ell / 10) <= rho <= 2 * np.sqrt(ell / 10)
            assert path.residual[-1] == pytest.approx(ell / (rho + 2 * ell), abs=1e-4)

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(
        st.floats(0.3, 5),
        st.floats(0.005, 8),
        st.floats(0.01, 0.2),
        st.floats(1.3, 4),
        st.integers(0, 10_000),
    )
    def test_descent_test_raises_finitely_often_and_settles(
        self, ell: float, rho: float, sigma: float, factor: float, seed: int
    ) -> None:
        random = np.random.default_rng(seed)
        points = random.integers(-2, 3, size=(9, 2))
        problem = quadratic(points, ell, random.normal(size=2), 0.5 * ell * random.normal(size=2))
        path = problem.run(ruled_by(DescentTest(rho, factor, sigma)), 300, u=random.normal(size=2))
        enough = ell * (1 + np.sqrt(1 + 8 * (1 - 2 * sigma))) / (2 * (1 - 2 * sigma))
        increases = int((np.diff(path.rho) > 0).sum())
        assert increases <= max(0, np.ceil(np.log(enough / rho) / np.log(factor)))
        assert (np.diff(path.rho) >= 0).all()
        assert path.residual[-1] < 1e-4
        at = path.x[-1]
        gradient = problem.gradient(path.x[-1]) + problem.cost
        moves = problem.points - at
        assert (moves @ gradient + path.rho[-1] / 2 * (moves**2).sum(1)).min() > -1e-3

    def test_descent_test_settles_on_a_nonconvex_network(self) -> None:
        problem, ell = tanh_problem(seed=2)
        path = problem.run(ruled_by(DescentTest(0.2)), 40)
        assert path.residual[-1] < 1e-6
        assert 0.2 < path.rho[-1] < 2.2 * 2 * ell


class TestResiduals:
    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(st.floats(0.2, 6), st.integers(0, 10_000))
    def test_what_the_two_residuals_certify(self, rho: float, seed: int) -> None:
        random = np.random.default_rng(seed)
        problem = quadratic(
            random.integers(-3, 4, size=(12, 3)), 1.0, random.normal(size=3), random.normal(size=3)
        )
        path = problem.run(rho, 6, u=random.normal(size=3))
        u_old = path.start[0]
        for x, u, lam, _ in path.rows:

            def question(z: np.ndarray, u: np.ndarray = u, lam: np.ndarray = lam) -> np.ndarray:
                return z @ (problem.cost - lam) + rho / 2 * ((z - u) ** 2).sum(-1)

            error = (problem.points - x) @ (rho * (u - x) + rho * (u - u_old))
            assert (question(x) <= question(problem.points) + error + 1e-9).all()
            u_old = u

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.floats(0.1, 50), st.integers(0, 10_000))
    def test_distance_sandwich(self, rho: float, seed: int) -> None:
        """With a linear g and C a box."""
        random = np.random.default_rng(seed)
        slope, lam = 3 * random.normal(size=(2, 3))
        low = random.normal(size=3)
        high = low + random.uniform(0, 2, size=3)
        x = 3 * random.normal(size=3)
        u = np.clip(x - (slope + lam) / rho, low, high)
        away = np.linalg.norm(x - np.clip(x, low, high))
        residual = np.linalg.norm(u - x)
        assert away - 1e-12 <= residual
        assert residual <= away + 2 * (np.linalg.norm(slope) + np.linalg.norm(lam)) / rho + 1e-12

    @pytest.mark.parametrize(("beta", "end"), [(1.0, 1), (2.4, 1), (2.6, 0), (3.0, 0)])
    def test_a_penalty_can_outrun_the_multiplier(self, beta: float, end: int) -> None:
        trap = quadratic([[0], [1]], curvature=0.0, low=0.3, high=1.0)
        assert trap.run(lambda path: beta ** len(path.rows), 60, u=0.3).x[-1, 0] == end


class TestSmallNetworks:
    @pytest.mark.parametrize("rho", [0.1, 2.0, 20.0])
    def test_the_u_step_is_stationary_and_no_worse_than_random_points(self, rho: float) -> None:
        problem, ell = tanh_problem(seed=3)
        random = np.random.default_rng(0)
        v = random.normal(size=8)
        u = problem.u_step(v, rho)
        np.testing.assert_allclose(problem.gradient(u) + rho * (u - v), 0.0, atol=1e-7)

        def value(z: np.ndarray) -> float:
            return problem.g(z) + rho / 2 * float((z - v) @ (z - v))

        others = u + np.geomspace(1e-3, 1.0, 200)[:, None] * random.normal(size=(200, 8))
        spread = others[: 200 if rho > ell else 100]  # below ell only a local minimum is promised
        assert min(map(value, spread)) >= value(u) - 1e-12

    def test_the_gradient_and_its_lipschitz_bound(self) -> None:
        problem, ell = tanh_problem(seed=5)
        random = np.random.default_rng(1)
        for _ in range(50):
            a, b = random.normal(size=(2, 8))
            step = 1e-6 * random.normal(size=8)
            slope = (problem.g(a + step) - problem.g(a - step)) / 2
            assert slope == pytest.approx(problem.gradient(a) @ step, rel=1e-4, abs=1e-12)
            gap = np.linalg.norm(problem.gradient(a) - problem.gradient(b))
            assert gap <= ell * np.linalg.norm(a - b)

    def test_at_most_five_ones(self) -> None:
        points = tanh_problem(seed=0, inputs=6, most=2)[0].points
        assert len(points) == 1 + 6 + 15
        assert points.sum(1).max() == 2


class TestFigures:
    def test_picks_show_the_last_decision_of_every_run(self) -> None:
        runs = {
            k: tie(cost=-0.02).run(
                lambda p, k=k: 0.5 if len(p.rows) < k else 2.5, 40, u=0.3, lam=0.2
            )
            for k in (10, 11, 12)
        }
        left, right = figures.plot_picks(runs, shown=[10, 11])
        assert right.get_lines()[0].get_ydata().tolist() == [1, 0, 1]
        assert len(left.get_lines()) == 2

    def test_runs_leave_a_gap_where_the_log_has_no_value(self) -> None:
        runs = {"a": {"r": [1.0, 0.0, 2.0], "f": [0.0, -1.0, 3.0]}, "b": {"r": [3.0], "f": [1.0]}}
        upper, lower = plot_runs(runs, {"r": "residual", "f": "cost"}, linear=["f"])
        np.testing.assert_array_equal(upper.get_lines()[0].get_ydata(), [1.0, np.nan, 2.0])
        assert (upper.get_yscale(), lower.get_yscale()) == ("log", "linear")
        dashes = {line.get_linestyle() for line in upper.get_lines()}
        assert len(dashes) == 2, "told apart without colour"

    def test_strips_of_one_quantity_have_one_scale_and_gaps_at_zero(self) -> None:
        runs = {str(k): {"count": [k, k + 1.0], "penalty": [0.0, 10.0**k]} for k in range(4)}
        axes = figures.plot_rules(runs, columns=3, linear=["count"])
        counts = axes[:4]
        penalties = axes[4:]
        assert (
            len({ax.get_ylim() for ax in counts}) == len({ax.get_ylim() for ax in penalties}) == 1
        )
        assert {ax.get_yscale() for ax in counts} == {"linear"}
        assert {ax.get_yscale() for ax in penalties} == {"log"}
        assert [ax.get_ylabel() for ax in counts] == ["count", "", "", "count"]
        np.testing.assert_array_equal(penalties[2].get_lines()[0].get_ydata(), [np.nan, 100.0])

    def test_trade_off_and_cycle_draw_what_they_are_given(self) -> None:
        upper, lower = figures.plot_trade_off([0.1, 1], [0.3, 0.2], [0.0, 0.1], [0.0, 1.0])
        assert [line.get_ydata().tolist() for line in upper.get_lines()] == [[0.3, 0.2], [0.0, 0.1]]
        assert lower.get_lines()[0].get_ydata().tolist() == [0.0, 1.0]
        upper, lower = figures.plot_price_cycle([0, 1], [0.2, 0.3], [1.0, 1.5], threshold=1.2)
        assert lower.get_lines()[0].get_ydata().tolist() == [1.0, 1.5]
