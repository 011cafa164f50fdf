"""The files around the library: complete, consistent, and the Makefile lists what it can do."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib

import yaml

import ddmip_lib
import ddmip_lib.problems
from tests.builders.places import ROOT
from tools.notebooks import book_title, contents

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


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


def test_every_public_name_is_on_the_api_page() -> None:
    """A package that lists public names in ``__all__`` has its section, so all of them are
    described.
    """
    described = set(re.findall(r"automodule:: (\S+)", (ROOT / "book" / "api.md").read_text()))
    public = {"ddmip_book.headline"}
    for file in (ROOT / "ddmip_lib").rglob("__init__.py"):
        tree = ast.parse(file.read_text())
        if any(
            getattr(node.targets[0], "id", "") == "__all__"
            for node in tree.body
            if isinstance(node, ast.Assign)
        ):
            public.add(".".join(file.parent.relative_to(ROOT).parts))
    assert public <= described


def test_every_public_name_is_taught_where_the_api_page_says() -> None:
    """book/taught.yml leaves no central name out, and its pages use the names that readers
    import.
    """
    pages = yaml.safe_load((ROOT / "book" / "taught.yml").read_text())
    taught = {name: page for page, names in pages.items() for name in names}
    imported = {*ddmip_lib.__all__, *ddmip_lib.problems.__all__} - {"__version__"}
    listed = re.findall(r":members: (.*)", (ROOT / "book" / "api.md").read_text())
    assert imported | set(re.findall(r"\w+", " ".join(listed))) <= set(taught)
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
