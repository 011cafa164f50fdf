"""Quadratic constraints as linear ones, where every product has an integer factor."""

import numpy as np

from ..programs.products import MAX_INTEGER_DIGITS, ProductWriter
from .reformulation import Reformulation


def products(r: Reformulation) -> None:
    """Write each quadratic constraint of integer and other variables by binary digits.

    Constraints with a product of two continuous variables stay as they are: SCIP enforces them
    where points are completed, and exact models bound them.
    """
    milp = r.stated.milp
    integer = milp.integer
    writer = ProductWriter(r.variable, r.constrain, r.lower, r.upper, integer)
    for other in list(r.others):
        quadratic = other.quadratic
        if quadratic is None:
            continue
        factors = np.array(quadratic.factors, dtype=int)
        unbounded = ~np.isfinite(np.array(r.upper)[factors] - np.array(r.lower)[factors])
        if unbounded.any():
            name = milp.names[factors[unbounded][0]]
            r.leave_out(other, f"{name} has no finite range", f"give {name} finite lb and ub")
            continue
        one_is_integer = [integer[v] or integer[w] for v, w, _ in quadratic.products]
        digits = [writer.number_of_digits(v) for v in quadratic.factors]
        if all(one_is_integer) and max(digits, default=0) <= MAX_INTEGER_DIGITS:
            writer.quadratic(quadratic)
            r.restate(other)
            continue
        r.leave_out(
            other,
            "only exact models have linear bounds for products of continuous variables",
            "make one factor of each product integer",
            left_out_of="blocks and proofs without an exact model",
        )
    if writer.digits:
        r.complete(writer.complete)
