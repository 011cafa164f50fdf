"""What is answered by a status: no exception, and a solution without a point says why."""

import numpy as np
import pytest

from ddmip_book.problems import water_potability
from ddmip_lib import BigM, DualDecomposition, Enumeration, NeuralMIP, Solution, certify, solve
from ddmip_lib.model.solution import STATUSES, History, Proof, contradiction
from ddmip_lib.model.verification import Verification
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net, tiny
from tests.builders.networks import linear


def without_point(solution: Solution, status: str) -> None:
    assert solution.status == status
    assert solution.objective is None
    assert solution.bound is None
    assert solution.gap is None
    assert solution.inputs == []
    assert solution.outputs == []
    assert solution.values is None
    assert solution.verification is None
    assert solution.objective_last is None
    assert not solution.found
    assert status in repr(solution)


@pytest.mark.parametrize("vtype", ["B", "I", "C"])
@pytest.mark.parametrize("started", [False, True])
def test_infeasible_mip(vtype: str, started: bool) -> None:
    built = build(relu_net(2), 2, vtype=vtype)
    built.model.addCons(built.x.sum() >= 3)
    if started:
        built.problem.set_start([[1.0, 1.0]])
    without_point(DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG), "infeasible")


def test_infeasible_only_over_the_integers() -> None:
    built = build(relu_net(2), 2, vtype="B")
    built.model.addCons(2 * built.x.sum() == 1)
    without_point(DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG), "infeasible")


def test_no_integer_between_the_bounds() -> None:
    without_point(
        DualDecomposition(restarts=0).solve(
            build(relu_net(2), 2, vtype="I", low=0.2, high=0.8).problem, time_limit=LONG
        ),
        "infeasible",
    )


@pytest.mark.parametrize("vtype", ["B", "C"])
def test_contradictory_output_rows(vtype: str) -> None:
    built = build(relu_net(2), 2, vtype=vtype)
    built.model.addCons(built.y[0, 0] >= 1)
    built.model.addCons(built.y[0, 0] <= -1)
    without_point(
        DualDecomposition(max_iterations=30).solve(built.problem, time_limit=LONG), "infeasible"
    )


def test_output_row_that_no_input_meets() -> None:
    built = build(relu_net(2), 2, vtype="B")
    built.model.addCons(built.y[0, 0] >= 1e4)
    without_point(
        DualDecomposition(max_iterations=30).solve(built.problem, time_limit=LONG), "infeasible"
    )


@pytest.mark.parametrize("limit", [0, 0.0, -1.0, -np.inf])
@pytest.mark.parametrize("vtype", ["B", "C"])
def test_no_time(limit: float, vtype: str) -> None:
    problem = build(relu_net(2), 2, vtype=vtype).problem
    problem.set_start([[0.0, 1.0]])
    without_point(DualDecomposition(restarts=0).solve(problem, time_limit=limit), "time_limit")


def test_unlimited_time() -> None:
    """An infinite limit, with a start and a variable that the start does not settle."""
    built = build(relu_net(2), 2, vtype="B")
    built.model.addVar(ub=1.0)
    built.problem.set_start([[0.0, 1.0]])
    assert DualDecomposition(restarts=0).solve(built.problem, time_limit=np.inf).found
    assert DualDecomposition(restarts=0).start(built.problem).incumbent.check is not None


def test_iteration_limit_returns_what_was_found() -> None:
    solution = DualDecomposition(max_iterations=1).solve(build(relu_net(3), 3).problem)
    assert solution.status == "iteration_limit"
    assert solution.found
    assert len(solution.history) == 1


def test_every_status_is_a_known_one() -> None:
    solver = DualDecomposition(max_iterations=40)
    found = {solver.solve(tiny(seed).problem, time_limit=LONG).status for seed in range(6)}
    assert found <= set(STATUSES)
    with pytest.raises(ValueError, match="unknown status"):
        Solution("done", "test")


def test_an_objective_needs_a_verification_that_holds() -> None:
    bad = Verification(1.0, 0.5, 0.0, 0.0, 0.0, 0, None, (), "row r")
    for verification in (None, bad):
        with pytest.raises(ValueError, match="verification"):
            Solution("converged", "test", objective=1.0, verification=verification)


def test_history_names_its_columns() -> None:
    with pytest.raises(KeyError, match="primal_residual"):
        History()["residual"]
    assert repr(History()) == "History: no iterations"


HOLDS = Verification(1.0, 0.0, 0.0, 0.0, 0.0, 0, None, (), "")
CHECKED = Proof("a problem", "a method", checked=True)
CONTRADICTORY = {
    "a claim with a gap": ("claimed_optimal", 1.0, 1.001, "leaves a gap"),
    "a claim without a bound": ("claimed_optimal", 1.0, None, "takes an objective and a bound"),
    "a claim without a point": ("claimed_optimal", None, 1.0, "takes an objective and a bound"),
    "an optimum with a gap": ("optimal", 1.0, 0.9, "leaves a gap"),
    "an optimum without a bound": ("optimal", 1.0, None, "takes an objective and a bound"),
    "a bound that is no number": ("claimed_optimal", 1.0, np.nan, "leaves a gap"),
    "infeasible with a point": ("infeasible", 1.0, None, "there is a point"),
    "infeasible with a bound": ("infeasible", None, 1.0, "is finite"),
    "nothing found with a point": ("no_solution_found", 1.0, 1.0, "there is a point"),
}


@pytest.mark.parametrize("name", CONTRADICTORY)
def test_a_status_that_contradicts_objective_and_bound_is_refused(name: str) -> None:
    status, objective, bound, said = CONTRADICTORY[name]
    with pytest.raises(ValueError, match=said):
        Solution(status, "test", objective, bound, CHECKED, verification=HOLDS)
    fine = Solution("stopped", "test", objective, bound, CHECKED, verification=HOLDS)
    assert contradiction(fine) == ""
    assert said in contradiction(fine, status)


def test_a_gap_counts_in_the_unit_of_the_objective() -> None:
    """Terms of a million that cancel leave the tolerance of a million; tiny objectives have a tiny
    one.
    """
    for unit, gap, agrees in (
        (1e6, 5.0, True),
        (1e6, 50.0, False),
        (1e-6, 5e-12, True),
        (1e-6, 5e-10, False),
    ):
        check = Verification(0.0, 0.0, 0.0, 0.0, 0.0, 0, None, (), "", objective_unit=unit)
        solution = Solution("stopped", "test", 0.0, gap, CHECKED, verification=check)
        assert (contradiction(solution, "claimed_optimal") == "") == agrees


def cubic(bound: float = 0.5) -> NeuralMIP:
    """max x_0 + 2 x_1 of integers up to 3 with (x_0 + x_1)^3 <= `bound`: 0 is best, proofs see 6
    or so.
    """
    built = build(linear(1.0, 2.0), 2, vtype="I", high=3.0, sense="maximize")
    built.model.addCons(built.x[0, 0] + built.x[0, 1] <= 3)
    total = built.x[0, 0] + built.x[0, 1]
    built.model.addCons(total * total * total <= bound, name="cubic")
    return built.problem


@pytest.mark.parametrize("solver", [BigM(), Enumeration()], ids=lambda s: s.method)
def test_a_claim_comes_with_the_bound_that_it_is_about(solver: BigM | Enumeration) -> None:
    """What was proved leaves a gap: proofs leave the cubic constraint out."""
    found = solver.solve(cubic())
    assert (found.status, found.objective, found.bound) == (
        "claimed_optimal",
        0.0,
        pytest.approx(0.0, abs=1e-9),
    )
    assert found.proof is not None
    assert not found.proof.checked
    assert found.details["checked_bound"] >= 5.0


def test_solve_keeps_what_enumeration_claims_and_ends() -> None:
    """A run of half an hour would follow if it did not."""
    found = solve(cubic(), time_limit=LONG)
    assert (found.status, found.objective, found.bound) == (
        "claimed_optimal",
        0.0,
        pytest.approx(0.0, abs=1e-9),
    )
    assert [turn.method for turn in found.details["log"]] == [
        "reformulation",
        "first points",
        "enumeration",
        "proof",
    ]
    assert found.details["left_out"][0].what == "nonlinear cubic"
    assert found.details["checked_bound"] >= 5.0
    assert (
        found.details["log"][-1].bound == found.details["checked_bound"]
    )  # the log has what was proved alone


def test_a_certificate_takes_the_place_of_a_claim() -> None:
    """Its bound leaves a gap, with time or without, so that nothing is called optimal any more."""
    claimed = solve(cubic())
    assert claimed.status == "claimed_optimal"
    for limit in (0.0, LONG):
        found = certify(cubic(), claimed, time_limit=limit)
        assert found.status == "stopped"
        assert found.proof is not None
        assert found.proof.checked
        assert found.bound is not None
        assert found.bound >= 5.0


def test_a_point_that_certify_meets_is_not_called_missing() -> None:
    problem = hand_sized()
    found = certify(problem, Solution("no_solution_found", "none"))
    assert (found.status, found.objective) == ("optimal", pytest.approx(0.5))
    quick = certify(
        water_potability(n=2, net=linear(*[1.0] * 9), seed=1), Solution("no_solution_found", "none")
    )
    assert quick.objective is None or quick.status not in ("no_solution_found", "infeasible")
