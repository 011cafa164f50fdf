"""What makes a chapter teachable: goals, graded exercises, claims with verdicts, theorems with
tests.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from ddmip_book.yaml_file import read_yaml
from tools.notebooks import ROOT, chapters, contents

CONTENTS = contents()
CHAPTERS = [CONTENTS.notebook(page.name) for page in CONTENTS.numbered]
NOTEBOOKS = chapters()
"""Guide pages and appendices too: claims and exercises may stand on every page."""
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
EVIDENCE = CONTENTS.notebook("claims_evidence")
RULES = read_yaml(ROOT / "tests" / "headline.yml")
GRADES = ("easy", "medium", "hard", "project")
VERDICTS = (
    "holds",
    "holds with changes",
    "not reproduced",
    "fails",
    "not shown",
    "untestable here",
    "new",
)
PARTS = {page.part: CONTENTS.parts[page.part] for page in CONTENTS.numbered}
LEDGER = read_yaml(ROOT / "book" / "claims.yml")
# Claims that the ledger alone decides, mostly by arithmetic on the paper's own figures; all others
# have a box.
WITHOUT_BOX = {"x13", "x14", "x15", "x22", "x23"}
CLAIMS = {
    claim["id"] for part in LEDGER.values() for claim in part if not claim["id"].startswith("s-")
}
CLAIM = re.compile(
    r"```\{admonition\} Claim ([\w-]+)\. ([^\n]+)\n:class: claim\n:name: claim-([\w-]+)\n(.*?)```",
    re.DOTALL,
)
STATEMENT = re.compile(r"\{prf:(theorem|lemma|proposition|corollary)\}[^\n]*\n:label: (\S+)")
IN_TABLE = re.compile(r"^\| \[([\w-]+)\]\(#claim-", re.MULTILINE)
SAID_AGAIN = re.compile(
    r'\[([\w-]+)\]\(#claim-[\w-]+\)(?:, "([^"]+)": (.+)\.\*$| .+ \| (.+) \|$)', re.MULTILINE
)
TESTED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
TESTED_STATEMENT = re.compile(r"^\| \{prf:ref\}`([\w-]+)` \| (`tests/.+) \|$", re.MULTILINE)


@cache
def text(path: Path) -> str:
    return "\n\n".join(
        cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"
    )


@cache
def names_of_tests(file: Path) -> frozenset[str]:
    """``test_name`` and ``TestClass::test_name`` of a test file."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.update(
                f"{node.name}::{sub.name}" for sub in node.body if isinstance(sub, ast.FunctionDef)
            )
    return frozenset(names)


@chapter
def test_chapter_says_what_it_teaches_and_takes(path: Path) -> None:
    first = f"\n{text(path)}".split("\n## ")[0]
    assert first.startswith("\n# ")
    for word in ("**You will learn**", "**You need**", "**Running time**"):
        assert word in first


@chapter
def test_a_chapter_has_exercises(path: Path) -> None:
    assert 2 <= text(path).count("{exercise-start}") <= 6


@notebook
def test_exercises_are_graded(path: Path) -> None:
    titles = re.findall(r"\{exercise-start\} ([^\n]+)", text(path))
    assert len(titles) <= 6
    assert [title for title in titles if not re.search(rf" \(({'|'.join(GRADES)})\)$", title)] == []
    grades = [GRADES.index(title.rsplit("(", 1)[1][:-1]) for title in titles]
    assert grades == sorted(grades), "from easy to hard"


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_project(part: str) -> None:
    texts = [text(CONTENTS.notebook(page.name)) for page in PARTS[part]]
    assert any("(project)" in words for words in texts)


@cache
def boxes() -> dict[str, tuple[str, str]]:
    """Title and verdict of the claim boxes of all pages."""
    return {
        number: (title, re.findall(r"\*\*Verdict\*\*: ([^.\n]+)", box)[0])
        for path in NOTEBOOKS
        for number, title, _, box in CLAIM.findall(text(path))
    }


def test_every_claim_is_examined_once() -> None:
    found = [match[0].lower() for path in NOTEBOOKS for match in CLAIM.findall(text(path))]
    numbered = [claim for claim in found if not claim.startswith("s-")]
    assert sorted(numbered) == sorted(CLAIMS - WITHOUT_BOX)
    assert len(set(found)) == len(found)


@notebook
def test_claims_have_a_verdict_and_a_checked_number(path: Path) -> None:
    recorded = {key for rules in RULES.values() for key in rules}
    assert len(CLAIM.findall(text(path))) == len(
        re.findall(r"^:class: claim$", text(path), re.MULTILINE)
    )
    for number, _, name, box in CLAIM.findall(text(path)):
        assert number.lower() == name
        said = dict(re.findall(r"\*\*(In the paper|Verdict|Instead|Checked by)\*\*: (.+)", box))
        assert set(said) >= {"In the paper", "Verdict", "Checked by"}, f"claim {number}"
        assert said["Verdict"].rstrip(".") in VERDICTS, f"claim {number}"
        assert "Instead" in said or said["Verdict"].rstrip(".") in ("holds", "new"), (
            f"claim {number}"
        )
        keys = re.findall(r"`(\w+)`", said["Checked by"])
        assert keys, f"claim {number}"
        assert set(keys) <= recorded, f"claim {number}: not among the headline numbers"


@notebook
def test_claims_are_stated_twice_in_the_same_words(path: Path) -> None:
    """A line in the text of a page, or of a table, has the title and the verdict of its box."""
    for number, title, verdict, of_table in SAID_AGAIN.findall(text(path)):
        assert (verdict or of_table) == boxes()[number][1], f"claim {number}"
        short = boxes()[number][0].removesuffix(" (our reading)")
        assert title in ("", short, boxes()[number][0]), f"claim {number}"


def test_the_tables_of_the_evidence_list_every_claim_once() -> None:
    """Claims whose box stands in a chapter too."""
    assert sorted(IN_TABLE.findall(text(EVIDENCE))) == sorted(boxes())
    assert [path for path in NOTEBOOKS if path != EVIDENCE and IN_TABLE.search(text(path))] == []


@notebook
def test_every_test_that_is_named_exists(path: Path) -> None:
    for file, name in TESTED.findall(text(path)):
        assert name in names_of_tests(ROOT / file), f"{file} has no {name}"


def test_every_statement_on_convergence_is_tied_to_a_test() -> None:
    """A statement, or several in a row, is followed by a line that names as many tests, or is
    listed with its tests among the evidence.
    """
    listed = dict(TESTED_STATEMENT.findall(text(EVIDENCE)))
    assert all(TESTED.search(tests) for tests in listed.values())
    for name in ("convergence", "constraints", "extensions"):
        open_statements: list[str] = []
        for line in re.findall(
            rf"{STATEMENT.pattern}|(Tested by .*)", text(CONTENTS.notebook(name))
        ):
            _, label, tests = line
            if label and label not in listed:
                open_statements.append(label)
            elif tests and open_statements:
                assert len(TESTED.findall(tests)) >= len(open_statements), open_statements
                open_statements = []
        assert not open_statements
