"""Recomputing stored results: from record numbers, adjustments and weights, by another way than the
solvers took.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from torch import nn

from ddmip_book.data import draw_nonpotable, load_water
from .case import SUITE
from .execute import WATER, build, potable, samples, water_budget
from .networks import data_sets, digest, networks_of
from .rows import Row, decode

TOLERANCE = 1e-5


class NotVerifiable(RuntimeError):
    """The record cannot be recomputed here: other data, or weights that are not stored and train
    differently here.
    """


def _beyond(row: Row) -> str:
    """Where a bound must not be: on the worse side of an objective."""
    return "below" if row.sign > 0 else "above"


def verify_row(row: Row, weights: Path) -> str | None:
    """What is wrong with a record, or None; raises `NotVerifiable` where data or weights are
    not here.
    """
    if (
        row.objective is not None
        and row.bound is not None
        and row.sign * (row.bound - row.objective) < -TOLERANCE
    ):
        return f"its bound {row.bound} is {_beyond(row)} its objective {row.objective}"
    if row.objective is None:
        return None if not row.point else "it has a point but no objective"
    case = row.case
    here = [data.provenance["sha256"] for data in data_sets(case).values()]
    if here != [data["sha256"] for data in row.provenance["data"]]:
        raise NotVerifiable(
            "it belongs to other data: set DDMIP_DATA_DIR to the folder of the real files"
        )
    nets = networks_of(case, weights)
    if digest(nets) != row.weights["sha256"]:
        stored = "the stored weights are not those of this row" if row.weights["files"] else None
        if stored:
            return stored
        raise NotVerifiable(
            "its network is too large to be stored, and training it here gives other weights"
        )
    found = RECOMPUTED_BY.get(row.problem, objective_by_model)(row, nets)
    if isinstance(found, str):
        return found
    if abs(found - row.objective) > TOLERANCE * max(1.0, abs(row.objective)):
        return f"its objective is {row.objective}, recomputed {found}"
    return None


def _water(row: Row, nets: list[nn.Module]) -> float | str:
    """Count what the network calls potable, and look at every budget, in plain numpy."""
    data = load_water()
    place = {int(number): at for at, number in enumerate(data.row_numbers)}
    at = np.array([place[number] for number in row.point["rows"]])
    if (at != draw_nonpotable(data, row.size, row.seed, WATER[row.problem])).any():
        return "its samples are not those that its seed draws"
    spent = row.spent
    budget = water_budget(row.problem, row.budget, nets[0])
    if (spent > budget + TOLERANCE).any():
        way, feature = np.unravel_index(np.argmax(spent - budget), spent.shape)
        return f"it spends {spent[way, feature]} of a budget of {budget[way, feature]}"
    return float(potable(nets[0], samples(data, at, nets[0]) + row.adjustments))


def objective_by_model(row: Row, nets: list[nn.Module]) -> float | str:
    """The objective of a record's point by the library's own check, or why it is not feasible."""
    check = build(row.case, nets).verify(decode(row.point["values"], row.point["dtype"]))
    return check.objective if check.feasible else f"its point is not feasible: {check}"


RECOMPUTED_BY: dict[str, Callable[[Row, list[nn.Module]], float | str]] = dict.fromkeys(
    WATER, _water
)
"""How the objective of a point is recomputed, by problem, where `objective_by_model` is not enough.
"""


def beaten_bounds(rows: Iterable[Row]) -> dict[str, str]:
    """By key: bounds that a verified objective of any run on the same instance and weights is
    better than.
    """
    instances: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        seed = None if row.problem == SUITE else row.seed  # the suite's models do not depend on it
        same = (
            row.problem,
            row.network,
            row.size,
            seed,
            row.budget,
            row.sense,
            row.weights.get("sha256"),
        )
        instances.setdefault(same, []).append(row)
    found = {}
    for group in instances.values():
        best = max(
            group, key=lambda row: -np.inf if row.objective is None else row.sign * row.objective
        )
        if best.objective is None:
            continue
        slack = TOLERANCE * max(1.0, abs(best.objective))
        for row in group:
            if row.bound is not None and row.sign * (best.objective - row.bound) > slack:
                found[row.key] = (
                    f"its bound {row.bound} is {_beyond(row)} the objective {best.objective} of"
                    f" {best.key}"
                )
    return found


def verify_rows(
    rows: list[Row], weights: Path, say: Callable[[str], object] = print, known: Iterable[Row] = ()
) -> tuple[int, int, int]:
    """Check records one by one, and bounds against these and all `known` records; how many hold,
    are wrong, cannot be checked here.
    """
    good = bad = skipped = 0
    beaten = beaten_bounds([*rows, *known])
    for row in rows:
        try:
            problem = beaten.get(row.key) or verify_row(row, weights)
        except NotVerifiable as why:
            skipped += 1
            say(f"not checked  {row.key}: {why}")
            continue
        if problem is None:
            good += 1
        else:
            bad += 1
            say(f"WRONG        {row.key}: {problem}")
    return good, bad, skipped
