"""What the processes of a certificate run: this library, wherever it lies, and nothing from the
current folder.
"""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddmip_lib import Solution, certify
from ddmip_lib.workers import processes
from tests.builders.blocks import own
from tests.builders.clocks import LONG
from tests.builders.places import ROOT

HOSTILE = "import pathlib; pathlib.Path({marker!r}).touch()\nraise SystemExit(1)\n"
NAMES = ("pickle", "torch", "random", "numpy", "ddmip_lib", "sitecustomize", "importlib")


@pytest.fixture
def hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: modules of well-known names, which leave a marker where they are run."""
    folder = tmp_path / "current"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE.format(marker=str(tmp_path / f"{name} was run")))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "path", [None, os.pathsep.join(("", ".", f"..{os.sep}current")), str(ROOT)]
)
def test_nothing_is_run_from_the_current_folder(
    hostile_folder: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    certifying: Any = importlib.import_module("ddmip_lib.certificates.certify")
    start: Callable[[], Any] = processes._start
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(processes, "_start", lambda: started.append(start()) or started[-1])
    monkeypatch.setattr(certifying, "SECONDS_IN_THIS_PROCESS", 0.0)  # at once in processes
    monkeypatch.setattr(certifying, "SECONDS_TO_START_PROCESSES", 0.0)
    instance = own(1, "regression")
    found = certify(
        instance.problem(), Solution("stopped", "none"), [0.4], time_limit=LONG, workers=2
    )
    assert started
    assert found.details["certificate"].closed.all()
    assert found.bound >= instance.optimum() - 1e-9
    assert list(hostile_folder.parent.iterdir()) == [hostile_folder]


def test_the_library_may_lie_beside_modules_of_any_name(tmp_path: Path) -> None:
    """As it does where it is installed: only the package is taken from its folder."""
    ours = tmp_path / "site"
    shutil.copytree(
        ROOT / "ddmip_lib", ours / "ddmip_lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    (ours / "pickle.py").write_text(HOSTILE.format(marker=str(tmp_path / "pickle was run")))
    code = f"""
import pickle, sys
sys.path.insert(0, {str(ours)!r})
from ddmip_lib.workers import processes
processes.CHILD = processes.CHILD.replace(".main()", "; print(sys.modules[module].__file__)")
print(processes.__file__, processes._start().communicate()[0].decode(), sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == 2 * [str(ours / "ddmip_lib" / "workers" / "processes.py")]
    assert not (tmp_path / "pickle was run").exists()
