"""Sound bounds of networks over boxes and balls, for many regions at once.

>>> import torch
>>> from ddmip_lib.bounds import Box, crown, network_graph
>>> from ddmip_lib.problems import hand_sized_net
>>> net = hand_sized_net()
>>> bounds = crown(network_graph(net, 2), Box(-torch.ones(5, 2), torch.ones(5, 2)))
>>> bounds.lower.shape, bool((bounds.lower <= net(torch.zeros(1, 2).double())).all())
(torch.Size([5, 1]), True)
"""

from .crown import crown, intervals
from .graph import Graph
from .layer_list import flat_layers
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
    "flat_layers",
    "intervals",
    "network_graph",
    "optimised_crown",
]
