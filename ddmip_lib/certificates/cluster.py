"""Searches on the workers of a Dask cluster, in time slices.

A time slice is a number of batches of nodes. After each slice, its bounds are recorded in this
process and the search continues. When searches end, another search with many unfathomed nodes is
partitioned, so that a few hard blocks keep all workers busy; not earlier, since in a batch of few
nodes each one costs more. Dask runs a task where its data are, however inactive other workers
are; so every worker has a copy of the networks, and a slice uses a copy that no other slice uses.
How searches are distributed changes the order of the nodes, not what is proven in the end: if time
suffices, one worker and eight close the same blocks to the same tolerance.

Dask repeats a slice that was lost with its worker, with all earlier slices that are lost too. The
repeated slice may end with other nodes (time is over, or processors differ), while the parts of a
partitioned search refer to its first nodes. So every slice gets a name of its own, and the next one
states which it continues; if that is not the one it finds, the search starts from scratch. Bounds
that were proven before still hold.
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

BATCHES_PER_SLICE = 4  # batches of nodes
MIN_NODES_PER_PART = 64  # unfathomed nodes of a part, at least, when a search is partitioned


class AssignedSearch(NamedTuple):
    """A search, or a part of one, that some worker runs.

    Attributes
    ----------
    rows
        Rows of the table of `Blocks`.
    loss_bound
        For each row, the loss proven in this part; infinite where the part does not have the row.
    copy
        Number of the copy of the networks that it uses.
    time_slice
        The task (a Dask future), None before the first one.
    """

    rows: ndarray
    loss_bound: ndarray
    copy: int
    time_slice: Any = None


@dataclass(frozen=True)
class SliceLimits:
    """The part of a search that a time slice continues, its batches, and its end by the system's
    clock.
    """

    part: int
    n_parts: int
    batches: int
    until: float


def search_on_cluster(state: BoundState, deadline: float, executor: Executor) -> None:
    """Search on the workers until the deadline, or until the bound is equal to the objective.

    Parameters
    ----------
    state
        State of the proof, which records all bounds.
    deadline
        End of the search, in seconds of `ddmip_lib.clock.now`.
    executor
        Executor with a client; without one afterwards if the cluster was lost.
    """
    search = ClusterSearch(state, deadline, executor)
    try:
        search.run()
    except TimeoutError:  # workers are late or gone; bounds recorded before are kept
        pass
    except cluster_errors() as error:
        executor.continue_locally(error)
    finally:
        if executor.client is not None:
            slices = [part.time_slice for part in search.assigned.values()]
            with suppress(TimeoutError, *cluster_errors()):
                executor.client.cancel([*search.assigned, *slices])


class ClusterSearch:
    """Time slices of all searches, assigned to the workers of a cluster.

    Attributes
    ----------
    assigned
        The running slice of each search, by the task that returns its summary.
    networks
        Remote networks of each copy, by the number of the predictor.
    ended
        For each row, the loss proven by the parts that have ended.
    """

    def __init__(self, state: BoundState, deadline: float, executor: Executor) -> None:
        self.state = state
        self.deadline = deadline
        self.executor = executor
        self.client = executor.client
        self.until = time.time() + deadline - STOP_BEFORE_DEADLINE - now()
        self.assigned: dict[Any, AssignedSearch] = {}
        self.networks: list[dict[int, Any]] = []
        self.ended = np.full(len(state.loss_bound), np.inf)
        self.nodes = np.zeros_like(state.nodes)
        self.completed: Any = None

    def run(self) -> None:
        """Start all searches, and continue each one when its time slice has ended."""
        copies = self._free_copies()
        timeout = self.deadline - now() + WAIT_AFTER_DEADLINE
        distributed = import_module("distributed")
        self.completed = distributed.as_completed(loop=self.client.loop, timeout=timeout)
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
        """Copies of the networks without a slice, at most one for each free worker, a preferred one
        first. Workers that have joined get copies.
        """
        n_workers = thread_count(self.client)
        missing = n_workers - len(self.networks)
        if missing > 0:
            self._send_networks(missing)
        busy = {part.copy for part in self.assigned.values()}
        free = [copy for copy in range(len(self.networks)) if copy not in busy]
        free.sort(key=lambda copy: copy != preferred)
        return free[: max(0, n_workers - len(busy))]

    def _send_networks(self, count: int) -> None:
        sent = {
            number: self.executor.scatter([graph] * count)
            for number, graph in self.state.graphs.items()
        }
        for k in range(count):
            self.networks.append({number: shared[k].remote for number, shared in sent.items()})

    def _begin(self, search: AssignedSearch) -> None:
        """Start a search from scratch."""
        (arguments,), _ = self.state.searches(search.rows)
        self._submit(search, arguments[1:])

    def _submit(
        self,
        search: AssignedSearch,
        start: Any,
        previous: str = "",
        part: tuple[int, int] = (0, 1),
    ) -> None:
        graph = self.networks[search.copy][self.state.blocks.predictor[search.rows[0]]]
        known = self.state.loss_known[search.rows]
        limits = SliceLimits(*part, BATCHES_PER_SLICE, self.until)
        time_slice = self.executor.submit(_run_slice, graph, start, previous, known, limits)
        # the summary is sent before the worker's next slice
        summary = self.executor.submit(itemgetter(0), time_slice, priority=1)
        self.assigned[summary] = search._replace(time_slice=time_slice)
        self.completed.add(summary)

    def _continue(self, summary: Any) -> None:
        """Record the bounds of a slice that has ended, and submit the next one."""
        name, position, found, unfathomed = summary.result(
            timeout=max(WAIT_AFTER_DEADLINE, self.deadline - now())
        )
        assigned = self.assigned.pop(summary)
        if not name:  # it would have continued another slice than the one that it found
            kept = np.isfinite(assigned.loss_bound)
            if kept.any():
                rows, loss_bound, copy, _ = assigned
                self._begin(AssignedSearch(rows[kept], loss_bound[kept], copy))
            return
        rows = assigned.rows[position]
        known = self.state.loss_known
        known[rows] = np.minimum(known[rows], found.loss_known.numpy())
        going = (unfathomed > 0) & (now() < self.deadline)  # at the deadline, all slices end
        loss_bound = found.loss_bound.numpy()
        ended = rows[~going]
        self.ended[ended] = np.minimum(self.ended[ended], loss_bound[~going])
        if going.any():
            loss_bound = np.where(going, loss_bound, np.inf)
            self._submit_parts(
                assigned._replace(rows=rows, loss_bound=loss_bound), name, int(unfathomed.sum())
            )
        self.nodes[rows] += found.nodes.numpy()
        self._record(assigned.rows)

    def _submit_parts(self, search: AssignedSearch, name: str, unfathomed: int) -> None:
        """Continue a search on its own worker and on free ones, if it has nodes for them."""
        copies = self._free_copies(search.copy) or [search.copy]
        copies = copies[: max(1, unfathomed // MIN_NODES_PER_PART)]
        for part, copy in enumerate(copies):
            continued = search._replace(copy=copy)
            self._submit(continued, search.time_slice, name, (part, len(copies)))

    def _record(self, rows: ndarray) -> None:
        """Record what all parts together have proven of some rows, of which they may have none."""
        loss_bound = self.ended.copy()
        for part in self.assigned.values():
            loss_bound[part.rows] = np.minimum(loss_bound[part.rows], part.loss_bound)
        known = (loss_bound, self.state.loss_known, self.nodes)
        self.state.record(rows, LossBounds(*(torch.from_numpy(each[rows]) for each in known)))


def _run_slice(
    graph: Graph, start: Any, previous: str, loss_known: ndarray, limits: SliceLimits
) -> Any:
    """Run one time slice on a worker.

    Parameters
    ----------
    graph
        The network.
    start
        The result of the slice whose name is `previous`; the arguments of a new search if that is
        empty.
    previous
        Name of the slice that this one continues.
    loss_known
        For each row, the smallest loss that is known by now.
    limits
        Part and end of this slice.

    Returns
    -------
    tuple
        A summary and the state of the search. The summary is the name of this slice, the rows of
        this part, its `LossBounds` with the nodes of this slice, and how many nodes of each row are
        unfathomed. The name is empty if `start` is the result of another slice.
    """
    if not previous:
        search = ReLUBranchAndBound(graph, *start)
    elif start[0][0] == previous:
        search = ReLUBranchAndBound.resumed(graph, start[1])
    else:
        return ("", None, None, None), None
    search.possible = torch.minimum(search.possible, torch.from_numpy(loss_known))
    rows = torch.arange(len(search.work))
    if limits.n_parts > 1:
        rows, search = search.parts(limits.n_parts)[limits.part]
    nodes_before = search.progress().nodes
    deadline = now() + limits.until - time.time()
    with suppress(TimeOver), limited(deadline):  # an unfinished batch counts as unfathomed
        search.run(deadline, limits.batches)
    found = search.progress()
    found = found._replace(nodes=found.nodes - nodes_before)
    return (uuid.uuid4().hex, rows.numpy(), found, search.unfathomed().numpy()), search.state()
