"""Models in the user's words, restated for methods and proofs."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from scipy.optimize import linprog
from torch import nn

from ddmip_lib import BigM, NeuralMIP, SequentialMIP, solve
from ddmip_lib.errors import ProblemError
from ddmip_lib.programs.scip import relative_violation


def relu(n_in: int, seed: int, hidden: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    return net.eval().requires_grad_(False)


def quiet() -> Model:
    model = Model()
    model.hideOutput()
    return model


class TestSeries:
    def in_series(self) -> tuple[NeuralMIP, list[nn.Module]]:
        """Minimise g(b, f(b, c)) - f(b, c) / 2 over integers b and c in 0..3 with b + c <= 4."""
        model = quiet()
        b, c = (model.addVar(name, vtype="I", ub=3) for name in "bc")
        y, z = (model.addVar(name, lb=None) for name in "yz")
        model.addCons(b + c <= 4)
        model.setObjective(z - 0.5 * y)
        problem = NeuralMIP(model)
        nets = [relu(2, 0), relu(2, 1)]
        problem.add_predictor(nets[0], [[b, c]], [[y]])
        problem.add_predictor(nets[1], [[b, y]], [[z]])
        return problem, nets

    def best(self, nets: list[nn.Module]) -> float:
        f, g = (net.double() for net in nets)
        points = [(b, c) for b in range(4) for c in range(4) if b + c <= 4]
        x = torch.tensor(points, dtype=torch.float64)
        y = f(x)
        z = g(torch.cat([x[:, :1], y], dim=1))
        return float((z - 0.5 * y).min())

    @pytest.mark.parametrize("method", [None, BigM(), SequentialMIP(max_failed_starts=2)])
    def test_all_methods_find_the_optimum_of_the_composition(self, method) -> None:
        problem, nets = self.in_series()
        found = solve(problem) if method is None else method.solve(problem)
        assert found.objective == pytest.approx(self.best(nets), abs=1e-7)
        if not isinstance(method, SequentialMIP):
            assert found.status == "optimal"
        assert problem.verify(found).feasible
        assert len(found.values) == problem.model.getNVars() == 4
        assert [len(x) for x in found.inputs] == [1, 1]

    def test_a_start_of_the_user_is_extended(self) -> None:
        problem, nets = self.in_series()
        x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
        y = float(nets[0].double()(x))
        problem.set_start([[1, 2]], [[1, 0.123]])  # the second input is computed
        instance = problem.instance()
        start = instance.full_start(problem.start)
        assert start[1].tolist() == [[1.0, y]]
        values = instance.with_outputs(instance.assignment(start, rest=0.0))
        assert problem.verify(instance.restrict(values)).feasible

    def test_samples_of_one_network_follow_each_other(self) -> None:
        """A state s' = f(s, u) over three steps, each an output that is the next input."""
        model = quiet()
        u = [model.addVar(f"u{t}", vtype="B") for t in range(3)]
        s = [model.addVar(f"s{t}", lb=None) for t in range(3)]
        model.addCons(u[0] + u[1] + u[2] <= 2)
        model.setObjective(s[2])
        net = relu(2, 3)
        problem = NeuralMIP(model)
        problem.add_predictor(net, [[0.5, u[0]], [s[0], u[1]], [s[1], u[2]]], [[v] for v in s])
        found = solve(problem)
        states = []
        for k in range(7):  # all but 1, 1, 1
            state = torch.tensor([[0.5]], dtype=torch.float64)
            for bit in (k & 1, k >> 1 & 1, k >> 2):
                step = torch.tensor([[float(bit)]], dtype=torch.float64)
                state = net.double()(torch.cat([state, step], dim=1))
            states.append(state.item())
        assert found.status == "optimal"
        assert found.objective == pytest.approx(min(states), abs=1e-7)

    def test_a_cycle_is_refused(self) -> None:
        model = quiet()
        y, z = (model.addVar(name, lb=-1, ub=1) for name in "yz")
        problem = NeuralMIP(model)
        problem.add_predictor(relu(1, 0), [[z]], [[y]])
        problem.add_predictor(relu(1, 1), [[y]], [[z]])
        with pytest.raises(ProblemError, match="form a cycle: an input of network 0"):
            problem.instance()

    def test_an_output_without_a_range_is_refused(self) -> None:
        unread = relu(1, 2)
        unread.register_forward_hook(lambda *_: None)
        model = quiet()
        x = model.addVar("x", ub=1)
        y, z = (model.addVar(name, lb=None) for name in "yz")
        problem = NeuralMIP(model)
        problem.add_predictor(unread, [[x]], [[y]])
        problem.add_predictor(relu(1, 1), [[y]], [[z]])
        with pytest.raises(ProblemError, match="output y is an input of another network"):
            problem.instance()

    def test_a_problem_without_anything_to_restate_is_itself(self) -> None:
        model = quiet()
        x = model.addVar("x", ub=1)
        problem = NeuralMIP(model)
        problem.add_predictor(relu(1, 0), [[x]])
        instance = problem.instance()
        assert instance.stated is instance
        assert np.array_equal(instance.extend(np.ones(2)), np.ones(2))


def line(slope: float, constant: float) -> nn.Module:
    net = nn.Linear(1, 1)
    nn.init.constant_(net.weight, slope)
    nn.init.constant_(net.bias, constant)
    return net.eval().requires_grad_(False)


class TestIndicators:
    @settings(max_examples=6, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        active=st.tuples(st.booleans(), st.booleans()),
        limits=st.tuples(st.sampled_from([-0.5, 0.0, 0.4, 9.0]), st.sampled_from([-0.3, 0.6])),
        maximise=st.booleans(),
    )
    def test_the_optimum_is_that_of_all_choices(self, seed, active, limits, maximise) -> None:
        """Integers b, c and i in 0..3, y = f(i), and conditions on y and i."""
        model = quiet()
        b, c = (model.addVar(name, vtype="B") for name in "bc")
        i = model.addVar("i", vtype="I", ub=3)
        y = model.addVar("y", lb=None)
        model.addConsIndicator(y <= limits[0], b, activeone=active[0])
        model.addConsIndicator(-y - 0.5 * i <= limits[1], c, activeone=active[1])
        model.addConsIndicator(i <= 2, c, activeone=not active[1])
        weights = np.random.default_rng(seed).normal(size=4)
        objective = weights[0] * b + weights[1] * c + weights[2] * i + weights[3] * y
        model.setObjective(objective, "maximize" if maximise else "minimize")
        net = relu(1, seed % 1000)
        problem = NeuralMIP(model)
        problem.add_predictor(net, [[i]], [[y]])
        assert not problem.instance().milp.others
        values = net.double()(torch.arange(4.0, dtype=torch.float64)[:, None]).numpy()[:, 0]
        best = np.inf
        sign = -1.0 if maximise else 1.0
        for choice in itertools.product((0, 1), (0, 1), range(4)):
            at_b, at_c, at = choice
            low = at_b != active[0] or values[at] <= limits[0]
            high = at_c != active[1] or -values[at] - 0.5 * at <= limits[1]
            if low and high and (at_c == active[1] or at <= 2):
                best = min(best, sign * (weights[:3] @ choice + weights[3] * values[at]))
        found = solve(problem)
        if np.isinf(best):
            assert found.status == "infeasible"
        else:
            assert found.status == "optimal"
            assert sign * found.objective == pytest.approx(best, abs=1e-6)

    def test_the_constant_is_the_smallest_that_the_other_case_needs(self) -> None:
        model = quiet()
        b = model.addVar("b", vtype="B")
        x = model.addVar("x", lb=-1, ub=1)
        kept = model.addVar("kept", lb=-10, ub=10)
        y = model.addVar("y", lb=None)
        model.addConsIndicator(kept - y <= 0, b, name="on")
        model.addConsIndicator(kept <= 0, b, activeone=False, name="off")
        model.addConsIndicator(x <= 5, b, name="always")
        problem = NeuralMIP(model)
        problem.add_predictor(line(2.0, 1.0), [[x]], [[y]])  # y in [-1, 3]
        milp = problem.instance().milp
        at = milp.names.index("b")
        large = dict(zip(milp.row_names, milp.rows[:, [at]].toarray()[:, 0], strict=True))
        assert large["on"] == pytest.approx(1.0, abs=1e-4)  # kept <= 0 where b = 0, and y >= -1
        assert large["off"] == pytest.approx(-3.0, abs=1e-4)
        assert large["always"] == 0.0

    def test_what_has_no_bound_is_left_out_by_name(self) -> None:
        model = quiet()
        b = model.addVar("b", vtype="B")
        x = model.addVar("x", ub=1)
        t = model.addVar("t", lb=None)
        y = model.addVar("y", lb=None)
        model.addConsIndicator(t + y <= 1, b, name="open")
        model.addCons(t == t * t * t, name="cubic")
        model.addCons(t >= y)
        model.addCons(b == 1)
        model.setObjective(y + 0.1 * t, "maximize")
        problem = NeuralMIP(model)
        problem.add_predictor(line(2.0, -1.0), [[x]], [[y]])
        instance = problem.instance()
        assert instance.stated is instance
        found = solve(problem, points_only=True)
        indicator, cubic = found.details["left_out"]
        assert indicator.what == "indicator open"
        assert "give t finite lb and ub" in str(indicator)
        assert cubic.what == "nonlinear cubic"
        assert "indicator open" in str(found.details["log"])


class TestSpecialOrderedSets:
    @settings(max_examples=4, deadline=None)
    @given(seed=st.integers(0, 10**6), width=st.sampled_from([1, 2]))
    def test_the_optimum_is_that_of_the_best_segment(self, seed, width) -> None:
        """max c'v + y with y = 2 x + 1, sum of v <= 2 + x, over segments of v."""
        rng = np.random.default_rng(seed)
        cost = rng.normal(size=4)
        upper = rng.uniform(0.5, 2.0, 4)
        lower = -rng.uniform(0.0, 1.0, 4)
        model = quiet()
        v = [model.addVar(f"v{k}", lb=lower[k], ub=upper[k]) for k in range(4)]
        x = model.addVar("x", lb=-1, ub=1)
        y = model.addVar("y", lb=None)
        (model.addConsSOS1 if width == 1 else model.addConsSOS2)(v, [1, 2, 3, 4], name="set")
        model.addCons(v[0] + v[1] + v[2] + v[3] <= 2 + x)
        model.setObjective(sum(c * w for c, w in zip(cost, v, strict=True)) + 0.1 * y, "maximize")
        problem = NeuralMIP(model)
        problem.add_predictor(line(2.0, 1.0), [[x]], [[y]])
        instance = problem.instance()
        assert not instance.milp.others
        best = -np.inf
        for first in range(4 - width + 1):
            used = (np.arange(4) >= first) & (np.arange(4) < first + width)
            ends = np.where(used, lower, 0.0), np.where(used, upper, 0.0)
            bounds = [*zip(*ends, strict=True), (-1.0, 1.0)]
            program = linprog([*-cost, -0.2], [[1, 1, 1, 1, -1]], [2.0], bounds=bounds)
            best = max(best, 0.1 - program.fun)
        found = BigM().solve(problem)
        assert found.status == "optimal"
        assert found.objective == pytest.approx(best, abs=1e-6)
        extended = instance.with_outputs(found.values)
        assert np.abs(extended - instance.rounded(extended)).max() == 0
        milp = instance.milp
        assert relative_violation(milp.rows @ extended, *milp.sides).max() < 1e-6
