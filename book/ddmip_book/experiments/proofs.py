"""Which stored "optimal" is one: bounds of records by exact methods, checked outside the solvers
that claimed them.
"""

import json
from pathlib import Path
from typing import Any

from ddmip_lib.proofs import CLOSED
from .rows import Row

FILE = "proofs.json"


def read_proofs(folder: Path) -> dict[str, dict[str, Any]]:
    """What `python -m experiments prove` wrote, by the keys of the records."""
    path = folder / FILE
    return json.loads(path.read_text()) if path.is_file() else {}


def proved(row: Row, proofs: dict[str, dict[str, Any]]) -> bool:
    """Whether a record's objective was shown to be the best: by a certificate of ours, or by a
    checked bound.
    """
    if row.status != "optimal" or row.objective is None:
        return False
    if row.method == "certificate" or "check_nodes" in row.details:
        return True
    known = proofs.get(row.key)
    return known is not None and row.sign * (known["bound"] - row.objective) <= CLOSED * max(
        1.0, abs(row.objective)
    )
