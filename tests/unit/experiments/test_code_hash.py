"""The hash of a method's code: blind to wording, layout and place; not to what the code does."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ddmip_book.experiments import METHODS
from ddmip_book.experiments.execute import BUILDERS
from experiments.code_hash import Sources, canonical, method_hash
from tests.builders.places import ROOT

FOLDERS = {
    "ddmip_lib": ROOT / "ddmip_lib",
    "ddmip_book": ROOT / "book" / "ddmip_book",
    "experiments": ROOT / "experiments",
}
HERE = Sources(FOLDERS)
WORDS = (
    "figures",
    "plots",
    "diagrams",
    "checks",
    "headline",
    "claims",
    "ledger",
    "results",
    "rows",
    "store",
    "runner",
)
"""Parts of modules' names that no method reaches."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The source files of all packages, to be changed."""
    for name, folder in FOLDERS.items():
        shutil.copytree(
            folder, tmp_path / name, ignore=shutil.ignore_patterns("stored", "__pycache__")
        )
    return tmp_path


def hashes(folder: Path) -> dict[str, str | None]:
    sources = Sources({name: folder / name for name in FOLDERS})
    return {method: sources.method_hash(method, "water") for method in METHODS}


@cache
def today() -> dict[str, str | None]:
    return {method: HERE.method_hash(method, "water") for method in METHODS}


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


# what does not count


def test_a_copy_has_the_hashes_of_the_installed_packages(copy: Path) -> None:
    assert hashes(copy) == today() == {method: method_hash(method, "water") for method in METHODS}
    assert None not in today().values()


def _reword(folder: Path) -> None:
    change(folder / "ddmip_lib" / "errors.py", '"""', '"""Said otherwise. ')


def _comment(folder: Path) -> None:
    file = folder / "ddmip_lib" / "errors.py"
    file.write_text("# why\n\n" + file.read_text().replace("\n    ", "\n    # and here\n    "))


def _imports(folder: Path) -> None:
    """An import of the module instead of through the package, and one that is not used."""
    change(
        folder / "ddmip_lib" / "model" / "solution.py",
        "import numpy as np",
        "import os\nimport numpy as np",
    )
    change(
        folder / "experiments" / "methods.py",
        "from ddmip_lib import BigM",
        "from ddmip_lib.baselines.bigm import BigM",
    )


def _annotations(folder: Path) -> None:
    change(
        folder / "ddmip_book" / "problems" / "water.py",
        "n: int,\n    net: nn.Module,",
        "n: 'np.int64',\n    net: object,",
    )


def _move(folder: Path) -> None:
    """A file of its own name in another package."""
    (folder / "ddmip_lib" / "baselines" / "single_step.py").rename(
        folder / "ddmip_lib" / "predictors" / "gradient.py"
    )
    for file in folder.rglob("*.py"):
        text = file.read_text().replace(
            "ddmip_lib.baselines.single_step", "ddmip_lib.predictors.gradient"
        )
        file.write_text(text.replace(".baselines.single_step", ".predictors.gradient"))


def _move_a_function(folder: Path) -> None:
    """From one module to another that the same methods reach."""
    one = folder / "ddmip_lib" / "errors.py"
    other = folder / "ddmip_lib" / "model" / "solution.py"
    first = next(node for node in ast.parse(one.read_text()).body if isinstance(node, ast.ClassDef))
    lines = one.read_text().splitlines()
    body = lines[first.lineno - 1 : first.end_lineno]
    one.write_text("\n".join(lines[: first.lineno - 1] + lines[first.end_lineno :]))
    other.write_text(other.read_text() + "\n" + "\n".join(body) + "\n")


def _label(folder: Path) -> None:
    change(
        folder / "ddmip_book" / "experiments" / "methods.py",
        '"SSG repaired"',
        '"the heuristic, repaired"',
    )


def _new_problem(folder: Path) -> None:
    change(
        folder / "ddmip_book" / "experiments" / "execute.py",
        '    "trees": lambda',
        '    "new": lambda: 1,\n    "trees": lambda',
    )


def _figure(folder: Path) -> None:
    change(folder / "ddmip_lib" / "plots.py", "\ndef ", "\nMORE = 1\n\n\ndef ")


@pytest.mark.parametrize(
    "edit",
    [
        _reword,
        _comment,
        _imports,
        _annotations,
        _move,
        _move_a_function,
        _label,
        _new_problem,
        _figure,
    ],
)
def test_what_does_nothing_to_a_water_run_keeps_its_hash(
    copy: Path, edit: Callable[[Path], None]
) -> None:
    edit(copy)
    assert hashes(copy) == today()


# what does


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        (
            "ddmip_lib/baselines/single_step.py",
            "ZERO_VIOLATION = 1e-9",
            "ZERO_VIOLATION = 1e-8",
            {"ssg", "ssg-printed"},
        ),
        ("ddmip_book/experiments/methods.py", "feastol=1e-9", "feastol=1e-8", {"bigm-tight"}),
        (
            "ddmip_book/experiments/methods.py",
            "NO_MULTIPLIER = 1e-12",
            "NO_MULTIPLIER = 1e-9",
            {"dd-no-multipliers"},
        ),
        (
            "experiments/certified.py",
            "FINDING = 60.0",
            "FINDING = 61.0",
            {"certificate"},
        ),
        (
            "ddmip_book/experiments/random_inputs.py",
            "points: int = 50",
            "points: int = 51",
            {"random"},
        ),
        (
            "ddmip_book/problems/water.py",
            "= 2.0,\n    data: Dataset",
            "= 2.5,\n    data: Dataset",
            set(METHODS),
        ),
    ],
)
def test_a_change_reaches_the_methods_that_use_it(
    copy: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    change(copy / file, old, new)
    assert {method for method, found in hashes(copy).items() if found != today()[method]} == changed


def test_another_problem_is_other_code() -> None:
    assert HERE.method_hash("dd", "water") == HERE.method_hash(
        "dd", "water_repeated"
    )  # built by the same lines
    assert (
        len({HERE.method_hash("dd", problem) for problem in ("water", "trees", "site_care")}) == 3
    )


# closures


@pytest.mark.parametrize("problem", BUILDERS)
@pytest.mark.parametrize("method", METHODS)
def test_no_method_reaches_figures_or_bookkeeping(method: str, problem: str) -> None:
    reached = HERE.closure(method, problem)
    own = {"water": "ddmip_book.problems.water", "suite": "experiments.suite.members"}
    assert own.get(problem.partition("_")[0], "ddmip_book.problems.trees") in reached
    assert [name for name in reached if set(name.split(".")) & set(WORDS)] == []


def packages(method: str) -> set[str]:
    """The packages of the library that a method on water reaches."""
    return {
        name.split(".")[1]
        for name in HERE.closure(method, "water")
        if name.startswith("ddmip_lib.")
    }


def test_closures_hold_what_a_method_needs_and_no_more() -> None:
    baselines = {"certificates", "decomposition", "pricing"}
    for method in ("ssg", "bigm", "enumeration", "random"):
        assert packages(method) & baselines == set(), method
    assert "ddmip_lib.decomposition.pgd" in HERE.closure("dd", "water")
    assert "certificates" not in packages("dd") | packages("prices")
    assert {"certificates", "pricing", "bounds"} <= packages("certificate")


def test_algorithm_one_needs_no_prices() -> None:
    assert "pricing" not in packages("dd")


def test_a_name_leads_through_its_package_to_its_module(tmp_path: Path) -> None:
    typed = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .two import other\ndef f():"
        " return 1\n"
    )
    lazy = (
        "BUILDERS = {'p': _p, 'q': _q}\ndef _p():\n    from ddmip_lib.table import TABLE\n   "
        " return TABLE\n_q = 1\n"
    )
    files = {
        "ddmip_lib/__init__.py": "from .one import run\nfrom .two import other\n",
        "ddmip_lib/one.py": "from . import helper as h\ndef run(): return h.f()\n",
        "ddmip_lib/helper.py": typed,
        "ddmip_lib/two.py": "def other(): pass\n",
        "ddmip_lib/table/__init__.py": "from . import entry\nfrom .core import TABLE\n",
        "ddmip_lib/table/core.py": "TABLE = {}\n",
        "ddmip_lib/table/entry.py": "from .core import TABLE\nTABLE[1] = 2\n",
        "ddmip_book/__init__.py": "",
        "ddmip_book/experiments/__init__.py": "",
        "ddmip_book/experiments/methods.py": (
            "from ddmip_lib import run\nMETHODS = {'a': M(lambda d: run(), '')}\n"
        ),
        "ddmip_book/experiments/execute.py": lazy,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    sources = Sources({name: tmp_path / name for name in FOLDERS})
    assert sources.closure("a", "q") == {"ddmip_lib.one", "ddmip_lib.helper"}
    registered = {
        "ddmip_lib.table.core",
        "ddmip_lib.table.entry",
    }  # the package runs `entry` whenever it is imported
    assert sources.closure("a", "p") == {"ddmip_lib.one", "ddmip_lib.helper"} | registered
    with pytest.raises(ValueError, match="has a method 'b'"):
        sources.closure("b", "p")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = f'a{b}' 'c'", "x = f'a{b}c'"),
        ("x = u'a'", 'x = "a"'),
        ("def f(a: int = 1, *, b: str) -> int: ...", "def f(a=1, *, b):\n    '''Doc.'''\n    pass"),
        ("class A:\n    x: int = 1\n    'What.'", "class A:\n    x: 'float' = (1)"),
    ],
)
def test_spelling_does_not_count(one: str, other: str) -> None:
    assert canonical(ast.parse(one)) == canonical(ast.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = True"),
        ("x = '1'", "x = 1"),
        ("f(None)", "f()"),
        ("def f(*, a, b=1): return a", "def f(*, a=1, b): return a"),
        ("x = {**a, 1: b}", "x = {1: b, **a}"),
        ("x = f'{a:>3}'", "x = f'{a:>4}'"),
        ("class A:\n    x: int", "class A:\n    y: int"),
        ("return_ = a - b", "return_ = b - a"),
    ],
)
def test_meaning_counts(one: str, other: str) -> None:
    assert canonical(ast.parse(one)) != canonical(ast.parse(other))
