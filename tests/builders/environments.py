"""New environments that see packages installed here, but neither the checkout nor its editable
installation.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.builders.places import ROOT

LIBRARY = (
    "ddmip_lib",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
)
BOOK = ("book/ddmip_book", "book/pyproject.toml", "data", "requirements.lock")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def called(*command: str | Path, **options: object) -> str:
    """What a command printed, which must succeed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def sources(folder: Path, *left_out: str, of: tuple[str, ...] = LIBRARY + BOOK) -> Path:
    """A copy of what packages are built from: building leaves files behind, and must not find old
    ones.
    """
    for name in of:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", ".*_cache", *left_out)
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def wheel(source: Path, into: Path) -> Path:
    """The wheel of a folder or of a source distribution, built without fetching anything."""
    into.mkdir(parents=True)
    called(
        *PIP,
        "wheel",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--wheel-dir",
        into,
        source,
    )
    (built,) = into.glob("*.whl")
    return built


def install(python: Path, *wheels: Path) -> None:
    called(*PIP, "--python", python, "install", "--quiet", "--no-deps", "--no-index", *wheels)


def environment(folder: Path) -> tuple[Path, Path]:
    """A new environment and the folder of its packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    return python, Path(
        called(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )


def lend_dependencies(packages: Path, *names: str) -> None:
    """Links to what is installed here, so that pip has nothing to fetch: everything but the
    project's own packages, or these alone.
    """
    ours = Path(next(path for path in sys.path if path.endswith("site-packages")))
    lent = packages.parent / "lent"
    lent.mkdir()
    wanted = {entry for name in names for entry in entries(name)}
    for path in ours.iterdir():
        if path.name in wanted if names else "ddmip" not in path.name:
            (lent / path.name).symlink_to(path)
    (packages / "lent.pth").write_text(f"{lent}\n")


def entries(name: str) -> set[str]:
    """What an installed distribution put into the folder of packages."""
    return {
        file.parts[0]
        for file in distribution(name).files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }


def closure(*names: str) -> set[str]:
    """These distributions and all that they bring along, as far as it is installed here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:  # such as what a CUDA build of torch brings
            continue
        found.add(name)
        needed = (
            wish
            for wish in map(Requirement, lines)
            if wish.marker is None or wish.marker.evaluate({"extra": ""})
        )
        waiting += [wish.name for wish in needed]
    return found
