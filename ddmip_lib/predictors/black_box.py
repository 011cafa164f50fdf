"""Any Python function of rows as a predictor: exact where it is asked, with slopes from differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ProblemError, UnsupportedNetworkError

Rows = Callable[[np.ndarray], np.ndarray]
"""Maps (n, p) to (n, q), or to (n,) where q = 1, each row for itself."""


class BlackBox(nn.Module):
    """See `black_box`."""

    def __init__(self, function: Rows, n_outputs: int, width: float) -> None:
        super().__init__()
        self.function, self.n_outputs, self.width = function, n_outputs, width

    def forward(self, x: Tensor) -> Tensor:
        if type(x) not in (Tensor, nn.Parameter):
            raise UnsupportedNetworkError("a Python function, of which nothing but values is known")
        return Differences.apply(x, self)

    def values(self, x: Tensor) -> Tensor:
        """What the function says of rows, in float64."""
        rows = x.detach().cpu().double().numpy().copy()
        said = np.asarray(self.function(rows), dtype=float)
        if said.size != len(rows) * self.n_outputs or said.shape[:1] != (len(rows),):
            raise ProblemError(
                f"the function maps {rows.shape} to {said.shape}, not to {(len(rows), self.n_outputs)}: return one row "
                "for each row, or say another n_outputs."
            )
        return torch.from_numpy(said.reshape(len(rows), self.n_outputs).copy()).to(x)

    def __deepcopy__(self, memo: Any) -> "BlackBox":
        return BlackBox(self.function, self.n_outputs, self.width).train(self.training)  # functions are not copied

    def extra_repr(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"{name}, n_outputs={self.n_outputs}, width={self.width:g}"


class Differences(torch.autograd.Function):
    r"""Forward the function itself, backward $\sum_k v_k \frac{f_k(x + h e_j) - f_k(x - h e_j)}{2h}$ for every $j$."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, box: BlackBox) -> Tensor:
        ctx.save_for_backward(x)
        ctx.box = box
        return box.values(x)

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> tuple[Tensor, None]:
        (x,), box = ctx.saved_tensors, ctx.box
        n, p = x.shape
        steps = box.width * torch.eye(p, dtype=x.dtype, device=x.device)
        # through forward() again, so that slopes have slopes by differences too
        ahead, behind = (box((x[:, None] + s * steps).reshape(n * p, p)).reshape(n, p, -1) for s in (1, -1))
        return ((ahead - behind) * along[0][:, None]).sum(-1) / (2 * box.width), None


def black_box(function: Rows, n_outputs: int = 1, width: float = 1e-3) -> BlackBox:
    r"""A function of numpy rows, $(n, p) \to (n, q)$, as a network: trees, simulators, tables.

    Values are exact. Slopes are sampled, by central differences over $\pm$ `width` in each input, so each costs $2p$
    rows, also just outside the box; choose `width` as large as the steps that should be felt, such as 0.5 for binary
    inputs of a tree. There is no bound of it and no exact model: `BigM` and `certify` refuse it by name;
    `DualDecomposition` and `Enumeration` work. The function must say the same each time; it is shared, not copied.

    >>> net = black_box(lambda rows: np.floor(rows).sum(axis=1), width=0.5)
    >>> x = torch.tensor([[1.2, 0.9]], requires_grad=True)
    >>> net(x), torch.autograd.grad(net(x).sum(), x)[0]
    (tensor([[1.]], grad_fn=<DifferencesBackward>), tensor([[1., 1.]]))
    """
    if not callable(function):
        raise TypeError(f"a black box is a function of rows, not {type(function).__name__}: pass model.predict.")
    if isinstance(n_outputs, bool) or not isinstance(n_outputs, int) or n_outputs < 1:
        raise ValueError(f"n_outputs={n_outputs!r} must be a whole number of at least 1.")
    if not 0 < width < np.inf:
        raise ValueError(f"width={width!r} must be a positive number.")
    return BlackBox(function, n_outputs, float(width)).eval()
