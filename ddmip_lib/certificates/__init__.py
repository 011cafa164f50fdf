"""Certificates: bounds that prove how good a solution is."""

from .certify import Certificate, certify
from .lagrangian import LagrangianBound, crown_multipliers, dual_value, lagrangian_bound

__all__ = ["Certificate", "LagrangianBound", "certify", "crown_multipliers", "dual_value", "lagrangian_bound"]
