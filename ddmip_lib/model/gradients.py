"""Gradients of networks by vector-Jacobian products, which never compute those of weights; and
steps along them.
"""

import numpy as np
import torch
from torch.autograd.graph import _engine_run_backward

from ..errors import ProblemError


def flat(raws: list[torch.Tensor]) -> np.ndarray:
    """The networks' values as one array, without their graph."""
    parts = [raw.detach().numpy().ravel() for raw in raws]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def vjp(
    outputs: list[torch.Tensor],
    u: torch.Tensor,
    weights: np.ndarray | None = None,
    keep: bool = False,
) -> torch.Tensor:
    """Gradient in u of weights'outputs, or of one scalar; where there is none, an error that names
    the remedy.
    """
    flat_weights = np.ones(1) if weights is None else weights
    at = 0
    along = []
    for y in outputs:
        along.append(torch.from_numpy(flat_weights[at : at + y.numel()]).view_as(y))
        at += y.numel()
    try:
        # what torch.autograd.grad calls; its first call would import SymPy, two seconds of a limit
        # or under load twenty
        return _engine_run_backward(
            tuple(outputs), tuple(along), keep, False, (u,), False, accumulate_grad=False
        )[0]
    except RuntimeError as error:
        raise ProblemError(
            f"no gradient flows from the network's outputs to its inputs ({error}). The NN block"
            " needs one: remove detach() or no_grad() from the network's forward()."
        ) from error


def take_step(
    v: torch.Tensor,
    slope: torch.Tensor,
    rate: float,
    moments: tuple[torch.Tensor, torch.Tensor] | None,
    t: int,
) -> None:
    """Step t of gradient descent or, with `moments`, of Adam, in place, to the last digit that of
    `torch.optim`, whose first use spends seconds on imports that no step needs.
    """
    if moments is None:
        v.add_(slope, alpha=-rate)
        return
    mean = moments[0].lerp_(slope, 1 - 0.9)
    square = moments[1].mul_(0.999).addcmul_(slope, slope, value=1 - 0.999)
    v.addcdiv_(mean, (square.sqrt() / (1 - 0.999**t) ** 0.5).add_(1e-8), value=-rate / (1 - 0.9**t))
