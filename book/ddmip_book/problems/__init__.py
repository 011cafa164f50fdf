"""The benchmark problems of the paper and of the book, each built as a `NeuralMIP`."""

from .care import SiteCare, site_care
from .trees import tree_planting
from .water import water_potability

__all__ = ["SiteCare", "site_care", "tree_planting", "water_potability"]
