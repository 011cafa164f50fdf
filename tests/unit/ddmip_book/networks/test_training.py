"""Training and the cache of trained networks."""

import hashlib
import io
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.data import Dataset, load_trees, load_water
from ddmip_book.networks import attention, conv1d, lstm, mlp, resnet, train

REAL = os.environ.get("DDMIP_DATA_DIR")


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path))
    return tmp_path / "networks"


@pytest.fixture
def data() -> Dataset:
    """A small problem that a network solves: inside or outside a circle, features far from unit
    scale.
    """
    z = np.random.RandomState(0).uniform(-1.5, 1.5, size=(400, 2))
    labels = (np.square(z).sum(axis=1) < 1).astype(float)
    return Dataset(
        "circle",
        "stand-in",
        "0" * 64,
        100 + 5 * z,
        labels,
        ("a", "b"),
        np.arange(400),
        "classification",
        True,
    )


def weights(net: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(net.parameters())


def small(seed: int = 0) -> nn.Sequential:
    return mlp(depth=1, width=8, n_in=2, seed=seed)


class TestResult:
    def test_learns_and_leaves_the_given_network_alone(self, data: Dataset) -> None:
        net = mlp(depth=2, width=16, n_in=2)
        before = weights(net).clone()
        trained = train(net, data, epochs=40, learning_rate=1e-2, cache=False)
        assert torch.equal(weights(net), before)
        assert net[0].weight.dtype == torch.float32
        assert trained.report["test_accuracy"] > 0.9
        z = torch.tensor((data.features - trained.mean) / trained.std)
        assert (((trained(z)[:, 0] > 0).numpy() == data.labels).mean()) > 0.9

    def test_form(self, data: Dataset) -> None:
        trained = train(small(), data, epochs=1, cache=False)
        assert weights(trained).dtype == torch.float64
        assert not trained.training
        assert not any(parameter.requires_grad for parameter in trained.parameters())
        assert torch.equal(weights(trained).float().double(), weights(trained))
        assert np.array_equal(trained.mean, data.mean)
        assert np.array_equal(trained.std, data.std)
        assert trained.report["data"] == data.provenance
        assert trained.report["epochs"] == 1
        assert trained.report["cached"] is False

    def test_raw_inputs_for_regression(self, data: Dataset) -> None:
        raw = replace(data, features=data.features / 100, task="regression", standardise=False)
        trained = train(small(), raw, epochs=2, cache=False)
        assert trained.mean.tolist() == [0.0, 0.0]
        assert trained.std.tolist() == [1.0, 1.0]
        rows = torch.randperm(400, generator=torch.Generator().manual_seed(0))[320:]
        error = trained(torch.tensor(raw.features[rows]))[:, 0].numpy() - raw.labels[rows]
        assert trained.report["test_mse"] == pytest.approx(np.square(error).mean(), rel=1e-5)

    def test_same_seed_same_bits(self, data: Dataset) -> None:
        threads = torch.get_num_threads()
        first = train(small(), data, seed=3, epochs=3, cache=False)
        torch.manual_seed(99)
        before = torch.get_rng_state()
        second = train(small(), data, seed=3, epochs=3, cache=False)
        assert torch.equal(weights(first), weights(second))
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads
        assert not torch.equal(
            weights(first), weights(train(small(), data, seed=4, epochs=3, cache=False))
        )

    def test_dropout_is_seeded_too(self, data: Dataset) -> None:
        net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))
        runs = [train(net, data, epochs=2, cache=False) for _ in range(2)]
        assert torch.equal(weights(runs[0]), weights(runs[1]))

    def test_early_stop(self, data: Dataset) -> None:
        stopped = train(small(), data, epochs=50, learning_rate=0.3, patience=2, cache=False)
        assert stopped.report["epochs"] < 50
        assert train(small(), data, epochs=3, patience=3, cache=False).report["epochs"] == 3

    def test_progress_bar(self, data: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm.auto hints at ipywidgets where they are absent
            train(small(), data, epochs=2, progress=True, cache=False)
        assert "training: 100%" in capsys.readouterr().err
        train(small(), data, epochs=2, cache=False)
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize("build", [conv1d, resnet, lstm, attention])
    def test_every_architecture_trains(
        self, build: Callable[..., nn.Module], data: Dataset
    ) -> None:
        net = build(depth=1, width=8, n_in=2)
        trained = train(net, data, epochs=30, learning_rate=1e-2)
        assert trained.report["test_accuracy"] > 0.8
        assert train(net, data, epochs=30, learning_rate=1e-2).report["cached"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"epochs": 0}, "epochs = 0"),
            ({"batch_size": 2.5}, r"batch_size = 2\.5"),
            ({"patience": 0}, "patience = 0"),
            ({"learning_rate": 0.0}, "learning_rate must be positive"),
            ({"weight_decay": -1.0}, "weight_decay non-negative"),
            ({"test_share": 1.0}, r"test_share = 1\.0"),
            ({"learning_rate": 1e30}, "training diverged"),
            ({"net": mlp(1, 4, 3)}, "does not take samples of 2 features"),
            ({"net": mlp(1, 4, 2, n_out=2)}, "use n_out=1"),
        ],
    )
    def test_values(self, data: Dataset, change: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            train(**{"net": small(), "data": data, "epochs": 2, "cache": False, **change})

    def test_types(self, data: Dataset) -> None:
        with pytest.raises(TypeError, match="Dataset"):
            train(small(), data.features)
        with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
            train(lambda x: x, data)

    def test_constant_feature(self, data: Dataset) -> None:
        with pytest.raises(ValueError, match="'b' is constant"):
            train(
                small(),
                replace(data, features=np.column_stack([data.features[:, 0], np.ones(400)])),
            )


class TestCache:
    def test_second_call_reads_the_first(self, data: Dataset, cache_folder: Path) -> None:
        first = train(small(), data, epochs=2)
        second = train(small(), data, epochs=2)
        assert (first.report["cached"], second.report["cached"]) == (False, True)
        assert torch.equal(weights(first), weights(second))
        assert {**first.report, "cached": True} == second.report
        assert [path.suffix for path in cache_folder.iterdir()] == [".pt"]

    def test_everything_that_determines_a_network_is_in_its_key(self, data: Dataset) -> None:
        train(small(), data, epochs=2)
        flipped = data.labels.copy()
        flipped[0] = 1 - flipped[0]
        for net, other, options in [
            (small(seed=1), data, {}),
            (nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)), data, {}),
            (small(), replace(data, labels=flipped), {}),
            (small(), replace(data, features=data.features + 1), {}),
            (small(), replace(data, sha256="1" * 64), {}),
            (small(), replace(data, task="regression"), {}),
            (small(), replace(data, standardise=False), {}),
            (small(), data, {"seed": 1}),
            (small(), data, {"epochs": 3}),
            (small(), data, {"learning_rate": 2e-3}),
            (small(), data, {"weight_decay": 0.0}),
            (small(), data, {"batch_size": 32}),
            (small(), data, {"test_share": 0.3}),
            (small(), data, {"patience": 1}),
        ]:
            assert not train(net, other, **{"epochs": 2, **options}).report["cached"]
        assert train(small(), data, epochs=2, progress=False).report["cached"]

    @pytest.mark.parametrize(
        "damage", ["cut", "flip", "empty", "no checkpoint", "a cut archive", "another entry"]
    )
    def test_damaged_entry_is_reported_and_replaced(
        self, data: Dataset, cache_folder: Path, damage: str
    ) -> None:
        first = train(small(), data, epochs=2)
        (path,) = cache_folder.iterdir()
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
        digest = hashlib.sha256
        other = io.BytesIO()
        torch.save({"weights": torch.zeros(2)}, other)
        sound = {
            "no checkpoint": b"of another torch",
            "a cut archive": content[32:-100],
            "another entry": other.getvalue(),
        }
        payload = sound.get(damage, b"")
        path.write_bytes(
            {"cut": content[:-100], "flip": content, "empty": b""}.get(
                damage, digest(payload).digest() + payload
            )
        )
        with pytest.warns(UserWarning, match=f"{path.name} is damaged"):
            second = train(small(), data, epochs=2)
        assert not second.report["cached"]
        assert torch.equal(weights(first), weights(second))
        assert train(small(), data, epochs=2).report["cached"]

    def test_a_folder_in_place_of_an_entry_is_kept(self, data: Dataset, cache_folder: Path) -> None:
        first = train(small(), data, epochs=1)
        (path,) = cache_folder.iterdir()
        path.unlink()
        (path / "someone's").mkdir(parents=True)
        with pytest.warns(UserWarning, match=f"{path.name} is damaged|could not be cached"):
            second = train(small(), data, epochs=1)
        assert torch.equal(weights(first), weights(second))
        assert (path / "someone's").is_dir()

    def test_no_cache_when_asked(self, data: Dataset, cache_folder: Path) -> None:
        train(small(), data, epochs=1, cache=False)
        assert not cache_folder.exists()

    def test_unwritable_folder_does_not_lose_the_network(
        self, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path / "file"))
        with pytest.warns(UserWarning, match="could not be cached.*DDMIP_CACHE_DIR"):
            assert train(small(), data, epochs=1).report["epochs"] == 1

    def test_code_of_a_readers_own_module_is_in_the_key(self, data: Dataset) -> None:
        class Own(nn.Module):
            def __init__(self, power: int) -> None:
                super().__init__()
                self.power = power
                self.linear = nn.Linear(2, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.linear(x**self.power)

        torch.manual_seed(0)
        net = Own(power=1)
        assert not train(net, data, epochs=1).report["cached"]
        assert train(net, data, epochs=1).report["cached"]
        net.power = 2
        assert not train(net, data, epochs=1).report["cached"]
        net.function = torch.sin  # type: ignore[assignment]
        assert [train(net, data, epochs=1).report["cached"] for _ in range(2)] == [False, True]

    def test_code_that_reads_files_is_never_cached(self, data: Dataset) -> None:
        class Reader(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with open(os.devnull) as file:
                    return super().forward(x) + len(file.read())

        net = Reader(2, 1)
        assert not any(train(net, data, epochs=1).report["cached"] for _ in range(2))


class TestStandIn:
    """What the quick profiles rely on: the stand-in behaves like the real data under the recipe."""

    @pytest.fixture(autouse=True)
    def no_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("DDMIP_DATA_DIR", raising=False)

    def test_water_is_learnable_and_treatable(self) -> None:
        water = load_water()
        net = train(mlp(depth=2, width=16, n_in=9, seed=42), water, seed=42)
        assert 0.64 < net.report["test_accuracy"] < 0.78
        z = torch.tensor(((water.features - net.mean) / net.std)[water.labels == 0])
        potable = net(z)[:, 0] > 0
        assert 0.08 < potable.double().mean() < 0.25
        shifts = torch.cat([torch.eye(9), -torch.eye(9)]).double()
        treated = (net(z[~potable][:, None] + shifts)[..., 0] > 1e-3).any(dim=1).double().mean()
        assert treated > 0.4

    def test_trees_respond_to_sterilising_site_by_site(self) -> None:
        tree = load_trees()["Acer saccharum"]
        net = train(mlp(depth=2, width=16, n_in=7, seed=42), tree)
        assert net.report["test_mse"] < tree.labels.var()
        sites = torch.tensor(tree.features)
        sites[:, 5] = 0
        untreated = sites.clone()
        treated = sites.clone()
        untreated[:, 6], treated[:, 6] = 0, 1
        effect = (net(treated) - net(untreated))[:, 0]
        assert effect.max() > 0.1
        assert effect.min() < 0


@pytest.mark.long
@pytest.mark.skipif(not REAL, reason="needs the real files: set DDMIP_DATA_DIR to their folder")
def test_recipe_gives_the_reference_network() -> None:
    """Fingerprints of the published 2x16 reference network; loose enough for another CPU's
    rounding.
    """
    net = train(mlp(depth=2, width=16, n_in=9, seed=42), load_water(), seed=0)
    assert net.report["test_accuracy"] == pytest.approx(271 / 403, abs=0.01)


@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_weights_are_those_of_torchs_own_adam_to_the_last_digit(
    data: Dataset, monkeypatch: pytest.MonkeyPatch, weight_decay: float
) -> None:
    recipe = {"epochs": 3, "weight_decay": weight_decay, "cache": False}
    found = train(mlp(2, 8, 2, seed=1), data, **recipe)
    optimisers = list[torch.optim.Adam]()

    def by_torch(
        weight: torch.Tensor, slope: torch.Tensor, rate: float, moments: object, t: int
    ) -> None:
        if t == 1:
            optimisers.append(torch.optim.Adam([weight], rate, weight_decay=weight_decay))
        optimisers[order.setdefault(id(weight), len(order))].step()

    order = dict[int, int]()
    monkeypatch.setattr("ddmip_book.networks.training.take_step", by_torch)
    assert torch.equal(weights(found), weights(train(mlp(2, 8, 2, seed=1), data, **recipe)))
    assert len(optimisers) == 6
