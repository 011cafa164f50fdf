"""Certificates: bounds that prove how good a solution is."""

from .certificate import Certificate
from .certify import certify
from .cut_ball import CutBall
from .lagrangian import LagrangianBound, crown_multipliers, dual_value, lagrangian_bound
from .losses import Losses

__all__ = [
    "Certificate",
    "CutBall",
    "LagrangianBound",
    "Losses",
    "certify",
    "crown_multipliers",
    "dual_value",
    "lagrangian_bound",
]
