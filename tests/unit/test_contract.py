"""What every solver promises: each solver of the library keeps the whole contract, and broken ones
are found out.
"""

import dataclasses
from functools import cache, partial

import numpy as np
import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    LogBarrier,
    PriceCoordination,
    Recovering,
    SequentialMIP,
    SingleStepGradient,
    check_solver,
    solve,
)
from ddmip_lib.clock import using
from ddmip_lib.contract import Clause, Contract, examples
from ddmip_lib.contract.clauses import ALWAYS, CALLS
from ddmip_lib.model.solution import Proof
from tests.builders.clocks import Ticking


class Choosing:
    """`solve` as a solver like the others."""

    solve = staticmethod(solve)


short = partial(
    DualDecomposition, max_iterations=3
)  # what is promised does not hang on the number of iterations
MOVES, LAYERS, BLOCKS = (
    ({"refuses": [what]}) for what in ("no free input", "any module", "one block")
)
SOLVERS = {
    "dual decomposition": (short, MOVES),
    "paper": (lambda: dataclasses.replace(DualDecomposition.paper(), max_iterations=3), MOVES),
    "graph split": (partial(short, split="graph"), MOVES),
    "barrier": (partial(short, nn_block=LogBarrier()), MOVES),
    "single step gradient": (partial(SingleStepGradient, steps=20), {}),
    "enumeration": (Enumeration, {"proves": True, "refuses": ["continuous inputs"]}),
    "big-m": (BigM, {"proves": True, **LAYERS}),
    "big-m, CROWN ranges": (partial(BigM, ranges="crown"), {"proves": True, **LAYERS}),
    "sequential MIP": (partial(SequentialMIP, max_failed_starts=1), {}),
    "price coordination": (partial(PriceCoordination, max_rounds=1), BLOCKS),
    "recovering": (lambda: Recovering(SingleStepGradient(steps=3)), BLOCKS),
    "solve": (Choosing, {"proves": True}),
}
long = pytest.mark.long
ALIKE = ("paper", "graph split")  # Algorithm 1 with other settings
CLAUSES = [f"problem: {example.name}" for example in examples()]
CLAUSES += [f"call: {name}" for name in CALLS] + [f"always: {name}" for name in ALWAYS]


class Calling:
    """`solve` with a callback."""

    def __init__(self, callback):
        self.solve = partial(solve, callback=callback)


def with_call(solver, callback):
    return dataclasses.replace(solver, callback=callback)


@cache
def contract(name):
    make, abilities = SOLVERS[name]
    if name == "solve":
        with_callback = Calling
    elif name == "recovering":
        with_callback = None  # that of the solver inside is its own
    else:
        with_callback = partial(with_call, make())
    return {
        clause.name: clause
        for clause in check_solver(make(), **abilities, with_callback=with_callback)
    }


@pytest.mark.parametrize(
    "clause", CLAUSES
)  # solver by solver: each is asked once by whoever has its first clause
@pytest.mark.parametrize(
    "name", [name if name not in ALIKE else pytest.param(name, marks=long) for name in SOLVERS]
)
def test_every_solver_keeps_every_promise(name, clause):
    found = contract(name)[clause]
    assert found.passed, str(found)


def test_there_are_forty_promises_and_no_other():
    assert len(CLAUSES) >= 40
    assert list(contract("enumeration")) == CLAUSES


class Broken:
    """A solver that spoils what a good one does."""

    def __init__(self, spoil=lambda solution: solution, limit=None):
        self.good = Enumeration()
        self.spoil = spoil
        self.limit = limit

    def solve(self, problem, time_limit=60.0, seed=0, progress=False, on_point=None):
        limit = time_limit if self.limit is None else self.limit
        return self.spoil(self.good.solve(problem, limit, seed, progress, on_point), problem)


def other(**fields):
    """A spoiler that changes fields of what has a point, past all checks."""

    def spoil(solution, problem):
        if solution.found:
            for name, value in fields.items():
                object.__setattr__(solution, name, value(solution, problem))
        return solution

    return spoil


def beyond(solution, problem):
    return solution.objective + (1 if problem.model.getObjectiveSense() == "minimize" else -1)


def shift(solution, problem):
    return solution.values + 0.01


def mutated(solution, problem):
    problem.model.setObjective(0.0)
    return solution


class Deaf(Broken):
    """It lets Ctrl-C through, so that its incumbent is lost."""

    def solve(self, problem, time_limit=60.0, seed=0, progress=False, on_point=None):
        heard = []
        found = self.good.solve(problem, time_limit, seed, progress, heard.append)
        for inputs in heard:
            if on_point is not None:
                on_point(inputs)
        return found


class Forgetful(Broken):
    """It changes a setting of its own at each call."""

    def solve(self, problem, time_limit=60.0, seed=0, progress=False, on_point=None):
        self.calls = getattr(self, "calls", 0) + 1
        return self.good.solve(problem, time_limit, seed, progress, on_point)


proof_of_another = Proof("another", "by word", checked=True)
BROKEN = {
    "a wrong objective": (
        Broken(other(objective=beyond)),
        "always: an objective is the one that verify computes",
    ),
    "a point that verify refuses": (Broken(other(values=shift)), "always: a point passes verify"),
    "a bound on the wrong side": (
        Broken(other(bound=beyond)),
        "always: a bound is on its side of the optimum",
    ),
    "a proof of another problem": (
        Broken(other(proof=lambda *_: proof_of_another)),
        "always: a bound has a proof of this very problem",
    ),
    "a limit that is ignored": (
        Broken(lambda solution, _: solution, limit=60),
        "call: without time the status is time_limit, without a point or a bound",
    ),
    "a model that is changed": (Broken(mutated), "always: nothing else is changed"),
    "an incumbent lost by Ctrl-C": (
        Deaf(lambda solution, _: solution),
        "call: Ctrl-C returns the best point so far",
    ),
    "settings that change": (
        Forgetful(lambda solution, _: solution),
        "always: nothing else is changed",
    ),
    "no Solution at all": (
        Broken(lambda *_: None),
        "always: the result is a Solution with a known status",
    ),
    "chatter": (
        Broken(lambda solution, _: print("done") or solution),
        "always: nothing is printed without progress=True",
    ),
    "seconds made up": (
        Broken(other(seconds=lambda *_: 1e6)),
        "always: seconds are those of the call",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_solver_is_found_out(name):
    solver, clause = BROKEN[name]
    found = check_solver(solver, proves=True, refuses=["continuous inputs"])
    assert clause in [broken.name for broken in found.broken]
    with pytest.raises(AssertionError, match=clause):
        found.require()


def test_a_report_can_be_read():
    found = Contract([Clause("it rains", True, ""), Clause("it shines", False, "clouds")])
    assert str(found) == "1 of 2 clauses hold\nholds   it rains\nBROKEN  it shines (clouds)"
    assert [clause.name for clause in found.broken] == ["it shines"]


def test_abilities_are_declared_and_not_guessed():
    with pytest.raises(ValueError, match="continuous inputs"):
        check_solver(Enumeration(), refuses=["everything"])
    found = {clause.name: clause for clause in check_solver(Enumeration())}
    assert not found["problem: continuous inputs"].passed
    assert "x0 is continuous" in found["problem: continuous inputs"].explanation


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "enumeration"])
def test_water_is_never_worse_than_leaving_it_alone(name):
    problem = water_potability(n=4, net=mlp(2, 8, 9, seed=1), seed=42)
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    with using(Ticking(step=0.05)):  # it holds at any limit, so at one of twenty looks at the clock
        solution = SOLVERS[name][0]().solve(problem, time_limit=1.0, seed=42)
    assert solution.objective >= untreated
    assert problem.verify(solution).feasible


def test_all_examples_are_different_problems():
    digests = [example.problem.instance().digest for example in examples()]
    assert len(set(digests)) == len(digests)
    assert np.isfinite([example.best for example in examples() if example.best is not None]).all()
