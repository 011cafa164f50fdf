"""`certify` and `solve` on a small cluster: the same proofs from one worker and from two, whoever
dies or joins.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP, PriceCoordination, Solution, solve
from ddmip_lib.certificates import Certificate, bound_state, certify, cluster
from ddmip_lib.clock import using
from ddmip_lib.workers import Executor
from tests.builders.blocks import own
from tests.builders.clocks import LONG, Stopping
from tests.builders.networks import shifted

distributed = pytest.importorskip("distributed")
torch.set_num_threads(1)
certifying = sys.modules["ddmip_lib.certificates.certify"]  # the function hides its module
PRICES = np.full(18, 0.2)
NOTHING = Solution("no_solution_found", "none")


@pytest.fixture(scope="module")
def cluster_of_two() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as found:
        yield found


@pytest.fixture
def client(cluster_of_two: Any) -> Iterator[Any]:
    with distributed.Client(cluster_of_two) as found:
        found.wait_for_workers(2)
        yield found


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BATCHES_PER_SLICE", 1), ("MIN_NODES_PER_PART", 2)):
        monkeypatch.setattr(cluster, name, value)


def problem_of_three() -> NeuralMIP:
    """Samples that are all a little short of the class, so that every proof branches."""
    net = mlp(2, 8, 9, seed=0).double().requires_grad_(False)
    for part in net.parameters():
        part *= 3.0
    outputs = net(torch.as_tensor(water_potability(n=3, net=net).start[0]))
    return water_potability(
        n=3, net=shifted(net, -outputs.max().item() - 0.6 * outputs.std().item())
    )


def proved(client: Any = None, **keywords: Any) -> Certificate:
    solution = certify(
        problem_of_three(), NOTHING, PRICES, LONG, steps=4, client=client, **keywords
    )
    found: Certificate = solution.details["certificate"]
    return found


def same(one: Certificate, two: Certificate) -> None:
    """All blocks closed, and their bounds alike up to what a block may be open by when it counts as
    closed.
    """
    assert one.closed.all()
    assert two.closed.all()
    np.testing.assert_allclose(
        one.profit_bound, two.profit_bound, rtol=0, atol=2 * bound_state.CLOSED_BLOCK_GAP
    )


def test_one_worker_and_two_prove_the_same_and_what_is_proved_without_them(client: Any) -> None:
    small = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(dashboard_address="127.0.0.1:0", **small) as one,
        distributed.Client(one) as alone,
    ):
        first = proved(alone)
    second = proved(client)
    here = proved(workers=1)
    same(first, second)
    same(second, here)
    assert min(first.nodes, second.nodes) > 4 * cluster.MIN_NODES_PER_PART


class Task:
    """A task that is done here when its result is asked for, once."""

    def __init__(self, work: Any, parts: tuple[Any, ...]) -> None:
        self.work = work
        self.parts = parts
        self.done = []

    def result(self, timeout: float = 0.0) -> Any:
        if not self.done:
            self.done = [
                self.work(
                    *(each.result() if isinstance(each, Task) else each for each in self.parts)
                )
            ]
        return self.done[0]


class NewestFirst:
    """One worker, whom three more join at once; of them only the one with the newest task works."""

    loop = None

    def __init__(self, loop: Any = None, timeout: float = 0.0) -> None:
        self.waiting: list[Task] = []
        self.workers = 1

    def submit(self, work: Any, *parts: Any, **_: Any) -> Task:
        return Task(work, parts)

    def map(self, work: Any, each: list[Any], **_: Any) -> list[Task]:
        return [Task(work, (one,)) for one in each]

    def nthreads(self) -> dict[str, int]:
        now = self.workers
        self.workers = 4
        return {"all": now}

    def cancel(self, _: Any) -> None:
        self.waiting.clear()

    def add(self, task: Task) -> None:
        self.waiting.append(task)

    def __iter__(self) -> Iterator[Task]:
        while self.waiting:
            yield self.waiting.pop()


def test_rows_that_a_part_turns_out_not_to_have_are_not_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What ends with one part must count when the others turn out to have none of the row."""
    monkeypatch.setattr(distributed, "as_completed", NewestFirst)
    monkeypatch.setattr(certifying, "check_client", lambda _: None)
    assert proved(NewestFirst()).closed.all()


class Four(NewestFirst):
    """Four workers from the first moment on, and the networks that their turns use."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[Any] = []

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys("abcd", 1)

    def submit(self, work: Any, *parts: Any, **_: Any) -> Task:
        self.used += parts[:1] if work is cluster._run_slice else []
        return super().submit(work, *parts)


def test_no_two_turns_wait_for_one_worker_while_another_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks are done where their network is: no two use one at a time, also when they are parts of
    a search.
    """
    monkeypatch.setattr(distributed, "as_completed", NewestFirst)
    monkeypatch.setattr(certifying, "check_client", lambda _: None)
    monkeypatch.setattr(cluster, "MIN_NODES_PER_PART", 1)
    four = Four()
    run = cluster.ClusterSearch.run
    heard = bound_state.BoundState.record
    going = list[dict[Any, cluster.AssignedSearch]]()
    most = list[int]()

    def running(search: cluster.ClusterSearch) -> None:
        going.append(search.assigned)
        run(search)

    def told(book: bound_state.BoundState, *found: Any) -> None:
        used = [part.copy for part in going[0].values()]
        assert len(used) == len(set(used)) <= 4
        most.append(len(used))
        heard(book, *found)

    monkeypatch.setattr(cluster.ClusterSearch, "run", running)
    monkeypatch.setattr(bound_state.BoundState, "record", told)
    assert proved(four).closed.all()
    assert len({id(each) for each in four.used}) == 4
    assert max(most) == 4


class Forgetful(Four):
    """Of the turns from which searches are parted, one after the other is lost before its last
    part, and made again when its time is over.
    """

    lost = 0

    def submit(self, work: Any, *parts: Any, **_: Any) -> Task:
        if work is cluster._run_slice and isinstance(parts[1], Task):
            limits, turn = parts[4], parts[1]
            if limits.n_parts > 1 and limits.part == limits.n_parts - 1:
                over = replace(turn.parts[4], until=0.0)
                again = Task(turn.work, (*turn.parts[:4], over))
                parts = (parts[0], again, *parts[2:])
                self.lost = self.lost + 1
        return super().submit(work, *parts)


def test_a_turn_that_is_made_again_with_other_nodes_proves_nothing_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its parts would share out other nodes than those of the first time, and some would be
    nobody's.
    """
    monkeypatch.setattr(distributed, "as_completed", NewestFirst)
    monkeypatch.setattr(certifying, "check_client", lambda _: None)
    monkeypatch.setattr(cluster, "MIN_NODES_PER_PART", 1)
    expected = proved(workers=1)
    forgetful = Forgetful()
    take = bound_state.BoundState.record

    def taking(book: bound_state.BoundState, rows: np.ndarray, found: Any) -> None:
        take(book, rows, found)
        assert (book.loss_bound <= book.loss_known + 1e-9).all()

    monkeypatch.setattr(bound_state.BoundState, "record", taking)
    same(proved(forgetful), expected)
    assert forgetful.lost


def test_a_client_that_is_closed_is_a_lost_cluster(
    cluster_of_two: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certifying, "SECONDS_IN_THIS_PROCESS", 300.0)
    with distributed.Client(cluster_of_two) as closed:
        pass
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        found = proved(closed)
    assert found.closed.all()


def test_a_cluster_that_is_lost_while_networks_are_sent_is_a_lost_cluster(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise CancelledError("scheduler closed")

    monkeypatch.setattr(certifying, "SECONDS_IN_THIS_PROCESS", 300.0)
    monkeypatch.setattr(Executor, "send", gone)
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        found = proved(client)
    assert found.closed.all()


@pytest.mark.long  # that price coordination survives one, is tested every time
def test_a_worker_killed_in_the_middle_loses_nothing_and_a_late_one_joins(
    client: Any, cluster_of_two: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = proved(client)
    heard = []
    least = []
    take = bound_state.BoundState.record

    def taking(book: bound_state.BoundState, rows: np.ndarray, found: Any) -> None:
        heard.append(len(rows))
        if len(heard) == 3:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            cluster_of_two.scale(3)
        take(book, rows, found)
        least.append(book.loss_bound.sum())

    monkeypatch.setattr(bound_state.BoundState, "record", taking)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the cluster is not to be given up
        found = proved(client)
    same(found, expected)
    assert (np.diff(least) >= 0).all()
    client.wait_for_workers(3, timeout=LONG)


def test_the_time_limit_holds_and_what_was_proven_by_then_is_kept(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is over when the first turn, of one batch of nodes, has ended: those that are under way
    are the last.
    """
    take = bound_state.BoundState.record
    turns = list[int]()

    def taking(book: bound_state.BoundState, rows: np.ndarray, found: Any) -> None:
        clock.stop()
        turns.append(len(rows))
        take(book, rows, found)

    monkeypatch.setattr(bound_state.BoundState, "record", taking)
    with using(clock := Stopping()):
        found = certify(problem_of_three(), NOTHING, PRICES, LONG, steps=4, client=client).details[
            "certificate"
        ]
    assert 1 <= len(turns) <= 3  # blocks, each of which a worker may have had
    assert not found.closed.all()
    assert found.nodes > 0
    assert found.bound <= 3.0 + 1e-9


@pytest.mark.long
def test_a_lost_cluster_is_said_and_the_proof_goes_on_here(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise CancelledError("scheduler closed")

    monkeypatch.setattr(cluster.ClusterSearch, "run", gone)
    monkeypatch.setattr(
        certifying, "SECONDS_IN_THIS_PROCESS", 300.0
    )  # no processes either, which take longer to start
    with pytest.warns(UserWarning, match="connection to the cluster failed"):
        found = proved(client)
    assert found.closed.all()


@pytest.mark.long
def test_solve_hands_the_client_on(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    search = cluster.search_on_cluster
    start = PriceCoordination.solve

    def searching(book: bound_state.BoundState, deadline: float, crew: Executor) -> None:
        given.append(crew.client)
        search(book, deadline, crew)

    def pricing(solver: PriceCoordination, *parts: Any, **keywords: Any) -> Solution:
        given.append(solver.client)
        return start(solver, *parts, **keywords)

    monkeypatch.setattr(certifying, "search_on_cluster", searching)
    monkeypatch.setattr(PriceCoordination, "solve", pricing)
    instance = own(1, "classification")
    found = solve(instance.problem(), time_limit=LONG, client=client)
    assert given
    assert all(each is client for each in given)
    assert abs(found.objective - instance.optimum()) <= 1e-6 or found.bound is not None


def test_what_is_no_client_is_refused_before_any_work(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of_three()
    monkeypatch.setattr(PriceCoordination, "solve", lambda *_, **__: pytest.fail("that was work"))
    for call in (lambda **k: certify(problem, NOTHING, **k), lambda **k: solve(problem, **k)):
        with pytest.raises(TypeError, match=r"distributed\.Client"):
            call(client="tcp://127.0.0.1:8786")
    with pytest.raises(ValueError, match="leave out workers"):
        certify(problem, NOTHING, client=client, workers=2)
    with pytest.raises(ValueError, match="steps=-1"):
        certify(problem, NOTHING, steps=-1)
