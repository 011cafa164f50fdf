"""Write the tables of book/support.md: what each method does with a tiny problem of each kind.

    python -m tools.support [--check]

Nothing in the tables is typed: every cell is a call. Tests repeat some calls, and all of them if
asked for the long ones.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    NeuralMIP,
    PriceCoordination,
    SequentialMIP,
    Solution,
    certify,
)
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from tools.support_problems import TABLES, Kind

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "support.md"
BLOCK = re.compile(r"(<!-- from calls -->\n).*?(<!-- end -->)", re.DOTALL)
SECONDS = 4.0
"""Time limit of a call; it ends searches, and a first bound takes a fraction of a second."""
REFUSALS = (ProblemError, UnsupportedNetworkError)
PROVED = "proved"
CLAIMED = "claimed"
SEARCHED = "searched"
REFUSES = "refused"
NOTHING = "no point found"


def certified(problem: NeuralMIP) -> Solution:
    """A certificate for the point that Algorithm 1 finds in a few iterations."""
    found = DualDecomposition(max_iterations=5).solve(problem, time_limit=SECONDS)
    return certify(problem, found, time_limit=SECONDS, workers=1)


def called(method: Callable[..., Solution]) -> Callable[[NeuralMIP], Solution]:
    """A function of a problem alone that calls `method` with the time limit."""
    return partial(method, time_limit=SECONDS)


CALLS: dict[str, Callable[[NeuralMIP], Solution]] = {
    "`BigM`": called(BigM().solve),
    '`BigM(ranges="crown")`': called(BigM(ranges="crown").solve),
    "`Enumeration`": called(Enumeration().solve),
    "`certify`": certified,
    "`DualDecomposition`": called(DualDecomposition(max_iterations=10).solve),
    "`SequentialMIP`": called(SequentialMIP(max_failed_starts=1).solve),
    "`PriceCoordination`": called(PriceCoordination(max_rounds=3).solve),
}
"""The columns of every table."""


def outcome(kind: Kind, method: Callable[[NeuralMIP], Solution]) -> str:
    """What a method does with a problem, in one word."""
    try:
        solution = method(kind.build())
    except REFUSALS:
        return REFUSES
    if solution.status == "infeasible" or (solution.proof is not None and solution.proof.checked):
        return PROVED
    if solution.bound is not None:
        return CLAIMED
    return SEARCHED if solution.found else NOTHING


def line(kind: Kind) -> str:
    """The line of a table."""
    cells = [outcome(kind, method) for method in CALLS.values()]
    print(kind.name, *cells, sep=", ", flush=True)
    return f"| {' | '.join([kind.name, *cells])} |"


def lines(title: str) -> Iterator[str]:
    """The lines of a table, its head first."""
    yield f"| {' | '.join([title.lower(), *CALLS])} |"
    yield "|---" * (1 + len(CALLS)) + "|"
    for kind in TABLES[title]():
        yield line(kind)


def text() -> str:
    """All tables."""
    parts = []
    for title in TABLES:
        table = "\n".join(lines(title))
        parts.append(f"## {title}\n\n:::{{div}} support-table\n{table}\n:::\n")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    check = parser.parse_args().check
    before = PAGE.read_text(encoding="utf-8")
    tables = text()
    after = BLOCK.sub(lambda found: f"{found[1]}\n{tables}\n{found[2]}", before)
    if check:
        old = set(before.splitlines())
        print("\n".join(each for each in after.splitlines() if each not in old))
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
