"""The paper's own figures held against each other: no run is needed, only arithmetic and the
library.
"""

import math
from importlib.metadata import version

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_book.networks import conv1d, mlp
from ddmip_book.problems import tree_planting
from ddmip_lib import NeuralMIP, SingleStepGradient
from ddmip_lib.bounds import flat_layers
from .finding import CHANGED, FAILS, HOLDS, NOT_SHOWN, arithmetic, check, comma_list

HEADLINE_DD = 8.7
HEADLINE_EXACT = 900.0
"""Seconds on the X-Large case, 500 samples (introduction)."""
E1_SIZES_PRINTED = (25, 50, 100, 200, 400)
E3_SIZES_PRINTED = (20, 40, 60, 80)
E3_SIZES_ANNOUNCED = (32, 64, 128)
E4_SIZES_PRINTED = (60, 100, 200)
E2_CONVERGED = 0.40
"""Fraction of the 2 x 16 runs (E2)."""
SSG_QUALITY = (0.45, 0.94, 0.53, 0.50)
DD_QUALITY = (1.0, 1.0, 1.0, 0.998)
SSG_ITERATIONS = 88.0
DD_ITERATIONS = (10, 12, 42, 48)
SSG_SPEEDUPS = {20: 0.3, 40: 2.7}
DD_SPEEDUPS = {40: 2.2, 60: 66.7, 80: 111.7}
ACCURACY = {"fc": 0.694, "conv1d": 0.743, "resnet": 0.696, "lstm": 0.791}
CONVERGENCE = {"fc": 0.75, "conv1d": 0.83, "resnet": 0.83, "lstm": 0.50}
E4_SECONDS = {"fc": 6.0, "conv1d": 15.0, "resnet": 8.0, "lstm": 50.0}
E5_EXACT = (111.0, 860.0)
E5_BARRIER = (8.5, 24.8, 63.1)
E5_PGD = (0.4, 1.4, 6.5)
"""Seconds of E5; of the exact model only the first and the last are printed."""
OBJECTIVES: dict[str, float] = {}
"""Objective values that E4 and E5 print, by backbone or block: none."""
BARRIERS = ({"L-BFGS-B"}, {"damped Newton", "five CG steps"})
"""The barrier block in the set-up and in E5."""
SOLVERS = ("PySCIPOpt 8.0.4", "SCIP 8.0.4")
"""The solver in the set-up and in the appendix."""


def _agree(holds: bool, text: str, otherwise: str = FAILS) -> tuple[str, str]:
    return HOLDS if holds else otherwise, text


@arithmetic
def one_speedup() -> tuple[str, str]:
    """X1: "up to 100x", 120x, 111.7x and 280x cannot all be the largest speed-up."""
    ceiling = 100
    stated = (max(DD_SPEEDUPS.values()), 120, 280)
    text = (
        f"'up to {ceiling}' in one place, "
        + ", ".join(f"{ratio:g}" for ratio in stated)
        + " in others"
    )
    return _agree(
        max(stated) <= 1.05 * ceiling,
        text + f"; the headline's times give {HEADLINE_EXACT / HEADLINE_DD:.1f}",
    )


@arithmetic
def headline_ratio() -> tuple[str, str]:
    """900 s over 8.7 s is called 100x."""
    ratio = HEADLINE_EXACT / HEADLINE_DD
    return _agree(abs(ratio / 100 - 1) < 0.05, f"900 / 8.7 = {ratio:.1f}")


@arithmetic
def one_time_limit() -> tuple[str, str]:
    """X2: a limit of 300 s for each instance, and runs that took longer."""
    longer = (E5_EXACT[-1], HEADLINE_EXACT, 2 * 3600)
    return _agree(max(longer) <= 300, f"limit 300 s; runs reported at {comma_list(longer)} s")


@arithmetic
def sizes_listed() -> tuple[str, str]:
    """X3: the headline's 500 samples among the sizes of the experiments."""
    sizes = {*E1_SIZES_PRINTED, *E3_SIZES_PRINTED, *E3_SIZES_ANNOUNCED, *E4_SIZES_PRINTED}
    among = "500 is among" if 500 in sizes else "500 is not among"
    return _agree(500 in sizes, f"{among} {comma_list(sorted(sizes))}")


@arithmetic
def reported_variables() -> tuple[str, str]:
    """X4: fewer variables than hidden units."""
    units = 64 * 512 * 500
    return _agree(
        units <= 5_900_000, f"64 x 512 x 500 = {units:,} hidden units > 5,900,000 variables"
    )


@arithmetic
def swap_factor() -> tuple[str, str]:
    """X5: "less than a factor of two" against the times of E5."""
    ratios = [slow / fast for slow, fast in zip(E5_BARRIER, E5_PGD, strict=True)]
    return _agree(max(ratios) < 2, f"barrier over PGD in E5: {comma_list(ratios)}")


@arithmetic
def fails_beyond() -> tuple[str, str]:
    """X6: the exact tool fails beyond 6 x 128, and solves 24 x 128 in E5."""
    units = 6 * 128
    largest = 24 * 128
    text = (
        f"E5 reports 24 x 128 ({largest} units > {units}) solved in {E5_EXACT[-1]:.0f} s, beyond"
        " E2's limit of 300 s"
    )
    return CHANGED if largest > units and E5_EXACT[-1] > 300 else FAILS, text


@arithmetic
def lstm_seconds() -> tuple[str, str]:
    """X7: converges in under 47 s, against about 50 s and half the runs."""
    text = f"E4: about {E4_SECONDS['lstm']:.0f} s, {CONVERGENCE['lstm']:.0%} of the runs converge"
    return _agree(E4_SECONDS["lstm"] <= 47 and CONVERGENCE["lstm"] == 1, text)


@arithmetic
def reported_optima() -> tuple[str, str]:
    """X8: identical optima; objective values decide it, and without any it is not shown (accuracies
    say nothing).
    """
    text = (
        f"objective values printed in E4 and E5: {len(OBJECTIVES)}; accuracies of networks:"
        f" {len(ACCURACY)}"
    )
    return _agree(
        len(OBJECTIVES) > 1 and len(set(OBJECTIVES.values())) == 1,
        text,
        FAILS if len(OBJECTIVES) > 1 else NOT_SHOWN,
    )


@arithmetic
def seeds_and_rates() -> tuple[str, str]:
    """X9: rates of five seeds are multiples of 1/5, with three sizes of 1/15."""

    def fits(runs: int) -> bool:
        return all(abs(round(rate * runs) / runs - rate) < 0.005 for rate in CONVERGENCE.values())

    smallest = next(runs for runs in range(1, 100) if fits(runs))
    shown = comma_list(list(CONVERGENCE.values()))
    text = f"{shown}: no multiples of 1/5 or 1/15; the fewest runs that fit are {smallest}"
    return _agree(fits(5) or fits(15), text)


@arithmetic
def ssg_steps() -> tuple[str, str]:
    """X10: one step and stop, or a hundred."""
    return _agree(
        SSG_ITERATIONS == 1,
        f"one step against T = 100 and about {SSG_ITERATIONS:.0f} iterations on average",
    )


@arithmetic
def ablation_sizes() -> tuple[str, str]:
    """X11: the sizes announced and the sizes reported."""
    common = set(E3_SIZES_ANNOUNCED) & set(E3_SIZES_PRINTED)
    text = (
        f"announced {comma_list(E3_SIZES_ANNOUNCED)}, reported {comma_list(E3_SIZES_PRINTED)}:"
        f" {len(common)} in common"
    )
    return _agree(bool(common), text)


@arithmetic
def iteration_inflation() -> tuple[str, str]:
    """X12: two to three orders of magnitude."""
    ratios = [SSG_ITERATIONS / k for k in DD_ITERATIONS]
    return _agree(max(ratios) >= 100, f"88 / (10, 12, 42, 48) = {comma_list(ratios, 2)}")


@arithmetic
def unity() -> tuple[str, str]:
    """X13: stays at unity, and even 0.998."""
    loss = 1 - min(DD_QUALITY)
    return _agree(loss == 0, f"0.998 is below 1, by {loss:.3f}", CHANGED if loss < 0.005 else FAILS)


@arithmetic
def on_par() -> tuple[str, str]:
    """X14: on par with SSG at n = 40."""
    ratio = SSG_SPEEDUPS[40] / DD_SPEEDUPS[40]
    return _agree(
        ratio <= 1.05,
        f"2.7 / 2.2: SSG is {ratio:.2f} times as fast",
        CHANGED if ratio < 1.5 else FAILS,
    )


@check()
def fc_representable() -> tuple[str, str]:
    """X18: a dense ReLU network is what linearisation tools are made for."""
    layers = flat_layers(mlp(2, 16, 9), 9)
    dense = all(isinstance(layer, (nn.Linear, nn.ReLU)) for layer in layers)
    return _agree(
        not dense, f"FC is {len(layers)} layers, all of them Linear or ReLU, and in the list"
    )


@arithmetic
def budget_share() -> tuple[str, str]:
    """X19: 2.0 for each sample, or for all together."""
    shares = [2.0 / n for n in E1_SIZES_PRINTED]
    text = (
        f"the appendix sums over samples: 2.0 / n = {comma_list(shares, 2)} for each sample on"
        " average"
    )
    return CHANGED if shares[0] < 2.0 else HOLDS, text


@arithmetic
def two_barriers() -> tuple[str, str]:
    """X21: the set-up and E5 name different methods for the same block."""
    setup, e5 = BARRIERS
    return _agree(
        bool(setup & e5), f"set-up: {', '.join(sorted(setup))}; E5: {', '.join(sorted(e5))}"
    )


@arithmetic
def solver_version() -> tuple[str, str]:
    """X22: 8.0.4 is a version of SCIP; the Python package is numbered apart."""
    text = (
        f"set-up: {SOLVERS[0]}; appendix: {SOLVERS[1]}; the PySCIPOpt installed here is"
        f" {version('pyscipopt')}"
    )
    return _agree(SOLVERS[0] == SOLVERS[1], text, CHANGED)


@arithmetic
def two_means() -> tuple[str, str]:
    """X23: a geometric mean in the caption, an average in the text."""
    times = np.array(list(E4_SECONDS.values()))
    mean = times.mean()
    geometric = math.exp(np.log(times).mean())
    text = (
        f"the two differ: of 6, 8, 15 and 50 s the mean is {mean:.1f}, the geometric mean"
        f" {geometric:.1f}"
    )
    return _agree(abs(mean / geometric - 1) < 0.05, text, CHANGED)


@arithmetic
def e5_ratios() -> tuple[str, str]:
    """The speed-ups of E5 follow from its times."""
    barrier = [E5_EXACT[0] / E5_BARRIER[0], E5_EXACT[1] / E5_BARRIER[2]]
    pgd = [E5_EXACT[1] / E5_PGD[2], E5_EXACT[0] / E5_PGD[0]]
    between = [slow / fast for slow, fast in zip(E5_BARRIER, E5_PGD, strict=True)]
    holds = all(
        low * 0.95 <= min(r) and max(r) <= high * 1.05
        for r, (low, high) in ((barrier, (13, 16)), (pgd, (130, 280)), (between, (9, 21)))
    )
    text = (
        f"SCIP over barrier {comma_list(barrier)}; over PGD {comma_list(pgd)}; barrier over PGD"
        f" {comma_list(between)}"
    )
    return _agree(holds, text)


@arithmetic
def worst_loss() -> tuple[str, str]:
    """Removing the dual updates degrades accuracy by up to 55 %."""
    loss = 1 - min(SSG_QUALITY)
    return _agree(abs(loss - 0.55) < 0.005, f"1 - 0.45 = {loss:.0%}")


@check()
def class_gradient() -> tuple[str, str]:
    """A classifier with values 0 and 1 has no useful gradient: a small shift moves the logit, and
    not the class.
    """
    x = torch.randn(1000, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    net = mlp(2, 16, 9).double()
    with torch.no_grad():
        here = net(x)
        there = net(x + 1e-6)
    logit, label = (
        (a != b).double().mean().item() for a, b in ((here, there), (here > 0, there > 0))
    )
    text = (
        f"a shift by 1e-6 changes the logit at {logit:.0%} of 1,000 points and the class at"
        f" {label:.0%}"
    )
    return _agree(label > 0.5 * logit, text)


@check()
def gradient_formula() -> tuple[str, str]:
    """The printed gradient of the augmented Lagrangian in u against automatic differentiation."""
    draw = torch.Generator().manual_seed(0)
    net = mlp(1, 8, 5, n_out=3).double()
    u, x, multiplier = torch.randn(3, 5, dtype=torch.float64, generator=draw)
    d = torch.randn(3, dtype=torch.float64, generator=draw)
    rho = 10.0
    jacobian = torch.autograd.functional.jacobian(net, u)
    formula = jacobian.T @ d + multiplier + rho * (u - x)
    u.requires_grad_()
    value = d @ net(u) + multiplier @ (u - x) + rho / 2 * (u - x).square().sum()
    (gradient,) = torch.autograd.grad(value, u)
    error = (formula - gradient).abs().max().item()
    return _agree(error < 1e-9, f"largest difference on a random network {error:.0e}")


@check()
def conv_is_linear() -> tuple[str, str]:
    """A convolution is a linear map, so its exact model is that of a dense layer."""
    net = conv1d(1, 4, 9).double()
    layer = next(net.children())[0]  # type: ignore[index]
    zero = layer(torch.zeros(1, 1, 9, dtype=torch.float64)).flatten()
    matrix = torch.stack(
        [layer(row[None, None]).flatten() - zero for row in torch.eye(9, dtype=torch.float64)]
    )
    x = torch.randn(50, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dense = net.head((x @ matrix + zero).relu())  # type: ignore[operator]
    error = (dense - net(x)).abs().max().item()
    text = (
        f"CONV1D rewritten with dense layers: largest difference of outputs {error:.1g}; an LSTM"
        " has no such form"
    )
    return CHANGED if error < 1e-9 else HOLDS, text


@check()
def ssg_rounding() -> tuple[str, str]:
    """Claim 30: min x over binary x >= 0.4, from 0.45: the printed heuristic rounds a point that it
    never checked.
    """
    model = Model()
    x = model.addMatrixVar((1, 1), vtype="B")
    y = model.addMatrixVar((1, 1), lb=None)
    model.addCons(x[0, 0] >= 0.4)
    model.setObjective(x[0, 0])
    problem = NeuralMIP(model)
    problem.add_predictor(nn.Sequential(nn.Linear(1, 1)).double().eval(), x, y)
    problem.set_start([[0.45]])
    told = SingleStepGradient(repaired=False).solve(problem, time_limit=600).details
    text = f"min x, x >= 0.4, x binary: it returns x = {told['claimed_values'][0]:.0f} with value "
    return _agree(
        told["claimed_feasible"], text + f"{told['claimed_objective']:.3f}; the optimum is 1"
    )


@check()
def networks_in_trees() -> tuple[str, str]:
    """The conclusion speaks of a single network; Tree Planting has one for each species."""
    problem = tree_planting(grid=2, nets=[mlp(1, 2, 7, seed=s) for s in range(4)])
    count = len({id(part.net) for part in problem.predictors})
    text = (
        f"Tree Planting couples {count} networks through the same inputs; Water Potability has one"
    )
    return _agree(count == 1, text, CHANGED)
