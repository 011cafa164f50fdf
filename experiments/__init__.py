"""What makes the stored rows: the runner of whole grids (`python -m experiments`), and the methods
and problems that no chapter runs, entered here into the tables of `ddmip_book.experiments`.
"""

from .methods import MORE_METHODS
from .runner import run, run_cases
from .suite import MORE_BUILDERS

__all__ = ["MORE_BUILDERS", "MORE_METHODS", "run", "run_cases"]
