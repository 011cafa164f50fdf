"""Networks as users pass them: modules, programs of `torch.export`, and files."""

import copy
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import ProblemError
from .onnx_network import is_onnx_model, read_onnx

REMEDY = (
    "Call net.eval(), then torch.export.export(net, (x,), dynamic_shapes=({0:"
    " torch.export.Dim('rows')},)) with an x of several rows."
)
"""How to export a network so that it can be added to a model."""

SHAPED = {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"}
"""Operations whose second argument is the shape of the result."""
Network = nn.Module | torch.export.ExportedProgram | str | os.PathLike[str]
"""What can be added to a model: a module, an exported program, or the path of one."""


def as_module(net: Any) -> Any:
    """Convert an exported program, or the path of a network, to a module.

    Exporting fixes whether dropout is active. The module of a program nevertheless reports
    training mode and has no `eval()`; the copy that is returned reports evaluation mode.

    Parameters
    ----------
    net : Network
        A module, a program of `torch.export`, an `onnx.ModelProto`, or a path.

    Returns
    -------
    torch.nn.Module
        The program as a module; everything else is returned unchanged.

    Raises
    ------
    FileNotFoundError, ProblemError
        If a file cannot be loaded (see `load_network`).
    """
    net = load_network(net)
    if is_onnx_model(net):
        return read_onnx(net)
    if isinstance(net, torch.export.ExportedProgram):
        net = _for_any_batch(net)
    if not isinstance(net, nn.Module) or "eval" not in vars(net):
        return net
    evaluated = copy.deepcopy(net)
    for module in evaluated.modules():
        module.training = False
    vars(evaluated)["original_name"] = "ExportedProgram"
    return evaluated


def _for_any_batch(program: torch.export.ExportedProgram) -> Any:
    """The module of a program; one that was exported for a fixed number of samples takes others.

    Shapes that begin with that number begin with any number, and the check of the input is left
    out.
    """
    module: Any = program.module()
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    shape = inputs[0].meta["val"].shape if len(inputs) == 1 else ()
    if not shape or not isinstance(shape[0], int):
        return module
    for node in list(module.graph.nodes):
        if str(node.target) == "_guards_fn":
            module.graph.erase_node(node)
        elif str(node.target) in SHAPED and node.args[1][0] == shape[0]:
            node.args = (node.args[0], [-1, *node.meta["val"].shape[1:]])
    module.recompile()
    _require_same(module, program.module(), shape)
    return module


def _require_same(module: nn.Module, original: nn.Module, shape: torch.Size) -> None:
    """Raise an error if a module differs from the original, which takes batches of one shape."""
    kind = next((part.dtype for part in original.parameters()), torch.float32)
    drawn = torch.Generator().manual_seed(0)
    batches = [torch.randn(shape, dtype=kind, generator=drawn) for _ in range(3)]
    try:
        same = torch.allclose(
            module(torch.cat(batches)), torch.cat([original(x) for x in batches]), 1e-4, 1e-5
        )
    except (RuntimeError, AssertionError):
        same = False
    if not same:
        raise ProblemError(
            f"the program was exported for {shape[0]} samples and accepts no other number. {REMEDY}"
        )


def load_network(net: Any, trust: bool = False) -> Any:
    """Load a network from a file.

    Parameters
    ----------
    net : str, os.PathLike or object
        The path of a `.pt2` file of `torch.export.save`, of a `.onnx` file, or of a `.pt` or
        `.pth` file of `torch.jit.save` or `torch.save`.
    trust : bool
        Whether a file of `torch.save` may be loaded, a pickle, which can run code.

    Returns
    -------
    object
        The network; what is no path is returned unchanged.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ProblemError
        If the file cannot be read, is a pickle that is not trusted, or holds no network.
    """
    if not isinstance(net, (str, os.PathLike)):
        return net
    path = Path(net)
    if path.suffix not in LOADERS:
        raise ProblemError(
            f"{path} is no file of a network: its name must end in {', '.join(LOADERS)}. Or load"
            " the network, and pass it."
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give the path of a network.")
    return LOADERS[path.suffix](path, trust)


def _load_program(path: Path, _: bool) -> torch.export.ExportedProgram:
    try:
        return torch.export.load(path)
    except (RuntimeError, ValueError, zipfile.BadZipFile) as error:
        raise ProblemError(f"{path} is no archive of torch.export.save: {error}") from error


def _load_torch(path: Path, trust: bool) -> nn.Module:
    """The module in a file of `torch.jit.save`, or of `torch.save` if it is trusted."""
    if _is_script(path):
        return torch.jit.load(path, map_location="cpu")
    if not trust:
        raise ProblemError(
            f"{path} is a pickle, which can run code: if you trust it, load it by"
            " torch.load(path, weights_only=False), and pass the network. Files of"
            " torch.export.save (.pt2) run no code."
        )
    try:
        net = torch.load(path, map_location="cpu", weights_only=False)
    except (RuntimeError, pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise ProblemError(
            f"{path} cannot be loaded ({error}): the module that defines the network's class must"
            " be importable."
        ) from error
    if isinstance(net, nn.Module):
        return net
    raise ProblemError(
        f"{path} holds {type(net).__name__}, no network: weights alone are loaded by"
        " net.load_state_dict(...) into the network that they belong to; then pass it."
    )


def _is_script(path: Path) -> bool:
    """Whether a file is an archive of TorchScript."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


LOADERS = {
    ".pt2": _load_program,
    ".onnx": lambda path, _: read_onnx(path),
    ".pt": _load_torch,
    ".pth": _load_torch,
}
"""Functions that load networks, by the ending of the file's name."""


def is_estimator(net: Any) -> bool:
    """Return whether an object is no module and has a method ``predict``.

    Parameters
    ----------
    net : object
        What is to be added to a model.

    Returns
    -------
    bool
        True for a fitted estimator.
    """
    return not isinstance(net, (nn.Module, type)) and callable(getattr(net, "predict", None))


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
