"""Algorithm 1 of the paper: the split, its two blocks, multipliers, penalties, stopping."""

from typing import TYPE_CHECKING

from ..renamed import renamed_names
from .admm_state import ADMMState, Trace
from .barrier import LogBarrier
from .nn_block import NNBlock
from .penalty import (
    DescentTest,
    Fixed,
    IncreaseOnStagnation,
    Penalty,
    PenaltyRule,
    ResidualBalancing,
    ResidualInfo,
    Sweeps,
)
from .pgd import PGD
from .scip_block import MILPBlock
from .solver import DualDecomposition
from .split import Split

__all__ = [
    "PGD",
    "ADMMState",
    "DescentTest",
    "DualDecomposition",
    "Fixed",
    "IncreaseOnStagnation",
    "LogBarrier",
    "MILPBlock",
    "NNBlock",
    "Penalty",
    "PenaltyRule",
    "ResidualBalancing",
    "ResidualInfo",
    "Split",
    "Sweeps",
    "Trace",
]

if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(__name__, Progress="ddmip_lib.decomposition.ResidualInfo")
