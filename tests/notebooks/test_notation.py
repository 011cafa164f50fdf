"""One symbol, one meaning: the tables of book/notation.md, and what the chapters make of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.test_sources import chapter
from tools.contents import name_of
from tools.notebooks import ROOT, contents

PAGE = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\$.+?) \| .+ \| \[\d+\]\((\S+)\) \|$", re.MULTILINE)
ROWS = [
    (symbol, file)
    for symbols, file in ROW.findall(PAGE)
    for symbol in re.findall(r"\$([^$]+)\$", symbols)
]
HOMES = {
    r"\\delta": {
        "split",
        "penalties_stopping",
        "convergence",
        "constraints",
    },  # decrease of the merit
    r"\\kappa": {
        "projected_gradient",
        "convergence",
        "constraints",
    },  # error of an unfinished block
    r"\\sigma": {"penalties_stopping", "convergence", "constraints"},  # of the descent test
    r"\\beta": {"neural_mips", "exact_embeddings", "projected_gradient", "penalties_stopping"},
    r"\\mu": {"log_barrier", "prices", "certificates", "linearise"},
    r"\\xi": {"exact_embeddings"},  # whether a unit is on
    r"\\Lambda": {"augmented_lagrangian", "penalties_stopping"},  # bound of multipliers
    r"\\Omega": {"projected_gradient", "log_barrier"},  # diagonal matrix
    r"\bV(?=[_ ^])": set(),  # weights are Theta
    r"(?<![A-Za-z\\])q\(": set(),  # the dual function is D
    r"D(?=_\{?[a-zA-Z]\w|\^\{-1)": set(),  # a diagonal matrix is Omega
    r"l \\le x \\le u": set(),  # bounds of x are x^- and x^+
}
"""Letters that had several meanings, and the chapters in which they keep the one of the table."""


@cache
def formulas(path: Path) -> str:
    text = "\n\n".join(
        cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"
    )
    return "\n".join(re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", text, re.DOTALL))


def test_no_symbol_has_two_rows() -> None:
    assert len(ROWS) > 50
    symbols = [symbol for symbol, _ in ROWS]
    assert not {symbol for symbol in symbols if symbols.count(symbol) > 1}


@pytest.mark.parametrize(("symbol", "file"), ROWS)
def test_a_symbol_is_used_where_it_is_introduced(symbol: str, file: str) -> None:
    core = re.split(r" = |\(|\\le ", symbol)[0].strip()
    assert core.rstrip("_{}ijk") in formulas(ROOT / "book" / file).replace("_j", "_j "), (
        f"{symbol} in {file}"
    )


@chapter
@pytest.mark.parametrize("letter", HOMES)
def test_a_letter_keeps_its_meaning(path: Path, letter: str) -> None:
    if name_of(path) not in HOMES[letter]:
        assert not re.findall(rf".*{letter}(?![A-Za-z]).*", formulas(path))


def test_resting_points_are_defined_once() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in map(contents().notebook, (p.name for p in contents().numbered))
    ]
    assert sum(len(re.findall(r"\*+resting point\*+", text)) for text in texts) <= 1
