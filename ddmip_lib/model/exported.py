"""Programs that `torch.export` made, which are no modules and lie in files ending in .pt2, as
modules.
"""

import copy
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

REMEDY = (
    "Call net.eval(), then torch.export.export(net, (x,), dynamic_shapes=({0:"
    " torch.export.Dim('rows')},)) with an x of several rows."
)

Network = nn.Module | torch.export.ExportedProgram | str | os.PathLike[str]
"""What can be added to a model: a module, a program, or the path of one."""


def as_module(net: Any) -> Any:
    """A module for a program that `torch.export` made, or for the path of one; all else as it is.

    Export settles once and for all whether dropout is on, so what it makes calls itself in training
    mode and refuses `eval()`: a copy is returned whose flags say that it is evaluated.
    """
    if isinstance(net, (str, os.PathLike)):
        if Path(net).suffix != ".pt2":
            raise TypeError(
                f"{os.fspath(net)!r} is no .pt2 file of torch.export.save: load the network, and"
                " pass it."
            )
        net = torch.export.load(net)
    if not isinstance(net, nn.Module) and isinstance(net, torch.export.ExportedProgram):
        net = net.module()
    if not isinstance(net, nn.Module) or "eval" not in vars(net):
        return net
    settled = copy.deepcopy(net)
    for module in settled.modules():
        module.training = False
    vars(settled)["original_name"] = "ExportedProgram"
    return settled


def is_exported(net: nn.Module) -> bool:
    """Whether `torch.export` or `torch.fx` wrote the code of a network."""
    return isinstance(net, torch.fx.GraphModule)
