"""What torch.export makes of a network is read as the network is, as a program, as its module and
as a file.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import Tensor, nn

from ddmip_book.networks import conv1d, mlp, resnet
from ddmip_lib import NeuralMIP, solve
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.description import Description
from ddmip_lib.model.exported import load_network
from tests.builders.places import ROOT

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
NAMES_STAY = GUARDED = TORCH > (2, 6)
"""Of an exported program: whether loading it keeps all names, without which bounds do not carry
over to it, and whether its module refuses other numbers of rows. Torch 2.6 does neither.
"""


class Normed(nn.Module):
    """Layers that behave in another way in training, a buffer that is not stored, and a constant
    made in forward().
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 1)
        )
        self.register_buffer("shift", torch.full((1,), 0.25), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x) + self.shift + torch.ones(1)
        return out


def normed() -> nn.Module:
    torch.manual_seed(0)
    net = Normed()
    net(torch.randn(20, 3))  # running statistics
    return net.eval()


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "MLP": lambda: mlp(2, 4, 3),
    "double": lambda: mlp(1, 4, 3, seed=1).double(),
    "residual": lambda: resnet(1, 4, 3),
    "convolution": lambda: conv1d(1, 4, 3),
    "in training another": normed,
}


def problem_of(net: Any) -> NeuralMIP:
    model = Model()
    x = model.addMatrixVar((1, 3), lb=-1.0, ub=1.0)
    y = model.addVar("y", lb=None)
    model.setObjective(y, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, [[y]])
    return problem


def exported(net: nn.Module, **shapes: Any) -> torch.export.ExportedProgram:
    x = torch.randn(4, 3, dtype=next(net.parameters()).dtype)
    return torch.export.export(net, (x,), **shapes)


@pytest.fixture(autouse=True)
def no_programs_of_other_tests() -> None:
    """Torch gives up tracing a network of a class that it has traced too often in one process."""
    torch.compiler.reset()


def by_remedy(net: nn.Module) -> torch.export.ExportedProgram:
    """As the error message has it."""
    net.eval()
    x = torch.randn(4, 3, dtype=next(net.parameters()).dtype)
    return torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_round_trip(name: str, tmp_path: Path) -> None:
    net = NETWORKS[name]()
    program = by_remedy(net)
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    x = np.random.default_rng(0).uniform(-1, 1, (6, 3))
    own = problem_of(net)
    for given in (program, program.module(), torch.export.load(path), path, str(path)):
        problem = problem_of(given)
        np.testing.assert_allclose(
            problem.predictors[0].raw(x), own.predictors[0].raw(x), rtol=1e-12, atol=1e-12
        )
        if NAMES_STAY:
            assert problem.instance().digest == problem_of(path).instance().digest
        assert "ExportedProgram, regression, 1 x 3" in repr(problem)
    best = solve(own, 60.0)
    found = solve(problem_of(path), 60.0)
    assert found.status == best.status == "optimal"
    assert found.objective == pytest.approx(best.objective, rel=1e-5)


def test_programs_that_differ_have_different_digests() -> None:
    problems = [problem_of(by_remedy(mlp(1, 4, 3, seed=seed))) for seed in range(3)]
    assert len({problem.instance().digest for problem in problems}) == 3
    networks = [problem.predictors[0].net for problem in problems]
    assert len({Description().of(net) for net in networks}) == 3


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", ["MLP", "convolution"])
def test_a_program_for_one_number_of_rows_takes_any(name: str, rows: int, tmp_path: Path) -> None:
    net = NETWORKS[name]()
    program = torch.export.export(net.eval(), (torch.zeros(rows, 3),))
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    x = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    expected = problem_of(net).predictors[0].raw(x)
    for given in (program, path):
        found = problem_of(given).predictors[0].raw(x)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


class Started(nn.Module):
    """A state that begins with a zero for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(torch.cat([x, torch.zeros(x.shape[0], 3)], 1))
        return out


@pytest.mark.skipif(not GUARDED, reason="torch 2.6 writes no guards")
def test_a_program_whose_operations_hold_the_number_of_rows_is_refused_with_a_remedy() -> None:
    net = Started().eval()
    program = torch.export.export(net, (torch.zeros(2, 3),))
    remedy = (
        r"torch\.export\.export\(net, \(x,\), dynamic_shapes=\(\{0:"
        r" torch\.export\.Dim\('rows'\)\},\)\)"
    )
    with pytest.raises(ProblemError, match=f"exported for 2 samples .*{remedy}"):
        problem_of(program)
    problem_of(by_remedy(net.double()))


def test_a_program_in_training_mode_is_refused_with_a_remedy() -> None:
    net = Normed()
    program = exported(net, dynamic_shapes=({0: torch.export.Dim("rows")},))
    with pytest.raises(
        ProblemError, match=r"exported in training mode.*net\.eval\(\), then torch\.export"
    ):
        problem_of(program)
    problem_of(by_remedy(net))


def test_the_program_is_not_changed() -> None:
    module = by_remedy(mlp(1, 4, 3)).module()
    problem_of(module)
    assert all(weight.dtype == torch.float32 for weight in module.parameters())
    assert module.training


@pytest.mark.parametrize("path", ["net", "net.csv", Path("net.json")])
def test_other_files_are_refused(path: Any) -> None:
    with pytest.raises(ProblemError, match=r"its name must end in \.pt2, "):
        problem_of(path)


def test_a_file_that_does_not_exist_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt2 does not exist"):
        problem_of("nowhere.pt2")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_text("no archive")
    with pytest.raises(ProblemError, match=r"is no archive of torch\.export\.save"):
        problem_of(path)


def test_torchscript_needs_no_trust(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    net = small_network()
    torch.jit.save(torch.jit.script(net), path)
    x = torch.ones(2, 3, dtype=torch.float64)
    expected = net.double()(x).detach()
    np.testing.assert_allclose(problem_of(path).predictors[0].raw(x.numpy()), expected)


def test_a_pickle_needs_trust(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    net = small_network()
    torch.save(net, path)
    with pytest.raises(ProblemError, match="is a pickle, which can run code"):
        problem_of(path)
    assert torch.equal(load_network(path, trust=True)[0].weight, net[0].weight)


def test_weights_alone_are_no_network(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    torch.save(small_network().state_dict(), path)
    with pytest.raises(ProblemError, match=r"holds OrderedDict, no network.*load_state_dict"):
        load_network(path, trust=True)


def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).eval()


def test_networks_that_are_none_need_no_sympy() -> None:
    code = """
import sys
from ddmip_book.networks import mlp
from pyscipopt import Model
from ddmip_lib import NeuralMIP
model = Model()
problem = NeuralMIP(model)
problem.add_predictor(mlp(1, 4, 2), model.addMatrixVar((1, 2), ub=1.0), [[model.addVar("y", lb=None)]])
problem.instance().digest
assert "sympy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
