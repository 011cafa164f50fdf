"""Seconds of one short run of each method, here and in another checkout of the project.

    python -m tools.bench_methods                          # this checkout alone
    python -m tools.bench_methods --against ../before      # both in turns: is a method slower?
    python -m tools.bench_methods --only sequential --runs 3

Every run ends after a fixed number of iterations, steps, rounds or nodes, so that both checkouts do
the same work; the table says whether the results agree. Each checkout has one process, which waits
while the other one works, and one run of each method comes before those that are measured. The
figures are processor seconds; the last column is the ratio of the two medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNS = 9
UNLIMITED = 3600.0
"""Seconds that no run comes near: a limit would end the two checkouts at different points."""


def methods() -> dict[str, Callable[[], Any]]:
    """Return one run of each method by its name; only names that old versions had are used."""
    from ddmip_book.networks import mlp
    from ddmip_book.problems import water_potability
    from ddmip_lib import (
        BigM,
        DualDecomposition,
        Enumeration,
        LogBarrier,
        PriceCoordination,
        Recovering,
        SequentialMIP,
        SingleStepGradient,
        certify,
        solve,
    )
    from ddmip_lib.problems import hand_sized

    def water(n: int, depth: int = 4, width: int = 32) -> Any:
        return water_potability(n=n, net=mlp(depth, width, 9, seed=0), seed=42)

    def solved(solver: Any, problem: Any) -> Any:
        return solver.solve(problem, time_limit=UNLIMITED, seed=1)

    def stopped_after(events: int) -> Callable[[Any], bool]:
        return lambda event: event.iteration >= events

    def certified() -> Any:
        problem = water(3, 2, 16)
        found = solved(PriceCoordination(max_rounds=2), problem)
        return certify(problem, found, time_limit=UNLIMITED)

    return {
        "dual decomposition": lambda: solved(DualDecomposition(max_iterations=30), water(25)),
        "with the paper's settings": lambda: solved(
            replace(DualDecomposition.paper(), max_iterations=10), water(25)
        ),
        "with the log barrier": lambda: solved(
            DualDecomposition(nn_block=LogBarrier(), max_iterations=10), water(10)
        ),
        "with the graph split": lambda: solved(
            DualDecomposition(split="graph", max_iterations=10), water(10)
        ),
        "recovering": lambda: solved(Recovering(DualDecomposition(max_iterations=10)), water(25)),
        "sequential": lambda: solved(SequentialMIP(callback=stopped_after(20)), water(10)),
        "price coordination": lambda: solved(PriceCoordination(max_rounds=3), water(25)),
        "single-step gradient": lambda: solved(
            SingleStepGradient(callback=stopped_after(200)), water(25)
        ),
        "Big-M": lambda: solved(BigM(), water(2, 2, 16)),
        "enumeration": lambda: solved(Enumeration(), hand_sized()),
        "certify": certified,
        "solve": lambda: solve(hand_sized(), time_limit=UNLIMITED, seed=1),
    }


def answer_requests() -> None:
    """Run methods by name, one for each line of the input, until it ends."""
    import torch

    torch.set_num_threads(1)
    known = methods()
    for line in sys.stdin:
        began = time.process_time()
        result = known[line.strip()]()
        seconds = time.process_time() - began
        values = [getattr(result, name, None) for name in ("status", "objective", "bound")]
        print(json.dumps({"seconds": seconds, "result": values}), flush=True)


class Checkout:
    """A process that runs the methods of one checkout."""

    def __init__(self, root: Path) -> None:
        paths = os.pathsep.join([str(root), str(root / "book")])
        single = {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--answer"],
            cwd=root,
            env={**os.environ, **single},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, method: str) -> tuple[float, list[Any]]:
        """Return the processor seconds of one run and its status, objective and bound."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{method}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                return answer["seconds"], answer["result"]
        raise RuntimeError(f"{method}: the process of the checkout ended; its error is above.")

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def measure(names: Sequence[str], runs: int, other: Path | None) -> list[dict[str, Any]]:
    """Return one row for each method: medians of both checkouts, and whether they agree."""
    here = Checkout(ROOT)
    checkouts = [here] if other is None else [Checkout(other.resolve()), here]
    rows = []
    for name in names:
        results = [checkout.run(name)[1] for checkout in checkouts]
        seconds: list[list[float]] = [[] for _ in checkouts]
        for _ in range(runs):
            for checkout, measured in zip(checkouts, seconds, strict=True):
                measured.append(checkout.run(name)[0])
        rows.append(_row(name, results, [statistics.median(each) for each in seconds]))
    for checkout in checkouts:
        checkout.close()
    return rows


def _row(name: str, results: list[list[Any]], medians: list[float]) -> dict[str, Any]:
    row: dict[str, Any] = {"method": name, "status": results[-1][0]}
    if len(medians) == 1:
        return {**row, "ms": 1e3 * medians[0]}
    before, after = medians
    same = "yes" if results[0] == results[1] else "no"
    return {
        **row,
        "same result": same,
        "before ms": 1e3 * before,
        "after ms": 1e3 * after,
        "after/before": after / before,
    }


def short_runs() -> list[dict[str, Any]]:
    """Return the rows of this checkout alone, for `make bench`."""
    return measure(list(methods()), RUNS, None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout")
    parser.add_argument("--only", nargs="+", choices=list(methods()), help="names of methods")
    parser.add_argument("--runs", type=int, default=RUNS, help="measured runs of each method")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_requests()
        return
    from tools.text_table import table  # not for the other checkout, which only answers

    rows = measure(options.only or list(methods()), options.runs, options.against)
    print(table(rows))


if __name__ == "__main__":
    main()
