"""Spelling of everything that is read: pages, chapters, docstrings; and British forms in
the prose.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.builders.places import ROOT

PAGES = [
    *sorted(ROOT.glob("book/*.md")),
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("course/**/*.md")),
]
ALL_NOTEBOOKS = sorted(ROOT.glob("book/*.ipynb"))
CODE = [
    p
    for part in ("ddmip_lib", "tools", "tests")
    for p in sorted(ROOT.glob(f"{part}/**/*.py"))
    if p != Path(__file__)
]
NOT_PROSE = re.compile(
    r"```(?:\{(?:eval-rst|code)|\w+\n).*?```|^[ \t]*`{3,}(?:\{[\w:-]+\})?|\$\$.*?\$\$|\$[^$]+\$|\{[\w:]+\}`[^`]*`|``[^`]+``|`[^`]+`|\]\([^)]*\)|https?://\S+",
    re.DOTALL | re.MULTILINE,
)
AMERICAN = re.compile(
    r"\b(\w+[lmnrt]i(?:z(?:e|es|ed|er|ers|ing|ation|ations))|behavior\w*|neighbor\w*|color\w*|center\w*|modeling"
    r"|modeled|labeled|labeling|favor\w*|analyze\w*|catalog|gray|fulfill)\b",
    re.IGNORECASE,
)
KEPT = {
    "Optimization",
    "prize",
    "prized",
    "seize",
    "Parameterized",
}  # the paper's title, and words that are no verbs


def prose(path: Path) -> str:
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, 4).cells
        return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return path.read_text()


def american(text: str) -> list[str]:
    return sorted({word for word in AMERICAN.findall(NOT_PROSE.sub(" ", text)) if word not in KEPT})


def test_american_forms_are_noticed_outside_code() -> None:
    assert american("We minimize the color $maximize$ of `normalize`") == ["color", "minimize"]
    assert american("We minimise over a size, and `pyscipopt` optimises") == []


@pytest.mark.parametrize("path", [*PAGES, *ALL_NOTEBOOKS], ids=lambda path: path.stem)
def test_prose_is_british(path: Path) -> None:
    assert american(prose(path)) == []


def codespell(*paths: Path) -> str:
    command = [sys.executable, "-m", "codespell_lib", "--builtin", "clear,rare"]
    command += ["--ignore-words", str(ROOT / "tests" / "spelling.txt"), *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_codespell_notices_a_slip(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("We recieve the multipler.")
    assert "receive" in codespell(tmp_path / "a.md")


def test_no_misspelt_word(tmp_path: Path) -> None:
    texts = [tmp_path / f"{path.stem}.md" for path in ALL_NOTEBOOKS]
    for path, text in zip(ALL_NOTEBOOKS, texts, strict=True):
        text.write_text("\n\n".join(cell.source for cell in nbformat.read(path, 4).cells))
    assert codespell(*PAGES, *CODE, *texts) == ""
