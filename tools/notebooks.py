"""Execute the chapters that are notebooks, each through papermill, into _build/executed/<profile>/.

    python -m tools.notebooks [--profile full] [--force] [chapter ...]

An executed notebook stores the key of all that determines it; one whose key still fits is not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import papermill
import yaml
from ddmip_book.chapters import Contents, ContentsError, name_of
from ddmip_book.headline import METADATA_KEY
from papermill.exceptions import PapermillExecutionError

from ddmip_lib.data import load_trees, load_water

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
CELL_TIMEOUT = {"quick": 300, "full": 6 * 3600}
KERNEL_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TQDM_DISABLE": "1"}


class ChapterError(RuntimeError):
    """A chapter failed; the message holds the failing cell and its traceback."""


def contents() -> Contents:
    """Names, files, numbers and addresses of all pages."""
    return Contents.read(ROOT)


def toc_files() -> list[str]:
    """Every page of _toc.yml, in reading order, without suffix."""
    return [page.file for page in contents().pages]


def book_title() -> str:
    return yaml.safe_load((ROOT / "_config.yml").read_text())["title"]


def chapters() -> list[Path]:
    """The notebooks of _toc.yml, in reading order."""
    paths = [ROOT / f"{name}.ipynb" for name in toc_files()]
    return [path for path in paths if path.exists()]


def chosen(names: list[str]) -> list[Path]:
    """The notebooks of these names; all of them if none is given."""
    known = contents()
    return [known.notebook(name) for name in names] or chapters()


def profiles() -> dict[str, dict[str, Any]]:
    """The full profile's parameters by chapter; the quick values are those in the notebooks themselves."""
    return yaml.safe_load((ROOT / "book" / "profiles.yml").read_text()) or {}


def parameters(path: Path, profile: str) -> dict[str, Any]:
    """What the profile injects into a chapter; an unknown name is an error (papermill would only log it)."""
    known = papermill.inspect_notebook(str(path))
    injected = profiles().get(name_of(path), {}) if profile == "full" else {}
    if unknown := sorted(set(injected) - set(known)):
        raise ChapterError(
            f"book/profiles.yml sets {', '.join(unknown)} for {name_of(path)}, whose parameters cell holds "
            f"{', '.join(known) or 'nothing'}. To fix this, use the names of that cell."
        )
    return injected


def data_identity() -> dict[str, list[str]]:
    """Source and hash of the data that the library finds here."""
    found = {"water": load_water(), "trees": next(iter(load_trees().values()))}
    return {name: [data.source, data.sha256] for name, data in found.items()}


def data_source() -> str:
    """``real`` if every data file is the real one, else ``stand-in``."""
    return "real" if {source for source, _ in data_identity().values()} == {"real"} else "stand-in"


def key(path: Path, profile: str) -> str:
    """sha256 over everything that determines the executed notebook."""
    digest = hashlib.sha256()
    code = [*ROOT.glob("ddmip_lib/**/*.py"), *ROOT.glob("book/ddmip_book/**/*.py")]
    library = (p for p in code if "checks" not in p.parts)  # pages only name the checks
    tracked = [*library, *(p for p in ROOT.glob("data/**/*") if p.is_file())]
    # the ledger reads the boxes of all chapters and the rules that check them
    if "claims.yml" in path.read_text():
        tracked += [ROOT / "book" / "claims.yml", ROOT / "tests" / "headline.yml", *ROOT.glob("book/*.ipynb")]
    for file in [path, ROOT / "requirements.lock", *sorted(tracked)]:
        digest.update(f"{file.relative_to(ROOT)}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    facts = [profile, parameters(path, profile), data_identity(), sys.version_info[:2]]
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()


def executed_path(path: Path, profile: str) -> Path:
    return BUILD / "executed" / profile / path.name


def is_current(path: Path, profile: str) -> bool:
    """Whether the executed notebook is there and its key still fits."""
    target = executed_path(path, profile)
    return target.exists() and nbformat.read(target, 4).metadata.get("ddmip", {}).get("key") == key(path, profile)


def execute(path: Path, profile: str = "quick") -> Path:
    """Run one chapter and write the result in one step; a failing chapter leaves nothing behind."""
    target = executed_path(path, profile)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    partial = target.with_name(f".{path.stem}.partial.ipynb")
    about = {"key": key(path, profile), "profile": profile, "data_source": data_source()}
    logging.getLogger("papermill.translators").setLevel(logging.ERROR)
    os.environ.update(KERNEL_ENVIRONMENT)
    for folder in filter(os.environ.get, ("DDMIP_DATA_DIR", "DDMIP_CACHE_DIR")):  # the kernel starts in book/
        os.environ[folder] = os.path.abspath(os.path.expanduser(os.environ[folder]))
    try:
        papermill.execute_notebook(
            str(path),
            str(partial),
            parameters=parameters(path, profile),
            kernel_name="python3",
            cwd=str(path.parent),
            progress_bar=False,
            execution_timeout=CELL_TIMEOUT[profile],
        )
        notebook = nbformat.read(partial, 4)
        notebook.metadata["ddmip"] = about
        nbformat.write(notebook, partial)
        partial.replace(target)
    except PapermillExecutionError as error:
        raise ChapterError(
            f"{path.stem}: cell {error.cell_index} failed.\n\n{error.source}\n\n" + "\n".join(error.traceback)
        ) from None
    except TimeoutError as error:
        raise ChapterError(f"{path.stem}: a cell ran longer than {CELL_TIMEOUT[profile]} s.\n\n{error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return target


def headline(executed: Path) -> dict[str, int | float]:
    """The numbers that the chapter recorded by `record_headline`."""
    numbers: dict[str, int | float] = {}
    for cell in nbformat.read(executed, 4).cells:
        for output in cell.get("outputs", []):
            numbers.update(output.get("metadata", {}).get(METADATA_KEY, {}))
    return numbers


def bring_up_to_date(paths: list[Path], profile: str, force: bool = False) -> None:
    """Execute those of the chapters whose result is missing or stale."""
    for path in paths:
        if not force and is_current(path, profile):
            print(f"{path.stem}: up to date")
            continue
        start = time.perf_counter()
        execute(path, profile)
        print(f"{path.stem}: executed in {time.perf_counter() - start:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters.")
    parser.add_argument("chapters", nargs="*", help="names without number; all of them if none is given")
    parser.add_argument("--profile", choices=sorted(CELL_TIMEOUT), default="quick")
    parser.add_argument("--force", action="store_true", help="execute even what is up to date")
    arguments = parser.parse_args()
    try:
        bring_up_to_date(chosen(arguments.chapters), arguments.profile, arguments.force)
    except (ChapterError, ContentsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
