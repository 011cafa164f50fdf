"""Neural networks inside mixed-integer optimisation, by augmented-Lagrangian splitting and by exact embedding."""

from importlib.metadata import version

from .baselines.bigm import BigM
from .baselines.enumeration import Enumeration
from .baselines.single_step import SingleStepGradient
from .certificates import certify
from .contract import check_solver
from .decomposition import (
    PGD,
    DescentTest,
    DualDecomposition,
    Fixed,
    IncreaseOnStagnation,
    LogBarrier,
    ResidualBalancing,
    Sweeps,
    Trace,
)
from .linearisation import SequentialMIP
from .model.problem import NeuralMIP
from .model.solution import Solution
from .portfolio import solve
from .pricing import PriceCoordination, Recovering

__version__ = version("ddmip-lib")
__all__ = ["PGD", "BigM", "DescentTest", "DualDecomposition", "Enumeration", "Fixed", "IncreaseOnStagnation",
           "LogBarrier", "NeuralMIP", "PriceCoordination", "Recovering", "ResidualBalancing", "SequentialMIP",
           "SingleStepGradient", "Solution", "Sweeps", "Trace", "__version__", "certify", "check_solver",
           "solve"]  # fmt: skip
