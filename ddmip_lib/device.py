r"""The networks of the NN block on another device or in another precision; points are verified
elsewhere, on the CPU.

A pass through a deep network is hundreds of small kernels, and launching them one by one takes a
GPU longer than running them. On CUDA the pass forward and the pass back, $v \mapsto v^\top \partial
f(x)$, are therefore recorded once for the shape of the input, and each is one launch afterwards.
`torch.cuda.make_graphed_callables` does nearly that; on an H200 both passes of a 64x512 network,
100 rows in single precision, take 2.7 ms with it, 1.5 ms here (launched one by one 6.1 ms), since
transfers are part of the recording and weights lie in memory both ways.
"""

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class PlacedNetwork:
    """A copy of a network on another device or in another precision, between double-precision
    tensors on the CPU.

    >>> elsewhere = PlacedNetwork(nn.Linear(2, 1), "cpu", torch.float32)
    >>> elsewhere(torch.zeros(3, 2, dtype=torch.float64)).dtype
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
        """The network's values, kernel by kernel; differentiable as often as the network is."""
        return self._values(x.to(self.device, self.dtype)).to("cpu", torch.float64)

    def _values(self, x: Tensor) -> Tensor:
        if not self._recurrent:
            return self.net(x)
        with torch.backends.cudnn.flags(
            enabled=False
        ):  # cuDNN's have no gradient in evaluation mode
            return self.net(x)


def _copied(net: nn.Module, device: torch.device | str, dtype: torch.dtype) -> nn.Module:
    """The network there; its weights, which may be most of the memory, go there without a copy
    here.
    """
    there: dict[int, Any] = {
        id(weight): nn.Parameter(weight.detach().to(device, dtype, copy=True), False)
        for weight in net.parameters()
    }
    return copy.deepcopy(net, there).to(device, dtype)


class Product(torch.autograd.Function):
    r"""$x W^\top$ for a frozen weight that lies in memory both ways."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, turned: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return x @ turned

    @staticmethod
    def backward(ctx: Any, *slope: Tensor) -> tuple[Tensor, None, None]:
        return slope[0] @ ctx.saved_tensors[0], None, None


class BothWays(TorchFunctionMode):
    """Linear layers with a turned copy of their weights, and the bias added apart: on few rows in
    single precision this takes two thirds of the time of cuBLAS's product with a bias in it.
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
    """The same on a CUDA device, its passes recorded for one shape of input and played back,
    transfers included.

    A second derivative, of which there is no recording, is computed kernel by kernel.
    """

    def __init__(
        self, net: nn.Module, device: torch.device | str, dtype: torch.dtype, like: Tensor
    ) -> None:
        super().__init__(net, device, dtype)
        self.passes = 0
        self._linear = BothWays()
        with torch.enable_grad(), self._linear, warnings.catch_warnings():
            # the first backward pass of a process says so, and then helps itself
            warnings.filterwarnings(
                "ignore", "Attempting to run cuBLAS, but there was no current CUDA context"
            )
            self._record(like)

    def _record(self, like: Tensor) -> None:
        with torch.cuda.device(self.device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # libraries choose their kernels in the first passes
                for _ in range(3):
                    x = like.to(self.device, self.dtype, copy=True).requires_grad_(True)
                    y = self._values(x.clone())
                    torch.autograd.grad(y, x, torch.ones_like(y))
            torch.cuda.current_stream().wait_stream(stream)
            self._buffers(like.shape, y.shape)
            self.ahead = torch.cuda.CUDAGraph()
            self.back = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.ahead):
                x = self.x.to(self.device, non_blocking=True).to(self.dtype).requires_grad_(True)
                y = self._values(x.clone())  # a clone, for networks that write on their input
                self.y.copy_(y.detach().double(), non_blocking=True)
            with torch.cuda.graph(
                self.back, pool=self.ahead.pool()
            ):  # what it reads is kept, to be read again
                along = self.along.to(self.device, non_blocking=True).to(self.dtype)
                (slope,) = torch.autograd.grad(y, x, along, retain_graph=True)
                self.slope.copy_(slope.double(), non_blocking=True)
            self._kept = (x, y)

    def _buffers(self, inputs: torch.Size, outputs: torch.Size, pinned: bool = True) -> None:
        """The ends of the recording on the CPU."""
        shapes = (inputs, outputs, outputs, inputs)
        self.x, self.y, self.along, self.slope = (
            torch.zeros(shape, dtype=torch.float64, pin_memory=pinned) for shape in shapes
        )

    def __call__(self, x: Tensor) -> Tensor:
        return Playback.apply(x, self) if x.shape == self.x.shape else self.pass_by_pass(x)

    def play(self, x: Tensor) -> Tensor:
        """The network's values at x."""
        self.x.copy_(x.detach())
        self._replay(self.ahead)
        self.passes += 1
        return self.y.clone()

    def play_back(self, along: Tensor) -> Tensor:
        """The gradient of along'f at the point that was played last."""
        self.along.copy_(along)
        self._replay(self.back)
        return self.slope.clone()

    def _replay(self, graph: torch.cuda.CUDAGraph) -> None:
        graph.replay()
        torch.cuda.current_stream(self.device).synchronize()


class Playback(torch.autograd.Function):
    """A recorded network as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, recorded: Recorded) -> Tensor:
        y = recorded.play(x)
        ctx.save_for_backward(x)
        ctx.recorded = recorded
        ctx.number = recorded.passes
        return y

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> tuple[Tensor, None]:
        (x,), recorded = ctx.saved_tensors, ctx.recorded
        if torch.is_grad_enabled():  # a second derivative is to follow
            return (
                torch.autograd.grad(recorded.pass_by_pass(x), x, along, create_graph=True)[0],
                None,
            )
        if ctx.number != recorded.passes:  # another point was played since
            recorded.play(x)
            ctx.number = recorded.passes
        return recorded.play_back(along[0]), None


def check_place(device: torch.device | str, dtype: torch.dtype) -> torch.device:
    """The device, after refusing what no network can be placed on."""
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
    """The network on `device` in `dtype`, for inputs of the shape of `like`; on CUDA recorded where
    it can be.
    """
    if torch.device(device).type != "cuda":
        return PlacedNetwork(net, device, dtype)
    try:
        return Recorded(net, device, dtype, like)
    except RuntimeError as error:
        warnings.warn(
            f"the network cannot be recorded as a CUDA graph ({error}), so its kernels are launched"
            " one by one: slower where it is deep. Remove item(), cpu() and branches on values"
            " from its forward().",
            stacklevel=2,
        )
        return PlacedNetwork(net, device, dtype)
