r"""Rules for the penalty $\rho$: each says where to start and what follows an iteration.

The multiplier is kept as it is when $\rho$ changes (it is not the scaled one).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .split import PaperSplit


class PenaltyRule(Protocol):
    """`first` gives the first penalty; `after` the next one, or None to end the run."""

    def first(self, scale: float) -> float: ...

    def after(self, rho: float, primal: float, dual: float, settled: bool) -> float | None: ...


class Fixed:
    """The same penalty throughout; the run ends when it has settled (converged, or cycling).

    >>> Fixed(10.0).first(scale=0.2)
    10.0
    """

    def __init__(self, rho: float) -> None:
        self.rho = positive(rho, "rho")

    def first(self, scale: float) -> float:
        return self.rho

    def after(self, rho: float, primal: float, dual: float, settled: bool) -> float | None:
        return None if settled else rho

    def __repr__(self) -> str:
        return f"Fixed({self.rho:g})"


class Sweeps:
    r"""Penalty continuation in sweeps: within each, $\rho$ grows geometrically from `low` to `high`.

    A small penalty lets the blocks disagree and explore, a large one makes them agree (and freezes them: a point
    $x$ with $\rho \ge 2\lVert\nabla F(x)\rVert_\infty$ no longer moves on the integers). One sweep passes through
    both regimes, so the right penalty need not be known; later sweeps are longer and start from what earlier ones
    found. `low` and `high` are multiples of the problem's own scale.

    >>> rule = Sweeps(low=1.0, high=4.0, lengths=(3,))
    >>> rho = rule.first(scale=0.5); rho
    0.5
    >>> [rho := rule.after(rho, 1.0, 1.0, False) for _ in range(3)]
    [1.0, 2.0, None]
    """

    def __init__(
        self, low: float = 1.0, high: float = 30.0, lengths: tuple[int, ...] = (25, 50, 100)
    ) -> None:
        self.low, self.high = positive(low, "low"), positive(high, "high")
        if not lengths or min(lengths) < 2 or high < low:
            raise ValueError("Sweeps needs lengths of at least two iterations each, and high >= low.")
        self.lengths = tuple(lengths)

    def first(self, scale: float) -> float:
        self._schedule = [
            scale * self.low * np.geomspace(1.0, self.high / self.low, length) for length in self.lengths
        ]
        self._sweep, self._at = 0, 0
        return float(self._schedule[0][0])

    def after(self, rho: float, primal: float, dual: float, settled: bool) -> float | None:
        self._at += 1
        if settled or self._at == len(self._schedule[self._sweep]):
            self._sweep, self._at = self._sweep + 1, 0
            if self._sweep == len(self._schedule):
                return None
        return float(self._schedule[self._sweep][self._at])

    def __repr__(self) -> str:
        return f"Sweeps(low={self.low:g}, high={self.high:g}, lengths={self.lengths})"


def positive(value: float, name: str) -> float:
    """`value` as a float, or a ValueError that names it."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, not {value}.")
    return float(value)


def penalty_scale(split: PaperSplit, u: np.ndarray, seed: int, samples: int = 8) -> float:
    r"""A penalty that weighs as much as the network's slope: $4\,\mathrm{rms}(\nabla g) / $ half-width of the box.

    On integers a penalty above $2 \lVert\nabla F\rVert_\infty$ freezes the iterates, so there the scale is a quarter
    of the rms slope of $F$. Slopes are taken at the start; on integers, and where the start is flat, at random points
    of the box too.
    """
    low, high = split.box
    integer = split.compiled.snapshot.integer[split.coupled]
    slopes = split.gradient(u)[None]
    if integer.any() or np.abs(slopes).max() < 1e-6:
        rng = np.random.default_rng(seed)
        points = low + (high - low) * rng.random((samples, u.size))
        slopes = np.vstack([slopes, *(split.gradient(p)[None] for p in points)])
    if integer.any():
        scale = 0.25 * np.sqrt(np.mean((slopes + split.cost[split.coupled])[:, integer] ** 2))
    else:
        scale = 4.0 * np.sqrt(np.mean(slopes**2)) / float(np.mean(high - low) / 2)
    return float(scale) if scale > 1e-12 else 1.0
