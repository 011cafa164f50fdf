"""Sequential linearisation: MIPs with linearised networks, and exact models of neighbourhoods."""

from .elastic import ElasticModel
from .neighbourhood import LocalBound, local_bound
from .restoration import Restoration
from .sequential import SequentialMIP
from .tangent import linearise

__all__ = ["ElasticModel", "LocalBound", "Restoration", "SequentialMIP", "linearise", "local_bound"]
