"""Price coordination: column generation with networks as pricing problems for independent blocks
with shared resources, and recovery of columns from evaluated points.
"""

from ..model.blocks import Blocks, Mode
from .coordination import PriceCoordination
from .pricing_problem import PricingProblem, reduce_to_boundary
from .recovery import Recovering, recover

__all__ = [
    "Blocks",
    "Mode",
    "PriceCoordination",
    "PricingProblem",
    "Recovering",
    "recover",
    "reduce_to_boundary",
]
