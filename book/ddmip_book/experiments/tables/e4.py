"""E4 in tables: what the architectures cost, how well they predict, and what Algorithm 1 gains with
each.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..claims.printed import ACCURACY, E4_SECONDS
from ..grids import E4_NETWORKS, E4_SIZES
from ..results import Results
from ..rows import Row
from . import Columns, columns, mean, rounded, whole


def live(rows: Sequence[Row], distance: Mapping[str, float]) -> Columns:
    """Live runs: accuracy, counts, iterations, the paper's test, and the distance to the
    boundary.
    """
    lines = [
        [
            row.network,
            rounded(row.test_score, 3),
            *map(whole, (row.untreated, row.objective_last, row.objective)),
            row.iterations,
            bool(row.converged),
            rounded(distance[row.network], 2),
        ]
        for row in rows
    ]
    names = ["network", "accuracy", "untreated", "last", "best", "iterations", "satisfies the test"]
    return columns([*names, "distance to the boundary"], lines)


def accuracies(full: Results, majority: float, error: float) -> Columns:
    """Mean test accuracy over the seeds, in standard errors above the majority, beside the
    paper's.
    """
    lines = []
    for name in E4_NETWORKS:
        scores = {
            row.seed: row.test_score
            for row in full.where(network=name)
            if row.test_score is not None
        }
        ours = float(np.mean(list(scores.values()))) if scores else float("nan")
        lines.append(
            [
                name,
                len(scores),
                rounded(ours, 3),
                rounded((ours - majority) / error),
                ACCURACY.get(name),
            ]
        )
    return columns(
        ["network", "seeds", "our mean", "standard errors above majority", "paper"], lines
    )


def seconds(large: Results) -> Columns:
    """Seconds at the largest size, the NN block's part of them, and the paper's figure."""
    lines = []
    for name in E4_NETWORKS:
        rows = large.where(network=name)
        wall, cpu, inner = (
            mean(rows.values(field), 1) for field in ("seconds", "cpu_seconds", "seconds_nn")
        )
        part = f"{inner / wall:.0%}" if wall and inner else None
        ended = sum(row.status == "iteration_limit" for row in rows)
        lines.append(
            [name, len(rows), wall, cpu, part, f"{ended} of {len(rows)}", E4_SECONDS.get(name)]
        )
    names = [
        "network",
        "runs",
        "seconds",
        "processor, s",
        "in the NN block",
        "end at the cap",
        "paper, s",
    ]
    return columns(names, lines)


def soon(row: Row, first: int = 50) -> float:
    """The best count within so many iterations."""
    pairs = zip(row.trace["k"], row.trace["objective"], strict=True)
    return max(
        float(count) for k, count in pairs if k is not None and count is not None and k <= first
    )


def potable(full: Results) -> Columns:
    """Mean counts by architecture and size: untreated, the paper's settings, our defaults and their
    first 50.
    """
    lines = []
    for name in E4_NETWORKS:
        for size in E4_SIZES:
            paper, ours = (
                full.where(network=name, size=size, method=m) for m in ("dd-paper", "dd")
            )
            if len(paper) and len(ours):
                means = [
                    mean(paper.values(f), 1) for f in ("untreated", "objective_last", "objective")
                ]
                early = mean([soon(row) for row in ours], 1)
                lines.append(
                    [f"{name}, n = {size}", *means, mean(ours.values("objective"), 1), early]
                )
    names = ["network and samples", "untreated", "paper's, last", "paper's, best", "our defaults"]
    return columns([*names, "ours, first 50 iterations"], lines)


def causes(
    gains: Sequence[tuple[str, int, int, float, float]],
    distance: Mapping[tuple[str, int], float],
    logits: Mapping[tuple[str, int], float],
) -> Columns:
    """Means for each architecture of distance, logit size, gain of the defaults, and the part that
    others reach.
    """
    lines = []
    for name in E4_NETWORKS:
        own = [gain for gain in gains if gain[0] == name]
        if own:
            measured = [mean([m[gain[0], gain[1]] for gain in own]) for m in (distance, logits)]
            lines.append(
                [name, *measured, mean([gain[3] for gain in own]), mean([gain[4] for gain in own])]
            )
    names = ["network", "distance to the boundary", "size of a logit", "gain of our defaults"]
    return columns([*names, "part that the paper's settings attain"], lines)
