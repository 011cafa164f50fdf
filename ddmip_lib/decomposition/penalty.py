r"""Rules for the penalty $\rho$: the first penalty, and the penalty after each iteration.

The penalty is a pair, for the coupled inputs and for the coupled outputs; splits without coupled
outputs use the first alone. The multiplier does not change with $\rho$ (it is not the scaled one).
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np

Rho = float | tuple[float, float] | None
"""A penalty as users write it: one number, a pair (inputs, outputs), or None for the automatic
initialisation.
"""


class Penalty(NamedTuple):
    """A pair of penalties.

    Attributes
    ----------
    inputs
        Penalty of the coupled inputs.
    outputs
        Penalty of the coupled outputs.
    """

    inputs: float
    outputs: float

    @classmethod
    def both(cls, rho: float) -> "Penalty":
        """Return the pair with the same penalty for inputs and outputs."""
        return cls(rho, rho)

    def times(self, inputs: float, outputs: float | None = None) -> "Penalty":
        """Return the pair multiplied by one factor, or by one for each part.

        Parameters
        ----------
        inputs
            Factor for the inputs.
        outputs
            Factor for the outputs; None for that of the inputs.
        """
        if outputs is None:
            outputs = inputs
        return Penalty(self.inputs * inputs, self.outputs * outputs)


@dataclass(frozen=True)
class ResidualInfo:
    """Residuals of an iteration, from which a rule computes the next penalty.

    Attributes
    ----------
    rho
        The current penalty.
    primal, dual
        Residuals as pairs, of inputs and of outputs.
    settled
        Whether the run has converged, or repeats a state.
    descends
        Function that returns whether the descent test with this sigma holds (see `DescentTest`).
    """

    rho: Penalty
    primal: tuple[float, float]
    dual: tuple[float, float]
    settled: bool
    descends: Callable[[float], bool] = lambda sigma: True


class PenaltyRule(Protocol):
    """What Algorithm 1 requires of a penalty rule."""

    def first(self, scale: Penalty) -> Penalty:
        """Return the first penalty.

        Parameters
        ----------
        scale
            Penalty of the automatic initialisation.
        """
        ...

    def after(self, progress: ResidualInfo) -> Penalty | None:
        """Return the penalty of the next iteration, or None to end the run.

        Parameters
        ----------
        progress
            Residuals of the iteration before.
        """
        ...


class Fixed:
    """The same penalty throughout; the run ends when it has converged or repeats a state.

    Parameters
    ----------
    rho
        A number, a pair (inputs, outputs), or None for the automatic initialisation.

    Raises
    ------
    ValueError
        If `rho` is not positive and finite.

    Examples
    --------
    >>> Fixed(10.0).first(scale=Penalty.both(0.2))
    Penalty(inputs=10.0, outputs=10.0)
    >>> Fixed((0.1, 5)).first(scale=Penalty.both(0.2))
    Penalty(inputs=0.1, outputs=5.0)
    """

    def __init__(self, rho: Rho = None) -> None:
        self.rho = None if rho is None else as_penalty(rho)

    def first(self, scale: Penalty) -> Penalty:
        """Return the given penalty, or `scale` if none was given."""
        return self.rho or scale

    def after(self, progress: ResidualInfo) -> Penalty | None:
        """Return the penalty of the next iteration, or None to end the run."""
        return None if progress.settled else self.update(progress)

    def update(self, progress: ResidualInfo) -> Penalty:
        """Return the penalty of the next iteration; derived rules differ in this method alone."""
        return progress.rho

    def __repr__(self) -> str:
        if self.rho is None:
            return f"{type(self).__name__}()"
        return f"{type(self).__name__}({self.rho.inputs:g}, {self.rho.outputs:g})"


class IncreaseOnStagnation(Fixed):
    r"""The paper's rule: $\rho \leftarrow \tau\rho$ where the residual stagnates.

    The residual $\lVert u - x\rVert_\infty$, of inputs and outputs together, stagnates if it has
    not fallen below `reduction` times its minimum for `patience` iterations. With no constraint in
    the NN block the run ends with u = x, because the iterates stall.

    Parameters
    ----------
    rho
        The first penalty, as in `Fixed`.
    factor
        The factor $\tau > 1$.
    patience
        Number of iterations without a sufficient reduction.
    reduction
        Factor by which the residual must fall, in (0, 1].

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
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
        self._best_residual = np.inf
        self._stagnant_iterations = 0

    def update(self, progress: ResidualInfo) -> Penalty:
        """Return the penalty, increased after `patience` iterations without a reduction."""
        residual = max(progress.primal)
        self._stagnant_iterations += 1
        if residual <= self.reduction * self._best_residual:
            self._best_residual = residual
            self._stagnant_iterations = 0
        if self._stagnant_iterations < self.patience:
            return progress.rho
        self._stagnant_iterations = 0
        return progress.rho.times(self.factor)


class ResidualBalancing(Fixed):
    r"""Keep primal and dual residual within a factor `ratio` of each other.

    $\rho \leftarrow \tau\rho$ where the primal residual is too large, $\rho \leftarrow \rho/\tau$
    where the dual one is; inputs and outputs separately. A penalty that may decrease can cross the
    convergence threshold infinitely often: this rule has no convergence theorem.

    Parameters
    ----------
    rho
        The first penalty, as in `Fixed`.
    factor
        The factor $\tau > 1$.
    ratio
        Largest ratio of the residuals for which the penalty is kept, greater than 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
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
        """Return the penalty, increased or decreased separately for inputs and outputs."""
        return progress.rho.times(*map(self._factor, progress.primal, progress.dual))

    def _factor(self, primal: float, dual: float) -> float:
        if primal > self.ratio * dual:
            return self.factor
        if dual > self.ratio * primal:
            return 1 / self.factor
        return 1.0


class DescentTest(Fixed):
    r"""The rule of the book's theorem, which does not need $\ell$: $\rho \leftarrow \tau\rho$ where
    one of

    $$L_\rho(x^+, u^+, \lambda^+) \le L_\rho(x, u, \lambda) - \sigma\rho\lVert u^+ - u\rVert^2,
    \qquad
    L_\rho(x^+, u^+, \lambda^+) \ge F(x^+)$$

    fails; never less. For smooth $g$, exact steps and no active bound in the NN block it increases
    finitely often. The theorem, and this rule, are for the paper's split.

    Parameters
    ----------
    rho
        The first penalty, as in `Fixed`.
    factor
        The factor $\tau > 1$.
    sigma
        The factor $\sigma$ of the required decrease, in (0, 1/2).

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
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
        """Return the penalty, increased where the descent test fails."""
        return progress.rho if progress.descends(self.sigma) else progress.rho.times(self.factor)


class Sweeps:
    r"""Penalty cycles: within each, $\rho$ grows geometrically from `low` to `high`.

    With a small penalty the blocks may disagree and explore; with a large one they agree, and stall
    (a point $x$ with $\rho \ge 2\lVert\nabla F(x)\rVert_\infty$ no longer changes on the integers).
    One cycle passes through both regimes, so the right penalty need not be known; later cycles are
    longer and start from the points of earlier ones.

    Parameters
    ----------
    low, high
        First and last penalty of a cycle, as multiples of the automatic initialisation.
    lengths
        Number of iterations of each cycle, at least two.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
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
        """Return the first penalty of the first cycle."""
        ratio = self.high / self.low
        self._scale = scale
        self._factors = [self.low * np.geomspace(1.0, ratio, length) for length in self.lengths]
        return scale.times(self.low)

    def after(self, progress: ResidualInfo) -> Penalty | None:
        """Return the penalty of the next iteration, or None after the last cycle."""
        if self._factors:
            cycle = self._factors.pop(0)[1:]
            if len(cycle) and not progress.settled:
                self._factors.insert(0, cycle)
        return self._scale.times(float(self._factors[0][0])) if self._factors else None

    def __repr__(self) -> str:
        return f"Sweeps(low={self.low:g}, high={self.high:g}, lengths={self.lengths})"


def as_rule(penalty: PenaltyRule | float | tuple[float, float]) -> PenaltyRule:
    """Return a rule as it is, and a number or a pair as `Fixed`.

    Raises
    ------
    TypeError
        If `penalty` is none of these.
    ValueError
        If a number is not positive and finite.
    """
    if isinstance(penalty, (Real, float, tuple)):
        return Fixed(penalty)
    if isinstance(penalty, type) or not hasattr(penalty, "after"):
        raise TypeError(
            "penalty must be a number, a tuple (inputs, outputs) or a rule such as Sweeps(), not"
            f" {penalty!r}."
        )
    return penalty


def as_penalty(rho: Any) -> Penalty:
    """Return a number or a pair of numbers as a `Penalty`, or raise a ValueError."""
    if not isinstance(rho, tuple):
        return Penalty.both(positive(rho, "rho"))
    if len(rho) != 2:
        raise ValueError(f"rho={rho!r} must be a number or a pair (inputs, outputs).")
    return Penalty(positive(rho[0], "rho of the inputs"), positive(rho[1], "rho of the outputs"))


def positive(value: float, name: str) -> float:
    """Return `value` as a float, or raise a ValueError with its name."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not np.isfinite(float(value)) or value <= 0:
        raise ValueError(f"{name} must be a positive, finite number, not {value!r}.")
    return float(value)
