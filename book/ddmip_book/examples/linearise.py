"""Sequential linearisation in the open: one descent, try by try, and small problems on which it
ends well or badly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from pyscipopt import Model
from torch import Tensor, nn

from ddmip_lib import NeuralMIP
from ddmip_lib.bounds import crown
from ddmip_lib.linearisation import ElasticModel, linearise
from ddmip_lib.linearisation.elastic import TrialPoint
from ddmip_lib.linearisation.sequential import INITIAL_PENALTY
from ddmip_lib.linearisation.trust_region import (
    ACCEPTANCE_RATIO,
    EXPANSION_RATIO,
    MIN_RADIUS,
    SHRINKING_FACTOR,
)
from ddmip_lib.proofs.encoding import Ends
from ddmip_lib.proofs.exact import has_exact_model

NOTHING = 1e-7
"""Of the objective's worth: a prediction that is no larger ends a descent."""


class Formula(nn.Module):
    """A network that is given by a formula on its input columns.

    >>> Formula(lambda a, b: a * b)(torch.tensor([[2.0, 3.0]]))
    tensor([[6.]])
    """

    def __init__(self, value: Callable[..., Tensor]) -> None:
        super().__init__()
        self.value = value
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.value(*x.split(1, dim=1))


def relu_net(hidden: Any, bias: Any, last: Any, shift: float = 0.0) -> nn.Sequential:
    """One hidden layer of ReLUs and one output, with these numbers.

    >>> relu_net([[1.0], [-1.0]], [0.0, 0.0], [1.0, 1.0])(torch.tensor([[-3.0]]).double()).item()
    3.0
    """
    weights, shifts, outer = (
        torch.tensor(part, dtype=torch.float64) for part in (hidden, bias, last)
    )
    inner = nn.Linear(weights.shape[1], len(weights))
    final = nn.Linear(len(weights), 1)
    net = nn.Sequential(inner, nn.ReLU(), final).double()
    with torch.no_grad():
        for place, values in (
            (inner.weight, weights),
            (inner.bias, shifts),
            (final.weight, outer[None]),
        ):
            place.copy_(values)
        final.bias.fill_(shift)
    return net.eval()


def minimise(
    net: nn.Module,
    low: Any,
    high: Any,
    whole: Any = (),
    cost: Any = 0.0,
    least: float | None = None,
    name: str = "",
) -> NeuralMIP:
    r"""$\min c^\top x + y$ with $y = f(x)$ and $l \le x \le h$, some inputs whole; with `least`,
    $\min c^\top x$ and $y \ge$ `least` instead.

    >>> minimise(Formula(lambda a: a * a), [0.0], [1.0])
    NeuralMIP
      minimise, 2 variables (0 integer), 0 constraints
      predictor 0  Formula, regression, 1 x 1 (1 free) -> 1 x 1
    """
    model = Model(name)
    p = len(low)
    model.hideOutput()
    x = [model.addVar(f"x{j}", "I" if j in whole else "C", low[j], high[j]) for j in range(p)]
    y = model.addVar("y", lb=None)
    linear = sum(float(c) * v for c, v in zip(np.broadcast_to(cost, p), x, strict=True))
    model.setObjective(linear + (y if least is None else 0), "minimize")
    if least is not None:
        model.addCons(y >= least)
    problem = NeuralMIP(model, name)
    problem.add_predictor(net, [x], [[y]])
    return problem


class Tried(NamedTuple):
    """One try of a descent: where it began, where the MIP aimed, what was predicted and what came
    of it.
    """

    point: TrialPoint
    aim: TrialPoint
    new: TrialPoint
    radius: float
    predicted: float
    decrease: float
    taken: bool


@dataclass(frozen=True)
class Descent:
    """A descent from its first point to its last, and why it ended."""

    tried: list[Tried]
    point: TrialPoint
    radius: float
    ended: str
    elastic: ElasticModel

    @property
    def inputs(self) -> np.ndarray:
        """The network inputs of the last point."""
        return self.point.values[self.elastic.inputs]

    @property
    def path(self) -> np.ndarray:
        """The network inputs of all points that were taken, the first one included."""
        points = [step.point for step in self.tried[:1]] + [
            step.new for step in self.tried if step.taken
        ]
        return np.array([point.values[self.elastic.inputs] for point in points or [self.point]])


class Held(ElasticModel):
    """The elastic model whose steps leave integer inputs where they are."""

    def box(self, point: np.ndarray, radius: float | np.ndarray) -> Ends:
        lower, upper = super().box(point, radius)
        at = self.inputs[self.integer]
        lower[at] = upper[at] = point[at]
        return lower, upper


def descend(
    problem: NeuralMIP,
    start: Any,
    radius: float = 0.25,
    price: float | None = None,
    held: bool = False,
) -> Descent:
    r"""One descent of `SequentialMIP` with its own constants, kept try by try; without restarts and
    raised prices.

    `start` holds the network inputs. The price is that of one unit $\sigma$ of an output, by
    default the first one of the solver. With `held`, a rejected step that moved integer inputs is
    followed by one that holds them.

    >>> bowl = minimise(Formula(lambda a: (a - 0.3) ** 2), [0.0], [1.0])
    >>> found = descend(bowl, [1.0])
    >>> found.inputs.round(3), found.ended
    (array([0.3]), 'nothing predicted')
    """
    elastic = ElasticModel(problem.instance())
    models = {True: Held(elastic.instance), False: elastic}
    price = INITIAL_PENALTY * elastic.objective_unit if price is None else price
    given = np.reshape(np.asarray(start, dtype=float), (1, -1))
    point = elastic.complete(elastic.instance.assignment([given], rest=0.0), price, np.inf)
    if point is None:
        raise ValueError("the start has no completion: pass network inputs that the rows allow.")
    tried: list[Tried] = []
    ended = "small radius"
    hold = False
    while radius > MIN_RADIUS:
        line = linearise(elastic.instance, point.values)
        aim = models[hold].step(point.values, line, radius, price, np.inf)
        predicted = -np.inf if aim is None else point.merit(price) - aim.merit(price)
        if aim is None or predicted <= NOTHING * max(elastic.objective_unit, abs(point.cost)):
            ended = "nothing predicted"
            break
        new = elastic.complete(aim.values, price, np.inf)
        assert new is not None
        decrease = point.merit(price) - new.merit(price)
        taken = decrease >= ACCEPTANCE_RATIO * predicted
        tried.append(Tried(point, aim, new, radius, predicted, decrease, taken))
        moved = (point.values != new.values)[elastic.inputs[elastic.integer]].any()
        if taken:
            point = new
            hold = False
            radius = min(1.0, 2 * radius) if decrease >= EXPANSION_RATIO * predicted else radius
        elif held and moved:
            hold = True  # the same radius once more, for the continuous inputs alone
        else:
            radius *= SHRINKING_FACTOR
    return Descent(tried, point, radius, ended, elastic)


def wave() -> NeuralMIP:
    """One input and a tanh network with two valleys, the right one deeper."""
    steps = ((12.0, 0.12, -1.0), (12.0, 0.34, 1.0), (9.0, 0.62, -1.4), (9.0, 0.86, 1.4))
    factor, place, weight = torch.tensor(steps, dtype=torch.float64).T
    return minimise(
        Formula(lambda x: torch.tanh(factor * (x - place)) @ weight[:, None]), [0.0], [1.0]
    )


def ridge() -> NeuralMIP:
    r"""$\min 10\,\lvert x_1 - x_2\rvert + x_1 + x_2$ on the unit square by ReLUs; the best point is
    (0, 0).
    """
    net = relu_net([[1, -1], [-1, 1], [1, 1]], [0, 0, 0], [10, 10, 1])
    return minimise(net, [0.0, 0.0], [1.0, 1.0], name="ridge")


def folds(count: int = 5) -> NeuralMIP:
    r"""$\min 10 \sum_j \lvert x_j - x_{j+1} - \tfrac1{20}\rvert + \sum_j x_j$ in the unit cube:
    ridges that cross.
    """
    steps = np.eye(count)[:-1] - np.eye(count)[1:]
    hidden = np.vstack([steps, -steps, np.ones((1, count))])
    bias = np.repeat([-0.05, 0.05, 0.0], [count - 1, count - 1, 1])
    net = relu_net(hidden, bias, np.where(np.arange(len(bias)) < len(bias) - 1, 10.0, 1.0))
    return minimise(net, [0.0] * count, [1.0] * count, name="folds")


def tempting() -> NeuralMIP:
    r"""$\min -2x_1 + 10\,(x_1 - \tfrac12)_+ - x_2$ for two binaries: a line sees the first reward,
    not its end.
    """
    net = relu_net([[1, 0], [1, 0], [0, 1]], [1, -0.5, 1], [-2, 10, -1], 3.0)
    return minimise(net, [0, 0], [1, 1], whole=(0, 1), name="tempting")


def blocked(count: int = 6) -> NeuralMIP:
    r"""$\min 7z^2 - 2z - \sum_j x_j$ for a binary $z$ and $x$ in the unit cube; the best value is
    -`count`.
    """
    net = Formula(lambda z, *x: 7 * z**2 - 2 * z - sum(x))
    return minimise(net, [0] * (count + 1), [1] * (count + 1), whole=(0,), name="blocked")


def flat_row(least: float = 0.999) -> NeuralMIP:
    r"""$\min x$ with $\tanh(6x) \ge$ `least`: where the row holds, the network is nearly flat."""
    return minimise(
        Formula(lambda x: torch.tanh(6 * x)), [0.0], [1.0], cost=1.0, least=least, name="flat row"
    )


def undecided(problem: NeuralMIP, values: np.ndarray, radius: float) -> int:
    """How many ReLUs of all networks can switch in a box around a point, as far as CROWN knows.

    >>> (
    ...     undecided(ridge(), np.array([0.9, 0.1, 8.2]), 0.1),
    ...     undecided(ridge(), np.array([0.9, 0.1, 8.2]), 0.5),
    ... )
    (0, 2)
    """
    instance = problem.instance()
    ends = ElasticModel(instance).box(values, radius)
    if not has_exact_model(instance):
        raise ValueError(
            "undecided units are counted in ReLU networks: pass a problem with such networks alone."
        )
    count = 0
    for m, graph in zip(instance.maps, instance.graphs, strict=True):
        bounds = crown(graph, m.box(*ends))
        count += sum(
            int(((low < 0) & (high > 0)).sum())
            for low, high in (bounds.nodes[i] for i in graph.hidden)
        )
    return count


def switching(net: nn.Sequential, points: np.ndarray) -> int:
    """How many ReLUs of a flat network are off at one of these points and on at another.

    >>> switching(relu_net([[1.0], [1.0]], [0.0, 5.0], [1.0, 1.0]), np.array([[-1.0], [1.0]]))
    1
    """
    x = torch.tensor(points)
    count = 0
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.ReLU):
                count += int(((x < 0).any(0) & (x > 0).any(0)).sum())
            x = layer(x)
    return count
