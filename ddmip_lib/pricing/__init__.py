"""Price coordination: independent blocks that buy shared resources at prices, and recovery of
visited points.
"""

from ..model.blocks import Blocks, Mode
from .coordination import PriceCoordination
from .recovery import Recovering, recover

__all__ = ["Blocks", "Mode", "PriceCoordination", "Recovering", "recover"]
