"""Self-checks of the user guide: problems of one's own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyscipopt
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from ddmip_lib import NeuralMIP
from ddmip_lib.model import find_structure
from .core import Check, FormError, calls

_SITES = 3


def _forward(
    matrices: Sequence[tuple[np.ndarray, np.ndarray]],
    samples: np.ndarray,
    last: bool = False,
    turned: bool = False,
    bent: bool = True,
) -> np.ndarray:
    for number, (weight, bias) in enumerate(matrices):
        samples = samples @ (weight if turned else weight.T) + bias
        if bent and (last or number < len(matrices) - 1):
            samples = np.maximum(samples, 0)
    return samples


_MATRICES = [
    (np.array([[1.0, -2.0], [0.5, 1.0]]), np.array([0.5, -1.0])),
    (np.array([[1.0, 3.0], [-2.0, 1.0]]), np.zeros(2)),
]
_SAMPLES = (np.array([[1.0, 1.0], [-1.0, 2.0]]), np.array([[0.0, 0.0], [2.0, -3.0], [4.0, 1.0]]))


class _Chain(nn.Module):
    """Two networks in a row; the second sees the first one's output and what is left of the
    inputs.
    """

    def __init__(
        self,
        first: nn.Module,
        second: nn.Module,
        between: bool = True,
        order: Sequence[int] = (0, 1),
        turned: bool = False,
    ) -> None:
        super().__init__()
        self.first = first
        self.second = second
        self.between = between
        self.order = list(order)
        self.turned = turned

    def forward(self, x: Tensor) -> Tensor:
        middle = self.first(x[:, :2])
        parts = [x[:, 2:], middle] if self.turned else [middle, x[:, 2:]]
        out = self.second(torch.cat(parts, dim=1))
        return torch.cat([middle, out], dim=1)[:, self.order] if self.between else out


def _linear(*weights: float) -> nn.Linear:
    layer = nn.Linear(len(weights), 1).double().requires_grad_(False)
    layer.weight.copy_(torch.tensor([weights]))
    layer.bias.zero_()
    return layer


def _chained(answer: Any) -> np.ndarray:
    if not callable(answer):
        raise FormError("a function of two networks is wanted")
    made = answer(_linear(1.0, 2.0), _linear(3.0, -1.0))
    if not isinstance(made, nn.Module):
        raise FormError("the function must return a torch.nn.Module")
    return made.eval()(torch.tensor([[1.0, 0.5, 4.0], [0.0, 2.0, -1.0]]).double()).detach().numpy()


def _same_chain(answer: Any, right: Any) -> bool:
    mine = _chained(answer)
    wanted = _chained(right)
    return mine.shape == wanted.shape and bool(np.allclose(mine, wanted))


def _ovens(copies: int = _SITES, tied: int = _SITES) -> Callable[[nn.Module], NeuralMIP]:
    """A builder of the model with so many copies of the heat, of which so many are tied."""

    def build(net: nn.Module) -> NeuralMIP:
        m = pyscipopt.Model("copies of the heat")
        heat = [m.addVar(ub=1, name=f"heat {i}") for i in range(copies)]
        amount = m.addMatrixVar(_SITES, ub=1, name="amount")
        for i in range(1, min(copies, tied)):
            m.addCons(heat[0] == heat[i], name=f"same heat {i}")
        problem = NeuralMIP(m)
        made = problem.add_predictor(net, [[heat[i % copies], amount[i]] for i in range(_SITES)])
        m.setObjective(made.outputs.sum() - 0.1 * amount.sum(), "maximize")
        return problem

    return build


def _problem(answer: Any) -> NeuralMIP:
    if not callable(answer):
        raise FormError("a function of a network is wanted")
    problem = answer(
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        .double()
        .requires_grad_(False)
        .eval()
    )
    if not isinstance(problem, NeuralMIP) or len(problem.predictors) != 1:
        raise FormError("the function must return a NeuralMIP with one predictor")
    if problem.predictors[0].inputs.shape != (_SITES, 2):
        raise FormError("the predictor needs three samples of two inputs, heat and amount")
    return problem


def _apart(problem: NeuralMIP) -> float:
    """How far two heats can be apart in a point that keeps the rows, whatever the network says."""
    instance = problem.instance()
    s = instance.milp
    heats = instance.maps[0].index[:, 0]
    rows = np.vstack([s.rows.toarray(), -s.rows.toarray()])
    sides = np.concatenate([s.row_upper, -s.row_lower])
    kept = np.isfinite(sides)
    box = [
        (low if np.isfinite(low) else None, high if np.isfinite(high) else None)
        for low, high in zip(s.lower, s.upper, strict=True)
    ]
    most = 0.0
    for one in heats:
        for other in heats:
            cost = np.zeros(s.n_variables)
            cost[one] -= 1.0
            cost[other] += 1.0
            most = max(most, -linprog(cost, rows[kept], sides[kept], bounds=box).fun)
    return most


def _blocks(problem: NeuralMIP) -> int:
    return find_structure(problem.instance()).n


CHECKS = {
    "own_problem": [
        Check(
            "ex-own-units",
            "Units by hand",
            "the pair (weight, bias) for pressures in bar",
            lambda: (0.1, -9.0),
            lambda s: [
                ((0.1, 1.0), "The mean changes the bias too."),
                (
                    (40.0, -199.0),
                    "Divide by the deviation: one bar is a twentieth of a deviation.",
                ),
                (
                    (0.1, 11.0),
                    "The mean is subtracted before the weight is applied: mind the sign.",
                ),
            ],
            "Substitute $(p - 100)/20$ and sort by $p$.",
        ),
    ],
    "read_result": [
        Check(
            "ex-own-status",
            "Solution statuses",
            "a list of four statuses, as strings",
            lambda: ["claimed_optimal", "converged", "infeasible", "time_limit"],
            lambda s: [
                (
                    ["optimal", *s[1:]],
                    "The bound was not checked outside the solver.",
                ),
                (
                    [s[0], "optimal", *s[2:]],
                    "A search without improvement proves nothing.",
                ),
                (
                    [*s[:2], "no_solution_found", s[3]],
                    "The third is a proof of infeasibility.",
                ),
            ],
            "For each: is there a point, is there a bound, and was the bound checked?",
        ),
    ],
    "schedule": [
        Check(
            "ex-own-forward",
            "Independent verification",
            "a function of (matrices, samples): a list of pairs (weight, bias), and an array;"
            " ReLUs stand between layers",
            lambda: _forward,
            lambda s: [
                (
                    lambda matrices, samples: _forward(matrices, samples, last=True),
                    "No ReLU after the last layer.",
                ),
                (
                    lambda matrices, samples: _forward(matrices, samples, turned=True),
                    "torch stores weights as (outputs, inputs): transpose them.",
                ),
                (
                    lambda matrices, samples: _forward(matrices, samples, bent=False),
                    "The ReLUs between layers are missing.",
                ),
            ],
            "Multiply, add, and take the positive part, layer by layer.",
            calls(*[(_MATRICES, samples) for samples in _SAMPLES]),
        ),
    ],
    "chains": [
        Check(
            "ex-own-chain",
            "Networks in series",
            "a function of two networks that returns a module: three inputs, of which the first"
            " network sees two, and the outputs of both networks",
            lambda: _Chain,
            lambda s: [
                (
                    lambda one, two: _Chain(one, two, between=False),
                    "Return the intermediate value too: constraints need it.",
                ),
                (
                    lambda one, two: _Chain(one, two, order=(1, 0)),
                    "The first network's output comes first.",
                ),
                (
                    lambda one, two: _Chain(one, two, turned=True),
                    "The second network expects the first one's output as its first input.",
                ),
            ],
            "Split the columns, apply the first network, concatenate its output with the others.",
            _same_chain,
        ),
    ],
    "sites": [
        Check(
            "ex-own-copies",
            "Blocks by copies",
            "a function of a network that returns the `NeuralMIP` with three blocks",
            _ovens,
            lambda s: [
                (
                    _ovens(copies=1),
                    "There is one block: give each site a variable of its own for the heat.",
                    lambda a: _blocks(_problem(a)) < _SITES and _apart(_problem(a)) < 1e-6,
                ),
                (
                    _ovens(tied=1),
                    "The heats may differ now: add equations between the copies.",
                    lambda a: _apart(_problem(a)) > 1e-6 and _untied(_problem(a)) == _SITES,
                ),
                (
                    _ovens(tied=2),
                    "One copy is free: three copies need two equations.",
                    lambda a: _apart(_problem(a)) > 1e-6 and _untied(_problem(a)) < _SITES,
                ),
            ],
            judge=None,
        ),
    ],
}


def _untied(problem: NeuralMIP) -> int:
    """How many heats stand in no row of the model."""
    instance = problem.instance()
    met = np.abs(instance.milp.rows).sum(axis=0)
    return int((np.asarray(met).ravel()[instance.maps[0].index[:, 0]] == 0).sum())
