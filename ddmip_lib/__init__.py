"""Neural networks inside mixed-integer optimisation, by augmented-Lagrangian splitting and by exact embedding."""

from importlib.metadata import version

from .bigm import BigM
from .blocks.pgd import PGD
from .decomposition import DualDecomposition
from .problem import NeuralMIP
from .solution import Solution

__version__ = version("ddmip-lib")
__all__ = ["PGD", "BigM", "DualDecomposition", "NeuralMIP", "Solution", "__version__"]
