"""An exact model that starts from the best point that price coordination finds.

The exact model counts a class from a logit of its margin on, and price coordination moves points
just across zero. So the start is sought with networks that say the margin less: what they call 1 is
1 in the exact model too.
"""

import time
from dataclasses import dataclass, replace

from torch import Tensor, nn

from ddmip_lib import BigM, NeuralMIP, PriceCoordination, Solution

SHARE = 0.2
"""Of the time, what the search for the start may take."""


class Lowered(nn.Module):
    """A network whose outputs are lower by a constant."""

    def __init__(self, net: nn.Module, margin: float) -> None:
        super().__init__()
        self.net = net
        self.margin = margin

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) - self.margin


@dataclass(frozen=True)
class Started:
    """The `exact` model, started; ``details["start_objective"]`` and ``["start_seconds"]`` say from
    where.

    >>> from ddmip_book.networks import mlp
    >>> from ddmip_book.problems import water_potability
    >>> solution = Started(BigM()).solve(
    ...     water_potability(n=2, net=mlp(1, 4, 9, seed=1)), time_limit=10.0
    ... )
    >>> solution.objective >= solution.details["start_objective"]
    True
    """

    exact: BigM

    @property
    def method(self) -> str:
        return f"{self.exact.method}, started"

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution:
        """Price coordination first, then the exact model in the time that is left."""
        began = time.perf_counter()
        lowered = problem.with_own_start()
        lowered.predictors = [
            replace(p, net=Lowered(p.net, 2 * self.exact.margin)) if p.gives_class else p
            for p in problem.predictors
        ]
        start = PriceCoordination().solve(lowered, SHARE * time_limit, seed, progress)
        taken = time.perf_counter() - began
        exact = (
            self.exact if start.values is None else replace(self.exact, start=tuple(start.inputs))
        )
        solution = exact.solve(problem, time_limit - taken, seed, progress)
        for moment in range(len(solution.details.get("incumbents", []))):
            seconds, value = solution.details["incumbents"][moment]
            solution.details["incumbents"][moment] = (seconds + taken, value)
        more = {"start_objective": start.objective, "start_seconds": taken}
        return replace(
            solution,
            method=self.method,
            seconds=solution.seconds + taken,
            details=solution.details | more,
        )
