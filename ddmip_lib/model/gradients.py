"""Gradients of networks by vector-Jacobian products, without those of the weights; and gradient
steps.
"""

import numpy as np
import torch
from numpy import ndarray
from torch.autograd.graph import _engine_run_backward

from ..errors import ProblemError

ADAM_MEAN_DECAY = 0.9
"""Decay of Adam's mean of gradients per step, the default of `torch.optim.Adam`."""
ADAM_SQUARE_DECAY = 0.999
"""Decay of Adam's mean of squared gradients per step, the default of `torch.optim.Adam`."""
ADAM_EPSILON = 1e-8
"""What Adam adds to the root of the mean square, the default of `torch.optim.Adam`."""


def flat(raws: list[torch.Tensor]) -> ndarray:
    """Concatenate the outputs of networks, detached from their graphs.

    Parameters
    ----------
    raws : list of torch.Tensor
        Outputs of networks.

    Returns
    -------
    numpy.ndarray
        One vector.
    """
    return torch.cat([raw.detach().ravel() for raw in raws]).numpy()


def vjp(
    outputs: list[torch.Tensor],
    u: torch.Tensor,
    weights: ndarray | None = None,
    keep_graph: bool = False,
) -> torch.Tensor:
    r"""Compute the gradient of $w^\top f(u)$ with respect to $u$.

    Parameters
    ----------
    outputs : list of torch.Tensor
        The outputs $f(u)$.
    u : torch.Tensor
        The inputs.
    weights : numpy.ndarray, optional
        The vector $w$, one entry for each output; without it the outputs are one scalar.
    keep_graph : bool, default: False
        Whether the graph is kept for another call.

    Returns
    -------
    torch.Tensor
        The gradient, of the shape of `u`.

    Raises
    ------
    ProblemError
        If the outputs have no gradient with respect to `u`.

    Examples
    --------
    >>> u = torch.tensor([1.0, 3.0], requires_grad=True)
    >>> vjp([(u**2).sum()], u)
    tensor([2., 6.])
    """
    parts = torch.from_numpy(np.ones(1) if weights is None else weights).split(
        [output.numel() for output in outputs]
    )
    directions = map(torch.Tensor.view_as, parts, outputs)
    try:
        # what torch.autograd.grad calls, whose first call imports SymPy, which takes seconds
        return _engine_run_backward(
            tuple(outputs), tuple(directions), keep_graph, False, (u,), False, accumulate_grad=False
        )[0]
    except RuntimeError as error:
        raise ProblemError(
            f"no gradient flows from the network's outputs to its inputs ({error}). The NN block"
            " needs one: remove detach() or no_grad() from the network's forward()."
        ) from error


def take_step(
    v: torch.Tensor,
    gradient: torch.Tensor,
    rate: float,
    moments: tuple[torch.Tensor, torch.Tensor] | None,
    t: int,
) -> None:
    """Take a step of gradient descent, or of Adam, in place.

    The result is bitwise that of `torch.optim`, whose first use spends seconds on imports.

    Parameters
    ----------
    v : torch.Tensor
        The point, which is changed.
    gradient : torch.Tensor
        The gradient at `v`.
    rate : float
        The step length.
    moments : tuple of two torch.Tensor, or None
        Adam's means of the gradients and of their squares, which are updated; None for gradient
        descent.
    t : int
        Number of the step, from 1.

    Examples
    --------
    >>> v = torch.ones(1)
    >>> take_step(v, gradient=torch.full((1,), 2.0), rate=0.25, moments=None, t=1)
    >>> v
    tensor([0.5000])
    """
    if moments is None:
        v.add_(gradient, alpha=-rate)
        return
    mean = moments[0].lerp_(gradient, 1 - ADAM_MEAN_DECAY)
    square = moments[1].mul_(ADAM_SQUARE_DECAY)
    square.addcmul_(gradient, gradient, value=1 - ADAM_SQUARE_DECAY)
    root = (square.sqrt() / (1 - ADAM_SQUARE_DECAY**t) ** 0.5).add_(ADAM_EPSILON)
    v.addcdiv_(mean, root, value=-rate / (1 - ADAM_MEAN_DECAY**t))
