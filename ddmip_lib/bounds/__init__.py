"""Sound bounds of networks over boxes and balls, for many regions at once.

>>> import torch
>>> from ddmip_lib.bounds import Box, crown, network_graph
>>> from ddmip_lib.predictors import conv1d
>>> net = conv1d(depth=2, width=4, n_in=9)
>>> bounds = crown(network_graph(net, 9), Box(-torch.ones(5, 9), torch.ones(5, 9)))
>>> bounds.lower.shape, bool((bounds.lower <= net.double()(torch.zeros(1, 9).double())).all())
(torch.Size([5, 1]), True)
"""

from .crown import crown, intervals
from .graph import Graph
from .optimise import optimised_crown
from .reader import network_graph
from .regions import Ball, Box
from .result import Bounds, constant_bounds

__all__ = [
    "Ball",
    "Bounds",
    "Box",
    "Graph",
    "constant_bounds",
    "crown",
    "intervals",
    "network_graph",
    "optimised_crown",
]
