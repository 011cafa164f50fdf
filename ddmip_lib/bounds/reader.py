"""Torch modules of affine layers, activations and sums as graphs, read by running them on a traced
tensor; plain chains of layers by the same rules, layer by layer.
"""

import copy
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from ..errors import UnsupportedNetworkError
from .activations import ACTIVATIONS, LAYERS
from .graph import Graph, GraphBuilder
from .trace import PROBE_ROWS, Tape, Traced, aten

SUPPORTED = (
    f"Linear, Conv1d, Conv2d, BatchNorm, {', '.join(layer.__name__ for layer in LAYERS)}, Dropout,"
    " Identity, Flatten, reshaping, sums of layers, and constants added or multiplied"
)
OPERATIONS = {unit.layer: getattr(aten, kind).default for kind, unit in ACTIVATIONS.items()}


def network_graph(net: nn.Module, n_in: int) -> Graph:
    """Read a network as a graph of affine maps, activations and sums.

    Its `forward` runs once on a tensor that records every operation (see `trace`), so residual
    sums, convolutions (as matrices), functions such as `torch.relu`, scripted modules and
    operations in place are read as executed; BatchNorm is folded.

    Parameters
    ----------
    net : Module
        The network; it is copied, in evaluation mode and float64.
    n_in : int
        The number of inputs.

    Returns
    -------
    Graph
        The graph.

    Raises
    ------
    UnsupportedNetworkError
        If the network has other operations, hooks, or is not deterministic.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> [type(node).__name__ for node in network_graph(net, 3).nodes]
    ['Input', 'Affine', 'Elementwise', 'Affine']
    >>> network_graph(nn.Sequential(nn.Linear(2, 2), nn.Softmax(1)), 2)
    Traceback (most recent call last):
    ...
    ddmip_lib.errors.UnsupportedNetworkError: bounds cannot follow Softmax: they ...
    """
    _require_no_hooks(net)
    net = copy.deepcopy(net).double().eval()
    tape = traced_run(net, n_in)
    if tape.refused:
        raise UnsupportedNetworkError(f"bounds cannot follow {tape.names}: they need {SUPPORTED}.")
    graph = tape.builder.graph(tape.output)
    scales = torch.tensor([0.1, 1.0, 3.0, 10.0, 30.0])[:, None]
    probe = scales * torch.tensor(np.random.default_rng(0).standard_normal((5, n_in)))
    # batches of other sizes than that of the trace
    if not (_agree(graph, net, probe[:1]) and _agree(graph, net, probe[1:])):
        raise UnsupportedNetworkError(
            f"the outputs of {type(net).__name__} differ from those of the operations of its"
            " forward(): they are random, depend on the number of samples or on other samples of"
            " the batch, or are not finite. Write it without such operations."
        )
    return graph


def _require_no_hooks(net: nn.Module) -> None:
    """Raise an error where a layer has a forward hook."""
    for path, module in net.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            raise UnsupportedNetworkError(
                f"bounds cannot follow the forward hook of {type(module).__name__} {path}: remove"
                " it (weight_norm and spectral_norm of torch.nn.utils.parametrizations have none),"
                " or do its work in forward()."
            )


def _agree(graph: Graph, net: nn.Module, samples: Tensor) -> bool:
    """Whether graph and network have the same outputs on a batch."""
    with torch.no_grad():
        found = graph(samples)
        expected = net(samples.clone())
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def traced_run(net: nn.Module, n_in: int) -> Tape:
    """Record the operations of a network in float64.

    Parameters
    ----------
    net : Module
        The network.
    n_in : int
        The number of inputs.

    Returns
    -------
    Tape
        The operations; its `refused` and `output` show whether the network can be read.

    Examples
    --------
    >>> traced_run(nn.Sequential(nn.Linear(2, 1), nn.Softplus()).double(), 2).last
    'softplus'
    """
    tape = Tape(GraphBuilder(n_in), inside=[(net, "")])
    state = [*net.parameters(), *net.buffers()]
    versions = [part._version for part in state]
    probe = torch.tensor(np.random.default_rng(1).standard_normal((PROBE_ROWS, n_in)))
    value = Traced(probe, 0, tape)
    _own = Traced(probe, 0, tape)  # with a second name, nothing may change it in place
    try:
        found = _run(net, value)
    except Exception as error:
        tape.last = ""
        if not tape.refused:
            data = "tensor subclasses" in str(error)
            tape.refuse("control flow by data" if data else f"forward: {error}")
        return tape
    if versions != [part._version for part in state]:
        tape.refuse("a parameter or buffer changed in place")
    _set_output(tape, found)
    return tape


def _run(net: nn.Module, value: Traced) -> Any:
    """The result of a network at a traced value."""
    paths = {module: path for path, module in net.named_modules()}
    hooks = _follow_layers(value.tape, paths)
    try:
        with torch.no_grad():
            return _followed(net, value) if is_plain(net) else net(value)
    finally:
        for hook in hooks:
            hook.remove()


def _set_output(tape: Tape, found: Any) -> None:
    """Set the output node of a tape, or refuse a result that is none."""
    if not isinstance(found, Tensor):
        tape.refuse("an output that is no tensor")
    elif not isinstance(found, Traced) or (found.node is None and not tape.refused):
        tape.refuse("an output that does not come from the input")
    elif found.dim() != 2 or len(found) != PROBE_ROWS:
        tape.refuse("an output that is no matrix (batch, outputs)")
    elif found.node is not None:
        tape.output = found.node


def _follow_layers(tape: Tape, paths: dict[nn.Module, str]) -> list[RemovableHandle]:
    """Record on the tape which layer's forward() is running.

    Hooks are global, since scripted modules accept none, so modules that other threads run are
    excluded.
    """
    reader = get_ident()

    def enter(module: nn.Module, _: Any) -> None:
        if get_ident() == reader:
            tape.inside.append((module, paths.get(module, "")))

    def leave(*_: Any) -> None:
        if get_ident() == reader:
            tape.inside.pop()

    return [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]


def is_plain(net: nn.Module) -> bool:
    """Return whether a network is a chain of linear layers and activations, and nothing else.

    Such a network is read layer by layer, since torch imports for seconds, in every process, before
    it dispatches an operation to another tensor class.

    Parameters
    ----------
    net : Module
        The network.

    Examples
    --------
    >>> is_plain(nn.Sequential(nn.Linear(2, 3), nn.ReLU())), is_plain(nn.LeakyReLU())
    (True, False)
    """
    for layer in net.modules():
        if type(layer) not in (nn.Sequential, nn.Linear, *OPERATIONS):
            return False
        if layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer):
            return False
        if getattr(layer, "inplace", False):
            return False
    return True


def _followed(net: nn.Module, value: Traced) -> Traced:
    """The value behind a plain network, by the operations that torch would call."""
    tape = value.tape
    for path, layer in net.named_modules(remove_duplicate=False):
        tape.inside.append((layer, path))
        if isinstance(layer, nn.Linear) and layer.bias is None:
            value = tape.follow(aten.mm.default, (value, layer.weight.t()), {})
        elif isinstance(layer, nn.Linear):
            value = tape.follow(aten.addmm.default, (layer.bias, value, layer.weight.t()), {})
        elif not isinstance(layer, nn.Sequential):
            value = tape.follow(OPERATIONS[type(layer)], (value,), {})
        tape.inside.pop()
    return value
