"""The deep networks on a machine with a GPU: `python -m tools.gpu_run train|rows|compare --folder
FOLDER`.

`train` fits the networks that are too large to be stored, each in a process of its own, into the
cache of trained networks. `rows` then runs E2's cases on the GPU, one after another in one process,
and writes rows as `python -m experiments run` does, but with several threads: a point is
verified on the CPU in double precision, and one thread would take longer for that than the GPU
takes for everything else. `compare` times the same iterations with and without recorded passes, in
both precisions, and on that machine's own CPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from ddmip_book.experiments.case import SEEDS, Case
from ddmip_book.experiments.execute import build
from ddmip_book.experiments.grids import E2_NETWORKS
from ddmip_book.experiments.networks import networks_of
from ddmip_book.experiments.rows import provenance
from ddmip_book.experiments.runner import run_cases
from ddmip_lib import DualDecomposition
from ddmip_lib.device import PlacedNetwork
from experiments.worker import run_case

LARGE = E2_NETWORKS[-2:]
VARIANTS = (
    ("cuda", torch.float32, True),
    ("cuda", torch.float32, False),
    ("cuda", torch.float64, True),
    ("cpu", torch.float64, False),
)


def case_of(network: str, seed: int, device: str = "cuda") -> Case:
    return Case("e2", "water", network, 100, seed, "dd-paper-float32", device=device)


def train(networks: list[str], seeds: list[int]) -> None:
    """All of them side by side, on a core each."""
    jobs = [
        [sys.executable, "-m", "tools.gpu_run", "fit", n, str(s)]
        for n in reversed(networks)
        for s in seeds
    ]
    running = [subprocess.Popen(job) for job in jobs]
    failed = sum(process.wait() != 0 for process in running)
    if failed:
        raise SystemExit(f"{failed} trainings failed")


def fit(network: str, seed: int) -> None:
    """Deep networks die in training, and their products become subnormal numbers, on which a CPU is
    many times slower.

    Flushed to zero, five epochs of 64x512 took 20 s instead of 55 s and gave the same mean logit to
    the last digit.
    """
    torch.set_flush_denormal(True)
    began = time.perf_counter()
    networks_of(case_of(network, seed))
    print(f"trained {network}, seed {seed}: {time.perf_counter() - began:.0f} s", flush=True)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Networks on the device without recorded passes."""

    def eager(
        net: torch.nn.Module, device: Any, dtype: torch.dtype, like: torch.Tensor
    ) -> PlacedNetwork:
        return PlacedNetwork(net, device, dtype)

    with mock.patch("ddmip_lib.decomposition.split.place", eager):
        yield


def timed(
    problem: Any, small: Any, device: str, dtype: torch.dtype, iterations: int
) -> dict[str, Any]:
    """Seconds of an iteration, and what they went into, after a warm-up on a two-sample sibling."""
    solver = replace(
        DualDecomposition.paper(), device=device, dtype=dtype, max_iterations=iterations
    )
    replace(solver, max_iterations=2).solve(small, seed=SEEDS[0])
    solution = solver.solve(problem, time_limit=300.0, seed=SEEDS[0])
    history = solution.history
    k = len(solution.history)
    parts = {
        f"{part}_seconds": float(history[f"seconds_{part}"].sum()) / k for part in ("mip", "nn")
    }
    whole = (history["seconds"][-1] - history["seconds"][0]) / max(1, k - 1)
    return {
        "iterations": k,
        "seconds": solution.seconds,
        "iteration_seconds": float(whole),
        **parts,
        "residual": float(history["primal_residual"][-1]),
    }


def compare(networks: list[str], weights: Path | None, iterations: int) -> list[dict[str, Any]]:
    found = []
    for network in networks:
        case = case_of(network, SEEDS[0])
        nets = networks_of(case, weights)
        problem = build(case, nets)
        small = build(case, nets, 2)
        for device, dtype, recorded in VARIANTS:
            with nullcontext() if recorded else unrecorded():
                row = timed(problem, small, device, dtype, iterations)
            name = str(dtype).removeprefix("torch.")
            found.append(
                {"network": network, "device": device, "dtype": name, "recorded": recorded, **row}
            )
            print(json.dumps(found[-1]), flush=True)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "rows", "compare", "fit"):
        command = commands.add_parser(name)
        if name == "fit":
            command.add_argument("network")
            command.add_argument("seed", type=int)
            continue
        command.add_argument(
            "--networks", nargs="+", default=list(LARGE if name == "train" else E2_NETWORKS)
        )
        command.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
        command.add_argument(
            "--folder", type=Path, default=Path("_build/gpu"), help="where rows and networks are"
        )
        command.add_argument("--threads", type=int, default=8)
        command.add_argument("--iterations", type=int, default=10)
    return parser.parse_args()


def run_rows(networks: Sequence[str], seeds: Sequence[int], folder: Path) -> None:
    """Run and store the rows of E2 on the card."""
    for seed in seeds:
        for network in networks:
            case = case_of(network, seed)
            (row,) = run_cases([case], folder, run_case)
            seconds = f"{row.seconds:.2f} s (MIP {row.seconds_mip:.2f}, NN {row.seconds_nn:.2f})"
            residual = f"residual {row.primal_residual:.2g}"
            print(f"{case.key}: {seconds}, {row.iterations} iterations, {residual}", flush=True)


def main() -> None:
    options = arguments()
    if options.command == "fit":
        fit(options.network, options.seed)
        return
    torch.set_num_threads(options.threads)
    if options.command == "train":
        train(options.networks, options.seeds)
    elif options.command == "rows":
        run_rows(options.networks, options.seeds, options.folder)
    else:
        rows = compare(options.networks, options.folder / "networks", options.iterations)
        record = {"rows": rows, "provenance": provenance([], "cuda", 1)}
        file = options.folder / f"compare_{options.networks[0]}.json"
        file.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
