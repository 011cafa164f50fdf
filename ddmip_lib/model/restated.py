"""Models in the user's words, restated for methods and proofs."""

from collections.abc import Callable

import numpy as np

from .instance import Instance
from .products import products
from .reformulation import Reformulation
from .series import in_series
from .switches import indicators, special_ordered_sets


def has_trees(instance: Instance) -> bool:
    """Return whether a predictor of a problem is an ensemble of trees."""
    return any(hasattr(predictor.net, "ensemble") for predictor in instance.predictors)


def trees(r: Reformulation) -> None:
    """State trees by their leaves."""
    if has_trees(r.stated):
        from .trees import as_constraints  # which other problems do not need

        as_constraints(r)


REFORMULATIONS: tuple[Callable[[Reformulation], None], ...] = (
    indicators,
    special_ordered_sets,
    products,
    trees,
    in_series,
)
"""The reformulations, in the order in which they are applied."""


def reformulated(stated: Instance, tables: bool = True) -> Instance:
    """Return a problem restated for methods and proofs, itself if there is nothing to restate.

    Parameters
    ----------
    stated
        The problem as stated.
    tables
        Whether trees may stay as they are whose inputs take few values.

    Raises
    ------
    ProblemError
        If networks form a cycle, or an output that is an input of another network has no finite
        range.
    """
    inputs = np.concatenate([mapping.index[mapping.index >= 0] for mapping in stated.maps])
    in_series_or_other = stated.milp.others or stated.is_output[inputs].any()
    if not (in_series_or_other or has_trees(stated)):
        return stated
    reformulation = Reformulation(stated, tables)
    for rule in REFORMULATIONS:
        rule(reformulation)
    named = {left.what for left in reformulation.left_out}
    for other in reformulation.others:
        if f"{other.kind} {other.name}" not in named:
            reason = "no rule writes it as linear constraints"
            reformulation.leave_out(other, reason, "write it with linear or quadratic terms")
    instance = stated if reformulation.unchanged else reformulation.instance()
    instance.left_out = tuple(reformulation.left_out)
    return instance
