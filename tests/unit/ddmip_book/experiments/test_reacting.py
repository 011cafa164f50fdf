"""Networks that react, and what the experiments make of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.data import load_trees, load_water
from ddmip_book.experiments import Case, reacting
from ddmip_book.experiments.networks import digest, networks_of, untrained
from ddmip_book.experiments.reacting import LAST_LAYER, Reaction, he_initialised, train_reacting
from ddmip_book.networks import mlp, train

WATER = load_water()
DEEP = (10, 32)


def outputs(net: nn.Module, features: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return net(torch.from_numpy((features - net.__dict__["mean"]) / net.__dict__["std"]))[
            :, 0
        ].numpy()


def test_weights_begin_with_the_variance_of_he_and_a_small_end() -> None:
    net = he_initialised(mlp(3, 400, 9, seed=1), seed=2)
    layers = [module for module in net if isinstance(module, nn.Linear)]
    spread = [
        float(layer.weight.detach().std()) * (layer.in_features / 2) ** 0.5 for layer in layers
    ]
    assert spread[:3] == pytest.approx([1.0] * 3, rel=0.1)
    assert spread[3] == pytest.approx(LAST_LAYER, rel=0.2)
    assert all(float(layer.bias.detach().abs().max()) == 0.0 for layer in layers)


@pytest.mark.long
def test_a_deep_network_reacts_where_the_usual_recipe_gives_a_constant() -> None:
    usual = train(mlp(*DEEP, 9, seed=42), WATER, seed=42, epochs=1)
    found = train_reacting(mlp(*DEEP, 9, seed=42), WATER, seed=42)
    dead, alive = (
        Reaction(outputs(net, WATER.features), WATER.labels, WATER.task) for net in (usual, found)
    )
    assert not dead.reacts
    assert alive.reacts
    assert alive.spread == pytest.approx(found.report["spread"], rel=1e-3)
    assert found.report["test_accuracy"] >= found.report["larger_class"]
    again = train_reacting(mlp(*DEEP, 9, seed=42), WATER, seed=42, keep=False)
    assert digest([found]) == digest([again]), "the same seed gives the same bits, cached or not"


def test_a_regression_reacts_if_its_outputs_differ() -> None:
    data = next(iter(load_trees().values()))
    net = train_reacting(mlp(6, 16, data.features.shape[1], seed=1), data, seed=1)
    assert Reaction(outputs(net, data.features), data.labels, data.task).reacts
    flat = Reaction(np.full(9, 0.7), np.linspace(0, 1, 9), "regression")
    assert not flat.reacts


@pytest.mark.parametrize(
    ("logits", "reacts"),
    [([-1.0] * 8 + [1.0] * 2, True), ([-1.0] * 19 + [1.0], False), ([-0.3] * 5 + [0.3] * 5, False)],
)
def test_what_counts_as_a_reaction(logits: list[float], reacts: bool) -> None:
    assert Reaction(np.array(logits), np.arange(len(logits)) % 2, "classification").reacts is reacts


def test_cases_name_their_recipe(tmp_path: Path) -> None:
    case = Case("reacting", "water", "4x16-he", 5, 42, "dd-paper", 5.0)
    (net,) = networks_of(case, tmp_path)
    assert net.__dict__["report"]["spread"] >= 1.0
    assert digest(networks_of(case, tmp_path)) == digest([net])
    assert [file.name for file in tmp_path.iterdir()] == ["water_4x16-he_seed42.npz"]
    usual = untrained("4x16", 9, 42)
    assert repr(untrained("4x16-he", 9, 42)) == repr(usual)


def test_species_of_one_file_have_networks_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that knew data by their file alone gave the first species' network to all four."""
    monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reacting, "EPOCHS", 6)
    first, second = list(load_trees().values())[:2]
    nets = [train_reacting(mlp(2, 16, 7, seed=1), data, seed=1) for data in (first, second)]
    assert len(list(tmp_path.rglob("*.pt"))) == 2, "both are cached"
    assert not torch.equal(nets[0][0].weight, nets[1][0].weight)
    again = train_reacting(mlp(2, 16, 7, seed=1), second, seed=1)
    assert torch.equal(again[0].weight, nets[1][0].weight)
