"""Proofs of what enumeration called optimal, outside the solver that claimed it."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ddmip_book.experiments.execute import build
from ddmip_book.experiments.networks import digest, networks_of
from ddmip_book.experiments.proofs import FILE, proved, read_proofs
from ddmip_book.experiments.rows import Row
from ddmip_lib import Enumeration
from ddmip_lib.methods import start_run
from ddmip_lib.proofs.exact import tabulated_program
from ddmip_lib.proofs.tables import tables_of


def prove_rows(rows: Iterable[Row], folder: Path, seconds: float = 600.0) -> None:
    """Try to prove each "optimal" of an enumeration, and write down each bound as it is found."""
    for row in rows:
        found = read_proofs(folder)
        if row.method != "enumeration" or row.status != "optimal" or proved(row, found):
            continue
        nets = networks_of(row.case, folder / "networks")
        if digest(nets) != row.weights["sha256"]:
            print(
                f"{row.key}: its networks are not here; set DDMIP_DATA_DIR to the folder of the"
                " real files",
                flush=True,
            )
            continue
        began = time.perf_counter()
        problem = build(row.case, nets)
        run = start_run(problem, seconds, row.seed)
        best = Enumeration(check=False).solve(problem, 60, row.seed)
        assert best.values is not None
        incumbent = run.verified(best)
        instance = run.instance
        tables = tables_of(instance, [np.arange(len(where.index)) for where in instance.maps])
        assert tables is not None
        result = run.prove(tabulated_program(instance, incumbent.units, tables))
        spent = time.perf_counter() - began
        bound = -row.sign * result.bound
        found[row.key] = {
            "bound": bound,
            "nodes": result.nodes,
            "seconds": round(spent, 1),
            "complete": result.complete,
        }
        temporary = folder / f".{FILE}"
        temporary.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        temporary.replace(folder / FILE)
        print(
            f"{row.key}: objective {row.objective:.6f}, bound {bound:.6f}, {result.nodes} nodes,"
            f" {spent:.0f} s",
            flush=True,
        )
