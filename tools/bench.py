"""What things cost in seconds: `make bench` prints a table of each benchmark and stores all of
them.

- processes: `import ddmip_lib` beside `import torch`, and README's first example, each in a new
  process;
- slopes, ratios: seconds of networks and blocks beside what the chapters count of them
  (tools/bench_ratios.py);
- iterations: for each network and number of samples, the milliseconds of an iteration of Algorithm
  1: in the MIP block (and of these inside PIQP or SCIP), in the NN block, and the bare cost of the
  network passes that the iteration made, counted and run again on their own. What is left after
  solver and passes is the library's overhead;
- methods: one short run of each method; with `--against` another checkout beside this one
  (tools/bench_methods.py);
- limits: the seconds by which calls overrun their limits, and until Ctrl-C and a callback end them
  (tools/bench_limits.py).

Nothing is asserted. All figures come from one run on one machine: compare them with each other
only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ddmip_book.data import load_water, source_line
from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PGD, DualDecomposition, LogBarrier, NeuralMIP, __version__
from tools import bench_limits, bench_methods, bench_ratios
from tools.text_table import table

Rows = list[dict[str, Any]]
SIZES = (25, 50, 100, 200, 400)
NETS = ((2, 16), (4, 32), (6, 64), (6, 128))
BLOCKS: dict[str, Callable[[], Any]] = {
    "gradient": PGD,
    "adam": lambda: PGD(method="adam"),
    "barrier": LogBarrier,
}


class Counted(nn.Module):
    """A network that counts its passes, with and without a gradient to follow."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.calls = {True: 0, False: 0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls[torch.is_grad_enabled()] += 1
        return self.net(x)


def iteration_cost(
    block: str, depth: int, width: int, n: int, iterations: int = 10
) -> dict[str, Any]:
    """Mean milliseconds of an iteration with rho = 10, after one iteration of warm-up."""
    plain = mlp(depth, width, 9, seed=0)
    problem = water_potability(n=n, net=plain, seed=42)
    solver = DualDecomposition(nn_block=BLOCKS[block](), penalty=10.0)
    row: dict[str, Any] = {"block": block, "net": f"{depth}x{width}", "n": n}
    row |= _timed(problem, solver, iterations)
    if block == "barrier":
        # It differentiates twice as well: its bare cost is not a number of passes.
        return row | {"passes_ms": None, "overhead_ms": None}
    counted = water_potability(n=n, net=Counted(plain).eval(), seed=42)
    net = _counted(counted, solver, iterations)
    output = problem.predictors[0].raw(np.zeros((1, 9)))
    x = torch.tensor(output.repeat(9, axis=1).repeat(n, axis=0))
    calls = {with_gradient: count / iterations for with_gradient, count in net.calls.items()}
    passes = 1e3 * _bare(net.net, x, calls)
    overhead = row["iteration_ms"] - row["solver_ms"] - passes
    return row | {"passes_ms": passes, "overhead_ms": overhead}


def _timed(problem: NeuralMIP, solver: DualDecomposition, iterations: int) -> dict[str, float]:
    """Return the mean milliseconds of an iteration and of its parts."""
    run = solver.start(problem, seed=42)
    if any(p.requires_grad for p in run.split.instance.predictors[0].net.parameters()):
        raise RuntimeError("the weights of the network would get gradients")
    solver.step(run)
    seconds = []
    for _ in range(iterations):
        begin = time.perf_counter()
        solver.step(run)
        seconds.append(time.perf_counter() - begin)
    found = {"iteration_ms": 1e3 * float(np.mean(seconds))}
    for part in ("mip", "solver", "nn"):
        found[f"{part}_ms"] = 1e3 * float(np.mean(run.history[f"seconds_{part}"][1:]))
    return found


def _counted(problem: NeuralMIP, solver: DualDecomposition, iterations: int) -> Counted:
    """The network after the same iterations, with its passes counted; counting takes time, so this
    run is not timed.
    """
    run = solver.start(problem, seed=42)
    net = run.split.instance.predictors[0].net
    assert isinstance(net, Counted)
    solver.step(run)
    net.calls.update({True: 0, False: 0})
    for _ in range(iterations):
        solver.step(run)
    return net


def _bare(net: nn.Module, x: torch.Tensor, calls: dict[bool, float], repeats: int = 5) -> float:
    """Seconds of so many passes: forward and back where a gradient is followed, forward alone
    elsewhere.
    """
    u = x.clone().requires_grad_(True)
    ones = torch.ones(len(x), 1, dtype=x.dtype)

    def back() -> None:
        torch.autograd.grad(net(u), u, ones)

    def forward() -> None:
        with torch.no_grad():
            net(x)

    seconds = 0.0
    for run, count in ((back, calls[True]), (forward, calls[False])):
        measured = []
        for _ in range(repeats):
            begin = time.perf_counter()
            for _ in range(10):
                run()
            measured.append((time.perf_counter() - begin) / 10)
        seconds += count * float(np.mean(measured))
    return seconds


def iterations(arguments: argparse.Namespace) -> Rows:
    """The cost of an iteration for every NN block, network and number of samples."""
    return [
        iteration_cost(block, *net, n)
        for block in arguments.blocks
        for net in NETS
        for n in arguments.sizes
    ]


BENCHMARKS: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "processes": lambda _: bench_ratios.fresh_processes(),
    "slopes": lambda _: bench_ratios.slopes(),
    "ratios": lambda _: bench_ratios.ratios(),
    "iterations": iterations,
    "methods": lambda _: bench_methods.short_runs(),
    "limits": lambda _: bench_limits.rows_of(),
}
"""The benchmarks by name; each returns the rows of its table."""


def arguments_of(benchmarks: Collection[str]) -> argparse.Namespace:
    """Read the command line; `only` is filled with all benchmarks if it names none."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", help="names of benchmarks; all of them if none is given"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--blocks", nargs="*", choices=list(BLOCKS), default=list(BLOCKS))
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("_build/bench.json"),
        help="and the tables beside it, .txt",
    )
    arguments = parser.parse_args()
    arguments.only = arguments.only or list(benchmarks)
    if unknown := set(arguments.only) - set(benchmarks):
        parser.error(f"--only {' '.join(sorted(unknown))}: choose among {', '.join(benchmarks)}")
    return arguments


def surroundings() -> dict[str, Any]:
    """Return what the figures depend on besides the code."""
    return {
        "library": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
        "data": source_line(),
    }


def main() -> None:
    arguments = arguments_of(BENCHMARKS)
    torch.set_num_threads(1)
    load_water()
    record = surroundings()
    print(source_line())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    text = arguments.output.with_suffix(".txt")
    text.write_text("")
    for name in arguments.only:
        record[name] = BENCHMARKS[name](arguments)
        shown = f"\n{name}\n{table(record[name])}"
        print(shown, flush=True)
        with text.open("a") as tables:
            tables.write(f"{shown}\n")
        arguments.output.write_text(json.dumps(record, indent=1))
    print(f"stored in {arguments.output} and {text}")


if __name__ == "__main__":
    main()
