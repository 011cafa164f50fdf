"""The command that measures what more processes bring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from ddmip_book.experiments import scaling as model
from ddmip_book.experiments.scaling import APART, SEARCHES, stored
from ddmip_book.networks import mlp, save_npz
from ddmip_lib import certify
from experiments import scaling


def test_the_command_stores_a_row_for_each_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stored(tmp_path) == []
    few = scaling.water
    monkeypatch.setattr(scaling, "water", lambda n, **of: few(6, **of | {"depth": 1, "width": 4}))
    scaling.main(["--processes", "1", "--n", "6", "--seconds", "3600", "--folder", str(tmp_path)])
    (row,) = stored(tmp_path)
    assert row["processes"] == 1
    assert min(row["seconds_networks"], row["seconds_rest"], row["bytes"]) > 0
    assert '"closed"' in capsys.readouterr().out
    scaling.main(["--search", "--processes", "1", "--seconds", "36000", "--folder", str(tmp_path)])
    (search,) = stored(tmp_path, SEARCHES)
    assert search["closed"] == search["blocks"] == 6
    assert stored(tmp_path) == [row]


def test_a_certificate_of_a_stored_network_gets_its_share_of_processor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "small.npz"
    limits = list[tuple[float, int]]()
    save_npz(mlp(1, 4, 9, seed=1), weights)
    monkeypatch.setattr(
        model,
        "certify",
        lambda *given, **named: (
            limits.append((given[3], named["workers"])) or certify(*given, **named)
        ),
    )
    command = [
        "--search",
        "--no-dask",
        "--shared",
        "--seconds",
        "36000",
        "--blocks",
        "4",
        "--n",
        "4",
        "--budget",
        "0.5",
    ]
    scaling.main(
        [*command, "--processes", "1", "2", "--weights", str(weights), "--folder", str(tmp_path)]
    )
    one, two = stored(tmp_path, SEARCHES)
    assert [limits[1], limits[3]] == [(36000.0, 1), (18000.0, 2)], "the first of each is not timed"
    assert one["network"] == "small"
    assert (one["budget"], one["blocks"], one["dask"], two["dask"]) == (0.5, 4, False, False)
    assert two["bound"] == pytest.approx(one["bound"], abs=4e-4), (
        "each block closed to a tolerance of 1e-4"
    )


def test_certificates_apart_from_each_other_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def in_threads(local: int) -> Iterator[Any]:
        with (
            LocalCluster(
                local, threads_per_worker=1, processes=False, dashboard_address=None
            ) as here,
            Client(here) as client,
        ):
            yield client

    weights = tmp_path / "small.npz"
    save_npz(mlp(1, 4, 9, seed=1), weights)
    monkeypatch.setattr(scaling, "cluster_client", in_threads)
    command = [
        "--apart",
        "--seconds",
        "36000",
        "--blocks",
        "4",
        "--n",
        "4",
        "--budget",
        "0.5",
        "--weights",
        str(weights),
    ]
    scaling.main([*command, "--processes", "1", "2", "--folder", str(tmp_path)])
    one, two = stored(tmp_path, APART)
    assert (one["closed"], two["closed"], two["processes"]) == (4, 4, 2)
    assert two["nodes"] == 2 * one["nodes"]
