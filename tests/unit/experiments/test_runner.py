"""The experiments' runner: grids, rows, the file they live in, processes with limits, and checking
it all again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddmip_book.data import source
from ddmip_book.experiments import (
    METHODS,
    SEEDS,
    Case,
    Results,
    Row,
    grid,
    same_objective_ratio,
)
from ddmip_book.experiments.grids import EXPERIMENTS, PROFILES
from ddmip_book.experiments.networks import networks_of
from ddmip_book.experiments.rows import decode, encode
from ddmip_book.experiments.runner import missing
from ddmip_book.experiments.runner import run_cases as run_here
from ddmip_book.experiments.store import Store
from ddmip_book.experiments.verify import NotVerifiable, verify_row
from experiments.__main__ import main
from experiments.code_hash import method_hash
from experiments.runner import expected_seconds, run_cases
from experiments.worker import CaseFailed, Worker, run_case
from tests.builders.clocks import LONG
from tests.builders.places import ROOT

TINY = [Case("tiny", "water", "2x16", n, 42, "dd-paper", 600.0) for n in (2, 3, 4, 5, 6)]
EXACT = Case("tiny", "water", "2x16", 2, 42, "bigm", 20.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows of an undisturbed run."""
    place = tmp_path_factory.mktemp("results")
    run_here([*TINY, EXACT], place, run_case)
    return place


@pytest.fixture
def row(folder: Path) -> Row:
    return Store("tiny", folder).rows()[2]


# grids


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("profile", PROFILES)
def test_grid_names_known_methods_and_puts_the_first_seed_first(
    experiment: str, profile: str
) -> None:
    cases = grid(experiment, profile)
    assert {case.method for case in cases} <= set(METHODS)
    assert {case.seed for case in cases} <= set(SEEDS)
    fast = [case.seed for case in cases if not METHODS[case.method].exact and case.device == "cpu"]
    assert fast[: fast.count(42)] == [42] * fast.count(42) or experiment == "e2"


def test_first_experiment_covers_the_papers_grid() -> None:
    cases = grid("e1")
    for method, seeds in (("dd-paper", SEEDS), ("dd", SEEDS)):
        cells = {
            (c.network, c.size, c.seed) for c in cases if c.method == method and c.time_limit == 300
        }
        nets = ("2x16", "4x32", "6x64", "6x128")
        sizes = (25, 50, 100, 200, 400)
        assert cells == {(net, n, seed) for net in nets for n in sizes for seed in seeds}
    exact = {(c.network, c.seed) for c in cases if c.method == "bigm" and c.time_limit == 300}
    assert exact == {(n, s) for n in ("2x16", "4x32") for s in SEEDS} | {
        ("6x64", 42),
        ("6x128", 42),
    }
    assert Case("e1", "water", "6x128", 500, 42, "bigm", 900.0) in cases


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="choose one of e1"):
        grid("e9")
    with pytest.raises(ValueError, match="quick"):
        grid("e1", "fast")


# rows and their file


@given(arrays(np.float64, st.integers(0, 40), elements=st.floats(-1e6, 1e6)))
def test_numbers_survive_their_text(values: np.ndarray) -> None:
    assert np.array_equal(decode(encode(values), "float64"), values)


def test_row_describes_itself(row: Row) -> None:
    assert Row.parse(row.line()) == row
    assert row.case == TINY[2]
    found = json.loads(row.line())
    assert found["objective"] >= found["untreated"] >= 0
    assert found["incumbents"][-1][1] == found["objective"]
    assert found["iterations"] == len(found["trace"]["k"]) == 50
    assert found["seconds"] >= found["seconds_mip"] + found["seconds_nn"] > 0
    assert found["peak_memory"] > 50
    origin = found["provenance"]
    assert origin["code"] == method_hash("dd-paper", "water")
    assert origin["uncommitted"] == str(origin["commit"]).endswith("+")
    assert origin["data"][0]["source"] == source("water")
    assert len(origin["data"][0]["sha256"]) == 64
    assert {"torch", "pyscipopt", "SCIP", "numpy"} <= set(origin["packages"])
    assert {"processor", "cores", "workers", "load"} <= set(origin["machine"])
    assert origin["date"].endswith("+00:00")


def test_row_with_a_missing_field_is_refused(row: Row) -> None:
    found = json.loads(row.line())
    del found["status"]
    found["verdict"] = "converged"
    with pytest.raises(ValueError, match=r"lacks \['status'\].*unknown \['verdict'\]"):
        Row.parse(json.dumps(found))


def test_a_row_cut_short_is_no_row_and_is_overwritten(row: Row, tmp_path: Path) -> None:
    store = Store("tiny", tmp_path)
    with store.writing():
        store.append(row)
    with open(store.path, "a") as file:
        file.write(row.line()[:100])
    assert store.rows() == [row]
    other = replace(row, key="other")
    with store.writing():
        store.append(other)
    assert store.rows() == [row, other]


def test_two_writers_are_refused(tmp_path: Path) -> None:
    with (
        Store("tiny", tmp_path).writing(),
        pytest.raises(RuntimeError, match="being written by another run"),
        Store("tiny", tmp_path).writing(),
    ):
        pass


# running


def test_finished_cases_are_not_run_again(folder: Path) -> None:
    before = (folder / "tiny.jsonl").read_bytes()
    assert len(run_cases(TINY, folder, progress=False)) == len(TINY)
    assert (folder / "tiny.jsonl").read_bytes() == before
    assert missing([*TINY, replace(TINY[0], size=9)], Store("tiny", folder).rows()) == [
        replace(TINY[0], size=9)
    ]


SWEEP = """
    import sys
    sys.path.insert(0, {root!r})
    from ddmip_book.experiments import Case
    from experiments import run_cases
    if __name__ == "__main__":
        cases = [Case("tiny", "water", "2x16", n, 42, "dd-paper", 600.0) for n in {sizes}]
        run_cases(cases, {folder!r}, workers=1, progress=False)
"""


@pytest.mark.long
def test_a_killed_sweep_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "sweep.py"
    store = Store("tiny", tmp_path)
    sizes = [case.size for case in TINY]
    script.write_text(
        textwrap.dedent(SWEEP.format(root=str(ROOT), folder=str(tmp_path), sizes=sizes))
    )
    wanted = 2  # rows on disk when the blow falls
    sweep = subprocess.Popen([sys.executable, str(script)], cwd=ROOT)
    while len(store.rows()) < wanted:
        assert sweep.poll() is None, "the sweep ended before it could be killed"
        time.sleep(0.02)
    children = psutil.Process(sweep.pid).children(recursive=True)
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()
    _, alive = psutil.wait_procs(children, timeout=LONG)
    assert alive == [], "a killed sweep leaves no process behind"
    assert wanted <= len(store.rows()) < len(TINY)
    run_here(TINY, tmp_path)
    kept = (
        "key",
        "status",
        "objective",
        "objective_last",
        "iterations",
        "primal_residual",
        "point",
        "weights",
    )

    def results(store: Store) -> dict[str, tuple[Any, ...]]:
        rows = [row for row in store.rows() if row.method == "dd-paper"]
        return {row.key: attrgetter(*kept)(row) for row in rows}

    assert len(store.rows()) == len(TINY)
    assert results(store) == results(Store("tiny", folder))


def test_memory_limit_ends_a_run_with_a_row_that_says_so(tmp_path: Path) -> None:
    row = Worker(tmp_path, memory_limit=30.0).run(EXACT)
    assert row.status == "memory_limit"
    assert row.provenance["data"][0]["sha256"]
    assert row.why == "more than 30 MiB"
    assert row.peak_memory is not None
    assert row.peak_memory > 30
    assert Row.parse(row.line()) == row


@pytest.mark.long
def test_a_case_that_raises_is_reported_after_the_others(tmp_path: Path) -> None:
    bad = Case("tiny", "water", "no such net", 2, 42, "dd-paper", 20.0)
    with pytest.raises(CaseFailed, match="write LxH"):
        run_cases([bad, TINY[0]], tmp_path, workers=1, progress=False)
    assert [row.key for row in Store("tiny", tmp_path).rows()] == [TINY[0].key]


@pytest.mark.long
def test_a_script_without_a_guard_is_told_so_and_leaves_no_row(tmp_path: Path) -> None:
    script = tmp_path / "careless.py"
    call = textwrap.dedent(SWEEP.format(root=str(ROOT), folder=str(tmp_path), sizes=[2]))
    script.write_text(call.replace('if __name__ == "__main__":', "if True:"))
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "if __name__ == '__main__'" in run.stderr
    assert Store("tiny", tmp_path).rows() == []


def test_stand_in_rows_stay_out_of_the_published_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DDMIP_DATA_DIR", raising=False)
    monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("DDMIP_RESULTS_DIR", str(tmp_path))
    assert main(["run", "e2"]) == 1
    assert list(tmp_path.glob("*.jsonl")) == []


def test_expected_time_comes_from_the_rows_most_alike(row: Row) -> None:
    rows = [replace(row, seconds=4.0), replace(row, size=100, seconds=8.0)]
    assert expected_seconds(row.case, rows) == 4.0
    assert expected_seconds(replace(row.case, size=7), rows) == 6.0
    assert expected_seconds(replace(row.case, method="bigm"), rows) == row.time_limit


# reading and checking


def test_results_are_chosen_and_averaged(row: Row) -> None:
    rows = [replace(row, seed=s, size=n, objective=float(s + n)) for s in (1, 3) for n in (10, 20)]
    results = Results(rows)
    assert results.where(seed=1, size=[10, 20]).values("objective").tolist() == [11, 21]
    assert results.pivot("method", "size", "objective").tolist() == [[12, 22]]
    assert results.one(seed=3, size=20) == rows[3]
    assert results.one(seed=9) is None
    with pytest.raises(ValueError, match="4 records"):
        results.one(method="dd-paper")


def test_ratio_takes_the_moment_of_the_last_objective_not_the_limit(row: Row) -> None:
    exact = replace(
        row, objective=3.0, untreated=1.0, incumbents=[[1.0, 1.0], [50.0, 3.0]], seconds=300.0
    )
    other = replace(row, incumbents=[[0.1, 1.0], [0.5, 4.0]])
    assert same_objective_ratio(exact, other) == 100.0
    assert same_objective_ratio(exact, replace(row, incumbents=[[0.1, 1.0]])) == 0.0
    assert same_objective_ratio(replace(exact, objective=1.0), other) is None


def test_rows_hold_when_recomputed(folder: Path) -> None:
    rows = Store("tiny", folder).rows()
    assert [verify_row(row, folder / "networks") for row in rows] == [None] * len(rows)


def test_altered_rows_are_found(folder: Path, row: Row) -> None:
    weights = folder / "networks"
    assert row.objective is not None
    moved = decode(row.point["adjustments"], row.point["dtype"])
    unspent = {**row.point, "adjustments": encode(moved * 0), "dtype": "float64"}
    too_much = {**row.point, "adjustments": encode(moved * 3), "dtype": "float64"}
    assert "recomputed" in str(verify_row(replace(row, objective=row.objective + 1), weights))
    assert "bound" in str(verify_row(replace(row, bound=row.objective - 1), weights))
    assert "budget" in str(verify_row(replace(row, point=too_much), weights))
    assert row.untreated != row.objective
    assert "recomputed" in str(verify_row(replace(row, point=unspent), weights))
    assert "weights" in str(
        verify_row(replace(row, weights={**row.weights, "sha256": "0"}), weights)
    )
    other = {**row.provenance, "data": [{"sha256": "0"}]}
    with pytest.raises(NotVerifiable, match="other data"):
        verify_row(replace(row, provenance=other), weights)


def test_weights_are_stored_once_and_read_again(folder: Path) -> None:
    file = folder / "networks" / "water_2x16_seed42.npz"
    before = file.stat().st_mtime_ns
    (net,) = networks_of(TINY[0], folder / "networks")
    (fresh,) = networks_of(TINY[0], None)
    assert file.stat().st_mtime_ns == before
    assert all((a == b).all() for a, b in zip(net.parameters(), fresh.parameters(), strict=True))


def test_command_line_tells_status_table_and_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store("e1", folder)
    with store.writing():
        for row in Store("tiny", folder).rows():
            store.append(replace(row, experiment="e1"))
    assert main(["status", "--folder", str(folder)]) == 0
    assert "e1  0 of 293 cases: 293 missing" in capsys.readouterr().out
    assert main(["table", "e1", "--folder", str(folder)]) == 0
    assert f"water 2x16 {TINY[-1].size}" in capsys.readouterr().out
    assert main(["verify", "e1", "--folder", str(folder)]) == 0
    assert f"{len(TINY) + 1} records hold, 0 are wrong" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["verify", "e9", "--folder", str(folder)])
    assert "there is no experiment e9: choose among e1" in capsys.readouterr().err
