"""Peers on the same problems: the exact model by gurobi-machinelearning, and by OMLT with HiGHS.

Both read the user's rows from the library's snapshot, write the networks with their own formulation
of a ReLU and solve with their own solver; start, margin, time limit, verification and the form of
the answer are those of `BigM`.
"""

from .gurobi import GurobiML
from .omlt_highs import OmltHighs

__all__ = ["GurobiML", "OmltHighs"]
