"""Any Python function of a batch of inputs as a predictor, with derivatives by differences."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from ..errors import ProblemError, UnsupportedNetworkError


class BlackBox(nn.Module):
    """A function of a batch of inputs as a module; see `black_box`.

    Parameters
    ----------
    function : callable
        Maps an array (n, p) to (n, q).
    n_outputs : int
        The number q of outputs.
    width : float
        Step of the central differences.

    Attributes
    ----------
    reason : str
        Why it has no bounds.
    """

    reason = "a Python function, of which nothing but values is known"

    def __init__(
        self, function: Callable[[ndarray], ndarray], n_outputs: int, width: float
    ) -> None:
        super().__init__()
        self.function = function
        self.n_outputs = n_outputs
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        if type(x) not in (Tensor, nn.Parameter):
            raise UnsupportedNetworkError(self.reason)
        return Differences.apply(x, self)

    def __deepcopy__(self, memo: Any) -> "BlackBox":
        return copy.copy(self)  # there are no weights, and the function is shared

    def extra_repr(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"{name}, n_outputs={self.n_outputs}, width={self.width:g}"


class Differences(torch.autograd.Function):
    r"""The function itself forward, central differences backward.

    The derivative in $x_j$ is $\sum_k v_k \frac{f_k(x + h e_j) - f_k(x - h e_j)}{2h}$.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, box: BlackBox) -> Tensor:
        ctx.save_for_backward(x)
        ctx.box = box
        shape = (len(x), box.n_outputs)
        if len(x) == 0:  # which most functions do not take
            return x.new_zeros(shape)
        values = np.array(box.function(x.detach().cpu().double().numpy().copy()), dtype=float)
        is_vector = box.n_outputs == 1 and values.shape == (len(x),)
        if values.shape != shape and not is_vector:
            raise ProblemError(
                f"the function maps {tuple(x.shape)} to {values.shape}, not to {shape}: correct"
                " n_outputs."
            )
        return torch.from_numpy(values.reshape(shape)).to(x)

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        box = ctx.box
        n, p = x.shape
        steps = box.width * torch.eye(p, dtype=x.dtype, device=x.device)
        # through forward() again, so that second derivatives are by differences too
        ahead = box((x[:, None] + steps).reshape(n * p, p)).reshape(n, p, -1)
        behind = box((x[:, None] - steps).reshape(n * p, p)).reshape(n, p, -1)
        return ((ahead - behind) * along[0][:, None]).sum(-1) / (2 * box.width), None


def black_box(
    function: Callable[[ndarray], ndarray], n_outputs: int = 1, width: float = 1e-3
) -> BlackBox:
    r"""Use a Python function as a network: trees, simulators, tables.

    Values are exact. Derivatives are central differences, each of which evaluates $2p$ samples,
    also just outside the box. There is no exact model: `BigM` and `certify` refuse it by
    name. `Enumeration` proves an optimum if all inputs are integer; otherwise there is no bound.

    Parameters
    ----------
    function : callable
        Maps an array $(n, p)$ to $(n, q)$, or to $(n,)$ for one output; deterministic. It is
        shared, not copied.
    n_outputs : int
        The number $q$ of outputs.
    width : float
        Step of the differences: as large as the changes that derivatives should reflect, such as
        0.5 for binary inputs of a tree.

    Returns
    -------
    BlackBox
        A module in evaluation mode.

    Raises
    ------
    TypeError
        If `function` is not callable.
    ValueError
        If `n_outputs` or `width` is out of range.

    Examples
    --------
    >>> net = black_box(lambda x: np.floor(x).sum(axis=1), width=0.5)
    >>> x = torch.tensor([[1.2, 0.9]], requires_grad=True)
    >>> net(x), torch.autograd.grad(net(x).sum(), x)[0]
    (tensor([[1.]], grad_fn=<DifferencesBackward>), tensor([[1., 1.]]))
    """
    if not callable(function):
        raise TypeError(
            f"a black box is a function of a batch of inputs, not {type(function).__name__}: pass"
            " model.predict."
        )
    if not isinstance(n_outputs, int) or n_outputs < 1 or not 0 < width < np.inf:
        raise ValueError(
            f"n_outputs={n_outputs!r} must be an integer and width={width!r} a number, both"
            " positive."
        )
    return BlackBox(function, n_outputs, float(width)).eval()
