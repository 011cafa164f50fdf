"""Checks that a network is deterministic, treats samples independently, and has finite values."""

import copy
from functools import cache, partial

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from ..bounds.activations import ACTIVATIONS
from ..bounds.reader import is_plain, traced_run
from ..device import PlacedNetwork
from ..errors import ProblemError
from .exported import REMEDY, is_exported
from .grid import random_samples
from .onnx_network import compare_with_runtime

CHECKED_SAMPLES = 5
"""Number of random inputs in the batch at which a network is checked."""
SQUASHED = {"softmax", "log_softmax", "log_sigmoid_forward"} | {
    kind for kind, unit in ACTIVATIONS.items() if unit.one_sign
}
"""Last operations whose values have one sign, so that they are no logits."""
ABSOLUTE_ROUNDING = 1e-9
"""Difference of two outputs that sums in another order may cause, in the outputs' unit."""
RELATIVE_ROUNDING = 1e-7
"""The same relative to the largest output."""
FAILURES = (RuntimeError, ValueError, IndexError, AssertionError)
"""Exceptions by which networks refuse a batch."""
INDEPENDENCE_REMEDY = (
    "a predictor evaluates each sample by itself. Give BatchNorm its running statistics, and centre"
    " with stored means."
)


def validated_network(
    net: nn.Module, lower: ndarray, upper: ndarray, gives_class: bool
) -> nn.Module:
    """Check a frozen network at random points, by several evaluations in different batches.

    Parameters
    ----------
    net : torch.nn.Module
        A network in float64.
    lower, upper : numpy.ndarray
        Bounds of its inputs, of shape (n, p).
    gives_class : bool
        Whether its outputs must be logits.

    Returns
    -------
    torch.nn.Module
        The network, or `OnCopies` of a network that changes its input in place.

    Raises
    ------
    ProblemError
        If the network is random, lets samples of a batch influence each other, or ends in a
        function whose values are no logits.

    Examples
    --------
    >>> box = -np.ones((1, 2)), np.ones((1, 2))
    >>> validated_network(nn.ReLU(inplace=True), *box, gives_class=False)
    OnCopies(
      (net): ReLU(inplace=True)
    )
    """
    if not (is_plain(net) or hasattr(net, "reason")):  # a black box is never traced
        _import_tracing()
    rng = np.random.default_rng(0)
    points = torch.tensor(random_samples(lower, upper, CHECKED_SAMPLES, rng))
    given = points.clone()
    try:
        with torch.no_grad():
            values = net(given)
            repeated = net(points.clone())
            reversed_back = net(points.flip(0)).flip(0)
            in_two_batches = torch.cat([net(points[:1].clone()), net(points[1:].clone())])
    except FAILURES as error:
        raise ProblemError(
            f"the network does not accept every batch size ({last_line(error)}):"
            f" {_batch_remedy(net)}"
        ) from error
    if not _same(repeated, values):
        raise ProblemError(_nondeterministic(net))
    if not (_same(reversed_back, values) and _same(in_two_batches, values)):
        raise ProblemError(
            "the prediction for a sample depends on the other samples of the batch:"
            f" {INDEPENDENCE_REMEDY}"
        )
    if given._version > 0 or not torch.equal(given, points):
        net = OnCopies(net)
    compare_with_runtime(net, lower, upper)
    if gives_class:
        _check_logits(net, values, lower.shape[1])
    return net


def _nondeterministic(net: nn.Module) -> str:
    """The message about a network whose evaluations at the same inputs differ."""
    if is_exported(net):
        return f"the program was exported in training mode, or is random. {REMEDY}"
    return (
        "the network is not deterministic, two evaluations at the same inputs differ: where"
        " forward() calls dropout, write F.dropout(..., training=self.training); remove all else"
        " that is random."
    )


def _batch_remedy(net: nn.Module) -> str:
    """What to change in a network that accepts only some batch sizes."""
    if is_exported(net):
        return REMEDY
    if isinstance(net, torch.jit.ScriptModule):
        return "script it, since tracing fixes sizes."
    return INDEPENDENCE_REMEDY


def _check_logits(net: nn.Module, values: Tensor, n_in: int) -> None:
    """Raise an error if the network ends in a function whose values have one sign."""
    fractions = ((values >= 0) & (values <= 1)).all()
    if not fractions and not (values <= 0).all():
        return
    last = traced_run(net, n_in).last or type(list(net.modules())[-1]).__name__.lower()
    if last in SQUASHED:
        raise ProblemError(
            f"the network ends in {last}, so its output has the same sign everywhere: a class"
            " is 1[logit > 0]. Pass the network without its last layer."
        )


class OnCopies(nn.Module):
    """A network that changes its input in place, evaluated at copies of the input.

    Parameters
    ----------
    net : torch.nn.Module
        The network.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.train(net.training)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the network at a copy of `x`."""
        out: Tensor = self.net(x.clone())
        return out


@cache
def _import_tracing() -> None:
    """Trace a layer, so that the imports of the first trace count towards no time limit."""
    traced_run(nn.LeakyReLU(), 1)


def last_line(error: Exception) -> str:
    """Return the last line of an error message; TorchScript prefixes a listing.

    Parameters
    ----------
    error : Exception
        The error.

    Returns
    -------
    str
        The line, or the class of the error if it has no message.
    """
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    return lines[-1].removeprefix("RuntimeError: ")


def _same(one: Tensor, two: Tensor) -> bool:
    """Whether two outputs are equal up to rounding."""
    size = two.nan_to_num(0.0, 0.0, 0.0).abs().max().item()
    tolerance = ABSOLUTE_ROUNDING + RELATIVE_ROUNDING * size
    return one.shape == two.shape and torch.allclose(
        one, two, rtol=0.0, atol=tolerance, equal_nan=True
    )


def not_finite(net: nn.Module, x: ndarray) -> str:
    """Describe the first layer whose output is NaN or infinite, and the sample.

    Parameters
    ----------
    net : torch.nn.Module
        A network in float64.
    x : numpy.ndarray
        Samples, of shape (n, p).

    Returns
    -------
    str
        The description; empty if all outputs are finite.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(1, 1), nn.ReLU()).double()
    >>> _ = net[0].weight.data.fill_(1e308)
    >>> not_finite(net, np.array([[0.0], [2.0]]))
    'layer 0 (Linear) is NaN or infinite at the inputs [2.0], sample 1'
    """
    net = copy.deepcopy(net.here if isinstance(net, PlacedNetwork) else net)
    with torch.no_grad():
        for number, point in enumerate(torch.tensor(x, dtype=torch.float64)):
            batch = point[None]
            if not net(batch.clone()).isfinite().all():
                layer = _first_not_finite(net, batch)
                return f"{layer} is NaN or infinite at the inputs {point.tolist()}, sample {number}"
    return ""


def _first_not_finite(net: nn.Module, batch: Tensor) -> str:
    """The first layer, in the order of evaluation, with an output that is NaN or infinite."""
    found: list[str] = []

    def inspect(path: str, module: nn.Module, _: object, out: Tensor) -> None:
        if isinstance(out, Tensor) and not out.isfinite().all():
            name = f"layer {path}" if path else "the network"
            found.append(f"{name} ({type(module).__name__})")

    for path, module in net.named_modules():
        module.register_forward_hook(partial(inspect, path))
    net(batch.clone())
    return found[0]
