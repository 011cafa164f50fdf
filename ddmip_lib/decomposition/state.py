"""The state of Algorithm 1 between two iterations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from ..model.incumbent import Incumbent
from ..model.solution import History
from ..model.verification import Verification
from .mip_block import MIPBlock
from .nn_block import NNBlock, NNSubproblem
from .penalty import Penalty, PenaltyRule
from .split import Split, flat


@dataclass
class Run:
    """The state of Algorithm 1 between two iterations."""

    split: Split
    mip: MIPBlock
    nn: NNBlock
    penalty: PenaltyRule
    incumbent: Incumbent
    u: np.ndarray
    copies: np.ndarray
    r"""$\kappa(u)$: u itself, with the networks' outputs behind it where these are coupled."""
    lam: np.ndarray
    rho: Penalty
    deadline: float
    began: float
    x: np.ndarray | None = None
    """The MIP block's variables, in the order of `split.snapshot`."""
    sub: NNSubproblem | None = None
    k: int = 0
    last: Verification | None = None
    history: History = field(default_factory=History)
    seen: set[tuple[Penalty, bytes]] = field(default_factory=set)
    stopped: str | None = None

    @property
    def w(self) -> np.ndarray:
        """The coupled part of x."""
        assert self.x is not None
        return self.x[self.split.coupled]

    def lagrangian(self, rho: Penalty | None = None) -> float:
        """L_rho(x, u, lambda) as a minimisation, with the costs of all variables of the MIP block."""
        r = self.copies - self.w
        proximal = 0.5 * (self.split.weights(rho or self.rho) * r) @ r
        return self.objective_at(self.u) + float(self.lam @ r + proximal)

    def objective_at(self, u: np.ndarray) -> float:
        """c'x + g(u): at u = x the function that the split minimises."""
        split, point = self.split, torch.from_numpy(u)
        with torch.no_grad():
            y = split.surrogate_and_slope(flat(split.raws(point)))[0]
            g = 0.0 if split.cost_of_outputs is None else float(split.cost_of_outputs @ y)
            if len(split.rows_b):
                g += float(split.hinge_terms(split.rows(point, torch.from_numpy(y))).sum())
        return float(split.cost @ self.x) + g

    def descends_from(self, before: Run, sigma: float) -> bool:
        """The two inequalities of `DescentTest`, up to rounding; true before there is anything to compare."""
        if before.k == 0:
            return True
        old, new = before.lagrangian(self.rho), self.lagrangian()
        moved = float(((self.u - before.u) ** 2).sum())
        noise = 1e-9 * max(1.0, abs(old), abs(new))
        at_x = self.objective_at(self.w[: self.split.inputs.size])
        return new <= old - sigma * self.rho.inputs * moved + noise and new >= at_x - noise
