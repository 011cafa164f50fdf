"""The paper's experiments: grids of settings, one function from a setting to a record, and the
stored records.
"""

from .case import SEEDS, Case
from .grids import EXPERIMENTS, grid
from .methods import METHODS
from .results import Results, load, same_objective_ratio, time_to
from .rows import Row
from .runner import run_cases

__all__ = [
    "EXPERIMENTS",
    "METHODS",
    "SEEDS",
    "Case",
    "Results",
    "Row",
    "grid",
    "load",
    "run_cases",
    "same_objective_ratio",
    "time_to",
]
