"""`solve` on models that nothing was tuned to, against the best values that any run of any method
has found.
"""

from __future__ import annotations

from statistics import mean

import pytest
import torch

from ddmip_lib import solve
from tests.builders.strangers import KINDS, stranger

torch.set_num_threads(1)

BEST = {
    "normed": (2.8036, 5.47427),
    "balanced": (-1.44074, -3.7649),
    "pixels": (4.00363, 3.8541),
    "periods": (11.8263, 14.0242),
    "odd_units": (-5563.58, -4006.58),
    "two_networks": (8.91621, 10.2597),
    "chains": (41.2088, 39.8617),
    "machines": (-1.59531, -1.56547),
    "whole": (-0.181332, -2.86632),
    "no_rows": (14.0829, 10.3063),
    "attention": (10.3854, -51.7096),
    "wide": (89.2308, 43.8917),
    "stations": (-19.3764, -14.8477),
}
"""Of seeds 0 and 1, to six digits, by runs of up to 90 seconds."""


@pytest.mark.long
def test_strangers_get_verified_points_and_bounds_on_their_side() -> None:
    """It holds at any limit; how close the points come in twenty seconds is told, and checked by
    nobody.
    """
    distances = {}
    for kind in KINDS:
        for seed, best in enumerate(BEST[kind.__name__]):
            problem = stranger(kind, seed)
            solution = solve(problem, time_limit=20, seed=0)
            sign = 1 if problem.model.getObjectiveSense() == "minimize" else -1
            assert solution.found
            assert problem.verify(solution).feasible
            distances[kind.__name__, seed] = (
                sign * (solution.objective - best) / max(1.0, abs(best))
            )
            if solution.bound is not None:
                assert sign * solution.bound <= sign * best + 1e-4 * max(1.0, abs(best))
    print(f"{mean(max(0.0, away) for away in distances.values()):.4f} on average: {distances}")
