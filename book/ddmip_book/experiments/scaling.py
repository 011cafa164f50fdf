"""What more processes bring: a model of the seconds of a round of price coordination, and the
records that `python -m experiments.scaling` of the project measured.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.optimize import nnls

from ddmip_book.data import load_water
from ddmip_book.networks import load_npz, mlp, train
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP, PriceCoordination, Solution, certify
from ddmip_lib.pricing import network_oracle as search
from .store import results_folder

SCALING = "scaling.jsonl"
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


def stored(folder: Path | None = None, name: str = SCALING) -> list[dict[str, Any]]:
    """The records that were stored, if any.

    >>> isinstance(stored(), list)
    True
    """
    path = (folder or results_folder()) / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def speedups(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """How many times faster than in the first record a round, its networks and a certificate are.

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
