r"""The NN block by a logarithmic barrier: Newton's method in the interior of the box and of the
constraints $h(u) < 0$.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from .central_path import CentralPath, PathSettings
from .interior import BarrierPoint, BarrierProblem, grad
from .lbfgsb import follow_by_lbfgsb
from .nn_block import NNBlock, NNSubproblem
from .phase_one import FIRST_START_MARGIN, interior_start, move_inside

LATER_START_MARGIN = 1e-12
"""Distance of a start from the bounds after the first call, as a fraction of the range."""


class Carried:
    """What a run carries from call to call.

    Attributes
    ----------
    end
        The barrier parameter at which the next call ends.
    dual
        Dual estimates.
    failed
        Groups for which phase I found no start.
    phase_one
        Result of phase I in the last call.
    """

    def __init__(self, end: float) -> None:
        self.end = end
        self.dual = torch.zeros(0)
        self.failed = torch.zeros(0, dtype=torch.bool)
        self.phase_one: str | None = None


@dataclass(frozen=True, repr=False)
class LogBarrier(NNBlock):
    r"""Newton's method on $\Phi_\mu(u) = \varphi(u) - \mu \sum_j \omega_j \log s_j(u)$ with $\mu
    \to 0$.

    The slacks $s_j$ are those of both sides of the box, $u_i - l_i$ and $r_i - u_i$, and of the
    constraints, $-h_j(u)$. The weights make $\mu$ dimensionless: $\omega_i = \rho (r_i - l_i)^2$
    for the box and the group's mean of these for a constraint. On a convex problem $\varphi(u_\mu)
    - \varphi^\star \le \mu \sum_j \omega_j$, hence $\lVert u_\mu - u^\star \rVert^2 \le 2 \mu
    \sum_j \omega_j / \rho$.

    A call starts with $\mu$ proportional to the squared length of the next step, at most `mu`, and
    multiplies it by `shrink` (or takes $\mu^{1.5}$ if that is less) whenever a group of inputs is
    near its minimiser. Steps keep 0.5 % of every slack, then satisfy Armijo's rule. A constraint
    without a strictly feasible start gets one by phase I (min t subject to h <= t); where that
    fails, and for equalities, the squared hinge of `PGD` is used instead.

    Attributes
    ----------
    method
        "newton", or "lbfgsb" for SciPy's L-BFGS-B with the box as bounds and a barrier for the
        constraints alone.
    mu
        Largest barrier parameter.
    mu_final
        Smallest barrier parameter.
    shrink
        Factor between consecutive barrier parameters.
    steps
        Maximum number of Newton steps of a call.
    cg_steps
        Maximum number of conjugate-gradient steps for each of them.
    primal_dual
        Whether the Hessian has the curvature $z_j / s_j$ of a side, with dual estimates $z_j$
        carried from call to call, instead of $\mu\omega_j / s_j^2$.
    callback
        Function `callback(u, mu)` that is called after each Newton step, with one mu for each
        group.
    anneal
        Whether the first call ends at $\sqrt{\mu \mu_{final}}$ and each later one `shrink` times
        lower, down to `mu_final`. If all calls end at the same $\mu$, u does not converge to an x
        on the boundary.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> LogBarrier(mu_final=1e-8)
    LogBarrier(method='newton', mu=0.01, mu_final=1e-08)
    """

    method: str = "newton"
    mu: float = 1e-2
    mu_final: float = 1e-12
    shrink: float = 0.1
    steps: int = 10
    cg_steps: int = 50
    primal_dual: bool = True
    callback: Callable[[ndarray, ndarray], None] | None = None
    anneal: bool = True
    _carried: Carried = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.method not in ("newton", "lbfgsb"):
            raise ValueError(f"method={self.method!r} is unknown; choose 'newton' or 'lbfgsb'.")
        ordered = 0 < self.mu_final <= self.mu < np.inf and 0 < self.shrink < 1
        if not ordered or min(self.steps, self.cg_steps) < 1:
            raise ValueError(
                "LogBarrier needs 0 < mu_final <= mu, 0 < shrink < 1, steps >= 1 and cg_steps >= 1."
            )
        end = float(np.sqrt(self.mu * self.mu_final)) if self.anneal else self.mu_final
        object.__setattr__(self, "_carried", Carried(end))

    def fresh(self) -> "LogBarrier":
        """Return a copy that has carried nothing from earlier calls."""
        return replace(self)

    @property
    def phase_one(self) -> str | None:
        """Result of phase I in the last call: "ok", "failed" or "no rows" (no inequalities)."""
        return self._carried.phase_one

    @property
    def holds_rows(self) -> bool:
        """Whether the last call had a strictly feasible start for all inequalities."""
        return self.phase_one == "ok"

    def remarks(self) -> dict[str, Any]:
        """Return `phase_one`, if it failed."""
        return {"phase_one": "failed"} if self.phase_one == "failed" else {}

    @classmethod
    def paper(cls, method: str = "newton") -> "LogBarrier":
        r"""Return the paper's block: damped Newton steps of five CG steps each, $\mu \leftarrow 0.1
        \mu$, the same $\mu$ in every call.

        The paper does not state $\mu$; here the barrier changes u by the paper's tolerance of 1e-4
        at its last value. The number of steps is that of Adam.

        Parameters
        ----------
        method
            As in `LogBarrier`.
        """
        return cls(method, mu_final=1e-8, steps=25, cg_steps=5, primal_dual=False, anneal=False)

    @torch.enable_grad()
    def minimise(self, sub: NNSubproblem, u: ndarray) -> ndarray:
        """Return an approximate minimiser of `sub`, from the start `u`."""
        carried = self._carried
        margin = LATER_START_MARGIN
        if not len(carried.failed):
            carried.failed = torch.zeros(sub.n_groups, dtype=torch.bool)
            margin = FIRST_START_MARGIN
        start = move_inside(torch.tensor(u), sub, margin)
        barred = sub.constraint_has_interior
        carried.phase_one = "no rows"
        settings = PathSettings(self.shrink, self.steps, self.cg_steps, self.primal_dual)
        if barred.any():
            start, infeasible = interior_start(sub, start, carried.failed, settings)
            carried.failed = carried.failed | infeasible
            barred = barred & ~infeasible[sub.constraint_group]
            carried.phase_one = "failed" if carried.failed.any() else "ok"
        f = _barrier_problem(sub, barred)
        if self.method == "newton":
            end = self._newton(f, start, settings)
        else:
            mu = self.mu if barred.any() else carried.end
            end = follow_by_lbfgsb(f, start, mu, carried.end, settings)
        carried.end = max(self.mu_final, self.shrink * carried.end)
        return end.numpy()

    def _newton(self, f: BarrierProblem, u: Tensor, settings: PathSettings) -> Tensor:
        carried = self._carried
        at = BarrierPoint(f, u)
        known = carried.dual if len(carried.dual) == len(f.weights) else torch.zeros_like(f.weights)
        # the squared length of a projected gradient step, in units of the box
        gradient = grad(at.values.sum() + known[2 * len(u) :] @ at.h, at.u, twice=False)
        ahead = torch.clamp(u - gradient / f.convexity, f.lower, f.upper)
        step = (ahead - u).abs() / (f.upper - f.lower)
        longest = step.new_zeros(f.n_groups).scatter_reduce(0, f.group, step, "amax")
        mu = longest.square().clamp(carried.end, self.mu)
        dual = torch.where(known > 0, known, f.weights * mu[f.side_group] / at.slack)
        everywhere = torch.ones(f.n_groups, dtype=torch.bool)
        path = CentralPath(settings, carried.end, at, mu, dual, everywhere)
        end = path.follow(self.steps, self.callback)
        if self.primal_dual:
            carried.dual = path.dual
        return end

    def __repr__(self) -> str:
        return f"LogBarrier(method={self.method!r}, mu={self.mu:g}, mu_final={self.mu_final:g})"


def _barrier_problem(sub: NNSubproblem, barred: Tensor) -> BarrierProblem:
    """The subproblem with a barrier for the box and for some constraints, and a hinge for the
    others.
    """
    hinged = ~barred

    def parts(v: Tensor) -> tuple[Tensor, Tensor]:
        phi, h = sub.parts(v)
        if hinged.any():
            phi = phi + sub.hinge(h, hinged)
        return phi, h

    box = sub.rho.inputs * (sub.upper - sub.lower) ** 2
    mean = sub.sum_by_group(box) / sub.sum_by_group(torch.ones_like(box))
    of_constraints = torch.where(barred, mean[sub.constraint_group], 0.0)
    return BarrierProblem(
        parts,
        sub.lower,
        sub.upper,
        sub.group,
        sub.constraint_group,
        sub.n_groups,
        barred,
        weights=torch.cat([box, box, of_constraints]),
        convexity=sub.rho.inputs,
        out_of_time=lambda: sub.out_of_time,
    )
