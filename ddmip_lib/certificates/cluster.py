"""Branch and bound for the losses of blocks on the workers of a Dask cluster, in time slices.

A *search* (`ReLUBranchAndBound`) proves lower bounds of the losses of some rows of the table of
`Blocks`, which share a network; a row is one mode of one block, and `losses` defines its loss. A
*time slice* is the task that evaluates the next few batches of nodes of a search. After each one,
this process records the bounds and submits the next one.

Once workers become free, a search with many unfathomed nodes is partitioned, so that a few hard
blocks keep all workers busy. It is not partitioned earlier, since a node costs more in a small
batch. How nodes are distributed changes their order only: given enough time, one worker and eight
close the same blocks to the same tolerance.

Dask prefers the worker that holds the data of a task, even if others are idle. Therefore every
worker gets a copy of the networks, and two slices that run at the same time use different copies.

Dask repeats a slice that was lost with its worker. The repetition may end with other nodes, since
less time is left or the processor differs, although other workers already continue parts of the
first result. Therefore every slice has a unique name, and its successor states which one it
continues. If it receives the result of another one, the search starts from scratch; bounds that
were recorded remain valid.
"""

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray

from ..bounds.graph import Graph
from ..clock import TimeOver, limited, now
from ..workers import Executor
from ..workers.cluster import cluster_errors, thread_count
from ..workers.processes import STOP_BEFORE_DEADLINE, WAIT_AFTER_DEADLINE
from .bound_state import BoundState
from .unit_search import LossBounds, ReLUBranchAndBound

BATCHES_PER_SLICE = 4  # batches of nodes that a slice evaluates
MIN_NODES_PER_PART = 64  # unfathomed nodes that each part of a partitioned search has on average


class AssignedSearch(NamedTuple):
    """A search, or a part of one, with the worker's copy of the networks that it uses.

    Attributes
    ----------
    rows
        Rows of the table of `Blocks`.
    loss_bound
        For each row, the lower bound of the loss over the nodes of this part; infinite for a row
        of which it has no nodes.
    copy
        Number of the copy of the networks.
    time_slice
        Future of the current slice, None before the first one.
    """

    rows: ndarray
    loss_bound: ndarray
    copy: int
    time_slice: Any = None


@dataclass(frozen=True)
class SliceLimits:
    """What a time slice computes.

    Attributes
    ----------
    number
        Number of the predictor.
    part, n_parts
        It continues this part of a search that is partitioned into `n_parts`.
    batches
        Largest number of batches of nodes.
    until
        Deadline in seconds of `time.time`, since other clocks differ between processes.
    """

    number: int
    part: int
    n_parts: int
    batches: int
    until: float


class SliceSummary(NamedTuple):
    """The results of a time slice.

    Attributes
    ----------
    name
        Unique name of the slice; empty if it received the result of another slice than the one it
        was to continue.
    found
        For each row of the search, the loss over the nodes of this part, and how many nodes the
        slice evaluated.
    unfathomed
        Number of unfathomed nodes of each row.
    """

    name: str = ""
    found: LossBounds | None = None
    unfathomed: ndarray | None = None


def search_on_cluster(state: BoundState, deadline: float, executor: Executor) -> None:
    """Run all searches on the workers until the gap is closed or the deadline has passed.

    Parameters
    ----------
    state
        State of the proof, in which all bounds are recorded.
    deadline
        Deadline in seconds of `ddmip_lib.clock.now`.
    executor
        Executor with a client; it continues without one if the cluster is lost.
    """
    search = ClusterSearch(state, deadline, executor)
    try:
        search.run()
    except TimeoutError:  # no result in time; the bounds recorded so far are kept
        pass
    except cluster_errors() as error:
        executor.continue_locally(error)
    finally:
        if executor.client is not None:
            slices = [part.time_slice for part in search.assigned.values()]
            with suppress(TimeoutError, *cluster_errors()):
                executor.client.cancel([*search.assigned, *slices])


@dataclass(eq=False)
class ClusterSearch:
    """All searches of a proof, and their time slices on the workers of a cluster.

    Attributes
    ----------
    until
        The deadline in seconds of `time.time`.
    assigned
        Searches and parts in progress; the key is the future of the current slice's summary.
    networks
        Futures of the copies of the networks; each maps the number of a predictor to a network.
    ended
        For each row, the smallest lower bound of the loss over the parts that have ended.
    nodes
        For each row, the number of evaluated nodes.
    completed
        Iterator over the futures of summaries, in the order in which they complete.
    """

    state: BoundState
    deadline: float
    executor: Executor

    def __post_init__(self) -> None:
        self.until = time.time() + self.deadline - STOP_BEFORE_DEADLINE - now()
        self.assigned: dict[Any, AssignedSearch] = {}
        self.networks: list[Any] = []
        self.ended = np.full(len(self.state.loss_bound), np.inf)
        self.nodes = np.zeros_like(self.state.nodes)
        self.completed: Any = None

    def run(self) -> None:
        """Start all searches, and continue each one whenever a time slice of it has ended."""
        copies = self._free_copies()
        timeout = self.deadline - now() + WAIT_AFTER_DEADLINE
        distributed = import_module("distributed")
        self.completed = distributed.as_completed(loop=self.executor.client.loop, timeout=timeout)
        for number in self.state.graphs:
            rows = self.state.unproven_rows()
            rows = rows[self.state.blocks.predictor[rows] == number]
            for copy in copies[: len(rows)]:
                mine = rows[copy :: len(copies)]
                self._begin(AssignedSearch(mine, self.state.loss_bound[mine], copy))
        for summary in self.completed:
            self._continue(summary)
            if self.state.gap_closed:
                return

    def _free_copies(self, preferred: int = 0) -> list[int]:
        """Numbers of the copies that no slice uses, at most one for each free worker, the preferred
        one first. Workers that have joined the cluster get copies before.
        """
        n_workers = thread_count(self.executor.client)
        missing = n_workers - len(self.networks)
        self.networks += self.executor.send([self.state.graphs] * missing)
        busy = {part.copy for part in self.assigned.values()}
        free = [copy for copy in range(len(self.networks)) if copy not in busy]
        free.sort(key=lambda copy: copy != preferred)
        return free[: max(0, n_workers - len(busy))]

    def _begin(self, search: AssignedSearch) -> None:
        """Start a search from scratch."""
        ((_, arguments),) = self.state.searches(search.rows)
        self._submit(search, arguments[1:])

    def _submit(
        self,
        search: AssignedSearch,
        start: Any,
        previous: str = "",
        part: tuple[int, int] = (0, 1),
    ) -> None:
        """Submit the next slice of a search; `start` and `previous` are those of `_run_slice`."""
        networks = self.networks[search.copy]
        number = int(self.state.blocks.predictor[search.rows[0]])
        known = self.state.loss_known[search.rows]
        limits = SliceLimits(number, *part, BATCHES_PER_SLICE, self.until)
        time_slice = self.executor.submit(_run_slice, networks, start, previous, known, limits)
        # its priority lets the worker send the summary before it begins another slice
        summary = self.executor.submit(itemgetter(0), time_slice, priority=1)
        self.assigned[summary] = search._replace(time_slice=time_slice)
        self.completed.add(summary)

    def _continue(self, summary: Any) -> None:
        """Record the bounds of a slice that has ended, and submit the next one."""
        name, found, unfathomed = summary.result(
            timeout=max(WAIT_AFTER_DEADLINE, self.deadline - now())
        )
        assigned = self.assigned.pop(summary)
        if not name:  # it received another result than that of its predecessor
            kept = np.isfinite(assigned.loss_bound)
            if kept.any():
                loss_bound = assigned.loss_bound[kept]
                self._begin(assigned._replace(rows=assigned.rows[kept], loss_bound=loss_bound))
            return
        rows = assigned.rows
        known = self.state.loss_known
        known[rows] = np.minimum(known[rows], found.loss_known.numpy())
        going = (unfathomed > 0) & (now() < self.deadline)  # after the deadline none continues
        loss_bound = found.loss_bound.numpy()
        self.ended[rows] = np.minimum(self.ended[rows], np.where(going, np.inf, loss_bound))
        if going.any():
            rest = assigned._replace(loss_bound=np.where(going, loss_bound, np.inf))
            self._submit_parts(rest, name, int(unfathomed.sum()))
        self.nodes[rows] += found.nodes.numpy()
        self._record(rows)

    def _submit_parts(self, search: AssignedSearch, name: str, unfathomed: int) -> None:
        """Continue a search, in parts on the free workers if it has nodes enough for them."""
        copies = self._free_copies(search.copy) or [search.copy]
        copies = copies[: max(1, unfathomed // MIN_NODES_PER_PART)]
        for part, copy in enumerate(copies):
            continued = search._replace(copy=copy)
            self._submit(continued, search.time_slice, name, (part, len(copies)))

    def _record(self, rows: ndarray) -> None:
        """Record bounds of some rows: the smallest one over all parts, running or ended."""
        loss_bound = self.ended.copy()
        for part in self.assigned.values():
            loss_bound[part.rows] = np.minimum(loss_bound[part.rows], part.loss_bound)
        known = (loss_bound, self.state.loss_known, self.nodes)
        self.state.record(rows, LossBounds(*(torch.from_numpy(each[rows]) for each in known)))


def _run_slice(
    graphs: dict[int, Graph], start: Any, previous: str, loss_known: ndarray, limits: SliceLimits
) -> tuple[SliceSummary, Any]:
    """Run one time slice on a worker.

    Parameters
    ----------
    graphs
        The networks.
    start
        The result of the previous slice; for the first slice of a search, the arguments of
        `ReLUBranchAndBound` after the network.
    previous
        Name of the slice that this one continues, empty for the first one.
    loss_known
        For each row, the smallest loss found so far on any worker.
    limits
        Predictor, part, batches and deadline of this slice.

    Returns
    -------
    summary : SliceSummary
        Bounds and nodes, which are sent to the client.
    search
        The search without its network, which stays on the worker for the next slice.
    """
    graph = graphs[limits.number]
    if not previous:
        search = ReLUBranchAndBound(graph, *start)
    elif start[0].name == previous:
        search = start[1].part(limits.part, limits.n_parts)
        search.graph = graph
    else:
        return SliceSummary(), None
    search.possible = torch.minimum(search.possible, torch.from_numpy(loss_known))
    nodes_before = search.work.clone()
    deadline = now() + limits.until - time.time()
    with suppress(TimeOver), limited(deadline):  # an unfinished batch counts as unfathomed
        search.run(deadline, limits.batches)
    found = search.progress()
    found = found._replace(nodes=found.nodes - nodes_before)
    unfathomed = search.unfathomed().numpy()
    del search.graph  # workers have it
    return SliceSummary(uuid.uuid4().hex, found, unfathomed), search
