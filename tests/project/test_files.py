"""The files around the library: complete, consistent, and the Makefile lists what it can do."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import subprocess
import tomllib
from collections import Counter
from importlib import import_module

import yaml

import ddmip_lib
import ddmip_lib.problems
from tests.builders.places import ROOT
from tools.notebooks import book_title, contents

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FIGURES_AND_TABLES = {
    "CHECKS",
    "VERDICTS",
    "draw_choice",
    "draw_split",
    "draw_workflow",
    "landscape",
    "plot_landscape",
    "plot_treatment",
}
"""Names of the book's package that chapters teach and that no API page describes."""


def test_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    assert (
        tomllib.loads((ROOT / "book" / "pyproject.toml").read_text())["project"]["version"]
        == VERSION
    )
    assert citation["title"].endswith(book_title().removeprefix("Dual decomposition"))
    assert re.search(
        rf"^## {re.escape(VERSION)}", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )


def test_citation_names_the_paper() -> None:
    (paper,) = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    assert (
        paper["title"]
        == "Scalable Mixed-Integer Optimization with Neural Constraints via Dual Decomposition"
    )
    assert [author["family-names"] for author in paper["authors"]] == [
        "Zeng",
        "Zhang",
        "Wu",
        "Tang",
        "Li",
    ]


def test_bare_make_lists_every_target() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(re.findall(r"make (\S+)", listed)) == set(phony[1].split())


def test_ci_runs_the_tests() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


def described() -> list[str]:
    """The names that the API pages describe, as they are written there, members of classes left
    out.
    """
    names = []
    for page in sorted((ROOT / "book").glob("api*.md")):
        text = page.read_text()
        names += re.findall(r"^\.\. auto(?:class|exception|function|data):: (\S+)", text, re.M)
        for module, listed in re.findall(r"^\.\. automodule:: (\S+)\n +:members: (.+)", text, re.M):
            names += [f"{module}.{name}" for name in re.split(r", *", listed)]
    return names


def found(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def test_every_public_name_is_on_one_api_page() -> None:
    """What a package lists in ``__all__`` is described once, whatever paths lead to it."""
    names = described()
    assert len(names) == len(set(names))
    counts = Counter(id(found(name)) for name in names)
    for package in (*pkgutil.walk_packages(ddmip_lib.__path__, "ddmip_lib."), None):
        module = import_module(package.name) if package else ddmip_lib
        for name in getattr(module, "__all__", []):
            if name != "__version__":
                assert counts[id(getattr(module, name))] == 1, f"{module.__name__}.{name}"


def undescribed(name: str) -> list[str]:
    """Parameters of a function or class that neither its docstring nor that of a base describes."""
    thing = found(name)
    if not (inspect.isfunction(thing) or inspect.isclass(thing)) or is_error(thing):
        return []
    if getattr(thing, "_is_protocol", False):
        return []
    owners = thing.__mro__ if isinstance(thing, type) else (thing,)
    if isinstance(thing, type) and thing.__init__ in (list.__init__, object.__init__):
        return []
    text = "\n".join(inspect.cleandoc(owner.__doc__ or "") for owner in owners)
    listed = set()
    for names in re.findall(r"^(\*{0,2}[a-z_]\w*(?:, \*{0,2}\w+)*)(?: : .*)?$", text, re.M):
        listed |= {each.lstrip("*") for each in names.split(", ")}
    return [each for each in inspect.signature(thing).parameters if each not in listed]


def is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def test_every_parameter_of_a_public_function_is_described() -> None:
    names = [name for name in described() if name.startswith("ddmip_lib.")]
    missing = {name: undescribed(name) for name in names}
    assert len(missing) > 100
    assert {name: left for name, left in missing.items() if left} == {}


def test_every_public_name_is_taught_where_the_api_page_says() -> None:
    """book/taught.yml leaves no central name out, and its pages use the names that readers
    import.
    """
    pages = yaml.safe_load((ROOT / "book" / "taught.yml").read_text())
    taught = {name: page for page, names in pages.items() for name in names}
    imported = {*ddmip_lib.__all__, *ddmip_lib.problems.__all__} - {"__version__"}
    assert imported <= set(taught)
    on_pages = {name.rpartition(".")[2] for name in described()}
    assert set(taught) - FIGURES_AND_TABLES <= on_pages
    for name in imported:
        assert re.search(rf"\b{name}\b", contents().notebook(taught[name]).read_text()), name


def test_every_reference_is_cited() -> None:
    entries = set(
        re.findall(r"^@\w+\{(\S+),", (ROOT / "book" / "references.bib").read_text(), re.MULTILINE)
    )
    pages = [
        path.read_text() for path in (ROOT / "book").iterdir() if path.suffix in (".md", ".ipynb")
    ]
    cited = {
        key
        for page in pages
        for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", page)
        for key in keys.split(",")
    }
    assert entries == {key.strip() for key in cited}
