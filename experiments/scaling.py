"""What more processes bring: ``python -m experiments.scaling`` measures and stores it
for one machine.

One row for each number of processes, in ``scaling.jsonl`` of the results folder: seconds of a round
of price coordination, in the networks and in the rest, and nodes of certificates in a second. With
``--whole N`` instead whole runs with N blocks and budgets in proportion, in ``large.jsonl``; with
``--search`` the certificate alone, in ``searches.jsonl``: until it ends, where the limit is long
enough, or, with ``--shared``, for as much processor time with many processes as with one; with
``--apart`` every process makes the whole certificate for itself, in ``apart.jsonl``: what the
machine can do, whoever shares the work out.
"""

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ddmip_book.data import source
from ddmip_book.experiments.cluster import cluster_client
from ddmip_book.experiments.scaling import (
    APART,
    LARGE,
    SCALING,
    SEARCHES,
    SHARDS,
    nodes,
    rounds,
    water,
)
from ddmip_book.experiments.store import results_folder
from ddmip_lib import NeuralMIP, PriceCoordination, Solution, __version__
from ddmip_lib.pricing.network_oracle import SHARD


def measured(
    processes: int, many: NeuralMIP, few: NeuralMIP, prices: Any, seconds: float
) -> dict[str, Any]:
    """One row: what so many processes of this machine do, a round with many blocks and a
    certificate of few.
    """
    with cluster_client(local=processes) if processes > 1 else nullcontext() as client:
        networks, rest, held = rounds(many, client, shards=max(SHARDS, processes))
        proof = nodes(few, prices, client, seconds)
    n = len(many.instance().maps[0].index)
    return {"n": n, "seconds_networks": networks, "seconds_rest": rest, "bytes": held} | told(
        proof, processes
    )


def searched(
    processes: int, few: NeuralMIP, prices: Any, seconds: float, dask: bool = True
) -> dict[str, Any]:
    """One row: a certificate alone, after a short one that nobody times: workers import torch with
    their first task.
    """
    with cluster_client(local=processes) if processes > 1 and dask else nullcontext() as client:
        nodes(few, prices, client, 5.0, processes)
        row = told(nodes(few, prices, client, seconds, processes), processes)
    return row | {"dask": client is not None}


def apart(
    processes: int, made_of: Mapping[str, Any], prices: Any, seconds: float
) -> dict[str, Any]:
    """One row: as many certificates side by side, each by a process that knows of no other; the
    nodes of all.
    """
    with cluster_client(local=processes) as client:
        assert client is not None
        for limit in (5.0, seconds):  # the first is not timed
            given = [
                client.submit(_alone, made_of, prices, limit, pure=False) for _ in range(processes)
            ]
            rows = client.gather(given)
    return rows[0] | {
        "processes": processes,
        "nodes": sum(row["nodes"] for row in rows),
        "seconds_certificate": float(np.mean([row["seconds_certificate"] for row in rows])),
    }


def _alone(made_of: Mapping[str, Any], prices: Any, seconds: float) -> dict[str, Any]:
    return told(nodes(water(**made_of), prices, None, seconds), 1)


def told(solution: Solution, processes: int) -> dict[str, Any]:
    """What is stored of a certificate."""
    proof = solution.details["certificate"]
    return {
        "processes": processes,
        "blocks": len(proof.closed),
        "nodes": proof.nodes,
        "seconds_certificate": proof.seconds,
        "bound": proof.bound,
        "closed": int(proof.closed.sum()),
        "data": source("water"),
        "version": __version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }


def whole(n: int, processes: int, depth: int, width: int, seconds: float) -> dict[str, Any]:
    """One row: price coordination on n blocks, budgets 2.0 for every 400 of them, by so many
    processes.
    """
    problem = water(n, depth, width, budget=2.0 * n / 400)
    with cluster_client(local=processes) if processes > 1 else nullcontext() as client:
        solution = PriceCoordination(client=client).solve(problem, seconds, seed=42)
    h = solution.history
    return {
        "processes": processes,
        "n": n,
        "network": f"{depth}x{width}",
        "seconds": solution.seconds,
        "status": solution.status,
        "objective": solution.objective,
        "lp_value": solution.details["lp_value"],
        "rounds": len(h),
        "seconds_networks": h["seconds_nn"].tolist(),
        "seconds_program": h["seconds_lp"].tolist(),
        "seconds_choice": h["seconds_mip"].tolist(),
        "shard": SHARD,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "data": source("water"),
        "version": __version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--n", type=int, default=16_000, help="blocks of a round")
    parser.add_argument("--blocks", type=int, default=400, help="of a certificate")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument(
        "--budget", type=float, default=2.0, help="of the blocks together, for each feature"
    )
    parser.add_argument(
        "--weights", type=Path, metavar="NPZ", help="of such a network, instead of training"
    )
    parser.add_argument(
        "--whole", type=int, default=0, metavar="N", help="complete runs with N blocks instead"
    )
    parser.add_argument("--search", action="store_true", help="certificates alone instead")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="of each certificate, or of each complete run"
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="a certificate by P processes gets a P-th of its seconds",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="a complete certificate by each of the processes instead",
    )
    parser.add_argument(
        "--no-dask", action="store_true", help="with --search: processes that certify starts itself"
    )
    parser.add_argument("--folder", type=Path, default=None, help="instead of data/results")
    return parser


def complete_runs(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """File and row of each number of processes."""
    network = (options.depth, options.width)
    for count in options.processes:
        yield LARGE, whole(options.whole, count, *network, options.seconds)


def timed_parts(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """File and row of each number of processes."""
    of: dict[str, Any] = {
        name: getattr(options, name) for name in ("depth", "width", "budget", "weights")
    }
    few = water(options.blocks, **of)
    prices = PriceCoordination().solve(few, 20.0, seed=42).details["prices"]
    many = None if options.apart or options.search else water(options.n, **of)
    name = options.weights.stem if options.weights else f"{options.depth}x{options.width}"
    for count in options.processes:
        seconds = options.seconds / (count if options.shared else 1)
        if options.apart:
            file = APART
            row = apart(count, {"n": options.blocks, **of}, prices, seconds)
        elif many is None:
            file = SEARCHES
            row = searched(count, few, prices, seconds, not options.no_dask)
        else:
            file = SCALING
            row = measured(count, many, few, prices, seconds)
        yield file, {"network": name, "budget": options.budget, **row}


def main(argv: list[str] | None = None) -> None:
    """Measure and append rows."""
    options = _arguments().parse_args(argv)
    folder = options.folder or results_folder(writing=True)
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for file, row in complete_runs(options) if options.whole else timed_parts(options):
        with (folder / file).open("a") as rows:
            rows.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
