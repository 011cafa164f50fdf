"""The library stays small enough to be read: few lines in all, and no file that a reader cannot hold in the head."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "ddmip_lib"
FILES = sorted(LIBRARY.rglob("*.py"))
PARTS = {  # no solver uses the chapters' own examples and figures, nor the experiments on the solvers
    "teaching": sorted((LIBRARY / "teaching").rglob("*.py")),
    "checks": sorted((LIBRARY / "checks").rglob("*.py")),
    "experiments": sorted((LIBRARY / "experiments").rglob("*.py")),
    # what goes beyond the paper: each of the three can be left out
    "beyond": sorted(f for name in ("pricing", "bounds", "certificates") for f in (LIBRARY / name).rglob("*.py")),
}
PARTS["solvers"] = sorted(set(FILES).difference(*PARTS.values()))
LIMITS = {"solvers": 4450, "teaching": 2500, "experiments": 3900, "beyond": 2950, "checks": 1750}
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(source: str) -> int:
    """Lines that hold code: not blank, no comment, and no string that stands alone as a statement (a docstring)."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def test_lines_of_code_are_counted_as_a_reader_would() -> None:
    source = '"""Module."""\n\n# why\nX = (\n    1,\n)  # six\n"""What X is\nfor."""\n\n'
    source += 'def f():\n    "doc"\n    return """a\n\nb"""\n'
    assert lines_of_code(source) == 3 + 1 + 3


@pytest.mark.parametrize("part", LIMITS)
def test_the_library_is_small_enough_to_be_read(part: str) -> None:
    sizes = {str(file.relative_to(LIBRARY)): lines_of_code(file.read_text()) for file in PARTS[part]}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    assert sum(sizes.values()) < LIMITS[part], f"{sum(sizes.values())} lines of code; the largest: {largest}"


def test_no_solver_imports_teaching_material_or_experiments() -> None:
    imports = re.compile(r"^\s*(from|import) .*\b(teaching|experiments|checks)\b", re.MULTILINE)
    assert [file.name for file in PARTS["solvers"] if imports.search(file.read_text())] == []


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {str(f.relative_to(LIBRARY)): n for f in FILES if (n := len(f.read_text().splitlines())) > 340}
    assert not long, "split these files by concept"
