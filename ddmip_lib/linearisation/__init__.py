"""Linearise and let the MIP decide: sequential linearisation with exact neighbourhoods."""

from .neighbourhood import LocalBound, local_bound
from .sequential import SequentialMIP

__all__ = ["LocalBound", "SequentialMIP", "local_bound"]
