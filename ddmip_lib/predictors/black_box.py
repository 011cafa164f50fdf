"""Any Python function of rows as a predictor: exact where it is asked, with slopes from
differences.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ProblemError, UnsupportedNetworkError


class BlackBox(nn.Module):
    """A function of rows and the width of its differences; see `black_box`."""

    def __init__(
        self, function: Callable[[np.ndarray], np.ndarray], n_outputs: int, width: float
    ) -> None:
        super().__init__()
        self.function = function
        self.n_outputs = n_outputs
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        if type(x) not in (Tensor, nn.Parameter):
            raise UnsupportedNetworkError("a Python function, of which nothing but values is known")
        return Differences.apply(x, self)

    def __deepcopy__(self, memo: Any) -> "BlackBox":
        return BlackBox(self.function, self.n_outputs, self.width).train(
            self.training
        )  # the function is shared

    def extra_repr(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"{name}, n_outputs={self.n_outputs}, width={self.width:g}"


class Differences(torch.autograd.Function):
    r"""Forward the function itself, backward $\sum_k v_k \frac{f_k(x + h e_j) - f_k(x - h
    e_j)}{2h}$ for every $j$.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, box: BlackBox) -> Tensor:
        ctx.save_for_backward(x)
        ctx.box = box
        shape = (len(x), box.n_outputs)
        if len(x) == 0:  # which most functions do not take
            return x.new_zeros(shape)
        said = np.array(box.function(x.detach().cpu().double().numpy().copy()), dtype=float)
        if said.shape not in (shape, shape[: box.n_outputs]):  # a vector will do for one output
            raise ProblemError(
                f"the function maps {tuple(x.shape)} to {said.shape}, not to {shape}: correct"
                " n_outputs."
            )
        return torch.from_numpy(said.reshape(shape)).to(x)

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> tuple[Tensor, None]:
        (x,), box, (n, p) = ctx.saved_tensors, ctx.box, ctx.saved_tensors[0].shape
        steps = box.width * torch.eye(p, dtype=x.dtype, device=x.device)
        # through forward() again, so that slopes have slopes by differences too
        ahead, behind = (
            box((x[:, None] + s * steps).reshape(n * p, p)).reshape(n, p, -1) for s in (1, -1)
        )
        return ((ahead - behind) * along[0][:, None]).sum(-1) / (2 * box.width), None


def black_box(
    function: Callable[[np.ndarray], np.ndarray], n_outputs: int = 1, width: float = 1e-3
) -> BlackBox:
    r"""A function of numpy rows, $(n, p) \to (n, q)$, as a network: trees, simulators, tables.

    Values are exact. Slopes are sampled, by central differences over $\pm$ `width` in each input,
    so each costs $2p$ rows, also just outside the box; choose `width` as large as the steps that
    should be felt, such as 0.5 for binary inputs of a tree. There is no bound of it and no exact
    model: `BigM` and `certify` refuse it by name; `DualDecomposition` and `Enumeration` work. The
    function must say the same each time; it is shared, not copied.

    >>> net = black_box(lambda rows: np.floor(rows).sum(axis=1), width=0.5)
    >>> x = torch.tensor([[1.2, 0.9]], requires_grad=True)
    >>> net(x), torch.autograd.grad(net(x).sum(), x)[0]
    (tensor([[1.]], grad_fn=<DifferencesBackward>), tensor([[1., 1.]]))
    """
    if not callable(function):
        raise TypeError(
            f"a black box is a function of rows, not {type(function).__name__}: pass model.predict."
        )
    if not isinstance(n_outputs, int) or n_outputs < 1 or not 0 < width < np.inf:
        raise ValueError(
            f"n_outputs={n_outputs!r} must be a whole number and width={width!r} a number, both"
            " positive."
        )
    return BlackBox(function, n_outputs, float(width)).eval()
