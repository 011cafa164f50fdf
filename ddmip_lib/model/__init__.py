"""The user's problem (`NeuralMIP`), its arrays and maps (`Instance`), and its `Solution`."""

from .incumbent import Incumbent, PointCallback
from .instance import Instance
from .modellers import from_gurobi, from_pyomo
from .problem import NeuralMIP
from .solution import History, Solution
from .structure import Structure, find_structure

__all__ = [
    "History",
    "Incumbent",
    "Instance",
    "NeuralMIP",
    "PointCallback",
    "Solution",
    "Structure",
    "find_structure",
    "from_gurobi",
    "from_pyomo",
]
