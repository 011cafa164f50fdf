"""Loaders, stand-in and sample draw."""

import dataclasses
import os
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book import data as ddata
from ddmip_book.data import Dataset, draw_nonpotable, light_range, load_trees, load_water
from ddmip_book.data.standin import content_hash, standin_trees, standin_water

REAL = os.environ.get("DDMIP_DATA_DIR")
needs_real_files = pytest.mark.skipif(
    not REAL, reason="needs the real files: set DDMIP_DATA_DIR to their folder"
)


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DDMIP_DATA_DIR", raising=False)
    monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path))


def test_everything_loads_without_a_socket(
    without_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("a loader touched the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    sets = [load_water(), *load_trees().values()]
    assert all(data.source == "stand-in" for data in sets)
    assert ddata.source("water") == ddata.source("trees") == "stand-in"
    assert "synthetic stand-in" in ddata.source_line()


@pytest.mark.usefixtures("without_files")
class TestStandIn:
    def test_water_has_the_schema(self) -> None:
        water = load_water()
        assert water.features.shape == (2000, 9)
        assert water.features.dtype == water.labels.dtype == np.float64
        assert set(np.unique(water.labels)) == {0.0, 1.0}
        assert 0.37 < water.labels.mean() < 0.43
        assert (water.features > 0).all()
        assert (water.task, water.standardise) == ("classification", True)

    def test_water_has_the_published_moments(self) -> None:
        water = load_water()
        published = [7.1, 196.0, 21900.0, 7.1, 333.0, 427.0, 14.4, 66.0, 4.0]
        spread = [1.6, 33.0, 8600.0, 1.6, 41.0, 81.0, 3.3, 16.0, 0.8]
        assert np.abs((water.mean - published) / spread).max() < 0.1
        assert np.abs(water.std / spread - 1).max() < 0.1

    def test_water_labels_are_nonlinear_in_the_features(self) -> None:
        water = load_water()
        z = (water.features - water.mean) / water.std
        correlation = np.abs(np.corrcoef(z.T, water.labels)[-1, :-1])
        assert correlation.max() < 0.2
        assert np.corrcoef(z[:, 0] * z[:, 4], water.labels)[0, 1] > 0.2

    def test_trees_have_the_schema(self) -> None:
        trees = load_trees()
        assert list(trees) == ["Acer saccharum", "Prunus serotina", "Quercus alba", "Quercus rubra"]
        for species, tree in trees.items():
            assert tree.name == species
            assert tree.feature_names == (
                "light",
                "low",
                "med",
                "high",
                "myco",
                "soil myco",
                "sterilised",
            )
            flags = tree.features[:, 1:]
            assert set(np.unique(flags)) == {0.0, 1.0}
            assert (flags[:, :3].sum(axis=1) == 1).all()
            assert (flags[:, 4] * flags[:, 5] == 0).all()
            assert 0.2 < tree.labels.mean() < 0.9
            assert (tree.task, tree.standardise) == ("regression", False)
        assert light_range(trees) == (0.03, 0.16)
        assert len(np.unique(np.concatenate([tree.row_numbers for tree in trees.values()]))) == 2800

    def test_sterilising_helps_some_sites_and_harms_others(self) -> None:
        tree = load_trees()["Acer saccharum"]
        light = tree.features[:, 0]
        myco = tree.features[:, 4]
        sterilised = tree.features[:, 6]

        def effect(rows: np.ndarray) -> float:
            survived = tree.labels[rows]
            return survived[sterilised[rows] == 1].mean() - survived[sterilised[rows] == 0].mean()

        assert effect((light < 0.08) & (myco == 1)) > 0.2
        assert effect((light > 0.09) & (myco == 0)) < -0.1

    def test_content_is_the_same_everywhere(self) -> None:
        assert load_water().sha256 == content_hash(standin_water())
        assert load_water().sha256.startswith("11cc4c050da0822d")
        assert content_hash(*standin_trees().values()).startswith("da4aa01a170325a5")


@needs_real_files
class TestRealFiles:
    def test_water(self) -> None:
        water = load_water()
        assert (water.source, water.features.shape) == ("real", (2011, 9))
        assert ddata.source("water") == "real"
        assert int(water.labels.sum()) == 811
        assert np.isfinite(water.features).all()
        assert water.row_numbers[-1] < 3276
        assert (np.diff(water.row_numbers) > 0).all()

    def test_trees(self) -> None:
        trees = load_trees()
        assert [len(tree.labels) for tree in trees.values()] == [751, 749, 672, 610]
        assert sum(tree.labels.sum() for tree in trees.values()) == 2782 - 1587
        assert all((tree.features[:, 1:4].sum(axis=1) == 1).all() for tree in trees.values())
        assert light_range(trees) == (0.032, 0.161)

    def test_draw_is_the_stored_one(self) -> None:
        water = load_water()
        rows = water.row_numbers[draw_nonpotable(water, n=25, seed=42)]
        assert rows[:5].tolist() == [3082, 2220, 169, 1035, 100]
        assert rows[-1] == 181


def _labelled(labels: list[int]) -> Dataset:
    rows = len(labels)
    features = np.arange(rows, dtype=float)[:, None]
    return Dataset(
        "tiny",
        "stand-in",
        "0" * 64,
        features,
        np.array(labels, float),
        ("ph",),
        np.arange(rows),
        "classification",
        True,
    )


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 1), min_size=2, max_size=40).filter(lambda labels: 0 in labels),
    st.integers(0, 2**32 - 1),
    st.data(),
)
def test_draws_are_nested_distinct_and_nonpotable(
    labels: list[int], seed: int, draw: st.DataObject
) -> None:
    data = _labelled(labels)
    n = draw.draw(st.integers(1, labels.count(0)))
    chosen = draw_nonpotable(data, n, seed)
    assert len(set(chosen.tolist())) == n
    assert (data.labels[chosen] == 0).all()
    assert (chosen == draw_nonpotable(data, labels.count(0), seed)[:n]).all()


def test_draw_refuses_more_rows_than_there_are() -> None:
    for n in (0, 3):
        with pytest.raises(ValueError, match="2 label-0 rows"):
            draw_nonpotable(_labelled([0, 1, 0]), n=n, seed=1)


def test_dataset_is_frozen_and_says_what_it_is() -> None:
    data = _labelled([0, 1, 0, 1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    assert re.fullmatch(
        r"Dataset 'tiny' \(stand-in, sha256 0{8}\): 4 rows, .*classification", repr(data)
    )
    assert data.provenance == {"name": "tiny", "source": "stand-in", "sha256": "0" * 64, "rows": 4}
    assert data.std[0] == pytest.approx(np.sqrt(1.25))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature_names": ("a", "b")}, "feature names"),
        ({"labels": np.zeros(3)}, "one entry for each"),
        ({"task": "ranking"}, "ranking"),
    ],
)
def test_inconsistent_dataset_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(_labelled([0, 1]), **change)


def test_unknown_data_set_is_named() -> None:
    with pytest.raises(ValueError, match="choose one of water, trees"):
        ddata.source("wine")
