"""Unit tests of the library with the lowest and the newest release of each requirement: `make
test-versions`.

For each Python there are two environments, made one at a time in a temporary folder and deleted
after use. Each is resolved from `pyproject.toml` with all extras, for the lowest or the newest
releases that have a wheel for that Python; then the library's unit tests run there, in a copy of
the project. What came out is a row of `tests/versions.yml`, from which `book/versions.md` is
written. A row is left alone as long as code, tests and requirements are those that it was made
with, so a run that was interrupted goes on where it was. A Python that is not installed is resolved
and not tried.

    python -m tools.test_versions --only 3.11-lowest --only 3.13-newest
    python -m tools.test_versions --python /opt/python3.13/bin/python3 --workers 4
    python -m tools.test_versions --page    # writes the page alone
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "tests" / "versions.yml"
PAGE = ROOT / "book" / "versions.md"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ENDS = ("lowest", "newest")
RESOLUTION = {"lowest": "lowest-direct", "newest": "highest"}
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NOT_RUN = ("tests/unit/ddmip_book", "tests/unit/experiments")
TESTS = ("-m", "not long", "tests/unit", *(f"--ignore={folder}" for folder in NOT_RUN))
DECIDES = (
    "ddmip_lib",
    "book/ddmip_book/data",
    "book/ddmip_book/networks",
    "book/ddmip_book/problems",
    "tests/unit",
    "tests/builders",
    "tests/conftest.py",
    "pyproject.toml",
)
"""What a row is made with, apart from `NOT_RUN`."""


@dataclass
class Row:
    """What one environment gave; without `outcome` it was resolved only."""

    python: str
    end: str
    made_with: str
    versions: dict[str, str]
    system: str = ""
    day: str = ""
    outcome: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    skipped_because: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.python}-{self.end}"

    @property
    def passed(self) -> bool:
        return bool(self.outcome.get("passed")) and not self.failed


def project() -> dict[str, list[str]]:
    """The library's requirements, by extra; those that `import ddmip_lib; solve(...)` needs under
    the name "core".
    """
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"core": table["dependencies"], **table["optional-dependencies"]}


NOT_TRIED = ("onnx", "pyomo")
"""Extras that read other formats: their tests are skipped where they are not installed."""


def requirements() -> dict[str, Requirement]:
    """Each package that the library or an extra for users asks for, but those in `NOT_TRIED`."""
    left_out = {"all", "test", *NOT_TRIED}
    lines = [line for name, lines in project().items() if name not in left_out for line in lines]
    return {wish.name: wish for wish in map(Requirement, lines)}


def load() -> dict[str, Row]:
    rows = yaml.safe_load(ROWS.read_text()) if ROWS.exists() else []
    return {row.name: row for row in (Row(**entry) for entry in rows)}


def store(rows: dict[str, Row]) -> None:
    """Write rows and page, the rows in the order of the Pythons."""
    ordered = [
        rows[name] for python in PYTHONS for end in ENDS if (name := f"{python}-{end}") in rows
    ]
    ROWS.write_text(
        "# Written by `make test-versions`; do not edit by hand.\n"
        + yaml.safe_dump([asdict(row) for row in ordered], sort_keys=False, width=120)
    )
    PAGE.write_text(page(ordered))


def tracked(*folders: str) -> list[str]:
    """Files of the project, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in set(listed.splitlines()) if (ROOT / name).exists())


def made_with() -> str:
    """A digest of the code, tests and requirements that decide what a row says."""
    digest = hashlib.sha256()
    for name in tracked(*DECIDES):
        if not name.startswith(NOT_RUN):
            content = (
                (ROOT / name).read_bytes() if name != "pyproject.toml" else repr(project()).encode()
            )
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def version_of(interpreter: str | Path) -> str:
    """Such as "3.12"; empty where it does not run."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([str(interpreter), "-c", program], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def interpreters(named: Sequence[str] = ()) -> dict[str, str]:
    """An interpreter for each Python that is here: those named, on the path, of pyenv."""
    candidates = [*named, *(f"python{python}" for python in PYTHONS)]
    candidates += sorted(
        map(str, Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python")), reverse=True
    )
    found: dict[str, str] = {}
    for candidate in candidates:
        found.setdefault(version_of(candidate), candidate)
    return {python: found[python] for python in PYTHONS if python in found}


def surroundings(cache: Path) -> dict[str, str]:
    """The index and the certificates that pip was told to use, for uv, which does not read pip's
    settings.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    for theirs, name, setting in (
        ("UV_DEFAULT_INDEX", "PIP_INDEX_URL", "index-url"),
        ("SSL_CERT_FILE", "PIP_CERT", "cert"),
    ):
        command = [sys.executable, "-m", "pip", "config", "get", f"global.{setting}"]
        told = (
            os.environ.get(name)
            or subprocess.run(command, capture_output=True, text=True).stdout.strip()
        )
        if told:
            kept.setdefault(theirs, told)
    return {**kept, "UV_CACHE_DIR": str(cache), "DDMIP_CACHE_DIR": str(cache.parent / "networks")}


def reachable(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/", timeout=5):
            return True
    except OSError:
        return False


class Failure(RuntimeError):
    """A command that had to succeed did not."""


COPIED = (
    "ddmip_lib",
    "book/ddmip_book",
    "experiments",
    "data",
    "tests",
    "tools",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
"""What the tests need of the project."""


class Trial:
    """One environment after the other, in a temporary folder."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.workers = workers
        beside = Path(sys.executable).parent / "uv"
        self.uv = str(beside) if beside.exists() else "uv"
        self.surroundings = surroundings(folder / "cache")
        self.backend = ["--torch-backend", "cpu"] if reachable(CPU_INDEX) else []

    def _uv(self, *words: str) -> str:
        done = subprocess.run(
            [self.uv, *words], cwd=ROOT, env=self.surroundings, capture_output=True, text=True
        )
        if done.returncode:
            raise Failure(f"uv {' '.join(words[:2])}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def resolve(self, python: str, end: str) -> str:
        """Exact versions of all that is installed for this end of the requirements."""
        asked = [
            "--extra",
            "all",
            "--extra",
            "test",
            "--no-emit-package",
            "ddmip-lib",
            "--only-binary",
            ":all:",
        ]
        told = [
            "--no-header",
            "--no-annotate",
            "--quiet",
            "--python-version",
            python,
            *self.backend,
        ]
        return self._uv(
            "pip", "compile", "--resolution", RESOLUTION[end], *asked, *told, "pyproject.toml"
        )

    def run(self, row: Row, interpreter: str, pins: str) -> None:
        """Make the environment, run the tests in a copy of the project, and write into the row what
        came out.
        """
        env = self.folder / "env"
        copy = self.folder / "project"
        report = self.folder / "report.xml"
        for name in tracked(*COPIED):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
        requirements = self.folder / "pins.txt"
        requirements.write_text(pins)
        python = str(env / "bin" / "python")
        install = ["pip", "install", "--quiet", "--python", python, "--no-deps"]
        try:
            self._uv("venv", "--quiet", "--python", interpreter, str(env))
            self._uv(*install, *self.backend, "-r", str(requirements))
            self._uv(*install, str(copy))
            options = ["-q", "-n", str(self.workers), "-p", "no:cacheprovider"]
            pytest = ["nice", python, "-m", "pytest", *options, f"--junitxml={report}", *TESTS]
            subprocess.run(pytest, cwd=copy, env=self.surroundings)
            if not report.exists():
                raise Failure("pytest wrote no report (its output is above)")
            row.outcome, row.failed, row.skipped_because = read_report(report.read_text())
            row.system = f"{platform.system()} {platform.machine()}"
            row.day = date.today().isoformat()
        finally:
            for left in (env, copy):
                shutil.rmtree(left, ignore_errors=True)
            report.unlink(missing_ok=True)


def read_report(xml: str) -> tuple[dict[str, int], list[str], list[str]]:
    """How many tests passed and were skipped, which failed, and why tests were skipped.

    >>> read_report(
    ...     '<s><testcase name="a"/><testcase name="b"><skipped message="no c"/></testcase></s>'
    ... )
    ({'passed': 1, 'skipped': 1}, [], ['no c'])
    """
    cases = list(ET.fromstring(xml).iter("testcase"))
    failed = sorted(
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    )
    skips = [skip for case in cases if (skip := case.find("skipped")) is not None]
    outcome = {"passed": len(cases) - len(failed) - len(skips), "skipped": len(skips)}
    return outcome, failed, sorted({str(skip.get("message")) for skip in skips})


def versions_in(pins: str) -> dict[str, str]:
    """The pinned version of each package that the library asks for.

    >>> versions_in("numpy==2.0.0\\ntorch==2.6.0+cpu\\nsympy==1.13")
    {'numpy': '2.0.0', 'torch': '2.6.0'}
    """
    found = dict(re.findall(r"^([\w.-]+)==([^\s+;]+)", pins, re.MULTILINE))
    return {name: found[name] for name in sorted(requirements()) if name in found}


# Why a requirement does not reach further back, where it could: what failed, and with which
# release.
FLOORS = {
    "distributed": (
        "2025.4 raises a bare `Exception` where a client ended, which cannot be"
        " distinguished from others."
    ),
    "highspy": (
        "1.9 does not hand out the multipliers that prove a linear program to be empty"
        " (`getDualRay`)."
    ),
    "pyscipopt": (
        "5.6 does not return the coefficients of SCIP's special linear constraints (`getConsVals`)."
    ),
}
HEAD = (
    "# Tested versions\n\nThe library requires ranges of versions.\nEach entry below is an"
    " environment with the lowest or the newest release of each requirement, and what the unit"
    " tests of the library gave there; some were resolved and not tried.\n`make test-versions`"
    " creates these environments, one at a time, and writes this page from"
    " `tests/versions.yml`.\nThe book itself is built with the exact versions of"
    " `requirements.lock`.\n\n*Lowest* and *newest* mean: of the releases that have a wheel for"
    " that Python and fit together.\nNewer releases than these are not refused; they are not"
    " tried.\n"
)


def table(head: Sequence[str], lines: Iterator[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def page(rows: Sequence[Row]) -> str:
    """The page of the book: what was tried, with which versions, and why the ranges end where they
    do.
    """
    parts = [HEAD, "## Test results\n"]
    parts.append(
        table(
            ["Python", "releases", "unit tests"],
            ([row.python, row.end, outcome(row)] for row in rows),
        )
    )
    parts.append("\n## Package versions of each environment\n")
    parts.append(releases(rows))
    parts.append("\n## Lowest versions\n")
    lowest = (
        [wish.name, _lowest(wish), FLOORS.get(wish.name, "")] for wish in requirements().values()
    )
    parts.append(table(["package", "from version", "reason"], lowest))
    return "\n".join(parts) + "\n"


def outcome(row: Row) -> str:
    if not row.outcome:
        return "not tried, resolved only"
    failed = f", {len(row.failed)} failed" * bool(row.failed)
    return (
        f"{row.outcome['passed']} passed, {row.outcome['skipped']} skipped{failed} ({row.system},"
        f" {row.day})"
    )


def _lowest(wish: Requirement) -> str:
    return str(wish.specifier).removeprefix(">=")


def releases(rows: Sequence[Row]) -> str:
    """A column for each environment; what the library needs, then the extras."""
    core = [Requirement(text).name for text in project()["core"]]
    extras = [name for row in rows for name in row.versions if name not in core]
    head = ["package", *(f"{row.python} {row.end}" for row in rows)]
    names = dict.fromkeys([*core, *extras])
    return table(head, (_line_of(name, rows) for name in names))


def _line_of(name: str, rows: Sequence[Row]) -> list[str]:
    return [name, *(row.versions.get(name, "") for row in rows)]


def arguments_of(environments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Run the unit tests with the lowest and the newest requirements."
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=environments,
        help="this environment alone (may be repeated)",
    )
    parser.add_argument(
        "--python", action="append", default=[], help="an interpreter to use (may be repeated)"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that run tests")
    parser.add_argument(
        "--again", action="store_true", help="try also what was tried with the same code"
    )
    parser.add_argument(
        "--page", action="store_true", help="write the page from the rows, and try nothing"
    )
    return parser.parse_args()


def is_done(row: Row | None, has_python: bool) -> bool:
    """Whether an environment needs no other trial with today's code and requirements."""
    if row is None or row.made_with != made_with():
        return False
    return row.passed or (not row.outcome and not has_python)


def try_environment(trial: Trial, name: str, interpreter: str | None) -> bool:
    """Try one environment and store its row; return whether its tests passed."""
    python, end = name.split("-")
    print(f"{name}: {interpreter or 'no such Python here, resolved only'}", flush=True)
    try:
        pins = trial.resolve(python, end)
        row = Row(python, end, made_with(), versions_in(pins))
        if interpreter is not None:
            trial.run(row, interpreter, pins)
    except Failure as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return False
    store(load() | {name: row})  # another run may have stored rows meanwhile
    print(f"{name}: {row.versions} {row.outcome} {row.failed}", flush=True)
    return not row.failed


def main() -> int:
    environments = [f"{python}-{end}" for python in PYTHONS for end in ENDS]
    arguments = arguments_of(environments)
    rows = load()
    if arguments.page:
        store(rows)
        return 0
    here = interpreters(arguments.python)
    passed = True
    with tempfile.TemporaryDirectory(prefix="ddmip-versions-") as folder:
        trial = Trial(Path(folder), arguments.workers)
        for name in arguments.only or environments:
            python = name.split("-")[0]
            if is_done(rows.get(name), python in here) and not arguments.again:
                print(f"{name}: done before, with the same code and requirements")
                continue
            passed = try_environment(trial, name, here.get(python)) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
