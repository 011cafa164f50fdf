r"""A problem as independent blocks that share resources: what price coordination and certificates
work on.

Block $i$ chooses one option, a mode $t$ and a point $u$ of its box, or nothing where blocks are
optional:

$$\max \sum_i v_i \quad\text{s.t.}\quad \sum_i r_i \le R, \qquad v = \omega\,\min(f_t(u), h) \
\text{ or } \
v = \omega\,1[f_t(u) > 0],$$

$$r = r^0 + A^\top (u - w)^+ + B^\top (w - u)^+ + v\,d.$$

Every resource is used by steps away from the base point $w$ at constant rates up and down, by the
mode itself, and in proportion to the value. Bounds rest on this form: at prices $\pi$ an option
costs $\pi^\top r^0$ and a weighted $\ell_1$ distance from $w$.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..errors import ProblemError


@dataclass(frozen=True)
class Mode:
    """One way to use a network, open to some blocks: arrays have one row for each block that has
    it.
    """

    block: np.ndarray  #: (b,) which blocks.
    row: np.ndarray  #: (b,) the row of the predictor that the block's point enters.
    lower: np.ndarray
    upper: np.ndarray
    base: (
        np.ndarray
    )  #: (b, p) the box of the network's input, and the point from which use is counted.
    up: np.ndarray
    down: np.ndarray  #: (p, m) use of each resource by one unit above and below the base point.
    fixed: np.ndarray  #: (b, m) use by the mode itself.
    per_value: np.ndarray  #: (m,) use by one unit of value.
    predictor: int = 0
    worth: float = 1.0  #: What one unit of the network's output, or class 1, is worth.
    cap: float = np.inf  #: The largest output that counts.


class BlockRows(NamedTuple):
    """Some rows of the table of `Blocks`: their numbers, and what a search for options needs of
    them.
    """

    at: np.ndarray
    mode: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    base: np.ndarray
    cap: np.ndarray
    worth: np.ndarray


class Blocks:
    r"""The blocks of a problem (`NeuralMIP.set_blocks`), all modes in one table with a row for each
    block and mode.

    `capacities` is $R$; with `optional`, a block may choose nothing, which is worth nothing and
    uses nothing. Values count as in a maximisation. Networks have one output.

    >>> one = np.ones((2, 1))
    >>> mode = Mode(
    ...     np.arange(2),
    ...     np.arange(2),
    ...     -one,
    ...     one,
    ...     0 * one,
    ...     np.eye(1),
    ...     np.eye(1),
    ...     0 * one,
    ...     np.zeros(1),
    ... )
    >>> Blocks([mode], capacities=[0.5])
    Blocks: 2 blocks, 1 mode, 1 shared resource
    """

    def __init__(
        self,
        modes: Sequence[Mode],
        capacities: Sequence[float] | np.ndarray,
        optional: bool = True,
        resources: Sequence[str] = (),
    ) -> None:
        self.modes = [_as_arrays(t, mode) for t, mode in enumerate(modes)]
        self.optional = optional
        self.capacities = np.asarray(capacities, dtype=float)
        if not self.modes:
            raise ProblemError(
                "blocks need at least one mode: a network, a box and its use of the resources."
            )
        if not np.isfinite(self.capacities).all():
            raise ProblemError(
                "every capacity must be a finite number: leave out resources without a limit."
            )
        for t, mode in enumerate(self.modes):
            self._check(t, mode)
        m = len(self.capacities)
        self.resources = list(resources) or [f"resource {r}" for r in range(m)]
        if len(self.resources) != m:
            raise ProblemError(f"{len(self.resources)} names for {m} resources: pass one for each.")
        self.mode = np.repeat(np.arange(len(self.modes)), [len(mode.block) for mode in self.modes])
        self.block, self.row, self.lower, self.upper, self.base, self.fixed = (
            np.concatenate([getattr(mode, name) for mode in self.modes])
            for name in ("block", "row", "lower", "upper", "base", "fixed")
        )
        self.predictor = self.spread("predictor").astype(int)
        self.cap, self.worth = self.spread("cap"), self.spread("worth")
        self.n = int(self.block.max()) + 1
        missing = np.setdiff1d(np.arange(self.n), self.block)
        if missing.size:
            raise ProblemError(
                f"block {missing[0]} has no mode: number the blocks 0, 1, ... and give each a mode."
            )

    def _check(self, t: int, mode: Mode) -> None:
        b, p = np.shape(mode.base)
        m = len(self.capacities)
        wanted = {
            "block": (b,),
            "row": (b,),
            "lower": (b, p),
            "upper": (b, p),
            "up": (p, m),
            "down": (p, m),
            "fixed": (b, m),
            "per_value": (m,),
        }
        for name, shape in wanted.items():
            if np.shape(getattr(mode, name)) != shape:
                raise ProblemError(
                    f"mode {t}: {name} has shape {np.shape(getattr(mode, name))}, expected {shape}."
                )
        for name in ("lower", "upper", "base", "up", "down", "fixed", "per_value"):
            if not np.isfinite(getattr(mode, name)).all():
                raise ProblemError(f"mode {t}: {name} must be finite.")
        if p != np.shape(self.modes[0].base)[1]:
            raise ProblemError(
                f"mode {t}: all networks must have the same number of inputs: let them ignore some."
            )
        if (np.asarray(mode.block) < 0).any() or (np.asarray(mode.row) < 0).any():
            raise ProblemError(f"mode {t}: block and row are numbers from 0 on.")
        if (mode.lower > mode.base).any() or (mode.base > mode.upper).any():
            raise ProblemError(
                f"mode {t}: the base point must lie in its box, from which use is counted."
            )
        if (mode.up < 0).any() or (mode.down < 0).any():
            raise ProblemError(
                f"mode {t}: a step away from the base point must not give resources back (up, down"
                " >= 0): choose as base the end of the box that uses least."
            )
        if (np.asarray(mode.per_value) > 0).any():
            raise ProblemError(
                f"mode {t}: value that uses a resource is not supported; per_value must be <= 0 (a"
                " target that value helps to reach)."
            )
        if not 0 < mode.worth < np.inf:
            raise ProblemError(
                f"mode {t}: worth={mode.worth} must be positive: leave out what is worth nothing."
            )
        if not mode.cap > -np.inf:
            raise ProblemError(
                f"mode {t}: cap={mode.cap} must be a number, or np.inf where every output counts."
            )

    def spread(self, name: str) -> np.ndarray:
        """A field of the modes, such as ``"up"``, repeated for each row of the table."""
        return np.stack([np.asarray(getattr(mode, name), dtype=float) for mode in self.modes])[
            self.mode
        ]

    def part(self, at: np.ndarray) -> BlockRows:
        """The rows `at` of the table by themselves."""
        return BlockRows(at, *(getattr(self, name)[at] for name in BlockRows._fields[1:]))

    def mode_rates(self, prices: np.ndarray) -> np.ndarray:
        """What one unit above and below the base point costs at these prices: (2, modes, p)."""
        return np.stack([[mode.up @ prices, mode.down @ prices] for mode in self.modes], axis=1)

    def rates(self, prices: np.ndarray) -> np.ndarray:
        """The same for each row of the table."""
        return self.mode_rates(prices)[:, self.mode]

    def mode_gains(self, prices: np.ndarray, counts: float = 1.0) -> np.ndarray:
        """What one unit of value is worth at these prices, 1 - pi'd, for each mode."""
        return counts - np.stack([np.asarray(mode.per_value) for mode in self.modes]) @ prices

    def gains(self, prices: np.ndarray, counts: float = 1.0) -> np.ndarray:
        """The same for each row of the table."""
        return self.mode_gains(prices, counts)[self.mode]

    def use(self, at: np.ndarray, u: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Resources that points u, (k, p), of the table's rows `at` take at these values:
        (k, m).
        """
        used = self.fixed[at].copy()
        for t, mode in enumerate(self.modes):
            mine = self.mode[at] == t
            move = u[mine] - self.base[at[mine]]
            used[mine] += np.maximum(move, 0) @ mode.up + np.maximum(-move, 0) @ mode.down
            used[mine] += value[mine, None] * mode.per_value
        return used

    def __repr__(self) -> str:
        def count(k: int, what: str) -> str:
            return f"{k} {what}{'s' * (k != 1)}"

        parts = (
            count(self.n, "block"),
            count(len(self.modes), "mode"),
            count(len(self.capacities), "shared resource"),
        )
        return f"Blocks: {', '.join(parts)}"


def _as_arrays(t: int, mode: Mode) -> Mode:
    """The same mode with arrays in place of lists."""
    floats = ("lower", "upper", "base", "up", "down", "fixed", "per_value")
    arrays = {name: np.asarray(getattr(mode, name), dtype=float) for name in floats}
    arrays |= {name: np.asarray(getattr(mode, name)) for name in ("block", "row")}
    if arrays["base"].ndim != 2 or not arrays["base"].size:
        raise ProblemError(
            f"mode {t}: base has shape {arrays['base'].shape}, expected a row for each of its"
            " blocks."
        )
    if not all(np.issubdtype(arrays[name].dtype, np.integer) for name in ("block", "row")):
        raise ProblemError(f"mode {t}: block and row are whole numbers from 0 on.")
    return replace(mode, **arrays)  # type: ignore[arg-type]
