"""Price coordination on a small cluster: the same answer as here, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace

import numpy as np
import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PriceCoordination, Solution
from ddmip_lib.pricing import network_oracle as search
from ddmip_lib.workers import Executor
from tests.builders.clocks import LONG

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHARD", 3)


def solved(client: object = None, **keywords: int) -> Solution:
    solver = PriceCoordination(max_rounds=3, steps=6, choices=1, client=client, **keywords)
    return solver.solve(water_potability(n=8, net=mlp(2, 8, 9, seed=3)), time_limit=LONG, seed=5)


def same(one: Solution, two: Solution) -> None:
    assert one.objective == two.objective
    np.testing.assert_array_equal(one.details["pool"].at, two.details["pool"].at)
    np.testing.assert_array_equal(one.details["pool"].u, two.details["pool"].u)
    np.testing.assert_array_equal(one.values, two.values)


def test_the_cluster_finds_the_same_options_as_this_process(client):
    same(solved(), solved(client))


def die_once(piece: tuple[str, int], ask: str) -> int:
    """Kills its own worker the first time that it is called, as the system does that runs out of
    memory.
    """
    if not os.path.exists(ask):
        with open(ask, "w") as file:
            file.write("dead")
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * piece[1]


def test_a_killed_worker_costs_time_and_nothing_else(client, tmp_path):
    executor = Executor(client)
    kept = executor.scatter([("piece", k) for k in range(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the executor is not to give up the cluster
        assert executor.map(die_once, kept, [str(tmp_path / f"{k % 2}") for k in range(4)]) == [
            0,
            2,
            4,
            6,
        ]


def test_a_worker_killed_between_rounds_takes_no_shard_with_it(client):
    problem = water_potability(n=8, net=mlp(2, 8, 9, seed=3))
    solver = PriceCoordination(steps=6, client=client)
    market, alone = (each.start(problem, seed=5) for each in (solver, replace(solver, client=None)))
    for k in range(2):
        solver.round(market)
        solver.round(alone)
        if k == 0:
            pid = client.submit(os.getpid, pure=False).result()
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
    np.testing.assert_array_equal(market.pool.u, alone.pool.u)


class Sent:
    """A client that remembers how many pieces were sent at a time."""

    def __init__(self, **threads: int) -> None:
        self.threads = threads
        self.sent = list[int]()

    def nthreads(self) -> dict[str, int]:
        return self.threads

    def map(self, _: object, pieces: list[int], **__: object) -> list[int]:
        self.sent.append(len(pieces))
        return list(pieces)


def test_pieces_are_sent_by_as_many_as_workers_can_take():
    """Sent one by one they end with whom is quick to say that it has them."""
    few = Sent(a=1, b=2)
    none = Sent()
    Executor(few).scatter(range(7))
    assert few.sent == [3, 3, 1]
    Executor(none).scatter(range(2))  # workers may come later
    assert none.sent == [1, 1]


class Lost(Sent):
    """A client whose scheduler has gone."""

    def submit(self, *_: object, **__: object) -> None:
        return None

    def gather(self, _: object) -> list[object]:
        raise CancelledError("scheduler closed")


def test_a_lost_cluster_is_said_and_the_work_goes_on_here():
    executor = Executor(Lost())
    kept = executor.scatter([2, 3])
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        assert executor.map(pow, kept, [3, 2]) == [8, 9]
    assert executor.map(pow, kept, [1, 1]) == [2, 3]


def test_a_cluster_that_is_lost_before_any_piece_is_sent_is_said_too(monkeypatch):
    lost = Lost()
    monkeypatch.setattr(lost, "nthreads", lambda: lost.gather(None))
    executor = Executor(lost)
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        kept = executor.scatter([2, 3])
    assert executor.map(pow, kept, [3, 2]) == [8, 9]


def test_a_client_that_was_closed_is_a_lost_cluster(client):
    with distributed.Client(client.scheduler.address) as closed:
        kept = Executor(closed).scatter([2, 3])
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        assert [each.remote for each in Executor(closed).scatter([2, 3])] == [2, 3]
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        assert Executor(closed).map(pow, kept, [3, 2]) == [8, 9]


def failing(piece: int, ask: int) -> int:
    raise ValueError(f"piece {piece} is wrong")


def test_what_the_work_raises_is_raised_here(client):
    executor = Executor(client)
    with pytest.raises(ValueError, match="piece 7"):
        executor.map(failing, executor.scatter([7, 7]), [0, 0])


def test_what_is_no_client_is_refused_and_a_missing_dask_is_named(monkeypatch):
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        PriceCoordination(client="tcp://127.0.0.1:8786")

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'ddmip-lib\[cluster\]'"):
        PriceCoordination(client=object())
