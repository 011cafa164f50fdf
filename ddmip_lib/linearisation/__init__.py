"""Sequential linearisation: MIPs with linearised networks, and exact models of neighbourhoods."""

from .neighbourhood import LocalBound, local_bound
from .sequential import SequentialMIP

__all__ = ["LocalBound", "SequentialMIP", "local_bound"]
