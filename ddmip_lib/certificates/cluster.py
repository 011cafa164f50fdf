"""Searches on the workers of a Dask cluster: one for each worker, in turns, parted as soon as a
worker has none.

A turn is a number of batches. What it has proven comes here after it and is kept. Where searches
end, another one with many open nodes is parted, so that a few hard rows keep all workers busy; no
sooner, since a batch of few nodes costs more for each of them. Every worker has networks of its
own, and a turn uses those that no other turn does: Dask lets a task wait for who has what it needs,
however idle others are. How rows are shared out changes the order of the nodes, not what is proved
in the end: where time does not end first, one worker and eight close the same rows, to the same
tolerance.

A turn that is lost with its worker is made again by Dask, with all turns before it that are lost
too. Then it may end with other nodes (its time is over, or processors differ), while parts of a
search share out those that it had at first. So every turn gets a name of its own, the next one says
which it goes on from, and where that is not the one it finds, the rows are searched anew; what was
proven of them before still holds.
"""

import time
import uuid
from contextlib import suppress
from importlib import import_module
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch

from ..bounds.graph import Graph
from ..clock import TimeOver, limited, now
from ..model.workers import RETRIES, Executor, hands, lost_by
from .bound_state import BoundState
from .process import EARLY, GRACE
from .unit_search import LossBounds, ReLUBranchAndBound

BATCHES = 4  # of a turn
ENOUGH = 64  # open nodes of a part, at least


class AssignedSearch(NamedTuple):
    """A search that some worker has: rows of the table, what is proven of its share in each, its
    next turn, and whose networks that uses.
    """

    rows: np.ndarray
    least: np.ndarray
    turn: Any
    hand: int


def search_on_cluster(account: BoundState, deadline: float, crew: Executor) -> None:
    """Let the workers prove what they can until the deadline, or until the bound meets the
    objective.
    """
    going: dict[Any, AssignedSearch] = {}
    try:
        _take_turns(account, deadline, crew, going)
    except TimeoutError:  # workers that are late, or gone: what they proved before is kept
        pass
    except lost_by() as error:
        crew.lose(error)
    finally:
        if crew.client is not None:  # a lost cluster has nothing left to cancel
            with suppress(TimeoutError, *lost_by()):
                crew.client.cancel([*going, *(part.turn for part in going.values())])


def _take_turns(
    account: BoundState, deadline: float, crew: Executor, going: dict[Any, AssignedSearch]
) -> None:
    """`going` holds for what each turn will tell: who takes it. A row is proven to lose what all
    its parts lose.
    """
    client = crew.client
    until = time.time() + deadline - EARLY - now()  # workers have clocks of their own
    graphs = list[dict[int, Any]]()  # of each hand
    ended = np.full(len(account.least), np.inf)
    nodes = np.zeros_like(account.nodes)

    def free(before: int = 0) -> list[int]:
        """Hands without a turn, as many as there are workers for, a given one first; who came
        lately gets networks.
        """
        many = hands(client)
        busy = {part.hand for part in going.values()}
        new = [
            [kept.there for kept in crew.keep([graph] * (many - len(graphs)))]
            for graph in account.graphs.values()
        ]
        graphs.extend(
            dict(zip(account.graphs, each, strict=True)) for each in zip(*new, strict=True)
        )
        idle = sorted(
            (hand for hand in range(len(graphs)) if hand not in busy),
            key=lambda hand: hand != before,
        )
        return idle[: max(0, many - len(busy))]

    def submit(
        rows: np.ndarray,
        least: np.ndarray,
        start: Any,
        hand: int,
        share: tuple[int, int] = (0, 1),
        name: str = "",
    ) -> None:
        graph = graphs[hand][account.blocks.predictor[rows[0]]]
        place = {"pure": False, "retries": RETRIES}
        turn = client.submit(
            _turn, graph, start, name, account.possible[rows], share, BATCHES, until, **place
        )
        tells = client.submit(
            itemgetter(0), turn, priority=1, **place
        )  # before the worker's next turn
        going[tells] = AssignedSearch(rows, least, turn, hand)
        told.add(tells)

    def begin(rows: np.ndarray, least: np.ndarray, hand: int) -> None:
        submit(rows, least, account.searches(rows)[0][0][1:], hand)

    first = free()
    left = deadline - now() + GRACE
    told = import_module("distributed").as_completed(loop=client.loop, timeout=left)
    for number in account.graphs:
        rows = account.rows()
        rows = rows[account.blocks.predictor[rows] == number]
        for hand in first[: len(rows)]:
            few = rows[hand :: len(first)]
            begin(few, account.least[few], hand)
    for tells in told:
        name, at, found, waiting = tells.result(timeout=max(GRACE, deadline - now()))
        mine = going.pop(tells)
        if not name:
            had = np.isfinite(mine.least)
            if had.any():
                begin(mine.rows[had], mine.least[had], mine.hand)
            continue
        rows = mine.rows[at]
        least = found.least.numpy()
        account.possible[rows] = np.minimum(account.possible[rows], found.possible.numpy())
        open_ = (waiting > 0) & (
            now() < deadline
        )  # then all turns end, and what each has proven counts
        ended[rows[~open_]] = np.minimum(ended[rows[~open_]], least[~open_])
        if open_.any():
            takers = (free(mine.hand) or [mine.hand])[: max(1, waiting.sum() // ENOUGH)]
            for number, hand in enumerate(takers):
                submit(
                    rows,
                    np.where(open_, least, np.inf),
                    mine.turn,
                    hand,
                    (number, len(takers)),
                    name,
                )
        nodes[rows] += found.nodes.numpy()
        least = ended.copy()
        for part in going.values():
            least[part.rows] = np.minimum(least[part.rows], part.least)
        known = (torch.from_numpy(each[mine.rows]) for each in (least, account.possible, nodes))
        account.take(mine.rows, LossBounds(*known))  # also of rows that it turned out not to have
        if account.settled:
            return


def _turn(
    graph: Graph,
    start: Any,
    goes_on: str,
    possible: np.ndarray,
    share: tuple[int, int],
    batches: int,
    until: float,
) -> Any:
    """On a worker: ((its name, which rows this part has, what it has proven, how many nodes are
    open), where to go on).

    `start` is what a new search is made of, or what the turn returned whose name is `goes_on`;
    where that has another name by now, this one has none. `possible` is what others may have found
    meanwhile.
    """
    if goes_on and start[0][0] != goes_on:
        return ("", None, None, None), None
    search = (
        ReLUBranchAndBound.resumed(graph, start[1])
        if goes_on
        else ReLUBranchAndBound(graph, *start)
    )
    search.possible = torch.minimum(search.possible, torch.from_numpy(possible))
    rows = torch.arange(len(search.work))
    (number, count) = share
    if count > 1:
        rows, search = search.parts(count)[number]
    before = search.progress().nodes
    deadline = now() + until - time.time()
    with suppress(TimeOver), limited(deadline):  # the batch in progress then counts as open
        search.run(deadline, batches)
    found = search.progress()
    found = found._replace(nodes=found.nodes - before)
    return (uuid.uuid4().hex, rows.numpy(), found, search.waiting().numpy()), search.state()
