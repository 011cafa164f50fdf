"""The benchmark problems, each built as a `NeuralMIP`."""

from .water import water_potability

__all__ = ["water_potability"]
