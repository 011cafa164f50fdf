"""Any torch module of affine layers, activations and sums, read into a `Graph` by running it on a
traced tensor; plain rows of layers by the same rules, layer by layer.
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
from .graph import Graph
from .trace import BATCH, Tape, Traced, aten

SUPPORTED = (
    "Linear, Conv1d, Conv2d, BatchNorm, ReLU, LeakyReLU, Sigmoid, Tanh, Dropout, Identity, Flatten,"
    " reshaping, sums of layers, and constants added or multiplied"
)
ACTS = {nn.ReLU: aten.relu.default, nn.Sigmoid: aten.sigmoid.default, nn.Tanh: aten.tanh.default}


def network_graph(net: nn.Module, n_in: int) -> Graph:
    """The network, in evaluation mode and float64, as a graph of affine maps, activations and sums.

    Its `forward` runs once on a tensor that writes down every operation (see `trace`), so residual
    sums, convolutions (as matrices), functions such as `torch.relu`, scripted modules and
    operations in place are read as they act; BatchNorm is folded. Everything else is refused by
    name.

    >>> from ddmip_lib.predictors import resnet
    >>> [type(node).__name__ for node in network_graph(resnet(depth=1, width=4, n_in=3), 3).nodes]
    ['Input', 'Affine', 'Affine', 'Elementwise', 'Affine', 'Sum', 'Elementwise', 'Affine']
    >>> network_graph(nn.Sequential(nn.Linear(2, 2), nn.Softmax(1)), 2)
    Traceback (most recent call last):
    ...
    ddmip_lib.errors.UnsupportedNetworkError: bounds cannot follow Softmax: they ...
    """
    for path, module in net.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            raise UnsupportedNetworkError(
                f"bounds cannot follow the forward hook of {type(module).__name__} {path}: remove"
                " it (weight_norm and spectral_norm of torch.nn.utils.parametrizations have none),"
                " or do its work in forward()."
            )
    net = copy.deepcopy(net).double().eval()
    tape = traced_run(net, n_in)
    if tape.refused:
        raise UnsupportedNetworkError(f"bounds cannot follow {tape.names}: they need {SUPPORTED}.")
    graph = tape.builder.graph(tape.output)
    scales = torch.tensor([0.1, 1.0, 3.0, 10.0, 30.0])[:, None]
    probe = scales * torch.tensor(np.random.default_rng(0).standard_normal((5, n_in)))
    for rows in (
        probe[:1],
        probe[1:],
    ):  # the second line of defence: the trace had another number of rows
        with torch.no_grad():
            found = graph(rows)
            expected = net(rows.clone())
        if found.shape != expected.shape or not torch.allclose(
            found, expected, rtol=1e-9, atol=1e-9
        ):
            raise UnsupportedNetworkError(
                f"{type(net).__name__} does something in forward() that its operations do not say:"
                " a result that is random, that depends on the number of rows or on other rows, or"
                " is not finite. Write it without."
            )
    return graph


def traced_run(net: nn.Module, n_in: int) -> Tape:
    """What a network in float64 does to rows of `n_in` numbers; `refused` and `output` say whether
    it can be read.

    >>> traced_run(nn.Sequential(nn.Linear(2, 1), nn.Softplus()).double(), 2).last
    'softplus'
    """
    tape = Tape(n_in)
    paths = {module: path for path, module in net.named_modules()}
    tape.inside.append((net, ""))
    hooks = _follow_layers(tape, paths)
    state = [*net.parameters(), *net.buffers()]
    versions = [part._version for part in state]
    probe = torch.tensor(np.random.default_rng(1).standard_normal((BATCH, n_in)))
    value = Traced(probe, 0, tape)
    _own = Traced(probe, 0, tape)  # with a second name, nothing may change it in place
    try:
        with torch.no_grad():
            found = _followed(net, value) if is_plain(net) else net(value)
    except Exception as problem:
        text = str(problem)
        tape.last = ""
        if not tape.refused:
            tape.refuse(
                "control flow by data" if "tensor subclasses" in text else f"forward: {text}"
            )
        return tape
    finally:
        for hook in hooks:
            hook.remove()
    if versions != [part._version for part in state]:
        tape.refuse("a parameter or buffer changed in place")
    if not isinstance(found, Tensor):
        tape.refuse("an output that is no tensor")
    elif not isinstance(found, Traced) or (found.node is None and not tape.refused):
        tape.refuse("an output that does not come from the input")
    elif found.dim() != 2 or len(found) != BATCH:
        tape.refuse("an output that is no matrix (batch, outputs)")
    elif found.node is not None:
        tape.output = found.node
    return tape


def _follow_layers(tape: Tape, paths: dict[nn.Module, str]) -> list[RemovableHandle]:
    """Let the tape know which layer's forward() is running. Hooks are on all modules, since those
    of scripted ones take none of their own, so also on those that other threads run meanwhile.
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
    """Whether a network is a row of linear layers and activations, and nothing else: one that is
    read by hand, since torch imports for seconds, in every process, before it hands an operation to
    a tensor of another class.

    >>> is_plain(nn.Sequential(nn.Linear(2, 3), nn.ReLU())), is_plain(nn.LeakyReLU())
    (True, False)
    """
    if type(net) is nn.Sequential and not all(map(is_plain, net)):
        return False
    known = type(net) in (nn.Sequential, nn.Linear, *ACTS) and not getattr(net, "inplace", False)
    return known and not (net._forward_hooks or net._forward_pre_hooks or "forward" in vars(net))


def _followed(net: nn.Module, value: Traced, path: str = "") -> Traced:
    """The value behind a plain network, by the operations that torch would call."""
    if isinstance(net, nn.Sequential):
        for name, layer in net._modules.items():  # a layer may come twice
            value = _followed(layer, value, f"{path}.{name}".lstrip("."))
        return value
    call: tuple[Any, Any] = ACTS.get(type(net)), (value,)
    if isinstance(net, nn.Linear):
        pair = value, net.weight.t()
        call = (
            (aten.mm.default, pair) if net.bias is None else (aten.addmm.default, (net.bias, *pair))
        )
    value.tape.inside.append((net, path))
    value = value.tape.follow(*call, {})
    value.tape.inside.pop()
    return value
