"""Problems so small that all candidates can be tried: what `check_solver` asks, with the best
objective of each.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from pyscipopt import Model, quicksum
from torch import nn

from ..model.problem import NeuralMIP
from ..problems.hand_sized import hand_sized_net

NEEDS = ("continuous inputs", "one block", "any module", "no free input")
"""What a solver may decline: inputs of networks that are not whole; models that do not fall into
blocks; networks that cannot be read; problems in which nothing is left to decide.
"""
Row = tuple[list[float], float, float]


@dataclass(frozen=True, eq=False)
class Example:
    """A problem, its best objective (None: no point is feasible), and the size of its
    objectives.
    """

    name: str
    problem: NeuralMIP
    best: float | None
    size: float
    needs: str = ""

    @cached_property
    def digest(self) -> str:
        return self.problem.instance().digest

    @property
    def sign(self) -> int:
        return 1 if self.problem.model.getObjectiveSense() == "minimize" else -1


def crease(*at: float, outputs: int = 1, bend: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    r"""The network $f_k(x) = k \sum_j (g(x_j - a_j) + g(a_j - x_j))$ for $k = 1, \dots$; with
    ReLUs, distances to $a$.

    >>> crease(0.5, 2.0)(torch.tensor([[1.0, 1.0]])).item()
    1.5
    """
    first = nn.Linear(len(at), 2 * len(at))
    last = nn.Linear(2 * len(at), outputs)
    with torch.no_grad():
        first.weight.copy_(torch.cat([torch.eye(len(at)), -torch.eye(len(at))]))
        first.bias.copy_(torch.tensor([*(-a for a in at), *at]))
        last.weight.copy_(torch.arange(1.0, outputs + 1)[:, None].expand(outputs, 2 * len(at)))
        last.bias.zero_()
    return nn.Sequential(first, bend(), last).eval()


def scaled(net: nn.Sequential, factor: float, shift: float = 0.0) -> nn.Sequential:
    """The network times a number, plus another: its last layer is changed."""
    with torch.no_grad():
        net[-1].weight.mul_(factor)  # type: ignore[operator]
        net[-1].bias.mul_(factor).add_(shift)  # type: ignore[operator]
    return net


def example(
    name: str,
    kinds: str,
    values: Sequence[Any],
    networks: Sequence[tuple[nn.Module, Any]],
    worth: Sequence[float],
    rows: Sequence[Row] = (),
    sense: str = "minimize",
    offset: float = 0.0,
    needs: str = "",
    output: str = "regression",
    start: Sequence[float] | None = None,
    within: tuple[float, float] | None = None,
) -> Example:
    """A problem whose optimum is among the products of `values`, one list for each variable but the
    outputs.

    `kinds` has a letter for each variable, B, I, C, or F for one without a lower bound. A network
    comes with its rows of inputs: numbers of variables, or floats for plain numbers. `worth` and
    `rows` have an entry for each variable, then for each output; what is missing is 0.
    """
    model = Model(name)
    points = np.array(list(itertools.product(*values)), dtype=float)
    ends = [
        (None if kind == "F" else min(v), max(v)) for kind, v in zip(kinds, values, strict=True)
    ]
    parts = enumerate(zip(kinds, ends, strict=True))
    made = [
        model.addVar(f"x{j}", vtype=kind.replace("F", "C"), lb=low, ub=high)
        for j, (kind, (low, high)) in parts
    ]
    problem = NeuralMIP(model, name)
    said = [points]
    for net, fed in networks:
        grid = [[made[j] if isinstance(j, int) else j for j in row] for row in fed]
        predictor = problem.add_predictor(net, grid, output=output)
        made = [*made, *predictor.outputs.flat]
        for row in fed:
            columns = [points[:, j] if isinstance(j, int) else np.full(len(points), j) for j in row]
            said.append(predictor.predict(np.column_stack(columns)))
    every = np.hstack(said)
    if within is not None:
        rows = [*rows, *(([0.0] * j + [1.0], *within) for j in range(len(kinds), len(made)))]
        for y in made[len(kinds) :]:
            model.chgVarLb(y, within[0])
            model.chgVarUb(y, within[1])
    feasible = np.ones(len(every), dtype=bool)
    for weights, low, high in rows:
        left = every[:, : len(weights)] @ np.array(weights)
        feasible &= (left >= low - 1e-9) & (left <= high + 1e-9)
        if within is None:
            terms = quicksum(a * v for a, v in zip(weights, made, strict=False))
            model.addCons(
                (terms >= low)
                if high == np.inf
                else (terms <= high)
                if low == -np.inf
                else (terms == low)
            )
    model.setObjective(quicksum(a * v for a, v in zip(worth, made, strict=False)) + offset, sense)  # type: ignore[arg-type]
    if start is not None:
        problem.set_start(dict(zip([f"x{j}" for j in range(len(kinds))], start, strict=True)))
    value = every[:, : len(worth)] @ np.array(worth, dtype=float)
    reached = value[feasible] + offset
    best = (
        None if not len(reached) else float(reached.min() if sense == "minimize" else reached.max())
    )
    return Example(name, problem, best, float(np.abs(value).max()) or 1.0, needs)


def examples() -> list[Example]:
    """All of them, made anew. Two rows of networks under a row of both: blocks, where a solver
    wants any.
    """
    inf = np.inf
    steps = (0.0, 0.25, 0.5, 0.75, 1.0)
    whole = range(-2, 4)
    hand = hand_sized_net()
    bit = (0.0, 1.0)
    fed = [[0, 1], [2, 3]]
    four: dict[str, Any] = {"kinds": "BBBB", "values": [bit] * 4, "networks": [(hand, fed)]}
    cost = [1.5, 2.0, 1.5, 2.0, 1.0, 1.0]
    most = ([1.0] * 4, -inf, 3.0)
    two: dict[str, Any] = {
        "kinds": "II",
        "values": [whole] * 2,
        "rows": [([1.0, 1.0], 2.0, inf)],
        "start": [2, 2],
    }
    near = [(crease(1.5), [[0], [1]])]
    apart = "one block"
    logits = scaled(hand_sized_net(), -1.0, 1.0)
    return [
        example("binary inputs", **four, worth=cost, rows=[most]),
        example("to maximise", **four, worth=cost, rows=[most], sense="maximize"),
        example("integer inputs", **two, networks=near, worth=[0.3, 0.3, 1, 1]),
        example(
            "continuous inputs",
            "CC",
            [steps] * 2,
            [(crease(0.25), [[0], [1]])],
            [-0.5, -0.25, 1, 1],
            [([1.0, 1.0], -inf, 0.75)],
            needs="continuous inputs",
        ),
        example(
            "mixed inputs",
            "ICIC",
            [(0, 1, 2), steps] * 2,
            [(crease(1.75, 0.25), fed)],
            [0.5, -0.5, 0.5, -0.5, 1, 1],
            [([1.0, 0.0, 1.0], -inf, 3.0)],
            needs="continuous inputs",
        ),
        example(
            "classes",
            "BBBB",
            [bit] * 4,
            [(logits, fed)],
            [-0.3] * 4 + [1, 1],
            [most],
            "maximize",
            output="classification",
        ),
        example(
            "rows on outputs",
            **four,
            worth=cost,
            rows=[most, ([0, 0, 0, 0, 1, 1], 2.0, inf)],
            start=[0] * 4,
        ),
        example("bounds of outputs", **four, worth=cost, within=(-1.0, 4.0), start=[0] * 4),
        example(
            "an equality",
            **{**two, "rows": [([1.0, 1.0], 3.0, 3.0)], "start": [0, 3]},
            networks=near,
            worth=[0.3, 0.1, 1, 1],
        ),
        example(
            "two networks",
            "BBI",
            [bit, bit, whole],
            [(hand, [[0, 1]]), (crease(1.5), [[2]])],
            [1.5, 2.0, 0.3, 1, 1],
            [([1.0] * 3, -inf, 3.0)],
        ),
        example(
            "shared inputs",
            "BB",
            [bit] * 2,
            [(hand, [[0, 1]]), (crease(1, 0), [[0, 1]])],
            [0, 0, 1, 2],
            needs=apart,
        ),
        example(
            "one network row", "BB", [bit] * 2, [(hand, [[0, 1]])], [1.5, 2.0, 1.0], needs=apart
        ),
        example(
            "two outputs",
            **two,
            networks=[(crease(1.5, outputs=2), [[0], [1]])],
            worth=[0, 0, 2, -1, 1, 1],
        ),
        example(
            "a network without bounds of its own",
            **two,
            networks=[(crease(1.5, bend=nn.Softplus), [[0], [1]])],
            worth=[0.3, 0.3, 1, 1],
            needs="any module",
        ),
        example("an offset", **four, worth=cost, rows=[most], offset=7.5),
        example("no objective", **four, worth=[], rows=[most]),
        example("fixed inputs", "BBBB", [bit, (1.0,), bit, (0.0,)], [(hand, fed)], cost, [most]),
        example(
            "numbers as inputs",
            "BB",
            [bit] * 2,
            [(hand, [[0, 1.0], [1, 0.0]])],
            [1.5, 2.0, 1, 1],
            [([1.0, 1.0], -inf, 1.0)],
        ),
        example(
            "nothing to decide",
            "BBBB",
            [(0.0,), (1.0,)] * 2,
            [(hand, fed)],
            cost,
            [most],
            needs="no free input",
        ),
        example(
            "a side variable",
            "BBBBC",
            [bit] * 4 + [(0, 1, 2)],
            [(hand, fed)],
            [*cost[:4], -0.25, 1, 1],
            [([1.0] * 5, -inf, 4.0)],
            start=[0] * 5,
        ),
        example(
            "a variable without a lower bound",
            "BBBBF",
            [bit] * 4 + [bit],
            [(hand, fed)],
            [*cost[:4], 1.5, 1, 1],
            [([1.0, 0, -1.0, 0, -1.0], -inf, 0.0), ([-1.0, 0, 1.0, 0, -1.0], -inf, 0.0)],
        ),
        example(
            "small units",
            **two,
            networks=[(scaled(crease(1.5), 1e-6), [[0], [1]])],
            worth=[3e-7, 3e-7, 1, 1],
        ),
        example(
            "large units",
            **two,
            networks=[(scaled(crease(1.5), 1e6), [[0], [1]])],
            worth=[3e5, 3e5, 1, 1],
        ),
        example(
            "rows that contradict each other", **four, worth=cost, rows=[([1.0] * 4, 5.0, inf)]
        ),
        example(
            "a row that no output reaches",
            **four,
            worth=cost,
            rows=[most, ([0, 0, 0, 0, 1, 1], 100.0, inf)],
        ),
    ]
