"""Two states of the code on the same runs: every difference is found, and only what was shown is
recorded.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ddmip_book.experiments import Case, Row, load
from experiments.equivalence import made_by
from tools import compare_runs
from tools.compare_runs import compare, record, reference_cases, sample


def ended(
    objective: float | None = 2.0, iterations: int = 5, status: str = "converged", **more: Any
) -> dict[str, Any]:
    return {
        "status": status,
        "iterations": iterations,
        "objective": objective,
        "bound": None,
        **more,
    }


def test_the_sample_covers_every_method_and_network_that_ends_quickly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        compare_runs, "is_todays", lambda row, known: row.key == "e4/water/fc/60/42/dd/300s/cpu"
    )
    rows = sample()
    assert "e4/water/fc/60/42/dd/300s/cpu" in {row.key for row in load("e4")}
    assert "e4/water/fc/60/42/dd/300s/cpu" not in {row.key for row in rows}, "today's code made it"
    cells = Counter((row.method, row.problem, row.network, made_by(row)) for row in rows)
    assert set(cells.values()) == {1}
    assert len(rows) >= 60
    assert {
        "dd",
        "dd-paper",
        "dd-barrier",
        "ssg",
        "enumeration",
        "prices",
        "dd-recover",
        "random",
        "grid-search",
    } <= {row.method for row in rows}
    assert {row.experiment for row in rows} >= {"e1", "e2", "e3", "e4", "e5", "e6"}
    assert all(row.status != "time_limit" and (row.seconds or 0) <= 20 for row in rows)


def test_reference_runs_have_different_keys_and_all_methods() -> None:
    cases = list(reference_cases())
    assert len({case.key for case in cases}) == len(cases)
    assert {case.method for case in cases} == set(compare_runs.METHODS) - set(compare_runs.PEERS)


def test_every_difference_is_found_and_runs_at_a_limit_are_left_out() -> None:
    before = {"same": ended(), "value": ended(), "steps": ended(), "word": ended(), "late": ended()}
    after = {
        "same": ended(2.0 + 1e-12),
        "value": ended(2.001),
        "steps": ended(iterations=6),
        "word": ended(None, status="infeasible"),
        "late": ended(1.0, status="time_limit"),
    }
    assert compare(before, after) == {
        "value": {"objective": [2.0, 2.001]},
        "steps": {"iterations": [5, 6]},
        "word": {"status": ["converged", "infeasible"], "objective": [2.0, None]},
    }
    with pytest.raises(SystemExit, match="late"):
        compare(before, {key: run for key, run in after.items() if key != "late"})


def test_only_code_whose_every_run_agrees_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(size: int, code: str) -> Row:
        case = Case("e3", "water", "2x16", size, 42, "ssg")
        return Row(case.key, **case.setting(), **ended(), provenance={"solvers": code})

    rows = [
        stored(1, "good"),
        stored(2, "good"),
        stored(3, "bad"),
        stored(4, "bad"),
        stored(5, "changed"),
    ]
    rows.append(stored(6, "late"))
    before = {row.key: ended(code="then") for row in rows}
    before["reference"] = ended(code="then")
    before[rows[3].key] = ended(3.0, code="then")
    before[rows[5].key] = ended(status="time_limit", code="then")
    after = {key: {**run, "code": "now"} for key, run in before.items()}
    after[rows[4].key] = ended(iterations=6, code="now")
    monkeypatch.setattr(compare_runs, "STORED", tmp_path)
    monkeypatch.setattr(compare_runs, "sample", lambda: rows)
    assert len(record(before, after, "first")) == 2
    entry = {"same_as": "now", "runs": 2, "shown_by": "comparisons/first.json"}
    assert json.loads((tmp_path / "code.json").read_text()) == {"ssg on water": {"good": entry}}

    file = tmp_path / "comparisons" / "first.json"
    said = json.loads(file.read_text())
    said["differences"]["stored and before"][rows[3].key]["cause"] = (
        "processor: the old code gives 3 here"
    )
    file.write_text(json.dumps(said))
    record(before, after, "first")
    assert set(json.loads((tmp_path / "code.json").read_text())["ssg on water"]) == {"good", "bad"}
    assert json.loads(file.read_text()) == said

    after[rows[4].key] = {**before[rows[4].key], "code": "now"}
    record(before, after, "second")
    entry = {"same_as": "now", "runs": 5, "shown_by": "comparisons/second.json"}
    assert json.loads((tmp_path / "code.json").read_text())["ssg on water"]["then"] == entry
