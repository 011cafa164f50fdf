"""`NeuralMIP`: what it accepts, and that `verify` agrees with an evaluation of our own."""

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import DualDecomposition, NeuralMIP
from tests.builders.clocks import LONG
from tests.builders.instances import Built, Tiny, build, forward, lattice, relu_net, tiny


class TestVerifyAgreesWithNumpy:
    def full(self, instance: Tiny, x: np.ndarray, t: float, y: np.ndarray) -> np.ndarray:
        """A full assignment in the order of Model.getVars, by names."""
        named = (
            {"t": t}
            | {f"x_0_{j}": v for j, v in enumerate(x)}
            | {f"y_0_{j}": v for j, v in enumerate(y)}
        )
        return np.array([named[v.name] for v in instance.problem.model.getVars()])

    @pytest.mark.parametrize("seed", range(6))
    def test_every_point(self, seed: int) -> None:
        instance = tiny(seed)
        good = instance.feasible_inputs()
        best_t = instance.best_t()
        y = instance.outputs(instance.points)
        objective = instance.values(best_t, y)
        assert 0 < good.sum() < len(good)
        for i, x in enumerate(instance.points):
            check = instance.problem.verify(self.full(instance, x, best_t[i], y[i]))
            assert check.feasible == good[i]
            assert check.objective == pytest.approx(objective[i], abs=1e-9)

    @pytest.mark.parametrize("seed", range(6))
    def test_each_kind_of_violation_is_seen(self, seed: int) -> None:
        instance = tiny(seed)
        at = int(np.flatnonzero(instance.feasible_inputs())[0])
        x = instance.points[at]
        t = instance.best_t()[at]
        y = instance.outputs(instance.points[at : at + 1])[0]
        verify = instance.problem.verify
        assert verify(self.full(instance, x, t, y))
        late = verify(self.full(instance, x, instance.t_max + 0.01, y))
        assert not late
        assert late.bound_violation == pytest.approx(0.005)
        assert late.worst == "bound of t"
        if t > 0.1:
            short = verify(self.full(instance, x, t - 0.1, y))
            assert not short
            assert short.row_violation > 0.0
        wrong = y.copy()
        wrong[0] = 1 - wrong[0] if instance.kind == "classification" else wrong[0] + 0.01
        false = verify(self.full(instance, x, t, wrong))
        assert not false
        assert false.wrong_classes == (1 if instance.kind == "classification" else 0)
        assert (false.output_error > 1e-3) == (instance.kind == "regression")
        broken = x.copy()
        broken[0] += 0.01 if broken[0] < instance.points.max() else -0.01
        fractional = verify(self.full(instance, broken, t, instance.outputs(broken[None])[0]))
        assert not fractional
        assert fractional.integrality_violation == pytest.approx(0.01)

    def test_every_row_counts(self) -> None:
        """Each of several rows, on either side, is enough to refuse a point."""
        built = build(relu_net(3), 3)
        x = built.x[0]
        built.model.addCons(x[0] + x[1] <= 1.5, name="upper")
        built.model.addCons(x[1] - x[2] >= -0.5, name="lower")
        built.model.addCons(x[0] - x[2] == 0.0, name="equal")
        for point, worst in (
            ([0.5, 0.5, 0.5], ""),
            ([1.0, 0.6, 1.0], "constraint upper"),
            ([0.8, 0.2, 0.8], "constraint lower"),
            ([0.5, 0.5, 0.4], "constraint equal"),
            ([0.4, 0.5, 0.5], "constraint equal"),
        ):
            check = built.problem.verify(np.append(point, forward_one(built, point)))
            assert check.worst == worst
            assert check.feasible == (worst == "")

    def test_smallest_logit(self) -> None:
        net = relu_net(2, seed=4)
        built = build(net, 2, n=3, vtype="B", output="classification")
        x = lattice(0, 1, 2)[:3]
        raw = forward(net, x)
        named = {f"x_{i}_{j}": x[i, j] for i in range(3) for j in range(2)}
        named |= {f"y_{i}_0": float(raw[i, 0] > 0) for i in range(3)}
        check = built.problem.verify(np.array([named[v.name] for v in built.model.getVars()]))
        assert check.feasible
        assert check.smallest_logit == pytest.approx(np.abs(raw).min())

    def test_constraints_that_are_no_rows(self) -> None:
        built = build(relu_net(2), 2)
        built.model.addCons(
            built.x[0, 0] * built.x[0, 0] + built.x[0, 1] * built.x[0, 1] <= 0.5, name="disc"
        )
        for point, good in (([0.5, 0.4], True), ([0.7, 0.7], False)):
            check = built.problem.verify(np.append(point, forward_one(built, point)))
            assert check.feasible == good
            assert bool(check.other_violations) == (not good)


def forward_one(built: Built, point: list[float]) -> float:
    return float(built.problem.predictors[0].raw(np.array([point]))[0, 0])


def solve(problem: NeuralMIP) -> tuple[float, list[np.ndarray]]:
    solution = DualDecomposition(restarts=0).solve(problem, time_limit=LONG)  # it ends long before
    assert solution.objective is not None
    assert problem.verify(solution).feasible
    return solution.objective, solution.inputs


class TestInputs:
    def test_lists_vectors_and_plain_numbers(self) -> None:
        model = Model()
        model.hideOutput()
        v = [model.addVar(f"v{j}", vtype="B") for j in range(3)]
        y = [model.addVar(lb=None), model.addVar(lb=None)]
        model.setObjective(y[0] - y[1])
        net = relu_net(3)
        problem = NeuralMIP(model)
        problem.add_predictor(net, [[v[0], 2.0, v[1]], [1, v[2], np.float32(0.5)]], y)
        objective, (x,) = solve(problem)
        assert x[0, 1] == 2.0
        assert x[1].tolist() == [1.0, x[1, 1], 0.5]
        raw = forward(net, x)
        assert objective == pytest.approx(raw[0, 0] - raw[1, 0])

    def test_one_row_as_a_vector_and_one_output(self) -> None:
        model = Model()
        model.hideOutput()
        v = [model.addVar(vtype="B") for _ in range(3)]
        y = model.addVar(lb=None)
        model.setObjective(y)
        problem = NeuralMIP(model)
        problem.add_predictor(relu_net(3), v, y)
        assert solve(problem)[1][0].shape == (1, 3)

    def test_fixed_variables_are_constants(self) -> None:
        built = build(relu_net(3), 3, vtype="B")
        built.model.fixVar(built.x[0, 1], 1)
        assert solve(built.problem)[1][0][0, 1] == 1.0
        assert "(2 free)" in repr(built.problem)

    def test_a_variable_in_several_places(self) -> None:
        """One row uses v twice, and two predictors share it: v is coupled once and has one
        value.
        """
        model = Model()
        model.hideOutput()
        v = model.addVar("v", vtype="I", lb=-2, ub=2)
        w = model.addVar("w", vtype="B")
        y = model.addVar("y", lb=None)
        z = model.addVar("z", vtype="B")
        model.setObjective(y - 3 * z)
        first = relu_net(3, seed=1)
        second = relu_net(1, seed=2)
        problem = NeuralMIP(model)
        problem.add_predictor(first, [v, v, w], y)
        problem.add_predictor(second, [v], z, output="classification")
        objective, (a, b) = solve(problem)
        assert a[0, 0] == a[0, 1] == b[0, 0]
        assert objective == pytest.approx(
            forward(first, a)[0, 0] - 3 * float(forward(second, b)[0, 0] > 0)
        )

    def test_duplicate_names(self) -> None:
        model = Model()
        model.hideOutput()
        v = [model.addVar("same", vtype="B") for _ in range(2)]
        y = model.addVar("same", lb=None)
        model.addCons(v[0] + v[1] <= 1, name="row")
        model.addCons(v[0] - v[1] <= 0, name="row")
        model.setObjective(y)
        net = relu_net(2)
        problem = NeuralMIP(model)
        problem.add_predictor(net, v, y)
        points = np.array([[0.0, 0.0], [0.0, 1.0]])
        assert solve(problem)[0] >= forward(net, points).min() - 1e-9

    def test_variables_and_rows_added_after_the_predictor(self) -> None:
        built = build(relu_net(2), 2, vtype="B")
        z = built.model.addVar("late", vtype="B", obj=-10.0)
        built.model.addCons(z <= built.x[0, 0])
        objective, (x,) = solve(built.problem)
        assert x[0, 0] == 1.0
        assert objective == pytest.approx(forward_one(built, x[0].tolist()) - 10.0)

    @pytest.mark.parametrize("sense", ["minimize", "maximize"])
    def test_objective_offset_and_sense(self, sense: str) -> None:
        built = build(relu_net(2), 2, vtype="B", sense=sense)
        plain, _ = solve(built.problem)
        built.model.addObjoffset(7.0)
        assert solve(built.problem)[0] == pytest.approx(plain + 7.0)


class TestTheUsersObjectsAreLeftAlone:
    def test_model_and_network(self) -> None:
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1)).eval()
        net[0].weight.requires_grad_(False)
        built = build(net, 3, vtype="I", low=-2, high=2, cost=np.array([0.1, -0.2, 0.3]))
        built.model.addCons(built.x.sum() <= 3)
        built.model.addObjoffset(1.0)

        def state() -> tuple[object, ...]:
            m = built.model
            variables = [
                (v.name, v.vtype(), v.getLbOriginal(), v.getUbOriginal(), v.getObj())
                for v in m.getVars()
            ]
            rows = [
                (c.name, m.getLhs(c), m.getRhs(c), tuple(m.getConsVals(c))) for c in m.getConss()
            ]
            limits = (m.getParam("limits/time"), m.getParam("randomization/randomseedshift"))
            return (
                m.getStageName(),
                m.getObjectiveSense(),
                m.getObjoffset(),
                m.getNSols(),
                variables,
                rows,
                limits,
            )

        weights = {k: v.clone() for k, v in net.state_dict().items()}
        flags = [(w.requires_grad, w.grad, w.dtype) for w in net.parameters()]
        before = state()
        solution = DualDecomposition(max_iterations=20).solve(built.problem)
        built.problem.verify(solution)
        assert state() == before
        assert all(torch.equal(v, weights[k]) for k, v in net.state_dict().items())
        assert [(w.requires_grad, w.grad, w.dtype) for w in net.parameters()] == flags
        assert not net.training

    def test_later_changes_of_the_network_do_not_matter(self) -> None:
        net = relu_net(2)
        built = build(net, 2, vtype="B")
        before, _ = solve(built.problem)
        with torch.no_grad():
            net[2].bias += 100.0
        assert solve(built.problem)[0] == before

    def test_the_users_solver_limits_do_not_weaken_the_block(self) -> None:
        built = build(relu_net(2, seed=8), 2, vtype="I", low=-3, high=3)
        free, _ = solve(built.problem)
        built.model.setParam("limits/solutions", 1)
        built.model.setParam("limits/totalnodes", 0)
        assert solve(built.problem)[0] == free
