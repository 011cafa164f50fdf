"""Chapters away from the project: copied alone into an empty folder, both packages installed from
wheels.

The environment is new; of this one it sees the dependencies alone, never the checkout.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml

from ddmip_book.experiments import EXPERIMENTS, load
from tests.builders.environments import (
    called,
    environment,
    install,
    lend_dependencies,
    sources,
    wheel,
)
from tools import install_cell
from tools.notebooks import KERNEL_ENVIRONMENT, ROOT, chapters, contents, parameters

# One that starts from nothing, one of Part II, and one that reads stored results.
CHOSEN = ("quickstart", "split", "e5")
GITHUB = {"repository": {"url": "https://github.com/Someone/book", "branch": "main"}}
AS_IMPORTED = {"pyscipopt-ml": "pyscipopt_ml", "pyyaml": "yaml", "scikit-learn": "sklearn"}
BROUGHT_ALONG = (
    "ddmip_lib",
    "ddmip_book",
    "IPython",
    "cycler",
)  # by themselves, by every kernel, by matplotlib
WHERE = nbformat.v4.new_code_cell("import ddmip_lib\n\nprint(ddmip_lib.__file__)", id="where-from")


def code(path: Path) -> ast.Module:
    """All code cells of a notebook, without magics."""
    cells = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    return ast.parse(
        "\n".join(line for cell in cells for line in cell.splitlines() if not line.startswith("%"))
    )


def imports(module: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a file, without those from its own package and those of an extra that it looks
    for first.
    """
    asking = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.If) and "find_spec" in ast.unparse(node.test)
    ]
    asked = {id(inner) for node in asking for line in node.body for inner in ast.walk(line)}
    found = [node for node in ast.walk(module) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [node for node in found if not getattr(node, "level", 0) and id(node) not in asked]


def packages_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = (
        [node.module or ""]
        if isinstance(node, ast.ImportFrom)
        else [alias.name for alias in node.names]
    )
    return {name.split(".")[0] for name in names}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose two packages come from wheels."""
    base = tmp_path_factory.mktemp("alone")
    (base / "sources").mkdir()
    project = sources(base / "sources")
    python, packages = environment(base / "env")
    install(python, wheel(project, base / "library"), wheel(project / "book", base / "book"))
    lend_dependencies(packages)
    return python


RUN_ALL = """\
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=None, startup_timeout=24 * 3600, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def run_all(python: Path, notebook: Path) -> str:
    """Execute a notebook in its folder as Jupyter's "Run all" does; returns what its last cell
    printed.
    """
    surroundings = {**os.environ, **KERNEL_ENVIRONMENT}
    surroundings.pop("PYTHONPATH", None)
    called(python, "-c", RUN_ALL, notebook.name, cwd=notebook.parent, env=surroundings)
    outputs = nbformat.read(notebook, 4).cells[-1].outputs
    return "".join(output.text for output in outputs).strip()


READ = """\
from pathlib import Path
import ddmip_lib
from ddmip_book.experiments import EXPERIMENTS, load
from ddmip_book.experiments.store import results_folder
print(ddmip_lib.__file__)
print(sum(len(load(name)) for name in EXPERIMENTS))
print(len(list(results_folder().glob("networks/*.npz"))), len(list(results_folder().parent.glob("networks/*.npz"))))
try:
    results_folder(writing=True)
except FileNotFoundError as problem:
    print(problem)
"""


def test_all_that_chapters_import_and_read_comes_with_the_wheels(
    alone: Path, tmp_path: Path
) -> None:
    statements = {ast.unparse(node): None for path in chapters() for node in imports(code(path))}
    (tmp_path / "program.py").write_text("\n".join([*statements, READ]))
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = called(alone, "program.py", cwd=tmp_path, env=surroundings).splitlines()
    assert Path(told[0]).is_relative_to(alone.parents[1]), "the library is not the wheel's"
    assert int(told[1]) == sum(len(load(name, ROOT / "data" / "results")) for name in EXPERIMENTS)
    stored = [
        len(list((ROOT / "data" / name).glob("*.npz"))) for name in ("results/networks", "networks")
    ]
    assert told[2] == f"{stored[0]} {stored[1]}"
    assert "work inside a checkout of the book" in told[3]


@pytest.mark.long
@pytest.mark.parametrize("names", [CHOSEN], ids=",".join)  # together: the environment is made once
def test_chapters_run_alone(alone: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        notebook = install_cell.with_cell(
            nbformat.read(contents().notebook(name), 4), install_cell.source(GITHUB)
        )
        notebook.cells.append(WHERE)
        nbformat.write(notebook, folder / f"{name}.ipynb")
        where = run_all(alone, folder / f"{name}.ipynb")
        assert Path(where).is_relative_to(alone.parents[1]), "the library is not the wheel's"
        assert [path.name for path in folder.iterdir()] == [f"{name}.ipynb"]


COLAB = """\
import importlib.util, os, subprocess, sys, types
sys.modules["google.colab"] = types.ModuleType("google.colab")
here = os.getcwd()
os.chdir("/")
for _ in range(2):  # the second time everything is there
    exec(open(here + "/cell.py").read())
import ddmip_lib
from ddmip_book.experiments import load
from ddmip_book.experiments.store import results_folder
print(os.getcwd(), ddmip_lib.__file__, results_folder(), len(load("e5")), sep="\\n")
"""


def test_the_cell_for_colab_makes_everything_available(tmp_path: Path) -> None:
    """The cell itself, on a machine that takes itself for Colab; the repository is a folder
    here.
    """
    (tmp_path / "book").mkdir()
    project = sources(tmp_path / "book", "*.npz")
    shutil.copytree(
        ROOT / "book",
        project / "book",
        ignore=shutil.ignore_patterns("ddmip_book", "pyproject.toml"),
        dirs_exist_ok=True,
    )
    git = ["git", "-C", project, "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A", "-f"], ["commit", "-q", "-m", "all"]):
        called(*git, *words)
    python, packages = environment(tmp_path / "env")
    lend_dependencies(packages)
    cell = install_cell.source(GITHUB).replace("/content/", f"{tmp_path}/content/")
    (tmp_path / "cell.py").write_text(cell.replace(GITHUB["repository"]["url"], project.as_uri()))
    (tmp_path / "colab.py").write_text(COLAB)
    (tmp_path / "content").mkdir()
    # pip may fetch nothing here, not even what builds the library
    offline = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    told = called(python, "colab.py", cwd=tmp_path, env={**os.environ, **offline}).splitlines()
    fetched = tmp_path / "content" / "book"
    assert told[-4] == str(fetched / "book")
    assert Path(told[-3]).is_relative_to(tmp_path / "env")
    assert told[-2] == str(fetched / "data" / "results")
    assert int(told[-1]) > 0


def test_elsewhere_the_cell_does_nothing(tmp_path: Path) -> None:
    cell = install_cell.source(GITHUB)
    program = (
        f"import sys\nbefore = set(globals())\n{cell}\nprint(set(globals()) - before -"
        " {'before'})"
    )
    assert called(sys.executable, "-c", program, cwd=tmp_path).strip() == "set()"


def test_without_an_address_the_cell_says_what_to_do(tmp_path: Path) -> None:
    program = (
        "import sys, types\nsys.modules['google.colab'] = types.ModuleType('c')\n"
        + install_cell.source({})
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert "upload the project to /content/ddmip-book and run this again" in done.stderr


@pytest.mark.parametrize("settings", [{}, GITHUB], ids=["no address", "address"])
def test_the_cell_is_clean_and_short(settings: dict[str, dict[str, str]], tmp_path: Path) -> None:
    text = install_cell.source(settings)
    assert len(text.splitlines()) <= 20
    (tmp_path / "cell.py").write_text(text + "\n")
    ruff = [sys.executable, "-m", "ruff"]
    called(*ruff, "check", "--config", ROOT / "pyproject.toml", tmp_path / "cell.py")
    called(*ruff, "format", "--check", "--config", ROOT / "pyproject.toml", tmp_path / "cell.py")


def test_the_cell_comes_first_and_is_refreshed(tmp_path: Path) -> None:
    source = nbformat.read(contents().notebook("split"), 4)
    source.cells = [cell for cell in source.cells if cell.id != install_cell.ID]
    old = install_cell.with_cell(source, "old")
    new = install_cell.with_cell(old, install_cell.source({}))
    assert new == install_cell.with_cell(new, install_cell.source({}))
    assert [cell for cell in new.cells if cell.id != install_cell.ID] == source.cells
    code = [cell for cell in new.cells if cell.cell_type == "code"]
    assert code[0].id == install_cell.ID
    assert code[0].metadata.tags == ["remove-cell"]
    assert "parameters" in code[1].metadata.tags
    assert new.cells[0].source.startswith("# ")


def test_every_chapter_has_the_cell_of_this_configuration() -> None:
    text = install_cell.source(install_cell.config())
    stale = [
        path.name for path in chapters() if path.read_text() != install_cell.refreshed(path, text)
    ]
    assert not stale, "To fix this: python -m tools.install_cell"


def test_run_all_is_the_quick_profile() -> None:
    assert [path.name for path in chapters() if parameters(path, "quick") != {}] == []


def test_the_packages_ask_for_all_that_chapters_and_library_import() -> None:
    library, book = (
        tomllib.loads((ROOT / name).read_text())["project"]
        for name in ("pyproject.toml", "book/pyproject.toml")
    )
    extras = [
        line
        for name, lines in library["optional-dependencies"].items()
        if name != "test"
        for line in lines
    ]
    names = {
        install_cell.package_name(line)
        for line in [*library["dependencies"], *extras, *book["dependencies"]]
    }
    known = (
        {AS_IMPORTED.get(name, name) for name in names}
        | sys.stdlib_module_names
        | set(BROUGHT_ALONG)
    )
    packages = (ROOT / "ddmip_lib", ROOT / "book" / "ddmip_book")
    files = [
        path for package in packages for path in package.rglob("*.py") if "peers" not in path.parts
    ]
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}
    trees |= {path.name: code(path) for path in chapters()}
    foreign = {
        (name, package)
        for name, tree in trees.items()
        for node in imports(tree)
        for package in packages_of(node)
        if package not in known
    }
    assert foreign == set()


def test_binder_gets_library_kernel_and_interface() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [part["pip"] for part in listed if isinstance(part, dict)]
    assert pip[-2:] == ["-e .", "-e ./book"]
    assert "-r requirements.lock" in pip
    pinned = {line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    assert {"ipykernel", "jupyterlab", "torch", "pyscipopt"} <= pinned
