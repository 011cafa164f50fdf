"""Penalty rules on the tie example of theory: X = {0, 1}, g = (u - 1/2)^2 / 2, which cycles for
every rho < L = 1.
"""

import numpy as np
import pytest

from ddmip_lib import PGD, DualDecomposition, Trace
from ddmip_lib.decomposition.penalty import (
    DescentTest,
    Fixed,
    IncreaseOnStagnation,
    Penalty,
    ResidualBalancing,
    ResidualInfo,
    Sweeps,
)
from tests.builders.clocks import LONG
from tests.builders.smooth import Quadratic, Smooth, restricted

TIE = Smooth(Quadratic(np.eye(1), np.array([0.5])), upper=1.0, lower=0.0)
LEFT = TIE.slope_left(rho=2 * 2.15, value=1.0)
"""What an NN step on `TIE` leaves of the slope, and so the error of a multiplier, and of rho times
a residual twice.
"""


def run_tie(rule, iterations=150, **options):
    """Runs to the last iteration: neither residuals nor cycles end it."""
    built = restricted(TIE.net, 1, 0, 1)
    trace = Trace()
    solver = DualDecomposition(
        PGD(steps=300, tolerance=1e-13),
        rule,
        max_iterations=iterations,
        primal_tolerance=1e-12,
        dual_tolerance=1e-12,
        detect_cycles=False,
        callback=trace,
        **options,
    )
    built.problem.set_start([[0.3]])
    return solver.solve(built.problem, time_limit=LONG), trace


class TestDescentTest:
    @pytest.mark.parametrize("rho", [0.01, 0.05, 0.2, 0.9])
    def test_stops_increasing_by_itself_and_converges(self, rho: float) -> None:
        solution, _ = run_tie(DescentTest(rho))
        rhos = solution.history["rho"]
        assert (np.diff(rhos) >= 0).all()
        # the test holds for every rho >= 2.15 L (sigma = 0.05), so the last increase starts below
        # that
        assert 1.0 < rhos[-1] <= 2 * 2.15
        assert solution.history["primal_residual"][-1] < 2 * LEFT / solution.history["rho"][-1]
        # at most ceil(log2(2.15 L / rho)) increases
        assert np.log2(rhos[-1] / rho) <= np.ceil(np.log2(2.15 / rho)) + 1e-9

    def test_leaves_a_sufficient_penalty_alone(self) -> None:
        solution, _ = run_tie(DescentTest(2.5), iterations=60)
        assert set(solution.history["rho"]) == {2.5}
        assert solution.history["primal_residual"][-1] < 1e-6

    def test_lagrangian_never_rises_after_the_last_increase(self) -> None:
        solution, _ = run_tie(DescentTest(0.05), iterations=100)
        h = solution.history
        settled = h["rho"] == h["rho"][-1]
        values = h["lagrangian"][settled]
        assert len(values) > 3
        assert (np.diff(values) <= 5 * LEFT).all()  # as in Theorem A, with moves below one


class TestIncreaseOnStagnation:
    def test_ends_the_cycle_by_freezing(self) -> None:
        fixed, _ = run_tie(Fixed(0.2))
        assert fixed.history["primal_residual"][-1] > 0.4
        solution, _ = run_tie(IncreaseOnStagnation(0.2, patience=1))
        assert solution.history["primal_residual"][-1] < 2 * LEFT / solution.history["rho"][-1]
        assert solution.history["rho"][-1] >= 1.0

    def test_waits_for_its_patience(self) -> None:
        rule = IncreaseOnStagnation(1.0, factor=3.0, patience=4)
        rho = rule.first(Penalty.both(7.0))
        seen = []
        for residual in (1.0, 0.95, 0.95, 0.5, 0.49, 0.49, 0.48, 0.48, 0.1):
            rho = rule.after(ResidualInfo(rho, (residual, 0.0), (1.0, 0.0), False))
            assert rho is not None
            seen.append(rho.inputs)
        assert seen == [1.0] * 7 + [3.0, 3.0]


class TestResidualBalancing:
    def test_both_directions_and_both_parts(self) -> None:
        rule = ResidualBalancing(1.0, factor=4.0, ratio=5.0)
        after = rule.after(ResidualInfo(Penalty(1.0, 2.0), (1.0, 0.1), (0.1, 1.0), False))
        assert after == (4.0, 0.5)
        assert rule.after(ResidualInfo(Penalty(1.0, 2.0), (1.0, 1.0), (0.5, 0.5), False)) == (
            1.0,
            2.0,
        )

    def test_does_not_reach_the_threshold_on_the_tie(self) -> None:
        solution, _ = run_tie(ResidualBalancing(0.2))
        assert solution.history["primal_residual"][-1] > 0.3
        assert solution.history["rho"][-1] < 1.0


@pytest.mark.parametrize("rule", [Fixed, IncreaseOnStagnation, ResidualBalancing, DescentTest])
def test_rules_start_at_the_scale_and_end_when_settled(rule) -> None:
    scale = Penalty(0.3, 4.0)
    assert rule().first(scale) == scale
    assert rule((1.0, 2.0)).first(scale) == (1.0, 2.0)
    assert rule().after(ResidualInfo(scale, (0.0, 0.0), (0.0, 0.0), settled=True)) is None


def test_sweeps_scale_both_parts() -> None:
    rule = Sweeps(low=0.5, high=8.0, lengths=(5, 2))
    rho = rule.first(Penalty(2.0, 20.0))
    seen = [rho]
    while (rho := rule.after(ResidualInfo(rho, (1.0, 1.0), (1.0, 1.0), False))) is not None:
        seen.append(rho)
    np.testing.assert_allclose([r.inputs for r in seen], [1, 2, 4, 8, 16, 1, 16])
    np.testing.assert_allclose([r.outputs / r.inputs for r in seen], 10.0)


def test_multiplier_safeguard_clips() -> None:
    _, free = run_tie(Fixed(0.2), iterations=50)
    _, clipped = run_tie(Fixed(0.2), iterations=50, multiplier_bound=0.05)
    assert np.abs(free.lam).max() > 0.06
    assert np.abs(clipped.lam).max() == pytest.approx(0.05)


def test_the_multiplier_is_not_rescaled_when_rho_changes() -> None:
    """lam_k = -grad g(u_k) whatever rho was: the unscaled multiplier survives a change of the
    penalty.
    """
    solution, trace = run_tie(DescentTest(0.05), iterations=20)
    assert len(set(solution.history["rho"])) > 3
    np.testing.assert_allclose(
        np.concatenate(trace.lam), 0.5 - np.concatenate(trace.u), rtol=0, atol=LEFT
    )
