"""What more processes bring: ``python -m ddmip_book.experiments.scaling`` measures and stores it
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
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from scipy.optimize import nnls

from ddmip_lib import NeuralMIP, PriceCoordination, Solution, __version__, certify
from ddmip_lib.data import load_water, source
from ddmip_lib.predictors import load_npz, mlp, train
from ddmip_lib.pricing import network_oracle as search
from ddmip_lib.problems import water_potability
from .cluster import cluster_client
from .store import results_folder

FILE = "scaling.jsonl"
LARGE = "large.jsonl"
SEARCHES = "searches.jsonl"
APART = "apart.jsonl"
SHARDS = 4  # of a timed round, unless there are more workers


@dataclass(frozen=True)
class Cost:
    """Seconds of a round: for each `shard` and for each block, `shared` among the workers, and in
    one place.

    The last part is `alone` times a `power` of the number of blocks.

    >>> cost = Cost(shard=0.0, shared=3e-3, alone=1e-3)
    >>> round(cost.seconds(1000, 3, shards=6), 6), round(cost.efficiency(1000, 3, shards=6), 3)
    (2.0, 0.667)
    """

    shard: float
    shared: float
    alone: float
    power: float = 1.0

    def seconds(self, n: float, workers: float, shards: int | None = None) -> float:
        """Of one round with n blocks, in so many shards or in those of the library."""
        shards = shards_of(n) if shards is None else shards
        return (shards * self.shard + n * self.shared) / min(workers, shards) + self.centre(n)

    def centre(self, n: float) -> float:
        """Of these, what is done in one place."""
        return self.alone * n**self.power

    def efficiency(self, n: float, workers: float, shards: int | None = None) -> float:
        """The speed-up over one worker, for each worker."""
        return self.seconds(n, 1, shards) / (workers * self.seconds(n, workers, shards))


def shards_of(n: float) -> int:
    """How many shards the library makes of n blocks with one network.

    >>> shards_of(1_024), shards_of(10**6)
    (1, 977)
    """
    return int(-(-n // search.SHARD))


def fitted(sizes: Any, networks: Any, rest: Any, shards: int = SHARDS) -> Cost:
    """The cost whose sums are nearest to measured seconds, relatively, and not negative.

    >>> round(fitted([100, 200], [0.3, 0.5], [0.1, 0.4]).power, 9)
    2.0
    """
    n, networks, rest = (np.asarray(part, dtype=float) for part in (sizes, networks, rest))
    each, shared = nnls(
        np.column_stack([np.full_like(n, shards), n]) / networks[:, None], np.ones_like(n)
    )[0]
    power, level = np.polyfit(np.log(n), np.log(rest), 1)
    return Cost(float(each), float(shared), float(np.exp(level)), float(power))


def water(
    n: int,
    depth: int = 2,
    width: int = 16,
    seed: int = 42,
    budget: float = 2.0,
    weights: Path | None = None,
) -> NeuralMIP:
    """Water Potability with n samples, drawn with replacement, that share the same budgets, however
    many they are.

    The network is trained here, unless there is a file of its weights.
    """
    net = (
        load_npz(weights)
        if weights
        else train(mlp(depth, width, 9, seed=seed), load_water(), seed=seed)
    )
    return water_potability(n=n, net=net, seed=seed, budget=budget, repeat=True, arrays=True)


class Timed(NamedTuple):
    """Least seconds of a round in the networks and in the rest, and the bytes of the pool after the
    last one.
    """

    networks: float
    rest: float
    bytes: int


def rounds(problem: NeuralMIP, client: Any = None, count: int = 2, shards: int = SHARDS) -> Timed:
    """So many rounds with the blocks in so many shards, after a first round that nobody times."""
    solver = PriceCoordination(client=client)
    with patch.object(search, "SHARD", -(-len(problem.instance().maps[0].index) // shards)):
        market = solver.start(problem, seed=0)
        for _ in range(count + 1):
            solver.round(market)
    timed = [*market.rounds][1:]
    pool = market.pool
    held = sum(part.nbytes for part in (pool.at, pool.u, pool.value, pool.use))
    return Timed(
        min(r.seconds_nn for r in timed), min(r.seconds_lp + r.seconds_mip for r in timed), held
    )


def nodes(
    problem: NeuralMIP, prices: Any, client: Any = None, seconds: float = 30.0, workers: int = 1
) -> Solution:
    """A certificate by so many processes of its own, or by the workers of a cluster."""
    nothing = Solution("no_solution_found", "none")
    return certify(
        problem,
        nothing,
        prices,
        seconds,
        workers=None if client is not None else workers,
        client=client,
    )


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
        "shard": search.SHARD,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "data": source("water"),
        "version": __version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }


def stored(folder: Path | None = None, name: str = FILE) -> list[dict[str, Any]]:
    """The rows that were stored, if any.

    >>> isinstance(stored(), list)
    True
    """
    path = (folder or results_folder()) / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def speedups(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """How many times faster than in the first row a round, its networks and a certificate are.

    >>> row = {
    ...     "seconds_networks": 3.0,
    ...     "seconds_rest": 1.0,
    ...     "nodes": 10,
    ...     "seconds_certificate": 2.0,
    ... }
    >>> {
    ...     name: value.tolist()
    ...     for name, value in speedups([row, row | {"seconds_rest": 0.2}]).items()
    ... }
    {'round': [1.0, 1.25], 'networks alone': [1.0, 1.0], 'certificate': [1.0, 1.0]}
    """
    networks, rest, nodes, seconds = (
        np.array([row[name] for row in rows], dtype=float)
        for name in ("seconds_networks", "seconds_rest", "nodes", "seconds_certificate")
    )
    taken = {"round": networks + rest, "networks alone": networks, "certificate": seconds / nodes}
    return {name: values[0] / values for name, values in taken.items()}


def main(argv: list[str] | None = None) -> None:
    """Measure and append rows."""
    parser = argparse.ArgumentParser(
        prog="python -m ddmip_book.experiments.scaling", description=__doc__
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--n", type=int, default=16_000, help="blocks of a round")
    parser.add_argument("--blocks", type=int, default=400, help="of a certificate")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument(
        "--budget", type=float, default=2.0, help="of the blocks together, for each feature"
    )
    parser.add_argument(
        "--weights",
        type=Path,
        default=None,
        metavar="NPZ",
        help="of such a network, instead of training",
    )
    parser.add_argument(
        "--whole", type=int, default=0, metavar="N", help="whole runs with N blocks instead"
    )
    parser.add_argument("--search", action="store_true", help="certificates alone instead")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="of each certificate, or of each whole run"
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="a certificate by P processes gets a P-th of its seconds",
    )
    parser.add_argument(
        "--apart", action="store_true", help="a whole certificate by each of the processes instead"
    )
    parser.add_argument(
        "--no-dask", action="store_true", help="with --search: processes that certify starts itself"
    )
    parser.add_argument("--folder", type=Path, default=None, help="instead of data/results")
    options = parser.parse_args(argv)
    folder = options.folder or results_folder(writing=True)
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    network = options.depth, options.width
    if not options.whole:
        of = {"budget": options.budget, "weights": options.weights}
        many, few = (water(n, *network, **of) for n in (options.n, options.blocks))
        prices = PriceCoordination().solve(few, 20.0, seed=42).details["prices"]
    for count in options.processes:
        row = {"network": options.weights.stem if options.weights else f"{network[0]}x{network[1]}"}
        row |= {} if options.whole else {"budget": options.budget}
        seconds = options.seconds / (count if options.shared else 1)
        file = (
            LARGE
            if options.whole
            else APART
            if options.apart
            else SEARCHES
            if options.search
            else FILE
        )
        if options.whole:
            row |= whole(options.whole, count, *network, options.seconds)
        elif options.apart:
            row |= apart(
                count,
                {"n": options.blocks, "depth": network[0], "width": network[1], **of},
                prices,
                seconds,
            )
        elif options.search:
            row |= searched(count, few, prices, seconds, not options.no_dask)
        else:
            row |= measured(count, many, few, prices, seconds)
        with (folder / file).open("a") as rows:
            rows.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
