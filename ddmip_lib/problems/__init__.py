"""The benchmark problems and the running example, each built as a `NeuralMIP`."""

from .care import SiteCare, site_care
from .hand_sized import hand_sized, hand_sized_net
from .trees import tree_planting
from .water import water_potability

__all__ = [
    "SiteCare",
    "hand_sized",
    "hand_sized_net",
    "site_care",
    "tree_planting",
    "water_potability",
]
