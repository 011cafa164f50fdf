"""What one outer iteration costs: `python -m ddmip_lib.bench` (or `make bench`) prints and stores one table.

Seconds are split into the MIP block, the NN block and the rest, beside the bare cost of the same number of
forward and backward passes. All figures come from one run on one machine, so compare them with each other only.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import __version__
from .blocks.pgd import PGD
from .data import load_water, source_line
from .decomposition import DualDecomposition
from .predictors import describe, mlp
from .problems import water_potability

SIZES = (25, 50, 100, 200, 400)
NETS = ((2, 16), (4, 32), (6, 64), (6, 128))
COLUMNS = ("net", "n", "mip_ms", "nn_ms", "rest_ms", "passes_ms")


def iteration_cost(depth: int, width: int, n: int, iterations: int = 10, steps: int = 25) -> dict[str, Any]:
    """Mean milliseconds of an iteration of Algorithm 1 with Adam, after one iteration of warm-up."""
    net = mlp(depth, width, 9, seed=0).double().requires_grad_(False)
    problem = water_potability(n=n, net=net, seed=42)
    solver = DualDecomposition(nn_block=PGD(steps=steps, method="adam"), penalty=10.0)
    run = solver.start(problem, seed=42)
    solver.step(run)
    begin = time.perf_counter()
    for _ in range(iterations):
        solver.step(run)
    total = 1e3 * (time.perf_counter() - begin) / iterations
    mip = 1e3 * float(np.mean(run.history["seconds_mip"][1:]))
    nn = 1e3 * float(np.mean(run.history["seconds_nn"][1:]))
    passes = 1e3 * _bare_passes(net, problem.start[0] if problem.start else np.zeros((n, 9)), steps)
    return {
        "net": f"{depth}x{width}",
        "n": n,
        "mip_ms": mip,
        "nn_ms": nn,
        "rest_ms": total - mip - nn,
        "passes_ms": passes,
    }


def _bare_passes(net: torch.nn.Module, x: np.ndarray, steps: int) -> float:
    u = torch.tensor(x, requires_grad=True)
    begin = time.perf_counter()
    for _ in range(steps):
        torch.autograd.grad(torch.sigmoid(net(u)).sum(), u)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of one outer iteration of Algorithm 1.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--output", type=Path, default=Path("_build/bench.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    load_water()
    print(source_line())
    print(" ".join(f"{name:>10}" for name in COLUMNS))
    rows = []
    for depth, width in NETS:
        for n in arguments.sizes:
            row = iteration_cost(depth, width, n)
            rows.append(row)
            print(
                " ".join(
                    f"{row[c]:>10.2f}" if isinstance(row[c], float) else f"{row[c]:>10}" for c in COLUMNS
                )
            )
    record = {
        "library": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "date": time.strftime("%Y-%m-%d"),
        "data": source_line(),
        "networks": [describe(mlp(depth, width, 9)) for depth, width in NETS],
        "rows": rows,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1))
    print(f"stored in {arguments.output}")


if __name__ == "__main__":
    main()
