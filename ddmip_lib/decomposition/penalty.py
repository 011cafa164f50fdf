r"""Rules for the penalty $\rho$: each says where to start and what follows an iteration.

The penalty is a pair, for the coupled inputs and for the coupled outputs; splits without coupled
outputs use the first alone. The multiplier is kept as it is when $\rho$ changes (it is not the
scaled one).
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np

Rho = float | tuple[float, float] | None
"""A penalty as users write it: one number, a pair (inputs, outputs), or None for the problem's own
scale.
"""


class Penalty(NamedTuple):
    """The penalties of the coupled inputs and of the coupled outputs."""

    inputs: float
    outputs: float

    @classmethod
    def both(cls, rho: float) -> "Penalty":
        return cls(rho, rho)

    def times(self, inputs: float, outputs: float | None = None) -> "Penalty":
        """The pair multiplied by one factor, or by one for each part."""
        return Penalty(
            self.inputs * inputs, self.outputs * (inputs if outputs is None else outputs)
        )


@dataclass(frozen=True)
class ResidualInfo:
    """What an iteration tells the rule; residuals are pairs, of inputs and of outputs."""

    rho: Penalty
    primal: tuple[float, float]
    dual: tuple[float, float]
    settled: bool  #: The run has converged, or repeats itself.
    descends: Callable[[float], bool] = lambda sigma: True
    """Whether the descent test with this sigma holds (see `DescentTest`)."""


class PenaltyRule(Protocol):
    """`first` gives the first penalty; `after` the next one, or None to end the run."""

    def first(self, scale: Penalty) -> Penalty: ...

    def after(self, progress: ResidualInfo) -> Penalty | None: ...


class Fixed:
    """The same penalty throughout; the run ends when it has settled (converged, or cycling).

    `rho` is a number, a pair (inputs, outputs), or None for the problem's own scale.

    >>> Fixed(10.0).first(scale=Penalty.both(0.2))
    Penalty(inputs=10.0, outputs=10.0)
    >>> Fixed((0.1, 5)).first(scale=Penalty.both(0.2))
    Penalty(inputs=0.1, outputs=5.0)
    """

    def __init__(self, rho: Rho = None) -> None:
        self.rho = None if rho is None else pair(rho)

    def first(self, scale: Penalty) -> Penalty:
        return self.rho or scale

    def after(self, progress: ResidualInfo) -> Penalty | None:
        return None if progress.settled else self.update(progress)

    def update(self, progress: ResidualInfo) -> Penalty:
        """The penalty of the next iteration; the rules below differ in this alone."""
        return progress.rho

    def __repr__(self) -> str:
        if self.rho is None:
            return f"{type(self).__name__}()"
        return f"{type(self).__name__}({self.rho.inputs:g}, {self.rho.outputs:g})"


class IncreaseOnStagnation(Fixed):
    r"""The paper's rule: $\rho \leftarrow \beta\rho$ where the residual $\lVert u - x\rVert_\infty$
    has not fallen below `reduction` times its best for `patience` iterations, inputs and outputs
    together. It ends in agreement, by freezing, where nothing constrains the NN block.

    >>> rule = IncreaseOnStagnation(1.0, factor=2.0, patience=2)
    >>> rho = rule.first(scale=Penalty.both(1.0))
    >>> for _ in range(5):
    ...     rho = rule.after(ResidualInfo(rho, primal=(0.3, 0.0), dual=(0.1, 0.0), settled=False))
    >>> rho.inputs
    4.0
    """

    def __init__(
        self, rho: Rho = None, factor: float = 2.0, patience: int = 5, reduction: float = 0.9
    ) -> None:
        super().__init__(rho)
        if not (factor > 1 and patience >= 1 and 0 < reduction <= 1):
            raise ValueError(
                "IncreaseOnStagnation needs factor > 1, patience >= 1 and 0 < reduction <= 1."
            )
        self.factor = factor
        self.patience = patience
        self.reduction = reduction
        self._best = np.inf
        self._stalled = 0

    def update(self, progress: ResidualInfo) -> Penalty:
        residual = max(progress.primal)
        if residual <= self.reduction * self._best:
            self._best = residual
            self._stalled = 0
            return progress.rho
        self._stalled += 1
        if self._stalled < self.patience:
            return progress.rho
        self._stalled = 0
        return progress.rho.times(self.factor)


class ResidualBalancing(Fixed):
    r"""Keep primal and dual residual within a factor `ratio` of each other: $\rho \leftarrow
    \beta\rho$ where the primal one is too large, $\rho \leftarrow \rho/\beta$ where the dual one
    is; inputs and outputs each on their own.

    A penalty that may fall again can cross the convergence threshold for ever: this rule has no
    theorem.

    >>> rule = ResidualBalancing(1.0)
    >>> rule.after(
    ...     ResidualInfo(Penalty(1.0, 1.0), primal=(1.0, 0.0), dual=(0.01, 1.0), settled=False)
    ... )
    Penalty(inputs=2.0, outputs=0.5)
    """

    def __init__(self, rho: Rho = None, factor: float = 2.0, ratio: float = 10.0) -> None:
        super().__init__(rho)
        if not (factor > 1 and ratio > 1):
            raise ValueError("ResidualBalancing needs factor > 1 and ratio > 1.")
        self.factor = factor
        self.ratio = ratio

    def update(self, progress: ResidualInfo) -> Penalty:
        parts = zip(progress.primal, progress.dual, strict=True)
        more = self.factor
        less = 1 / self.factor
        ratio = self.ratio
        factors = (more if p > ratio * d else less if d > ratio * p else 1.0 for p, d in parts)
        return progress.rho.times(*factors)


class DescentTest(Fixed):
    r"""The rule for which the book's theorem holds without knowing $\ell$: $\rho \leftarrow
    \tau\rho$ where one of

    $$L_\rho(x^+, u^+, \lambda^+) \le L_\rho(x, u, \lambda) - \sigma\rho\lVert u^+ - u\rVert^2,
    \qquad
    L_\rho(x^+, u^+, \lambda^+) \ge F(x^+)$$

    fails; never less. For smooth $g$, exact steps and no binding bound in the NN block it increases
    finitely often. The theorem, and this rule, are for the paper's split.

    >>> rule = DescentTest(1.0)
    >>> rule.after(
    ...     ResidualInfo(
    ...         Penalty.both(1.0), (1.0, 0.0), (1.0, 0.0), False, descends=lambda sigma: sigma > 1
    ...     )
    ... )
    Penalty(inputs=2.0, outputs=2.0)
    """

    def __init__(self, rho: Rho = None, factor: float = 2.0, sigma: float = 0.05) -> None:
        super().__init__(rho)
        if not (factor > 1 and 0 < sigma < 0.5):
            raise ValueError("DescentTest needs factor > 1 and 0 < sigma < 1/2.")
        self.factor = factor
        self.sigma = sigma

    def update(self, progress: ResidualInfo) -> Penalty:
        return progress.rho if progress.descends(self.sigma) else progress.rho.times(self.factor)


class Sweeps:
    r"""Penalty continuation in sweeps: within each, $\rho$ grows geometrically from `low` to
    `high`.

    A small penalty lets the blocks disagree and explore, a large one makes them agree (and freezes
    them: a point $x$ with $\rho \ge 2\lVert\nabla F(x)\rVert_\infty$ no longer moves on the
    integers). One sweep passes through both regimes, so the right penalty need not be known; later
    sweeps are longer and start from what earlier ones found. `low` and `high` are multiples of the
    problem's own scale.

    >>> rule = Sweeps(low=1.0, high=4.0, lengths=(3,))
    >>> rho = rule.first(scale=Penalty(0.5, 5.0))
    >>> rho.inputs
    0.5
    >>> progress = ResidualInfo(rho, primal=(1.0, 0.0), dual=(1.0, 0.0), settled=False)
    >>> rule.after(progress).inputs, rule.after(progress).outputs, rule.after(progress)
    (1.0, 20.0, None)
    """

    def __init__(
        self, low: float = 1.0, high: float = 30.0, lengths: tuple[int, ...] = (25, 50, 100)
    ) -> None:
        self.low = positive(low, "low")
        self.high = positive(high, "high")
        if not lengths or min(lengths) < 2 or high < low:
            raise ValueError(
                "Sweeps needs lengths of at least two iterations each, and high >= low."
            )
        self.lengths = tuple(lengths)

    def first(self, scale: Penalty) -> Penalty:
        self._scale = scale
        self._schedule = [
            self.low * np.geomspace(1.0, self.high / self.low, n) for n in self.lengths
        ]
        self._sweep = 0
        self._at = 0
        return scale.times(float(self._schedule[0][0]))

    def after(self, progress: ResidualInfo) -> Penalty | None:
        self._at += 1
        done = len(self._schedule)
        if self._sweep < done and (
            progress.settled or self._at == len(self._schedule[self._sweep])
        ):
            self._sweep = self._sweep + 1
            self._at = 0
        if self._sweep == done:
            return None
        return self._scale.times(float(self._schedule[self._sweep][self._at]))

    def __repr__(self) -> str:
        return f"Sweeps(low={self.low:g}, high={self.high:g}, lengths={self.lengths})"


def as_rule(penalty: Any) -> PenaltyRule:
    """A rule as it is; a number or a pair as `Fixed`."""
    if isinstance(penalty, (Real, tuple)):
        return Fixed(penalty)  # type: ignore[arg-type]
    if isinstance(penalty, type) or not hasattr(penalty, "after"):
        raise TypeError(
            "penalty must be a number, a tuple (inputs, outputs) or a rule such as Sweeps(), not"
            f" {penalty!r}."
        )
    rule: PenaltyRule = penalty
    return rule


def pair(rho: Any) -> Penalty:
    """A number or a pair of numbers as a `Penalty`, or a ValueError."""
    if isinstance(rho, tuple):
        if len(rho) != 2:
            raise ValueError(f"rho={rho!r} must be a number or a pair (inputs, outputs).")
        return Penalty(
            positive(rho[0], "rho of the inputs"), positive(rho[1], "rho of the outputs")
        )
    return Penalty.both(positive(rho, "rho"))


def positive(value: float, name: str) -> float:
    """`value` as a float, or a ValueError that names it."""
    if (
        not isinstance(value, Real)
        or isinstance(value, bool)
        or not (np.isfinite(float(value)) and value > 0)
    ):
        raise ValueError(f"{name} must be a positive, finite number, not {value!r}.")
    return float(value)
