"""The published rows: sound, described, and the same when they are recomputed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ddmip_book.data import source
from ddmip_book.experiments import Row, load
from ddmip_book.experiments.case import SUITE
from ddmip_book.experiments.execute import BUILDERS
from ddmip_book.experiments.grids import EXPERIMENTS
from ddmip_book.experiments.suite import REFUSED, beaten
from ddmip_book.experiments.verify import beaten_bounds, verify_row
from experiments import MORE_BUILDERS
from tests.builders.places import ROOT


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_fact_is_described(experiment: str) -> None:
    """The free dictionaries of a row hold only what the tables of the README name."""
    text = (ROOT / "data" / "results" / "README.md").read_text()
    details, provenance = text.split("| `details` |")[1].split("| `provenance` |")
    for row in load(experiment):
        assert set(row.details) <= set(re.findall(r"`(\w+)`", details))
        assert set(row.provenance) <= set(re.findall(r"`(\w+)`", provenance))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_published_rows_are_sound(experiment: str) -> None:
    rows = load(experiment).rows
    assert len({row.key for row in rows}) == len(rows)
    for row in rows:
        assert row.key == row.case.key
        origin = "generated" if row.problem == SUITE else "real"
        assert (
            row.status in {"memory_limit", "killed"}
            or row.provenance["data"][0]["source"] == origin
        )
        if row.bound is not None and row.objective is not None:
            assert row.sign * (row.bound - row.objective) >= -1e-5 * max(1.0, abs(row.objective))
        assert (row.why is None) == (row.status not in {"memory_limit", "killed", REFUSED})


def test_no_published_bound_is_beaten_by_any_run() -> None:
    rows = [row for experiment in EXPERIMENTS for row in load(experiment)]
    assert beaten_bounds(rows) == {}
    proved = next(row for row in rows if row.method == "enumeration")
    assert beaten(load("e7").rows) == {}
    lower = replace(proved, key="lower", bound=proved.objective - 0.1, objective=None)
    assert set(beaten_bounds([*rows, lower])) == {"lower"}


@pytest.mark.skipif(source("water") != "real", reason="the real data are not here")
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_sample_of_the_published_rows_holds_when_recomputed(experiment: str) -> None:
    rows = load(experiment)
    sample = [row for row in rows if row.weights.get("files") and hash_of(row) % 25 == 0]
    weights = Path("data/results/networks")
    assert set(MORE_BUILDERS) <= set(BUILDERS)
    assert [problem for row in sample if (problem := verify_row(row, weights))] == []


def hash_of(row: Row) -> int:
    """Chooses the sample: by the row itself, so that nobody can choose it."""
    return int(hashlib.sha256(row.line().encode()).hexdigest()[:8], 16)
