"""Combinations of whole variables against plain enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pyscipopt
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_lib.model.assignments import AssignmentList
from ddmip_lib.programs import read_model


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_all_that_rows_allow_and_nothing_else(seed, count):
    draw = np.random.default_rng(seed)
    low = draw.integers(-3, 1, count)
    high = low + draw.integers(0, 4, count)
    weights = draw.integers(-2, 3, (2, count)).astype(float)
    fixed = float(draw.integers(-2, 3))
    sides = draw.integers(-3, 6, 2).astype(float)
    weights[0, 0], high[0] = 1.0, low[0] + 2  # a row in which nothing moves rules nothing out
    m = pyscipopt.Model()
    x = m.addMatrixVar((count,), vtype="I", lb=low.astype(float), ub=high.astype(float))
    still = m.addVar(lb=fixed, ub=fixed)
    free = m.addVar(lb=None)
    m.addCons((x * weights[0]).sum() + still <= sides[0])
    m.addCons((x * weights[1]).sum() + free >= sides[1])  # says nothing: `free` is free
    at = np.array([i for i, v in enumerate(m.getVars()) if v.vtype() != "CONTINUOUS"])
    names = [m.getVars()[i].name for i in at]
    order = [names.index(x[j].name) for j in range(count)]
    found = AssignmentList(read_model(m)).combinations(at, 10**4)
    ranges = [range(a, b + 1) for a, b in zip(low, high, strict=True)]
    wanted = {
        point
        for point in itertools.product(*ranges)
        if weights[0] @ np.array(point) + fixed <= sides[0] + 1e-9
    }
    assert {tuple(row[order].astype(int)) for row in found} == wanted
    assert len(found) == len(wanted)


def test_too_many_are_not_listed():
    m = pyscipopt.Model()
    m.addMatrixVar(20, vtype="B")
    assert AssignmentList(read_model(m)).combinations(np.arange(20), 1000) is None


def test_inputs_that_an_equation_gives():
    m = pyscipopt.Model()
    z = m.addMatrixVar(3, vtype="B", name="z")
    x = m.addVar("x", ub=9)
    loose = m.addVar("loose", ub=9)
    m.addCons(z.sum() == 1)
    m.addCons(2 * x == 4 * z[0] + 6 * z[1] + 1)
    m.addCons(loose <= z[0])
    s = read_model(m)
    listing = AssignmentList(s)
    place = {name: i for i, name in enumerate(s.names)}
    assert listing.determining_variables(np.array([place["loose"]])) is None
    deciding = listing.determining_variables(np.array([place["x"]]))
    assert [s.names[at] for at in deciding.at] == ["z_0", "z_1"]
    full = listing.assignments(
        deciding, np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(s.n_variables)
    )
    np.testing.assert_allclose(full[:, place["x"]], [3.5, 2.5])


def test_what_verification_forgives_is_not_ruled_out():
    """A fixed number that is not whole leaves a row 1e-7 too small: `verify` accepts that, and so
    must a list.
    """
    m = pyscipopt.Model()
    x = m.addVar("x", vtype="I", ub=3)
    still = m.addVar(lb=1e-7, ub=1e-7)
    m.addCons(x + still <= 2)
    assert AssignmentList(read_model(m)).combinations(np.array([0]), 10).ravel().tolist() == [
        0.0,
        1.0,
        2.0,
    ]
