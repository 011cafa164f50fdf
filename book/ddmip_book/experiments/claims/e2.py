"""E2 against the stored rows: deeper and wider networks."""

from itertools import pairwise

import numpy as np

from ..grids import E2_NETWORKS
from .finding import Runs, check, comma_list, graded
from .printed import E2_CONVERGED

CPU = {"experiment": "e2", "method": "dd-paper", "device": "cpu"}
SMALLEST, LARGEST = E2_NETWORKS[0], E2_NETWORKS[-1]


@check(runs={**CPU, "network": SMALLEST})
def e2_small(runs: Runs) -> tuple[str, str]:
    """Two of five converge: confirmed; some, but not all: with changes."""
    share = runs.mean("converged")
    text = f"{share:.0%} of the 2 x 16 runs meet the test within 50 iterations"
    return graded(abs(share - E2_CONVERGED) < 0.01, 0 < share < 1), text


@check(runs={**CPU, "network": E2_NETWORKS[3:]})
def e2_deep(runs: Runs) -> tuple[str, str]:
    """Every run from 16 x 128 on converges; more than half of them would be a change."""
    met = np.nan_to_num(runs.values("converged"))
    text = f"{met.sum():.0f} of {len(met)} runs from 16 x 128 on meet the test"
    return graded(bool(met.all()), met.mean() > 0.5), text


@check(gpu={"experiment": "e2", "device": "cuda", "network": LARGEST})
def e2_seconds(gpu: Runs) -> tuple[str, str]:
    """64 x 512 in less than 90 s on a graphics processor (the paper's machine has eight)."""
    mean = gpu.mean("seconds")
    return graded(mean < 90, mean < 180), f"64 x 512: {mean:.1f} s on one GPU"


@check(runs=CPU)
def e2_sublinear(runs: Runs) -> tuple[str, str]:
    """Slope of log seconds per iteration in log parameters: below 0.8 over all networks and over the largest three,
    so that twice the parameters cost at most 1.75 times as much; over all networks alone is a change."""
    rows = [row for row in runs if row.iterations and row.seconds and row.parameters]
    size = np.array([row.parameters for row in rows], dtype=float)
    cost = np.array([row.seconds for row in rows]) / np.array([row.iterations for row in rows])
    sizes = sorted(set(size))
    if len(sizes) < 4:
        return graded(False, False), f"{len(sizes)} networks, too few for a slope"
    whole, tail = (np.polyfit(np.log(size[p]), np.log(cost[p]), 1)[0] for p in (size > 0, size >= sizes[-3]))
    text = f"slope {whole:.2f} in the parameters over all networks, {tail:.2f} over the largest three"
    return graded(max(whole, tail) < 0.8, whole < 0.8), text


@check(runs=CPU)
def e2_depth(runs: Runs) -> tuple[str, str]:
    """Mean seconds grow from each network to the next; from the smallest to the largest is a change."""
    means = runs.means("seconds", "network", E2_NETWORKS)
    text = f"mean seconds on one core, by network: {comma_list(means)}"
    return graded(all(b > a for a, b in pairwise(means)), means[-1] > means[0]), text


@check(runs=CPU)
def e2_overhead(runs: Runs) -> tuple[str, str]:
    """Of what the largest network costs more than the smallest, at least half is spent in the NN block."""
    present = [network for network in E2_NETWORKS if len(runs.where(network=network))]
    ends = (present[0], present[-1])
    total, inner = (runs.means(column, "network", ends) for column in ("seconds", "seconds_nn"))
    share = (inner[1] - inner[0]) / (total[1] - total[0] or np.inf)
    text = f"{share:.0%} of what {ends[1]} costs more than {ends[0]} is spent in the NN block"
    return graded(share >= 0.5, False), text


@check(
    deep={"experiment": "e2", "method": "bigm"},
    small={"experiment": "e1", "method": "bigm", "size": 100, "time_limit": 300.0, "seed": 42},
)
def e2_exact_fails(deep: Runs, small: Runs) -> tuple[str, str]:
    """No proof beyond 6 x 128 in 300 s; if there is none on smaller networks either, it fails earlier."""
    unsolved, earlier = ([row.network for row in part if not row.ended] for part in (deep, small))
    text = f"n = 100, 300 s: no proof on {', '.join(unsolved) or 'no network'} (E2), "
    text += f"nor on {', '.join(earlier) or 'any network'} (E1)"
    return graded(len(unsolved) == len(deep) and not earlier, len(unsolved) == len(deep)), text
