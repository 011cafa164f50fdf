"""Which proof fits a problem, and why."""

from typing import NamedTuple

from ..errors import UnsupportedNetworkError
from ..model.instance import Instance
from ..proofs.exact import MAX_EXACT_UNITS, has_one_input_models

WITHOUT_PROOF = ("not possible", "not tried")
"""Methods of a planned proof that stand for none."""


class PlannedProof(NamedTuple):
    """The proof that `solve` runs.

    Attributes
    ----------
    method
        "prices", "exact model" or "linear bounds"; or "not possible" or "not tried".
    reason
        How it proves a bound, or why there is no proof.
    """

    method: str
    reason: str


def planned_proof(instance: Instance, priced: bool, has_point: bool = True) -> PlannedProof:
    """Return the proof that fits a problem.

    Parameters
    ----------
    instance
        The problem.
    priced
        Whether blocks share resources as in `Blocks`.
    has_point
        Whether a point is known.
    """
    try:
        graphs = instance.graphs
    except UnsupportedNetworkError as error:
        return PlannedProof("not possible", str(error))
    units = instance.nonlinear_units
    if has_one_input_models(instance):
        return PlannedProof("exact model", "branch and bound on all breakpoints of the networks")
    if priced and has_point:
        return PlannedProof("prices", "prices, and a search of every block")
    if units > MAX_EXACT_UNITS:
        reason = f"the exact model has {units} units, more than {MAX_EXACT_UNITS}"
        return PlannedProof("not tried", reason)
    if priced or not any(graph.curved for graph in graphs):
        return PlannedProof("exact model", f"branch and bound on an exact model of {units} units")
    why = "linear bounds of the networks, and a search that splits inputs"
    return PlannedProof("linear bounds", why)
