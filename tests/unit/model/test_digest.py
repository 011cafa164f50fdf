"""Problems that differ have different digests, wherever they differ; equal ones have equal
digests.
"""

import functools
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import Tensor, nn

from ddmip_book.networks import mlp
from ddmip_lib import NeuralMIP, certify, solve
from ddmip_lib.errors import ProofError
from ddmip_lib.model import description
from ddmip_lib.model.description import Aside, Description
from ddmip_lib.model.solution import Proof, Solution
from ddmip_lib.predictors import black_box
from tests.builders.places import ROOT

RATE = 0.0  # a global that a function reads


def problem_of(net: nn.Module, n: int = 2) -> NeuralMIP:
    model = Model()
    x = model.addMatrixVar((1, n), lb=-1.0, ub=1.0)
    y = model.addVar("y", lb=None)
    model.setObjective(y, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net.eval(), x, [[y]])
    return problem


def digest_of(net: nn.Module) -> str:
    return problem_of(net).instance().digest


class Bent(nn.Module):
    """relu(x) + k relu(-x), k wherever a test puts it; equal to all its kind at 0, the middle of
    the box.
    """

    def __init__(
        self, attribute: Any = None, buffer: float | None = None, persistent: bool = True
    ) -> None:
        super().__init__()
        self.attribute = attribute
        self.inner = nn.Identity()
        if buffer is not None:
            self.register_buffer(
                "rate", torch.tensor(buffer, dtype=torch.float64), persistent=persistent
            )

    def k(self) -> Any:
        return self.attribute

    def forward(self, x: Tensor) -> Tensor:
        return (x.relu() + self.k() * (-x).relu()).sum(1, keepdim=True)


class Buffered(Bent):
    def k(self) -> Any:
        return self.rate


class Listed(Bent):
    def k(self) -> Any:
        return self.attribute["rates"][0][0]


class Named(Bent):
    def k(self) -> Any:
        return float(self.attribute)


class Called(Bent):
    def k(self) -> Any:
        return self.attribute()


class Held(Bent):
    def k(self) -> Any:
        return self.attribute.rate


class Below(Bent):
    """It reads what hangs on a layer of torch's."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.inner.rate = rate  # type: ignore[assignment]

    def k(self) -> Any:
        return self.inner.rate


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def method(self, rows: np.ndarray) -> np.ndarray:
        bent: np.ndarray = np.where(rows > 0, rows, -self.rate * rows).sum(1)
        return bent

    __call__ = method


def function_by_closure(k: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: np.where(rows > 0, rows, -k * rows).sum(1)


def function_by_default(k: float) -> Callable[[np.ndarray], np.ndarray]:
    def function(rows: np.ndarray, *, k: float = k) -> np.ndarray:
        return np.asarray(np.where(rows > 0, rows, -k * rows).sum(1))

    return function


def function_by_constant(k: float) -> Callable[[np.ndarray], np.ndarray]:
    space: dict[str, Any] = {"np": np}
    exec(f"def function(rows): return np.where(rows > 0, rows, -{k!r} * rows).sum(1)", space)
    found: Callable[[np.ndarray], np.ndarray] = space["function"]
    return found


def function_by_global(k: float) -> Callable[[np.ndarray], np.ndarray]:
    """The last name is read by a function that the function calls."""
    space: dict[str, Any] = {"np": np, "RATE": k}
    exec("def inner(rows): return RATE * rows", space)
    exec("def function(rows): return np.where(rows > 0, rows, -inner(rows)).sum(1)", space)
    found: Callable[[np.ndarray], np.ndarray] = space["function"]
    return found


def function_by_table(k: float) -> Callable[[np.ndarray], np.ndarray]:
    """Different at a single point of the box, which no random point meets."""
    table = {(0.123456789, 0.5): k}
    return lambda rows: np.array([table.get((row[0], row[1]), 0.0) for row in rows])


def with_hook(k: float) -> nn.Module:
    net = Bent(0.0)
    net.register_forward_hook(
        lambda module, given, out: out + k * (-given[0]).relu().sum(1, keepdim=True)
    )
    return net


def of_class(k: float) -> nn.Module:
    """Classes of one name, whose code differs."""

    class Net(nn.Module):
        rate = k

        def forward(self, x: Tensor) -> Tensor:
            return (x.relu() + self.rate * (-x).relu()).sum(1, keepdim=True)

    return Net()


def late(k: float) -> nn.Module:
    """Different from others of its kind only where x > 0.99."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for layer, weight, bias in ((net[0], 1.0, -1.98), (net[2], k, 0.0)):
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
    return net


def scripted(k: float) -> nn.Module:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = k

        def forward(self, x: Tensor) -> Tensor:
            return (x.relu() + self.k * (-x).relu()).sum(1, keepdim=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced: nn.Module = torch.jit.trace(Net(), torch.zeros(3, 2))  # type: ignore[no-untyped-call]
    return traced


FAMILIES: dict[str, Callable[[float], nn.Module]] = {
    "number": Bent,
    "string": lambda k: Named(repr(k)),
    "containers": lambda k: Listed({"rates": [(k, 1)], "names": {"a", "b"}}),
    "tensor": lambda k: Bent(torch.tensor(k, dtype=torch.float64)),
    "array": lambda k: Listed({"rates": np.array([[k]])}),
    "function": lambda k: Called(lambda: k),
    "object": lambda k: Held(SimpleNamespace(rate=k)),
    "slots": lambda k: Held(Slotted(k)),
    "layer's attribute": Below,
    "buffer": lambda k: Buffered(buffer=k),
    "buffer that is not stored": lambda k: Buffered(buffer=k, persistent=False),
    "class": of_class,
    "hook": with_hook,
    "weight": late,
    "traced": scripted,
    "closure": lambda k: black_box(function_by_closure(k)),
    "default": lambda k: black_box(function_by_default(k)),
    "constant": lambda k: black_box(function_by_constant(k)),
    "global": lambda k: black_box(function_by_global(k)),
    "table": lambda k: black_box(function_by_table(k)),
    "method": lambda k: black_box(Slotted(k).method),
    "callable": lambda k: black_box(Slotted(k)),
    "partial": lambda k: black_box(functools.partial(function_by_default(0.0), k=k)),
}
PAIRS = 9  # of each family; 207 in all


@pytest.mark.parametrize("family", FAMILIES)
def test_networks_that_differ_anywhere_have_different_digests(family: str) -> None:
    make = FAMILIES[family]
    rng = np.random.default_rng(len(family))
    values = [
        0.0,
        5.0,
        *rng.uniform(-3, 3, PAIRS - 3),
        1.0,
        1.0 + 1e-15,
    ]  # the last two: beyond all evaluation
    digests = [digest_of(make(float(k))) for k in values]
    assert len(set(digests)) == len(digests)
    assert [digest_of(make(float(k))) for k in values[:3]] == digests[:3]


def test_pairs_that_are_counted() -> None:
    assert len(FAMILIES) * PAIRS >= 200


def test_equal_networks_have_equal_digests_in_every_process() -> None:
    names = [name for name in FAMILIES if name != "function"]
    code = "from tests.unit.model.test_digest import FAMILIES, digest_of\n"
    code += f"print(*(digest_of(FAMILIES[name](2.5)) for name in {names!r}))"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "book"))),
        "PYTHONHASHSEED": "7",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [digest_of(FAMILIES[name](2.5)) for name in names]


@pytest.mark.parametrize("seed", range(5))
def test_networks_built_twice_from_equal_weights(seed: int) -> None:
    for depth in range(1, 6):
        one, same, other = (digest_of(mlp(depth, 4, 2, seed=s)) for s in (seed, seed, seed + 100))
        assert one == same != other


def test_what_cannot_be_described_is_equal_to_itself_alone() -> None:
    def guarded(rows: np.ndarray) -> np.ndarray:
        with lock:
            return np.asarray(rows.sum(1))

    def seen(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows.sum(1) * float(os.environ.get("RATE", "1")))

    lock = threading.Lock()
    for function in (guarded, seen):
        problem = problem_of(black_box(function))
        twin = problem_of(black_box(function))
        assert problem.instance().digest == problem.instance().digest != twin.instance().digest


def test_what_is_too_much_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "MAX_FOLLOWED", 1)
    found = Description()
    found.of(function_by_closure(1.0))
    assert not found.complete
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    again: list[Any] = []
    again.append(again)
    assert Description().of(cyclic) == Description().of(again)


def test_a_table_that_changes_changes_the_problem() -> None:
    table = np.zeros(3)
    problem = problem_of(
        black_box(lambda rows: table[np.clip(np.round(rows[:, 0]), 0, 2).astype(int)])
    )
    before = problem.instance().digest
    table[2] = 1.0  # never reached in this box
    assert problem.instance().digest != before


def test_facts_of_the_training_are_not_part_of_a_network() -> None:
    nets = [mlp(1, 4, 2) for _ in range(3)]
    nets[0].report = Aside(seconds=1.0)
    nets[1].report = Aside(seconds=2.0)
    nets[2].report = {"seconds": 1.0}
    one, same, other = map(digest_of, nets)
    assert one == same != other


def test_constraints_that_are_no_rows_count_with_their_numbers() -> None:
    def digest(most: float) -> str:
        problem = problem_of(mlp(1, 4, 2))
        x = problem.model.getVars()[0]
        problem.model.addCons(x * x <= most)
        return problem.instance().digest

    assert digest(0.5) == digest(0.5) != digest(0.25)


class TestABoundThatIsBroughtAlong:
    def test_a_bound_of_another_slope_proves_nothing(self) -> None:
        low = problem_of(Bent(0.0), 1)
        high = problem_of(Bent(5.0), 1)
        proved = solve(low, 10.0)
        assert (proved.status, proved.objective) == ("optimal", 1.0)
        found = certify(high, proved, time_limit=0.0)
        assert found.status != "optimal"
        assert found.bound is None or found.bound >= 5.0

    def test_one_that_a_verified_point_crosses_is_an_error(self) -> None:
        problem = problem_of(Bent(5.0), 1)
        point = problem.verify(np.array([-1.0, 5.0]))
        forged = Solution(
            "stopped",
            "x",
            objective=5.0,
            bound=1.25,
            values=np.array([-1.0, 5.0]),
            verification=point,
            proof=Proof(problem.instance().digest, "x", checked=True),
        )
        with pytest.raises(ProofError, match=r"bound 1\.25 .*crossed by the verified objective 5:"):
            certify(problem, forged, time_limit=0.0)
