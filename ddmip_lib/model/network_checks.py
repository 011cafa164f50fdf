"""How a network must behave to be a predictor: the same each time, each row for itself, with values
that are finite.
"""

import copy
from contextlib import suppress
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from ..bounds.reader import is_plain, traced_run
from ..device import PlacedNetwork
from ..errors import ProblemError
from .exported import REMEDY, is_exported

ROWS = 5
SQUASHED = {"sigmoid", "softmax", "log_softmax", "log_sigmoid_forward"}


def validate_network(
    net: nn.Module, lower: np.ndarray, upper: np.ndarray, gives_class: bool
) -> None:
    """An error where a frozen network is random, lets rows influence each other, or has no logits
    for a class.

    It is asked at a few points of the box (n, p) of its inputs, twice and in other batches.

    >>> validate_network(
    ...     nn.Linear(2, 1).double(), np.zeros((1, 2)), np.ones((1, 2)), gives_class=False
    ... )
    """
    if not is_plain(net):
        _import_what_tracing_needs()
    rng = np.random.default_rng(0)
    rows = rng.integers(len(lower), size=ROWS)
    points = torch.tensor(lower[rows] + (upper - lower)[rows] * rng.random((ROWS, lower.shape[1])))
    with torch.no_grad():
        try:
            said = net(points.clone())
            again = net(points.clone())
            moved = net(points.flip(0)).flip(0)
            apart = torch.cat([net(points[:1].clone()), net(points[1:].clone())])
        except (RuntimeError, ValueError, IndexError, AssertionError) as error:
            why = f"the network does not take every number of rows ({last_line(error)}): "
            if is_exported(net):
                raise ProblemError(why + REMEDY) from error
            traced = isinstance(net, torch.jit.ScriptModule)
            raise ProblemError(
                why + ("script it, since tracing keeps sizes." if traced else TOGETHER)
            ) from error
    if not _same(again, said):
        if is_exported(net):
            raise ProblemError(f"the program was exported in training mode, or is random. {REMEDY}")
        raise ProblemError(
            "the network says something else each time: where forward() calls dropout, write "
            "F.dropout(..., training=self.training); remove all else that is random."
        )
    if not (_same(moved, said) and _same(apart, said)):
        raise ProblemError(
            f"what the network says of a row depends on the rows beside it: {TOGETHER}"
        )
    if gives_class and ((said >= 0) & (said <= 1)).all() | (said <= 0).all():
        last = (
            traced_run(net, lower.shape[1]).last or type(list(net.modules())[-1]).__name__.lower()
        )
        if last in SQUASHED:
            raise ProblemError(
                f"the network ends in {last}, so its output has the same sign everywhere: a class"
                " is 1[logit > 0]. Pass the network without its last layer."
            )


class OnCopies(nn.Module):
    """A network that writes on its input, which methods use further: it gets copies."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.train(net.training)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x.clone())
        return out


def on_copies(net: nn.Module, lower: np.ndarray, upper: np.ndarray) -> nn.Module:
    """The network, or `OnCopies` of one that writes on points of the box (n, p) of its inputs.

    >>> [
    ...     on_copies(nn.ReLU(inplace=place), -np.ones((1, 2)), np.ones((1, 2)))
    ...     for place in (False, True)
    ... ]
    [ReLU(), OnCopies(
      (net): ReLU(inplace=True)
    )]
    """
    points = torch.tensor(np.concatenate([lower, upper]))
    given = points.clone()
    with (
        torch.no_grad(),
        suppress(RuntimeError, ValueError, IndexError, AssertionError),
    ):  # whatever is wrong is named by the next
        net(given)
    return OnCopies(net) if given._version > 0 or not torch.equal(given, points) else net


@cache
def _import_what_tracing_needs() -> None:
    """Torch imports for a second when a network is traced first: now, and not inside a run that has
    a time limit.
    """
    traced_run(nn.LeakyReLU(), 1)


TOGETHER = (
    "a predictor works row by row. Give BatchNorm its running statistics, and centre with stored"
    " means."
)


def last_line(error: Exception) -> str:
    """What a message says in the end: TorchScript puts a page before it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].removeprefix(
        "RuntimeError: "
    )


def _same(one: Tensor, two: Tensor) -> bool:
    """Up to what sums in another order may change."""
    size = two[two.isfinite()].abs().max().item() if two.isfinite().any() else 0.0
    return one.shape == two.shape and torch.allclose(
        one, two, rtol=0.0, atol=1e-9 + 1e-7 * size, equal_nan=True
    )


def not_finite(net: nn.Module, x: np.ndarray) -> str:
    """The first layer that makes a row NaN or infinite, and the row; empty where all is finite.

    >>> net = nn.Sequential(nn.Linear(1, 1), nn.ReLU()).double()
    >>> _ = net[0].weight.data.fill_(1e308)
    >>> not_finite(net, np.array([[0.0], [2.0]]))
    'layer 0 (Linear) is NaN or infinite at the inputs [2.0], row 1'
    """
    found: list[str] = []
    net = copy.deepcopy(net.here if isinstance(net, PlacedNetwork) else net)

    def look(path: str, module: nn.Module, out: Tensor) -> None:
        if not found and isinstance(out, Tensor) and not out.isfinite().all():
            found.append(
                f"layer {path} ({type(module).__name__})".replace("layer  (", "the network (")
            )

    with torch.no_grad():
        for number, point in enumerate(torch.tensor(np.asarray(x, dtype=float))):
            if not net(point[None].clone()).isfinite().all():
                for path, module in net.named_modules():
                    module.register_forward_hook(
                        lambda module, _, out, path=path: look(path, module, out)
                    )
                net(point[None].clone())
                return f"{found[0]} is NaN or infinite at the inputs {point.tolist()}, row {number}"
    return ""
