"""`SingleStepGradient`: what the printed pseudo-code claims, and what the repaired one returns."""

from __future__ import annotations

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP
from ddmip_lib.baselines.single_step import PenalisedRelaxation, SingleStepGradient
from ddmip_lib.clock import using
from ddmip_lib.errors import ProblemError
from ddmip_lib.model import Incumbent, Instance
from ddmip_lib.model.completion import Completer
from ddmip_lib.model.verification import Verifier
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import Built, build, forward, linear_water, relu_net, tiny
from tests.builders.networks import linear
from tests.builders.smooth import Quadratic


def threshold(side: float, start: float) -> NeuralMIP:
    """min x s.t. x >= side, x in {0, 1}; the network's output plays no part."""
    model = pyscipopt.Model()
    x = model.addMatrixVar((1, 1), vtype="B", name="x")
    y = model.addMatrixVar((1, 1), lb=None, name="y")
    model.addCons(x[0, 0] >= side)
    model.setObjective(x[0, 0])
    problem = NeuralMIP(model)
    problem.add_predictor(linear(1.0), x, y)
    problem.set_start([[start]])
    return problem


def printed_pseudo_code(side: float, x: float) -> tuple[float, float]:
    """The paper's loop on `threshold`, in plain Python: the claimed objective and the rounded
    point.
    """
    best = np.inf
    point = np.nan
    for t in range(1, 101):
        p = max(0.0, side - x)
        following = float(np.clip(x - 1e-2 * (1 + 0.01 * t) ** -0.5 * (1 - 100 * p), 0, 1))
        if p == 0 and following < best:
            best = following
            point = round(following)
        x = following
    return best, point


class TestAsPrinted:
    def test_claims_an_infeasible_point_with_a_value_below_the_optimum(self) -> None:
        problem = threshold(0.4, start=0.45)
        solution = SingleStepGradient(repaired=False).solve(problem)
        claimed, point = printed_pseudo_code(0.4, 0.45)
        assert claimed == pytest.approx(0.391, abs=5e-4)
        assert solution.details["claimed_objective"] == pytest.approx(claimed, abs=1e-12)
        assert solution.details["claimed_values"][0] == point == 0
        assert solution.details["claimed_feasible"] is False
        assert (solution.status, solution.objective, solution.values) == (
            "no_solution_found",
            None,
            None,
        )

    def test_reports_the_verified_objective_where_rounding_happens_to_help(self) -> None:
        solution = SingleStepGradient(repaired=False).solve(threshold(0.6, start=0.65))
        assert solution.details["claimed_objective"] == pytest.approx(
            printed_pseudo_code(0.6, 0.65)[0]
        )
        assert solution.details["claimed_objective"] < 0.61
        assert (solution.objective, solution.details["claimed_feasible"]) == (1.0, True)

    def test_without_a_cost_on_x_the_first_point_is_never_replaced(self) -> None:
        problem = bowl(0.2)
        printed = SingleStepGradient(repaired=False).solve(problem)
        assert printed.details["claimed_objective"] == 0.0
        assert (printed.inputs[0].item(), printed.objective) == (0.0, 1.0)
        repaired = SingleStepGradient().solve(problem)
        assert (repaired.inputs[0].item(), repaired.objective) == (1.0, 0.0)

    def test_nothing_claimed_where_no_iterate_is_feasible(self) -> None:
        solution = SingleStepGradient(repaired=False).solve(threshold(0.4, start=0.0))
        assert solution.status == "no_solution_found"
        assert "claimed_objective" not in solution.details

    def test_claim_leaves_out_the_cost_of_the_outputs(self) -> None:
        """max 2x + y + 5 with y = x - 3 <= -1: one step of 0.01 times the slope 3, and 2x + 5 is
        claimed.
        """
        built = build(linear(1.0, bias=-3.0), 1)
        built.model.chgVarUb(built.y[0, 0], -1.0)
        built.model.setObjective(2 * built.x[0, 0] + built.y[0, 0] + 5, "maximize")
        solution = SingleStepGradient(repaired=False, steps=1, decay=0.0).solve(built.problem)
        assert solution.details["claimed_objective"] == pytest.approx(5.06)
        assert solution.objective == pytest.approx(5.06 - 2.97)

    def test_the_start_does_not_compete(self) -> None:
        solution = SingleStepGradient(repaired=False).solve(linear_water())
        assert not solution.found
        assert solution.details["claimed_feasible"] is False

    def test_classes_are_tested_as_classes_not_as_sigmoids(self) -> None:
        """y >= 1 holds where the logit is positive, though no sigmoid reaches 1."""
        built = build(linear(1.0), 1, output="classification", low=-1.0, cost=np.array([1.0]))
        built.model.addCons(built.y[0, 0] >= 1)
        built.problem.set_start([[0.5]])
        solution = SingleStepGradient(repaired=False, penalty=1e-6).solve(built.problem)
        # at p = 0 the step still goes down the cost: the last feasible test passes, the point fails
        assert -0.01 < solution.details["claimed_objective"] <= 0
        assert not solution.found


def bowl(start: float, centre: float = 1.0) -> NeuralMIP:
    """min (x - centre)^2 over x in {0, 1}, written into the network."""
    built = build(Quadratic(np.array([[2.0]]), np.array([centre])), 1, vtype="B")
    built.problem.set_start([[start]])
    return built.problem


class TestRepaired:
    def test_returns_a_verified_point_or_nothing(self) -> None:
        nothing = SingleStepGradient().solve(threshold(0.4, start=0.45))
        assert (nothing.status, nothing.objective) == ("no_solution_found", None)
        found = SingleStepGradient().solve(threshold(0.4, start=0.6))
        assert found.objective == 1.0

    def test_the_start_competes(self) -> None:
        """min (x - 0.45)^2 over {0, 1}: the only step goes from 0 to 0.9, which rounds to the worse
        point.
        """
        settings = {"steps": 1, "learning_rate": 1.0, "decay": 0.0, "optimiser": "gradient"}
        solution = SingleStepGradient(**settings).solve(bowl(0.0, centre=0.45))  # type: ignore[arg-type]
        assert (solution.inputs[0].item(), solution.objective) == (0.0, pytest.approx(0.45**2))

    def test_never_beats_enumeration_and_is_always_verified(self) -> None:
        found = optimal = 0
        for seed in range(8):
            instance = tiny(seed)
            best = instance.optimum()
            assert best is not None
            solution = SingleStepGradient().solve(instance.problem, time_limit=LONG)
            if solution.objective is None:
                continue
            found += 1
            assert instance.problem.verify(solution).feasible
            assert instance.sign * (solution.objective - best) >= -1e-6
            optimal += abs(solution.objective - best) <= 1e-6
            np.testing.assert_allclose(
                solution.outputs[0], instance.outputs(solution.inputs[0]), atol=1e-9
            )
            here = np.abs(instance.points - solution.inputs[0]).max(axis=1) < 1e-6
            values = instance.values(instance.best_t(), instance.outputs(instance.points))
            assert solution.objective == pytest.approx(values[here].item(), abs=1e-5)
        assert found >= 3
        assert optimal >= 1

    def test_water_is_treated_within_its_budgets(self) -> None:
        problem = linear_water()
        assert problem.start is not None
        untreated = problem.predictors[0].predict(problem.start[0]).sum()
        solution = SingleStepGradient().solve(problem)
        assert solution.objective is not None
        assert solution.objective > untreated
        moved = solution.inputs[0] - problem.start[0]
        assert np.maximum(moved, 0).sum(axis=0).max() <= 2 + 1e-5
        assert np.maximum(-moved, 0).sum(axis=0).max() <= 2 + 1e-5

    def test_side_variables_take_their_best_values(self) -> None:
        """max t s.t. t <= f(x) + 0.3, t <= 2, x in {0, 1}, t free: whatever the relaxed t, it
        becomes 2 at x = 1.
        """
        built = build(linear(3.0, bias=0.5), 1, vtype="B")
        t = built.model.addVar("t", lb=None, ub=None)
        built.model.addCons(t - built.y[0, 0] <= 0.3)
        built.model.addCons(t <= 2)
        built.model.setObjective(t, "maximize")
        short = SingleStepGradient(steps=3).solve(built.problem)
        assert (short.inputs[0].item(), short.objective) == (0.0, pytest.approx(0.8, abs=1e-6))
        solution = SingleStepGradient(learning_rate=0.05).solve(built.problem)
        assert (solution.inputs[0].item(), solution.objective) == (
            1.0,
            pytest.approx(2.0, abs=1e-6),
        )

    def test_a_side_variable_without_cost_that_meets_an_output(self) -> None:
        """max 3x + 0.5 <= t / 100: no relaxed t comes near 350 in one step."""
        built = build(linear(3.0, bias=0.5), 1, vtype="B", sense="maximize")
        t = built.model.addVar("t", ub=1000)
        built.model.addCons(built.y[0, 0] - 0.01 * t <= 0)
        built.problem.set_start([[0.495]])
        solution = SingleStepGradient(steps=1, penalty=1e-3).solve(built.problem)
        assert solution.objective == pytest.approx(3.5)

    def test_rows_with_outputs_hold_nothing_back(self) -> None:
        """max x s.t. x <= y = x + 0.5: true everywhere, whatever stands in the place of y."""
        built = build(linear(1.0, bias=0.5), 1)
        built.model.addCons(built.x[0, 0] - built.y[0, 0] <= 0)
        built.model.setObjective(built.x[0, 0], "maximize")
        assert SingleStepGradient(learning_rate=0.1).solve(
            built.problem
        ).objective == pytest.approx(1.0)

    def test_output_rows_with_other_variables(self) -> None:
        """Sites with a choice of species, as in a planting plan: s' <= p, s' <= s + 1 - p, one
        species each.
        """
        problem = planting()
        solution = SingleStepGradient().solve(problem)
        assert solution.objective is not None
        check = problem.verify(solution)
        assert check.feasible
        assert check.objective == pytest.approx(solution.objective)
        z = solution.inputs[0][:, 0]
        s = np.stack([out[:, 0] for out in solution.outputs], axis=1)
        assert z.sum() <= 2
        assert solution.objective == pytest.approx(np.clip(s, 0, 1).max(axis=1).sum(), abs=1e-6)


def planting(sites: int = 4) -> NeuralMIP:
    model = pyscipopt.Model()
    z = model.addMatrixVar((sites, 1), vtype="B", name="z")
    p = model.addMatrixVar((sites, 2), vtype="B", name="p")
    s = model.addMatrixVar((sites, 2), ub=1, name="s")
    counted = model.addMatrixVar((sites, 2), ub=1, name="counted")
    for i in range(sites):
        model.addCons(p[i, 0] + p[i, 1] == 1)
        for k in range(2):
            model.addCons(counted[i, k] - p[i, k] <= 0)
            model.addCons(counted[i, k] - s[i, k] + p[i, k] <= 1)
    model.addCons(z.sum() <= 2)
    model.setObjective(counted.sum(), "maximize")
    problem = NeuralMIP(model)
    light = np.linspace(0.1, 0.3, sites)
    for k, weights in enumerate(((0.4, 1.0), (-0.2, 2.0))):
        grid = np.array([[z[i, 0], light[i]] for i in range(sites)], dtype=object)
        problem.add_predictor(linear(*weights, bias=0.2), grid, s[:, [k]])
    problem.set_start(*([np.column_stack([np.zeros(sites), light])] * 2))
    return problem


class TestLoss:
    @pytest.mark.parametrize("seed", range(4))
    def test_value_and_gradient(self, seed: int) -> None:
        """Against plain numpy and central differences, with a row on the outputs and a bound on one
        of them.
        """
        instance = tiny(seed)
        model = instance.problem.model
        y = instance.problem.predictors[0].outputs
        model.addCons(sum(y.ravel()) + instance.problem.predictors[0].inputs[0, 0] >= 3)
        read = Instance(model, instance.problem.predictors)
        s = read.milp
        m = read.maps[0]
        if instance.kind == "regression":
            model.chgVarUb(y[0, 0], -1.0)
            read = Instance(model, instance.problem.predictors)
            s = read.milp
        relaxation = PenalisedRelaxation(read)

        def excess(full: np.ndarray) -> np.ndarray:
            left = s.rows @ full
            bound = full[m.output[0, 0]] - s.upper[m.output[0, 0]]
            return np.append(
                np.maximum(0, left - s.row_upper) + np.maximum(0, s.row_lower - left), max(0, bound)
            )

        def expected(v: np.ndarray) -> float:
            raw = forward(instance.net, v[m.index])
            full = v.copy()
            full[m.output] = 1 / (1 + np.exp(-raw)) if instance.kind == "classification" else raw
            return s.sign * s.cost @ full + 50 * (excess(full) ** 2).sum()

        rng = np.random.default_rng(seed)
        low = np.maximum(s.lower, -3)
        high = np.minimum(s.upper, 3)
        point = low + (high - low) * rng.random(low.size)
        v = torch.tensor(point, requires_grad=True)
        loss, slope, violation = relaxation.loss(v, 50.0)
        assert loss == pytest.approx(expected(point), rel=1e-9)
        steps = 1e-6 * np.eye(point.size)
        numeric = np.array([(expected(point + e) - expected(point - e)) / 2e-6 for e in steps])
        np.testing.assert_allclose(slope.numpy(), numeric, rtol=1e-4, atol=1e-4)
        full = point.copy()
        full[m.output] = instance.outputs(point[m.index])
        assert violation == pytest.approx(excess(full).max(), abs=1e-12)


class TestRepair:
    def test_water_iterates_move_to_the_nearest_point_of_the_rows(self) -> None:
        problem = linear_water(3)
        instance = problem.instance()
        incumbent = Incumbent(instance, 0.0)
        s = instance.milp
        rng = np.random.default_rng(0)
        v = np.clip(rng.normal(size=s.n_variables), s.lower, s.upper)
        assert not Verifier(instance).check(instance.with_outputs(v)).feasible
        incumbent.consider(PenalisedRelaxation(instance).repair(v))
        assert incumbent.values is not None
        moved = np.where(instance.is_output, 0.0, incumbent.values - v)
        # no feasible point is nearer: the way back makes an obtuse angle with every way on
        for _ in range(20):
            w = problem.start[0] if problem.start else np.zeros(0)
            change = rng.uniform(-0.3, 0.3, size=w.shape)
            other = Completer(instance).complete([w + change])
            assert other is not None
            onward = np.where(instance.is_output, 0.0, other - incumbent.values)
            assert moved @ onward >= -1e-5

    def test_rounded_integers_stay_where_they_are(self) -> None:
        """t >= 1 + 3x at x = 0.6: x becomes 1, and t is 4."""
        built = build(linear(1.0), 1, vtype="B")
        t = built.model.addVar("t", ub=5)
        built.model.addCons(t - 3 * built.x[0, 0] >= 1)
        instance = Instance(built.model, built.problem.predictors)
        place = {name: i for i, name in enumerate(instance.milp.names)}
        v = np.zeros(3)
        v[place["x_0_0"]] = 0.6
        repaired = PenalisedRelaxation(instance).repair(v)
        assert repaired[[place["x_0_0"], place["t"]]] == pytest.approx([1.0, 4.0], abs=1e-5)


class TestCalls:
    @pytest.mark.parametrize("repaired", [True, False])
    def test_same_answer_twice(self, repaired: bool) -> None:
        problem = water_potability(n=2, net=mlp(2, 8, 9, seed=1), seed=3)
        first, second = (
            SingleStepGradient(repaired=repaired).solve(problem, seed=s) for s in (0, 9)
        )
        assert first.status == second.status
        assert first.objective == second.objective
        assert first.details["violation"] == second.details["violation"]

    def test_steps_and_times_are_told(self) -> None:
        solution = SingleStepGradient(steps=7).solve(hand_sized())
        assert (solution.details["steps"], solution.status) == (7, "iteration_limit")
        assert solution.details["incumbents"][-1][1] == solution.objective == 1.5
        assert solution.bound is None

    @pytest.mark.parametrize("repaired", [True, False])
    def test_the_step_of_the_text_and_that_of_the_pseudo_code(self, repaired: bool) -> None:
        """Adam moves by the learning rate whatever the slope; a plain step of slope 1000 ends at
        the bound.
        """
        built = build(linear(1000.0), 1, low=-1.0)
        settings = {"adam": -0.02, "gradient": -1.0, None: -0.02 if repaired else -1.0}
        for optimiser, end in settings.items():
            solver = SingleStepGradient(
                repaired, 1, decay=0.0, learning_rate=0.02, optimiser=optimiser
            )
            assert solver.solve(built.problem).inputs[0].item() == pytest.approx(end)

    def test_time_runs_out(self) -> None:
        """A step at least looks at the clock once, and each look takes a second."""
        with using(clock := Ticking()):
            solution = SingleStepGradient(steps=10**7).solve(linear_water(), time_limit=50.0)
        assert (solution.status, solution.found) == ("time_limit", True)
        assert 0 < solution.details["steps"] < clock.looks < 60

    def test_no_time_at_all(self) -> None:
        solution = SingleStepGradient().solve(linear_water(), time_limit=0.0)
        assert (solution.status, solution.found, solution.details["steps"]) == (
            "time_limit",
            False,
            0,
        )

    def test_empty_rows_and_rows_that_no_output_reaches_are_proved_so(self) -> None:
        empty = _two_inputs()
        contradictory = _two_inputs()
        empty.model.addCons(empty.x.sum() >= 3)
        contradictory.model.addCons(contradictory.y[0, 0] >= 1000)
        assert SingleStepGradient().solve(empty.problem).status == "infeasible"
        solution = SingleStepGradient().solve(contradictory.problem)
        assert (solution.status, solution.found) == ("infeasible", False)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"steps": 0},
            {"steps": 1.5},
            {"learning_rate": 0.0},
            {"decay": -1.0},
            {"penalty": np.nan},
            {"optimiser": "newton"},
        ],
        ids=str,
    )
    def test_wrong_settings(self, wrong: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            SingleStepGradient(**wrong)  # type: ignore[arg-type]

    def test_constraints_that_are_no_rows_are_refused_with_a_remedy(self) -> None:
        built = _two_inputs()
        x = built.x[0]
        built.model.addCons(x[0] * x[0] * x[1] <= 0.5, name="either")
        with pytest.raises(ProblemError, match=r"either is not linear.*BigM"):
            SingleStepGradient().solve(built.problem)

    def test_a_network_that_hides_its_gradient(self) -> None:
        class Hidden(nn.Linear):
            def forward(self, u: torch.Tensor) -> torch.Tensor:
                return super().forward(u.detach())

        with pytest.raises(ProblemError, match="detach"):
            SingleStepGradient().solve(build(Hidden(2, 1).eval(), 2).problem)

    def test_a_network_without_a_value(self) -> None:
        class Logarithm(nn.Linear):
            def forward(self, u: torch.Tensor) -> torch.Tensor:
                return torch.log(u - 2).sum(1, keepdim=True) + self.bias

        with pytest.raises(ProblemError, match="NaN or infinite"):
            SingleStepGradient().solve(build(Logarithm(2, 1).eval(), 2).problem)


def _two_inputs() -> Built:
    return build(relu_net(2), 2, vtype="B")
