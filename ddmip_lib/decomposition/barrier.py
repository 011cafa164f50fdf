r"""The NN block by a logarithmic barrier: Newton's method strictly inside the box and the rows
$h(u) < 0$.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .interior import CENTRED, BarrierPoint, BarrierProblem, grad, newton_direction
from .nn_block import NNBlock, NNSubproblem, finite

KEEP = 0.005  # share of each slack that a step leaves: the rest is the fraction to the boundary
PASSING = (
    10.0  # what may be left to gain on the way along the path, in units of the gap mu sum(kappa)
)
TRIES = 4
CUT = 0.2
"""Step lengths tried, and by what factor each is shorter: a kink of the network would refuse any
number of them.
"""
NOISE = 1e-14


@dataclass
class Carried:
    """What a run carries from call to call."""

    end: float  # the mu at which the next call ends
    dual: Tensor = field(default_factory=lambda: torch.zeros(0))
    failed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    """Groups for which phase I found no start."""
    phase_one: str | None = None


@dataclass(frozen=True, repr=False)
class LogBarrier(NNBlock):
    r"""Newton's method on $\Phi_\mu(u) = \varphi(u) - \mu \sum_j \kappa_j \log s_j(u)$ with $\mu
    \to 0$.

    The slacks $s_j$ are those of both sides of the box, $u_i - l_i$ and $r_i - u_i$, and of the
    rows, $-h_j(u)$. The weights make $\mu$ a plain number: $\kappa_i = \rho (r_i - l_i)^2$ for the
    box and the group's mean of these for a row. On a convex problem $\varphi(u_\mu) - \varphi^\star
    \le \mu \sum_j \kappa_j$, hence $\lVert u_\mu - u^\star \rVert^2 \le 2 \mu \sum_j \kappa_j /
    \rho$.

    A call starts with $\mu$ as large as the step ahead asks for, at most `mu`, and multiplies it by
    `shrink` (or takes $\mu^{1.5}$ if that is less) whenever a group of inputs is near its
    minimiser. The first call ends at $\sqrt{\mu \mu_{final}}$, each later one `shrink` times lower,
    down to `mu_final`: with the same final $\mu$ for ever (`anneal=False`) u would not reach an x
    on the boundary. Steps keep 0.5 % of every slack, then satisfy Armijo's rule. Their Hessian has
    $z_j / s_j$ for the curvature of a side, with dual estimates $z_j$ kept from call to call, or,
    without `primal_dual`, $\mu\kappa_j / s_j^2$. Rows without a strictly feasible start get one by
    phase I (min t subject to h <= t); where that fails, and for equalities, the squared hinge of
    `PGD` stands in, and `phase_one` says so ("ok", "failed" or "no rows").

    ``method="lbfgsb"`` hands box and gradient to SciPy's L-BFGS-B, with the barrier for the rows
    alone. `callback(u, mu)` is called after each Newton step, with one mu for each group.

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
    callback: Callable[[np.ndarray, np.ndarray], None] | None = None
    anneal: bool = True
    _carried: Carried = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.method not in ("newton", "lbfgsb"):
            raise ValueError(f"method={self.method!r} is unknown; choose 'newton' or 'lbfgsb'.")
        if not 0 < self.mu_final <= self.mu < np.inf:
            raise ValueError(
                f"mu={self.mu}, mu_final={self.mu_final}: 0 < mu_final <= mu is needed."
            )
        if not 0 < self.shrink < 1:
            raise ValueError(f"shrink={self.shrink} must lie between 0 and 1.")
        if min(self.steps, self.cg_steps) < 1:
            raise ValueError(
                f"steps={self.steps}, cg_steps={self.cg_steps}: at least one of each is needed."
            )
        first = float(np.sqrt(self.mu * self.mu_final)) if self.anneal else self.mu_final
        object.__setattr__(self, "_carried", Carried(first))

    def fresh(self) -> "LogBarrier":
        return replace(self)

    @property
    def phase_one(self) -> str | None:
        """How the last call came by a start inside the rows: "ok", "failed" or "no rows"."""
        return self._carried.phase_one

    @property
    def holds_rows(self) -> bool:
        return self.phase_one == "ok"

    def remarks(self) -> dict[str, Any]:
        """The barrier left its rows to the hinge where phase I failed."""
        return {"phase_one": "failed"} if self.phase_one == "failed" else {}

    @classmethod
    def paper(cls, method: str = "newton") -> "LogBarrier":
        """The paper's block: damped Newton steps of five CG steps each, mu <- 0.1 mu, the same mu
        in every call.

        The paper names no mu; this one ends where the barrier moves u by its tolerance of 1e-4.
        Steps: as Adam's.
        """
        return cls(method, mu_final=1e-8, steps=25, cg_steps=5, primal_dual=False, anneal=False)

    @torch.enable_grad()
    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Approximate minimiser of `sub`, started at `u`."""
        carried = self._carried
        first = not len(carried.failed)
        if first:
            carried.failed = torch.zeros(sub.n_groups, dtype=torch.bool)
        start = interior(torch.tensor(u), sub, 1e-2 if first else 1e-12)
        rows = sub.constraint_has_interior
        carried.phase_one = "no rows"
        if rows.any():
            start, inside = self._phase_one(sub, start)
            rows = rows & inside[sub.constraint_group]
            carried.phase_one = "failed" if carried.failed.any() else "ok"
        hinged = ~rows

        def parts(v: Tensor) -> tuple[Tensor, Tensor]:
            phi, h = sub.parts(v)
            return (phi + sub.hinge(h, rows=hinged) if hinged.any() else phi), h

        box = sub.rho.inputs * (sub.upper - sub.lower) ** 2
        mean = sub.sum_by_group(box) / sub.sum_by_group(torch.ones_like(box))
        kappa = torch.cat([box, box, torch.where(rows, mean[sub.constraint_group], 0.0)])
        groups = (sub.group, sub.constraint_group, sub.n_groups)
        f = BarrierProblem(parts, (sub.lower, sub.upper), groups, rows, kappa, sub.rho.inputs)
        end = (
            self._lbfgsb(sub, f, start) if self.method == "lbfgsb" else self._newton(sub, f, start)
        )
        carried.end = max(self.mu_final, self.shrink * carried.end)
        return end.numpy()

    def _newton(self, sub: NNSubproblem, f: BarrierProblem, u: Tensor) -> Tensor:
        at = BarrierPoint(f, u)
        known = (
            self._carried.dual
            if len(self._carried.dual) == len(f.kappa)
            else torch.zeros_like(f.kappa)
        )
        slope = grad(at.values.sum() + known[2 * len(u) :] @ at.h, at.u, twice=False)
        ahead = torch.clamp(u - slope / f.convexity, f.lower, f.upper)
        step = (ahead - u).abs() / (f.upper - f.lower)
        farthest = step.new_zeros(f.n_groups).scatter_reduce(0, f.group, step, "amax")
        mu = farthest.square().clamp(self._carried.end, self.mu)
        dual = torch.where(known > 0, known, f.kappa * mu[f.side_group] / at.slack)
        at, dual = self._follow(sub, at, mu, dual, self._carried.end)
        if self.primal_dual:
            self._carried.dual = dual
        return at.u.detach()

    def _follow(
        self,
        sub: NNSubproblem,
        at: BarrierPoint,
        mu: Tensor,
        dual: Tensor,
        end: float,
        live: Tensor | None = None,
    ) -> tuple[BarrierPoint, Tensor]:
        """Follow the path of the minimisers of Phi_mu down to mu = `end`, each group at its own
        pace.
        """
        f = at.f
        stuck = torch.zeros(at.f.n_groups, dtype=torch.bool)
        steps, callback = (
            (self.steps, self.callback) if live is None else (5 * self.steps, None)
        )  # else phase I
        live = ~stuck if live is None else live
        left = residual = torch.full_like(mu, torch.inf)
        longest = torch.ones_like(mu)
        for _ in range(steps):
            at.differentiate(dual)
            decrement = f.total(at.gradient(mu) ** 2 / (f.convexity + mu[f.group] * at.box_bend))
            centred = stuck | (torch.minimum(decrement, left) <= CENTRED * mu * f.gap)
            centred = centred | ((residual <= PASSING * mu * f.gap) & (mu > end))
            live = live & ~(centred & (mu <= end))
            if not live.any() or sub.out_of_time:
                break
            # a group that no step improves sits at a kink: it has one more try, at the end of the
            # path
            lower = torch.minimum(self.shrink * mu, mu**1.5 if self.primal_dual else mu).clamp(
                min=end
            )
            mu = torch.where(centred, torch.where(stuck, end, lower), mu)
            slope = at.gradient(mu)
            d, residual = newton_direction(
                at, slope, mu, live, self.cg_steps, lambda: sub.out_of_time
            )
            promise = -f.total(slope * d)
            new, length = self._search(at, d, promise, mu, longest)
            stuck = length == 0
            longest = torch.where(stuck, 1.0, (length / CUT).clamp(max=1.0))
            sides = length[f.side_group]
            target = f.kappa * mu[f.side_group]
            path = target / new.slack
            if self.primal_dual:
                estimate = (
                    dual + sides * (target / at.slack - dual) - dual * (new.slack / at.slack - 1)
                )
                dual = torch.maximum(estimate, KEEP * dual).clamp(1e-8 * path, 1e8 * path)
            else:
                dual = path
            off = f.total(((dual - path).abs() > 0.5 * path).double())
            # a full step whose duals fit the path leaves what CG left; its own promise bounds what
            # the model missed
            residual = torch.where((length == 1) & (off == 0), residual, torch.inf)
            left = torch.maximum(promise, residual)
            at = new
            if callback is not None:
                callback(at.u.detach().numpy(), mu.numpy())
        return at, dual

    def _search(
        self, at: BarrierPoint, d: Tensor, promise: Tensor, mu: Tensor, longest: Tensor
    ) -> tuple[BarrierPoint, Tensor]:
        """The longest of the tried steps that keeps a share of all slacks and satisfies Armijo's
        rule, by group.
        """
        f = at.f
        ratio = (1 - KEEP) * at.slack[: 2 * len(d)] / torch.cat([-d, d]).clamp(min=1e-300)
        length = longest.scatter_reduce(0, f.side_group[: len(ratio)], ratio, "amin")
        before = at.phi - mu * at.logs + NOISE * (at.phi.abs() + f.gap)
        for attempt in range(TRIES + 1):
            new = BarrierPoint(f, at.u.detach() + length[f.group] * d)
            lost = f.total((new.slack < 0.99 * KEEP * at.slack).double())
            ok = (lost == 0) & (new.phi - mu * new.logs <= before - 1e-4 * length * promise)
            if ok.all():
                break
            length = torch.where(ok, length, CUT * length if attempt < TRIES - 1 else 0.0)
        return new, length

    def _phase_one(self, sub: NNSubproblem, u: Tensor) -> tuple[Tensor, Tensor]:
        """A start strictly inside the rows for the groups that lack one, by min t subject to h <=
        t; who has one.
        """
        p = len(u)
        rows = sub.constraint_has_interior
        group = sub.constraint_group

        def worst(h: Tensor) -> Tensor:
            h = torch.where(rows, finite(h.detach()), -torch.inf)
            return h.new_full((sub.n_groups,), -torch.inf).scatter_reduce(0, group, h, "amax")

        outside = worst(sub.parts(u)[1]) >= 0
        for guess in (u, sub.x, 0.5 * (sub.lower + sub.upper)):
            todo = outside & ~self._carried.failed
            if not todo.any() or sub.out_of_time:
                break
            v = torch.where(todo[sub.group], interior(guess, sub, 1e-2), u).requires_grad_(True)
            h = sub.parts(v)[1]
            # h in units of what it changes by over a part of the box
            reach = grad(torch.relu(torch.where(rows, h, 0.0)).sum(), v, twice=False) * (
                sub.upper - sub.lower
            )
            unit = torch.maximum(worst(h), 0.1 * sub.sum_by_group(reach.abs()))
            unit = torch.where(todo & (unit > 0), unit, 1.0)

            def parts(v: Tensor, unit: Tensor = unit) -> tuple[Tensor, Tensor]:
                return v[p:], sub.parts(v[:p])[1] / unit[group] - v[p:][group]

            t = worst(h).clamp(min=0) / unit + 0.5
            box = (torch.cat([sub.lower, 0 * t - 1]), torch.cat([sub.upper, 2 * t + 1]))
            groups = (torch.cat([sub.group, torch.arange(sub.n_groups)]), group, sub.n_groups)
            kappa = torch.cat([torch.ones(2 * (p + len(t)), dtype=u.dtype), rows.to(u.dtype)])
            at = BarrierPoint(
                BarrierProblem(parts, box, groups, rows, kappa, 0.0), torch.cat([v.detach(), t])
            )
            at, _ = self._follow(
                sub, at, torch.full_like(t, 0.1), 0.1 * kappa / at.slack, 1e-6, todo
            )
            end = at.u.detach()[:p]
            found = todo & (worst(sub.parts(end)[1]) < 0)
            u = torch.where(found[sub.group], end, u)
            outside = outside & ~found
        self._carried.failed = self._carried.failed | outside
        return u, ~outside

    def _lbfgsb(self, sub: NNSubproblem, f: BarrierProblem, u: Tensor) -> Tensor:
        """L-BFGS-B, with each row's logarithm continued by a parabola below a small slack: SciPy's
        line search needs a finite value everywhere. A group that ends outside goes back and tries
        with a smaller one.
        """
        from scipy.optimize import minimize

        p = len(u)
        barred = f.barred
        kappa = f.kappa[2 * p :]
        group = sub.constraint_group
        slack = BarrierPoint(f, u).slack[2 * p :]
        last = self._carried.end
        mu = self.mu if barred.any() else last
        small = KEEP * slack

        def value_and_slope(v: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.tensor(v, requires_grad=True)
            phi, h = f.parts(point)
            below = torch.clamp(-h / small - 1, max=0)
            logs = torch.log(torch.maximum(-h, small)) + below - 0.5 * below**2
            value = (phi.sum() - mu * torch.where(barred, kappa * logs, 0.0).sum()) / f.convexity
            return finite(value.detach()).item(), finite(grad(value, point, twice=False)).numpy()

        def in_time(_: np.ndarray) -> None:
            if sub.out_of_time:
                raise StopIteration

        bounds = np.stack([f.lower.numpy(), f.upper.numpy()], axis=1)
        options = {"maxiter": self.steps, "ftol": 1e-15, "gtol": 1e-9}
        for _ in range(self.steps):
            result = minimize(
                value_and_slope,
                u.numpy(),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=options,
                callback=in_time,
            )
            end = torch.tensor(result.x)
            left = torch.where(barred, -f.parts(end)[1].detach(), 1.0)
            lost = sub.sum_by_group((left <= 0).to(u.dtype), group) > 0
            u = torch.where(lost[f.group], u, end)
            small = torch.where(lost[group], 0.01 * small, KEEP * left)
            if (mu <= last and not lost.any()) or sub.out_of_time:
                break
            mu = mu if lost.any() else max(last, self.shrink * mu)
        return u

    def __repr__(self) -> str:
        return f"LogBarrier(method={self.method!r}, mu={self.mu:g}, mu_final={self.mu_final:g})"


def interior(u: Tensor, sub: NNSubproblem, share: float) -> Tensor:
    """u moved inside the box by a share of its width (and by more than rounding)."""
    room = torch.maximum(
        share * (sub.upper - sub.lower), 1e-14 * torch.maximum(sub.lower.abs(), sub.upper.abs())
    )
    return torch.clamp(u, sub.lower + room, sub.upper - room)
