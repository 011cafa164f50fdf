r"""The NN block by a logarithmic barrier: Newton's method strictly inside the box and the rows $h(u) < 0$."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ..errors import ProblemError
from .nn import NNSubproblem

KEEP = 0.005
"""Share of each slack that a step leaves: the rest is the fraction to the boundary."""
CENTRED, PASSING = 1e-2, 10.0
"""A point is near enough to the path when its Newton decrement is this share of the gap mu sum(kappa)."""
FORCING = 0.1
"""Conjugate gradients stop when they have reduced the residual by this factor."""
TRIES, CUT = 4, 0.2
SHORT = 0.0
"""Step lengths tried, and by what factor each is shorter: ReLU kinks would refuse any number of them."""
NOISE = 1e-14


class Inside:
    r"""$\min\ \varphi(u)$ over $l < u < r$ and $h_j(u) < 0$ for the rows in `barred`; all of it falls into groups.

    `parts(u)` gives phi by group and h; `kappa` weighs the logarithms of the lower sides, the upper sides, the rows;
    `convexity` is a curvature that phi has by design, for the preconditioner.
    """

    def __init__(
        self,
        parts: Callable[[Tensor], tuple[Tensor, Tensor]],
        box: tuple[Tensor, Tensor],
        groups: tuple[Tensor, Tensor, int],
        barred: Tensor,
        kappa: Tensor,
        convexity: float,
    ) -> None:
        self.parts, self.barred, self.kappa, self.convexity = parts, barred, kappa, convexity
        self.lower, self.upper = box
        self.group, row_group, self.n_groups = groups
        self.side_group = torch.cat([self.group, self.group, row_group])
        self.gap = self.total(kappa)

    def total(self, values: Tensor) -> Tensor:
        """Sums by group, of coordinates or of sides."""
        group = self.group if len(values) == len(self.group) else self.side_group
        return values.new_zeros(self.n_groups).index_add(0, group, values)


class Point:
    """A point u with phi, h and the slacks there; `differentiate` adds what Newton's method needs."""

    def __init__(self, f: Inside, u: Tensor) -> None:
        self.f = f
        with torch.enable_grad():
            self.u = u.detach().requires_grad_(True)
            self.values, self.h = f.parts(self.u)
        self.phi = finite(self.values.detach())
        rows = torch.where(f.barred, -finite(self.h.detach()), 1.0)
        self.slack = torch.cat([u - f.lower, f.upper - u, rows])
        self.logs = f.total(f.kappa * torch.log(self.slack))  # outside: NaN, which no test accepts

    def differentiate(self, dual: Tensor) -> None:
        r"""Graphs of $\nabla\varphi$ and of $\sum_j (\kappa_j / s_j) \nabla h_j$, whose derivatives along v make up
        $Hv$; the curvature of side j is $z_j / s_j$, with the dual estimate $z_j$ for the path's $\mu\kappa_j/s_j$."""
        p, weight, curvature = len(self.u), self.f.kappa / self.slack, dual / self.slack
        self.box_pull = weight[p : 2 * p] - weight[:p]
        self.box_bend = (weight / self.slack)[: 2 * p].view(2, p).sum(0)
        self.box_curvature = curvature[:p] + curvature[p : 2 * p]
        total, self.row_pull = self.values.sum(), torch.zeros_like(self.box_pull)
        with torch.enable_grad():
            if len(self.h):
                total = total + 0.5 * (curvature[2 * p :] * (self.h - self.h.detach()) ** 2).sum()
                self.row_pull = grad((weight[2 * p :] * self.h).sum(), self.u)
            self.slope = grad(total, self.u)
        finite(self.slope.detach() + self.row_pull.detach())

    def gradient(self, mu: Tensor) -> Tensor:
        """Gradient of the barrier function."""
        return self.slope.detach() + mu[self.f.group] * (self.row_pull.detach() + self.box_pull)

    def hessian_times(self, v: Tensor, mu: Tensor) -> Tensor:
        """Hessian of the barrier function times v, by one backward pass through the graph of the gradient."""
        along = (self.slope * v).sum() + (self.row_pull * (mu[self.f.group] * v)).sum()
        product = self.box_curvature * v  # all there is where phi and h are piecewise linear
        return product + grad(along, self.u, twice=False) if along.requires_grad else product


def newton_direction(at: Point, slope: Tensor, mu: Tensor, live: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Preconditioned conjugate gradients on H d = -slope, all groups at once, each with its own step lengths.

    A group that meets negative curvature keeps what it has so far, or else takes steepest descent.
    """
    f, inverse = at.f, 1 / (at.f.convexity + at.box_curvature)
    d, r = torch.zeros_like(slope), torch.where(live[f.group], -slope, 0.0)
    p = inverse * r
    size = f.total(r * p)
    goal = torch.minimum(FORCING**2 * size, 0.5 * CENTRED * mu * f.gap).clamp(min=1e-12 * size)
    for k in range(steps):
        hp = at.hessian_times(p, mu)
        bend = f.total(p * hp)
        concave = live & (bend <= 1e-12 * f.total(p * p / inverse))
        if k == 0:
            d = torch.where(concave[f.group], p, d)
        live = live & ~concave
        length = torch.where(live, size / bend, 0.0)[f.group]
        d, r, before = d + length * p, r - length * hp, size
        size = f.total(r * r * inverse)
        live = live & (size > goal)
        if not live.any():
            break
        p = torch.where(live[f.group], inverse * r + (size / before)[f.group] * p, 0.0)
    return d, size


class LogBarrier:
    r"""Newton's method on $\Phi_\mu(u) = \varphi(u) - \mu \sum_j \kappa_j \log s_j(u)$ with $\mu \to 0$.

    The slacks $s_j$ are those of both sides of the box, $u_i - l_i$ and $r_i - u_i$, and of the rows, $-h_j(u)$. The
    weights make $\mu$ a plain number: $\kappa_i = \rho (r_i - l_i)^2$ for the box and the group's mean of these for a
    row. On a convex problem $\varphi(u_\mu) - \varphi^\star \le \mu \sum_j \kappa_j$, hence
    $\lVert u_\mu - u^\star \rVert^2 \le 2 \mu \sum_j \kappa_j / \rho$.

    A call starts with $\mu$ as large as the step ahead asks for, at most `mu`, and multiplies it by `shrink` whenever
    a group of inputs is near its minimiser. The first call ends at $\sqrt{\mu \mu_{final}}$, each later one `shrink`
    times lower, down to `mu_final`: with the same final $\mu$ for ever u would not reach an x on the boundary.
    Steps keep 0.5 % of every slack, then satisfy Armijo's rule. Rows without a strictly feasible start get one by
    phase I (min t subject to h <= t); where that fails, and for equalities, the squared hinge of `PGD` stands in, and
    `phase_one` says so ("ok", "failed" or "no rows").

    ``method="lbfgsb"`` hands box and gradient to SciPy's L-BFGS-B, with the barrier for the rows alone.
    `callback(u, mu)` is called after each Newton step, with one mu for each group.

    >>> LogBarrier(mu_final=1e-8)
    LogBarrier(method='newton', mu=0.01, mu_final=1e-08)
    """

    def __init__(
        self,
        method: str = "newton",
        mu: float = 1e-2,
        mu_final: float = 1e-12,
        shrink: float = 0.1,
        steps: int = 10,
        cg_steps: int = 50,
        primal_dual: bool = True,
        callback: Callable[[np.ndarray, np.ndarray], None] | None = None,
    ) -> None:
        if method not in ("newton", "lbfgsb"):
            raise ValueError(f"method={method!r} is unknown; choose 'newton' or 'lbfgsb'.")
        if not 0 < mu_final <= mu < np.inf:
            raise ValueError(f"mu={mu}, mu_final={mu_final}: 0 < mu_final <= mu is needed.")
        if not 0 < shrink < 1:
            raise ValueError(f"shrink={shrink} must lie between 0 and 1.")
        if min(steps, cg_steps) < 1:
            raise ValueError(f"steps={steps}, cg_steps={cg_steps}: at least one of each is needed.")
        self.method, self.mu, self.mu_final, self.shrink = method, mu, mu_final, shrink
        self.steps, self.cg_steps, self.primal_dual, self.callback = steps, cg_steps, primal_dual, callback
        self.phase_one: str | None = None
        self._end = float(np.sqrt(mu * mu_final))
        self._dual, self._failed = torch.zeros(0), torch.zeros(0, dtype=torch.bool)

    @classmethod
    def paper(cls, method: str = "newton") -> LogBarrier:
        """The paper's block: damped Newton steps of five CG steps each, mu <- 0.1 mu, the same mu in every call.

        It names no values of mu; these end where the barrier moves u by the paper's tolerance of 1e-4.
        """
        block = cls(method, mu=1e-2, mu_final=1e-8, shrink=0.1, cg_steps=5, primal_dual=False)
        block._end = block.mu_final
        return block

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Approximate minimiser of `sub`, started at `u`."""
        first = not len(self._failed)
        if first:
            self._failed = torch.zeros(sub.n_groups, dtype=torch.bool)
        start = interior(torch.tensor(u), sub, 1e-2 if first else 1e-12)
        rows, self.phase_one = sub.row_has_interior, "no rows"
        if rows.any():
            start, inside = self._phase_one(sub, start)
            rows = rows & inside[sub.row_group]
            self.phase_one = "failed" if self._failed.any() else "ok"
        hinged = ~rows

        def parts(v: Tensor) -> tuple[Tensor, Tensor]:
            phi, h = sub.parts(v)
            return (phi + sub.hinge(h, rows=hinged) if hinged.any() else phi), h

        box = sub.rho.inputs * (sub.upper - sub.lower) ** 2
        mean = sub.sum_by_group(box) / sub.sum_by_group(torch.ones_like(box))
        kappa = torch.cat([box, box, torch.where(rows, mean[sub.row_group], 0.0)])
        groups = (sub.group, sub.row_group, sub.n_groups)
        f = Inside(parts, (sub.lower, sub.upper), groups, rows, kappa, sub.rho.inputs)
        end = self._lbfgsb(sub, f, start) if self.method == "lbfgsb" else self._newton(sub, f, start)
        self._end = max(self.mu_final, self.shrink * self._end)
        return end.numpy()

    def _newton(self, sub: NNSubproblem, f: Inside, u: Tensor) -> Tensor:
        at = Point(f, u)
        known = self._dual if len(self._dual) == len(f.kappa) else torch.zeros_like(f.kappa)
        slope = grad(at.values.sum() + known[2 * len(u) :] @ at.h, at.u, twice=False)
        ahead = torch.clamp(u - slope / f.convexity, f.lower, f.upper)
        step = (ahead - u).abs() / (f.upper - f.lower)
        farthest = step.new_zeros(f.n_groups).scatter_reduce(0, f.group, step, "amax")
        mu = farthest.square().clamp(self._end, self.mu)
        dual = torch.where(known > 0, known, f.kappa * mu[f.side_group] / at.slack)
        at, self._dual = self._follow(sub, at, mu, dual, self._end, self.steps, callback=self.callback)
        return at.u.detach()

    def _follow(
        self,
        sub: NNSubproblem,
        at: Point,
        mu: Tensor,
        dual: Tensor,
        end: float,
        steps: int,
        live: Tensor | None = None,
        callback: Callable[[np.ndarray, np.ndarray], None] | None = None,
    ) -> tuple[Point, Tensor]:
        """Follow the path of the minimisers of Phi_mu down to mu = `end`, each group at its own pace."""
        f, stuck = at.f, torch.zeros(at.f.n_groups, dtype=torch.bool)
        live = ~stuck if live is None else live
        left = residual = torch.full_like(mu, torch.inf)
        longest = torch.ones_like(mu)
        for _ in range(steps):
            at.differentiate(dual)
            decrement = f.total(at.gradient(mu) ** 2 / (f.convexity + mu[f.group] * at.box_bend))
            enough = mu * f.gap
            centred = stuck | (torch.minimum(decrement, left) <= CENTRED * enough)
            centred = centred | ((residual <= PASSING * enough) & (mu > end))
            live = live & ~(centred & (mu <= end))
            if not live.any() or sub.out_of_time:
                break
            # a group that no step improves sits at a kink: it has one more try, at the end of the path
            lower = torch.minimum(self.shrink * mu, mu**1.5 if self.primal_dual else mu).clamp(min=end)
            mu = torch.where(centred, torch.where(stuck, end, lower), mu)
            slope = at.gradient(mu)
            d, residual = newton_direction(at, slope, mu, live, self.cg_steps)
            promise = -f.total(slope * d)
            new, length = self._search(at, d, promise, mu, longest)
            stuck = length == 0
            longest = torch.where(stuck, 1.0, (length / CUT).clamp(max=1.0))
            sides, target = length[f.side_group], f.kappa * mu[f.side_group]
            path = target / new.slack
            estimate = dual + sides * (target / at.slack - dual) - dual * (new.slack / at.slack - 1)
            dual = torch.maximum(estimate, KEEP * dual).clamp(1e-8 * path, 1e8 * path) if self.primal_dual else path
            off = f.total(((dual - path).abs() > 0.5 * path).double())
            # what a full step leaves of the gradient, and a bound for what it left of the model
            residual = torch.where((length == 1) & (off == 0), residual, torch.inf)
            left = torch.maximum(promise, residual)
            at = new
            if callback is not None:
                callback(at.u.detach().numpy(), mu.numpy())
        return at, dual

    def _search(self, at: Point, d: Tensor, promise: Tensor, mu: Tensor, longest: Tensor) -> tuple[Point, Tensor]:
        """The longest of the tried steps that keeps a share of all slacks and satisfies Armijo's rule, by group."""
        f = at.f
        ratio = (1 - KEEP) * at.slack[: 2 * len(d)] / torch.cat([-d, d]).clamp(min=1e-300)
        length = longest.scatter_reduce(0, f.side_group[: len(ratio)], ratio, "amin")
        before = at.phi - mu * at.logs + NOISE * (at.phi.abs() + f.gap)
        for attempt in range(TRIES + 1):
            new = Point(f, at.u.detach() + length[f.group] * d)
            lost = f.total((new.slack < 0.99 * KEEP * at.slack).double())
            ok = (lost == 0) & (new.phi - mu * new.logs <= before - 1e-4 * length * promise)
            if ok.all():
                break
            length = torch.where(ok, length, CUT * length if attempt < TRIES - 1 else 0.0)
        return new, length

    def _phase_one(self, sub: NNSubproblem, u: Tensor) -> tuple[Tensor, Tensor]:
        """A start strictly inside the rows for the groups that lack one, by min t subject to h <= t; who has one."""
        p, rows, group = len(u), sub.row_has_interior, sub.row_group

        def worst(h: Tensor) -> Tensor:
            h = torch.where(rows, finite(h.detach()), -torch.inf)
            return h.new_full((sub.n_groups,), -torch.inf).scatter_reduce(0, group, h, "amax")

        outside = worst(sub.parts(u)[1]) >= 0
        for guess in (u, sub.x, 0.5 * (sub.lower + sub.upper)):
            todo = outside & ~self._failed
            if not todo.any():
                break
            v = torch.where(todo[sub.group], interior(guess, sub, 1e-2), u).requires_grad_(True)
            h = sub.parts(v)[1]
            # h in units of what it changes by over a part of the box
            reach = grad(torch.relu(torch.where(rows, h, 0.0)).sum(), v, twice=False) * (sub.upper - sub.lower)
            unit = torch.maximum(worst(h), 0.1 * sub.sum_by_group(reach.abs()))
            unit = torch.where(todo & (unit > 0), unit, 1.0)

            def parts(v: Tensor, unit: Tensor = unit) -> tuple[Tensor, Tensor]:
                return v[p:], sub.parts(v[:p])[1] / unit[group] - v[p:][group]

            t = worst(h).clamp(min=0) / unit + 0.5
            box = (torch.cat([sub.lower, 0 * t - 1]), torch.cat([sub.upper, 2 * t + 1]))
            groups = (torch.cat([sub.group, torch.arange(sub.n_groups)]), group, sub.n_groups)
            kappa = torch.cat([torch.ones(2 * (p + len(t)), dtype=u.dtype), rows.to(u.dtype)])
            at = Point(Inside(parts, box, groups, rows, kappa, 0.0), torch.cat([v.detach(), t]))
            at, _ = self._follow(sub, at, torch.full_like(t, 0.1), 0.1 * kappa / at.slack, 1e-6, 5 * self.steps, todo)
            end = at.u.detach()[:p]
            found = todo & (worst(sub.parts(end)[1]) < 0)
            u, outside = torch.where(found[sub.group], end, u), outside & ~found
        self._failed = self._failed | outside
        return u, ~outside

    def _lbfgsb(self, sub: NNSubproblem, f: Inside, u: Tensor) -> Tensor:
        """L-BFGS-B, with each row's logarithm continued by a parabola below a small slack: SciPy's line search
        needs a finite value everywhere. A group that ends outside goes back and tries with a smaller one."""
        p, barred = len(u), f.barred
        kappa, group, slack = f.kappa[2 * p :], sub.row_group, Point(f, u).slack[2 * p :]
        mu, small = (self.mu if barred.any() else self._end), KEEP * slack

        def value_and_slope(v: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.tensor(v, requires_grad=True)
            phi, h = f.parts(point)
            below = torch.clamp(-h / small - 1, max=0)
            logs = torch.log(torch.maximum(-h, small)) + below - 0.5 * below**2
            value = (phi.sum() - mu * torch.where(barred, kappa * logs, 0.0).sum()) / f.convexity
            return finite(value.detach()).item(), finite(grad(value, point, twice=False)).numpy()

        bounds = np.stack([f.lower.numpy(), f.upper.numpy()], axis=1)
        options = {"maxiter": self.steps, "ftol": 1e-15, "gtol": 1e-9}
        for _ in range(self.steps):
            result = minimize(value_and_slope, u.numpy(), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            end = torch.tensor(result.x)
            left = torch.where(barred, -f.parts(end)[1].detach(), 1.0)
            lost = sub.sum_by_group((left <= 0).to(u.dtype), group) > 0
            u = torch.where(lost[f.group], u, end)
            small = torch.where(lost[group], 0.01 * small, KEEP * left)
            if (mu <= self._end and not lost.any()) or sub.out_of_time:
                break
            mu = mu if lost.any() else max(self._end, self.shrink * mu)
        return u

    def __repr__(self) -> str:
        return f"LogBarrier(method={self.method!r}, mu={self.mu:g}, mu_final={self.mu_final:g})"


def interior(u: Tensor, sub: NNSubproblem, share: float) -> Tensor:
    """u moved inside the box by a share of its width (and by more than rounding)."""
    room = torch.maximum(share * (sub.upper - sub.lower), 1e-14 * torch.maximum(sub.lower.abs(), sub.upper.abs()))
    return torch.clamp(u, sub.lower + room, sub.upper - room)


def grad(of: Tensor, u: Tensor, twice: bool = True) -> Tensor:
    """Gradient of a scalar with respect to u, with a graph of its own if `twice`."""
    try:
        (slope,) = torch.autograd.grad(of, u, retain_graph=True, create_graph=twice, allow_unused=True)
    except RuntimeError as error:
        raise ProblemError(
            f"the network cannot be differentiated twice ({error}). Newton's method needs that: use PGD() or "
            'LogBarrier(method="lbfgsb").'
        ) from error
    return torch.zeros_like(u) if slope is None else slope


def finite(values: Tensor) -> Tensor:
    """The same values, or an error that names the remedy."""
    if not torch.isfinite(values).all():
        raise ProblemError(
            "the network's value or gradient is NaN or infinite inside the box of its inputs: "
            "tighten their bounds, or use a network that is finite there."
        )
    return values
