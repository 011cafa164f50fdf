"""Self-checks of Part IV, E4, E5 and the ledger."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from ddmip_book.networks import resnet
from .core import Check, FormError, agrees, as_plain, calls, same_set


def _linear(weight: Any, bias: Any) -> nn.Linear:
    weight = torch.as_tensor(weight, dtype=torch.float64)
    bias = torch.as_tensor(bias, dtype=torch.float64)
    layer = nn.Linear(weight.shape[1], weight.shape[0]).double().requires_grad_(False)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer.eval()


def _outputs(net: Any) -> np.ndarray:
    if not isinstance(net, nn.Module):
        raise FormError("a network, an `nn.Module`, is wanted")
    dtype = next(net.parameters()).dtype
    x = torch.randn(64, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(
        dtype
    )
    with torch.no_grad():
        return net(x).double().numpy()


def _as_dense(
    layer: Callable[[Any], Any], n_in: int, flip: bool = False, keep: bool = False
) -> nn.Linear:
    with torch.no_grad():
        shift = layer(torch.zeros(1, n_in, dtype=torch.float64))
        matrix = layer(torch.eye(n_in, dtype=torch.float64)) - (0 if keep else shift)
    return _linear(matrix if flip else matrix.T, shift[0])


def _values(layer: Any) -> np.ndarray:
    with torch.no_grad():
        return layer(torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(3, 4)).numpy()


def _rewritten(carry: bool = True) -> tuple[nn.Module, nn.Module]:
    """A residual network, and the same as Linear and ReLU layers (without `carry` of -h it is not
    the same).
    """
    deep: Any = resnet(2, 3, 9, seed=1).double().eval().requires_grad_(False)
    eye = torch.eye(3, dtype=torch.float64)
    ahead = (deep.embed.weight, deep.embed.bias)
    stack = []
    for block in deep.blocks:
        inner = block[0]
        outer = block[2]
        spread = torch.cat([eye, -eye if carry else 0 * eye, inner.weight])
        shift = torch.cat([torch.zeros(6, dtype=torch.float64), inner.bias])
        stack += [_linear(spread @ ahead[0], spread @ ahead[1] + shift), nn.ReLU()]
        ahead = (torch.cat([eye, -eye, outer.weight], dim=1), outer.bias)
    return deep, nn.Sequential(*stack, _linear(*ahead), nn.ReLU(), deep.head).eval()


def _greedy(
    value: Callable[[frozenset[int]], float], sites: int, beta: int, stop: bool = True
) -> set[int]:
    chosen: frozenset[int] = frozenset()
    for _ in range(beta):
        top = max(sorted(set(range(sites)) - chosen), key=lambda i: value(chosen | {i}))
        if stop and value(chosen | {top}) <= value(chosen) + 1e-9:
            break
        chosen = chosen | {top}
    return set(chosen)


def _overlap(chosen: frozenset[int]) -> float:
    """Sites 0 and 1 help in the same way; site 3 does harm."""
    return (
        3.0 * bool(chosen & {0, 1})
        + 0.5 * (0 in chosen)
        + 2.0 * (2 in chosen)
        - 1.0 * (3 in chosen)
    )


def _sides(rule: Mapping[str, Any]) -> int:
    below, above = (
        {*pair, "equals"} & set(rule) for pair in (("min", "at_least"), ("max", "at_most"))
    )
    return bool(below) + bool(above)


def _statuses(answer: Any) -> dict[float, tuple[float, str]]:
    if not isinstance(answer, Mapping) or len(answer) < 4:
        raise FormError("a dict with at least four factors is wanted")
    return {
        float(factor): (float(as_plain(value[0])), str(value[1]))
        for factor, value in sorted(answer.items())
    }


CHECKS = {
    "e4": [
        Check(
            "ex-e4-factor",
            "The scale that suits the penalty",
            "a dict from at least four factors to the pair (potable samples, status)",
            lambda: {
                0.125: (1, "converged"),
                0.5: (3, "iteration_limit"),
                2.0: (8, "iteration_limit"),
                32.0: (2, "iteration_limit"),
            },
            lambda s: [
                (
                    {-3: s[0.125], -1: s[0.5], 1: s[2.0], 5: s[32.0]},
                    "Use the factors themselves as keys, not the powers.",
                    lambda a: min(_statuses(a)) <= 0,
                ),
                (
                    {
                        0.125: (1, "iteration_limit"),
                        0.5: (3, "converged"),
                        2.0: (8, "converged"),
                        32.0: (2, "converged"),
                    },
                    (
                        "With a small factor the slopes are small and the run hardly moves: does it"
                        " not pass the test?"
                    ),
                    lambda a: next(iter(_statuses(a).values()))[1] != "converged",
                ),
                (
                    {
                        0.125: (9, "converged"),
                        0.5: (3, "iteration_limit"),
                        2.0: (1, "iteration_limit"),
                        32.0: (0, "cycle"),
                    },
                    (
                        "A run that hardly moves should not gain the most: is the factor on the"
                        " logits?"
                    ),
                    lambda a: (
                        max(v for v, _ in _statuses(a).values())
                        <= next(iter(_statuses(a).values()))[0]
                    ),
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-e4-conv",
            "A convolution is a dense layer",
            "a function of (affine layer on flat vectors, number of inputs) that returns the"
            " `Linear` layer",
            lambda: _as_dense,
            lambda s: [
                (
                    lambda layer, n_in: _as_dense(layer, n_in, flip=True),
                    "Rows of the batch became rows of the matrix: transpose.",
                ),
                (
                    lambda layer, n_in: _as_dense(layer, n_in, keep=True),
                    "A column of $M$ is a *difference* of two values.",
                ),
                (
                    lambda layer, n_in: _linear(_as_dense(layer, n_in).weight, torch.zeros(n_in)),
                    "The value at zero is the bias.",
                ),
            ],
            "Evaluate the layer at zero and at the unit vectors.",
            judge=calls(
                *((_linear(np.tri(4), bias), 4) for bias in ([1, 0, -1, 2], np.ones(4))),
                read=_values,
            ),
        ),
        Check(
            "ex-e4-res",
            "A residual network is a dense ReLU network",
            "the pair (residual network, your network of `Linear` and `ReLU` layers)",
            _rewritten,
            lambda s: [
                (
                    (s[0], s[0]),
                    "The second network must be an `nn.Sequential` of `Linear` and `ReLU` layers.",
                    lambda a: (
                        not isinstance(a[1], nn.Sequential)
                        or not all(isinstance(layer, (nn.Linear, nn.ReLU)) for layer in a[1])
                    ),
                ),
                (
                    (s[0], nn.Sequential(s[0].embed, s[0].head)),
                    "Linear and ReLU layers should alternate.",
                    lambda a: not all(isinstance(layer, nn.ReLU) for layer in list(a[1])[1::2]),
                ),
                (
                    (s[0], _rewritten(carry=False)[1]),
                    (
                        "The outputs differ: a ReLU loses what is negative, so carry both "
                        "$h$ and $-h$."
                    ),
                    lambda a: float(np.abs(_outputs(a[0]) - _outputs(a[1])).max()) > 1e-6,
                ),
            ],
            judge=None,
        ),
    ],
    "e5": [
        Check(
            "ex-e5-shift",
            "A constant added to the objective",
            "for objective 4 at $z = 0$, optimum 5 and a run that found 4.8: the ratios at the"
            " start and the gaps closed by the run, two lists for three values of $t$",
            lambda: ([4 / 5, 14 / 15, 104 / 105], [0.8, 0.8, 0.8]),
            lambda s: [
                (([0.8, 2.8, 20.8], s[1]), "The optimum gets the trees as well."),
                (
                    (s[0], [4.8 / 5, 14.8 / 15, 104.8 / 105]),
                    "That is a ratio again: measure from where everyone starts.",
                ),
                ((s[0], [0.8, 10.8, 100.8]), "The trees are in both objectives of the difference."),
            ],
            "Add $t$ to all three objectives, then apply both formulas.",
        ),
        Check(
            "ex-e5-greedy",
            "Greedy search",
            "a function of (value, sites, beta) that returns the set of chosen sites; `value` takes"
            " a frozenset of sites",
            lambda: _greedy,
            lambda s: [
                (
                    lambda value, sites, beta: _greedy(value, sites, beta, stop=False),
                    "Stop when no flip raises the objective.",
                ),
                (
                    lambda value, sites, beta: set(
                        sorted(range(sites), key=lambda i: -value(frozenset([i])))[:beta]
                    ),
                    "Sites can help in the same way: after each choice, ask again.",
                ),
                (lambda value, sites, beta: _greedy(value, sites, sites), "At most beta sites."),
            ],
            "One site at a time, the one whose flip raises the value most.",
            judge=lambda answer, right: all(
                same_set(answer(_overlap, 5, b), right(_overlap, 5, b)) for b in (1, 2, 4)
            ),
        ),
        Check(
            "ex-e5-size",
            "Number of table entries and evaluations",
            "a function of $(b, c, k)$ that returns the number of rows",
            lambda: lambda b, c, k: 2**b * k**c,
            lambda s: [
                (
                    lambda b, c, k: 2 * b * k * c,
                    "Choices multiply: each further input multiplies the number of rows.",
                ),
                (
                    lambda b, c, k: 2**b + k**c,
                    "Every choice of binaries goes with every choice of levels.",
                ),
                (
                    lambda b, c, k: 2**c * k**b,
                    "Which inputs have two values, and which have k levels?",
                ),
            ],
            "How many values has one input of each kind?",
            judge=calls((2, 3, 5), (1, 2, 3)),
        ),
    ],
    "claims": [
        Check(
            "ex-ledger-grim",
            "Possible convergence rates",
            "the pair (whether E2's rate is possible, list of all numbers of runs with which every"
            " rate is)",
            lambda: (True, [100]),
            lambda s: [
                ((False, [100]), "How many of five runs would converge?"),
                ((True, [50, 100]), "With fifty runs, which odd rates can occur?"),
                (
                    (True, [99, 100]),
                    (
                        "With ninety-nine runs there are a hundred possible rates, and one hundred"
                        " and one to round to."
                    ),
                ),
            ],
            "Count the distinct values of k over the number of runs, rounded to two digits.",
            judge=lambda answer, right: agrees(answer[0], right[0]) & same_set(answer[1], right[1]),
        ),
        Check(
            "ex-ledger-middle",
            "Bounds on an unprinted time",
            "the pair (least, greatest time in seconds) that both ranges allow",
            lambda: (13 * 24.8, 280 * 1.4),
            lambda s: [
                ((130 * 1.4, 16 * 24.8), "That is what at least one range allows; both must."),
                (
                    (13 * 24.8, 16 * 24.8),
                    "That is the barrier's range: what does PGD's say about its upper end?",
                ),
                (
                    (130 * 1.4, 280 * 1.4),
                    "That is PGD's range: what does the barrier's say about its lower end?",
                ),
            ],
            "A speed-up times the method's time is SCIP's time.",
            judge=lambda answer, right: agrees(answer, right, rel=2e-3),
        ),
        Check(
            "ex-ledger-limits",
            "Sensitivity to the limits of verdicts",
            "for your factors 1.5 and 5: the two intervals (low, high) of the common factor in"
            " which the verdicts differ",
            lambda: [(1.5, 2), (5, 10)],
            lambda s: [
                (
                    [(1.5, 5), (2, 10)],
                    "Go through the factors in order: at 3, what does each pair of limits say?",
                ),
                ([(1, 1.5), (2, 5)], "Between 1 and 1.5 both verdicts are the same."),
                (
                    [(1.5, 2), (2, 5)],
                    "Between 2 and 5 both verdicts are the same; look further up.",
                ),
            ],
            "Draw both pairs of limits on one line.",
        ),
        Check(
            "ex-ledger-audit",
            "Consistency of the numeric results of another paper",
            "your function of a rule (a dict) that returns how many sides of the number it holds:"
            " 0, 1 or 2",
            lambda: _sides,
            lambda s: [
                (len, "A rule has other entries too, and `equals` holds both sides."),
                (lambda rule: int(bool(rule)), "A number can be held from two sides."),
                (
                    lambda rule: (
                        ("min" in rule or "at_least" in rule) + ("max" in rule or "at_most" in rule)
                    ),
                    "Equality holds a number from both sides.",
                ),
            ],
            "The names are `min`, `at_least`, `max`, `at_most` and `equals`.",
            judge=calls(
                ({"min": 1, "max": 2},),
                ({"equals": 3, "why": ""},),
                ({"at_most": 1, "why": ""},),
                ({"at_least": 1},),
            ),
        ),
    ],
}
