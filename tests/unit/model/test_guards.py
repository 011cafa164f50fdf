"""Guards of single steps: what each formula of the library must do, checked apart from
whole runs.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from pyscipopt import Model, quicksum
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    DescentTest,
    DualDecomposition,
    Enumeration,
    IncreaseOnStagnation,
    LogBarrier,
    NeuralMIP,
    ResidualBalancing,
    Sweeps,
)
from ddmip_lib.decomposition import MILPBlock, Penalty, PenaltyRule
from ddmip_lib.decomposition.central_path import MIN_SLACK_FRACTION
from ddmip_lib.decomposition.graph_split import GraphSplit, output_ranges
from ddmip_lib.decomposition.mip_block import mip_block
from ddmip_lib.decomposition.nn_block import NNSubproblem
from ddmip_lib.decomposition.paper_split import PaperSplit
from ddmip_lib.decomposition.scip_block import (
    SQUARE_TANGENTS,
    X_STEP_MAX_NODES,
    X_STEP_RELATIVE_GAP,
)
from ddmip_lib.model.completion import Completer
from ddmip_lib.model.incumbent import Incumbent
from ddmip_lib.model.instance import Instance
from ddmip_lib.model.onoff import find_onoff
from ddmip_lib.model.predictor import LOGIT_MARGIN
from ddmip_lib.model.verification import Verifier
from ddmip_lib.proofs import CLOSED
from tests.builders.clocks import LONG
from tests.builders.instances import build, forward, relu_net
from tests.builders.networks import linear
from tests.builders.smooth import WIDE, Quadratic, exact, restricted, smooth

SITES = 5
TREES = 3


def planting(seed: int = 0) -> tuple[NeuralMIP, nn.Sequential]:
    """Like Tree Planting: s = f(z), s' <= p, s' <= s where p = 1; three trees on five sites, two z;
    max sum s'.
    """
    net = nn.Sequential(*relu_net(2, seed=seed, scale=0.5), nn.ReLU()).double().eval()
    with torch.no_grad():
        net[2].bias += 0.8
    constants = np.random.default_rng(seed).normal(size=SITES)
    model = Model()
    model.hideOutput()
    z = [model.addVar(f"z{i}", vtype="B") for i in range(SITES)]
    p = [model.addVar(f"p{i}", vtype="B") for i in range(SITES)]
    s = model.addMatrixVar((SITES, 1), lb=0, ub=3, name="s")
    counted = [model.addVar(f"c{i}", lb=0, ub=1) for i in range(SITES)]
    for i in range(SITES):
        model.addCons(counted[i] <= p[i])
        model.addCons(counted[i] - s[i, 0] + p[i] <= 1)
    model.addCons(sum(p) <= TREES)
    model.addCons(sum(z) <= 2)
    model.setObjective(sum(counted), "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, [[z[i], float(constants[i])] for i in range(SITES)], s)
    problem.set_start(np.column_stack([np.zeros(SITES), constants]))
    return problem, net


def named(problem: NeuralMIP, values: np.ndarray, letter: str) -> np.ndarray:
    at = [i for i, v in enumerate(problem.model.getVars()) if v.name[0] == letter]
    return values[at]


def graph(problem: NeuralMIP) -> GraphSplit:
    return GraphSplit(problem.instance(), problem.start)


class TestMultiplierStep:
    @pytest.mark.parametrize("split", ["paper", "graph"])
    def test_adds_the_penalty_of_both_steps_times_the_residual_and_nothing_else(
        self, split: str
    ) -> None:
        """Also where the penalty changes: the multiplier is not the scaled one."""
        problem = (
            planting()[0] if split == "graph" else build(relu_net(3), 3, low=-2.0, high=2.0).problem
        )
        solver = DualDecomposition(split=split, penalty=Sweeps(lengths=(6,)), detect_cycles=False)
        run = solver.start(problem)
        n = run.split.inputs.size
        moved = 0.0
        for _ in range(5):
            rho = run.rho
            lam = run.lam
            solver.step(run)
            assert run.stopped is None
            assert run.rho.inputs > rho.inputs
            outputs = (
                run.split.outputs(torch.tensor(run.u)).detach().numpy() if split == "graph" else []
            )
            r = np.concatenate([run.u, outputs]) - run.w
            weights = np.where(np.arange(r.size) < n, rho.inputs, rho.outputs)
            np.testing.assert_allclose(run.lam, lam + weights * r, rtol=1e-12, atol=1e-14)
            moved += np.abs(weights * r).max()
        assert moved > 1e-3

    def test_each_block_takes_the_latest_point_of_the_other(self) -> None:
        """x+ from u, lam; u+ from x+, lam. The Douglas-Rachford form alone does not see which x the
        u-step had.
        """
        s = smooth("tanh", 2, 4)
        cost = np.array([0.8, -0.5])
        rho = s.threshold
        solver = exact(s.threshold)
        run = solver.start(build(s.net, 2, low=-WIDE, high=WIDE, cost=cost).problem)
        run.lam = np.array([1.0, 2.0])
        for _ in range(4):
            u = run.u
            lam = run.lam
            solver.step(run)
            np.testing.assert_allclose(run.w, u + (lam - cost) / rho, atol=1e-6)
            np.testing.assert_allclose(
                run.split.gradient(run.u) + lam + rho * (run.u - run.w), 0, atol=1e-6
            )

    def test_bound_clips_it(self) -> None:
        solver = DualDecomposition(
            penalty=5.0, multiplier_bound=0.01, dual_tolerance=None, max_iterations=4
        )
        run = solver.start(build(relu_net(3), 3, low=-2.0, high=2.0).problem)
        solver.step(run)
        assert np.abs(run.lam).max() == 0.01


class TestNNSubproblem:
    @pytest.mark.parametrize("split", ["paper", "graph"])
    def test_value_and_gradient_are_those_of_the_formula(self, split: str) -> None:
        rng = np.random.default_rng(3)
        net = relu_net(3, q=2)
        instance = build(net, 3, n=4, low=-1.0, sense="maximize").problem.instance()
        s = PaperSplit(instance) if split == "paper" else GraphSplit(instance)
        w, lam, u = rng.normal(size=(3, s.coupled.size))
        u = u[:12]
        sub = NNSubproblem(s, w, lam, Penalty(0.7, 11.0))

        def phi(v: np.ndarray) -> np.ndarray:
            """One value for each of the four samples."""
            y = forward(net, v.reshape(4, 3))
            r = (v - w[:12]).reshape(4, 3)
            value = (lam[:12].reshape(4, 3) * r + 0.35 * r**2).sum(axis=1)
            if split == "paper":
                return value - y.sum(axis=1)
            r = y - w[12:].reshape(4, 2)
            return value + (lam[12:].reshape(4, 2) * r + 5.5 * r**2).sum(axis=1)

        values, slope = sub.values_and_gradient(u)
        np.testing.assert_allclose(values, phi(u), rtol=1e-12)
        np.testing.assert_allclose(
            sub.parts(torch.tensor(u))[0].detach().numpy(), phi(u), rtol=1e-12
        )
        differences = [(phi(u + d).sum() - phi(u - d).sum()) / 2e-6 for d in 1e-6 * np.eye(12)]
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(sub.gradient(u), slope)

    def test_rows_on_outputs_enter_by_a_squared_hinge_of_their_own_sample(self) -> None:
        net = relu_net(2, seed=1)
        built = build(net, 2, n=3, low=-1.0)
        for i, side in enumerate((-4.0, 0.3, -1.0)):
            built.model.addCons(built.y[i, 0] + built.x[i, 1] <= side)
        s = PaperSplit(built.problem.instance())
        u = np.random.default_rng(2).uniform(-1, 1, 6)
        sub = NNSubproblem(s, np.zeros(6), np.zeros(6), Penalty.both(1.0))
        x = u.reshape(3, 2)
        y = forward(net, x)[:, 0]
        h = y + x[:, 1] - [-4.0, 0.3, -1.0]
        plain = y + 0.5 * (x**2).sum(axis=1)
        expected = plain + 0.5 * s.hinge_weight * np.maximum(h, 0.0) ** 2
        assert (h > 0).any()
        values, slope = sub.values_and_gradient(u)
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        parts, rows = sub.parts(torch.tensor(u))
        np.testing.assert_allclose((parts + sub.hinge(rows)).detach().numpy(), expected, rtol=1e-12)
        differences = [
            (sub.values_and_gradient(u + d)[0] - sub.values_and_gradient(u - d)[0]).sum() / 2e-6
            for d in 1e-6 * np.eye(6)
        ]
        np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-5)

    def test_tightening_grows_where_the_point_violates_and_shrinks_where_it_leaves_room(
        self,
    ) -> None:
        net = relu_net(1, seed=2)
        built = build(net, 1, low=-1.0)
        low, high = np.sort(forward(net, np.array([[-1.0], [1.0]]))[:, 0])
        side = 0.5 * (low + high)
        built.model.addCons(built.y[0, 0] <= side)
        s = PaperSplit(built.problem.instance())
        violating, free = (
            np.array([x]) for x in sorted((-1.0, 1.0), key=lambda x: -forward(net, [[x]])[0, 0])
        )
        s.tighten(violating)
        assert s.tightening.numpy() == pytest.approx(high - side, abs=1e-4)
        s.tighten(violating)
        assert s.tightening.numpy() == pytest.approx(2 * (high - side), abs=1e-4)
        for _ in range(3):
            s.tighten(free)
        assert s.tightening.numpy() == pytest.approx(0.0)

    def test_every_iterate_stays_in_the_box(self) -> None:
        """A network that falls without end beyond the box."""
        for method in ("pgd", "barrier"):
            block = LogBarrier() if method == "barrier" else None
            run = DualDecomposition(block, penalty=0.1).start(
                build(linear(-3.0, 2.0), 2, low=-1.0).problem
            )
            for _ in range(3):
                DualDecomposition(penalty=0.1).step(run)
                assert (np.abs(run.u) <= 1.0).all()
            np.testing.assert_allclose(run.u, [1.0, -1.0], atol=1e-3)


class TestGraphSplitBlock:
    @pytest.mark.parametrize("seed", range(4))
    def test_x_step_agrees_with_enumeration_up_to_its_tangents(self, seed: int) -> None:
        problem, _ = planting(seed)
        split = graph(problem)
        block = mip_block(split)
        assert isinstance(block, MILPBlock)
        assert len(block.onoff) == SITES
        s = split.milp
        low = s.lower[split.coupled[SITES:]]
        high = s.upper[split.coupled[SITES:]]
        rng = np.random.default_rng(seed)
        for rho_z, rho_s in ((0.1, 0.5), (0.5, 4.0), (0.02, 20.0)):
            lam = 0.4 * rng.normal(size=2 * SITES)
            copies = rng.uniform(0, 1, 2 * SITES)
            copies[SITES:] = rng.uniform(low, high)
            rho = np.repeat([rho_z, rho_s], SITES)
            values = block.solve(lam, copies, rho).values
            assert values is not None
            assert s.rows @ values == pytest.approx(
                np.clip(s.rows @ values, s.row_lower, s.row_upper), abs=1e-6
            )
            w = values[split.coupled]

            def q(v: np.ndarray, part: slice, rho: float, lam=lam, copies=copies) -> np.ndarray:
                return -lam[part] * v + 0.5 * rho * (v - copies[part]) ** 2

            inputs = slice(0, SITES)
            outputs = slice(SITES, None)
            total = q(w[inputs], inputs, rho_z).sum() + q(w[outputs], outputs, rho_s).sum()
            total -= named(problem, values, "c").sum()
            # z: the two best flips; s: free where p = 0, else traded against what is counted
            gains = np.sort(q(np.ones(SITES), inputs, rho_z) - q(np.zeros(SITES), inputs, rho_z))
            best = q(np.zeros(SITES), inputs, rho_z).sum() + np.minimum(gains[:2], 0).sum()
            free = np.clip(copies[outputs] + lam[outputs] / rho_s, low, high)
            off = q(free, outputs, rho_s)
            on = np.full(SITES, np.inf)
            pulled = np.clip(
                copies[outputs] + (lam[outputs] + 1) / rho_s, low, np.clip(1.0, low, high)
            )
            for v in (pulled, np.maximum(free, np.clip(1.0, low, high))):
                on = np.minimum(on, q(v, outputs, rho_s) - np.minimum(v, 1.0))
            best += off.sum() + np.minimum(np.sort(on - off)[:TREES], 0).sum()
            tangents = (0.125 * rho_s * ((high - low) / (SQUARE_TANGENTS - 1)) ** 2).sum()
            assert (
                best - 1e-6 <= total <= best + tangents + 10 * X_STEP_RELATIVE_GAP * (1 + abs(best))
            )

    def test_a_class_needs_a_logit_with_margin(self) -> None:
        net = mlp(2, 8, 9, seed=4)
        problem = water_potability(n=2, net=net, seed=1)
        split = graph(problem)
        copies = split.copies(split.start)
        copies[
            -2:
        ] = -0.5  # no logit wants to be positive, but a class is worth more than the way there
        values = (
            mip_block(split).solve(np.zeros(copies.size), copies, np.full(copies.size, 1e-3)).values
        )
        assert values is not None
        assert named(problem, values, "y").tolist() == [1.0, 1.0]
        assert values[split.coupled][-2:] == pytest.approx(LOGIT_MARGIN, abs=1e-6)

    def test_output_ranges_hold_what_the_network_says(self) -> None:
        problem, net = planting()
        instance = problem.instance()
        low, high, _, sound = output_ranges(problem.predictors[0], instance.maps[0], instance.milp)
        assert sound
        x = np.repeat(problem.start[0][None], 2, axis=0)
        x[1, :, 0] = 1.0
        with torch.no_grad():
            both = net(torch.tensor(x)).numpy()
        np.testing.assert_allclose((low, high), (both.min(axis=0), both.max(axis=0)), atol=1e-12)
        continuous = build(relu_net(3), 3, n=2, low=-1.0).problem
        instance = continuous.instance()
        low, high, _, _ = output_ranges(continuous.predictors[0], instance.maps[0], instance.milp)
        y = continuous.predictors[0].raw(np.random.default_rng(9).uniform(-1, 1, (2000, 3)))
        assert (low < y.min()).all()
        assert (high > y.max()).all()

    def test_a_row_that_binds_without_its_switch_is_no_on_off_row(self) -> None:
        problem, _ = planting()
        s = next(v for v in problem.model.getVars() if v.name.startswith("s"))
        problem.model.addCons(s <= 0.5)
        instance = problem.instance()
        outputs = instance.maps[0].output.ravel()
        rows = np.ones(len(instance.milp.row_names), dtype=bool)
        assert len(find_onoff(instance.milp, outputs, rows)) == SITES - 1


class TestGraphSplitRuns:
    @pytest.mark.parametrize("seed", range(3))
    def test_planting_is_solved_or_nearly(self, seed: int) -> None:
        problem, _ = planting(seed)
        best = Enumeration().solve(problem)
        solution = DualDecomposition(restarts=0).solve(problem, time_limit=LONG)
        assert solution.details["split"] == "graph"
        assert problem.verify(solution).feasible
        assert solution.objective <= best.objective + 1e-6
        assert solution.objective >= 0.95 * best.objective
        assert np.isfinite(solution.history["rho_outputs"]).all()

    def test_classes_are_coupled_by_their_logits(self) -> None:
        net = mlp(2, 8, 9, seed=3)
        start = water_potability(n=6, net=net, seed=7).start
        with torch.no_grad():
            net[-1].bias -= net(torch.tensor(start[0], dtype=torch.float32)).quantile(0.75)
        problem = water_potability(n=6, net=net, seed=7)
        untreated = problem.predictors[0].predict(start[0]).sum()
        solution = DualDecomposition(split="graph", max_iterations=15).solve(
            problem, time_limit=LONG
        )
        assert problem.verify(solution).feasible
        assert solution.objective > untreated

    def test_the_paper_split_is_refused_where_it_does_not_exist(self) -> None:
        with pytest.raises(ValueError, match='split="graph"'):
            DualDecomposition(split="paper", restarts=0).solve(planting()[0])

    def test_ranges_are_no_proof_of_infeasibility(self) -> None:
        """y >= side holds nowhere that the network goes, but a range that was only sampled cannot
        prove that.
        """
        built = build(nn.Sequential(relu_net(2), nn.Softplus()), 2, n=1, low=-1.0)
        built.model.addCons(built.y[0, 0] >= 1e3)
        solution = DualDecomposition(split="graph", max_iterations=3).solve(
            built.problem, time_limit=LONG
        )
        assert (solution.status, solution.found) == ("no_solution_found", False)


class TestCompletion:
    @pytest.mark.parametrize("tight", [False, True])
    def test_counts_what_the_network_says(self, tight: bool) -> None:
        """The best three trees on true survivals, with and without the rows in their on/off
        form.
        """
        problem, net = planting(1)
        instance = problem.instance()
        onoff = graph(problem).onoff if tight else ()
        assert bool(onoff) == tight
        for on in ((0, 1), (2, 4), ()):
            x = problem.start[0].copy()
            x[list(on), 0] = 1.0
            with torch.no_grad():
                survival = net(torch.tensor(x)).numpy()[:, 0]
            values = Completer(instance, onoff).complete([x])
            assert values is not None
            check = Verifier(instance).check(values)
            assert check.feasible
            assert check.objective == pytest.approx(
                np.sort(np.minimum(survival, 1.0))[-TREES:].sum(), abs=1e-6
            )

    def test_of_inputs_that_break_a_row_there_is_none(self) -> None:
        problem, _ = planting()
        x = problem.start[0].copy()
        x[:3, 0] = 1.0
        assert Completer(problem.instance()).complete([x]) is None

    @pytest.mark.parametrize("seed", range(5))
    def test_a_linear_rest_is_completed_as_scip_would(self, seed: int) -> None:
        """Random rows join inputs and four continuous variables; an SOS1 constraint that says
        nothing calls SCIP.
        """
        found = []
        for by_scip in (False, True):
            draw = np.random.default_rng(seed)
            built = build(relu_net(2), 2, n=1, low=-1.0)
            z = [built.model.addVar(f"z{k}", lb=0.0, ub=2.0) for k in range(4)]
            for _ in range(3):
                a = draw.normal(size=4)
                left = quicksum(a[k] * z[k] for k in range(4))
                left += (draw.normal(size=2) * built.x[0]).sum()
                built.model.addCons(left <= draw.uniform(-0.5, 1.0))
            built.model.setObjective(
                quicksum(z[k] * draw.normal() for k in range(4)) + built.y[0, 0], "maximize"
            )
            if by_scip:
                built.model.addConsSOS1(
                    [built.model.addVar("s0", ub=1.0), built.model.addVar("s1", ub=0.0)]
                )
            instance = Instance(built.model, built.problem.predictors)
            completer = Completer(instance)
            values = [completer.complete([draw.uniform(-1, 1, (1, 2))]) for _ in range(6)]
            checks = [None if v is None else Verifier(instance).check(v) for v in values]
            assert all(check is None or check.feasible for check in checks)
            assert ("_fixing_model" in vars(completer)) == by_scip
            found.append([None if check is None else check.objective for check in checks])
        assert [v is None for v in found[0]] == [v is None for v in found[1]]
        both = [(a, b) for a, b in zip(*found, strict=True) if a is not None]
        assert both
        assert np.allclose(*np.array(both).T, atol=1e-6)

    def test_a_row_on_inputs_alone_is_kept(self) -> None:
        built = build(relu_net(2), 2, n=1, low=-1.0)
        built.model.addVar("rest", ub=1.0)
        built.model.addCons(built.x[0, 0] <= 0.25)
        instance = Instance(built.model, built.problem.predictors)
        assert Completer(instance).complete([np.array([[0.5, 0.0]])]) is None
        assert Completer(instance).complete([np.array([[0.2, 0.0]])]) is not None


class TestIncumbent:
    @pytest.mark.parametrize("sense", ["minimize", "maximize"])
    def test_only_a_better_verified_point_takes_the_place(self, sense: str) -> None:
        net = relu_net(2, seed=5)
        built = build(net, 2, vtype="B", sense=sense)
        built.model.addCons(built.x.sum() <= 1)
        instance = built.problem.instance()
        incumbent = Incumbent(instance, 0.0)
        held = []
        for x in ((1, 1), (0, 0), (1, 0), (1, 1), (0, 1), (0, 0)):
            values = np.zeros(3)
            values[instance.maps[0].index[0]] = x
            check = incumbent.consider(values)
            assert check.feasible == (sum(x) <= 1)
            held.append(incumbent.objective)
        assert held[0] is None
        pick = min if sense == "minimize" else max
        y = [float(forward(net, np.array([x]))[0, 0]) for x in ((0, 0), (1, 0), (0, 1))]
        expected = [y[0], pick(y[:2]), pick(y[:2]), pick(y), pick(y)]
        assert held[1:] == pytest.approx(expected)
        assert built.problem.verify(incumbent.values).objective == pytest.approx(pick(y))

    def test_inputs_seen_before_are_not_solved_again(self) -> None:
        problem, _ = planting()
        instance = problem.instance()
        incumbent = Incumbent(instance, 0.0)
        values = np.zeros(instance.milp.n_variables)
        first = incumbent.consider_inputs(values, seconds=LONG)
        assert first.feasible
        assert incumbent.consider_inputs(values, seconds=0.0) is first
        assert first.objective > 0  # p = 0 in `values`: the rest was chosen for these inputs


def test_an_x_step_goes_past_its_node_limit_until_there_is_a_point() -> None:
    built = build(relu_net(6), 6, vtype="I", low=0, high=9)
    built.model.addCons((built.x[0] * np.array([12.0, 23.0, 31.0, 47.0, 53.0, 71.0])).sum() == 1009)
    block = mip_block(PaperSplit(built.problem.instance()))
    assert isinstance(block, MILPBlock)
    block.model.setParam("limits/nodes", 0)
    values = block.solve(np.zeros(6), np.full(6, 4.5), np.ones(6)).values
    assert values is not None
    assert built.problem.verify(np.where(np.isnan(values), 0, values)).row_violation == 0
    assert (
        block.model.getParam("limits/nodes") == X_STEP_MAX_NODES
    )  # the next x-step is cut short again


class TestCalls:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (
                lambda p: DualDecomposition(restarts=0).solve(p.model),
                TypeError,
                r"NeuralMIP\(model\)",
            ),
            (
                lambda p: DualDecomposition(restarts=0).solve(p, time_limit=np.nan),
                ValueError,
                "number of seconds",
            ),
            (lambda p: DualDecomposition(restarts=0).solve(p, seed=-1), ValueError, "nonnegative"),
            (
                lambda p: p.verify(DualDecomposition(restarts=0).solve(p, time_limit=0)),
                ValueError,
                "its status states the reason",
            ),
            (
                lambda p: p.add_predictor(relu_net(2), [[0, 0]], []),
                ValueError,
                "after the last add_predictor",
            ),
        ],
    )
    def test_are_refused_with_a_remedy(self, call, error: type[Exception], message: str) -> None:
        built = build(relu_net(2), 2, vtype="B")
        if "add_predictor" in message:
            built.problem.set_start([[0.0, 0.0]])
        with pytest.raises(error, match=message):
            call(built.problem)

    def test_gap_and_history_read_as_they_should(self) -> None:
        solution = Enumeration().solve(planting()[0])
        assert solution.gap == pytest.approx(0.0, abs=CLOSED)
        assert replace(
            solution, bound=2 * solution.objective, status="stopped"
        ).gap == pytest.approx(solution.objective / max(1.0, solution.objective))
        run = DualDecomposition(penalty=1.0, max_iterations=2).solve(build(relu_net(2), 2).problem)
        assert run.gap is None
        assert repr(run.history).startswith(f"History: {len(run.history)} iterations, incumbent ")
        assert [it.k for it in run.history] == list(range(1, len(run.history) + 1))


def test_every_budget_of_water_binds() -> None:
    """Treating sample 0 and 1 up to the box in one feature and direction breaks that budget, and
    only that row.
    """
    problem = water_potability(n=2, net=mlp(1, 4, 9, seed=0), seed=1)
    instance = problem.instance()
    position = {v.name: i for i, v in enumerate(problem.model.getVars())}
    untreated = Completer(instance).complete(problem.start)
    assert untreated is not None
    for j, (direction, sign) in itertools.product(range(9), (("a", 1.0), ("b", -1.0))):
        for amount, feasible in ((1.0, True), (1.1, False)):
            values = untreated.copy()
            for name in ("a", "b"):
                values[[position[f"{name}_{i}_{j}"] for i in range(2)]] = 0.0
            values[[position[f"{direction}_{i}_{j}"] for i in range(2)]] = amount
            values[instance.maps[0].index[:, j]] = problem.start[0][:, j] + sign * amount
            check = Verifier(instance).check(instance.with_outputs(values))
            assert check.feasible == feasible, (direction, j, amount, check.worst)


class TestPenaltyRules:
    def rhos(self, rule: PenaltyRule, s=None) -> np.ndarray:
        s = smooth("tanh", 2, 3) if s is None else s
        solver = replace(exact(1.0, detect_cycles=False, max_iterations=25), penalty=rule)
        return solver.solve(restricted(s.net, 2, -3, 3).problem).history["rho"]

    def test_descent_test_only_increases_and_ends_above_need(self) -> None:
        s = smooth("tanh", 2, 3)
        rho = self.rhos(DescentTest(0.02 * s.threshold), s)
        ratios = rho[1:] / rho[:-1]
        assert set(np.round(ratios, 12)) == {1.0, 2.0}
        assert rho[-1] <= 4 * s.threshold
        # started above the threshold it has no reason to move
        assert set(self.rhos(DescentTest(1.05 * s.threshold), s)) == {1.05 * s.threshold}

    def test_stagnation_increases(self) -> None:
        s = smooth("tanh", 2, 3)
        rho = self.rhos(IncreaseOnStagnation(0.02 * s.threshold, factor=3.0, patience=2), s)
        assert (np.diff(rho) >= 0).all()
        assert rho[-1] > rho[0]

    def test_balancing_moves_towards_balance(self) -> None:
        s = smooth("quadratic", 2, 1)
        for start in (1e-3, 1e3):
            h = self.rhos(ResidualBalancing(start), s)
            assert (h[-1] - start) * (1.0 - start) > 0

    @pytest.mark.parametrize(
        "make",
        [
            lambda: IncreaseOnStagnation(factor=1.0),
            lambda: IncreaseOnStagnation(patience=0),
            lambda: ResidualBalancing(ratio=1.0),
            lambda: DescentTest(sigma=0.5),
            lambda: DualDecomposition(penalty=(1.0, 2.0, 3.0)),  # type: ignore[arg-type]
            lambda: DualDecomposition(multiplier_bound=0.0),
        ],
    )
    def test_bad_arguments(self, make) -> None:
        with pytest.raises(ValueError, match=r"needs|must be"):
            make()

    def test_a_rule_prints_its_penalties(self) -> None:
        assert repr(DescentTest((0.5, 20))) == "DescentTest(0.5, 20)"
        assert repr(Sweeps(lengths=(3,))) == "Sweeps(low=1, high=30, lengths=(3,))"


def test_barrier_steps_keep_a_share_of_every_slack() -> None:
    """Minimisers on the boundary are approached from inside; a step that is cut goes as far as the
    share allows.
    """
    path = [np.zeros(2)]
    block = LogBarrier(mu_final=1e-10, callback=lambda u, mu: path.append(u.copy()))
    built = build(Quadratic(np.diag([2.0, 5.0]), np.array([4.0, -3.0])), 2, low=-1.0)
    split = PaperSplit(built.problem.instance())
    sub = NNSubproblem(split, np.array([0.5, 0.2]), np.zeros(2), Penalty.both(1.0))
    u = path[0]
    for _ in range(3):
        u = block.minimise(sub, u)
    assert np.abs(np.array(path)).max() < 1.0
    np.testing.assert_allclose(u, [1.0, -1.0], atol=1e-4)
    slack = np.minimum(*(1 - sign * np.array(path) for sign in (1, -1)))
    assert (slack[1:] / slack[:-1]).min() == pytest.approx(MIN_SLACK_FRACTION, rel=0.02)
