"""ONNX graphs are read as onnxruntime evaluates them, and bounded as torch modules are."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.bounds import network_graph
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.model import onnx_network
from ddmip_lib.model.description import Description
from ddmip_lib.model.onnx_network import compare_with_runtime, read_onnx

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)
FLOATS = TensorProto.FLOAT


def model_of(
    nodes: list[Any],
    shape: tuple[int, ...],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    rank: int = 2,
    batch: int | str = "n",
) -> Any:
    """A model of nodes that lead from x to y."""
    initialisers = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOATS, [batch, *shape])],
        [helper.make_tensor_value_info("y", FLOATS, [f"d{axis}" for axis in range(rank)])],
        initialisers,
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model


def node(kind: str, *inputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, ["x", *inputs], ["y"], name=f"the_{kind}", **attributes)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


ONE_NODE: dict[str, tuple[Any, ...]] = {
    "Gemm": (
        node("Gemm", "w", "c", alpha=0.5, beta=2.0),
        (3,),
        {"w": weights(3, 2), "c": weights(2)},
    ),
    "Gemm transposed": (node("Gemm", "w", transB=1), (3,), {"w": weights(2, 3)}),
    "MatMul": (node("MatMul", "w"), (3,), {"w": weights(3, 2)}),
    "Add": (node("Add", "w"), (3,), {"w": weights(3)}),
    "Sub": (node("Sub", "w"), (3,), {"w": weights(1, 3)}),
    "Mul": (node("Mul", "w"), (3,), {"w": weights(3)}),
    "Div": (node("Div", "w"), (3,), {"w": weights(3)}),
    "Relu": (node("Relu"), (3,)),
    "LeakyRelu": (node("LeakyRelu", alpha=0.2), (3,)),
    "PRelu": (node("PRelu", "w"), (3,), {"w": np.abs(weights(3))}),
    "Sigmoid": (node("Sigmoid"), (3,)),
    "Tanh": (node("Tanh"), (3,)),
    "Elu": (node("Elu", alpha=0.7), (3,)),
    "Softplus": (node("Softplus"), (3,)),
    "Gelu": (node("Gelu", approximate="tanh"), (3,), {}, 20),
    "Clip": (node("Clip", "a", "b"), (3,), {"a": np.float32(-0.5), "b": np.float32(0.5)}),
    "Clip above": (node("Clip", "", "b"), (3,), {"b": np.float32(0.5)}),
    "Clip before 11": (node("Clip", min=-0.5, max=0.25), (3,), {}, 8),
    "Clip without bounds": (
        node("Clip", "a", "b"),
        (3,),
        {"a": np.float32(-3.4028235e38), "b": np.float32(np.inf)},
    ),
    "Softmax": (node("Softmax"), (3,)),
    "Softmax before 13": (node("Softmax", axis=1), (2, 3), {}, 11),
    "Flatten": (node("Flatten"), (2, 3)),
    "Reshape": (node("Reshape", "s"), (6,), {"s": integers(0, 2, -1)}),
    "Transpose": (node("Transpose", perm=[0, 2, 1]), (2, 3)),
    "Squeeze": (node("Squeeze", "a"), (1, 3), {"a": integers(1)}),
    "Squeeze before 13": (node("Squeeze", axes=[2]), (3, 1), {}, 11),
    "Unsqueeze": (node("Unsqueeze", "a"), (3,), {"a": integers(1, -1)}),
    "Concat": (helper.make_node("Concat", ["x", "x"], ["y"], axis=1), (3,)),
    "Slice": (
        node("Slice", "b", "e", "a", "s"),
        (5,),
        {"b": integers(1), "e": integers(100), "a": integers(1), "s": integers(2)},
    ),
    "Slice before 10": (node("Slice", axes=[1], starts=[-2], ends=[5]), (5,), {}, 9),
    "Gather": (node("Gather", "i", axis=1), (4,), {"i": integers(3, -4)}),
    "Identity": (node("Identity"), (3,)),
    "Dropout": (node("Dropout"), (3,)),
    "Cast": (node("Cast", to=FLOATS), (3,)),
    "Neg": (node("Neg"), (3,)),
    "Erf": (node("Erf"), (3,)),
    "Conv 1d": (
        node("Conv", "w", "b", pads=[1, 1], strides=[2]),
        (2, 7),
        {"w": weights(4, 2, 3), "b": weights(4)},
    ),
    "Conv 2d": (
        node("Conv", "w", group=2, dilations=[2, 1], pads=[0, 1, 1, 0]),
        (2, 5, 4),
        {"w": weights(4, 1, 2, 2)},
    ),
    "BatchNormalization": (
        node("BatchNormalization", "s", "b", "m", "v", epsilon=1e-3),
        (2, 3),
        {"s": weights(2), "b": weights(2), "m": weights(2), "v": np.abs(weights(2))},
    ),
    "MaxPool": (node("MaxPool", kernel_shape=[2, 2], strides=[1, 2], pads=[1, 0, 0, 1]), (1, 4, 5)),
    "MaxPool 1d": (node("MaxPool", kernel_shape=[2], ceil_mode=1, strides=[2]), (2, 5)),
    "AveragePool": (
        node("AveragePool", kernel_shape=[2, 2], pads=[1, 1, 1, 1], strides=[2, 2]),
        (1, 4, 5),
    ),
    "AveragePool with pads": (
        node("AveragePool", kernel_shape=[2], pads=[1, 1], count_include_pad=1),
        (2, 5),
    ),
    "GlobalAveragePool": (node("GlobalAveragePool"), (2, 3, 4)),
    "ReduceMean": (node("ReduceMean", axes=[2], keepdims=0), (2, 3), {}, 17),
    "ReduceMean from 18": (node("ReduceMean", "a"), (2, 3), {"a": integers(-1)}, 18),
    "ReduceSum": (node("ReduceSum", "a", keepdims=0), (2, 3), {"a": integers(1, 2)}),
}


def run(model: Any, x: np.ndarray) -> np.ndarray:
    """Outputs of onnxruntime, one vector for each sample."""
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    return np.reshape(found, (len(x), -1))


@pytest.mark.parametrize("name", ONE_NODE)
def test_an_operator_is_that_of_onnxruntime(name: str) -> None:
    only, shape, *rest = ONE_NODE[name]
    model = model_of([only], shape, *rest)
    x = RNG.uniform(-1, 1, (4, *shape)).astype(np.float32)
    net = read_onnx(model)
    found = net(torch.tensor(x.reshape(4, -1)).double())
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), run(model, x), rtol=2e-6, atol=2e-6)


class Convolved(nn.Module):
    """Two dimensions, batch norm, pooling, a residual sum and a view by the size of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.second = nn.Conv2d(2, 2, 1)
        self.last = nn.Linear(2 * 2 * 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.relu(self.norm(self.first(x)))
        z = nn.functional.avg_pool2d(z + torch.relu(self.second(z)), 2)
        out: torch.Tensor = self.last(z.view(z.size(0), -1))
        return out


NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "MLP": (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), (3,)),
    "slopes": (lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.LeakyReLU(0.3)), (3,)),
    "clipped": (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU6(), nn.Hardtanh()), (3,)),
    "convolution": (Convolved, (1, 4, 4)),
}


def exported(net: nn.Module, shape: tuple[int, ...], path: Path, **more: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch recommends its other exporter
        example = torch.zeros(2, *shape)
        torch.onnx.export(net, (example,), path, dynamo=False, input_names=["x"], **more)
    return path


@pytest.mark.parametrize("name", NETWORKS)
def test_what_torch_exports_has_the_outputs_and_bounds_of_the_network(
    name: str, tmp_path: Path
) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(1)
    net = make().eval()
    read = read_onnx(exported(net, shape, tmp_path / "net.onnx", dynamic_axes={"x": {0: "n"}}))
    net = net.double()
    p = int(np.prod(shape))
    x = torch.randn(7, p, dtype=torch.float64)
    expected = net(x.reshape(7, *shape))
    torch.testing.assert_close(read(x), expected, rtol=1e-6, atol=1e-6)
    assert not network_graph(read, p).curved
    description = Description()
    description.of(read)
    assert description.complete


def test_a_graph_for_one_batch_size_takes_others(tmp_path: Path) -> None:
    torch.manual_seed(2)
    net = Convolved().eval()
    read = read_onnx(exported(net, (1, 4, 4), tmp_path / "net.onnx"))
    assert read.batch == 2
    x = torch.randn(5, 16, dtype=torch.float64)
    expected = net.double()(x.reshape(5, 1, 4, 4))
    torch.testing.assert_close(read(x), expected, rtol=1e-6, atol=1e-6)
    reshape = node("Reshape", "s")
    fixed = read_onnx(model_of([reshape], (2, 2), {"s": integers(1, 4)}, batch=1))
    assert fixed(x[:, :4]).shape == (5, 4)


def problem_with(net: Any, p: int = 2) -> NeuralMIP:
    model = Model()
    x = model.addMatrixVar((1, p), vtype="I", lb=-3, ub=3)
    y = model.addVar("y", lb=None)
    model.setObjective(y, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, [[y]])
    return problem


def small_model() -> Any:
    """relu(x1 - 2 x2) - relu(x1 + x2), largest at (-3, -3), where it is 3."""
    hidden = np.array([[1, 1], [-2, 1]], dtype=np.float32)
    last = np.array([[1], [-1]], dtype=np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    return model_of(nodes, (2,), {"w": hidden, "v": last})


def test_solve_proves_the_optimum_of_a_model_and_of_its_file(tmp_path: Path) -> None:
    model = small_model()
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    grid = [(a, b) for a in range(-3, 4) for b in range(-3, 4)]
    best = max(max(a - 2 * b, 0) - max(a + b, 0) for a, b in grid)
    problem = problem_with(path)
    assert problem.instance().digest == problem_with(model).instance().digest
    assert "predictor 0  ONNX" in repr(problem)
    solution = solve(problem, 20.0)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best)


def test_what_onnxruntime_contradicts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(onnx_network.OPERATORS, "Relu", lambda x: x)
    with pytest.raises(ProblemError, match=r"as read differs from onnxruntime by"):
        problem_with(small_model())


def test_a_model_that_onnxruntime_does_not_run_is_read_with_a_warning() -> None:
    model = small_model()
    model.ir_version = 1000
    with pytest.warns(UserWarning, match="onnxruntime cannot check the ONNX network"):
        problem = problem_with(model)
    raw = problem.predictors[0].raw(np.array([[-3.0, -3.0]]))
    assert raw.item() == 3.0


def test_other_networks_are_not_compared() -> None:
    compare_with_runtime(nn.Linear(2, 1), np.zeros((1, 2)), np.ones((1, 2)))


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (
            node("Sin"),
            r"operator Sin \(node 'the_Sin'\) is not supported: build the network of Add",
        ),
        (
            helper.make_node("Split", ["x"], ["y", "z"], axis=1, name="parts"),
            r"operator Split \(node 'parts'\)",
        ),
        (node("Binarizer", domain="ai.onnx.ml"), "operator Binarizer"),
    ],
)
def test_an_unknown_operator_is_named(only: Any, message: str) -> None:
    model = model_of([node("Relu")], (2,))
    model.graph.node[0].CopyFrom(only)
    with pytest.raises(UnsupportedNetworkError, match=message):
        read_onnx(model)


@pytest.mark.parametrize(
    ("only", "shape", "message"),
    [
        (node("Cast", to=9), (2,), "operator Cast .* makes values of another type"),
        (node("Flatten", axis=0), (2,), "operator Flatten .* does not keep the samples"),
        (node("ReduceSum"), (2,), "operator ReduceSum .* is over all samples"),
        (
            node("MaxPool", kernel_shape=[2], auto_pad="SAME_UPPER"),
            (1, 4),
            "has auto_pad SAME_UPPER",
        ),
    ],
)
def test_an_unknown_setting_is_named(only: Any, shape: tuple[int, ...], message: str) -> None:
    net = read_onnx(model_of([only], shape))
    with pytest.raises(UnsupportedNetworkError, match=message):
        net(torch.zeros(2, int(np.prod(shape)), dtype=torch.float64))


def test_inputs_and_outputs_are_one_each_with_a_batch(tmp_path: Path) -> None:
    model = model_of([node("Relu")], (2,))
    model.graph.input.append(helper.make_tensor_value_info("z", FLOATS, ["n", 1]))
    with pytest.raises(ProblemError, match=r"has 2 inputs and 1 outputs \(x, z, y\)"):
        read_onnx(model)
    with pytest.raises(
        ProblemError, match=r"input x of the ONNX graph has shape \[0\], where 0 is free"
    ):
        read_onnx(model_of([node("Relu")], ()))
    path = tmp_path / "net.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ProblemError, match=r"net\.onnx is no ONNX file"):
        read_onnx(path)


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'ddmip-lib\[onnx\]'"):
        read_onnx(small_model())
