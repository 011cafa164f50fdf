"""Ratios and slopes of seconds, side by side: what the chapters count, here by the clock. Nothing
is asserted.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ddmip_book.examples.costs import (
    as_frozen,
    gradient_seconds,
    input_gradient,
    median_seconds,
    multiply_adds,
    operations,
    parameter_count,
    power_law,
)
from ddmip_book.examples.mip_forms import EpigraphBlock
from ddmip_book.experiments.grids import E2_NETWORKS
from ddmip_book.experiments.networks import untrained
from ddmip_book.networks import conv1d, lstm, mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PGD, DualDecomposition, LogBarrier
from ddmip_lib.decomposition.mip_block import QPBlock

ROOT = Path(__file__).resolve().parent.parent
N = 100
"""Samples of a gradient that is timed."""
FAMILIES: dict[str, tuple[Callable[..., nn.Module], tuple[tuple[int, int], ...]]] = {
    "dense": (mlp, ((2, 16), (4, 32), (6, 64), (6, 128), (8, 256), (8, 512), (8, 768))),
    "convolution": (conv1d, ((2, 8), (4, 16), (4, 64), (4, 128), (4, 192))),
    "LSTM": (lstm, ((1, 16), (1, 32), (1, 64), (1, 128), (1, 256))),
}
STARTS = {
    "import torch": "import torch",
    "import ddmip_lib": "import ddmip_lib",
}
CPU = (
    "import resource; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
)


def slopes() -> list[dict[str, Any]]:
    """Slopes in the parameters, timed and counted: of one gradient, for kinds of networks and for
    those of E2.
    """
    rows = []
    nets: dict[str, list[nn.Module]] = {}
    for name, (make, sizes) in FAMILIES.items():
        nets[name] = [as_frozen(make(depth, width, 9)) for depth, width in sizes]
    nets["E2's"] = [as_frozen(untrained(network, 9, 42)) for network in E2_NETWORKS[:-1]]
    for name, family in nets.items():
        size = [parameter_count(net) for net in family]
        seconds = [gradient_seconds(net, N, repeats=3) for net in family]
        work = [multiply_adds(net, 9) for net in family]
        calls = [operations(net, 9) for net in family]
        rows.append(
            {
                "networks": name,
                "seconds": power_law(size, seconds).slope,
                "seconds_large": power_law(size[-3:], seconds[-3:]).slope,
                "multiply_adds": power_law(size, work).slope,
                "calls": power_law(size, calls).slope,
                "ns_per_multiply_add": 1e9 * seconds[-1] / (2 * N * work[-1]),
            }
        )
    return rows


def ratios() -> list[dict[str, Any]]:
    """Ratios of seconds beside those of what is counted, each a quotient of two measurements in one
    process.
    """
    quotients = (
        _kinds_of_networks,
        _gradient_over_forward,
        _batches,
        _slopes,
        _nn_blocks,
        _x_steps,
    )
    return [quotient()._asdict() for quotient in quotients]


class Quotient(NamedTuple):
    """One row of the table of ratios."""

    ratio: str
    seconds: float
    counted: float
    what_is_counted: str


def _kinds_of_networks() -> Quotient:
    dense = as_frozen(mlp(3, 96, 9))
    recurrent = as_frozen(lstm(1, 64, 9))
    seconds = gradient_seconds(recurrent, N) / gradient_seconds(dense, N)
    counted = multiply_adds(recurrent, 9) / multiply_adds(dense, 9)
    return Quotient("LSTM 1x64 over dense 3x96, gradient", seconds, counted, "multiply-adds")


def _gradient_over_forward() -> Quotient:
    net = as_frozen(mlp(4, 256, 9))
    x = torch.randn(N, 9, dtype=torch.float64)
    forward = median_seconds(lambda: net(x))
    seconds = median_seconds(lambda: input_gradient(net, x)) / forward
    counted = multiply_adds(net, 9, "gradient") / multiply_adds(net, 9)
    return Quotient("gradient over pass forward, 4x256", seconds, counted, "multiply-adds")


def _batches() -> Quotient:
    net = as_frozen(mlp(4, 64, 9))
    x = torch.randn(N, 9, dtype=torch.float64)
    singly = median_seconds(lambda: [input_gradient(net, row[None]) for row in x], 3)
    seconds = singly / gradient_seconds(net, N)
    counted = N * operations(net, 9, 1) / operations(net, 9, N)
    return Quotient(f"{N} samples one by one over one batch", seconds, counted, "calls of torch")


def _slopes() -> Quotient:
    slope = _slope_in_samples(as_frozen(mlp(4, 64, 9)))
    return Quotient("slope in samples, 4x64", slope, 1.0, "multiply-adds")


def _nn_blocks() -> Quotient:
    pgd_seconds, pgd_passes = _nn_block(PGD())
    barrier_seconds, barrier_passes = _nn_block(LogBarrier())
    seconds = barrier_seconds / pgd_seconds
    counted = barrier_passes / pgd_passes
    return Quotient("NN block, barrier over PGD", seconds, counted, "network passes")


def _slope_in_samples(net: nn.Module) -> float:
    counts = [1000, 3000, 10000]
    return power_law(counts, [gradient_seconds(net, count, repeats=3) for count in counts]).slope


def _nn_block(block: Any) -> tuple[float, int]:
    """Median seconds of the NN block in an iteration on Water, and passes of its network in the
    whole run.
    """
    net = mlp(2, 16, 9, seed=42)
    passes = list[int]()
    net.register_forward_hook(lambda *_: passes.append(1))
    problem = water_potability(n=12, net=net, seed=42)
    history = DualDecomposition(block, max_iterations=10).solve(problem, seed=42).history
    return float(np.median(history["seconds_nn"])), len(passes)


def _x_steps() -> Quotient:
    """Compare an x-update of Water by SCIP with one by PIQP."""
    solver = DualDecomposition(penalty=1.0)
    run = solver.start(water_potability(n=25, net=mlp(2, 16, 9, seed=42), seed=42), seed=42)
    for _ in range(5):
        solver.step(run)
    question = run.lam, run.copies, run.split.weights(run.rho)
    by_scip = EpigraphBlock(run.split)
    by_piqp = QPBlock(run.split)
    by_piqp.knapsacks = None  # which the library would sort
    seconds = [
        statistics.median(block.solve(*question).seconds for _ in range(5))
        for block in (by_scip, by_piqp)
    ]
    pivots = by_scip.model.getNLPIterations()
    counted = "simplex iterations, of SCIP alone"
    return Quotient("x-step of Water, SCIP over PIQP", seconds[0] / seconds[1], pivots, counted)


def fresh_processes(repeats: int = 5) -> list[dict[str, Any]]:
    """Processor and wall-clock seconds of a new process: imports, and the first example of
    README.md.
    """
    example = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    codes = {**STARTS, "README's first example": example}
    return [{"process": name, **_of_process(code, repeats)} for name, code in codes.items()]


def _of_process(code: str, repeats: int) -> dict[str, float]:
    run = partial(
        subprocess.run,
        [sys.executable, "-c", f"{code}\n{CPU}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    run(check=True)  # compiled files and the disk's cache
    processor = []
    wall = []
    for _ in range(repeats):
        began = time.perf_counter()
        done = run(check=True)
        wall.append(time.perf_counter() - began)
        processor.append(float(done.stdout.split()[-1]))
    return {
        "cpu_s": statistics.median(processor),
        "least_cpu_s": min(processor),
        "wall_s": statistics.median(wall),
    }
