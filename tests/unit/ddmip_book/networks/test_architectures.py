"""Architectures and npz files."""

import copy
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ddmip_book.networks import (
    attention,
    conv1d,
    describe,
    load_npz,
    lstm,
    mlp,
    npz,
    resnet,
    save_npz,
)

BUILDERS = [mlp, conv1d, resnet, lstm, attention]
Builder = Callable[..., nn.Module]


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("build", BUILDERS)
class TestEveryArchitecture:
    @settings(deadline=None, max_examples=10)
    @given(
        st.integers(1, 3),
        st.integers(1, 9),
        st.integers(1, 9),
        st.integers(1, 3),
        st.integers(0, 5),
    )
    def test_shapes(
        self, build: Builder, depth: int, width: int, n_in: int, n_out: int, batch: int
    ) -> None:
        net = build(depth, width, n_in, n_out, seed=1)
        assert net(torch.randn(batch, n_in)).shape == (batch, n_out)

    def test_float32_evaluation_mode(self, build: Builder) -> None:
        net = build(depth=2, width=4, n_in=3)
        assert not net.training
        assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}

    def test_seed_decides_and_global_generator_is_untouched(self, build: Builder) -> None:
        torch.manual_seed(7)
        before = torch.get_rng_state()
        net = build(depth=2, width=4, n_in=3, seed=5)
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(8)
        assert same_weights(net, build(depth=2, width=4, n_in=3, seed=5))
        assert not same_weights(net, build(depth=2, width=4, n_in=3, seed=6))

    def test_rows_do_not_influence_each_other(self, build: Builder) -> None:
        net = build(depth=2, width=4, n_in=3).double()
        x = torch.randn(5, 3, dtype=torch.float64)
        assert torch.allclose(net(x), torch.cat([net(row[None]) for row in x]), atol=1e-12)

    def test_gradient_in_float64(self, build: Builder) -> None:
        net = build(depth=2, width=4, n_in=3, seed=3).double().requires_grad_(False)
        x = torch.randn(
            2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        ).requires_grad_()
        assert torch.autograd.gradcheck(net, (x,))

    def test_second_derivative(self, build: Builder) -> None:
        net = build(depth=1, width=4, n_in=3).requires_grad_(False)
        x = torch.randn(2, 3).requires_grad_()
        (gradient,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
        (curvature,) = torch.autograd.grad(gradient.sum(), x)
        assert torch.isfinite(curvature).all()
        assert curvature.abs().max() > 0

    def test_deep_copy_is_independent(self, build: Builder) -> None:
        net = build(depth=2, width=4, n_in=3)
        twin = copy.deepcopy(net)
        with torch.no_grad():
            next(twin.parameters()).add_(1.0)
        x = torch.ones(1, 3)
        assert not torch.equal(net(x), twin(x))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"depth": 0}, "depth = 0"),
            ({"width": -1}, "width = -1"),
            ({"n_in": 2.0}, "n_in = 2.0"),
            ({"n_out": True}, "n_out = True"),
            ({"seed": -1}, "seed = -1"),
            ({"seed": "a"}, "seed = 'a'"),
        ],
    )
    def test_nonsense_is_refused(
        self, build: Builder, change: dict[str, object], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            build(**{"depth": 2, "width": 4, "n_in": 3, **change})

    def test_every_feature_matters(self, build: Builder) -> None:
        net = build(depth=2, width=8, n_in=5, seed=2).double()
        x = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(net(x).sum(), x)
        assert (gradient != 0).all()


def test_mlp_is_flat_and_equals_its_formula() -> None:
    net = mlp(depth=2, width=4, n_in=3, n_out=2, seed=9)
    assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    x = torch.randn(6, 3)
    hidden = x
    for layer in (net[0], net[2]):
        hidden = (hidden @ layer.weight.T + layer.bias).clamp(min=0)
    assert torch.allclose(net(x), hidden @ net[4].weight.T + net[4].bias, atol=1e-6)


@pytest.mark.parametrize(
    ("net", "text"),
    [
        (mlp(2, 16, 9), "2x16 ReLU MLP, 449 parameters"),
        (conv1d(1, 2, 9), "1x2 1-D convolutional network, 27 parameters"),
        (resnet(1, 2, 3), "1x2 residual network, 23 parameters"),
        (lstm(1, 8, 9), "1x8 LSTM, 361 parameters"),
        (attention(1, 2, 3), "1x2 attention network, 69 parameters"),
        (nn.Linear(3, 1), "Linear, 4 parameters"),
        (nn.Sequential(nn.Linear(3, 1)), "linear model, 4 parameters"),
        (
            nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 1)),
            "4-2 ReLU MLP, 29 parameters",
        ),
        (nn.Sequential(nn.Linear(3, 1), nn.Tanh()), "Sequential, 4 parameters"),
    ],
)
def test_describe(net: nn.Module, text: str) -> None:
    assert describe(net) == text


class TestNpz:
    @settings(deadline=None, max_examples=20)
    @given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), st.booleans(), st.booleans())
    def test_round_trip_is_exact(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        depth: int,
        width: int,
        n_in: int,
        double: bool,
        scaled: bool,
    ) -> None:
        path = tmp_path_factory.mktemp("npz") / "net.npz"
        net = mlp(depth, width, n_in, seed=width)
        if double:
            net = net.double()
            with torch.no_grad():
                net[0].weight.mul_(1 / 3)
        if scaled:
            net.__dict__.update(mean=np.full(n_in, 0.1), std=np.full(n_in, 2.0))
        save_npz(net, path)
        loaded = load_npz(path)
        assert same_weights(net.double(), loaded)
        assert not loaded.training
        assert not any(parameter.requires_grad for parameter in loaded.parameters())
        assert hasattr(loaded, "mean") == hasattr(loaded, "std") == scaled
        if scaled:
            assert (loaded.mean == 0.1).all()
            assert loaded.std.dtype == np.float64

    def arrays(self) -> dict[str, np.ndarray]:
        return {"W0": np.ones((4, 3)), "b0": np.zeros(4), "W1": np.ones((1, 4)), "b1": np.zeros(1)}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"b1": None}, r"missing \['b1'\]"),
            ({"W0": None}, r"missing \['W0'\].*not understood \['W1', 'b1'\]"),
            ({"W1": np.ones((1, 5))}, "W1 takes 5 inputs, but layer 0 has 4 outputs"),
            ({"b0": np.zeros(3)}, "W0 has shape"),
            ({"W0": np.full((4, 3), np.nan)}, "'W0' must hold finite"),
            ({"b0": np.array(["a"] * 4)}, "'b0' must hold finite floating"),
            ({"extra": np.zeros(1)}, r"not understood \['extra'\]"),
            ({"mean": np.zeros(3)}, "come together"),
            ({"mean": np.zeros(2), "std": np.ones(2)}, "has shape"),
            ({"mean": np.zeros(3), "std": np.zeros(3)}, "positive"),
            ({"b0": np.array([None] * 4)}, "plain arrays"),
        ],
    )
    def test_bad_arrays_are_named(
        self, tmp_path: Path, change: dict[str, np.ndarray], message: str
    ) -> None:
        arrays = {
            name: array for name, array in (self.arrays() | change).items() if array is not None
        }
        np.savez(tmp_path / "net.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            load_npz(tmp_path / "net.npz")

    def test_bad_files_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "text.npz").write_text("not an archive")
        np.save(tmp_path / "single.npy", np.zeros(3))
        np.savez(tmp_path / "net.npz", **self.arrays())
        content = (tmp_path / "net.npz").read_bytes()
        (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
        np.savez(tmp_path / "empty.npz")
        for name in ("text.npz", "single.npy", "cut.npz"):
            with pytest.raises(ValueError, match=f"{name} is not an npz file"):
                load_npz(tmp_path / name)
        with pytest.raises(ValueError, match="expected W0, b0"):
            load_npz(tmp_path / "empty.npz")
        with pytest.raises(FileNotFoundError):
            load_npz(tmp_path / "absent.npz")

    @pytest.mark.parametrize("forged", ["shape", "many", "packed"])
    def test_a_forged_header_is_refused_before_memory_is_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
    ) -> None:
        path = tmp_path / "net.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in self.arrays().items():
                for copy_ in range(3 if forged == "packed" else 1):
                    file = io.BytesIO()
                    shape = array.shape
                    if forged == "shape" and name == "W0":
                        shape = (2**25, 2**25)
                    np.lib.format.write_array_header_1_0(
                        file, {"descr": "<f8", "fortran_order": False, "shape": shape}
                    )
                    archive.writestr(f"{name}{'_' * copy_}.npy", file.getvalue() + array.tobytes())
        if forged == "shape":
            with pytest.raises(ValueError, match=r"W0\.npy claims 9007199254740992 bytes"):
                load_npz(path)
        else:
            limit, allowed = (
                ("MAX_ARRAY_BYTES", 100) if forged == "many" else ("MAX_INFLATION", 0.1)
            )
            monkeypatch.setattr(npz, limit, allowed)
            monkeypatch.setattr(npz, "SMALL_ARRAY_BYTES", 0)
            with pytest.raises(ValueError, match="more than the file holds"):
                load_npz(path)

    @pytest.mark.parametrize("dtype", [np.float16, np.float64])
    def test_an_archive_that_unpacks_to_much_more_is_refused(
        self, tmp_path: Path, dtype: type
    ) -> None:
        """100 kB that would become 200 MB; what is measured is what Python and numpy ask for."""
        arrays = {"W0": np.zeros((2**13, 2**11), dtype=dtype), "b0": np.zeros(2**13, dtype=dtype)}
        np.savez_compressed(tmp_path / "net.npz", **arrays)
        assert (tmp_path / "net.npz").stat().st_size < 2**18
        del arrays
        tracemalloc.start()
        try:
            with pytest.raises(
                ValueError, match=r"W0\.npy claims \d+ bytes.*write it with save_npz"
            ):
                load_npz(tmp_path / "net.npz")
            assert tracemalloc.get_traced_memory()[1] < 2**21
        finally:
            tracemalloc.stop()

    def test_weights_that_are_packed_are_read(self, tmp_path: Path) -> None:
        arrays = {"W0": np.eye(700, dtype=np.float16), "b0": np.zeros(700, dtype=np.float16)}
        arrays["W0"] += np.random.default_rng(0).random((700, 700)) < 0.1  # most are 0
        np.savez_compressed(tmp_path / "net.npz", **arrays)
        layer = load_npz(tmp_path / "net.npz")[0]
        assert torch.equal(layer.weight, torch.from_numpy(arrays["W0"].astype(float)))
        assert layer.weight.is_contiguous()
        assert not layer.weight.is_meta

    @pytest.mark.parametrize(
        "header",
        [
            b"{'descr': '<f8', 'fortran_order': False, 'shape': "
            + b"(" * 5000
            + b")" * 4000
            + b", }",
            b"{'descr': "
            + b"[" * 3000
            + b"]" * 3000
            + b", 'fortran_order': False, 'shape': (3,), }",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,",
            b"{'descr': 'no type', 'fortran_order': False, 'shape': (3,), }",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"1, " * 40 + b"), }",
            b" " * 20_000,
            b"\xff\x00",
        ],
    )
    @pytest.mark.parametrize("version", [1, 2])
    def test_headers_that_are_none_are_refused(
        self, tmp_path: Path, header: bytes, version: int
    ) -> None:
        length = len(header).to_bytes(2 if version == 1 else 4, "little")
        with zipfile.ZipFile(tmp_path / "net.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                "W0.npy",
                b"\x93NUMPY" + bytes([version, 0]) + length + header + np.zeros(3).tobytes(),
            )
        with pytest.raises(
            ValueError, match=r"is not an npz file of plain arrays .*write it with save_npz"
        ):
            load_npz(tmp_path / "net.npz")

    def test_numbers_beyond_doubles_are_refused_by_name(self, tmp_path: Path) -> None:
        arrays = self.arrays()
        arrays["b1"] = np.array([1e300], dtype=np.longdouble) ** 10
        np.savez(tmp_path / "net.npz", **arrays)
        with pytest.raises(ValueError, match="array 'b1' must hold finite"):
            load_npz(tmp_path / "net.npz")

    def test_other_networks_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="not this 1x4 LSTM"):
            save_npz(lstm(1, 4, 3), tmp_path / "net.npz")
        assert not (tmp_path / "net.npz").exists()

    def test_linear_layer_without_bias(self, tmp_path: Path) -> None:
        net = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1))
        save_npz(net, tmp_path / "net.npz")
        x = torch.randn(4, 3)
        assert torch.allclose(
            load_npz(tmp_path / "net.npz")(x.double()), net(x).double(), atol=1e-6
        )
