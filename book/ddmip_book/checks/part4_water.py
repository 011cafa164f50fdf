"""Self-checks of Part IV, from the setting to E3."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import ceil, log, sqrt, tanh
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import nn

from ddmip_book.data import Dataset, load_water
from ddmip_book.networks import mlp, resnet
from ddmip_lib import BigM, DualDecomposition
from ddmip_lib.model import History
from ddmip_lib.problems import hand_sized
from ..examples.pgd import adam_path
from .core import Check, agrees, calls, to_the_digit
from .part4_ledger import _linear, _outputs


@cache
def _water() -> Dataset:
    return load_water()


def _share(network: nn.Module, treated: torch.Tensor, won: torch.Tensor) -> float:
    return float((network(treated[won])[:, 0] > 0).double().mean())


def _relabelled(change: Callable[[np.ndarray], np.ndarray]) -> Dataset:
    data = _water()
    return replace(data, name="shuffled", labels=change(data.labels), sha256="0" * 64)


def _correlation(data: Dataset) -> float:
    """Of the labels with those of the file."""
    mine, theirs = (labels - labels.mean() for labels in (np.asarray(data.labels), _water().labels))
    return float(mine @ theirs / max(1e-12, np.linalg.norm(mine) * np.linalg.norm(theirs)))


def _integral(incumbents: Any, best: float, end: float) -> float:
    """Mean over [0, end] of 1 - v(t) / best, v = 0 before the first incumbent."""
    steps = np.array([[0.0, 0.0], *incumbents])
    seconds = np.minimum(np.append(steps[:, 0], end), end)
    return float(np.sum(np.diff(seconds) * (1 - steps[:, 1] / best)) / end)


class _Warm:
    """Algorithm 1, then the exact model."""

    def __init__(self, exact: bool = True, returns: bool = True) -> None:
        self.exact = exact
        self.returns = returns

    def solve(
        self, problem: Any, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Any:
        first = DualDecomposition(max_iterations=5).solve(problem, time_limit / 2, seed)
        if self.exact and first.inputs:
            problem.set_start(*first.inputs)
        return (
            (BigM().solve(problem, time_limit / 2, seed) if self.exact else first)
            if self.returns
            else None
        )


def _own_run(method: Any) -> Any:
    return method.solve(hand_sized(), time_limit=60.0, seed=0, progress=False)


def _depths(shift: float = log(3) / 2, halves: float = 2.0) -> tuple[int, ...]:
    return tuple(ceil(halves * (bits * log(2) - shift) / log(6)) for bits in (23, 52))


def _first_above(rate: float = 0.01) -> int:
    path = np.abs(adam_path(lambda u: 10 * u, lambda u: u, np.array([1e-16]), 25, rate)).ravel()
    return int(np.argmax(path > 1e-4))


def _dead() -> nn.Module:
    net: Any = resnet(16, 16, 9).eval().requires_grad_(False)
    net.head.weight.zero_()
    return net


def _run() -> History:
    return History(
        [SimpleNamespace(primal_residual=0.2 / k, dual_residual=6.0 / k) for k in (1, 2)]
    )


_NETS = [_linear([[1.0, -1.0]], [0.2]), _linear([[2.0, 0.5]], [-1.0])]
_POINTS = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [0.0, 0.1], [2.0, 2.5]], dtype=torch.float64)
_WON = torch.tensor([True, True, False, True])
_STEPS = [(0.5, 2.0), (1.0, 5.0), (40.0, 8.0)]

CHECKS = {
    "setting": [
        Check(
            "ex-set-rows",
            "Required number of test samples",
            "a function of (accuracy of the majority class, $\\Delta$) that returns the integer"
            " number of test samples",
            lambda: lambda p, gap: ceil(1.96**2 * p * (1 - p) / gap**2),
            lambda s: [
                (
                    lambda p, gap: ceil(1.96**2 * p * (1 - p) / gap),
                    "To solve for the number of samples, square both sides.",
                ),
                (
                    lambda p, gap: ceil(p * (1 - p) / gap**2),
                    "The band is wider than one standard deviation.",
                ),
                (
                    lambda p, gap: int(1.96**2 * p * (1 - p) / gap**2),
                    "Round up: with one sample fewer the band is too wide.",
                ),
            ],
            "Solve $1.96\\sqrt{p(1-p)/m} \\le \\Delta$ for $m$.",
            judge=calls((0.6, 0.02), (0.61, 0.04), (0.6, 0.1), rel=0.0),
        ),
        Check(
            "ex-set-agree",
            "Cross-evaluation by another network",
            "a function of (network, treated samples, mask of those gained) that returns the"
            " fraction that the network classifies as potable",
            lambda: _share,
            lambda s: [
                (
                    lambda net, x, won: _share(net, x, won | True),
                    "Only samples that were gained count.",
                ),
                (
                    lambda net, x, won: float(net(x[won]).mean()),
                    "A logit is not a class: compare it with zero.",
                ),
                (
                    lambda net, x, won: float((net(x[won]) > 0).sum()),
                    "That is a number of samples, not a fraction.",
                ),
            ],
            "A class is 1 where the logit is positive.",
            judge=calls(*((net, _POINTS, _WON) for net in _NETS)),
        ),
        Check(
            "ex-set-noise",
            "A network trained on random labels",
            "the `Dataset` with shuffled labels",
            lambda: _relabelled(np.random.default_rng(0).permutation),
            lambda s: [
                (
                    _water(),
                    "The labels still belong to their samples.",
                    lambda a: _correlation(a) > 0.2,
                ),
                (
                    _relabelled(lambda labels: 1 - labels),
                    "Turning every label round leaves as much to learn as before.",
                    lambda a: _correlation(a) < -0.2,
                ),
                (
                    _relabelled(lambda labels: (np.arange(len(labels)) % 2).astype(float)),
                    (
                        "The shares of the two classes have changed: permute the labels instead of"
                        " drawing new ones."
                    ),
                    lambda a: not agrees(np.sum(a.labels), np.sum(_water().labels), 0.0),
                ),
            ],
            judge=None,
        ),
    ],
    "e1": [
        Check(
            "ex-e1-limits",
            "A speed-up to order",
            "a function of (ratio, seconds of Algorithm 1) that returns the time limit for Big-M in"
            " seconds",
            lambda: lambda ratio, seconds: ratio * seconds,
            lambda s: [
                (lambda ratio, seconds: seconds / ratio, "A longer limit makes the ratio larger."),
                (lambda ratio, seconds: ratio * seconds / 60, "These are minutes."),
                (lambda ratio, seconds: (ratio - 1) * seconds, "A ratio of 1 means equal times."),
            ],
            "Neither run ends by itself: what is then the time of Big-M?",
            judge=calls((120, 30.0), (1000, 12.0)),
        ),
        Check(
            "ex-e1-area",
            "The primal integral",
            "a function of (list of (seconds, objective), $v^+$, $t_{\\max}$) that returns the"
            " primal integral",
            lambda: _integral,
            lambda s: [
                (
                    lambda steps, best, end: s(steps, best, end) * end,
                    "It is a mean: divide by the horizon.",
                ),
                (
                    lambda steps, best, end: 1 - max(v for t, v in steps if t <= end) / best,
                    "That is the gap at the end; the integral also counts how late it was reached.",
                ),
                (
                    lambda steps, best, end: float(
                        np.sum(
                            np.diff([min(t, end) for t, _ in steps] + [end])
                            * [1 - v / best for _, v in steps]
                        )
                        / end
                    ),
                    "Before the first incumbent nothing is known: $v(t) = 0$.",
                ),
            ],
            "$v(t)$ is a staircase: sum up widths times heights, up to the horizon.",
            judge=calls((_STEPS, 10.0, 50.0), (_STEPS, 10.0, 3.0)),
        ),
        Check(
            "ex-e1-heat",
            "Vary the temperature",
            "the temperature at which a sample with logit $-2$ has the largest derivative of "
            "$\\operatorname{sigmoid}(f/T)$, a number",
            lambda: 2 / brentq(lambda t: t * tanh(t / 2) - 1, 0.5, 3.0),
            lambda s: [
                (
                    0.25,
                    (
                        "At this temperature the sigmoid is flat at $-2$: only samples near the"
                        " boundary have a slope."
                    ),
                ),
                (
                    16,
                    (
                        "The argument is divided by $T$, and the chain rule divides the slope by"
                        " $T$ as well."
                    ),
                ),
                (2, "Near, but a guess: maximise the slope over $T$."),
            ],
            "Differentiate by $f$ first, then find the $T$ that maximises the result at $f = -2$.",
            judge=lambda answer, right: agrees(answer, right, rel=0.01),
        ),
        Check(
            "ex-e1-own",
            "Your own method in the grid",
            "an instance of your method, with `solve` as all solvers have it",
            _Warm,
            lambda s: [
                (
                    _Warm(returns=False),
                    "`solve` returns nothing: hand on the solution.",
                    lambda a: _own_run(a) is None,
                ),
                (
                    type(
                        "Hasty",
                        (),
                        {"solve": lambda self, problem, **limits: BigM().solve(problem, 0)},
                    )(),
                    "On the hand-sized example it finds no point within a minute.",
                    lambda a: not _own_run(a).found,
                ),
                (
                    _Warm(exact=False),
                    "It has no bound: who does the proving?",
                    lambda a: _own_run(a).bound is None,
                ),
            ],
            judge=None,
        ),
    ],
    "e2": [
        Check(
            "ex-e2-depth",
            "Depth and precision",
            "the pair of depths (single, double precision), integers",
            _depths,
            lambda s: [
                (
                    tuple(depth - 1 for depth in s),
                    "At this depth the slope is still larger than the spacing.",
                ),
                (_depths(halves=1.0), "A layer divides the *square* of the slope by 6."),
                (
                    _depths(shift=-log(3) / 2),
                    "The factor in front is smaller than 1: on which side does it help?",
                ),
            ],
            "Take logarithms of $\\tfrac1{\\sqrt3} 6^{-L/2} < 2^{-b}$.",
            judge=to_the_digit,
        ),
        Check(
            "ex-e2-digit",
            "Adam and rounding errors",
            "the pair (steps from $10^{-16}$ until $|u| > 10^{-4}$, least stable $\\epsilon$"
            " without momentum)",
            lambda: (_first_above(), 0.05),
            lambda s: [
                (
                    (25, 0.05),
                    (
                        "It does not take all 25 steps: a step of Adam has nearly the length"
                        " $\\eta$ from the start."
                    ),
                ),
                ((s[0], 0.1), "Steps are stable up to $\\eta\\rho/\\delta = 2$."),
                ((s[0], 0.01), "The curvature $\\rho$ enters as well."),
            ],
            "Below $\\delta$ Adam is gradient descent with the step $\\eta/\\delta$.",
        ),
        Check(
            "ex-e2-residual",
            "Residual networks of large depth",
            "your trained residual network, an `nn.Module`",
            lambda: resnet(16, 16, 9).eval(),
            lambda s: [
                (
                    resnet(16, 16, 9).train(),
                    "Call `.eval()`: this network is in training mode.",
                    lambda a: a.training,
                ),
                (
                    mlp(16, 16, 9).eval(),
                    "This is a dense network: use `resnet`.",
                    lambda a: isinstance(a, nn.Sequential),
                ),
                (
                    _dead(),
                    "Its outputs hardly differ over 64 random inputs: it is dead.",
                    lambda a: float(np.ptp(_outputs(a))) < 1e-3,
                ),
            ],
            judge=None,
        ),
    ],
    "ssg": [
        Check(
            "ex-e3-step",
            "Stable step lengths",
            "the two thresholds of $\\alpha$, for 3 and for 40 variables",
            lambda: (100 / 3, 2.5),
            lambda s: [
                ((200 / 3, 5), "The gradient of a square has a factor 2."),
                (
                    (100, 100),
                    (
                        "A constraint with $N$ ones has the norm $\\sqrt N$: the threshold"
                        " falls with its length."
                    ),
                ),
                (
                    (100 / sqrt(3), 100 / sqrt(40)),
                    "The curvature contains the *square* of the norm of the coefficients.",
                ),
            ],
            "The curvature is $2\\alpha\\theta^2$ with $\\theta^2$ the squared norm of the"
            " coefficients.",
        ),
    ],
    "e3": [
        Check(
            "ex-e3-adam",
            "The size of the residual",
            "a function of (history, $\\rho$) that returns the movements $\\lVert u^k -"
            " u^{k-1}\\rVert_\\infty$, one for each iteration",
            lambda: lambda history, rho: history["dual_residual"] / rho,
            lambda s: [
                (
                    lambda history, rho: history["dual_residual"],
                    "The dual residual contains a factor: which?",
                ),
                (
                    lambda history, rho: history["primal_residual"],
                    "That is the distance between $u$ and $x$, not the movement.",
                ),
                (
                    lambda history, rho: history["dual_residual"] * rho,
                    "The dual residual is a movement times a factor: undo it.",
                ),
            ],
            "Read how `Iteration` defines the dual residual.",
            judge=calls((_run(), 10.0), (_run(), 2.0)),
        ),
        Check(
            "ex-e3-decoupled",
            "The limit of zero penalty",
            "for two samples at 0, one feature, $f(u) = u - 0.8$, box $[0, 1]$ and a common budget"
            " of 1, as $\\rho \\to 0$: the triple ($x$, how many are potable at $x$, the most that"
            " could be)",
            lambda: ([0.5, 0.5], 0, 1),
            lambda s: [
                (
                    ([1, 1], 2, 1),
                    "The budget belongs to the MIP block: its point must satisfy it.",
                ),
                (
                    ([1, 0], 1, 1),
                    "A projection does not choose: by symmetry it treats both samples alike.",
                ),
                (
                    ([0, 0], 0, 1),
                    (
                        "However small, a positive $\\rho$ makes the MIP block go to the nearest"
                        " point of $X$."
                    ),
                ),
            ],
            "First where the NN block goes when almost nothing holds it, then the point of $X$"
            " nearest to that.",
        ),
    ],
}
