"""Networks that react: each learns from its own data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ddmip_book.experiments import reacting
from ddmip_lib.data import load_trees
from ddmip_lib.predictors import mlp


def test_species_of_one_file_have_networks_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that knew data by their file alone gave the first species' network to all four."""
    monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reacting, "EPOCHS", 6)
    first, second = list(load_trees().values())[:2]
    nets = [reacting.train_reacting(mlp(2, 16, 7, seed=1), data, seed=1) for data in (first, second)]
    assert len(list(tmp_path.rglob("*.pt"))) == 2, "both are cached"
    assert not torch.equal(nets[0][0].weight, nets[1][0].weight)
    again = reacting.train_reacting(mlp(2, 16, 7, seed=1), second, seed=1)
    assert torch.equal(again[0].weight, nets[1][0].weight)
