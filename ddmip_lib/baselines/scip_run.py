"""What the exact models share: SCIP's run with every incumbent verified, and its outcome as a
`Solution`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from pyscipopt import Model

from ..clock import now
from ..errors import ProblemError
from ..methods.run import Run
from ..model.incumbent import Incumbent
from ..model.progress import report_progress, watched
from ..model.solution import Solution
from ..programs import Program
from ..programs.scip import add_event_handlers
from ..programs.scip import optimise as optimise_model
from ..proofs.checking import CLOSED, closes_gap, incumbent_cost, proof_of, prove_optimality

SCIP_EPSILON = 1e-13
"""Numbers closer than this are equal to SCIP, whose own 1e-9 is too coarse for some networks:
presolving then calls feasible models infeasible and wrong points optimal (the chapter on E5 shows
it).
"""


class Numerics(NamedTuple):
    """What SCIP takes for equal, and whether presolving may replace variables by sums of others,
    layer into layer.
    """

    feastol: float
    epsilon: float = SCIP_EPSILON
    aggregate: bool = False


def set_numerics(model: Model, numerics: Numerics) -> None:
    """Tolerances and presolving of an exact model."""
    feastol, epsilon, aggregate = numerics
    values = {"feastol": feastol, "epsilon": epsilon, "dualfeastol": min(feastol, 1e-7)}
    model.setParams({f"numerics/{name}": value for name, value in values.items()})
    model.setParams(
        {f"presolving/{switch}": not aggregate for switch in ("donotaggr", "donotmultaggr")}
    )


class ScipModel(Protocol):
    """A model for SCIP, and how what it says reads in the user's units."""

    @property
    def model(self) -> Model: ...
    @property
    def bound(self) -> float: ...
    def values(self, model: Model) -> np.ndarray: ...


class CallbackStop(KeyboardInterrupt):
    """A callback wants the run to end: SCIP ends as after Ctrl-C."""


def optimise_verified(
    written: ScipModel, incumbent: Incumbent, run: Run, restricted: bool = False
) -> bool:
    """Solve, verifying every incumbent on the way; the callback hears of incumbents and nodes.

    An answer at odds with what is known is asked for again, without presolving, in the time that is
    left; True where it was.
    """
    model = written.model

    def on_incumbent(scip: Model) -> None:
        incumbent.consider(written.values(scip))
        tell(scip)

    def tell(_: Model) -> None:
        bound = written.bound if abs(written.bound) < 1e20 else None
        report_progress(bound=bound)
        if run.notify(bound):
            raise CallbackStop

    raised = add_event_handlers(model, on_incumbent, tell if run.callback or watched() else None)

    def ask() -> None:
        try:
            optimise_model(model, run.seconds_left, raised)
        except KeyboardInterrupt:
            if model.getStatus() != "userinterrupt":  # it came as SCIP ended
                raise
        if model.getNSols():
            incumbent.consider(written.values(model))

    ask()
    ask_again = contradicts_incumbents(model.getStatus(), written.bound, incumbent, restricted)
    if ask_again:
        model.freeTransform()
        model.setParam("presolving/maxrounds", 0)
        ask()
    return ask_again


def contradicts_incumbents(
    scip_status: str, bound: float, incumbent: Incumbent, restricted: bool
) -> bool:
    """Whether SCIP claims what the verified points do not bear out; "infeasible" always deserves a
    second look.

    A `restricted` model (a margin) may rightly have a worse optimum than a verified point.
    """
    if scip_status != "optimal" or incumbent.objective is None:
        return scip_status in ("optimal", "infeasible")
    gap, slack = _gap(incumbent, bound)
    return gap > slack or (gap < -slack and not restricted)


def _gap(incumbent: Incumbent, bound: float | None) -> tuple[float, float]:
    """How far the verified objective is from the bound (negative: beyond it), and what counts as
    equal.
    """
    sign = incumbent.instance.milp.sign
    best = incumbent_cost(incumbent)
    return 0.0 if bound is None else best - sign * bound, CLOSED * incumbent.units.objective(best)


def exact_run(
    written: ScipModel,
    incumbent: Incumbent,
    run: Run,
    method: str,
    details: dict[str, Any],
    program: Callable[[], Program] | None,
    margin: float = 0.0,
) -> Solution:
    """Let SCIP solve what was written; then prove its claim by `program` (None: it stays a claim),
    within the time limit for at most as long as what is proved took, and ten seconds.
    """
    details["resolved_without_presolve"] = optimise_verified(written, incumbent, run, margin > 0)
    details["solve_seconds"] = now() - run.began - details["build_seconds"]
    details["nodes"], checked = written.model.getNTotalNodes(), None
    if program is not None and written.model.getStatus() in ("optimal", "infeasible"):
        ended = now()
        report_progress("proof")
        proved = prove_optimality(
            incumbent, program(), min(run.deadline, ended + (ended - run.began) + 10.0)
        )
        details["check_nodes"], checked = proved.nodes, proved.bound
    return exact_solution(
        method, incumbent, written.model.getStatus(), written.bound, details, margin, checked
    )


def exact_solution(
    method: str,
    incumbent: Incumbent,
    scip_status: str,
    claimed: float | None,
    details: dict[str, Any],
    margin: float = 0.0,
    checked: float | None = None,
) -> Solution:
    """SCIP's answer after verification; `claimed` is its bound, `checked` one of a minimisation
    that was proved.

    A model with a `margin` proves nothing of a problem without. Of a point that is claimed to be
    optimal, the bound is the claimed one, and ``details["checked_bound"]`` what was proved;
    elsewhere a checked bound takes precedence.
    """
    best = incumbent.objective
    sign = incumbent.instance.milp.sign
    seconds = now() - incumbent.began
    if scip_status in ("unbounded", "inforunbd") and best is None:
        raise ProblemError(
            "the objective is unbounded: give the variables that carry it finite bounds."
        )
    details = details | {"solver_status": scip_status}
    if scip_status == "userinterrupt":
        details["interrupted"] = True
    known_as = {
        "optimal": "claimed_optimal",
        "infeasible": "no_solution_found",
        "timelimit": "time_limit",
    }
    status = known_as.get(scip_status, "stopped")
    if claimed is not None and (
        not abs(claimed) < 1e20 or scip_status in ("infeasible", "unbounded", "inforunbd")
    ):
        claimed = None
    proof = proof_of(incumbent, method, False, margin)
    bound = claimed
    if checked is not None and np.isfinite(checked):
        proof = proof_of(incumbent, method, True)
        bound = sign * min(checked, incumbent_cost(incumbent))
    if best is None:
        if checked == np.inf:
            status = "infeasible"
            bound = None
        elif status != "time_limit" and scip_status != "userinterrupt":
            status = "no_solution_found"
        if not proof.checked and (margin or status == "no_solution_found"):
            bound = None
        point = incumbent.point()
        return Solution(
            status, method, bound=bound, proof=proof, **point, seconds=seconds, details=details
        )
    gap, slack = _gap(
        incumbent, claimed
    )  # below 0 where a logit inside the margin beat the model, or SCIP is wrong
    if checked is not None and closes_gap(incumbent, checked):
        status = "optimal"
    elif status == "claimed_optimal" and claimed is not None and abs(gap) <= slack:
        if proof.checked:
            details["checked_bound"] = bound
        proof = proof_of(incumbent, method, False, margin)
        bound = claimed
    else:
        if not proof.checked and gap < -slack:
            bound = None
        if status in ("no_solution_found", "claimed_optimal"):
            status = "stopped"
    details = details | {"incumbents": incumbent.found}
    report_progress(bound=bound)
    return Solution(
        status,
        method,
        bound=bound,
        proof=proof,
        **incumbent.point(),
        seconds=seconds,
        details=details,
    )
