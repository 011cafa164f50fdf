"""A baseline that every method should beat: the inputs of the networks at random, all else solved
for.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pyscipopt import quicksum

from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.methods import start_run
from ddmip_lib.model import PointCallback
from ddmip_lib.programs.scip import copy_model, matrix_of, set_time_limit, solution_values


@dataclass(frozen=True)
class RandomInputs:
    """Corners of the MIP's constraints in random directions of the networks' inputs; each is
    completed and verified.

    >>> from ddmip_lib.problems import hand_sized
    >>> RandomInputs(points=20).solve(hand_sized()).objective
    0.5
    """

    points: int = 50
    method: ClassVar[str] = "random inputs"

    def __post_init__(self) -> None:
        if int(self.points) != self.points or self.points < 1:
            raise ValueError(f"points={self.points} must be a positive integer.")

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Draw `points` directions by `seed` and return the best verified point."""
        run = start_run(problem, time_limit, seed, on_point, method=self.method)
        incumbent = run.incumbent()
        draw = np.random.default_rng(seed)
        model = copy_model(problem.model, seed)
        variables = model.getVars()
        inputs = np.unique(np.concatenate([m.index[m.index >= 0] for m in run.instance.maps]))
        status = "iteration_limit"
        for _ in range(self.points):
            left = run.seconds_left
            if left <= 0:
                status = "time_limit"
                break
            direction = draw.normal(size=len(inputs))
            model.freeTransform()
            model.setObjective(
                quicksum(d * variables[i] for d, i in zip(direction, inputs, strict=True))
            )
            set_time_limit(model, left)
            model.optimize()
            if model.getStatus() == "infeasible":
                status = "infeasible" if incumbent.values is None else "stopped"
                break
            if model.getNSols():
                incumbent.consider_inputs(
                    solution_values(model, matrix_of(variables)), min(10.0, max(left, 0.1))
                )
        if incumbent.values is None and status == "iteration_limit":
            status = "no_solution_found"
        return run.solution(status)
