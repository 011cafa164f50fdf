r"""A problem as independent blocks that share resources, for price coordination and certificates.

Block $i$ chooses one option, a mode $t$ and a point $u$ of its box, or nothing where blocks are
optional:

$$\max \sum_i v_i \quad\text{s.t.}\quad \sum_i r_i \le R, \qquad v = \omega\,\min(f_t(u), h) \
\text{ or } \
v = \omega\,1[f_t(u) > 0],$$

$$r = r^0 + A^\top (u - w)^+ + B^\top (w - u)^+ + v\,d.$$

Every resource is used by steps away from the base point $w$ at constant rates up and down, by the
mode itself, and in proportion to the value. Bounds use this structure: at prices $\pi$ an option
costs $\pi^\top r^0$ and a weighted $\ell_1$ distance from $w$.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from ..errors import ProblemError
from .text import counted

AXES = {
    "block": "b",
    "row": "b",
    "lower": "bp",
    "upper": "bp",
    "base": "bp",
    "up": "pm",
    "down": "pm",
    "fixed": "bm",
    "per_value": "m",
}
"""Axes of the arrays of a mode: b blocks, p inputs of the network, m resources."""


@dataclass(frozen=True)
class Mode:
    """One way in which some blocks may use a network.

    Arrays have one row for each of the b blocks that have the mode, or for each of the p inputs of
    the network, and one column for each of the m resources. Lists are accepted.

    Attributes
    ----------
    block
        (b,) the blocks' numbers.
    row
        (b,) the sample of the predictor whose inputs are the block's point.
    lower, upper
        (b, p) bounds of the network's inputs.
    base
        (b, p) the point within the bounds from which use is measured.
    up, down
        (p, m) use of each resource by one unit above and below the base point.
    fixed
        (b, m) use by the choice of the mode.
    per_value
        (m,) use by one unit of value.
    predictor
        The number of the network.
    worth
        The value of one unit of the network's output, or of class 1.
    cap
        The largest output that counts.
    """

    block: ndarray
    row: ndarray
    lower: ndarray
    upper: ndarray
    base: ndarray
    up: ndarray
    down: ndarray
    fixed: ndarray
    per_value: ndarray
    predictor: int = 0
    worth: float = 1.0
    cap: float = np.inf


class BlockRows(NamedTuple):
    """Some rows of the table of `Blocks`, for a search of options.

    Attributes
    ----------
    at
        Numbers of the rows.
    mode, lower, upper, base, cap, worth
        The attributes of `Blocks` in these rows.
    """

    at: ndarray
    mode: ndarray
    lower: ndarray
    upper: ndarray
    base: ndarray
    cap: ndarray
    worth: ndarray


class Blocks:
    r"""The blocks of a problem, as a table with a row for each block and mode.

    Values count as in a maximisation. Networks have one output. See `NeuralMIP.set_blocks`.

    Parameters
    ----------
    modes : sequence of Mode
        The modes; each block needs at least one.
    capacities : array_like
        The capacities $R$ of the resources, of length m.
    optional : bool, default: True
        Whether a block may choose nothing, which has value 0 and uses no resource.
    resources : sequence of str, optional
        Names of the resources.

    Attributes
    ----------
    n
        Number of blocks.
    modes, capacities, optional, resources
        As given, in arrays.
    mode, block, row, predictor
        The mode, the block, the sample and the predictor of each row of the table.
    lower, upper, base, fixed, cap, worth
        The fields of `Mode` in each row of the table.

    Raises
    ------
    ProblemError
        If shapes do not fit, a number is not finite or has the wrong sign, or a block has no mode.

    Examples
    --------
    >>> one = np.ones((2, 1))
    >>> mode = Mode(
    ...     block=np.arange(2),
    ...     row=np.arange(2),
    ...     lower=-one,
    ...     upper=one,
    ...     base=0 * one,
    ...     up=np.eye(1),
    ...     down=np.eye(1),
    ...     fixed=0 * one,
    ...     per_value=np.zeros(1),
    ... )
    >>> Blocks([mode], capacities=[0.5])
    Blocks: 2 blocks, 1 mode, 1 shared resource
    """

    def __init__(
        self,
        modes: Sequence[Mode],
        capacities: Sequence[float] | ndarray,
        optional: bool = True,
        resources: Sequence[str] = (),
    ) -> None:
        self.capacities = np.asarray(capacities, dtype=float)
        m = len(self.capacities)
        self.modes = [_checked(t, mode, m) for t, mode in enumerate(modes)]
        self.optional = optional
        self.resources = list(resources) or [f"resource {r}" for r in range(m)]
        self._check()
        self.mode = np.repeat(np.arange(len(self.modes)), [len(mode.block) for mode in self.modes])
        self.block = self._stacked("block")
        self.row = self._stacked("row")
        self.lower = self._stacked("lower")
        self.upper = self._stacked("upper")
        self.base = self._stacked("base")
        self.fixed = self._stacked("fixed")
        self.predictor = self._stacked("predictor")
        self.cap = self._stacked("cap")
        self.worth = self._stacked("worth")
        self.n = int(self.block.max()) + 1
        missing = np.setdiff1d(np.arange(self.n), self.block)
        if missing.size:
            raise ProblemError(
                f"block {missing[0]} has no mode: number the blocks 0, 1, ... and give each a mode."
            )

    def _check(self) -> None:
        """Raise an error if modes and resources do not fit together."""
        if not self.modes:
            raise ProblemError(
                "blocks need at least one mode: a network, a box and its use of the resources."
            )
        if len({mode.base.shape[1] for mode in self.modes}) > 1:
            raise ProblemError(
                "all networks of modes must have the same number of inputs: let them ignore some."
            )
        m = len(self.capacities)
        if len(self.resources) != m:
            raise ProblemError(f"{len(self.resources)} names for {m} resources: pass one for each.")
        if not np.isfinite(self.capacities).all():
            raise ProblemError(
                "every capacity must be a finite number: leave out resources without a limit."
            )

    def _stacked(self, name: str) -> ndarray:
        """A field of all modes, with an entry for each row of the table."""
        values = [getattr(mode, name) for mode in self.modes]
        return np.concatenate(values) if name in AXES else np.array(values)[self.mode]

    def part(self, at: ndarray) -> BlockRows:
        """Return some rows of the table.

        Parameters
        ----------
        at : numpy.ndarray of int
            Numbers of the rows.

        Returns
        -------
        BlockRows
            What a search for options needs of these rows.
        """
        return BlockRows(at, *(getattr(self, name)[at] for name in BlockRows._fields[1:]))

    def mode_rates(self, prices: ndarray) -> ndarray:
        """Compute the cost of a unit above and below the base point, for each mode.

        Parameters
        ----------
        prices : numpy.ndarray
            Prices of the resources.

        Returns
        -------
        numpy.ndarray
            Costs of shape (2, modes, p), first above, then below.
        """
        return np.stack([[mode.up @ prices, mode.down @ prices] for mode in self.modes], axis=1)

    def rates(self, prices: ndarray) -> ndarray:
        """Compute the cost of a unit above and below the base point, for each row of the table.

        Parameters
        ----------
        prices : numpy.ndarray
            Prices of the resources.

        Returns
        -------
        numpy.ndarray
            Costs of shape (2, rows, p), first above, then below.
        """
        return self.mode_rates(prices)[:, self.mode]

    def mode_gains(self, prices: ndarray, counts: float = 1.0) -> ndarray:
        r"""Compute what a unit of value contributes at these prices, $1 - \pi^\top d$, by mode.

        Parameters
        ----------
        prices : numpy.ndarray
            Prices $\pi$ of the resources.
        counts : float, default: 1.0
            Contribution of a unit of value to the objective.

        Returns
        -------
        numpy.ndarray
            One number for each mode.
        """
        return counts - np.stack([mode.per_value for mode in self.modes]) @ prices

    def gains(self, prices: ndarray, counts: float = 1.0) -> ndarray:
        r"""Compute what a unit of value contributes, for each row of the table.

        Parameters
        ----------
        prices : numpy.ndarray
            Prices of the resources.
        counts : float, default: 1.0
            Contribution of a unit of value to the objective.

        Returns
        -------
        numpy.ndarray
            One number for each row.
        """
        return self.mode_gains(prices, counts)[self.mode]

    def use(self, at: ndarray, u: ndarray, value: ndarray) -> ndarray:
        """Compute the resources that options use.

        Parameters
        ----------
        at : numpy.ndarray of int
            (k,) rows of the table.
        u : numpy.ndarray
            (k, p) points.
        value : numpy.ndarray
            (k,) values of the points.

        Returns
        -------
        numpy.ndarray
            Use of shape (k, m).
        """
        used = self.fixed[at].copy()
        for t, mode in enumerate(self.modes):
            chosen = self.mode[at] == t
            step = u[chosen] - self.base[at[chosen]]
            used[chosen] += np.maximum(step, 0) @ mode.up + np.maximum(-step, 0) @ mode.down
            used[chosen] += value[chosen, None] * mode.per_value
        return used

    def __repr__(self) -> str:
        blocks = counted(self.n, "block")
        modes = counted(len(self.modes), "mode")
        resources = counted(len(self.capacities), "shared resource")
        return f"Blocks: {blocks}, {modes}, {resources}"


def _checked(t: int, mode: Mode, m: int) -> Mode:
    """Mode number t of m resources with arrays in place of lists, or an error about a field."""
    shape = np.shape(mode.base)
    if len(shape) != 2 or 0 in shape:
        raise ProblemError(
            f"mode {t}: base has shape {shape}, expected a row for each of its blocks."
        )
    length = dict(zip("bpm", (*shape, m), strict=True))
    fields: dict[str, Any] = {"cap": float(mode.cap), "worth": float(mode.worth)}
    for name, axes in AXES.items():
        field = np.asarray(getattr(mode, name))
        expected = tuple(length[axis] for axis in axes)
        if field.shape != expected:
            raise ProblemError(f"mode {t}: {name} has shape {field.shape}, expected {expected}.")
        if name not in ("block", "row"):
            field = field.astype(float)
            if not np.isfinite(field).all():
                raise ProblemError(f"mode {t}: {name} must be finite.")
        elif not np.issubdtype(field.dtype, np.integer) or (field < 0).any():
            raise ProblemError(f"mode {t}: block and row are integers from 0 on.")
        fields[name] = field
    checked = replace(mode, **fields)
    for fault, found in _faults(checked).items():
        if found:
            raise ProblemError(f"mode {t}: {fault}")
    return checked


def _faults(mode: Mode) -> dict[str, Any]:
    """What may be wrong with the numbers of a mode, and whether it is."""
    outside = (mode.lower > mode.base) | (mode.base > mode.upper)
    return {
        "the base point, from which use is measured, must lie in its box.": outside.any(),
        "a step away from the base point must not give resources back (up, down >= 0): choose as"
        " base the end of the box that uses least.": ((mode.up < 0) | (mode.down < 0)).any(),
        "value that uses a resource is not supported; per_value must be <= 0 (a target to which"
        " value contributes).": (mode.per_value > 0).any(),
        f"worth={mode.worth} must be positive and finite: leave out modes without value.": not (
            0 < mode.worth < np.inf
        ),
        f"cap={mode.cap} must be a number, or np.inf where every output counts.": not (
            mode.cap > -np.inf
        ),
    }
