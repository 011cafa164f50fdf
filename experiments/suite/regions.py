"""A ReLU network in a box by its linear regions: what walks from one to the next are made of."""

from dataclasses import dataclass

import numpy as np
from torch import nn

from ddmip_lib.bounds import flat_layers
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.model import Instance

Pattern = tuple[bytes, ...]


@dataclass(frozen=True)
class Regions:
    r"""The function $g(x) = c^\top x + d^\top f(x)$ to be lowered over a box, f a flat ReLU
    network.
    """

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    cost: np.ndarray
    worth: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    index: np.ndarray
    """Where the inputs stand in a full assignment."""

    @classmethod
    def read(cls, instance: Instance, method: str) -> "Regions":
        """From a problem that is one ReLU network in a box; every other is refused."""
        s = instance.milp
        where = instance.maps[0]
        index = where.index[0]
        alone = (
            len(instance.maps) == 1
            and len(where.index) == 1
            and (index >= 0).all()
            and len(set(index)) == len(index)
        )
        whole = len(index) + len(instance.outputs) == s.n_variables and not s.integer.any()
        bounded = (
            np.isfinite(s.lower[instance.outputs]).any()
            or np.isfinite(s.upper[instance.outputs]).any()
        )
        if (
            not (alone and whole)
            or bounded
            or s.n_rows
            or s.others
            or instance.predictors[0].gives_class
        ):
            raise ProblemError(
                f"{method} needs one network in a box, with continuous inputs and without classes."
            )
        layers = flat_layers(instance.predictors[0].net, len(index))
        if any(not isinstance(layer, (nn.Linear, nn.ReLU)) for layer in layers):
            raise UnsupportedNetworkError(f"{method} needs a flat network of ReLUs.")
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        weights = [layer.weight.detach().numpy() for layer in linear]
        biases = [layer.bias.detach().numpy() for layer in linear]
        cost = s.sign * s.cost[index]
        worth = s.sign * s.cost[where.output[0]]
        return cls(weights, biases, cost, worth, s.lower[index], s.upper[index], index)

    @property
    def width(self) -> np.ndarray:
        return self.upper - self.lower

    def hidden(self, x: np.ndarray) -> list[np.ndarray]:
        """What enters each hidden unit, layer by layer, and the outputs."""
        found: list[np.ndarray] = []
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found.append(weight @ (x if number == 0 else np.maximum(found[-1], 0.0)) + bias)
        return found

    def value(self, x: np.ndarray) -> float:
        """The function at a point."""
        return float(self.cost @ x + self.worth @ self.hidden(x)[-1])

    def pattern(self, x: np.ndarray) -> list[np.ndarray]:
        """Which hidden units are on."""
        return [h >= 0 for h in self.hidden(x)[:-1]]

    def affine(self, pattern: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the region with this pattern: rows A and offsets b with A x + b what enters the hidden
        units, and the gradient of the function.
        """
        rows = [self.weights[0]]
        offsets = [self.biases[0]]
        for weight, bias, on in zip(self.weights[1:], self.biases[1:], pattern, strict=True):
            rows.append((weight * on) @ rows[-1])
            offsets.append((weight * on) @ offsets[-1] + bias)
        return np.vstack(rows[:-1]), np.concatenate(offsets[:-1]), self.cost + self.worth @ rows[-1]

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Of the region that x lies in, by a backward pass."""
        slope = self.worth
        for weight, on in zip(self.weights[:0:-1], self.pattern(x)[::-1], strict=True):
            slope = (slope @ weight) * on
        return self.cost + slope @ self.weights[0]

    def to_border(self, x: np.ndarray, direction: np.ndarray) -> float:
        """How far x may go along a direction until a hidden unit changes its side; infinite where
        none does.
        """
        pattern = self.pattern(x)
        rows, offsets, _ = self.affine(pattern)
        height = rows @ x + offsets
        slope = rows @ direction
        nearing = height * slope < 0
        return float((-height[nearing] / slope[nearing]).min(initial=np.inf))

    def ranges(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What can enter each hidden unit, by interval arithmetic."""
        low = self.lower
        high = self.upper
        found = []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            plus = np.maximum(weight, 0)
            minus = np.minimum(weight, 0)
            ends = plus @ low + minus @ high + bias, plus @ high + minus @ low + bias
            found.append(ends)
            low = np.maximum(ends[0], 0)
            high = np.maximum(ends[1], 0)
        return found


def key(pattern: list[np.ndarray]) -> Pattern:
    """A name for a region."""
    return tuple(np.packbits(on).tobytes() for on in pattern)
