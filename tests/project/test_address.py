"""The project's address stands in one place; what carries it is written from there, and nothing
leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from email.parser import Parser
from pathlib import Path

import nbformat
import pytest
import yaml
from setuptools import build_meta

from tests.builders.places import ROOT
from tools import write_address
from tools.address import config, repository
from tools.notebooks import contents

GITHUB = {"repository": {"url": "https://github.com/Someone/book", "branch": "main"}}
ELSEWHERE = {"repository": {"url": "https://git.example.org/someone/book"}}
PYPROJECT = (ROOT / "pyproject.toml").read_text()
CITATION = (ROOT / "CITATION.cff").read_text()


def urls(text: str) -> dict[str, str] | None:
    return tomllib.loads(text)["project"].get("urls")


def test_every_file_has_the_address_of_this_configuration() -> None:
    stale = [
        path.name
        for path, text in write_address.wanted(config()).items()
        if path.read_text() != text
    ]
    assert not stale, "To fix this: python -m tools.write_address"


def test_the_package_leads_to_the_address_or_nowhere() -> None:
    assert urls(PYPROJECT) == (write_address.project_urls(config()) or None)


@pytest.mark.parametrize("settings", [GITHUB, ELSEWHERE], ids=["with pages", "without pages"])
def test_addresses_of_the_package_come_and_go_without_a_trace(
    settings: dict[str, dict[str, str]],
) -> None:
    unset = write_address.with_urls(PYPROJECT, {})
    written = write_address.with_urls(unset, settings)
    found = urls(written)
    assert found is not None
    assert found["Source"] == settings["repository"]["url"]
    assert found.get("Documentation") == (
        "https://someone.github.io/book/" if settings is GITHUB else None
    )
    assert all(address.startswith("https://") for address in found.values())
    without = {
        **tomllib.loads(written),
        "project": {**tomllib.loads(written)["project"], "urls": None},
    }
    assert without == {
        **tomllib.loads(unset),
        "project": {**tomllib.loads(unset)["project"], "urls": None},
    }
    assert write_address.with_urls(written, settings) == written
    assert write_address.with_urls(written, {}) == unset
    assert urls(unset) is None


def test_the_metadata_that_is_built_has_the_addresses(tmp_path: Path) -> None:
    """By setuptools itself, on a package of one file."""
    head = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
    project = '[project]\nname = "one"\nversion = "1"\n\n[tool.setuptools]\npy-modules = ["one"]\n'
    (tmp_path / "pyproject.toml").write_text(write_address.with_urls(head + project, GITHUB))
    (tmp_path / "one.py").touch()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        folder = build_meta.prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = Parser().parsestr((tmp_path / folder / "METADATA").read_text())
    named = dict(line.split(", ") for line in metadata.get_all("Project-URL") or [])
    assert named == write_address.project_urls(GITHUB)


def test_the_citation_names_the_repository() -> None:
    unset = write_address.with_citation(CITATION, {})
    assert "repository-code" not in yaml.safe_load(unset)
    written = write_address.with_citation(unset, GITHUB)
    assert yaml.safe_load(written) == {
        **yaml.safe_load(unset),
        "repository-code": GITHUB["repository"]["url"],
    }
    assert write_address.with_citation(written, {}) == unset


@pytest.mark.parametrize("name", write_address.CONTACTS)
def test_the_contact_is_the_address_or_unset_and_nobody_else(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.findall(r"^Contact: (.*)$", text, re.MULTILINE) == [repository(config()) or "unset"]
    assert re.findall(
        r"^Contact: (.*)$", write_address.with_contact(text, GITHUB), re.MULTILINE
    ) == ["https://github.com/Someone/book"]
    unset = write_address.with_contact(text, {})
    assert "Contact: unset\n" in unset
    assert not re.findall(r"\S+@\S+|https?://\S+", unset), "a mail or an address of its own"


@pytest.mark.parametrize("settings", [{}, GITHUB], ids=["no address", "address"])
def test_the_quickstart_opens_with_the_commands_that_run_it(
    settings: dict[str, dict[str, str]],
) -> None:
    source = nbformat.read(contents().notebook("quickstart"), 4)
    notebook = write_address.with_commands(source, write_address.commands(settings))
    assert notebook == write_address.with_commands(notebook, write_address.commands(settings))
    assert [cell for cell in notebook.cells if cell.id != "run-it"] == [
        cell for cell in source.cells if cell.id != "run-it"
    ]
    # the first code that a reader sees: what is above it is hidden, or the opening picture
    seen = [
        cell
        for cell in notebook.cells
        if not {"remove-cell", "remove-input"} & set(cell.metadata.get("tags", []))
    ]
    first = next(cell for cell in seen if cell.cell_type == "code" or "```" in cell.source)
    assert first.id == "run-it"
    (block,) = re.findall(r"```sh\n(.*?)```", first.source, re.DOTALL)
    *fetch, run = block.splitlines()
    assert run == "make lab"
    if settings:
        clone, change = fetch
        assert clone == f"git clone {repository(settings)}"
        assert change == f"cd {clone.split('/')[-1]}"
    else:
        assert not fetch
        assert "ADDRESS" not in first.source


def test_the_commands_run_up_to_the_target_that_they_name(tmp_path: Path) -> None:
    """Clone and folder as printed, of a repository with this Makefile; of `make lab` what it would
    do.
    """
    origin = tmp_path / "host" / "book"
    origin.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", origin / "Makefile")
    git = [
        "git",
        "-C",
        str(origin),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
    ]
    for words in (["init", "-q"], ["add", "Makefile"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    text = write_address.commands(GITHUB).replace(repository(GITHUB), str(origin))
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    program = block.replace("git clone", "git clone -q").replace("make lab", "make -n lab")
    done = subprocess.run(
        ["bash", "-e", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "jupyterlab --notebook-dir=_build/lab" in done.stdout
