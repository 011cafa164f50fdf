"""Ranges by linear programs lose no point that matters, and what is proved with them is the
optimum.
"""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ddmip_lib.bounds import Box, crown, network_graph
from ddmip_lib.programs import bound_tightening, branch_and_bound
from ddmip_lib.programs.bound_tightening import optimality_based_tightening
from ddmip_lib.programs.branch_and_bound import prove
from ddmip_lib.programs.lp import LPProposal, LPSolver
from ddmip_lib.programs.presolve import probe_binaries
from ddmip_lib.programs.program import Program, Rows
from ddmip_lib.proofs.encoding import NetworkEncoder, NodeColumns
from tests.unit.programs.test_program import draw_program


def relu_program(seed: int, inputs: int = 3, width: int = 5) -> tuple[Program, torch.nn.Sequential]:
    """The least output of a random network of two hidden layers in a box, and the network."""
    torch.manual_seed(seed)
    net = (
        torch.nn.Sequential(
            torch.nn.Linear(inputs, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 1),
        )
        .double()
        .requires_grad_(False)
    )
    end = np.ones(inputs)
    start = Program(
        np.zeros(inputs),
        Rows.of(sp.csr_matrix((0, inputs))),
        np.zeros(0),
        np.zeros(0),
        -end,
        end,
        end > 1,
    )
    building = NetworkEncoder(start)
    graph = network_graph(net, inputs)
    bounds = crown(graph, Box(*(torch.tensor(side)[None] for side in (-end, end))))
    out = building.add_network(graph, bounds, 0, NodeColumns(np.arange(inputs), np.zeros(inputs)))
    program = building.program()
    program.cost[out.at] = 1.0
    return program, net


def complete(program: Program, net: torch.nn.Sequential, x: np.ndarray) -> np.ndarray:
    """All variables of `relu_program` where its inputs are x, whose output is the network's."""
    lower = program.lower.copy()
    upper = program.upper.copy()
    lower[: x.size] = upper[: x.size] = x
    found = linprog(
        0 * program.cost, bounds=np.c_[lower, upper], integrality=program.integer, **sides(program)
    )
    assert found.status == 0
    assert found.x @ program.cost == pytest.approx(float(net(torch.tensor(x))), abs=1e-5)
    return np.where(program.integer, np.round(found.x), found.x)


def sides(program: Program) -> dict[str, np.ndarray]:
    """Rows as scipy wants them."""
    matrix = program.rows.matrix(len(program.cost)).toarray()
    above = np.isfinite(program.row_upper)
    below = np.isfinite(program.row_lower)
    return {
        "A_ub": np.vstack([matrix[above], -matrix[below]]),
        "b_ub": np.concatenate([program.row_upper[above], -program.row_lower[below]]),
    }


def optimum(program: Program) -> float:
    """By a linear program for every choice of the whole numbers."""
    best = np.inf
    whole = np.flatnonzero(program.integer)
    grids = [np.arange(program.lower[j], program.upper[j] + 1) for j in whole]
    for choice in itertools.product(*grids):
        lower = program.lower.copy()
        upper = program.upper.copy()
        lower[whole] = upper[whole] = choice
        found = linprog(program.cost, bounds=np.c_[lower, upper], **sides(program))
        best = min(best, found.fun if found.status == 0 else np.inf)
    return best + program.constant


@settings(max_examples=15, deadline=None, report_multiple_bugs=False)
@given(st.integers(0, 10**6))
def test_no_point_of_a_network_is_lost(seed: int) -> None:
    program, net = relu_program(seed)
    rng = np.random.default_rng(seed)
    points = np.array([complete(program, net, x) for x in rng.uniform(-1, 1, (6, 3))])
    costs = points @ program.cost
    for enough in (np.inf, float(np.median(costs))):
        small = optimality_based_tightening(program, enough, np.inf)
        assert small is not None
        for point in points[costs <= enough]:
            left = small.rows.matrix(len(point)) @ point
            assert (left <= small.row_upper + 1e-5).all()  # what HiGHS forgives a completed point
            assert (left >= small.row_lower - 1e-5).all()
            assert (point >= small.lower - 1e-5).all()
            assert (point <= small.upper + 1e-5).all()


@pytest.mark.parametrize("first", [0, 3])
@settings(max_examples=25, deadline=None)
@example(seed=15000029, beyond=np.inf)  # HiGHS's presolving calls it infeasible
@given(seed=st.integers(0, 10**6), beyond=st.sampled_from([np.inf, 0.3, 0.0, -0.2]))
def test_what_is_proved_with_ranges_is_the_optimum(first: int, seed: int, beyond: float) -> None:
    program = draw_program(seed, continuous=2)
    best = optimum(program)
    size = float(np.abs(program.cost) @ program.upper + abs(program.constant)) or 1.0
    enough = best + beyond * size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branch_and_bound, "NODES_BEFORE_RANGES", first)
        proved = prove(program, enough)
    assert proved.complete
    if np.isinf(best):
        assert proved.bound > 0  # as far as multipliers of rows that nearly meet could see
        return
    assert proved.bound <= best + 1e-6 * size
    assert proved.bound >= min(best, enough) - 1e-5 * size


def test_ranges_save_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the linear programs were not worth their time."""
    program, _ = relu_program(2, inputs=4, width=16)
    best = prove(program).bound
    nodes = []
    for first in (0, 10**6):
        monkeypatch.setattr(branch_and_bound, "NODES_BEFORE_RANGES", first)
        nodes.append(prove(program, best - 1e-5).nodes)
    assert nodes[0] < 0.7 * nodes[1]


@pytest.mark.parametrize("pays", [False, True])
def test_a_round_of_much_work_goes_on_only_if_a_sample_pays(
    monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    program, _ = relu_program(2, inputs=4, width=16)
    calls = []

    class Counting(LPSolver):
        def solve(self, *given: Any) -> LPProposal:
            calls.append(given)
            return super().solve(*given)

    for name, value in {
        "LPSolver": Counting,
        "MAX_WORK_WITHOUT_SAMPLE": 0,
        "SAMPLE_SIZE": 5,
        "MAX_SAMPLE_WIDTH_LEFT": float(pays),
        "TIGHTENING_ROUNDS": 1,
    }.items():
        monkeypatch.setattr(bound_tightening, name, value)
    small = optimality_based_tightening(program, np.inf, np.inf)
    assert small is not None
    most = 2 * len(bound_tightening._switched(program)[::5])
    assert (len(calls) > most) == pays
    assert prove(small).bound == pytest.approx(prove(program).bound, abs=1e-6)


def test_what_is_cut_off_is_not_taken_for_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for points cheaper than the optimum finds none: then its bound is what was asked
    for, not infinity.
    """
    monkeypatch.setattr(branch_and_bound, "NODES_BEFORE_RANGES", 0)
    for seed in range(4):
        program, _ = relu_program(seed, inputs=4, width=8)
        best = prove(program).bound
        for below in (1e-4, 1e-3, 1e-2):
            assert best - below <= prove(program, best - below).bound <= best + 1e-6


def test_a_row_fits_the_binary_that_stands_in_it() -> None:
    """z <= a + 5 (1 - on) with a >= -2 where on is 0 becomes z <= a + 2 (1 - on)."""
    matrix = np.array([[1.0, -1.0, 5.0], [1.0, 0.0, -3.0]])  # of z, a, on
    program = Program(
        np.zeros(3),
        Rows.of(sp.csr_matrix(matrix)),
        np.full(2, -np.inf),
        np.array([5.0, 0.0]),
        np.array([0.0, -2.0, 0.0]),
        np.array([3.0, 3.0, 1.0]),
        np.arange(3) == 2,
    )
    found = probe_binaries(program, np.inf)
    assert found.rows.matrix(3).toarray()[0] == pytest.approx([1.0, -1.0, 2.0], abs=1e-6)
    assert found.row_upper[0] == pytest.approx(2.0, abs=1e-6)
