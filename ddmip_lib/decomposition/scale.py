"""The size of the first penalty: the MIP block is asked what there is to gain, the split turns that into numbers."""

import time

import numpy as np

from ..model.incumbent import Incumbent
from .mip_block import MIPBlock
from .penalty import Penalty
from .split import Split


def penalty_scale(split: Split, mip: MIPBlock, incumbent: Incumbent, seed: int, deadline: float) -> Penalty:
    """The penalty that one unit of a rule stands for in this problem."""
    gain = gain_in_sight(split, mip, incumbent, deadline) if split.couples_outputs else 0.0
    return split.scale(gain, seed)


def gain_in_sight(split: Split, mip: MIPBlock, incumbent: Incumbent, deadline: float) -> float:
    """What the MIP block, free to choose any output in range, would gain over the best point known.

    Where no start was given, the split's own start competes first.
    """
    largest = float(np.abs(split.cost).max(initial=0.0))
    tiny = np.full(split.coupled.size, 1e-9 * largest or 1e-9)
    dream = mip.solve(np.zeros(split.coupled.size), split.copies(split.start), tiny, deadline)
    best = 0.0 if dream.values is None else float(split.cost @ dream.values)
    if incumbent.objective is None and time.perf_counter() < deadline:
        values = np.clip(0.0, split.instance.milp.lower, split.instance.milp.upper)
        values[split.inputs] = split.start
        incumbent.consider_inputs(values, min(10.0, deadline - time.perf_counter()))
    now, s = incumbent.objective, split.milp
    gain = 0.0 if now is None else s.sign * (now - s.offset) - best
    return gain if gain > 1e-9 * max(1.0, abs(best)) else max(0.1 * abs(best), largest, 1e-12)
