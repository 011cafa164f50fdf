"""First points: found without a start where cheap candidates or their completions are feasible."""

from __future__ import annotations

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP, SequentialMIP
from ddmip_lib.linearisation.first_points import submit_first_points
from ddmip_lib.methods import start_run
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net


def submitted(problem: NeuralMIP):
    run = start_run(problem, LONG, 0)
    incumbent = run.incumbent()
    return submit_first_points(run, incumbent), incumbent


def test_the_best_of_the_points_of_the_box_is_submitted():
    net = relu_net(3, width=8, seed=1)
    built = build(net, 3, low=-1.0, high=1.0)
    tried, incumbent = submitted(built.problem)
    assert tried == "points of the box of the network inputs"
    points = torch.tensor([[0.0] * 3, [-1.0] * 3, [1.0] * 3], dtype=torch.float64)
    assert incumbent.objective <= net(points).min().item()


def test_a_feasible_start_is_enough():
    built = build(relu_net(2), 2)
    built.problem.set_start([[0.5, 0.5]])
    tried, incumbent = submitted(built.problem)
    assert tried == ""
    assert incumbent.objective is not None


def test_continuous_variables_are_completed():
    built = build(relu_net(2, seed=3), 2)
    model = built.model
    worst = model.addVar(lb=None, name="worst")
    model.addCons(worst >= built.y[0, 0])
    model.addCons(worst + built.x[0, 0] == 100.0)
    _, incumbent = submitted(built.problem)
    assert incumbent.objective is not None


def assignment(jobs: int, cores: int) -> NeuralMIP:
    """Every job on one core, as many on each; a network predicts from the mean of a core's jobs."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1), nn.Sigmoid()).double().eval()
    model = Model()
    on = model.addMatrixVar((jobs, cores), vtype="B", name="on")
    mean = model.addMatrixVar((cores, 1), lb=-5, ub=5, name="mean")
    rate = model.addMatrixVar((cores, 1), lb=0, ub=1, name="rate")
    worst = model.addVar(ub=1, name="worst")
    load = rng.uniform(-1, 1, jobs)
    for job in range(jobs):
        model.addCons(on[job].sum() == 1)
    for core in range(cores):
        model.addCons(on[:, core].sum() == jobs / cores)
        model.addCons(mean[core, 0] == (load * on[:, core]).sum() / (jobs / cores))
        model.addCons(worst <= rate[core, 0])
    model.setObjective(worst, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, mean, rate)
    return problem


def test_integers_that_determine_the_inputs_come_from_the_constraints():
    problem = assignment(24, 4)
    tried, incumbent = submitted(problem)
    assert tried == "points of the constraints without networks"
    assert incumbent.objective > 0
    assert problem.verify(incumbent.values).feasible


def test_without_a_feasible_point_all_kinds_were_tried():
    built = build(relu_net(2), 2)
    built.model.addCons(built.y[0, 0] >= 1e4)
    tried, incumbent = submitted(built.problem)
    assert tried.endswith(
        "of the box of the network inputs and of the constraints without networks"
    )
    assert incumbent.objective is None
    assert incumbent.nearest.point is not None


def test_sequential_linearisation_begins_with_a_point():
    problem = assignment(24, 4)
    found = SequentialMIP(max_failed_starts=1).solve(problem, time_limit=LONG)
    assert problem.verify(found).feasible
