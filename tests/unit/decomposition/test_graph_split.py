"""The graph split: on/off variables in the MIP block, both couplings, completion, and whole
runs.
"""

import itertools

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import tree_planting, water_potability
from ddmip_lib import PGD, DualDecomposition, NeuralMIP
from ddmip_lib.decomposition.graph_split import GraphSplit
from ddmip_lib.decomposition.mip_block import JointBlock, QPBlock, mip_block
from ddmip_lib.decomposition.nn_block import NNSubproblem
from ddmip_lib.decomposition.paper_split import PaperSplit
from ddmip_lib.decomposition.penalty import Penalty
from ddmip_lib.errors import ProblemError
from tests.builders.clocks import LONG
from tests.builders.instances import build, forward, relu_net, tiny

torch.set_num_threads(1)


def survival_nets(seed=0):
    """Four small networks with outputs around 0.8."""
    nets = []
    for k in range(4):
        net = relu_net(7, width=5, seed=10 * seed + k, scale=0.25)
        with torch.no_grad():
            net[2].bias += 0.8
        nets.append(net)
    return nets


def graph_of(problem):
    return GraphSplit(problem.instance(), problem.start)


def named(problem, prefix):
    """Positions of the variables with this name."""
    names = [v.name for v in problem.model.getVars()]
    return np.array([i for i, name in enumerate(names) if name.rsplit("_", 1)[0] == prefix])


class TestSplit:
    def test_one_copy_for_each_shared_input_and_a_group_for_each_site(self) -> None:
        split = graph_of(tree_planting(grid=3, nets=survival_nets()))
        assert split.inputs.size == 9
        assert split.coupled.size == 9 + 36
        assert split.n_groups == 9
        assert len(split.onoff) == 36

    def test_copies_are_inputs_and_true_outputs(self) -> None:
        problem = tree_planting(grid=2, nets=survival_nets(1))
        split = graph_of(problem)
        u = np.random.default_rng(0).random(4)
        copies = split.copies(u)
        np.testing.assert_array_equal(copies[:4], u)
        x = problem.start[0].copy()
        x[:, 6] = u
        expected = np.concatenate(
            [np.maximum(forward(net, x), 0.0).ravel() for net in survival_nets(1)]
        )
        np.testing.assert_allclose(copies[4:], expected, rtol=1e-12)

    def test_output_ranges_are_exact_where_inputs_take_two_values(self) -> None:
        problem = tree_planting(grid=2, nets=survival_nets(2))
        split = graph_of(problem)
        ends = np.stack([split.copies(np.full(4, z))[4:] for z in (0.0, 1.0)])
        outputs = split.coupled[4:]
        np.testing.assert_allclose(split.milp.lower[outputs], ends.min(axis=0), atol=1e-12)
        np.testing.assert_allclose(split.milp.upper[outputs], ends.max(axis=0), atol=1e-12)

    def test_gradient_of_the_nn_block_against_differences(self) -> None:
        split = graph_of(tree_planting(grid=2, nets=survival_nets(3)))
        rng = np.random.default_rng(1)
        w = rng.random(20)
        lam = rng.normal(size=20)
        u = rng.uniform(0.2, 0.8, 4)
        sub = NNSubproblem(split, w, lam, Penalty(0.7, 3.0))

        def phi(u):
            r = split.copies(u) - w
            return lam @ r + 0.5 * np.concatenate([np.full(4, 0.7), np.full(16, 3.0)]) @ r**2

        values, slope = sub.values_and_gradient(u)
        assert values.sum() == pytest.approx(phi(u), rel=1e-12)
        steps = 1e-6 * np.eye(4)
        np.testing.assert_allclose(
            slope, [(phi(u + e) - phi(u - e)) / 2e-6 for e in steps], rtol=1e-5, atol=1e-7
        )
        assert sub.parts(torch.tensor(u))[0].sum().item() == pytest.approx(phi(u), rel=1e-12)

    def test_paper_split_on_request_says_that_it_does_not_exist(self) -> None:
        problem = tree_planting(grid=2, nets=survival_nets())
        with pytest.raises(ProblemError, match=r"the paper split does not exist.*graph"):
            DualDecomposition(split="paper", restarts=0).solve(problem)
        assert DualDecomposition(max_iterations=1).solve(problem).details["split"] == "graph"


def best_tree(lam, kappa, rho, low, high, gamma):
    """min -s' - lam s + rho/2 (s - kappa)^2 over gamma <= s' <= min(s, 1), s in its range, by a
    fine search.
    """
    s = np.linspace(low, high, 20001)
    value = -np.minimum(s, 1.0) - lam * s + 0.5 * rho * (s - kappa) ** 2
    value[np.minimum(s, 1.0) < gamma] = np.inf
    return value.min()


class TestMIPBlock:
    @pytest.mark.parametrize("seed", range(4))
    def test_tree_block_against_brute_force_over_species_and_soils(self, seed: int) -> None:
        """2 x 2 sites: every species must be planted once, so 24 plantings times 2^4 soils."""
        problem = tree_planting(grid=2, nets=survival_nets(seed), seed=seed, beta=2)
        split = graph_of(problem)
        block = mip_block(split)
        assert len(block.onoff) == 16
        s = split.milp
        outputs = split.coupled[4:]
        rng = np.random.default_rng(seed)
        target = s.row_lower[[i for i, name in enumerate(s.row_names) if name.startswith("target")]]
        for rho in (Penalty(0.1, 2.0), Penalty(1.0, 10.0), Penalty(0.5, 0.3)):
            lam = 0.5 * rng.normal(size=20)
            kappa = np.concatenate([rng.random(4), rng.random(16)])
            result = block.solve(lam, kappa, split.weights(rho))
            v = result.values
            assert (s.rows @ v <= s.row_upper + 1e-6).all()
            assert (s.rows @ v >= s.row_lower - 1e-6).all()
            w = v[split.coupled]
            reached = (
                split.cost @ v - lam @ w + 0.5 * (split.weights(rho) * (w - kappa)) @ (w - kappa)
            )
            soils = min(
                float(-lam[:4] @ z + 0.5 * rho.inputs * ((z - kappa[:4]) ** 2).sum())
                for z in map(np.array, itertools.product((0.0, 1.0), repeat=4))
                if z.sum() <= 2
            )
            lam_y = lam[4:].reshape(4, 4)
            k_y = kappa[4:].reshape(4, 4)  # by species, then by site
            low = s.lower[outputs].reshape(4, 4)
            high = s.upper[outputs].reshape(4, 4)
            free = np.clip(k_y + lam_y / rho.outputs, low, high)
            off = -lam_y * free + 0.5 * rho.outputs * (free - k_y) ** 2
            plantings = min(
                sum(
                    best_tree(lam_y[k, i], k_y[k, i], rho.outputs, low[k, i], high[k, i], target[k])
                    - off[k, i]
                    for k, i in enumerate(sites)
                )
                for sites in itertools.permutations(range(4))
            )
            best = soils + plantings + off.sum()
            assert best - 1e-6 <= reached <= best + 2e-3 * max(1.0, rho.outputs / 10)

    def test_a_point_is_never_worse_than_the_one_before(self) -> None:
        problem = tree_planting(grid=3, nets=survival_nets(5), seed=1, beta=3)
        split = graph_of(problem)
        block = mip_block(split)
        rng = np.random.default_rng(2)
        rho = split.weights(Penalty(0.2, 4.0))
        before = None
        for _ in range(4):
            lam = 0.3 * rng.normal(size=45)
            kappa = rng.random(45)
            v = block.solve(lam, kappa, rho).values

            def value(v, lam=lam, kappa=kappa):
                w = v[split.coupled]
                return split.cost @ v - lam @ w + 0.5 * (rho * (w - kappa)) @ (w - kappa)

            if before is not None:
                assert value(v) <= value(before) + 1e-2  # tangents of squares
            before = v

    def test_parts_without_integers_go_to_the_qp_solver(self) -> None:
        problem = water_potability(n=3, net=mlp(2, 8, 9, seed=0))
        split = graph_of(problem)
        block = mip_block(split)
        assert isinstance(block, JointBlock)
        assert block.qp.kept.size == 3 * 27  # x, a, b; classes and logits stay with SCIP
        assert isinstance(mip_block(PaperSplit(split.instance, problem.start)), QPBlock)
        rng = np.random.default_rng(0)
        lam = rng.normal(size=30)
        kappa = split.copies(split.start) + 0.3 * rng.normal(size=30)
        rho = split.weights(Penalty(2.0, 0.5))
        result = block.solve(lam, kappa, rho)
        s = split.milp
        v = result.values
        assert (s.rows @ v <= s.row_upper + 1e-6).all()
        assert (s.rows @ v >= s.row_lower - 1e-6).all()
        # each class on its own: y = 1 pays where the gain of one exceeds what moving its logit
        # costs
        o = v[split.coupled[27:]]
        y = v[split.instance.maps[0].output.ravel()]
        low = s.lower[split.coupled[27:]]
        high = s.upper[split.coupled[27:]]
        grid = np.linspace(low, high, 200001)
        term = -lam[27:] * grid + 0.25 * (grid - kappa[27:]) ** 2
        on = np.where(grid >= 1e-3, term, np.inf).min(axis=0) - 1.0
        np.testing.assert_array_equal(y, (on < term.min(axis=0)).astype(float))
        reached = -lam[27:] * o + 0.25 * (o - kappa[27:]) ** 2 - y
        np.testing.assert_allclose(reached, np.minimum(on, term.min(axis=0)), atol=1e-5)


class TestRuns:
    @pytest.mark.parametrize("seed", [0, 3, 8, 11])
    def test_verified_and_never_better_than_enumeration(self, seed: int) -> None:
        instance = tiny(seed)
        solution = DualDecomposition(split="graph", restarts=0).solve(
            instance.problem, time_limit=LONG, seed=seed
        )
        best = instance.optimum()
        if best is None:
            assert not solution.found
            return
        assert solution.found
        assert instance.problem.verify(solution).feasible
        assert instance.sign * solution.objective >= instance.sign * best - 1e-6

    def test_variables_beside_outputs_are_solved_for_again(self) -> None:
        """y + t >= 1 with t costly: at each x the best t is 1 - f(x), which no iterate of the MIP
        block knows.
        """
        net = relu_net(3, seed=4)
        built = build(net, 3, vtype="B")
        t = built.model.addVar("t", lb=0.0, ub=50.0)
        built.model.addCons(built.y[0, 0] + t >= 1)
        built.model.setObjective(2.0 * t + built.y[0, 0] + 0.1 * built.x.sum(), "minimize")
        points = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
        f = forward(net, points).ravel()
        values = 2.0 * np.maximum(0.0, 1.0 - f) + f + 0.1 * points.sum(axis=1)
        solution = DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG)
        assert solution.details["split"] == "graph"
        assert built.problem.verify(solution).feasible
        assert solution.objective == pytest.approx(values.min(), abs=1e-6)

    def test_several_networks_share_an_input(self) -> None:
        first = relu_net(2, seed=1)
        second = relu_net(2, seed=2)
        m = pyscipopt.Model()
        x = m.addMatrixVar((1, 3), vtype="B")
        y = m.addMatrixVar((1, 2), lb=None)
        t = m.addVar(lb=-100, ub=100)
        m.addCons(t >= y[0, 0] + y[0, 1])
        m.setObjective(t)
        problem = NeuralMIP(m)
        problem.add_predictor(first, x[:, :2], y[:, :1])
        problem.add_predictor(second, x[:, 1:], y[:, 1:])
        points = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
        best = (forward(first, points[:, :2]) + forward(second, points[:, 1:])).min()
        split = graph_of(problem)
        assert split.inputs.size == 3
        assert split.n_groups == 1
        solution = DualDecomposition(restarts=0).solve(problem, time_limit=LONG)
        assert problem.verify(solution).feasible
        assert solution.objective >= best - 1e-6

    def test_indicator_of_a_class_runs(self) -> None:
        built = build(relu_net(2, seed=0), 2, output="classification", sense="maximize")
        z = built.model.addVar("z", ub=1.0)
        built.model.addConsIndicator(z <= 0.5, binvar=built.y[0, 0])
        built.model.setObjective(z + 0.2 * built.y[0, 0], "maximize")
        solution = DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG)
        assert solution.details["split"] == "graph"
        assert built.problem.verify(solution).feasible
        assert solution.objective == pytest.approx(1.0)

    def test_what_output_ranges_forbid_is_no_proof_of_infeasibility(self) -> None:
        built = build(
            nn.Sequential(nn.Linear(2, 1), nn.Softplus()).double(), 2
        )  # of which only samples are known
        z = built.model.addVar("z", ub=1.0)
        built.model.addCons(built.y[0, 0] >= 1000 - z)
        solution = DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG)
        assert solution.status == "no_solution_found"
        built.model.addCons(z >= 2)
        assert (
            DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG).status
            == "infeasible"
        )

    def test_units_of_the_objective_do_not_matter(self) -> None:
        def solve(factor):
            problem = tree_planting(grid=2, nets=survival_nets(6), seed=3, beta=2)
            m = problem.model
            m.setObjective(
                factor * pyscipopt.quicksum(v for v in m.getVars() if v.name.startswith("s'")),
                "maximize",
            )
            return DualDecomposition(max_iterations=10).solve(problem, seed=1)

        one = solve(1.0)
        thousand = solve(1000.0)
        assert thousand.objective == pytest.approx(1000 * one.objective, rel=1e-6)
        np.testing.assert_allclose(thousand.history["rho"], 1000 * one.history["rho"], rtol=1e-3)

    def test_pair_of_penalties(self) -> None:
        problem = tree_planting(grid=2, nets=survival_nets(7), beta=2)
        h = DualDecomposition(PGD(), penalty=(0.05, 2.0), max_iterations=5).solve(problem).history
        assert set(h["rho"]) == {0.05}
        assert set(h["rho_outputs"]) == {2.0}
