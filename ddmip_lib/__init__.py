"""Neural networks inside mixed-integer optimisation, by augmented-Lagrangian splitting and by exact embedding."""

from importlib.metadata import version

from .bigm import BigM
from .blocks.barrier import LogBarrier
from .blocks.pgd import PGD
from .certificates import certify
from .decomposition import DualDecomposition
from .enumeration import Enumeration
from .gradient_heuristic import SingleStepGradient
from .pricing.coordination import PriceCoordination
from .problem import NeuralMIP
from .solution import Solution
from .trace import Trace

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
