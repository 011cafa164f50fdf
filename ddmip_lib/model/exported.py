"""Programs of `torch.export`, in memory or in files ending in .pt2, as modules."""

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
"""How to export a network so that it can be added to a model."""

Network = nn.Module | torch.export.ExportedProgram | str | os.PathLike[str]
"""What can be added to a model: a module, an exported program, or the path of one."""


def as_module(net: Any) -> Any:
    """Convert an exported program, or the path of one, to a module.

    Exporting fixes whether dropout is active. The module of a program nevertheless reports
    training mode and has no `eval()`; the copy that is returned reports evaluation mode.

    Parameters
    ----------
    net : Network
        A module, a program of `torch.export`, or the path of one.

    Returns
    -------
    torch.nn.Module
        The program as a module; everything else is returned unchanged.

    Raises
    ------
    TypeError
        If a path does not end in .pt2.
    """
    if isinstance(net, (str, os.PathLike)):
        if Path(net).suffix != ".pt2":
            raise TypeError(
                f"{os.fspath(net)!r} is no .pt2 file of torch.export.save: load the network, and"
                " pass it."
            )
        net = torch.export.load(net)
    if isinstance(net, torch.export.ExportedProgram):
        net = net.module()
    if not isinstance(net, nn.Module) or "eval" not in vars(net):
        return net
    evaluated = copy.deepcopy(net)
    for module in evaluated.modules():
        module.training = False
    vars(evaluated)["original_name"] = "ExportedProgram"
    return evaluated


def is_exported(net: nn.Module) -> bool:
    """Return whether `torch.export` or `torch.fx` generated the code of a network.

    Parameters
    ----------
    net : torch.nn.Module
        A network.

    Returns
    -------
    bool
        True for a `torch.fx.GraphModule`.
    """
    return isinstance(net, torch.fx.GraphModule)
