"""Neural networks inside mixed-integer optimisation, by augmented-Lagrangian splitting and by exact embedding."""

from importlib.metadata import version

from .baselines.bigm import BigM
from .baselines.enumeration import Enumeration
from .baselines.single_step import SingleStepGradient
from .certificates import certify
from .decomposition.barrier import LogBarrier
from .decomposition.pgd import PGD
from .decomposition.solver import DualDecomposition
from .decomposition.trace import Trace
from .model.problem import NeuralMIP
from .model.solution import Solution
from .pricing.coordination import PriceCoordination

__version__ = version("ddmip-lib")
__all__ = [
    "PGD",
    "BigM",
    "DualDecomposition",
    "Enumeration",
    "LogBarrier",
    "NeuralMIP",
    "PriceCoordination",
    "SingleStepGradient",
    "Solution",
    "Trace",
    "__version__",
    "certify",
]
