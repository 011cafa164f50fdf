"""What the records of the suite say: best known values, distances to them, profiles, and which
method suits which model.

All functions take the records of ``load("e7")``. A run that found no point is infinitely far from
the best known value, as is one that its method refused; tables count the two apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from .case import SENSES
from .results import time_to
from .rows import Row

REFUSED = "refused"
"""The status of a run that its method declined; the record's `why` holds its words."""
CHECKED = ("solve", "enumeration", "certificate")
"""Methods whose "optimal" was proved outside the solver that said it."""
FOUND_BEFORE = {
    "blend": 2.81417,
    "ladder": 54.15645,
    "commit": 17.36367,
    "diet": 48.52346,
    "adversarial": 1.36166,
    "sites": 22.43275,
    "integers": -4.42499,
    "jobs": 8.58269,
    "order": 7.76864,
}
"""The best values that earlier and longer runs of several methods found on nine of the models, to
five decimals.
"""
NEAR = 0.01
"""The relative distance up to which a method counts as good in the chart."""
MET = 1e-4
"""The relative gap at which Gurobi and HiGHS end unless they are told otherwise, as they are here.
"""


class Best(NamedTuple):
    """The best value known of a model, and whether it is proved to be the optimum."""

    value: float
    proved: bool


class Choice(NamedTuple):
    """One model in the chart: what it looks like, and how each method that came near did."""

    model: str
    features: dict[str, Any]
    seconds: dict[str, float]
    """By method whose every seed came within `NEAR`: the median seconds until then."""
    distance: dict[str, float]
    """By method that did not refuse: the median distance over the seeds."""


def models_of(rows: Iterable[Row]) -> list[str]:
    """The models in the order of their first records."""
    return list(dict.fromkeys(row.network for row in rows))


def methods_of(rows: Iterable[Row]) -> list[str]:
    """The methods in the order of their first records."""
    return list(dict.fromkeys(row.method for row in rows))


def best_known(rows: Iterable[Row]) -> dict[str, Best]:
    """By model, the best of all verified objectives and of `FOUND_BEFORE`; proved where a checked
    proof meets it.
    """
    found: dict[str, Best] = {}
    signs: dict[str, int] = {}
    for row in rows:
        if row.objective is None:
            continue
        name = row.network
        signs[name] = row.sign
        known = found.get(name, Best(-row.sign * np.inf, False))
        if row.sign * (row.objective - known.value) > 0:
            found[name] = Best(row.objective, False)
    for name, value in FOUND_BEFORE.items():
        # five decimals cannot tell equal values apart: a stored one counts where it is better by
        # more than that
        if name in found and signs[name] * (value - found[name].value) > 1e-5 * max(
            1.0, abs(value)
        ):
            found[name] = Best(value, False)
    for row in rows:
        best = found.get(row.network)
        if best and row.status == "optimal" and row.method in CHECKED and row.objective is not None:
            proved = abs(row.objective - best.value) <= 1e-4 * max(1.0, abs(best.value))
            found[row.network] = Best(best.value, best.proved or proved)
    return found


def distance(row: Row, best: Best) -> float:
    """How much worse a run's objective is than the best known one, relative to its size (at least
    1).

    >>> from dataclasses import replace
    >>> from .case import Case
    >>> case = Case("e7", "suite", "blend", 8, 42, "solve", 20.0, sense="minimise")
    >>> row = Row(key=case.key, **case.setting(), status="time_limit", objective=2.2)
    >>> (
    ...     round(distance(row, Best(2.0, False)), 6),
    ...     distance(replace(row, objective=None), Best(2.0, False)),
    ... )
    (0.1, inf)
    """
    if row.objective is None:
        return float("inf")
    return max(0.0, row.sign * (best.value - row.objective)) / max(1.0, abs(best.value))


def distances(rows: Sequence[Row]) -> dict[str, dict[str, list[float]]]:
    """By method and model, the distance of each seed's run; infinite without a point. Refusals are
    left out.
    """
    best = best_known(rows)
    found: dict[str, dict[str, list[float]]] = {method: {} for method in methods_of(rows)}
    for row in rows:
        if row.status != REFUSED and row.network in best:
            found[row.method].setdefault(row.network, []).append(distance(row, best[row.network]))
    return found


def profile(rows: Sequence[Row], within: Sequence[float] | np.ndarray) -> dict[str, np.ndarray]:
    """By method, the fraction of all models on which it is within each of these distances.

    A model counts as the share of its seeds that are; one that the method refuses counts as none.
    """
    models = models_of(rows)
    limits = np.asarray(within, dtype=float)
    found = {}
    for method, runs in distances(rows).items():
        shares = [
            np.mean([limits >= d for d in runs[name]], axis=0) for name in models if name in runs
        ]
        found[method] = np.sum(shares, axis=0) / len(models) if shares else np.zeros(len(limits))
    return found


class ExactPeer(NamedTuple):
    """An exact model of another library over the suite, and `solve` on the models that it takes."""

    taken: int
    near: int
    claimed: int
    ours: int
    """Models on which every run of `solve` is within `NEAR`."""
    proved: int
    """Models that `solve` proved, with the seed of the other's run."""
    met: int
    """Models on which its checked bound lies within `MET` of its objective, with that seed."""


def exact_peer(rows: Sequence[Row], method: str) -> ExactPeer:
    """How an exact model did, and `solve` beside it."""
    best = best_known(rows)
    taken = {row.network: row for row in rows if row.method == method and row.status != REFUSED}
    ours = [row for row in rows if row.method == "solve" and row.network in taken]
    far = {row.network for row in ours if distance(row, best[row.network]) > NEAR}
    beside = [row for row in ours if row.seed == taken[row.network].seed]
    proved = sum(row.status == "optimal" for row in beside)
    ends = [(row.bound, row.objective) for row in beside]
    met = sum(
        abs(low - high) <= MET * abs(high)
        for low, high in ends
        if low is not None and high is not None
    )
    near = sum(distance(row, best[name]) <= NEAR for name, row in taken.items())
    claimed = sum(row.ended for row in taken.values())
    return ExactPeer(
        len(taken), near, claimed, len({row.network for row in ours} - far), proved, met
    )


def features_of(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """By model, the features that its records hold."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row.network, {}).update(row.details.get("features", {}))
    return found


def chart(rows: Sequence[Row]) -> list[Choice]:
    """Of each model its features, and which methods come within `NEAR` of the best known value and
    how soon.
    """
    best = best_known(rows)
    features = features_of(rows)
    gaps = distances(rows)
    found = []
    for name in models_of(rows):
        if name not in best:
            continue
        goal = _goal(best[name], next(row.sign for row in rows if row.network == name))
        middle = {
            method: float(np.median(runs[name])) for method, runs in gaps.items() if name in runs
        }
        seconds = {}
        for method in middle:
            own = [
                row
                for row in rows
                if row.network == name and row.method == method and row.status != REFUSED
            ]
            reached = [time_to(row, goal) for row in own]
            if max(gaps[method][name]) <= NEAR:
                seconds[method] = median(reached)
        found.append(Choice(name, features[name], seconds, middle))
    return found


def _goal(best: Best, sign: int) -> float:
    """The objective that is just within `NEAR` of the best known one."""
    return best.value - sign * NEAR * max(1.0, abs(best.value))


KINDS: dict[str, Any] = {
    "few points": lambda f: f["points"] is not None,
    "blocks": lambda f: f["blocks"] > 1,
    "whole inputs": lambda f: f["whole"] > 0 and f["points"] is None,
    "continuous inputs": lambda f: f["whole"] == 0,
    "rows on outputs": lambda f: f["output_rows"] > 0,
    "several networks": lambda f: f["networks"] > 1,
    "not only ReLU": lambda f: f["activations"] != ["ReLU"],
    "box alone": lambda f: f["rows"] == 0,
}
"""What a reader sees of a problem, told from the features in the records."""


def by_kind(choices: Iterable[Choice]) -> dict[str, dict[str, tuple[float, float, float]]]:
    """By kind of problem and method: the fraction of these models that are solved to within `NEAR`,
    the median distance, and the median seconds where it is.
    """
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    chosen = list(choices)
    for kind, fits in KINDS.items():
        own = [choice for choice in chosen if fits(choice.features)]
        methods = dict.fromkeys(method for choice in own for method in choice.distance)
        found[kind] = {method: _over(own, method) for method in methods}
    return found


def _over(choices: Sequence[Choice], method: str) -> tuple[float, float, float]:
    gaps = [choice.distance[method] for choice in choices if method in choice.distance]
    times = [choice.seconds[method] for choice in choices if method in choice.seconds]
    return len(times) / len(choices), median(gaps), median(times) if times else float("nan")


def beaten(rows: Iterable[Row]) -> Mapping[str, str]:
    """By model, what is wrong where a stored bound lies on the worse side of the best known
    value.
    """
    rows = list(rows)
    best = best_known(rows)
    found = {}
    for row in rows:
        if row.bound is not None and row.network in best:
            value = best[row.network].value
            if row.sign * (value - row.bound) > 1e-5 * max(1.0, abs(value)):
                word = "below" if row.sense == SENSES[0] else "above"
                found[row.key] = f"its bound {row.bound} is {word} the best known value {value}"
    return found
