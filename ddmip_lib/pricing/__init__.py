"""Price coordination: independent blocks that buy shared resources at prices, and recovery of visited points."""

from ..model.blocks import Blocks, Mode

__all__ = ["Blocks", "Mode"]
