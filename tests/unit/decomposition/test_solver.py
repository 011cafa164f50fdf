"""`DualDecomposition`: answers against enumeration, time, history, callback, determinism."""

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PGD, DualDecomposition, Solution
from ddmip_lib.clock import using
from ddmip_lib.decomposition.admm_state import ADMMState
from ddmip_lib.decomposition.penalty import Fixed, Sweeps
from ddmip_lib.model import History
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import Built, build, relu_net, tiny

PAST = 100  # looks at the clock, of the block in which time runs out and of what follows it
CLOCKS = {"seconds_solver", "seconds", "seconds_mip", "seconds_nn"}


def short(**options: object) -> DualDecomposition:
    return DualDecomposition(**({"penalty": Sweeps(lengths=(12,))} | options))  # type: ignore[arg-type]


def lively() -> Built:
    """A run on it with a tiny primal tolerance uses all iterations of its sweep, and moves."""
    return build(relu_net(3), 3, low=-2.0, high=2.0)


class TestAgainstEnumeration:
    def test_never_better_than_the_optimum_always_verified_and_mostly_optimal(self) -> None:
        """With one short sweep; the default runs three longer ones."""
        optimal = 0
        for seed in range(24):
            instance = tiny(seed)
            best = instance.optimum()
            assert best is not None
            solution = short().solve(instance.problem, time_limit=LONG)
            assert solution.objective is not None
            assert instance.problem.verify(solution).feasible
            assert instance.sign * (solution.objective - best) >= -1e-7
            optimal += abs(solution.objective - best) <= 1e-7
            # the reported point is one of the lattice, with the network's own outputs
            x = solution.inputs[0]
            assert (np.abs(instance.points - x).max(axis=1) < 1e-9).any()
            np.testing.assert_allclose(solution.outputs[0], instance.outputs(x), atol=1e-9)
        assert optimal >= 18

    @pytest.mark.parametrize("sense", ["minimize", "maximize"])
    def test_binding_output_row(self, sense: str) -> None:
        """min y s.t. y >= side over a continuous box: the row must bind, and hold."""
        net = relu_net(2, seed=3)
        built = build(net, 2, sense=sense, low=-1.0)
        low, high = (
            short().solve(build(net, 2, sense=s, low=-1.0).problem)
            for s in ("minimize", "maximize")
        )
        assert low.objective is not None
        assert high.objective is not None
        side = 0.5 * (low.objective + high.objective)
        built.model.addCons(built.y[0, 0] >= side if sense == "minimize" else built.y[0, 0] <= side)
        solution = DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG)
        assert solution.objective is not None
        assert solution.objective == pytest.approx(
            side, abs=0.05 * (high.objective - low.objective)
        )

    def test_class_that_a_row_demands(self) -> None:
        net = relu_net(3, seed=6)
        built = build(net, 3, vtype="I", low=-2, high=2, output="classification", cost=np.ones(3))
        built.model.addCons(built.y[0, 0] >= 1)
        solution = DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG)
        assert solution.found
        assert solution.outputs[0].item() == 1.0


class Kink(nn.Module):
    """5 relu(u1) - u1 + (u2 - 0.7)^2: autograd's slope at u1 = 0 points uphill."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("at", torch.tensor(0.7, dtype=torch.float64))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return 5 * torch.relu(u[:, :1]) - u[:, :1] + (u[:, 1:] - self.at) ** 2


def test_a_kink_at_the_start_does_not_freeze_the_nn_block() -> None:
    solution = DualDecomposition(penalty=1.0, max_iterations=60).solve(
        build(Kink(), 2, low=-1.0).problem
    )
    assert solution.objective is not None
    assert solution.objective < 5e-3
    assert solution.inputs[0][0, 1] == pytest.approx(0.7, abs=0.1)  # the smooth coordinate moves on


class TestTime:
    def test_limit_is_honoured(self) -> None:
        """Time passes with every look at the clock: no block begins after the last look within the
        limit.
        """
        problem = water_potability(n=20, net=mlp(2, 16, 9, seed=1), seed=42)
        began: list[float] = []
        with using(clock := Ticking()):
            solver = DualDecomposition(
                penalty=0.5, callback=lambda run: began.append(run.seconds_left)
            )
            solution = solver.solve(problem, time_limit=60.0)
        assert solution.status == "time_limit"
        assert solution.found
        assert len(solution.history) == len(began) > 1
        assert (np.array(began[:-1]) > 0).all()
        assert 60 <= solution.seconds < clock.looks < 60 + PAST

    def test_clocks_add_up(self) -> None:
        """Each look at the clock is a second later than the one before, so all seconds are counts
        of looks.
        """
        with using(Ticking()):
            solution = short(primal_tolerance=1e-12).solve(lively().problem, time_limit=LONG)
        h = solution.history
        assert len(h) == 12
        assert (np.diff(h["seconds"]) > 0).all()
        assert (h["seconds_mip"] > 0).all()
        assert (h["seconds_nn"] > 0).all()
        assert (
            h["seconds_mip"].sum() + h["seconds_nn"].sum() <= h["seconds"][-1] <= solution.seconds
        )


class TestHistory:
    def solved(self) -> Solution:
        return short().solve(tiny(4).problem, time_limit=LONG)

    def test_columns(self) -> None:
        solution = self.solved()
        h = solution.history
        for column in History.columns:
            assert h[column].shape == (len(h),)
        np.testing.assert_array_equal(h["k"], np.arange(1, len(h) + 1))
        for column in set(History.columns) - {"objective", "incumbent", "rho_outputs"}:
            assert np.isfinite(h[column]).all()
        assert h[-1].incumbent == solution.objective

    def test_incumbent_is_the_best_objective_so_far(self) -> None:
        instance = tiny(4)
        h = short().solve(instance.problem, time_limit=LONG).history
        best = np.fmin.accumulate(instance.sign * h["objective"])
        np.testing.assert_allclose(instance.sign * h["incumbent"], best, atol=1e-9)

    def test_residuals_and_penalty(self) -> None:
        states = []
        solver = short(
            primal_tolerance=1e-12,
            callback=lambda run: states.append((run.u, run.x[run.split.coupled])),
        )
        h = solver.solve(lively().problem).history
        assert len(h) == 12
        u = np.array([s[0] for s in states])
        x = np.array([s[1] for s in states])
        np.testing.assert_allclose(h["primal_residual"], np.abs(u - x).max(axis=1))
        moved = np.abs(np.diff(u, axis=0)).max(axis=1)
        assert moved.max() > 0.1
        np.testing.assert_allclose(
            h["dual_residual"][1:], h["rho"][1:] * moved, rtol=1e-7, atol=1e-13
        )
        ratios = h["rho"][1:] / h["rho"][:-1]
        np.testing.assert_allclose(ratios, 30.0 ** (1 / 11))

    def test_fixed_penalty_stays(self) -> None:
        h = DualDecomposition(penalty=Fixed(3.0), max_iterations=5).solve(lively().problem).history
        assert set(h["rho"]) == {3.0}


class TestCallbackAndProgress:
    def test_called_once_an_iteration(self) -> None:
        seen: list[int] = []

        def note(run: ADMMState) -> None:
            seen.append(run.k)

        solution = short(callback=note, primal_tolerance=1e-12).solve(lively().problem)
        assert seen == list(range(1, 13))
        assert len(solution.history) == 12

    def test_can_stop(self) -> None:
        solver = short(callback=lambda run: run.k == 3, detect_cycles=False, primal_tolerance=1e-15)
        solution = solver.solve(lively().problem)
        assert solution.status == "stopped"
        assert len(solution.history) == 3
        assert solution.found

    def test_progress_bar(self, capsys: pytest.CaptureFixture[str]) -> None:
        short().solve(lively().problem, progress=True)
        shown = capsys.readouterr().err
        assert "best " in shown
        short().solve(lively().problem)
        assert capsys.readouterr().err == ""


def same(first: Solution, second: Solution) -> None:
    assert first.status == second.status
    assert first.objective == second.objective
    np.testing.assert_array_equal(first.values, second.values)
    for column in set(History.columns) - CLOCKS:
        np.testing.assert_array_equal(first.history[column], second.history[column])


class TestReproducible:
    @pytest.mark.parametrize("seed", [0, 11])
    def test_same_seed_same_run(self, seed: int) -> None:
        solver = short()
        first = solver.solve(tiny(4).problem, time_limit=LONG, seed=seed)
        same(first, solver.solve(tiny(4).problem, time_limit=LONG, seed=seed))
        same(first, short().solve(tiny(4).problem, time_limit=LONG, seed=seed))

    def test_water_with_adam(self) -> None:
        net = mlp(2, 8, 9, seed=2)
        runs = [
            DualDecomposition.paper().solve(water_potability(n=4, net=net), seed=1)
            for _ in range(2)
        ]
        same(*runs)

    def test_steps_by_hand_are_the_solve(self) -> None:
        problem = tiny(4).problem
        solution = short().solve(problem, time_limit=LONG, seed=5)
        solver = short()
        run = solver.start(problem, time_limit=LONG, seed=5)
        while run.stopped is None:
            solver.step(run)
        assert run.stopped == solution.status
        np.testing.assert_array_equal(run.incumbent.values, solution.values)
        for column in set(History.columns) - CLOCKS:
            np.testing.assert_array_equal(run.history[column], solution.history[column])


class TestStart:
    def test_a_good_start_is_never_lost(self) -> None:
        instance = tiny(2)
        best = instance.optimum()
        values = instance.values(instance.best_t(), instance.outputs(instance.points))
        good = instance.feasible_inputs()
        at = np.flatnonzero(good & (np.abs(values - best) < 1e-9))[0]
        instance.problem.set_start(instance.points[at : at + 1])
        solution = short(max_iterations=1).solve(instance.problem, time_limit=LONG)
        assert solution.objective == pytest.approx(best)

    def test_untreated_water_is_the_least(self) -> None:
        net = mlp(2, 16, 9, seed=3)
        problem = water_potability(n=10, net=net, seed=7)
        assert problem.start is not None
        untreated = problem.predictors[0].predict(problem.start[0]).sum()
        solution = DualDecomposition.paper().solve(problem, time_limit=LONG)
        assert solution.objective is not None
        assert solution.objective >= untreated
        assert solution.objective == solution.outputs[0].sum()

    def test_budgets_hold(self) -> None:
        net = mlp(2, 16, 9, seed=3)
        start = water_potability(n=10, net=net, seed=7).start
        assert start is not None
        with torch.no_grad():
            # a boundary through the samples: untrained logits have one sign
            net[-1].bias -= net(torch.tensor(start[0], dtype=torch.float32)).quantile(0.75)
        problem = water_potability(n=10, net=net, seed=7, budget=0.5)
        solution = short().solve(problem, time_limit=LONG)
        assert problem.start is not None
        assert solution.objective is not None
        assert solution.objective > problem.predictors[0].predict(problem.start[0]).sum()
        moved = solution.inputs[0] - problem.start[0]
        assert np.maximum(moved, 0).sum(axis=0).max() <= 0.5 + 1e-6
        assert np.maximum(-moved, 0).sum(axis=0).max() <= 0.5 + 1e-6
        assert np.abs(moved).sum() > 0.1


def test_the_papers_settings() -> None:
    solver = DualDecomposition.paper()
    assert isinstance(solver.nn_block, PGD)
    assert (solver.nn_block.method, solver.nn_block.steps, solver.nn_block.learning_rate) == (
        "adam",
        25,
        0.01,
    )
    assert (solver.max_iterations, solver.primal_tolerance, solver.dual_tolerance) == (
        50,
        1e-4,
        None,
    )
    assert not solver.detect_cycles
    h = solver.solve(water_potability(n=3, net=mlp(2, 8, 9))).history
    assert set(h["rho"]) == {10.0}
    assert len(h) <= 50


def test_last_iterate_is_reported_apart() -> None:
    """`objective_last` is what the printed algorithm returns; `objective` may only be better."""
    for seed in range(4):
        instance = tiny(seed)
        solution = short().solve(instance.problem, time_limit=LONG)
        assert solution.objective is not None
        last = solution.history["objective"][-1]
        if np.isnan(last):
            assert solution.objective_last is None
        else:
            assert solution.objective_last == last
            assert instance.sign * (solution.objective - last) <= 1e-9


class TestPrecision:
    def test_single_precision_steps_give_verified_points(self) -> None:
        problem = water_potability(n=6, net=mlp(2, 8, 9, seed=1), seed=42)
        double, single = (
            DualDecomposition(penalty=1.0, max_iterations=20, dtype=dtype).solve(problem, seed=1)
            for dtype in (torch.float64, torch.float32)
        )
        assert problem.verify(single).feasible
        first = [s.history["primal_residual"][0] for s in (double, single)]
        # A difference of inputs of size one, each after dozens of steps that round to float32.
        assert first[0] == pytest.approx(first[1], abs=100 * torch.finfo(torch.float32).eps)
        assert first[0] != first[1]  # it did compute in another precision

    def test_bad_device_or_type(self) -> None:
        with pytest.raises(ValueError, match="float32"):
            DualDecomposition(dtype=torch.int64)
        if not torch.cuda.is_available():
            with pytest.raises(ValueError, match="no CUDA device"):
                DualDecomposition(device="cuda")

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    def test_cuda(self) -> None:
        problem = water_potability(n=6, net=mlp(2, 8, 9, seed=1), seed=42)
        solution = DualDecomposition(penalty=1.0, max_iterations=20, device="cuda").solve(
            problem, seed=1
        )
        assert problem.verify(solution).feasible
