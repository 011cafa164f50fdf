"""The claims ledger: every claim of the paper, its verdict, and the evidence that the verdict rests
on.

``book/claims.yml`` states the verdicts. A check (`ddmip_book.experiments.claims`) computes its own;
a claim box of a chapter has one, in the same words; `Ledger.contradictions` lists all that does not
agree. Needs PyYAML, which comes with the extra ``book``.

    python -m ddmip_book.experiments.ledger book/claims.yml

writes into the file the verdicts of open claims that the stored records now decide, and prints what
contradicts what; ``--measured _build/executed/quick`` first stores the headline numbers of the
executed chapters beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..headline import METADATA_KEY
from ..yaml_file import read_yaml
from .claims import CHECKS, VERDICTS, Finding
from .claims.finding import FAILS, NOT_REPRODUCED, NOT_SHOWN, UNTESTABLE
from .grids import EXPERIMENTS
from .results import Results, load

CLAIM_KINDS = ("theory", "experiment", "consistency")
OPEN = "open"
NEW = "new"
"""Open is stated for a claim that the stored records are to decide: its check's verdict is shown,
once it has one. New is what is ours and not the paper's.
"""
MARKS = {**dict(zip(VERDICTS, "✔◐○◌✘–", strict=True)), NEW: "★", OPEN: "…"}
BOX = re.compile(
    r"```\{admonition\} Claim ([\w-]+)\. [^\n]+\n:class: claim\n:name: claim-[\w-]+\n(.*?)```",
    re.DOTALL,
)
STATEMENT = re.compile(r"\{prf:(?:theorem|lemma|proposition|corollary)\} ([^\n]*)\n:label: (\S+)")
MEASURED = "measured.yml"
"""Beside the ledger: the headline numbers as last measured, on the real data."""
SIGNS = {"equals": "=", "min": "≥", "max": "≤", "at_least": "≥", "at_most": "≤"}
WITHOUT_EVIDENCE = (NOT_SHOWN, UNTESTABLE)
"""For these verdicts the absence of evidence is the point."""


@dataclass(frozen=True)
class Claim:
    """One entry of ``book/claims.yml``."""

    id: str
    part: str
    says: str
    quote: str
    place: str
    kind: str
    verdict: str
    why: str
    proof: list[str] = field(default_factory=list)
    cells: dict[str, list[str]] = field(default_factory=dict)
    check: str | None = None
    ours: bool = False
    same_as: str | None = None
    read: list[str] = field(default_factory=list)

    @property
    def our_reading(self) -> bool:
        """Whether the paper implies the claim, or relies on it, without saying it."""
        return "(our reading)" in self.says


@dataclass(frozen=True)
class Box:
    """A claim box, the page on which it stands, and the headline numbers that check it."""

    chapter: str
    word: str
    keys: list[str]


def read_claims(path: Path | str) -> list[Claim]:
    """The claims of a ledger file, in its order.

    An unknown field, kind, verdict or check, a claim without evidence and a number used twice are
    errors.
    """
    claims = [
        Claim(part=part, **entry) for part, entries in read_yaml(path).items() for entry in entries
    ]
    for claim in claims:
        if claim.verdict not in MARKS:
            words = ", ".join(MARKS)
            raise ValueError(f"claim {claim.id}: verdict {claim.verdict!r}; write one of {words}.")
        if claim.kind == "experiment" and claim.verdict == FAILS:
            raise ValueError(
                f"claim {claim.id}: no run of ours can make a claim fail; write {NOT_REPRODUCED!r}."
            )
        if claim.kind not in CLAIM_KINDS or (claim.check is not None and claim.check not in CHECKS):
            raise ValueError(
                f"claim {claim.id}: kind {claim.kind!r} or check {claim.check!r} is unknown."
            )
        if not (
            claim.proof
            or claim.cells
            or claim.check
            or claim.read
            or claim.verdict in WITHOUT_EVIDENCE
        ):
            raise ValueError(
                f"claim {claim.id} has no evidence: give it a proof, cells or a check."
            )
    twice = [name for name, count in Counter(claim.id for claim in claims).items() if count > 1]
    if twice:
        raise ValueError(f"claims listed twice: {', '.join(twice)}.")
    return claims


def _text(notebook: Path) -> str:
    cells = json.loads(notebook.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def book_folder() -> Path:
    """Return the folder ``book`` of the clone around this file or the working directory."""
    here = Path(".").resolve()
    around = [*here.parents, *Path(__file__).resolve().parents]
    for folder in [here, *(parent / "book" for parent in around)]:
        if (folder / "claims.yml").is_file():
            return folder
    raise FileNotFoundError("the ledger reads all pages: run this notebook in book/ of a clone")


def chapters_of(book: Path) -> dict[str, Path]:
    """The notebooks of a book's folder, by their names without numbers."""
    return {
        notebook.stem.lstrip("0123456789").lstrip("_"): notebook
        for notebook in sorted(book.glob("*.ipynb"))
    }


def read_boxes(chapters: Mapping[str, Path]) -> dict[str, Box]:
    """The claim boxes of all pages, by number in lower case."""
    boxes = {}
    for chapter, notebook in chapters.items():
        for name, body in BOX.findall(_text(notebook)):
            said = dict(re.findall(r"\*\*(Verdict|Checked by)\*\*: (.+)", body))
            keys = re.findall(r"`(\w+)`", said["Checked by"])
            boxes[name.lower()] = Box(chapter, said["Verdict"].rstrip(". "), keys)
    return boxes


@dataclass(frozen=True)
class Ledger:
    """Claims beside their evidence; made by `Ledger.read`."""

    claims: list[Claim]
    boxes: dict[str, Box]
    statements: dict[str, tuple[str, str]]
    """Label of a proved statement: its title and its chapter."""
    rules: Mapping[str, Mapping[str, Any]]
    """The asserted headline numbers by chapter."""
    findings: dict[str, Finding]
    """By claim."""
    chapters: Mapping[str, Path]
    """The notebooks by name."""
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The headline numbers as last measured on the real data, by chapter."""

    @classmethod
    def read(cls, book: Path, rules: Mapping[str, Mapping[str, Any]], stored: Results) -> Ledger:
        """The ledger of the book in that folder, its checks computed on the stored records."""
        chapters = chapters_of(book)
        claims = read_claims(book / "claims.yml")
        computed = {name: CHECKS[name](stored) for name in {c.check for c in claims if c.check}}
        statements = {
            label: (title, chapter)
            for chapter, notebook in chapters.items()
            for title, label in STATEMENT.findall(_text(notebook))
        }
        findings = {c.id: computed[c.check] for c in claims if c.check}
        file = book / MEASURED
        measured = read_yaml(file) if file.is_file() else {}
        return cls(claims, read_boxes(chapters), statements, rules, findings, chapters, measured)

    @property
    def parts(self) -> list[str]:
        return list(dict.fromkeys(claim.part for claim in self.claims))

    def counts(self, by: str = "kind") -> dict[str, Counter[str]]:
        """How often each verdict occurs, by kind or part.

        Claims that are ours are not the paper's, and left out; those that share quote or
        counterexample count once.
        """
        found: dict[str, Counter[str]] = {}
        for claim in self.claims:
            if not claim.ours and claim.same_as is None:
                found.setdefault(getattr(claim, by), Counter())[self.verdict(claim)] += 1
        return found

    def verdict(self, claim: Claim) -> str:
        """The verdict stated, or for an open claim the one that its check has come to."""
        finding = self.findings.get(claim.id)
        return (
            finding.verdict
            if claim.verdict == OPEN and finding and finding.verdict
            else claim.verdict
        )

    def checked_on(self, claim: Claim) -> dict[str, list[str]]:
        """Return the numbers of the claim's box, by the pages that record them.

        A number that several pages record is taken from a page that the claim names, else from the
        page of the box, else from the one that records most of the box's numbers.
        """
        box = self.boxes.get(claim.id)
        if box is None:
            return {}

        def rank(page: str) -> tuple[bool, bool, int]:
            recorded = sum(key in self.rules[page] for key in box.keys)
            return page not in claim.cells, page != box.chapter, -recorded

        found: dict[str, list[str]] = {}
        for key in box.keys:
            pages = [page for page, rules in self.rules.items() if key in rules]
            if pages:
                found.setdefault(min(pages, key=rank), []).append(key)
        return found

    def contradictions(self) -> list[str]:
        """Every disagreement between a verdict and its evidence, a sentence each."""
        known = {claim.id for claim in self.claims}
        found = [
            f"chapter {box.chapter} examines {name}, which the ledger lacks"
            for name, box in self.boxes.items()
            if name not in known
        ]
        for claim in self.claims:
            found += [f"claim {claim.id}: {problem}" for problem in self._problems(claim)]
        return found

    def _problems(self, claim: Claim) -> list[str]:
        finding = self.findings.get(claim.id)
        box = self.boxes.get(claim.id)
        found = []
        stated = claim.verdict
        shown = self.verdict(claim)
        if finding is None and stated == OPEN:
            found.append("it is open, but has no check that could decide it")
        if finding is not None and finding.verdict not in (None, shown):
            found.append(f"the ledger states {shown}, its check {finding.verdict}")
        if finding is not None and finding.open and stated != OPEN:
            found.append(
                f"{stated} is stated, but its check has {finding.have} of {finding.need} runs"
            )
        if box is not None and shown != OPEN and box.word != shown:
            found.append(f"the ledger states {shown}, the box in {box.chapter} {box.word!r}")
        if box is not None:
            recorded = self.checked_on(claim)
            asserted = {key for keys in recorded.values() for key in keys}
            found += [
                f"{key}, which checks the box in {box.chapter}, is asserted on no page"
                for key in box.keys
                if key not in asserted
            ]
            cells = [
                key
                for page, keys in claim.cells.items()
                if page in recorded or page == box.chapter
                for key in keys
            ]
            if cells and set(cells) != set(box.keys):
                found.append(f"the box in {box.chapter} is checked by other numbers")
        if claim.same_as is not None and [
            c.verdict for c in self.claims if c.id == claim.same_as
        ] != [stated]:
            found.append(
                f"it is counted with {claim.same_as}, which is not there or has another verdict"
            )
        check = CHECKS.get(claim.check or "")
        if (
            claim.kind == "experiment"
            and check is not None
            and check.on_paper
            and not (claim.cells or claim.proof)
        ):
            found.append("arithmetic on the paper's figures is all the evidence of an experiment")
        found += [
            f"{chapter}, where it is argued, is no chapter"
            for chapter in claim.read
            if chapter not in self.chapters
        ]
        for chapter, keys in claim.cells.items():
            missing = sorted(set(keys) - set(self.rules.get(chapter, {})))
            found += [f"{key} of {chapter} is not asserted" for key in missing]
        return found + [
            f"{label} is proved nowhere" for label in claim.proof if label not in self.statements
        ]

    def link(self, chapter: str) -> str:
        """Return a relative link, as the pages have, that Jupyter follows too.

        A page without a number is called by its title.
        """
        file = self.chapters[chapter]
        number = file.name.partition("_")[0]
        if number.isdigit():
            return f"[Chapter {int(number)}]({file.name})"
        title = re.search(r"^# (.+)$", _text(file), re.MULTILINE)
        return f"[{title[1] if title else chapter}]({file.name})"


def rule_text(rule: Mapping[str, Any]) -> str:
    """What a rule of ``tests/headline.yml`` demands, in signs.

    >>> rule_text({"min": 0.4, "max": 1e-6, "at_most": "other"})
    '≥ 0.4, ≤ 1e-06, ≤ `other`'
    """
    own = {**rule, **rule.get("real", {})}
    shown = {
        k: f"`{v}`" if isinstance(v, str) else _number(v) for k, v in own.items() if k in SIGNS
    }
    return ", ".join(f"{SIGNS[word]} {value}" for word, value in shown.items())


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def stored_rows() -> Results:
    """The stored records of all experiments."""
    return Results([row for experiment in EXPERIMENTS for row in load(experiment)])


def settle(text: str, findings: Mapping[str, Finding]) -> str:
    """A ledger file with the verdicts of its open claims filled in where their checks are decided.

    >>> settle(
    ...     "- id: e1-1\\n  kind: experiment\\n  verdict: open\\n", {"e1-1": Finding("", "holds")}
    ... )
    '- id: e1-1\\n  kind: experiment\\n  verdict: holds\\n'
    """

    def decided(match: re.Match[str]) -> str:
        finding = findings.get(match[2])
        if finding is None or finding.verdict is None:
            return match[0]
        return match[1] + finding.verdict

    return re.sub(r"(- id: '?([\w-]+)'?\n(?:(?!\s*- id:).*\n)*?\s*verdict: )open", decided, text)


def remember(executed: Path, book: Path) -> None:
    """Store the headline numbers of chapters that were executed on the real data beside the ledger;
    others stay.
    """
    file = book / MEASURED
    known = read_yaml(file) if file.is_file() else {}
    for chapter, notebook in chapters_of(executed).items():
        found = json.loads(notebook.read_text())
        if found["metadata"].get("ddmip", {}).get("data_source") == "real":
            outputs = [output for cell in found["cells"] for output in cell.get("outputs", [])]
            numbers = [output.get("metadata", {}).get(METADATA_KEY, {}) for output in outputs]
            known[chapter] = {name: value for part in numbers for name, value in part.items()}
    file.write_text(yaml.safe_dump(known, sort_keys=True))


def main(argv: list[str] | None = None) -> int:
    """Settle a ledger's file by the stored records, and print what contradicts it; 1 where
    something does.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ddmip_book.experiments.ledger",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="the ledger: book/claims.yml")
    parser.add_argument(
        "--measured", type=Path, help="a folder of executed chapters whose numbers to store"
    )
    given = parser.parse_args(argv)
    path = given.file.resolve()
    if not path.is_file():
        parser.error(f"there is no file {path}: name the ledger, book/claims.yml in the repository")
    rules = read_yaml(path.parents[1] / "tests" / "headline.yml")
    if given.measured is not None:
        remember(given.measured, path.parent)
    stored = stored_rows()
    before = Ledger.read(path.parent, rules, stored)
    path.write_text(settle(path.read_text(), before.findings))
    ledger = Ledger.read(path.parent, rules, stored)
    print("\n".join(ledger.contradictions()) or "nothing contradicts the ledger")
    return int(bool(ledger.contradictions()))


if __name__ == "__main__":
    sys.exit(main())
