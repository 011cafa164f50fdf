"""Gradients of networks by vector-Jacobian products; weight gradients are never computed."""

import numpy as np
import torch
from torch.autograd.graph import _engine_run_backward

from ..errors import ProblemError


def flat(raws: list[torch.Tensor]) -> np.ndarray:
    """The networks' values as one array, without their graph."""
    parts = [raw.detach().numpy().ravel() for raw in raws]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def vjp(
    outputs: list[torch.Tensor], u: torch.Tensor, weights: np.ndarray | None = None, keep: bool = False
) -> torch.Tensor:
    """Gradient in u of weights'outputs, or of one scalar; where there is none, an error that names the remedy."""
    flat_weights, at, along = np.ones(1) if weights is None else weights, 0, []
    for y in outputs:
        along.append(torch.from_numpy(flat_weights[at : at + y.numel()]).view_as(y))
        at += y.numel()
    try:
        # what torch.autograd.grad calls; its first call would import SymPy, two seconds of a limit or under load twenty
        return _engine_run_backward(tuple(outputs), tuple(along), keep, False, (u,), False, accumulate_grad=False)[0]
    except RuntimeError as error:
        raise ProblemError(
            f"no gradient flows from the network's outputs to its inputs ({error}). The NN block needs one: "
            "remove detach() or no_grad() from the network's forward()."
        ) from error
