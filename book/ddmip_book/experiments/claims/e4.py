"""E4 against the stored records: other architectures."""

import numpy as np

from .finding import Runs, check, comma_list, graded, time_verdict
from .printed import ACCURACY, CONVERGENCE, E4_SECONDS

BACKBONES = tuple(ACCURACY)
RUNS = {"experiment": "e4", "method": "dd-paper", "network": BACKBONES}


@check(runs=RUNS)
def e4_unchanged(runs: Runs) -> tuple[str, str]:
    """Every run on the four backbones improves on no treatment; nine in ten is a change."""
    worked = [row.objective is not None and row.objective > (row.untreated or 0) for row in runs]
    text = (
        f"{sum(worked)} of {len(worked)} runs on {len(runs.distinct('network'))} backbones improve"
        " on no treatment"
    )
    return graded(all(worked), sum(worked) >= 0.9 * len(worked)), text


@check(runs=RUNS)
def e4_accuracy(runs: Runs) -> tuple[str, str]:
    """Ours within 0.05 of the printed ones, and no weight changed; three of the four within 0.05 is
    a change.

    That no run changes a weight is no evidence by itself: every method that does not train keeps
    the accuracy.
    """
    ours = runs.means("test_score", "network", BACKBONES)
    printed = list(ACCURACY.values())
    digests = {(row.network, row.seed, row.weights.get("sha256")) for row in runs}
    kept = len(digests) == len({(network, seed) for network, seed, _ in digests})
    near = sum(abs(a - b) < 0.05 for a, b in zip(ours, printed, strict=True))
    text = (
        f"ours {comma_list(ours)} against {comma_list(printed)}, {near} of {len(printed)} within"
        " 0.05; "
    )
    text += "no run changed a weight" if kept else "some run changed weights"
    return graded(kept and near == len(printed), kept and near >= 3), text


@check(runs=RUNS)
def e4_convergence(runs: Runs) -> tuple[str, str]:
    """Shares within 0.1 of the printed ones confirm; some on every backbone is a change."""
    ours = runs.means("converged", "network", BACKBONES)
    printed = list(CONVERGENCE.values())
    text = "fractions of runs that satisfy the test: "
    text += f"{comma_list(ours, 2)} against {comma_list(printed)}"
    return graded(np.allclose(ours, printed, atol=0.1), min(ours) > 0), text


@check(runs={**RUNS, "size": 200})
def e4_seconds(runs: Runs) -> tuple[str, str]:
    """Seconds at n = 200, each backbone against its printed time."""
    ours = runs.means("seconds", "network", BACKBONES)
    printed = list(E4_SECONDS.values())
    return (
        time_verdict(ours, printed),
        f"n = 200: {comma_list(ours)} s on one core against {comma_list(printed)} s",
    )


@check(runs={**RUNS, "network": "lstm", "size": 200})
def e4_lstm_seconds(runs: Runs) -> tuple[str, str]:
    """LSTM, n = 200, against 47 s."""
    mean = runs.mean("seconds")
    return time_verdict([mean], [47.0]), f"LSTM, n = 200: {mean:.1f} s on one core against 47 s"


@check(runs={**RUNS, "size": 100})
def e4_same_objective(runs: Runs) -> tuple[str, str]:
    """Mean verified counts at n = 100 within two samples of each other."""
    ours = runs.means("objective", "network", BACKBONES)
    return (
        graded(max(ours) - min(ours) <= 2, False),
        f"potable samples of 100, by backbone: {comma_list(ours)}",
    )


@check(exact={"experiment": "e1", "method": "bigm", "size": 200, "time_limit": 300.0})
def e4_exact_fails(exact: Runs) -> tuple[str, str]:
    """Big-M at n = 200 on the dense networks of E1 has no proof within 300 s."""
    unsolved = sum(not row.ended for row in exact)
    text = f"{unsolved} of {len(exact)} Big-M runs at n = 200 have no proof after 300 s"
    return graded(unsolved == len(exact), 2 * unsolved > len(exact)), text
