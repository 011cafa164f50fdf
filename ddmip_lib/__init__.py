"""Mixed-integer optimisation with neural networks, by augmented Lagrangians and exact models.

Names are imported when they are first used: `import ddmip_lib` alone imports neither torch nor a
solver.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from .portfolio import conflicts, describe, solve, solve_plans
    from .pricing import PriceCoordination, Recovering

    __version__: str

__all__ = [
    "PGD",
    "BigM",
    "DescentTest",
    "DualDecomposition",
    "Enumeration",
    "Fixed",
    "IncreaseOnStagnation",
    "LogBarrier",
    "NeuralMIP",
    "PriceCoordination",
    "Recovering",
    "ResidualBalancing",
    "SequentialMIP",
    "SingleStepGradient",
    "Solution",
    "Sweeps",
    "Trace",
    "__version__",
    "certify",
    "check_solver",
    "conflicts",
    "describe",
    "solve",
    "solve_plans",
]

# The module of each public name; a test compares them with the imports for type checkers.
PLACES = {
    ".baselines.bigm": ("BigM",),
    ".baselines.enumeration": ("Enumeration",),
    ".baselines.single_step": ("SingleStepGradient",),
    ".certificates": ("certify",),
    ".contract": ("check_solver",),
    ".decomposition": (
        "PGD",
        "DescentTest",
        "DualDecomposition",
        "Fixed",
        "IncreaseOnStagnation",
        "LogBarrier",
        "ResidualBalancing",
        "Sweeps",
        "Trace",
    ),
    ".linearisation": ("SequentialMIP",),
    ".model.problem": ("NeuralMIP",),
    ".model.solution": ("Solution",),
    ".portfolio": ("conflicts", "describe", "solve", "solve_plans"),
    ".pricing": ("PriceCoordination", "Recovering"),
}
# Packages and modules that are imported as attributes of `ddmip_lib`.
PARTS = (
    "baselines",
    "bounds",
    "certificates",
    "contract",
    "data",
    "decomposition",
    "linearisation",
    "methods",
    "model",
    "plots",
    "portfolio",
    "predictors",
    "pricing",
    "problems",
    "programs",
    "proofs",
    "workers",
)

if not TYPE_CHECKING:  # which would let type checkers accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name or a part of the library at its first use."""
        from importlib import import_module
        from importlib.metadata import version

        place = next((module for module, names in PLACES.items() if name in names), None)
        if place is not None:
            found = getattr(import_module(place, __name__), name)
        elif name in PARTS:
            found = import_module(f".{name}", __name__)
        elif name == "__version__":
            found = version("ddmip-lib")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *PARTS})
