"""E5 against the stored rows: Tree Planting by two NN blocks."""

from __future__ import annotations

import numpy as np

from ...decomposition import DualDecomposition
from ..grids import E5_NETWORKS
from .finding import Runs, check, comma_list, graded, paired, time_verdict, within_factor_two
from .printed import E5_BARRIER, E5_EXACT, E5_PGD

GRID = {"experiment": "e5", "problem": "trees"}
EXACT, PGD, BARRIER, BEST = ({**GRID, "method": method} for method in ("bigm", "dd-paper", "dd-barrier", "enumeration"))


def _seconds(runs: Runs) -> list[float]:
    return runs.means("seconds", "network", E5_NETWORKS)


@check(exact=EXACT)
def e5_exact_seconds(exact: Runs) -> tuple[str, str]:
    """Big-M on the smallest and the largest networks near 111 s and 860 s; growth alone is a change."""
    ours, proofs = _seconds(exact), sum(row.status == "optimal" for row in exact)
    text = f"Big-M {comma_list(ours)} s, {proofs} of {len(exact)} with a proof (paper 111 s to 860 s)"
    return graded(within_factor_two((ours[0], ours[-1]), E5_EXACT), ours[0] < ours[-1]), text


@check(barrier=BARRIER)
def e5_barrier_seconds(barrier: Runs) -> tuple[str, str]:
    """Seconds with the barrier against 8.5, 24.8 and 63.1."""
    ours = _seconds(barrier)
    return time_verdict(ours, E5_BARRIER), f"{comma_list(ours)} s on one core against {comma_list(E5_BARRIER)} s"


@check(pgd=PGD)
def e5_pgd_seconds(pgd: Runs) -> tuple[str, str]:
    """Seconds with PGD against 0.4, 1.4 and 6.5."""
    ours = _seconds(pgd)
    return time_verdict(ours, E5_PGD), f"{comma_list(ours)} s on one core against {comma_list(E5_PGD)} s"


@check(pgd=PGD, barrier=BARRIER, best=BEST)
def e5_same_objective(pgd: Runs, barrier: Runs, best: Runs) -> tuple[str, str]:
    """The same objective in every run, and 5 % of the way to the optimum; agreement at the start is a change."""
    apart, closed = [0.0], [0.0]
    for row in pgd:
        other, optimum = (part.one(network=row.network, seed=row.seed) for part in (barrier, best))
        if other is not None and optimum is not None:
            ours, start, goal = row.objective or 0.0, row.untreated or 0.0, optimum.objective or 0.0
            apart.append(abs(ours - (other.objective or 0.0)) / max(abs(goal), 1e-9))
            closed.append((ours - start) / max(goal - start, 1e-9))
    mean = float(np.sum(closed)) / max(1, len(closed) - 1)
    text = (
        f"objectives differ by at most {max(apart):.2%}; PGD goes {mean:.0%} of the way from the start to the optimum"
    )
    return graded(max(apart) <= 1e-6 and mean > 0.05, max(apart) <= 1e-6), text


@check()
def e5_swap() -> tuple[str, str]:
    """The two presets differ in the NN block alone."""
    pgd, barrier = (vars(DualDecomposition.paper(block)) for block in ("pgd", "barrier"))
    differ = sorted(name for name in pgd if name != "nn_block" and repr(pgd[name]) != repr(barrier[name]))
    blocks = " for ".join(type(part["nn_block"]).__name__ for part in (barrier, pgd))
    return graded(not differ, len(differ) <= 1), f"{blocks}: {len(differ)} other settings of the solver change"


@check(exact=EXACT, pgd=PGD, barrier=BARRIER)
def e5_order_of_magnitude(exact: Runs, pgd: Runs, barrier: Runs) -> tuple[str, str]:
    """Big-M's seconds over those of either block, network by network: at least ten; for one block is a change."""
    ratios = [paired("seconds", exact, part, "network", E5_NETWORKS) for part in (pgd, barrier)]
    text = f"Big-M's seconds over Algorithm 1's: PGD {comma_list(ratios[0])}; barrier {comma_list(ratios[1])}"
    return graded(min(map(min, ratios)) >= 10, max(map(min, ratios)) >= 10), text
