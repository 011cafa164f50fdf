"""No verdict by the clock: no assert, headline number, check or clause follows from live
seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from tests.builders.places import ROOT
from tests.project.timed import Finding, asserts, comparisons, headlines, limits

BOOK = ROOT / "book"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
VERDICTS = [
    *(ROOT / "ddmip_lib" / "contract").glob("*.py"),
    *(BOOK / "ddmip_book" / "checks").glob("*.py"),
]
CHAPTERS = sorted(BOOK.glob("*.ipynb"))

ALLOWED = {  # file, what is found there: why it may stay
    ("test_notebook_tools.py", "took == "): "the seconds were written by the test",
    ("test_costs.py", "costs.median_seconds"): "the clock is the test's own",
    (
        "test_prices.py",
        "rows",
    ): "a name that means seconds elsewhere in this function: rows are repeated, not timed",
    ("test_prices.py", "listed."): "the same",
    ("test_ledger.py", "charged("): "a made-up row",
    ("test_rivals.py", "start_seconds"): "the order of readings of one clock",
    ("test_runner.py", "found['seconds'] >="): "the order of readings of one clock",
    ("test_scaling.py", "cost.seconds("): "a formula on made-up numbers",
    ("test_suite.py", "knap.seconds"): "a made-up row",
    ("test_guards.py", "values"): "a block that is given a deadline that it does not reach",
    ("test_guards.py", "best - 1e-06 <= total"): "the same",
    ("test_solve.py", "moments[-1] <= solution.seconds"): "the order of readings of one clock",
    ("test_plots.py", "== solution.seconds"): "the same reading twice",
    ("test_strangers.py", "time_limit=20"): "checked is what holds at any limit",
    ("test_reference.py", "time_limit=5"): "checked is what holds at any limit",
    ("test_reference.py", "time_limit=60"): "checked is what holds at any limit",
    ("test_reference.py", "time_limit=120.0"): "checked is what holds at any limit",
    (
        "clauses.py",
        "0 <= call.solution.seconds <= call.seconds",
    ): "the order of readings of one clock",
    ("part1.py", "600"): "ten minutes for two machines, two houses or three samples",
    (
        "part4_water.py",
        "time_limit=60.0",
    ): "a minute for the hand-sized example, which takes milliseconds",
    ("28_e4.ipynb", "e4_lstm_slower"): "stored rows",
    ("scaling_out.ipynb", "scale_ceiling"): "at least one by the formula, of whatever seconds",
    ("test_clock.py", ""): "examples of what is not allowed",
}


def source_of(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text()
    cells = nbformat.read(path, 4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


def found_in(
    paths: list[Path], *scans: Callable[[str], list[Finding]]
) -> list[tuple[str, Finding]]:
    return [(path.name, each) for path in paths for scan in scans for each in scan(source_of(path))]


EVERYWHERE = [
    *found_in(TESTS, asserts, limits),
    *found_in(VERDICTS, comparisons, limits),
    *found_in(CHAPTERS, headlines),
]


def test_nothing_passes_or_fails_by_seconds() -> None:
    new = [
        f"{file}:{found.line}: {found.what}"
        for file, found in EVERYWHERE
        if not any(file == where and what in found.what for where, what in ALLOWED)
    ]
    assert not new, (
        "count what is done, use stored rows, or drive the clock (tests/builders/clocks.py)"
    )


def test_every_exception_is_needed() -> None:
    stale = [
        (where, what)
        for where, what in ALLOWED
        if where != "test_clock.py"
        and not any(file == where and what in found.what for file, found in EVERYWHERE)
    ]
    assert not stale


@pytest.mark.parametrize(
    "bad",
    [
        (
            "def test_it():\n began = time.perf_counter()\n run()\n assert time.perf_counter() -"
            " began < 5"
        ),
        (
            "def test_it():\n began = time.process_time()\n run()\n spent = time.process_time() -"
            " began\n assert spent < 5"
        ),
        "def test_it():\n solution = solve(problem)\n assert solution.seconds < 65",
        (
            "def test_it():\n s = solve(problem)\n assert s.found and s.details['solve_seconds'] <="
            " s.seconds + 0.05"
        ),
        "def test_it():\n rows = [solve(p).seconds for p in problems]\n assert max(rows) < 40",
        (
            "def test_it():\n history = solve(p).history\n share = history['seconds_nn'].sum()\n"
            " assert share > 0.5"
        ),
        (
            "def test_it():\n until = perf_counter() + 10\n found = prove(program, until)\n assert"
            " not found.complete"
        ),
        "class TestIt:\n def test_it(self):\n  elapsed = measure()\n  assert 0.5 * elapsed <= 1",
    ],
)
def test_a_timed_assert_is_found(bad: str) -> None:
    assert len(asserts(bad)) == 1


@pytest.mark.parametrize(
    "good",
    [
        (
            "def test_it():\n with using(Ticking()) as c:\n  solution = solve(p)\n assert"
            " solution.seconds < 65"
        ),
        "def test_it():\n solution = solve(problem)\n assert solution.seconds > 0",
        "def test_it():\n rows = load('e1')\n assert max(row.seconds for row in rows) < 40",
        "def test_it():\n slope = torch.randn(3)\n assert slope.sum() < 40",
        "def test_it():\n seen = [time.process_time() for _ in range(3)]\n assert len(seen) == 3",
        "def one():\n began = time.perf_counter()\ndef two():\n began = 3\n assert began == 3",
    ],
)
def test_counts_stored_rows_and_driven_clocks_are_not(good: str) -> None:
    assert asserts(good) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("solver.solve(problem, time_limit=1.5)", 1),
        ("solver.solve(problem, 60)", 1),
        ("certify(problem, nothing, None, 5.0)", 1),
        ("process.wait(timeout=10)", 1),
        ("solver.solve(problem, time_limit=LONG)", 0),
        ("solver.solve(problem, time_limit=0.0)", 0),
        ("Case('e1', time_limit=300.0)", 0),
        ("with using(Ticking()):\n solver.solve(problem, time_limit=5.0)", 0),
    ],
)
def test_a_limit_of_a_few_seconds_is_found(source: str, count: int) -> None:
    assert len(limits(source)) == count


CHAPTER = """
timed = {}
for network in networks:
    timed[network] = gradient_seconds(network, 100)
large = slope_in_parameters(timed, 3)
work = [multiply_adds(network) for network in networks]
steady = power_law(sizes, work)
def ask(form):
    rows = []
    for price in prices:
        began = time.process_time()
        nodes = form.solve(price)
        rows.append((time.process_time() - began, nodes))
    return np.array(rows)
forms = {"one": ask(one), "two": ask(two)}
totals = {name: rows[:, 0].sum() for name, rows in forms.items()}
nodes = {name: rows[:, 1].sum() for name, rows in forms.items()}
full = load("e2")
longest = max(row.seconds for row in full)
"""


def test_headline_numbers_from_live_seconds_are_found_and_others_are_not() -> None:
    record = """
record_headline({
    "live_slope": (large.slope, "slope of time"), "ratio": (totals["one"] / totals["two"], "seconds over seconds"),
    "share": history["seconds_nn"].sum(), "speed": solve(problem).seconds / 3,
    "slope": (steady.slope, "slope of multiply-adds"), "searched": (nodes["one"] / nodes["two"], "nodes over nodes"),
    "longest": (longest, "stored: seconds"),
})
"""
    assert [found.what for found in headlines(CHAPTER + record)] == [
        "live_slope",
        "ratio",
        "share",
        "speed",
    ]
