"""E3 against the stored records: the gradient heuristic, and Algorithm 1 without multipliers."""

import numpy as np

from .finding import Runs, check, comma_list, graded, paired, within_factor_two
from .printed import DD_ITERATIONS, DD_QUALITY, DD_SPEEDUPS, E3_SIZES_PRINTED, SSG_QUALITY

E3_GRID = {"experiment": "e3", "size": E3_SIZES_PRINTED}
OURS, EXACT, SSG = ({**E3_GRID, "method": method} for method in ("dd-paper", "bigm", "ssg-printed"))
NO_MULTIPLIERS = {**E3_GRID, "method": "dd-no-multipliers"}


def _over(column: str, above: Runs, below: Runs) -> list[float]:
    return paired(column, above, below, "size", E3_SIZES_PRINTED)


@check(ssg=SSG, repaired={**E3_GRID, "method": "ssg"}, exact=EXACT)
def e3_ssg_quality(ssg: Runs, repaired: Runs, exact: Runs) -> tuple[str, str]:
    """SSG over Big-M: the published pseudo-code within 0.1 of each figure holds; a verified point
    at every size and less than 0.9 on average, by it or by the repaired version, is the direction.
    """
    quality = _over("objective", ssg, exact)
    mended = _over("objective", repaired, exact)
    text = (
        f"SSG over Big-M: as published {comma_list(quality, 2)}, repaired {comma_list(mended, 2)}"
    )
    weaker = any(min(values) > 0 and float(np.mean(values)) < 0.9 for values in (quality, mended))
    close = bool(np.allclose(quality, SSG_QUALITY, atol=0.1))
    return graded(close, weaker), f"{text} (paper {comma_list(SSG_QUALITY)})"


@check(ours=OURS, exact=EXACT)
def e3_dd_quality(ours: Runs, exact: Runs) -> tuple[str, str]:
    """Algorithm 1 over Big-M: within 0.02 of each figure confirms; no loss but a gain is a
    change.
    """
    quality = _over("objective", ours, exact)
    text = f"Algorithm 1 over Big-M with 300 s: {comma_list(quality)}"
    return graded(np.allclose(quality, DD_QUALITY, atol=0.02), min(quality) >= 0.98), text


@check(ssg=SSG)
def e3_ssg_iterations(ssg: Runs) -> tuple[str, str]:
    """73 to 100 steps on average; always 100 is a change, for then nothing but the cap stops it."""
    steps = ssg.values("iterations")
    always = bool((steps == 100).all())
    text = f"{np.nan_to_num(steps).mean():.0f} steps on average" + (
        ", the cap in every run" if always else ""
    )
    return graded(not always and 73 <= steps.mean() <= 100, always), text


@check(ours=OURS)
def e3_dd_iterations(ours: Runs) -> tuple[str, str]:
    """Every run converges, in about the printed numbers of iterations; in others is a change."""
    met = np.nan_to_num(ours.values("converged"))
    means = ours.means("iterations", "size", E3_SIZES_PRINTED)
    text = f"{met.sum():.0f} of {len(met)} runs satisfy the test; iterations {comma_list(means)}"
    return (
        graded(bool(met.all()) and np.allclose(means, DD_ITERATIONS, atol=5), bool(met.all())),
        text,
    )


@check(ssg=SSG, exact=EXACT)
def e3_ssg_speedup(ssg: Runs, exact: Runs) -> tuple[str, str]:
    """Near the printed ratios; slower than Big-M at n = 20 and faster at n = 80 is the
    direction.
    """
    ratios = _over("seconds", exact, ssg)
    text = f"Big-M's seconds over SSG's: {comma_list(ratios)} (paper 0.3, 2.7, then 20 to 30)"
    return graded(within_factor_two(ratios, (0.3, 2.7, 25, 25)), ratios[0] < 1 < ratios[-1]), text


@check(ours=OURS, exact=EXACT)
def e3_dd_speedup(ours: Runs, exact: Runs) -> tuple[str, str]:
    """Near the printed ratios; at least ten at n = 60 and 80, and growing with n, is the
    direction.
    """
    ratios = _over("seconds", exact, ours)[1:]
    printed = list(DD_SPEEDUPS.values())
    text = (
        f"Big-M's seconds (at most 300) over Algorithm 1's: {comma_list(ratios)} (paper"
        f" {', '.join(map(str, printed))})"
    )
    widens = ratios[0] < ratios[1] < ratios[2]
    return graded(within_factor_two(ratios, printed), widens and min(ratios[1:]) >= 10), text


@check(without=NO_MULTIPLIERS, ours=OURS)
def e3_multipliers(without: Runs, ours: Runs) -> tuple[str, str]:
    """Objective without over with multipliers: 0.6 or less somewhere confirms, 0.95 on average is
    the direction.
    """
    shares = _over("objective", without, ours)
    text = f"objective without multipliers over with them, all else equal: {comma_list(shares)}"
    return graded(min(shares) <= 0.6, float(np.mean(shares)) <= 0.95), text


@check(without=NO_MULTIPLIERS, ours=OURS)
def e3_multiplier_time(without: Runs, ours: Runs) -> tuple[str, str]:
    """Seconds without multipliers over with them: above 1.5 at n = 80 and growing confirms."""
    ratios = _over("seconds", without, ours)
    text = f"seconds without multipliers over with them: {comma_list(ratios)}"
    return graded(ratios[-1] > 1.5 and ratios[-1] > ratios[0], False), text
