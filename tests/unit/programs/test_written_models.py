"""Programs as models of SCIP and of HiGHS."""

import numpy as np
import scipy.sparse as sp
from pyscipopt import Model

from ddmip_lib.programs.highs import pass_program, silent_highs
from ddmip_lib.programs.program import Program, Rows
from ddmip_lib.programs.scip import read_model
from ddmip_lib.programs.scip_program import ScipProgram

# The coefficients 2, 0 and 3, 0, 4: the zeros are stored like the others.
ROWS = Rows(
    row=np.array([0, 0, 1, 1, 1]),
    column=np.array([0, 1, 0, 1, 2]),
    weight=np.array([2.0, 0.0, 3.0, 0.0, 4.0]),
    first=np.array([0, 2, 5], dtype=np.int32),
)


def program_with_zeros() -> Program:
    return Program(
        cost=np.ones(3),
        rows=ROWS,
        row_lower=np.array([1.0, -np.inf]),
        row_upper=np.array([np.inf, 5.0]),
        lower=np.zeros(3),
        upper=np.full(3, 2.0),
        integer=np.array([True, False, False]),
    )


def without_zeros() -> sp.csr_matrix:
    return sp.csr_matrix([[2.0, 0.0, 0.0], [3.0, 0.0, 4.0]])


def test_a_model_of_scip_has_no_coefficient_zero() -> None:
    model = Model()
    ScipProgram(model, []).add(program_with_zeros())
    assert [len(model.getConsVars(c)) for c in model.getConss()] == [1, 2]
    rows = read_model(model).rows
    assert (rows.toarray() == without_zeros().toarray()).all()
    assert (rows.data != 0).all()


def test_a_model_of_highs_has_no_coefficient_zero() -> None:
    highs = silent_highs({})
    pass_program(highs, program_with_zeros())
    assert highs.getNumNz() == without_zeros().nnz
    matrix = highs.getLp().a_matrix_
    assert sorted(matrix.value_) == sorted(without_zeros().data)
