"""Sequential linearisation: MIPs with linearised networks, and exact models of neighbourhoods."""

from .neighbourhood import LocalBound, local_bound
from .restoration import Restoration
from .sequential import SequentialMIP

__all__ = ["LocalBound", "Restoration", "SequentialMIP", "local_bound"]
