"""The progress line: what it shows and logs, for every method, and that it is silent unless asked
for.
"""

from __future__ import annotations

import io
import logging
import re
import sys

import numpy as np
import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    PriceCoordination,
    Recovering,
    SequentialMIP,
    SingleStepGradient,
    certify,
    solve,
)
from ddmip_lib.certificates import lagrangian_bound
from ddmip_lib.clock import now, using
from ddmip_lib.model.progress import ProgressLine, report_incumbent, report_progress, watched
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG
from tests.builders.instances import build, knapsack, relu_net

LINE = r"\d+\.\d s  .+  (best \S+|no .+point yet.*)  bound \S+(  gap \S+ %)?"


class Solving:
    """`solve` as a solver like the others."""

    method = "solve"
    solve = staticmethod(solve)


def water():
    return water_potability(n=3, net=mlp(2, 8, 9, seed=1), seed=42)


SOLVERS = {
    "dual decomposition": (lambda: DualDecomposition(max_iterations=3), water),
    "single step gradient": (lambda: SingleStepGradient(steps=3), water),
    "enumeration": (Enumeration, lambda: knapsack(1)[0]),
    "enumeration of all": (Enumeration, hand_sized),
    "big-m": (BigM, lambda: knapsack(1)[0]),
    "sequential MIP": (lambda: SequentialMIP(max_failed_starts=1), water),
    "price coordination": (lambda: PriceCoordination(max_rounds=1), water),
    "recovering": (lambda: Recovering(SingleStepGradient(steps=3)), water),
    "solve": (Solving, lambda: knapsack(1)[0]),
}


@pytest.fixture
def nobody_logs():
    """The logger as a user's program without any logging has it."""
    logger = logging.getLogger("ddmip_lib")
    before = logger.level
    logger.setLevel(logging.NOTSET)
    yield
    logger.setLevel(before)


def shown(capture: str) -> list[str]:
    """The texts of a line that is written over."""
    return [text.strip() for text in re.split(r"[\r\n]", capture) if text.strip()]


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_shows_and_logs_it(name, capsys, caplog):
    make, problem = SOLVERS[name]
    with caplog.at_level(logging.INFO, "ddmip_lib"):
        found = make().solve(problem(), time_limit=LONG, progress=True)
    lines = shown(capsys.readouterr().err)
    records = [r for r in caplog.records if r.levelno == logging.INFO]
    assert lines
    assert records
    messages = [record.getMessage() for record in records]
    assert all(re.fullmatch(LINE, text) for text in [*lines, *messages])
    for text in (lines[-1], messages[-1]):
        assert f"best {found.objective:.6g}" in text
        assert found.bound is None or f"bound {found.bound:.6g}" in text
    assert "None" not in "".join(lines)
    assert {r.name for r in records} == {"ddmip_lib"}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.usefixtures("nobody_logs")
def test_nothing_is_written_unasked(name, capsys):
    make, problem = SOLVERS[name]
    make().solve(problem(), time_limit=LONG)
    assert capsys.readouterr() == ("", "")
    assert not watched()


@pytest.mark.parametrize("prove", [lagrangian_bound, certify], ids=lambda f: f.__name__)
def test_proofs_have_it_too(prove, capsys):
    problem = hand_sized()
    found = prove(problem, solve(problem), progress=True)
    assert re.fullmatch(LINE, shown(capsys.readouterr().err)[-1])
    assert found.bound is not None


def test_the_library_installs_no_handler_that_writes():
    handlers = logging.getLogger("ddmip_lib").handlers
    assert [type(handler) for handler in handlers] == [logging.NullHandler]


def test_the_bound_of_a_proof_is_seen_to_rise(caplog):
    """A model that enumeration does not take, so that its proof is one of solve's own."""
    built = build(relu_net(4, width=14, seed=3), 4, low=-1.0, high=1.0)
    with caplog.at_level(logging.INFO, "ddmip_lib"):
        found = solve(built.problem, time_limit=LONG)
    texts = [record.getMessage() for record in caplog.records]
    bounds = [
        float(re.search(r"bound (\S+)", text)[1])
        for text in texts
        if "proof" in text and "bound none" not in text
    ]
    assert len(set(bounds)) >= 2
    assert (np.diff(bounds) >= 0).all()
    assert bounds[-1] == pytest.approx(found.bound, rel=1e-5)
    assert any("solve: sequential MIP" in text for text in texts)


def test_without_a_point_the_nearest_one_is_told():
    built = build(relu_net(2), 2)
    built.model.addCons(built.y[0, 0] >= 100, name="far")
    with ProgressLine(built.problem, "a method", now(), visible=True) as line:
        assert "no point yet" in line.text()
        incumbent = DualDecomposition().start(built.problem).incumbent
        incumbent.consider(np.zeros(incumbent.instance.milp.n_variables))
        assert re.search(r"no feasible point yet, nearest: violation \d\.\de[-+]\d\d", line.text())


def test_six_digits_a_gap_and_a_bound_that_is_claimed_beyond_the_best_value():
    line = ProgressLine(hand_sized(), "a method", now(), visible=False)
    line.sign = -1.0
    line.best = 1234.5678
    line.raise_to(1300.0)
    assert line.text().endswith("a method  best 1234.57  bound 1300  gap 5.3 %")
    line.raise_to(1400.0)  # of a maximisation: worse
    line.raise_to(np.inf)
    assert line.bound == 1300.0
    line.raise_to(1200.0)
    assert line.text().endswith("best 1234.57  bound 1234.57  gap 0 %")


def test_seconds_are_those_of_the_clock(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    ticks = iter(range(0, 10_000, 5))
    with (
        using(lambda: float(next(ticks))),
        ProgressLine(hand_sized(), "a method", now(), visible=False) as line,
    ):
        assert line.text().startswith("5.0 s  a method")


def test_a_bound_is_logged_when_a_tenth_of_the_gap_is_closed(caplog):
    problem = knapsack(1)[0]
    with (
        caplog.at_level(logging.INFO, "ddmip_lib"),
        ProgressLine(problem, "a method", now(), visible=False),
    ):
        incumbent = DualDecomposition().start(problem).incumbent
        report_incumbent(incumbent.instance, incumbent.objective, np.inf)
        caplog.clear()
        for step in range(1000):
            report_progress(bound=10.0 - 0.005 * step)
        assert 2 <= len(caplog.records) <= 20


def test_a_run_of_another_problem_inside_a_callback_does_not_appear(caplog):
    def hear(_):
        SingleStepGradient(steps=1).solve(knapsack(2)[0])

    problem = hand_sized()
    with caplog.at_level(logging.INFO, "ddmip_lib"):
        found = SequentialMIP(max_failed_starts=1, callback=hear).solve(problem)
    own = [r.getMessage() for r in caplog.records if "sequential MIP" in r.getMessage()]
    assert own
    assert f"best {found.objective:.6g}" in own[-1]
    assert all("single-step" not in text for text in own)
