"""The claims ledger against the book: complete, free of contradictions, and shown entirely on its
page.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from ddmip_book.experiments.claims import CHECKS
from ddmip_book.experiments.claims.finding import NOT_SHOWN, UNTESTABLE
from ddmip_book.experiments.grids import EXPERIMENTS, grid
from ddmip_book.experiments.ledger import OPEN, VERDICTS, Ledger, stored_rows
from ddmip_book.yaml_file import read_yaml
from tools.notebooks import ROOT, contents

BOOK = ROOT / "book"


@cache
def the_ledger() -> Ledger:
    rules = read_yaml(ROOT / "tests" / "headline.yml")
    return Ledger.read(BOOK, rules, stored_rows())


def test_nothing_contradicts_the_ledger() -> None:
    assert the_ledger().contradictions() == []


def test_every_numbered_claim_is_listed() -> None:
    listed = {claim.id for claim in the_ledger().claims}
    assert {*map(str, range(1, 36)), *(f"x{i}" for i in range(1, 26))} <= listed
    for experiment in EXPERIMENTS:
        own = sorted(
            int(name.split("-")[1]) for name in listed if name.startswith(f"{experiment}-")
        )
        assert own == list(range(1, len(own) + 1))


def test_claims_say_where_and_why() -> None:
    for claim in the_ledger().claims:
        assert claim.place, claim.id
        assert claim.why.endswith("."), claim.id
        assert not claim.says.endswith("."), claim.id
        assert bool(claim.quote) != claim.ours, (
            f"{claim.id}: the paper's words, unless the claim is ours"
        )


def test_evidence_can_be_followed_to_a_page() -> None:
    ledger = the_ledger()
    assert [
        c.id for c in ledger.claims if not (c.cells or c.proof or c.read or c.id in ledger.boxes)
    ] == []


def test_experiments_are_judged_by_computation() -> None:
    judged = [
        c
        for c in the_ledger().claims
        if c.kind == "experiment" and c.verdict not in (NOT_SHOWN, UNTESTABLE)
    ]
    assert [c.id for c in judged if c.check is None or CHECKS[c.check].on_paper] == []


def test_nothing_stays_open_when_all_runs_are_stored() -> None:
    ledger = the_ledger()
    stored = {row.key for row in stored_rows()}
    wanted = {case.key for experiment in EXPERIMENTS for case in grid(experiment)}
    still_open = [claim.id for claim in ledger.claims if ledger.verdict(claim) == OPEN]
    assert not still_open or wanted - stored


@pytest.mark.parametrize("verdict", VERDICTS)
def test_another_verdict_on_any_examined_claim_would_be_noticed(verdict: str) -> None:
    ledger = the_ledger()
    changed = [
        c for c in ledger.claims if c.id in ledger.boxes and c.verdict not in (verdict, OPEN)
    ]
    assert changed
    for claim in changed:
        other = replace(
            ledger,
            claims=[replace(claim, verdict=verdict)],
            boxes={claim.id: ledger.boxes[claim.id]},
        )
        assert [
            line
            for line in other.contradictions()
            if line.startswith(f"claim {claim.id}: the ledger states")
        ]


def test_the_page_shows_every_part() -> None:
    source = contents().notebook("claims").read_text()
    assert re.findall(r'entries\(ledger, \\"(.+?)\\"\)', source) == the_ledger().parts
