"""E5 in tables: which networks react, what the runs cost, which of them move, and how the exact
model fared.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..grids import E5_NETWORKS
from ..results import Results
from ..rows import Row
from . import NAMES, Columns, columns, mean, rounded


def reactions(
    ranges: Mapping[tuple[str, int], np.ndarray], gains: Mapping[tuple[str, int], float]
) -> Columns:
    """By network: on how many instances all species are constant, the ranges of outputs, and what
    can be gained.
    """
    lines = []
    for network in E5_NETWORKS:
        own = {key: reach for key, reach in ranges.items() if key[0] == network}
        if not own:
            continue
        largest = [float(reach.max()) for reach in own.values()]
        constant = sum(reach < 1e-9 for reach in largest)
        gained = [gains[key] for key in own]
        lines.append(
            [network, len(own), constant, rounded(max(largest), 3), rounded(max(gained), 3)]
        )
    names = ["network", "instances", "all four species constant", "largest range of an output"]
    return columns([*names, "most that can be gained"], lines)


def costs(full: Results, methods: Sequence[str] = ("dd-paper", "dd-barrier", "dd")) -> Columns:
    """Means over the stored runs: iterations, processor seconds, the MIP block's fraction, and who
    satisfies the test.
    """
    lines = []
    for network in E5_NETWORKS:
        for method in methods:
            part = full.where(problem="trees", network=network, method=method)
            if not len(part):
                continue
            share = part.values("seconds_mip").sum() / part.values("seconds").sum()
            met = f"{int(np.nansum(part.values('converged')))} of {len(part)}"
            lines.append(
                [
                    f"{network}, {NAMES[method]}",
                    mean(part.values("iterations"), 1),
                    mean(part.values("cpu_seconds")),
                    f"{share:.0%}",
                    met,
                ]
            )
    names = [
        "network and method",
        "iterations",
        "processor, s",
        "in the MIP block",
        "satisfy the test",
    ]
    return columns(names, lines)


def moves(
    pairs: Mapping[tuple[str, int], Sequence[Row]],
    effects: Mapping[tuple[str, int], float],
    gains: Mapping[tuple[str, int], float],
    first: Mapping[str, int | None],
) -> Columns:
    """Runs on input-sensitive networks: effect of z, median residual, first move (by the record's
    key), and relative gap closed.
    """
    lines = []
    for (network, seed), two in pairs.items():
        for name, row in zip(("PGD", "barrier"), two, strict=True):
            gap = float(np.nanmedian(np.array(row.trace["primal_residual"], dtype=float)))
            share = ((row.objective or 0) - (row.untreated or 0)) / gains[network, seed]
            effect = rounded(effects[network, seed], 2)
            lines.append(
                [f"seed {seed}, {name}", effect, rounded(gap, 3), first[row.key], rounded(share, 2)]
            )
    names = [
        "run on 8x32",
        "largest effect of z",
        "median residual",
        "first move, iteration",
        "share closed",
    ]
    return columns(names, lines)


def exact(rows: Sequence[Row], optimum: Mapping[tuple[str, int], Row]) -> Columns:
    """Big-M with 900 s beside what enumeration ends with."""
    lines = []
    for row in rows:
        best = optimum[row.network, row.seed]
        gained = None if row.objective is None else rounded(row.objective - (row.untreated or 0), 3)
        could = rounded((best.objective or 0) - (best.untreated or 0), 3)
        lines.append(
            [
                f"{row.network}, seed {row.seed}",
                row.status.replace("_", " "),
                rounded(row.seconds, 0),
                gained,
                could,
                rounded(row.bound, 3),
                rounded(best.objective, 3),
                row.details.get("aggregate") is not False,
            ]
        )
    names = [
        "network",
        "ended by",
        "seconds",
        "gained",
        "could be gained",
        "bound",
        "optimum",
        "aggregation",
    ]
    return columns(names, lines)


def care(rows: Results, methods: Sequence[str], taken: str = "seconds") -> Columns:
    """A plot of 6 x 6: objectives by instance and method, and mean seconds (or ``cpu_seconds``) in
    a last line.
    """
    lines = []
    for network, seed in sorted({(row.network, row.seed) for row in rows}):
        part = rows.where(network=network, seed=seed)
        held = {row.method: rounded(row.objective, 3) for row in part}
        start = rounded(float(np.nanmax(part.values("untreated"))), 3)
        lines.append([f"{network}, seed {seed}", start, *(held.get(method) for method in methods)])
    last = "mean seconds" if taken == "seconds" else "mean processor, s"
    lines.append([last, None, *(mean(rows.where(method=m).values(taken), 1) for m in methods)])
    return columns(["instance", "untreated", *(NAMES[method] for method in methods)], lines)
