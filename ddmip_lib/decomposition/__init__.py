"""Algorithm 1 of the paper: the split, its two blocks, multipliers, penalties, stopping."""

from typing import TYPE_CHECKING

from ..renamed import renamed_names
from .admm_state import Trace
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
from .solver import DualDecomposition

__all__ = [
    "PGD",
    "DescentTest",
    "DualDecomposition",
    "Fixed",
    "IncreaseOnStagnation",
    "LogBarrier",
    "NNBlock",
    "Penalty",
    "PenaltyRule",
    "ResidualBalancing",
    "ResidualInfo",
    "Sweeps",
    "Trace",
]

if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(__name__, Progress="ddmip_lib.decomposition.ResidualInfo")
