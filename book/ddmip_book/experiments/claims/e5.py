"""E5 against the stored rows: Tree Planting by two NN blocks."""

from itertools import pairwise

import numpy as np

from ddmip_lib.decomposition.solver import DualDecomposition
from ..grids import E5_NETWORKS
from ..rows import Row
from .finding import NOT_REPRODUCED, Runs, check, comma_list, graded, time_verdict, within_factor_two
from .printed import E5_BARRIER, E5_EXACT, E5_PGD

GRID = {"experiment": "e5", "problem": "trees"}
EXACT, PGD, BARRIER, BEST = ({**GRID, "method": method} for method in ("bigm", "dd-paper", "dd-barrier", "enumeration"))


def _seconds(runs: Runs) -> list[float]:
    return runs.means("seconds", "network", E5_NETWORKS)


def _growing(runs: Runs, printed: tuple[float, ...]) -> tuple[str, str]:
    """Printed times that grow with the network: a run that ends at once, on networks that do not react, is fast at
    nothing, so times below the printed ones count only if they grow too."""
    ours, once = _seconds(runs), sum(row.iterations == 1 for row in runs)
    text = f"{comma_list(ours)} s on one core against {comma_list(printed)} s"
    verdict = time_verdict(ours, printed) if ours[0] < ours[-1] else NOT_REPRODUCED
    return verdict, f"{text}; {once} of {len(runs)} runs end in their first iteration"


@check(exact=EXACT, best=BEST)
def e5_exact_seconds(exact: Runs, best: Runs) -> tuple[str, str]:
    """Big-M on the smallest and the largest networks near 111 s and 860 s; growth from network to network is a change.

    A run that ran out of memory has no time; a proof counts only if enumeration finds nothing better.
    """
    timed = [row for row in exact if row.status != "memory_limit"]
    ours = [
        float(np.mean([row.seconds or 0.0 for row in timed if row.network == name] or [np.nan])) for name in E5_NETWORKS
    ]
    proofs = sum(row.ended and not _beaten(row, best) for row in exact)
    text = f"Big-M {comma_list(ours)} s, {proofs} of {len(exact)} called optimal and not beaten (paper 111 s to 860 s)"
    if len(timed) < len(exact):
        text += f"; {len(exact) - len(timed)} ran out of memory"
    known = [value for value in ours if value == value]
    grows = len(known) > 1 and all(0.9 * b > a for a, b in pairwise(known))
    return graded(len(known) == len(ours) and within_factor_two((ours[0], ours[-1]), E5_EXACT), grows), text


def _beaten(row: Row, best: Runs) -> bool:
    """Whether the verified optimum of the table lies beyond the bound of an exact run."""
    optimum = best.one(network=row.network, seed=row.seed)
    held = None if optimum is None else optimum.objective
    return row.bound is not None and held is not None and row.sign * (held - row.bound) > 1e-5 * max(1.0, abs(held))


@check(barrier=BARRIER)
def e5_barrier_seconds(barrier: Runs) -> tuple[str, str]:
    """Seconds with the barrier against 8.5, 24.8 and 63.1."""
    return _growing(barrier, E5_BARRIER)


@check(pgd=PGD)
def e5_pgd_seconds(pgd: Runs) -> tuple[str, str]:
    """Seconds with PGD against 0.4, 1.4 and 6.5."""
    return _growing(pgd, E5_PGD)


@check(pgd=PGD, barrier=BARRIER, best=BEST)
def e5_same_objective(pgd: Runs, barrier: Runs, best: Runs) -> tuple[str, str]:
    """The same objective in every run, and 5 % of the way to the optimum on the instances that leave something to
    gain; agreement at the start is a change."""
    apart, closed = [0.0], []
    for row in pgd:
        other, optimum = (part.one(network=row.network, seed=row.seed) for part in (barrier, best))
        if other is not None and optimum is not None:
            ours, start, goal = row.objective or 0.0, row.untreated or 0.0, optimum.objective or 0.0
            theirs, scale = other.objective or 0.0, max(abs(goal), 1e-9)
            apart.append(abs(ours - theirs) / scale)
            if goal - start > 1e-6 * scale:
                closed.append([(value - start) / (goal - start) for value in (ours, theirs)])
    same = max(apart) <= 1e-6
    way = np.mean(closed, axis=0) if closed else np.zeros(2)
    text = (
        f"objectives differ in {sum(gap > 1e-6 for gap in apart)} of {len(apart) - 1} pairs of runs, by up to "
        f"{max(apart):.1%}; where something can be gained ({len(closed)} instances), PGD goes {way[0]:.0%} of the way "
        f"from the start to the optimum, the barrier {way[1]:.0%}"
    )
    return graded(same and bool(way.min() > 0.05), same), text


@check()
def e5_swap() -> tuple[str, str]:
    """The two presets differ in the NN block alone."""
    pgd, barrier = (vars(DualDecomposition.paper(block)) for block in ("pgd", "barrier"))
    differ = sorted(name for name in pgd if name != "nn_block" and repr(pgd[name]) != repr(barrier[name]))
    blocks = " for ".join(type(part["nn_block"]).__name__ for part in (barrier, pgd))
    return graded(not differ, len(differ) <= 1), f"{blocks}: {len(differ)} other settings of the solver change"


@check(exact=EXACT, pgd=PGD, barrier=BARRIER, best=BEST)
def e5_order_of_magnitude(exact: Runs, pgd: Runs, barrier: Runs, best: Runs) -> tuple[str, str]:
    """On instances that leave something to gain: ten times fewer seconds than Big-M with either block, and as much in
    the end in three runs of four; the seconds alone are a change."""
    ratios, kept = [], []
    for block in (pgd, barrier):
        pairs = [
            (slow, fast)
            for slow in exact
            if slow.status != "memory_limit"
            and (fast := block.one(network=slow.network, seed=slow.seed)) is not None
            and (optimum := best.one(network=slow.network, seed=slow.seed)) is not None
            and (optimum.objective or 0.0) - (optimum.untreated or 0.0) > 1e-6
        ]
        slow_seconds, fast_seconds = (sum(pair[i].seconds or 0.0 for pair in pairs) for i in (0, 1))
        ratios.append(slow_seconds / fast_seconds if fast_seconds else 0.0)
        reached = sum((b.objective or 0) >= (a.objective or 0) - 1e-5 for a, b in pairs)
        kept.append(reached / max(1, len(pairs)))
    text = f"Big-M's seconds over Algorithm 1's where something can be gained: PGD {ratios[0]:.0f}, barrier "
    text += f"{ratios[1]:.0f}; it holds as much as Big-M in {kept[0]:.0%} and {kept[1]:.0%} of these runs"
    return graded(min(ratios) >= 10 and min(kept) >= 0.75, min(ratios) >= 10), text


@check(pgd=PGD, barrier=BARRIER)
def e5_block_ratio(pgd: Runs, barrier: Runs) -> tuple[str, str]:
    """Seconds of the barrier over those of PGD near the paper's 9 to 21 on every network; twice as long is the
    direction."""
    ratios = [b / a for a, b in zip(_seconds(pgd), _seconds(barrier), strict=True)]
    pairs = [(row, other) for row in pgd if (other := barrier.one(network=row.network, seed=row.seed)) is not None]
    each = [(other.seconds or 0.0) / (row.seconds or np.inf) for row, other in pairs] or [0.0]
    text = f"seconds of the barrier over PGD's, by network: {comma_list(ratios, 2)}; by pair {min(each):.2f} to "
    printed = [slow / fast for slow, fast in zip(E5_BARRIER, E5_PGD, strict=True)]
    return graded(within_factor_two(ratios, printed), min(ratios) >= 2), text + f"{max(each):.2f}"


@check(pgd=PGD, barrier=BARRIER, best=BEST)
def e5_gap_source(pgd: Runs, barrier: Runs, best: Runs) -> tuple[str, str]:
    """Where something can be gained: nine tenths of the time in the NN block and the same iterations with both, so that
    the NN block explains the times; half of the time is a change."""
    gain = {(row.network, row.seed): (row.objective or 0.0) - (row.untreated or 0.0) for row in best}
    rows = [row for part in (pgd, barrier) for row in part if gain.get((row.network, row.seed), 0.0) > 1e-6]
    total = sum(row.seconds or 0.0 for row in rows)
    share = sum(row.seconds_nn or 0.0 for row in rows) / total if total else 0.0
    pairs = {(row.network, row.seed): set[int | None]() for row in rows}
    for row in rows:
        pairs[row.network, row.seed].add(row.iterations)
    same = sum(len(counts) == 1 for counts in pairs.values())
    text = f"where something can be gained the NN block takes {share:.0%} of the time; both blocks take the same "
    text += f"iterations on {same} of {len(pairs)} instances"
    return graded(share >= 0.9 - 1e-9 and same == len(pairs), share >= 0.5), text
