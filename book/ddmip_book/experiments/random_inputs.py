"""A baseline that every method should beat: the inputs of the networks at random, all else solved for."""

from __future__ import annotations

import time

import numpy as np
from ddmip_lib.model.incumbent import Incumbent
from ddmip_lib.model.instance import Compiled
from ddmip_lib.model.problem import NeuralMIP, check_call
from ddmip_lib.model.scip import copy_model, matrix_of, set_time_limit, solution_values
from ddmip_lib.model.solution import Solution
from pyscipopt import quicksum


class RandomInputs:
    """Corners of the MIP's rows in random directions of the networks' inputs; each is completed and verified.

    >>> from ddmip_lib.problems import hand_sized
    >>> RandomInputs(points=20).solve(hand_sized()).objective
    0.5
    """

    def __init__(self, points: int = 50) -> None:
        if int(points) != points or points < 1:
            raise ValueError(f"points={points} must be a positive integer.")
        self.points = points
        self.method = "random inputs"

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False) -> Solution:
        """Draw `points` directions by `seed` and return the best verified point."""
        began = time.perf_counter()
        check_call(problem, time_limit, seed)
        compiled = Compiled(problem.model, problem.predictors)
        incumbent, draw = Incumbent(compiled, began), np.random.default_rng(seed)
        incumbent.consider_start(problem.start, time_limit)
        model = copy_model(problem.model, seed)
        variables = model.getVars()
        inputs = np.unique(np.concatenate([m.index[m.index >= 0] for m in compiled.maps]))
        status = "iteration_limit"
        for _ in range(self.points):
            left = began + time_limit - time.perf_counter()
            if left <= 0:
                status = "time_limit"
                break
            direction = draw.normal(size=len(inputs))
            model.freeTransform()
            model.setObjective(quicksum(d * variables[i] for d, i in zip(direction, inputs, strict=True)))
            set_time_limit(model, left)
            model.optimize()
            if model.getStatus() == "infeasible":
                status = "infeasible"
                break
            if model.getNSols():
                incumbent.consider_inputs(solution_values(model, matrix_of(variables)), min(10.0, max(left, 0.1)))
        if incumbent.values is None and status == "iteration_limit":
            status = "no_solution_found"
        return Solution(
            status,
            self.method,
            **incumbent.point(),
            seconds=time.perf_counter() - began,
            details={"incumbents": incumbent.found},
        )
