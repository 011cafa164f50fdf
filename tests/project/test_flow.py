"""Imports run in one direction, from `LAYERS`' first row to its last, and nothing imports itself in
a circle.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.builders.places import ROOT

# a part imports parts of the rows above its own, and of its own row as long as no circle arises
LAYERS = (
    (
        "ddmip_lib/errors",
        "ddmip_lib/clock",
        "ddmip_lib/numerics",
        "ddmip_lib/renamed",
        "ddmip_lib/device",
        "ddmip_lib/data",
    ),
    ("ddmip_lib/programs",),
    ("ddmip_lib/predictors", "ddmip_lib/model", "ddmip_lib/bounds", "ddmip_lib/workers"),
    ("ddmip_lib/proofs",),
    ("ddmip_lib/methods",),
    (
        "ddmip_lib/problems",
        "ddmip_lib/decomposition",
        "ddmip_lib/baselines",
        "ddmip_lib/linearisation",
        "ddmip_lib/pricing",
    ),
    ("ddmip_lib/certificates",),
    ("ddmip_lib/portfolio", "ddmip_lib/contract"),
    ("ddmip_lib/__init__", "ddmip_lib/__main__", "ddmip_lib/plots"),
    (
        "ddmip_book/__init__",
        "ddmip_book/data",
        "ddmip_book/networks",
        "ddmip_book/problems",
        "ddmip_book/headline",
        "ddmip_book/text",
        "ddmip_book/yaml_file",
        "ddmip_book/examples",
        "ddmip_book/experiments",
        "ddmip_book/figures",
        "ddmip_book/checks",
    ),
    ("chapters",),
    ("experiments",),
    ("tools", "tests"),
)
HEIGHT = {part: height for height, parts in enumerate(LAYERS) for part in parts}


def part(path: str) -> str:
    """``ddmip_lib/model`` for ``ddmip_lib/model/problem.py``; of experiments, tools, tests and
    chapters the first folder.
    """
    pieces = path.removesuffix(".py").split("/")
    return "/".join(pieces[: 2 if pieces[0].startswith("ddmip_") else 1])


def names(path: str, source: str) -> Iterator[str]:
    """Dotted names that a file imports anywhere: at its top, inside a function, for type checkers
    alone, by string.
    """
    package = path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def imports(sources: dict[str, str]) -> dict[str, set[str]]:
    """For each file the files that it names; a package stands for its ``__init__.py``."""
    files = {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file
        for file in sources
    }

    def file_of(name: str) -> str | None:
        while name and name not in files:  # the last piece may be a function or a class
            name = name.rpartition(".")[0]
        return files.get(name)

    graph = {}
    for file, source in sources.items():
        found = {file_of(name) for name in names(file, source)}
        graph[file] = {other for other in found if other}
    return graph


def circles(graph: dict[str, set[str]]) -> Iterator[str]:
    """Every circle in turn; each is cut once found, so that those behind it come to light."""
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            path = error.args[1][::-1]
            yield " -> ".join(path)
            graph[path[-2]].discard(path[-1])
        else:
            return


def violations(sources: dict[str, str]) -> list[str]:
    """What breaks the flow among these files, given by path with ``ddmip_book`` beside
    ``ddmip_lib``.
    """
    graph = imports(sources)
    beside: defaultdict[str, set[str]] = defaultdict(set)
    found = [
        f"{file}: {part(file)} has no place in LAYERS" for file in graph if part(file) not in HEIGHT
    ]
    for file, targets in graph.items():
        for target in sorted(targets):
            here = part(file)
            there = part(target)
            if HEIGHT.get(there, 0) > HEIGHT.get(here, len(LAYERS)):
                found.append(f"{file} imports {target} against the flow")
            elif here != there and HEIGHT.get(there) == HEIGHT.get(here):
                beside[here].add(there)
    found += [f"packages in a circle: {path}" for path in circles(beside)]
    return found + [f"modules in a circle: {path}" for path in circles(graph)]


def code_of(chapter: Path) -> str:
    """A notebook's code cells, without the lines that only IPython reads."""
    cells = json.loads(chapter.read_text())["cells"]
    lines = (
        line
        for cell in cells
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).splitlines()
    )
    return "\n".join(line for line in lines if not line.startswith(("%", "!")))


def project() -> dict[str, str]:
    """Every Python file of the project, and every chapter's code."""
    sources = {}
    for base, folder in (
        (ROOT, "ddmip_lib"),
        (ROOT / "book", "ddmip_book"),
        (ROOT, "experiments"),
        (ROOT, "tools"),
        (ROOT, "tests"),
    ):
        files = sorted((base / folder).rglob("*.py"))
        sources |= {file.relative_to(base).as_posix(): file.read_text() for file in files}
    return sources | {
        f"chapters/{file.stem}.py": code_of(file)
        for file in sorted((ROOT / "book").glob("*.ipynb"))
    }


def test_everything_imports_in_one_direction() -> None:
    assert violations(project()) == []


SOUND = {
    "ddmip_lib/__init__.py": (
        "from .decomposition import Solver\nfrom .model.problem import Problem"
    ),
    "ddmip_lib/errors.py": "import numpy as np",
    "ddmip_lib/model/__init__.py": "",
    "ddmip_lib/model/problem.py": "from ..errors import ProblemError\nfrom .grid import read",
    "ddmip_lib/model/grid.py": "import numpy as np",
    "ddmip_lib/programs/scip.py": "import pyscipopt",
    "ddmip_lib/decomposition/__init__.py": "from .solver import Solver",
    "ddmip_lib/decomposition/solver.py": "from ..model import grid, problem",
    "ddmip_lib/pricing/state.py": "from ddmip_lib.decomposition.solver import Solver",
    "ddmip_book/figures/water.py": "import ddmip_lib\nfrom ddmip_lib import Problem",
    "ddmip_book/examples/tiny.py": "from ..figures import water",
    "tools/build.py": "import ddmip_book.figures.water",
    "experiments/__init__.py": "from ddmip_book.figures import water",
    "chapters/water.py": "from ddmip_lib import Problem\nfrom ddmip_book.figures.water import draw",
}


def test_a_sound_layout_passes() -> None:
    assert violations(SOUND) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("ddmip_lib/errors.py", "from .model.problem import Problem"),
        ("ddmip_lib/errors.py", "from . import model"),
        ("ddmip_lib/programs/scip.py", "def f():\n    from ..decomposition import solver"),
        (
            "ddmip_lib/programs/scip.py",
            "if TYPE_CHECKING:\n    from ..decomposition.solver import Solver",
        ),
        ("ddmip_lib/programs/scip.py", "import ddmip_lib.decomposition.solver as s"),
        ("ddmip_lib/programs/scip.py", "from ddmip_lib import Solver"),
        ("ddmip_lib/programs/scip.py", "importlib.import_module('ddmip_lib.decomposition.solver')"),
        ("ddmip_lib/__init__.py", "from ddmip_book.figures import water"),
        ("ddmip_lib/pricing/state.py", "import tools.build"),
        ("ddmip_book/figures/water.py", "from tools import build"),
        ("chapters/water.py", "from experiments import run"),
    ],
)
def test_one_import_turned_round_is_found(file: str, line: str) -> None:
    found = violations(SOUND | {file: SOUND[file] + "\n" + line})
    assert [message for message in found if message.endswith("against the flow")]
    assert all(file in message or "circle" in message for message in found)


@pytest.mark.parametrize(
    ("file", "line", "circle"),
    [
        ("ddmip_lib/model/grid.py", "from .problem import Problem", "modules"),
        ("ddmip_lib/model/grid.py", "if TYPE_CHECKING:\n    from . import problem", "modules"),
        ("ddmip_lib/programs/scip.py", "def f():\n    from . import scip", "modules"),
        ("ddmip_lib/decomposition/solver.py", "from . import Solver", "modules"),
        ("ddmip_lib/decomposition/__init__.py", "from ..pricing import state", "packages"),
        ("ddmip_book/figures/water.py", "import ddmip_book.examples.tiny", "packages"),
    ],
)
def test_a_circle_is_found(file: str, line: str, circle: str) -> None:
    found = violations(SOUND | {file: SOUND[file] + "\n" + line})
    assert [message for message in found if message.startswith(f"{circle} in a circle")]
    assert not [message for message in found if "against" in message]


def test_every_circle_is_named() -> None:
    two = {
        f"ddmip_lib/model/{a}.py": f"from . import {b}" for a, b in ("ab", "ba", "cd", "de", "ec")
    }
    found = violations(two)
    assert len(found) == 2
    assert {len(message.split(" -> ")) for message in found} == {3, 4}


def test_a_part_without_a_layer_is_found() -> None:
    assert violations({"ddmip_lib/helpers.py": ""}) == [
        "ddmip_lib/helpers.py: ddmip_lib/helpers has no place in LAYERS"
    ]
