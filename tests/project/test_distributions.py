"""The library as users get it: source distribution and wheel hold it alone, and it runs with its
requirements alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from tests.builders.environments import (
    LIBRARY,
    called,
    closure,
    environment,
    install,
    lend_dependencies,
    sources,
    wheel,
)
from tests.builders.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LARGEST = 2 * 2**20  # bytes of each archive
BUILD = "import sys, setuptools.build_meta as build; build.build_sdist(sys.argv[1])"
SURROUNDINGS = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it."""
    base = tmp_path_factory.mktemp("archives")
    (base / "checkout").mkdir()
    # the other folders of the project are there too, and must not get in
    sources(
        base / "checkout",
        "networks",
        of=(*LIBRARY, "book/ddmip_book", "experiments", "tools", "tests/builders", "data"),
    )
    called(sys.executable, "-c", BUILD, base, cwd=base / "checkout")
    (packed,) = base.glob("*.tar.gz")
    return packed, wheel(packed, base / "wheel")


@pytest.fixture(scope="module")
def user(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the wheel, what the wheel requires, and nothing else."""
    python, packages = environment(tmp_path_factory.mktemp("user") / "env")
    install(python, archives[1])
    lend_dependencies(
        packages, *closure(*(Requirement(line).name for line in PROJECT["dependencies"]))
    )
    return python


def library_files() -> set[str]:
    listed = called("git", "ls-files", "ddmip_lib", cwd=ROOT).splitlines()
    new = called(
        "git", "ls-files", "--others", "--exclude-standard", "ddmip_lib", cwd=ROOT
    ).splitlines()
    return {name for name in {*listed, *new} if (ROOT / name).is_file()}


def test_the_wheel_holds_the_library_alone(archives: tuple[Path, Path]) -> None:
    built = archives[1]
    assert built.stat().st_size <= LARGEST
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == library_files()
    assert any(name.endswith("licenses/LICENSE") for name in about)


def test_the_source_distribution_holds_the_library_and_what_describes_it(
    archives: tuple[Path, Path],
) -> None:
    packed = archives[0]
    assert packed.stat().st_size <= LARGEST
    with tarfile.open(packed) as archive:
        names = {
            member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()
        }
    written = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert names - written == library_files() | set(LIBRARY) - {"ddmip_lib"}


def test_the_metadata_are_valid_and_say_what_pyproject_says(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = Metadata.from_email(archive.read(name), validate=True)
    assert (metadata.name, str(metadata.version)) == (PROJECT["name"], PROJECT["version"])
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text()
    core = {str(wish) for wish in metadata.requires_dist or [] if wish.marker is None}
    assert core == {str(Requirement(line)) for line in PROJECT["dependencies"]}
    assert set(metadata.provides_extra or []) == set(PROJECT["optional-dependencies"])


def readme_example() -> str:
    first, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return first.replace("n=50", "n=12")  # fewer samples, which take less time


USE = """
from importlib.util import find_spec
from pathlib import Path
import ddmip_lib
from ddmip_lib import solve
from ddmip_lib.problems import hand_sized

assert problem.verify(solution).feasible
found = solve(hand_sized())
assert (found.status, round(found.objective, 6)) == ("optimal", 0.5), found
left_out = ("ddmip_book", "matplotlib", "pyscipopt_ml", "distributed", "sklearn", "pandas", "pytest")
print([name for name in left_out if find_spec(name)])
print(ddmip_lib.__version__, ddmip_lib.__file__, sep="\\n")
"""


def test_the_wheel_solves_with_what_it_requires_and_nothing_else(
    user: Path, tmp_path: Path
) -> None:
    """README's example and `solve`, where neither the checkout nor the book's package nor any extra
    can be imported.
    """
    (tmp_path / "program.py").write_text(readme_example() + USE)
    *_, there, version, file = called(
        user, "program.py", cwd=tmp_path, env=SURROUNDINGS
    ).splitlines()
    assert there == "[]"
    assert version == PROJECT["version"]
    assert Path(file).is_relative_to(user.parents[1]), "the library is not the wheel's"


WITHOUT_EXTRAS = """
from types import SimpleNamespace
from ddmip_lib import BigM
from ddmip_lib.predictors import from_sklearn
from ddmip_lib.problems import hand_sized

assert BigM(ranges="crown").solve(hand_sized()).status == "optimal"
Fitted = type("LinearRegression", (SimpleNamespace,), {})
print(from_sklearn(Fitted(coef_=[2.0, -1.0], intercept_=0.5)))
"""


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("import ddmip_lib.plots", "plots"),
        ("from ddmip_lib import plots", "plots"),
        ("from ddmip_lib import BigM; BigM().solve(hand_sized())", "paper"),
        ("from ddmip_lib import solve; solve(hand_sized(), client=object())", "cluster"),
        ("from ddmip_lib import solve; solve(hand_sized()).to_frame()", "frames"),
    ],
)
def test_what_an_extra_brings_is_missed_by_name(
    user: Path, tmp_path: Path, call: str, extra: str
) -> None:
    program = f"from ddmip_lib.problems import hand_sized\n{call}"
    done = subprocess.run(
        [user, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=SURROUNDINGS
    )
    assert re.search(
        rf"^ImportError: .*: pip install 'ddmip-lib\[{extra}\]'\.$", done.stderr, re.MULTILINE
    ), done.stderr
    assert extra in PROJECT["optional-dependencies"]


def test_what_needs_no_extra_runs_without(user: Path, tmp_path: Path) -> None:
    """The exact model with CROWN's ranges is the library's own, and reading estimators imports
    nothing of theirs.
    """
    assert "Linear" in called(user, "-c", WITHOUT_EXTRAS, cwd=tmp_path, env=SURROUNDINGS)
