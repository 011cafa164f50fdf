"""`certify`: valid on everything that brute force or an exact model can answer, and what its users
are promised.
"""

from __future__ import annotations

import importlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model

from ddmip_book.networks import attention, lstm, mlp
from ddmip_book.problems import water_potability
from ddmip_lib import BigM, DualDecomposition, Enumeration, NeuralMIP, PriceCoordination, Solution
from ddmip_lib.certificates import Certificate, LagrangianBound, certify
from ddmip_lib.certificates.unit_search import ReLUBranchAndBound
from ddmip_lib.clock import now, using
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.pricing import Blocks
from ddmip_lib.problems import hand_sized
from ddmip_lib.workers import processes
from tests.builders.blocks import Own, grid, own, random_mode, trees
from tests.builders.clocks import LONG, Stopping, Ticking
from tests.builders.instances import relu_net
from tests.builders.networks import KINDS, double, random_net, shifted
from tests.builders.places import ROOT
from tests.unit.certificates.test_properties import few_steps

torch.set_num_threads(1)
certifying = importlib.import_module("ddmip_lib.certificates.certify")
NOTHING = Solution("no_solution_found", "none")


def random_problem(draw: np.random.Generator) -> NeuralMIP:
    """Blocks of all sorts: one or two modes, classes or outputs, targets, caps, worths; the model
    does not say what they mean, which only a solution could notice.
    """
    n, p, m = (int(draw.integers(1, most)) for most in (4, 3, 3))
    model = Model()
    modes = []
    problem = NeuralMIP(model)
    for t in range(draw.integers(1, 3)):
        classes = bool(draw.integers(2))
        net = random_net(draw, p, str(draw.choice(sorted(KINDS))))
        mode = random_mode(
            draw,
            n,
            p,
            m,
            predictor=t,
            worth=float(draw.choice([1.0, 2.5])),
            cap=float(draw.choice([np.inf, draw.normal()])) if not classes else np.inf,
        )
        if classes:
            points = np.concatenate(list(map(grid, mode.lower, mode.upper, mode.base)))
            shifted(net, -np.quantile(net(double(points)).numpy(), draw.uniform(0.5, 1.0)) - 0.01)
        x = model.addMatrixVar((n, p), lb=mode.lower, ub=mode.upper)
        y = model.addMatrixVar((n, 1), vtype="B" if classes else "C", lb=0 if classes else None)
        problem.add_predictor(net, x, y, output="classification" if classes else "regression")
        modes.append(mode)
    model.setObjective(0.0, str(draw.choice(["minimize", "maximize"])))
    problem.set_blocks(Blocks(modes, draw.uniform(-0.5, 1.5, m), optional=bool(draw.integers(2))))
    return problem


def options(problem: NeuralMIP, row: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and use of points of a row of the table, on a grid."""
    blocks = problem.blocks
    predictor = problem.predictors[blocks.predictor[row]]
    u = grid(blocks.lower[row], blocks.upper[row], blocks.base[row], size)
    output = predictor.net(double(u)).numpy()[:, 0]
    counted = (
        (output > 0).astype(float)
        if predictor.kind == "classification"
        else output.clip(max=blocks.cap[row])
    )
    value = blocks.worth[row] * counted
    return value, blocks.use(np.full(len(u), row), u, value)


def best_choice(problem: NeuralMIP, size: int = 40) -> float:
    """The best choice among points of grids, by trying all; minus infinity where none keeps the
    capacities.
    """
    blocks = problem.blocks
    nothing = (np.zeros(1), np.zeros((1, len(problem.blocks.capacities))))
    values = np.zeros(1)
    uses = nothing[1]
    for block in range(blocks.n):
        own_rows = [options(problem, row, size) for row in np.flatnonzero(blocks.block == block)]
        value, use = (
            np.concatenate(parts)
            for parts in zip(*own_rows, *[nothing] * blocks.optional, strict=True)
        )
        values = (values[:, None] + value).ravel()
        uses = (uses[:, None] + use).reshape(len(values), -1)
    fits = (uses <= blocks.capacities + 1e-12).all(axis=1)
    return float(values[fits].max(initial=-np.inf))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_choice_is_better_than_the_bound(seed: int) -> None:
    """At any prices, whatever the blocks, and at every moment of the search."""
    draw = np.random.default_rng(seed)
    problem = random_problem(draw)
    blocks = problem.blocks
    pi = draw.exponential(size=len(blocks.capacities)) * draw.choice(
        [0.0, 0.3, 1.0, 1e3], len(blocks.capacities)
    )
    with (
        few_steps(),
        using(Ticking()),
    ):  # time is over after as many looks at the clock, wherever the search is then
        solution = certify(problem, NOTHING, pi, time_limit=float(draw.integers(1, 600)), workers=1)
    if (
        "certificate" not in solution.details
    ):  # the networks were still being bounded for the first time
        assert solution.bound is None
        return
    certificate = solution.details["certificate"]
    sign = -1 if problem.model.getObjectiveSense() == "maximize" else 1
    least = best_choice(problem)
    assert -sign * certificate.bound >= least - 1e-9
    assert -sign * solution.bound >= least - 1e-9
    # the formula of weak duality, with profits that no point of a finer grid exceeds and some point
    # nearly earns
    profits = np.full(blocks.n, 0.0 if blocks.optional else -np.inf)
    for row, block in enumerate(blocks.block):
        value, use = options(problem, row, 1500)
        profits[block] = max(profits[block], (value - use @ pi).max())
    assert (certificate.profit_bound >= profits - 1e-9 * (1 + pi.sum())).all()
    assert (certificate.profit_known <= certificate.profit_bound + 1e-9 * (1 + pi.sum())).all()
    dual = float(pi @ blocks.capacities + certificate.profit_bound.sum())
    assert -sign * certificate.bound <= dual + 1e-9 * max(1.0, abs(dual))
    tight = certificate.profit_known + 1.001e-4 * blocks.worth.max() + 1e-9
    assert (certificate.profit_bound[certificate.closed] <= tight[certificate.closed]).all()
    bounds = -sign * np.array([bound for _, bound in certificate.history])
    assert (np.diff(bounds) < 0).all()
    assert bounds[-1] == -sign * certificate.bound


def exact_profits(instance: Own, price: float) -> np.ndarray:
    """What the blocks earn at a price; the best point of a piecewise linear f is a kink, an end or
    a crossing.
    """
    best = []
    for w in instance.w:
        u = instance._points(w)
        used = np.maximum(u - w, 0) + 2 * np.maximum(w - u, 0)
        best.append((instance._value(u) - price * used).max())
    return np.maximum(best, 0.0) if instance.optional else np.array(best)


CASES = [
    (seed, kind, bool(seed % 2), bool(seed % 3))
    for kind, seed in itertools.product(("classification", "regression"), range(4))
]


@pytest.mark.parametrize(("seed", "kind", "minimise", "optional"), CASES)
def test_the_bound_is_the_dual_value_and_holds(
    seed: int, kind: str, minimise: bool, optional: bool
) -> None:
    """Problems whose optimum is known: maximised and minimised, with an offset, a worth, a cap,
    optional or not.
    """
    instance = own(seed, kind, minimise, optional)
    problem = instance.problem()
    sign = 1.0 if minimise else -1.0
    solution = PriceCoordination().solve(problem, LONG)
    certified = certify(problem, solution, time_limit=LONG, workers=1)
    certificate = certified.details["certificate"]
    assert sign * (certified.bound - instance.optimum()) <= 1e-9
    assert sign * (certified.bound - certified.objective) <= 0
    assert certificate.closed.all()
    exact = exact_profits(instance, float(certificate.prices[0]))
    assert (certificate.profit_bound >= exact - 1e-7).all()
    assert (certificate.profit_bound <= exact + 1.1e-4 * instance.worth + 1e-5).all()
    dual = instance.objective(
        float(certificate.prices @ [instance.capacity] + certificate.profit_bound.sum())
    )
    assert (
        sign * (certificate.bound - dual) >= -1e-9
    )  # or the bound without prices, where that is better
    assert certified.gap == pytest.approx(
        abs(certified.objective - certified.bound) / max(1.0, abs(certified.objective))
    )


def test_whole_values_give_a_whole_bound() -> None:
    """A class is worth 2 and the offset is 3: the bound is rounded; with 2.5, or with another
    offset, it is not.
    """

    def bounds(**changes: Any) -> tuple[float, float]:
        problem = replace(own(1, "classification"), **changes).problem()
        with few_steps():
            certified = certify(problem, NOTHING, [0.7], time_limit=LONG, workers=1)
        return certified.bound, certified.details["certificate"].bound

    rounded, bound = bounds(worth=2.0, offset=3.0)
    assert rounded == np.floor(bound + 1e-6) < bound
    assert bounds(worth=2.0, offset=3.0, minimise=True) == (
        6.0 - rounded,
        pytest.approx(6.0 - bound),
    )
    for changes in ({"worth": 2.5, "offset": 3.0}, {"worth": 2.0, "offset": 0.5}):
        rounded, bound = bounds(**changes)
        assert rounded == bound


@pytest.mark.parametrize(
    "net", [mlp(1, 3, 9, seed=3), mlp(2, 3, 9, seed=1)], ids=["one layer", "two"]
)
def test_water_is_never_better_than_its_bound(net: torch.nn.Module) -> None:
    """Against PySCIPOpt-ML's exact model of the whole problem; the prices are found where the
    solution has none.
    """
    problem = water_potability(n=2, net=net)
    exact = BigM().solve(problem, LONG)
    assert "prices" not in exact.details
    certified = certify(problem, exact, time_limit=LONG, workers=1)
    assert certified.details["certificate"].prices.shape == (18,)
    assert exact.objective <= certified.bound <= 2.0
    assert certified.objective == exact.objective
    assert certified.method == exact.method


def test_tree_planting_is_evaluated_and_never_better_than_its_bound() -> None:
    """Exactly one option for each site, targets that value helps to reach, boxes of one point."""
    problem = trees(grid=2, seed=1)
    exact = Enumeration().solve(problem, LONG)
    certified = certify(
        problem, PriceCoordination().solve(problem, LONG), time_limit=LONG, workers=1
    )
    certificate = certified.details["certificate"]
    assert certified.bound >= exact.objective - 1e-9
    assert certified.bound <= exact.objective + 0.5
    assert set(certificate.method) == {"evaluated"}
    assert certificate.closed.all()
    draw = np.random.default_rng(0)
    for prices in draw.exponential(size=(2, len(problem.blocks.capacities))):
        assert (
            certify(problem, NOTHING, prices, time_limit=LONG, workers=1).bound
            >= exact.objective - 1e-9
        )


def test_a_bound_that_meets_the_objective_proves_optimality() -> None:
    for seed in range(20):
        problem = replace(own(seed, "classification"), worth=1.0, offset=0.0).problem()
        solution = PriceCoordination().solve(problem, LONG)
        certified = certify(problem, solution, time_limit=LONG, workers=1)
        assert solution.status != "optimal"
        if certified.bound == certified.objective:
            break
    assert certified.status == "optimal"
    assert certified.gap == 0.0


def test_without_time_the_bound_is_the_number_of_blocks() -> None:
    problem = water_potability(n=3, net=mlp(2, 8, 9))
    solution = DualDecomposition(max_iterations=1).solve(problem, LONG)
    certified = certify(problem, solution, time_limit=0.0)
    certificate = certified.details["certificate"]
    assert certified.bound == 3.0
    assert certified.status == solution.status
    assert certificate.nodes == 0
    assert "open" in certificate.method
    assert certify(problem, NOTHING, np.full(18, 0.1), time_limit=0.0).bound == 3.0


def test_a_certificate_says_what_it_found() -> None:
    problem = own(2, "classification").problem()
    solution = PriceCoordination().solve(problem, LONG)
    certificate = certify(problem, solution, time_limit=LONG, workers=1).details["certificate"]
    said = repr(certificate)
    n = len(certificate.closed)
    assert isinstance(certificate, Certificate)
    assert f"{n} of {n} blocks closed" in said
    for word in ("bound", "objective", "blocks", "nodes", "seconds"):
        assert f"\n  {word} " in said
    assert all(
        np.shape(part) == (n,) for part in (certificate.profit_bound, certificate.profit_known)
    )
    assert len(certificate.method) == n
    when = [seconds for seconds, _ in certificate.history]
    assert when == sorted(when)
    assert "none" in repr(replace(certificate, objective=None))


def test_the_same_answer_twice() -> None:
    problem = own(1, "regression").problem()
    one, two = (
        certify(problem, NOTHING, prices=[0.4], time_limit=np.inf, workers=1).details["certificate"]
        for _ in range(2)
    )
    assert one.bound == two.bound
    assert one.nodes == two.nodes > 0
    assert (one.profit_bound == two.profit_bound).all()
    assert one.history[-1][1] == two.history[-1][1]


def test_an_interrupt_keeps_what_was_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = own(3, "regression")
    calls = itertools.count()
    problem = instance.problem()
    step = ReLUBranchAndBound.step

    def interrupted(search: ReLUBranchAndBound) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        step(search)

    monkeypatch.setattr(ReLUBranchAndBound, "step", interrupted)
    monkeypatch.setattr(certifying, "REPORT_SECONDS", 1e-3)  # so that there is something before
    solution = certify(problem, NOTHING, prices=[0.4], time_limit=LONG, workers=1)
    assert next(calls) == 3
    assert solution.bound >= instance.optimum()


REFUSED = {"LSTM": lstm(1, 4, 9), "MultiheadAttention|softmax|scaled_dot": attention(1, 4, 9)}


@pytest.mark.parametrize("name", REFUSED)
def test_networks_without_bounds_are_refused_by_name_before_any_work(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = water_potability(n=2, net=REFUSED[name])
    monkeypatch.setattr(PriceCoordination, "solve", lambda *_, **__: pytest.fail("that was work"))
    with pytest.raises(UnsupportedNetworkError, match=name):
        certify(problem, NOTHING)


def easy() -> NeuralMIP:
    """Every block has its class already."""
    net = relu_net(1, width=4, seed=0)
    net[2].bias.data += 50.0
    return replace(own(1, "classification"), net=net, worth=1.0, offset=0.0).problem()


def test_blocks_that_do_not_describe_the_model_are_noticed() -> None:
    """Blocks that say a class is worth less than in the model prove that the solution is too good
    to be true.
    """
    problem = easy()
    solution = PriceCoordination().solve(problem, LONG)
    mode = problem.blocks.modes[0]
    problem.set_blocks(Blocks([replace(mode, worth=0.5)], problem.blocks.capacities))
    with pytest.raises(ProblemError, match="blocks do not describe the model"):
        certify(problem, solution, time_limit=LONG, workers=1)


def test_a_solution_of_another_problem_is_refused() -> None:
    problem = own(1, "classification").problem()
    other = own(5, "classification").problem()
    same_size = replace(own(1, "classification"), w=own(1, "classification").w + 7.0).problem()
    for stranger in (other, same_size):
        solution = PriceCoordination().solve(stranger, LONG)
        assert solution.found
        with pytest.raises(ProblemError):
            certify(problem, solution)
    with pytest.raises(TypeError, match="needs a Solution"):
        certify(problem, problem)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="NeuralMIP"):
        certify(NOTHING, NOTHING)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "prices", [[0.1, 0.1], [], [-0.1], [np.nan], [np.inf], np.zeros((2, 2)), ["x"]], ids=repr
)
def test_prices_that_prove_nothing_are_refused(prices: Any) -> None:
    with pytest.raises((ProblemError, ValueError), match=r"prices|could not convert"):
        certify(own(1, "classification").problem(), NOTHING, prices)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"time_limit": np.nan}, "time_limit"),
        ({"seed": -1}, "seed"),
        ({"device": "nowhere"}, "nowhere"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, ProblemError, RuntimeError), match=match):
        certify(own(1, "classification").problem(), NOTHING, [0.1], **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises((ProblemError, ValueError, RuntimeError), match=r"(?i)cuda"):
        certify(own(1, "classification").problem(), NOTHING, [0.1], device="cuda")


def test_a_problem_without_blocks_gets_a_lagrangian_bound() -> None:
    problem = hand_sized()
    solution = BigM().solve(problem, LONG)
    certified = certify(problem, solution, time_limit=LONG)
    assert isinstance(certified.details["certificate"], LagrangianBound)
    sign = 1.0 if problem.model.getObjectiveSense() == "minimize" else -1.0
    assert sign * (certified.bound - solution.objective) <= 1e-9
    assert certified.gap < 1e-3
    with pytest.raises(ProblemError, match="prices belong to blocks"):
        certify(problem, solution, prices=[0.1])


SCRIPT = """
    import importlib
    from ddmip_lib import Solution
    from ddmip_lib.certificates import certify
    from tests.builders.blocks import own
    importlib.import_module("ddmip_lib.certificates.certify").SECONDS_IN_THIS_PROCESS = 0.0
    nothing = Solution("no_solution_found", "none")
    certificate = certify(own(7, "regression").problem(), nothing, [0.3], 36000.0, workers=2).details["certificate"]
    print(certificate.closed.all(), certificate.nodes > 0, repr(float(certificate.bound)))
"""


@pytest.mark.long
def test_two_processes_from_a_script_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=LONG,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    closed, worked, bound = done.stdout.split()
    assert (closed, worked) == ("True", "True")
    instance = own(7, "regression")
    assert len(instance.w) > 1
    alone = certify(instance.problem(), NOTHING, [0.3], time_limit=LONG, workers=1).details[
        "certificate"
    ]
    assert float(bound) == pytest.approx(alone.bound, abs=1e-4 * instance.worth * len(instance.w))


@pytest.mark.parametrize(
    ("workers", "seconds", "pays"), [(2, 3.0, False), (2, 30.0, True), (16, 7.0, True)]
)
def test_processes_are_started_where_time_is_left_for_them(
    monkeypatch: pytest.MonkeyPatch, workers: int, seconds: float, pays: bool
) -> None:
    """They begin anew, seconds later: in a short time one that works alone proves more, and keeps
    to its time. Which is chosen follows from the seconds that are left alone.
    """
    begun: list[tuple[float, int]] = []

    def note(work: Any, groups: Sequence[Any], deadline: float, reported: Any) -> None:
        begun.append((deadline, len(groups)))

    monkeypatch.setattr(
        certifying, "search_in_turn", lambda searches, deadline, report: begun.append((deadline, 0))
    )
    monkeypatch.setattr(certifying, "work_in_processes", note)
    with using(lambda: 100.0):  # no time passes
        certify(own(7, "regression").problem(), NOTHING, [0.3], time_limit=seconds, workers=workers)
    assert [size > 0 for _, size in begun] == ([False, True] if pays else [False])
    assert begun[-1][0] == 100.0 + seconds  # the last, or only, ones have all the time


def child(code: str, started: list[subprocess.Popen[bytes]] | None = None) -> Any:
    """In place of `processes._start`: a process that runs some code instead of the search, and is
    noted in a list.
    """

    def start() -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-c",
            f"import os, pickle, signal, sys, time\nsys.stdin.buffer.read()\n{code}",
        ]
        found = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if started is not None:
            started.append(found)
        return found

    return start


def test_a_process_that_fails_is_an_error_and_one_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str, enough: float = np.inf) -> list[Any]:
        """What two children tell; as soon as they have told `enough`, time is over."""
        heard: list[Any] = []
        monkeypatch.setattr(processes, "_start", child(code, started))

        def hear(number: int, found: Any) -> bool:
            heard.append((number, found))
            if len(heard) >= enough:
                clock.stop()
            return True

        with using(clock := Stopping()):
            processes.work_in_processes(certifying.search_in_turn, [[], []], now() + LONG, hear)
        return sorted(heard)

    with pytest.raises(RuntimeError, match="ended with code 3"):
        run("sys.exit(3)")
    with pytest.raises(RuntimeError, match="ended with code -9"):
        run("os.kill(os.getpid(), signal.SIGKILL)")
    half = pickle.dumps(list(range(1000)))[:500]
    with pytest.raises(RuntimeError, match="ended with code 5"):
        run(f"sys.stdout.buffer.write({half!r}); sys.stdout.flush(); sys.exit(5)")
    say = "sys.stdout.buffer.write(pickle.dumps({})); sys.stdout.flush()"
    assert run(say.format([4])) == [(0, [4]), (1, [4])]
    assert [each.returncode for each in started[-2:]] == [0, 0]
    assert run(f"{say.format([4])}; time.sleep({2 * LONG})", enough=2) == [(0, [4]), (1, [4])]
    assert [each.returncode for each in started[-2:]] == [
        -signal.SIGKILL
    ] * 2  # nobody waited for them


def test_nobody_waits_for_a_process_that_is_slow_to_take_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than a pipe holds is sent to children, one of which never reads it: the other works, and
    time ends both.
    """
    slow = iter(
        [
            f"time.sleep({2 * LONG})",
            "sys.stdin.buffer.read(); sys.stdout.buffer.write(pickle.dumps([4]))",
        ]
    )
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", f"import pickle, sys, time\n{next(slow)}"]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    def hear(number: int, found: Any) -> bool:
        heard.append((number, found))
        clock.stop()  # time is over when one of them has told what it found
        return True

    monkeypatch.setattr(processes, "_start", start)
    heard: list[Any] = []
    groups: list[Any] = [[bytes(2**20)], [bytes(2**20)]]
    with using(clock := Stopping()):
        processes.work_in_processes(certifying.search_in_turn, groups, now() + LONG, hear)
    assert heard == [(1, [4])]
    assert started[0].returncode == -signal.SIGKILL


def test_processes_end_when_nothing_more_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes,
        "_start",
        child("while True: pickle.dump(1, sys.stdout.buffer); sys.stdout.flush()"),
    )
    heard: list[Any] = []
    processes.work_in_processes(
        certifying.search_in_turn,
        [[]],
        now() + LONG,
        lambda _, found: heard.append(found) or len(heard) < 3,
    )
    assert len(heard) == 3


def test_the_search_ends_when_bound_and_objective_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is searched for a solution that has every class: the bound without prices is
    enough.
    """
    problem = easy()
    solution = PriceCoordination().solve(problem, LONG)
    assert solution.objective == len(problem.blocks.base)
    monkeypatch.setattr(
        ReLUBranchAndBound, "step", lambda _: pytest.fail("there was nothing left to prove")
    )
    certified = certify(problem, solution, time_limit=LONG, workers=1)
    assert (certified.status, certified.bound) == ("optimal", solution.objective)


def test_a_better_bound_is_kept() -> None:
    problem = trees(grid=2, seed=1)
    exact = Enumeration().solve(problem, LONG)
    assert exact.status == "optimal"
    weak = certify(
        problem,
        exact,
        prices=np.full(len(problem.blocks.capacities), 5.0),
        time_limit=LONG,
        workers=1,
    )
    assert weak.bound == exact.bound
    assert weak.details["certificate"].bound > exact.bound + 1e-3
    assert weak.status == "optimal"


def test_a_classifier_that_ends_in_a_relu_is_closed_too() -> None:
    """relu(a) > 0 where a > 0: the off side of the last unit is no class, although its
    output is 0.
    """
    plain = own(1, "classification")
    ends = replace(plain, net=torch.nn.Sequential(*plain.net, torch.nn.ReLU()).eval())
    with few_steps():
        one, two = (
            certify(instance.problem(), NOTHING, [0.7], time_limit=LONG, workers=1).details[
                "certificate"
            ]
            for instance in (plain, ends)
        )
    assert two.closed.all()
    assert two.bound == pytest.approx(one.bound, abs=1e-3 * plain.worth)


def test_an_error_in_a_report_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes, "_start", child("sys.stdout.buffer.write(pickle.dumps([4])); sys.stdout.flush()")
    )

    def reported(number: int, found: list[Any]) -> bool:
        raise ValueError("a report that does not fit")

    with pytest.raises(ValueError, match="does not fit"):
        processes.work_in_processes(certifying.search_in_turn, [[]], now() + LONG, reported)
