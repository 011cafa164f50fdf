r"""Networks of the NN block on another device or in another precision.

Points are verified by the user's networks on the CPU in any case.

A pass through a deep network consists of hundreds of small kernels; on a GPU their launches take
longer than their execution. On CUDA the forward pass and the backward pass, $v \mapsto v^\top
\partial f(x)$, are therefore recorded once for the shape of the input, and each is one launch
afterwards. `torch.cuda.make_graphed_callables` does nearly the same: on an H200 both passes of a
64x512 network, 100 samples in single precision, take 2.7 ms with it, 1.5 ms here, and 6.1 ms
without a recording, since transfers are part of the recording here and weights are stored in both
orders.
"""

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

WARM_UP_PASSES = 3
"""Passes before a recording."""


class PlacedNetwork:
    """A copy of a network on another device or in another precision.

    Its inputs and outputs are double-precision tensors on the CPU.

    Parameters
    ----------
    net
        The network.
    device
        Device of the copy.
    dtype
        Precision of the copy.

    Attributes
    ----------
    here
        The network itself.
    net
        Its copy.

    Examples
    --------
    >>> placed = PlacedNetwork(nn.Linear(2, 1), "cpu", torch.float32)
    >>> placed(torch.zeros(3, 2, dtype=torch.float64)).dtype
    torch.float64
    """

    def __init__(self, net: nn.Module, device: torch.device | str, dtype: torch.dtype) -> None:
        self.here = net
        self.net = _copied(net, device, dtype)
        self.device = device
        self.dtype = dtype
        self._recurrent = any(isinstance(module, nn.RNNBase) for module in net.modules())

    def __call__(self, x: Tensor) -> Tensor:
        return self.pass_by_pass(x)

    def pass_by_pass(self, x: Tensor) -> Tensor:
        """Return the outputs, kernel by kernel; differentiable as often as the network is."""
        return self._values(x.to(self.device, self.dtype)).to("cpu", torch.float64)

    def _values(self, x: Tensor) -> Tensor:
        if not self._recurrent:
            return self.net(x)
        with torch.backends.cudnn.flags(enabled=False):  # no gradients in evaluation mode
            return self.net(x)


def _copied(net: nn.Module, device: torch.device | str, dtype: torch.dtype) -> nn.Module:
    """A copy on a device; weights, often most of the memory, are copied there directly."""
    copied: dict[int, Any] = {}
    for weight in net.parameters():
        moved = weight.detach().to(device, dtype, copy=True)
        copied[id(weight)] = nn.Parameter(moved, requires_grad=False)
    return copy.deepcopy(net, copied).to(device, dtype)


class Product(torch.autograd.Function):
    r"""$x W^\top$ for a constant weight that is stored together with its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, transpose: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return x @ transpose

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient[0] @ ctx.saved_tensors[0], None, None


class BothWays(TorchFunctionMode):
    """Linear layers with a transposed copy of their weights, and the bias added separately.

    For few samples in single precision this takes two thirds of the time of cuBLAS's product with a
    bias.
    """

    def __init__(self) -> None:
        super().__init__()
        self.turned: dict[nn.Parameter, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not functional.linear or kwargs or not isinstance(args[1], nn.Parameter):
            return func(*args, **(kwargs or {}))
        x, weight, bias = args
        if weight not in self.turned:
            self.turned[weight] = weight.t().contiguous()
        y = Product.apply(x, weight, self.turned[weight])
        return y if bias is None else y + bias


class Recorded(PlacedNetwork):
    """A copy of a network on a CUDA device whose passes are recorded for one shape of input.

    Second derivatives are not recorded but computed kernel by kernel.

    Parameters
    ----------
    net
        The network.
    device
        A CUDA device.
    dtype
        Precision of the copy.
    like
        Tensor with the shape of the inputs.
    """

    def __init__(
        self, net: nn.Module, device: torch.device | str, dtype: torch.dtype, like: Tensor
    ) -> None:
        super().__init__(net, device, dtype)
        self.passes = 0
        self._linear = BothWays()
        with torch.enable_grad(), self._linear, warnings.catch_warnings():
            # the first backward pass of a process warns, and then creates the context
            message = "Attempting to run cuBLAS, but there was no current CUDA context"
            warnings.filterwarnings("ignore", message)
            self._record(like)

    def _record(self, like: Tensor) -> None:
        with torch.cuda.device(self.device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outputs = self._warm_up(like)
            torch.cuda.current_stream().wait_stream(stream)
            self._buffers(like.shape, outputs)
            self.ahead = torch.cuda.CUDAGraph()
            self.back = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.ahead):
                x = self.x.to(self.device, non_blocking=True).to(self.dtype).requires_grad_(True)
                y = self._values(x.clone())  # a clone, for networks that write on their input
                self.y.copy_(y.detach().double(), non_blocking=True)
            with torch.cuda.graph(self.back, pool=self.ahead.pool()):  # keeps what it reads
                along = self.along.to(self.device, non_blocking=True).to(self.dtype)
                (gradient,) = torch.autograd.grad(y, x, along, retain_graph=True)
                self.slope.copy_(gradient.double(), non_blocking=True)
            self._kept = (x, y)

    def _warm_up(self, like: Tensor) -> torch.Size:
        """Run both passes, in which libraries choose their kernels; the shape of the outputs."""
        for _ in range(WARM_UP_PASSES):
            x = like.to(self.device, self.dtype, copy=True).requires_grad_(True)
            y = self._values(x.clone())
            torch.autograd.grad(y, x, torch.ones_like(y))
        return y.shape

    def _buffers(self, inputs: torch.Size, outputs: torch.Size, pinned: bool = True) -> None:
        """Create the inputs and outputs of the recorded passes on the CPU."""

        def zeros(shape: torch.Size) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, pin_memory=pinned)

        self.x = zeros(inputs)
        self.y = zeros(outputs)
        self.along = zeros(outputs)
        self.slope = zeros(inputs)

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape != self.x.shape:
            return self.pass_by_pass(x)
        outputs: Tensor = Playback.apply(x, self)
        return outputs

    def play(self, x: Tensor) -> Tensor:
        """Return the outputs at x by the recorded forward pass."""
        self.x.copy_(x.detach())
        self._replay(self.ahead)
        self.passes += 1
        return self.y.clone()

    def play_back(self, along: Tensor) -> Tensor:
        """Return the gradient of along'f at the point of the last forward pass."""
        self.along.copy_(along)
        self._replay(self.back)
        return self.slope.clone()

    def _replay(self, graph: torch.cuda.CUDAGraph) -> None:
        graph.replay()
        torch.cuda.current_stream(self.device).synchronize()


class Playback(torch.autograd.Function):
    """A recorded network as one node of PyTorch's graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, recorded: Recorded) -> Tensor:
        y = recorded.play(x)
        ctx.save_for_backward(x)
        ctx.recorded = recorded
        ctx.number = recorded.passes
        return y

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        recorded = ctx.recorded
        if torch.is_grad_enabled():  # for a second derivative
            y = recorded.pass_by_pass(x)
            (gradient,) = torch.autograd.grad(y, x, along, create_graph=True)
            return gradient, None
        if ctx.number != recorded.passes:  # after a forward pass at another point
            recorded.play(x)
            ctx.number = recorded.passes
        return recorded.play_back(along[0]), None


def check_place(device: torch.device | str, dtype: torch.dtype) -> torch.device:
    """Check that a network can be placed on a device, and return the device.

    Parameters
    ----------
    device
        The device or its name.
    dtype
        Precision of the network.

    Returns
    -------
    torch.device
        The device.

    Raises
    ------
    ValueError
        If there is no such device, or the precision is neither single nor double.
    """
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype={dtype} must be torch.float32 or torch.float64.")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={str(device)!r}: this torch finds no CUDA device; use device='cpu'."
        )
    return torch.device(device)


def place(
    net: nn.Module, device: torch.device | str, dtype: torch.dtype, like: Tensor
) -> PlacedNetwork:
    """Return a copy of a network on another device, with recorded passes on CUDA if possible.

    Parameters
    ----------
    net
        The network.
    device
        Device of the copy.
    dtype
        Precision of the copy.
    like
        Tensor with the shape of the inputs.

    Returns
    -------
    PlacedNetwork
        The copy; its inputs and outputs are double-precision tensors on the CPU.
    """
    if torch.device(device).type != "cuda":
        return PlacedNetwork(net, device, dtype)
    try:
        return Recorded(net, device, dtype, like)
    except RuntimeError as error:
        warnings.warn(
            f"the network cannot be recorded as a CUDA graph ({error}), so its kernels are launched"
            " one by one, which is slow for deep networks. Remove item(), cpu() and branches on"
            " values from its forward().",
            stacklevel=2,
        )
        return PlacedNetwork(net, device, dtype)
