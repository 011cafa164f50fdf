"""Which states of the code gave the same results, so that rows need not be run again for a renamed
variable.

``code.json`` beside the rows holds it, by method and problem: a hash that rows carry, the hash of
the later code that repeated a sample of them with the same outcome, how many runs that were, and
the file that holds them. `tools.compare_runs` makes the comparison and writes the file.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ddmip_book.experiments.rows import Row
from .code_hash import method_hash

FILE = "code.json"
Known = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By method and problem, by hash: `same_as`, `runs` and `shown_by`."""


def kind_of(row: Row) -> str:
    """What a row's code is told apart by: method and problem."""
    return f"{row.method} on {row.problem}"


def made_by(row: Row) -> str | None:
    """The hash of the code that made a row: of its method, or in rows before there was one, of all
    solvers.
    """
    found: str | None = row.provenance.get("code") or row.provenance.get("solvers")
    return found


def read_known(folder: Path) -> Known:
    """The contents of ``code.json`` in `folder`; nothing is known where there is none."""
    file = folder / FILE
    found: Known = json.loads(file.read_text()) if file.is_file() else {}
    return found


def is_todays(row: Row, known: Known) -> bool:
    """Whether the code at hand made this row, or is known to give the same results as the code that
    did.
    """
    code = made_by(row)
    now = method_hash(row.method, row.problem)
    steps = known.get(kind_of(row), {})
    passed = set[str]()
    while code is not None and code != now and code in steps and code not in passed:
        passed.add(code)
        code = steps[code]["same_as"]
    return code is not None and code == now


def account(rows: Iterable[Row], known: Known) -> list[str]:
    """Where rows come from, a line for each thing to say; rows that code outside the packages made
    are left out.
    """
    rows = [row for row in rows if method_hash(row.method, row.problem) is not None]
    older = [row for row in rows if not is_todays(row, known)]
    lines = []
    if len(rows) > len(older):
        lines.append(f"{len(rows) - len(older)} records come from code that gives today's results")
    if older:
        lines.append(
            f"{len(older)} records come from code that was not shown to give today's results:"
        )
        origins = Counter((kind_of(row), made_by(row), row.provenance["commit"]) for row in older)
        lines += [
            f"  {number} x {kind}, code {code} of commit {commit}"
            for (kind, code, commit), number in sorted(origins.items(), key=str)
        ]
    uncommitted = sum(row.provenance["uncommitted"] for row in rows)
    if uncommitted:
        lines.append(f"{uncommitted} records come from code that was not committed as it ran")
    return lines
