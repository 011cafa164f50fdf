"""Both pyproject.toml, requirements.lock, environment.yml and what is installed say the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.builders.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BOOK = tomllib.loads((ROOT / "book" / "pyproject.toml").read_text())["project"]
MADE_WITH = {
    "jupyter-book",
    "torch",
    "pyscipopt",
    "pyscipopt-ml",
    "matplotlib",
    "numpy",
    "papermill",
}
"""The packages that the book is made with: its environment and its package name each of them."""
LOCK_LINES = [
    line
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if not line.startswith("#")
]
LOCK = [Requirement(line) for line in LOCK_LINES]
ENVIRONMENTS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": system,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_system": "Linux" if system == "linux" else "Darwin",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    for python in ("3.11", "3.12", "3.13")
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]


def pins(environment: dict[str, str] | None = None) -> dict[str, Version]:
    """The pinned version of each package that applies in an environment (this one if none is
    given).
    """
    applying = [pin for pin in LOCK if pin.marker is None or pin.marker.evaluate(environment)]
    names = [canonicalize_name(pin.name) for pin in applying]
    assert len(set(names)) == len(names), "two pins of one package apply at once"
    return {
        name: Version(next(iter(pin.specifier)).version)
        for name, pin in zip(names, applying, strict=True)
    }


def asked_for() -> list[Requirement]:
    """What the environment must hold: all that both packages ask for but the extra `peers`."""
    lines = [
        *PROJECT["dependencies"],
        *BOOK["dependencies"],
        *BOOK["optional-dependencies"]["test"],
    ]
    lines += [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    return [wish for wish in map(Requirement, lines) if wish.name != PROJECT["name"]]


def test_lock_pins_everything_exactly() -> None:
    for pin in LOCK:
        assert pin.url is None
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
        assert "*" not in str(pin.specifier)
    assert not [line for line in LOCK_LINES if "://" in line or line.startswith("-")]


def test_lock_holds_no_cuda() -> None:
    assert not [pin.name for pin in LOCK if pin.name.startswith(("nvidia", "cuda", "triton"))]


@pytest.mark.parametrize(
    "environment", ENVIRONMENTS, ids=lambda e: f"{e['python_version']}-{e['platform_machine']}"
)
def test_lock_answers_pyproject_everywhere(environment: dict[str, str]) -> None:
    pinned = pins(environment)
    for wish in asked_for():
        assert pinned[canonicalize_name(wish.name)] in wish.specifier, wish


def test_python_versions_agree() -> None:
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(">=3.11")
    assert SpecifierSet(BOOK["requires-python"]) == SpecifierSet(
        ">=3.11,<3.14"
    )  # those that the lock pins for
    script = (ROOT / "tools" / "setup_env.sh").read_text()
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in script


def test_environment_yml_uses_the_same_pins() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, pip_section = environment["dependencies"]
    name, _, version = python.partition("=")
    assert (name, pip) == ("python", "pip")
    assert f"{version}.0" in SpecifierSet(BOOK["requires-python"])
    index, lock, *named, library, book = pip_section["pip"]
    assert index == "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert (lock, library, book) == ("-r requirements.lock", "-e .", "-e ./book")
    assert not [name for name in named if Requirement(name).specifier], "versions stand in the lock"


def test_what_the_book_is_made_with_is_named_in_its_package_and_its_environment() -> None:
    *_, pip_section = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    lines = [line for line in pip_section["pip"] if not line.startswith("-")]
    assert {canonicalize_name(line) for line in lines} == MADE_WITH
    assert {canonicalize_name(Requirement(line).name) for line in BOOK["dependencies"]} >= MADE_WITH


def operators(wish: Requirement) -> list[str]:
    return [part.operator for part in wish.specifier]


def test_exact_versions_stand_in_the_lock_alone() -> None:
    assert [str(wish) for wish in asked_for() if "==" in operators(wish)] == []


def test_the_library_refuses_no_newer_release() -> None:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    wishes = [Requirement(line) for line in [*PROJECT["dependencies"], *extras]]
    others = [wish for wish in wishes if wish.name != PROJECT["name"]]
    assert all(operators(wish) == [">="] for wish in others)


def test_the_extra_all_holds_each_extra_that_users_have() -> None:
    (everything,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert everything.name == PROJECT["name"]
    assert everything.extras == set(PROJECT["optional-dependencies"]) - {"all", "test"}


def test_installed_versions_are_the_pinned_ones() -> None:
    found_in = [
        place for place in sys.path if Path(place).name != "_vendor"
    ]  # setuptools' own copies, if it is loaded
    installed = {
        canonicalize_name(found.name): Version(found.version)
        for found in distributions(path=found_in)
    }
    wrong = {
        name: (str(installed.get(name)), str(version))
        for name, version in pins().items()
        if name not in installed or Version(installed[name].public) != version
    }
    assert not wrong, "installed and pinned versions differ. To fix this: make distclean setup"


def test_pip_finds_no_conflict() -> None:
    result = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    # the CUDA packages that a CUDA build of torch brings are not ours to pin
    ours = [
        line
        for line in result.stdout.splitlines()
        if not line.startswith(("nvidia-", "cuda-", "triton"))
    ]
    assert result.returncode == 0 or (result.stdout and not ours), result.stdout + result.stderr


def test_torch_is_the_cpu_build() -> None:
    if os.environ.get("DDMIP_ALLOW_CUDA") == "1":
        pytest.skip("DDMIP_ALLOW_CUDA=1: a CUDA build of torch was asked for")
    assert torch.version.cuda is None, (
        "torch is a CUDA build. To fix it, where download.pytorch.org can be reached: make"
        " distclean setup. If you want CUDA, set DDMIP_ALLOW_CUDA=1"
    )
