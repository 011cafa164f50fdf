"""Gradient steps on the slopes of activations and on the multipliers of splits."""

import torch
from torch import Tensor


class Adam:
    """Ascent steps of Adam in place of a point, whose entries stay between 0 and upper bounds.

    PyTorch's own Adam minimises without bounds, and its first use imports packages for seconds.

    Parameters
    ----------
    point : Tensor
        The point to start from.
    upper : Tensor
        Upper bounds of its entries.
    rate : float
        Length of the first step.
    decay : float
        Factor of the length from one step to the next.

    Attributes
    ----------
    mean, square : Tensor
        Means of the gradients and of their squares.
    steps : int
        Number of steps so far.

    Examples
    --------
    >>> adam = Adam(torch.zeros(2), torch.tensor([0.1, 1.0]), rate=0.5)
    >>> adam.step(torch.tensor([2.0, 3.0]))
    >>> adam.point
    tensor([0.1000, 0.5000])
    """

    def __init__(self, point: Tensor, upper: Tensor, rate: float, decay: float = 1.0) -> None:
        self.point = point
        self.upper = upper
        self.rate = rate
        self.decay = decay
        self.mean = torch.zeros_like(point)
        self.square = torch.zeros_like(point)
        self.steps = 0

    def select(self, rows: Tensor) -> None:
        """Continue with some rows of the point."""
        self.point = self.point[rows]
        self.mean = self.mean[rows]
        self.square = self.square[rows]

    def step(self, gradient: Tensor) -> None:
        """Take a step along a gradient at the point."""
        self.steps += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.lerp_(gradient.square(), 0.001)
        size = (self.square / (1 - 0.999**self.steps)).sqrt_().add_(1e-12)
        rate = self.rate * self.decay ** (self.steps - 1) / (1 - 0.9**self.steps)
        point = torch.addcdiv(self.point.detach(), self.mean, size, value=rate)
        self.point = point.clamp_(0.0).minimum(self.upper)
