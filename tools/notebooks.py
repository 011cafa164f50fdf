"""Execute the chapters that are notebooks, each through papermill, into _build/executed/<profile>/.

    python -m tools.notebooks [--profile full] [--force | --seconds | --remember] [chapter ...]

Some run at once, those first that usually take longest. An executed notebook stores the key of all
that determines it; one whose key still fits is not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import papermill
import yaml

from ddmip_book.data import load_trees, load_water
from ddmip_book.headline import METADATA_KEY
from tools.contents import Contents, ContentsError, name_of

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
TOOLS_FROM = ROOT
AT_ONCE = min(os.cpu_count() or 1, 4)
"""Chapters that run at the same time; each kernel takes one core and half a gigabyte."""
MOST_SECONDS = 35
"""What a chapter may take of one core in its quick profile."""
PROFILES = ("full", "quick")
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


def numbered_chapters() -> list[Path]:
    """The chapters of the book and the reports of the study, without user guide and appendices."""
    return [path for path in chapters() if path.stem[0].isdigit()]


def chosen(names: list[str]) -> list[Path]:
    """The notebooks of these names; all of them if none is given."""
    known = contents()
    return [known.notebook(name) for name in names] or chapters()


def profiles() -> dict[str, dict[str, Any]]:
    """The full profile's parameters by chapter; the quick values are those in the notebooks
    themselves.
    """
    return yaml.safe_load((ROOT / "book" / "profiles.yml").read_text()) or {}


def parameters(path: Path, profile: str) -> dict[str, Any]:
    """What the profile injects into a chapter; an unknown name is an error (papermill would only
    log it).
    """
    known = papermill.inspect_notebook(str(path))
    injected = profiles().get(name_of(path), {}) if profile == "full" else {}
    if unknown := sorted(set(injected) - set(known)):
        raise ChapterError(
            f"book/profiles.yml sets {', '.join(unknown)} for {name_of(path)}, whose parameters"
            f" cell holds {', '.join(known) or 'nothing'}. To fix this, use the names of that cell."
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
        tracked += [
            ROOT / "book" / "claims.yml",
            ROOT / "tests" / "headline.yml",
            *ROOT.glob("book/*.ipynb"),
        ]
    for file in [path, ROOT / "requirements.lock", *sorted(tracked)]:
        digest.update(
            f"{file.relative_to(ROOT)}\n".encode() + hashlib.sha256(file.read_bytes()).digest()
        )
    facts = [profile, parameters(path, profile), data_identity(), sys.version_info[:2]]
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()


def executed_path(path: Path, profile: str) -> Path:
    return BUILD / "executed" / profile / path.name


def is_current(path: Path, profile: str) -> bool:
    """Whether the executed notebook is there and its key still fits."""
    target = executed_path(path, profile)
    return target.exists() and noted(target).get("key") == key(path, profile)


def papermill_options(path: Path, profile: str) -> dict[str, Any]:
    """What papermill is called with for this chapter, beside what holds for every notebook."""
    return {"parameters": parameters(path, profile), "cwd": str(path.parent)}


class Execution:
    """A chapter on its way through papermill, in a process of its own; one that fails or is stopped
    leaves nothing.
    """

    def __init__(self, path: Path, profile: str) -> None:
        self.path = path
        self.target = executed_path(path, profile)
        self.start = time.perf_counter()
        self.about = {"key": key(path, profile), "profile": profile, "data_source": data_source()}
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.unlink(missing_ok=True)
        self.partial = self.target.with_name(f".{path.stem}.partial.ipynb")
        self.log = self.partial.with_suffix(".log")
        options = json.dumps(papermill_options(path, profile))
        command = ["-m", "tools.run_notebook", str(path), str(self.partial), options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=TOOLS_FROM,
                env=kernel_environment(),
                stdout=log,
                stderr=log,
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def result(self) -> Path:
        """Wait for the end; write the result in one step."""
        try:
            if code := self.process.wait():
                raise ChapterError(
                    f"{self.path.stem}: {self.log.read_text() or f'its process ended with {code}.'}"
                )
            notebook = nbformat.read(self.partial, 4)
            notebook.metadata["ddmip"].update(self.about)
            nbformat.write(notebook, self.partial)
            self.partial.replace(self.target)
        finally:
            self.stop()
        return self.target

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.partial.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)


def kernel_environment() -> dict[str, str]:
    """One thread a kernel; folders by their whole path, since kernels start in book/."""
    folders = {
        name: os.environ[name]
        for name in ("DDMIP_DATA_DIR", "DDMIP_CACHE_DIR")
        if os.environ.get(name)
    }
    absolute = {
        name: os.path.abspath(os.path.expanduser(folder)) for name, folder in folders.items()
    }
    return {**os.environ, **KERNEL_ENVIRONMENT, **absolute}


def execute(path: Path, profile: str = "quick") -> Path:
    """Run one chapter."""
    return Execution(path, profile).result()


def headline(executed: Path) -> dict[str, int | float]:
    """The numbers that the chapter recorded by `record_headline`."""
    numbers: dict[str, int | float] = {}
    for cell in nbformat.read(executed, 4).cells:
        for output in cell.get("outputs", []):
            numbers.update(output.get("metadata", {}).get(METADATA_KEY, {}))
    return numbers


def noted(executed: Path) -> dict[str, Any]:
    """What is noted in an executed notebook: its key, its profile, its data, the processor seconds
    it took.
    """
    return nbformat.read(executed, 4).metadata.get("ddmip", {})


def usual_seconds() -> dict[str, float]:
    """Processor seconds of the chapters by name without number, as last written by --remember."""
    return yaml.safe_load((ROOT / "book" / "seconds.yml").read_text()) or {}


def longest_first(paths: list[Path]) -> list[Path]:
    """So that no core waits at the end for a long chapter begun last; one without a time may be
    long.
    """
    usual = usual_seconds()
    return sorted(paths, key=lambda path: -usual.get(name_of(path), math.inf))


def bring_up_to_date(paths: list[Path], profile: str, force: bool = False) -> None:
    """Execute those of the chapters whose result is missing or stale, some at once; the first that
    fails ends all.
    """
    waiting = longest_first([path for path in paths if force or not is_current(path, profile)])
    print(
        "".join(f"{path.stem}: up to date\n" for path in paths if path not in waiting),
        end="",
        flush=True,
    )
    running: list[Execution] = []
    before = signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # whoever ends this ends its chapters
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(Execution(waiting.pop(0), profile))
            for chapter in [chapter for chapter in running if chapter.ended]:
                running.remove(chapter)
                chapter.result()
                print(
                    f"{chapter.path.stem}: executed in {time.perf_counter() - chapter.start:.1f} s",
                    flush=True,
                )
            time.sleep(0.1)
    finally:
        for chapter in running:
            chapter.stop()
        signal.signal(signal.SIGTERM, before)


def report_seconds(paths: list[Path], profile: str) -> dict[str, float]:
    """Print the processor seconds of the executed chapters beside the usual ones, longest first;
    returns them.
    """
    usual = usual_seconds()
    found = {}
    for path in paths:
        if (executed := executed_path(path, profile)).exists():
            found[name_of(path)] = noted(executed)["seconds"]
    for chapter, seconds in sorted(found.items(), key=lambda each: -each[1]):
        before = f" (usually {usual[chapter]:.0f})" if chapter in usual else ""
        remark = f", more than {MOST_SECONDS} s: shorten it" if seconds > MOST_SECONDS else ""
        print(f"{chapter:24} {seconds:5.1f} s{before}{remark}")
    print(f"{'all':24} {sum(found.values()):5.0f} s of one core")
    return found


def remember(seconds: dict[str, float]) -> None:
    """Write what the chapters usually take, which only decides their order."""
    lines = [
        f"{chapter}: {took:.0f}\n"
        for chapter, took in sorted(seconds.items(), key=lambda each: -each[1])
    ]
    header = (
        "# Processor seconds of the chapters, by which they are started; `python -m tools.notebooks"
        " --remember`\n"
    )
    (ROOT / "book" / "seconds.yml").write_text(header + "".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters.")
    parser.add_argument(
        "chapters", nargs="*", help="names without number; all of them if none is given"
    )
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--force", action="store_true", help="execute even what is up to date")
    parser.add_argument(
        "--seconds", action="store_true", help="execute nothing, print what the chapters took"
    )
    parser.add_argument(
        "--remember", action="store_true", help="the same, and write it to book/seconds.yml"
    )
    arguments = parser.parse_args()
    try:
        paths = chosen(arguments.chapters)
        if arguments.seconds or arguments.remember:
            took = report_seconds(paths, arguments.profile)
            if arguments.remember:
                remember({**usual_seconds(), **took})
        else:
            bring_up_to_date(paths, arguments.profile, arguments.force)
    except (ChapterError, ContentsError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
