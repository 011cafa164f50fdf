"""The benchmark problems and the hand-sized example, each built as a `NeuralMIP`."""

from .hand_sized import hand_sized, hand_sized_net
from .trees import tree_planting
from .water import water_potability

__all__ = ["hand_sized", "hand_sized_net", "tree_planting", "water_potability"]
