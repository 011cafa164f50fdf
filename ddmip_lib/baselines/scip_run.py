"""Run SCIP on an exact model with every incumbent verified, and make a `Solution` of the result."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from pyscipopt import Model

from ..clock import Stopped, now
from ..errors import ProblemError
from ..methods.run import Run
from ..model.incumbent import Incumbent
from ..model.progress import report_progress, watched
from ..model.solution import Solution
from ..programs import Program
from ..programs.scip import add_event_handlers
from ..programs.scip import optimise as optimise_model
from ..programs.scip_program import ScipProgram
from ..proofs.checking import CLOSED, MAX_CHECK_NODES, incumbent_cost, proof_of

SCIP_EPSILON = 1e-13
"""Numbers closer than this are equal to SCIP, whose own 1e-9 is too coarse for some networks:
presolving then calls feasible models infeasible and wrong points optimal (the chapter on E5 shows
it).
"""
SCIP_INFINITY = 1e20
"""A bound of this absolute value or more is none."""
EXTRA_CHECK_SECONDS = 10.0
"""Seconds that the check of a claim may take beyond the time that the claim took."""
STATUS_OF = {
    "optimal": "claimed_optimal",
    "infeasible": "no_solution_found",
    "timelimit": "time_limit",
}
"""Status of a solution by SCIP's unchecked status; all others are "stopped"."""
UNBOUNDED = ("unbounded", "inforunbd")
"""SCIP's statuses of a model whose objective is, or may be, unbounded."""


class Numerics(NamedTuple):
    """SCIP's numerics.

    Attributes
    ----------
    feastol
        Feasibility tolerance.
    epsilon
        Distance up to which numbers are equal.
    aggregate
        Whether presolving may replace variables by sums of others, layer into layer.
    """

    feastol: float
    epsilon: float = SCIP_EPSILON
    aggregate: bool = False


def set_numerics(model: Model, numerics: Numerics) -> None:
    """Set tolerances and presolving of an exact model."""
    model.setParams(
        {
            "numerics/feastol": numerics.feastol,
            "numerics/epsilon": numerics.epsilon,
            "numerics/dualfeastol": min(numerics.feastol, 1e-7),
            "presolving/donotaggr": not numerics.aggregate,
            "presolving/donotmultaggr": not numerics.aggregate,
        }
    )


def optimise_verified(written: ScipProgram, run: Run, restricted: bool = False) -> bool:
    """Let SCIP solve a model, and verify every incumbent during the run.

    A result that contradicts the verified points, and "infeasible", is not accepted: the model is
    solved again without presolving, in the time that is left.

    Parameters
    ----------
    written
        The model.
    run
        The run, whose callback is called at incumbents and nodes.
    restricted
        Whether the model may exclude feasible points (by a margin).

    Returns
    -------
    bool
        Whether the model was solved again.
    """
    model = written.model
    incumbent = incumbent_of(run)

    def on_incumbent(scip: Model) -> None:
        incumbent.consider(written.values(scip))
        report(scip)

    def report(_: Model) -> None:
        bound = written.bound if abs(written.bound) < SCIP_INFINITY else None
        report_progress(bound=bound)
        if run.notify(bound):
            raise Stopped("the callback has ended the run")

    after_node = report if run.callback or watched() else None
    raised = add_event_handlers(model, on_incumbent, after_node)

    def solve() -> None:
        try:
            optimise_model(model, run.seconds_left, raised)
        except KeyboardInterrupt:
            if model.getStatus() != "userinterrupt":  # it came as SCIP ended
                raise
        if model.getNSols():
            incumbent.consider(written.values(model))

    solve()
    again = contradicts_incumbents(model.getStatus(), written.bound, incumbent, restricted)
    if again:
        model.freeTransform()
        model.setParam("presolving/maxrounds", 0)
        solve()
    return again


def incumbent_of(run: Run) -> Incumbent:
    """Return the incumbent of a run that created one."""
    assert run.best is not None
    return run.best


def contradicts_incumbents(
    scip_status: str, bound: float, incumbent: Incumbent, restricted: bool
) -> bool:
    """Return whether SCIP's claim contradicts the verified points; "infeasible" always counts.

    Parameters
    ----------
    scip_status, bound
        SCIP's status and bound.
    incumbent
        The verified points.
    restricted
        Whether the model may rightly have a worse optimum than a verified point.
    """
    if scip_status != "optimal" or incumbent.objective is None:
        return scip_status in ("optimal", "infeasible")
    gap, tolerance = _gap(incumbent, bound)
    return gap > tolerance or (gap < -tolerance and not restricted)


def _gap(incumbent: Incumbent, bound: float | None) -> tuple[float, float]:
    """Return by how much the verified objective is worse than a bound, and the tolerance of that.

    The gap is negative where the objective is better, and 0 without a bound.
    """
    best = incumbent_cost(incumbent)
    tolerance = CLOSED * incumbent.units.objective(best)
    if bound is None:
        return 0.0, tolerance
    return best - incumbent.instance.milp.sign * bound, tolerance


def exact_run(
    written: ScipProgram,
    run: Run,
    details: dict[str, Any],
    program: Callable[[], Program] | None,
    margin: float = 0.0,
) -> Solution:
    """Let SCIP solve an exact model, then check its claim.

    Parameters
    ----------
    written
        The model.
    run
        The run.
    details
        Details of the solution, ``"build_seconds"`` among them.
    program
        Function that returns the exact program by which the claim is proved, within the time limit,
        for at most as long as SCIP took and ten seconds; None: it stays a claim.
    margin
        Margin of the model's logits.

    Returns
    -------
    Solution
        The best verified point, with SCIP's or the proved bound.
    """
    model = written.model
    details["resolved_without_presolve"] = optimise_verified(written, run, margin > 0)
    details["solve_seconds"] = run.seconds - details["build_seconds"]
    details["nodes"] = model.getNTotalNodes()
    if program is not None and model.getStatus() in ("optimal", "infeasible"):
        ended = now()
        report_progress("proof")
        until = min(run.deadline, ended + (ended - run.began) + EXTRA_CHECK_SECONDS)
        proved = run.prove(program(), MAX_CHECK_NODES, until, partial(_complete, run))
        details["check_nodes"] = proved.nodes
    return exact_solution(run, model.getStatus(), written.bound, details, margin)


def _complete(run: Run, values: ndarray) -> None:
    """Submit the best point with the network inputs of a point of the relaxed model."""
    seconds = min(run.seconds_left, EXTRA_CHECK_SECONDS)
    incumbent_of(run).consider_inputs(values, seconds)


def exact_solution(
    run: Run,
    scip_status: str,
    claimed: float | None,
    details: dict[str, Any],
    margin: float = 0.0,
) -> Solution:
    """Return the solution of a run of an exact model.

    A model with a margin proves nothing of a problem without. Of a point that is claimed to be
    optimal, the bound is the claimed one, and ``details["checked_bound"]`` what was proved
    (`Run.bound`); elsewhere a checked bound takes precedence.

    Parameters
    ----------
    run
        The run, with its incumbent.
    scip_status, claimed
        SCIP's status and bound.
    details
        Details of the solution.
    margin
        Margin of the model's logits.

    Raises
    ------
    ProblemError
        If the objective is unbounded.
    """
    incumbent = incumbent_of(run)
    if scip_status in UNBOUNDED and incumbent.objective is None:
        raise ProblemError(
            "the objective is unbounded: give the variables that carry it finite bounds."
        )
    run.details = details | {"solver_status": scip_status}
    if scip_status == "userinterrupt":
        run.details["interrupted"] = True
    proves_nothing = scip_status in ("infeasible", *UNBOUNDED)
    if claimed is not None and (proves_nothing or not abs(claimed) < SCIP_INFINITY):
        claimed = None
    if incumbent.objective is None:
        status, bound = _without_point(run, scip_status, claimed, margin)
    else:
        status, bound = _with_point(run, scip_status, claimed)
        report_progress(bound=bound)
    proof = run.proof
    if run.bound is None or "checked_bound" in run.details:
        proof = proof_of(incumbent, run.method, False, margin)
    return run.solution(status, bound=bound, proof=proof)


def _without_point(
    run: Run, scip_status: str, claimed: float | None, margin: float
) -> tuple[str, float | None]:
    """Return the status and the bound of a run that has found no point."""
    status = STATUS_OF.get(scip_status, "stopped")
    if run.lower_bound == np.inf:
        return "infeasible", None
    if status != "time_limit" and scip_status != "userinterrupt":
        return "no_solution_found", run.bound
    return status, claimed if run.bound is None and not margin else run.bound


def _with_point(run: Run, scip_status: str, claimed: float | None) -> tuple[str, float | None]:
    """Return the status and the bound of a run with a verified point.

    Its objective is better than SCIP's bound where a logit lies inside the margin, or where SCIP is
    wrong.
    """
    bound = claimed if run.bound is None else run.bound
    if run.gap_closed:
        return "optimal", bound
    gap, tolerance = _gap(incumbent_of(run), claimed)
    status = STATUS_OF.get(scip_status, "stopped")
    if status == "claimed_optimal" and claimed is not None and abs(gap) <= tolerance:
        if run.bound is not None:
            run.details["checked_bound"] = run.bound
        return status, claimed
    if run.bound is None and gap < -tolerance:
        bound = None
    return ("time_limit" if status == "time_limit" else "stopped"), bound
