"""Calls end within their limits and keep the best point that they have, by a clock that the tests
drive.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    LogBarrier,
    PriceCoordination,
    Recovering,
    SequentialMIP,
    SingleStepGradient,
    certify,
    solve,
)
from ddmip_lib.certificates import lagrangian_bound
from ddmip_lib.clock import TimeOver, check_time, limited, unlimited, using
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.verification import Verifier
from tests.builders.clocks import Counting, Ticking
from tools.bench_models import assignments, prices, reactor, water

ROOT = Path(__file__).resolve().parents[2]
METHODS = {
    "solve": lambda problem, known, limit: solve(problem, limit),
    "sequential MIP": lambda problem, known, limit: SequentialMIP().solve(problem, limit),
    "dual decomposition": lambda problem, known, limit: DualDecomposition().solve(problem, limit),
    "barrier": lambda problem, known, limit: DualDecomposition(nn_block=LogBarrier()).solve(
        problem, limit
    ),
    "prices": lambda problem, known, limit: PriceCoordination().solve(problem, limit),
    "recovering": lambda problem, known, limit: Recovering(DualDecomposition()).solve(
        problem, limit
    ),
    "single-step gradient": lambda problem, known, limit: SingleStepGradient().solve(
        problem, limit
    ),
    "Big-M": lambda problem, known, limit: BigM().solve(problem, limit),
    "enumeration": lambda problem, known, limit: Enumeration().solve(problem, limit),
    "certify": lambda problem, known, limit: certify(problem, known, time_limit=limit, workers=1),
    "Lagrangian bound": lambda problem, known, limit: lagrangian_bound(problem, known, limit),
}
SMALL = {
    "reactor": lambda: reactor(hours=3),
    "prices": lambda: prices(products=5),
    "assignments": lambda: assignments(integers=3, values=4),
    "water": lambda: water(n=3, network="water_2x16"),
}
AFTERWARDS = (
    40  # readings of the clock after a deadline: those of the result, none of which begins new work
)
PIECE = 3e9  # operations of torch between two readings: a tenth of a second or two on one core


@pytest.fixture(scope="module")
def known():
    """A verified point of each small model, which no limit may lose."""
    return {
        name: SequentialMIP(max_failed_starts=3).solve(build(), 3600.0)
        for name, build in SMALL.items()
    }


@pytest.mark.parametrize("limit", [1.0, 7.0, 60.0])
@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("method", METHODS)
def test_a_call_ends_soon_after_its_deadline_and_keeps_its_start(method, model, limit, known):
    problem = SMALL[model]()
    problem.set_start(known[model])
    clock = Ticking()
    with using(clock):
        try:
            found = METHODS[method](problem, known[model], limit)
        except ProblemError:  # this method is not for this model, which it says before any work
            assert clock.looks < AFTERWARDS
            return
    assert clock.looks <= limit + AFTERWARDS
    sign = problem.instance().milp.sign
    printed = not isinstance(
        found.objective, float
    )  # only a limit of one reading may end a call before the start
    assert (printed and limit == 1.0) or sign * found.objective <= sign * known[
        model
    ].objective + 1e-6


@pytest.mark.parametrize("model", [reactor, water])
@pytest.mark.parametrize(
    "method", ["sequential MIP", "dual decomposition", "prices", "certify", "Lagrangian bound"]
)
def test_no_piece_of_work_between_two_readings_is_large(method, model):
    problem = model()
    start = DualDecomposition(max_iterations=1).solve(problem, 3600.0)
    clock = Counting(step=0.05)
    torch.set_num_threads(1)
    with clock.operations, using(clock):
        METHODS[method](problem, start, 10.0)
    assert clock.looks > 20
    assert clock.most < PIECE


def test_enumeration_returns_the_best_assignment_that_it_has():
    """Its best assignment is looked at first, even where the list of all of them took the whole
    time.
    """
    problem = assignments(integers=4, values=5)
    best = Enumeration().solve(problem, 3600.0)
    assert best.status == "optimal"
    found = []
    for limit in range(1, 40):
        with using(Ticking()):
            found.append(Enumeration().solve(problem, float(limit)))
    assert all(solution.status in ("time_limit", "optimal") for solution in found)
    objectives = [solution.objective for solution in found]
    first = next(k for k, objective in enumerate(objectives) if objective is not None)
    assert objectives[first:] == [best.objective] * len(objectives[first:])
    assert found[-1].status == "optimal"


def test_the_innermost_and_the_outermost_deadline_both_count():
    clock = Ticking(step=0.0)
    with using(clock), limited(1.0), limited(2.0):
        clock.step = 1.5
        clock.looks = 0
        with pytest.raises(TimeOver):
            check_time()
        with unlimited():
            check_time()


def test_a_time_limit_does_not_change_what_is_verified():
    problem = SMALL["water"]()
    with using(Ticking()):
        found = solve(problem, 25.0)
    if found.values is not None:
        check = Verifier(problem.instance()).check(np.asarray(found.values))
        assert check.feasible
        assert check.objective == pytest.approx(found.objective)


LEFT_RUNNING = """
import numpy as np, scipy.sparse as sp
from ddmip_lib.clock import TimeOver, limited, now
from ddmip_lib.programs.highs import pass_program, run_highs, silent_highs
from ddmip_lib.programs.program import Program, Rows

rng = np.random.default_rng(0)
matrix = sp.csr_matrix(rng.random((700, 700)))
one = np.ones(700)
program = Program(-one, Rows.of(matrix), -np.inf * one, 100 * one, 0 * one, one, one > 2)
highs = silent_highs({})
pass_program(highs, program)
try:
    with limited(now() + 0.01):
        run_highs(highs, matrix.nnz, False)
except TimeOver:
    print("time over")
"""


def test_python_ends_orderly_while_a_solver_is_left_running() -> None:
    """A thread of HiGHS that returns into an interpreter that is gone would abort the process."""
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_RUNNING], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout in ("time over\n", "")
