"""What a network costs: multiply-adds counted, seconds measured, memory weighed, and power laws
fitted to them.
"""

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


def as_frozen(net: nn.Module) -> nn.Module:
    """The network in double precision, its weights without gradients.

    >>> any(weight.requires_grad for weight in as_frozen(nn.Linear(2, 1)).parameters())
    False
    """
    return net.double().eval().requires_grad_(False)


def parameter_count(net: nn.Module) -> int:
    """$P$, the number of weights and biases.

    >>> parameter_count(nn.Linear(3, 2))
    8
    """
    return sum(weight.numel() for weight in net.parameters())


def multiply_adds(net: nn.Module, n_in: int, work: str = "forward", n: int = 1) -> float:
    """$W$, the multiply-adds of a forward pass of `n` samples; or of ``"gradient"`` (with respect
    to the inputs), ``"training"`` (inputs and weights), each with its forward pass. Matrix products
    and convolutions count.

    >>> net = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 1))
    >>> [multiply_adds(net, 9, work) for work in ("forward", "gradient", "training")]
    [160.0, 320.0, 480.0]
    """
    if work not in ("forward", "gradient", "training"):
        raise ValueError(f"work={work!r}. To fix this, use 'forward', 'gradient' or 'training'.")
    own = (
        copy.deepcopy(net).double().requires_grad_(work == "training")
    )  # double: in single, torch fuses an LSTM away
    x = torch.zeros(n, n_in, dtype=torch.float64, requires_grad=work != "forward")
    with FlopCounterMode(display=False) as counter:
        value = own(x).sum()
        if work != "forward":
            value.backward()
    return counter.get_total_flops() / 2


def input_gradient(net: nn.Module, x: Tensor) -> Tensor:
    """The gradient of the summed outputs with respect to the inputs: one forward and one reverse
    pass.

    >>> input_gradient(as_frozen(nn.Linear(2, 1)), torch.zeros(3, 2, dtype=torch.float64)).shape
    torch.Size([3, 2])
    """
    u = x.detach().requires_grad_(True)
    return torch.autograd.grad(net(u).sum(), u)[0]


class _Counting(TorchDispatchMode):
    """Counts the operations that torch is called for while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def operations(net: nn.Module, n_in: int, n: int = 1) -> int:
    """How many operations torch is called for in one gradient of `n` samples: what a pass costs
    however small it is.

    >>> operations(nn.Linear(9, 1), 9) == operations(nn.Linear(9, 100), 9, n=50)
    True
    """
    with _Counting() as counting:
        input_gradient(as_frozen(copy.deepcopy(net)), torch.zeros(n, n_in, dtype=torch.float64))
    return counting.calls


def median_seconds(work: Callable[[], Any], repeats: int = 7) -> float:
    """Median processor time of a call, after one call that warms up; calls too short for the clock
    are timed in bunches. Time that other programs take is not counted.

    >>> median_seconds(lambda: sum(range(1000))) > 0
    True
    """
    work()
    enough = max(2e-3, 20 * time.get_clock_info("process_time").resolution)
    begin = time.perf_counter()
    work()
    bunch = max(1, int(enough / max(time.perf_counter() - begin, 1e-7)))
    measured = []
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(bunch):
            work()
        measured.append((time.process_time() - begin) / bunch)
    return float(np.median(measured))


def gradient_seconds(net: nn.Module, n: int, n_in: int = 9, repeats: int = 7) -> float:
    """Median time of `input_gradient` at `n` samples."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, n_in, dtype=torch.float64, generator=generator)
    return median_seconds(lambda: input_gradient(net, x), repeats)


class PowerLaw(NamedTuple):
    """A fit $y = a x^s$ on logarithmic axes: the slope $s$, its standard error, and $a$."""

    slope: float
    error: float
    factor: float

    def __call__(self, x: Any) -> Any:
        return self.factor * np.asarray(x, dtype=float) ** self.slope


def power_law(x: Sequence[float], y: Sequence[float]) -> PowerLaw:
    """Least squares on the logarithms.

    >>> law = power_law([1, 10, 100], [2, 20, 200])
    >>> round(law.slope, 6), round(law.factor, 6)
    (1.0, 2.0)
    """
    fit = stats.linregress(np.log(x), np.log(y))
    return PowerLaw(float(fit.slope), float(fit.stderr), float(np.exp(fit.intercept)))


def saved_bytes(net: nn.Module, n: int, n_in: int = 9) -> int:
    """Bytes that a forward pass keeps for the reverse pass, the weights themselves not counted.

    >>> net = as_frozen(nn.Sequential(nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 1)))
    >>> saved_bytes(net, n=10) == 10 * 16 * 8
    True
    """
    weights = {weight.untyped_storage().data_ptr() for weight in net.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.zeros(n, n_in, dtype=torch.float64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = net(x)  # alive until the count is done, so that no address is used twice
    del output
    return sum(kept.values())


def tanh_net(depth: int, width: int, n_in: int, gain: float, seed: int) -> nn.Module:
    r"""A random smooth network: weights normal with deviation ``gain`` / $\sqrt{\text{fan-in}}$, no
    biases.

    >>> tanh_net(2, 4, 3, gain=1.5, seed=0)(torch.zeros(1, 3, dtype=torch.float64)).item()
    0.0
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = [n_in, *[width] * depth, 1]
    layers: list[nn.Module] = []
    for rows, columns in zip(sizes[1:], sizes[:-1], strict=True):
        layer = nn.Linear(columns, rows, bias=False).double()
        weight = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
        layer.weight = nn.Parameter(weight * gain / columns**0.5, requires_grad=False)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1]).eval()


def largest_curvature(net: nn.Module, n_in: int, points: int = 200, seed: int = 0) -> float:
    r"""A lower bound of $\ell$, the Lipschitz constant of the gradient: the largest eigenvalue, in
    absolute value, of the Hessian at random points of $[-1, 1]^p$.

    >>> square = lambda x: 3.0 * (x**2).sum(-1, keepdim=True)
    >>> round(largest_curvature(square, 2, points=3), 6)
    6.0
    """
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(points, n_in, dtype=torch.float64, generator=generator) - 1
    hessian = torch.func.vmap(torch.func.hessian(lambda point: net(point[None]).sum()))(x)
    return float(torch.linalg.eigvalsh(hessian).abs().max())
