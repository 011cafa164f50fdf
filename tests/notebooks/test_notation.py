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
    for found, file in ROW.findall(PAGE)
    for symbol in re.findall(r"\$([^$]+)\$", found)
]
HOMES = {
    r"\\delta": {
        "split",
        "fixed_points",
        "penalties_stopping",
        "convergence",
        "constraints",
        "extensions",
    },  # decrease of the merit
    r"\\kappa": {
        "projected_gradient",
        "convergence",
        "constraints",
        "extensions",
    },  # error of an inexact subproblem
    r"\\sigma": {
        "penalties_stopping",
        "convergence",
        "constraints",
        "extensions",
        "linearise",
        "local_models",
    },  # of the descent test; units of the linearisation
    r"\\beta": {
        "neural_mips",
        "exact_embeddings",
        "bound_propagation",
        "projected_gradient",
        "penalties_stopping",
    },
    r"\\mu": {
        "log_barrier",
        "recovery",
        "prices",
        "pricing_problem",
        "certificates",
        "safe_bounds",
        "linearise",
        "local_models",
    },
    r"\\xi": {"exact_embeddings"},  # whether a unit is on
    r"\\Lambda": {
        "augmented_lagrangian",
        "duality_gap",
        "penalties_stopping",
        "constraints",
    },  # bound of multipliers
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


def symbols(text: str) -> list[str]:
    return [
        symbol for found, _ in ROW.findall(text) for symbol in re.findall(r"\$([^$]+)\$", found)
    ]


def test_one_letter_has_one_meaning_within_a_part() -> None:
    """No table of a part repeats a symbol, or one of the first table, which is of all parts."""
    assert len(ROWS) > 50
    _, everywhere, *parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    for part in parts:
        listed = symbols(everywhere) + symbols(part)
        assert not {symbol for symbol in listed if listed.count(symbol) > 1}, part.splitlines()[0]


@pytest.mark.parametrize(("symbol", "file"), ROWS)
def test_a_symbol_is_used_where_it_is_introduced(symbol: str, file: str) -> None:
    core = re.split(r" = |\(|\\le ", symbol)[0].strip()
    assert core.rstrip("_{}ijk") in formulas(ROOT / "book" / file).replace("_j", "_j "), (
        f"{symbol} in {file}"
    )


@chapter
@pytest.mark.parametrize("letter", HOMES)
def test_a_letter_keeps_its_meaning(path: Path, letter: str) -> None:
    """On every page but the evidence for claims, which takes its letters from all parts."""
    if name_of(path) not in HOMES[letter] | {"claims_evidence"}:
        assert not re.findall(rf".*{letter}(?![A-Za-z]).*", formulas(path))


def test_stationary_points_of_algorithm_1_are_defined_once() -> None:
    names = [page.name for page in contents().numbered]
    texts = [contents().notebook(name).read_text(encoding="utf-8") for name in names]
    defined = r"\*\*\$\\+rho\$-stationary\*\*"
    assert sum(len(re.findall(defined, text)) for text in texts) == 1
