"""No wrong bound, no wrong "optimal", no bare error, whatever the units of a problem."""

from collections import Counter

import numpy as np
import pytest

from ddmip_lib import BigM, Enumeration, Solution
from ddmip_lib.certificates import certify, crown_multipliers, dual_value, lagrangian_bound
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from tests.builders.clocks import LONG
from tests.builders.scales import Scaled, draw_scaled

MET = 2e-5  # twice what counts as met: the point may be off by as much as the bound


def size_of(scaled: Scaled) -> float:
    """Of the objective: its largest value among the points, or what an output or input
    contributes.
    """
    s = scaled.problem.instance().milp
    return float(
        max(
            np.abs(scaled.points @ s.cost).max(),
            (np.abs(s.cost) * np.abs(scaled.points)).max(),
            1e-300,
        )
    )


def judge(
    scaled: Scaled, said: str, objective: float | None, bound: float | None, checked: bool
) -> str:
    """Compare what is said with all points: the status, or an error."""
    best = scaled.best(strictly=True)
    loosely = scaled.best(strictly=False)
    size = size_of(scaled)
    if checked and bound is not None and loosely is not None:
        beyond = scaled.sign * bound - loosely
        assert beyond <= 1e-9 * size, f"bound {bound} beyond {scaled.sign * loosely}"
    if said == "optimal" and best is not None:
        assert objective is not None
        assert scaled.sign * objective <= best + MET * size, (
            f"optimal {objective}, but {scaled.sign * best} is there"
        )
    if said == "infeasible":
        assert best is None, f"infeasible, but {scaled.sign * best} is there"
    return said


def attack(scaled: Scaled) -> dict[str, str]:
    """What every exact method says; its answer is judged."""
    problem = scaled.problem
    said = dict[str, str]()
    solvers = {"big-m": lambda: BigM().solve(problem, LONG)}
    if scaled.complete:
        solvers["enumeration"] = lambda: Enumeration(256).solve(problem, LONG)
    solvers["certify"] = lambda: certify(
        problem, Solution("no_solution_found", "none"), time_limit=LONG
    )
    for name, solve in solvers.items():
        try:
            s = solve()
        except (ProblemError, UnsupportedNetworkError):
            said[name] = "refused"
            continue
        said[name] = judge(
            scaled, s.status, s.objective, s.bound, s.proof is not None and s.proof.checked
        )
        if name == "big-m":
            c = certify(problem, s, time_limit=LONG)
            said["big-m, then certify"] = judge(scaled, c.status, c.objective, c.bound, True)
    try:
        found = lagrangian_bound(problem, time_limit=LONG)
        said["lagrangian"] = judge(scaled, found.status, found.objective, found.bound, True)
        rng = np.random.default_rng(0)
        best = crown_multipliers(problem)
        for lam in (np.zeros(len(best)), best, best * rng.uniform(0, 2, len(best))):
            value = dual_value(problem, lam, time_limit=LONG)
            judge(scaled, "dual", None, value if np.isfinite(value) else None, True)
    except (ProblemError, UnsupportedNetworkError):
        said["lagrangian"] = "refused"
    return said


@pytest.mark.parametrize("spread", [3.0, 8.0])
def test_a_sample(spread: float) -> None:
    for seed in range(7, 13):
        attack(draw_scaled(seed, spread))


@pytest.mark.long
@pytest.mark.parametrize("spread", [3.0, 8.0])
@pytest.mark.parametrize("first", range(0, 500, 25))
def test_many(first: int, spread: float) -> None:
    found = [attack(draw_scaled(seed, spread)) for seed in range(first, first + 25)]
    counts = Counter(status for said in found for status in said.values())
    assert counts["refused"] <= max(2, 0.05 * counts.total())
    if spread <= 3.0:  # of what a solver calls optimal nine of ten are checked
        assert counts["optimal"] >= 0.9 * (counts["optimal"] + counts["claimed_optimal"])
