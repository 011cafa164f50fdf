"""What a process has to wait for: nothing is imported that was not asked for, and no import changes
a setting.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest

import ddmip_lib
from tests.builders.places import ROOT
from tests.project.test_flow import project

NOT_ASKED_FOR = (
    "IPython",
    "dask",
    "distributed",
    "matplotlib",
    "pandas",
    "pooch",
    "pyscipopt_ml",
    "sklearn",
    "sympy",
    "torch._dynamo",
    "torch.distributed.tensor",
    "yaml",
)
SOLVERS = """
from ddmip_lib import DualDecomposition, PriceCoordination, SequentialMIP, certify
from ddmip_book.data import load_water
from ddmip_book.networks import mlp, train
from ddmip_book.problems import water_potability

problem = water_potability(n=2, net=train(mlp(1, 4, 9), load_water(), epochs=1, cache=False))
for solver in (DualDecomposition(max_iterations=2), SequentialMIP(max_failed_starts=1), PriceCoordination(max_rounds=1)):
    solution = solver.solve(problem, time_limit=20)
certify(problem, solution, time_limit=20, workers=1)
"""
SOLVE = """
from ddmip_lib import solve
from ddmip_lib.problems import hand_sized
solve(hand_sized())
"""
STORED_NETWORKS = """
import tempfile
from ddmip_book.networks import load_npz, mlp, save_npz
with tempfile.TemporaryDirectory() as folder:
    save_npz(mlp(depth=1, width=4, n_in=3), folder + "/net.npz")
    load_npz(folder + "/net.npz")
"""
BIGM = """
from ddmip_lib import BigM
from ddmip_lib.problems import hand_sized
BigM().solve(hand_sized())
"""


def imported_by(program: str) -> list[str]:
    """The modules that a new process holds at the end of a program."""
    script = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "program", [SOLVERS, SOLVE, STORED_NETWORKS], ids=["solvers", "solve", "files"]
)
def test_no_solver_makes_a_process_wait_for_what_a_plain_network_does_not_need(
    program: str,
) -> None:
    modules = imported_by(program)
    assert [name for name in NOT_ASKED_FOR if name in modules] == []


def test_the_papers_baseline_imports_its_own_package_and_no_sympy() -> None:
    modules = imported_by(BIGM)
    assert [name for name in NOT_ASKED_FOR if name in modules] == ["pyscipopt_ml"]


def test_importing_the_library_imports_no_package_at_all() -> None:
    ours = {name.partition(".")[0] for name in imported_by("import ddmip_lib")}
    assert ours - {
        name.partition(".")[0] for name in imported_by("import typing, importlib.metadata")
    } <= {"ddmip_lib"}


def test_problem_and_solve_do_not_import_what_they_do_not_use() -> None:
    modules = imported_by("from ddmip_lib import NeuralMIP, solve")
    parts = ("contract", "data", "plots", "predictors", "problems", "baselines.bigm")
    assert [part for part in parts if f"ddmip_lib.{part}" in modules] == []
    assert [name for name in (*NOT_ASKED_FOR, "scipy.optimize") if name in modules] == []


FILTERS = """
import warnings, torch, scipy.optimize, scipy.special  # which set their own
before = list(warnings.filters)
{program}
assert warnings.filters == before, [line for line in warnings.filters if line not in before]
"""


@pytest.mark.parametrize(
    "program",
    ["from ddmip_lib import *", SOLVE, STORED_NETWORKS, BIGM],
    ids=["import", "solve", "files", "bigm"],
)
def test_the_filters_of_warnings_stay_as_they_are(program: str) -> None:
    imported_by(FILTERS.format(program=program))


def test_names_are_where_the_library_looks_for_them() -> None:
    """Type checkers read imports which never run; the table that is used instead says the same."""
    tree = ast.parse((ROOT / "ddmip_lib" / "__init__.py").read_text())
    (checked,) = (
        node.body
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = {
        f".{node.module}": tuple(alias.name for alias in node.names)
        for node in checked
        if isinstance(node, ast.ImportFrom)
    }
    assert imports == ddmip_lib.PLACES
    names = {name for names in ddmip_lib.PLACES.values() for name in names}
    assert names | {"__version__"} == set(ddmip_lib.__all__)
    assert set(ddmip_lib.PARTS) == {
        path.stem for path in (ROOT / "ddmip_lib").iterdir() if (path / "__init__.py").exists()
    } | {"plots"}


@pytest.mark.parametrize("name", [*ddmip_lib.__all__, *ddmip_lib.PARTS])
def test_every_name_is_listed_and_found(name: str) -> None:
    assert name in dir(ddmip_lib)
    assert getattr(ddmip_lib, name) is getattr(ddmip_lib, name)


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'ddmip_lib' has no attribute 'solver'"):
        ddmip_lib.solver  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Solve'"):
        exec("from ddmip_lib import Solve")


@cache
def public_addresses(module: str, name: str) -> list[str]:
    """The library and those of its packages that export this object of a module."""
    found = getattr(import_module(module), name)
    exporting = [ddmip_lib.__name__, *(f"{ddmip_lib.__name__}.{part}" for part in ddmip_lib.PARTS)]
    return [
        address
        for address in exporting
        if name in getattr(import_module(address), "__all__", ())
        and getattr(import_module(address), name) is found
    ]


def inner_imports(file: str, source: str) -> Iterator[tuple[str, str]]:
    """Modules inside the library's packages, and names that a file imports from them.

    The tests of a package may import from its modules.
    """
    own = f"ddmip_lib.{file.split('/')[2]}" if file.startswith("tests/unit/") else "ddmip_lib.none"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
            continue
        inner = node.module.startswith("ddmip_lib.") and node.module.count(".") > 1
        if inner and not node.module.startswith(f"{own}."):
            yield from ((node.module, alias.name) for alias in node.names)


def test_what_a_package_exports_is_imported_from_it() -> None:
    roundabout = [
        f"{file}: import {name} from {' or '.join(addresses)}, not from {module}"
        for file, source in project().items()
        if not file.startswith("ddmip_lib/")
        for module, name in inner_imports(file, source)
        if (addresses := public_addresses(module, name))
    ]
    assert roundabout == []


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("tools/build.py", "from ddmip_lib.bounds.graph import Graph", True),
        ("chapters/a.py", "def f():\n    from ddmip_lib.model.problem import NeuralMIP", True),
        ("tests/unit/model/test_a.py", "from ddmip_lib.bounds.graph import Graph", True),
        ("tests/unit/bounds/test_a.py", "from ddmip_lib.bounds.graph import Graph", False),
        ("tools/build.py", "from ddmip_lib.bounds import Graph", False),
        ("tools/build.py", "from ddmip_lib.bounds.graph import Node", False),
    ],
)
def test_an_import_past_the_package_is_found(file: str, line: str, found: bool) -> None:
    addresses = [public_addresses(*each) for each in inner_imports(file, line)]
    assert any(addresses) == found
