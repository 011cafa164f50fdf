"""Certificates: bounds that prove how good a solution is."""

from .certificate import Certificate
from .certify import certify
from .lagrangian import LagrangianBound, crown_multipliers, dual_value, lagrangian_bound

__all__ = [
    "Certificate",
    "LagrangianBound",
    "certify",
    "crown_multipliers",
    "dual_value",
    "lagrangian_bound",
]
