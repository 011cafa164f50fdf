"""Linearise and let the MIP decide: sequential linearisation with exact neighbourhoods."""

from .neighbourhood import local_bound
from .sequential import SequentialMIP

__all__ = ["SequentialMIP", "local_bound"]
