"""Searches on the workers of a Dask cluster: rows in shards at first, then a few together, in turns of so many nodes.

Who does a turn, and when, changes nothing about what it finds: shards are fixed by the problem, a turn ends after a
number of nodes, and what is found of a row depends on that row alone. So one worker and eight prove the same, unless
the time ends first. Sixteen rows together fill the batches of a search about five times as fast as one alone: only hard
rows have many open nodes of their own. A search stays on the worker that has it. What it has proven comes here after
each turn and is kept; a search whose worker dies is made again by Dask, from its first turn on.
"""

import time
from contextlib import suppress
from importlib import import_module
from operator import itemgetter
from typing import Any

import numpy as np

from ..bounds.graph import Graph
from ..model.crew import RETRIES, Crew, lost_by
from .account import Account, Group
from .process import GRACE
from .unit_search import Progress, UnitSearch

SHARD, FIRST = 64, 16  # rows that share the first turn, and how many nodes each of them gets
FEW, TURN = 16, 128  # open rows that stay together from then on, and their nodes by the next turn; then twice as many


def search_on_cluster(account: Account, deadline: float, crew: Crew) -> None:
    """Let the workers prove what they can until the deadline, or until the bound meets the objective."""
    going: dict[Any, tuple[Group, Any, int]] = {}
    try:
        _take_turns(account, deadline, crew, going)
    except TimeoutError:  # workers that are late, or gone: what they proved before is kept
        pass
    except lost_by() as error:
        crew.lose(error)
    finally:
        if crew.client is not None:  # a lost cluster has nothing left to cancel
            with suppress(TimeoutError, *lost_by()):
                crew.client.cancel([*going, *(turn for _, turn, _ in going.values())])


def _take_turns(account: Account, deadline: float, crew: Crew, going: dict[Any, tuple[Group, Any, int]]) -> None:
    """`going` holds for what each turn tells: its searches, the turn itself, and their nodes by its end."""
    client, until = crew.client, time.time() + deadline - time.perf_counter()  # workers have clocks of their own
    graphs = {number: crew.keep([graph])[0].there for number, graph in account.graphs.items()}
    told = import_module("distributed").as_completed(timeout=deadline - time.perf_counter() + GRACE)

    def submit(group: Group, before: Any, nodes: int) -> None:
        graph, place = graphs[account.blocks.predictor[group.rows[0][0]]], {"pure": False, "retries": RETRIES}
        turn = client.submit(_turn, graph, before, group.searches[0][1:], nodes, until, priority=-nodes, **place)
        tells = client.submit(itemgetter(0), turn, **place)
        going[tells] = group, turn, nodes
        told.add(tells)

    rows = account.rows()
    for number in account.graphs:
        mine = rows[account.blocks.predictor[rows] == number]
        for part in np.array_split(mine, -(-len(mine) // SHARD)) if len(mine) else ():
            submit(account.group(part), None, FIRST)
    for tells in told:
        found, finished = tells.result()
        group, turn, nodes = going.pop(tells)
        if not group.report([found]):
            return
        if time.perf_counter() >= deadline:
            continue  # all turns end now, and what each has proven counts
        if nodes > FIRST and not finished:
            submit(group, turn, 2 * nodes)
        elif not finished:
            left = np.intersect1d(group.rows[0], account.rows())
            for part in np.array_split(left, -(-len(left) // FEW)) if len(left) else ():
                submit(account.group(part), None, TURN)


def _turn(graph: Graph, before: Any, arguments: Any, nodes: int, until: float) -> Any:
    """On a worker: ((what is proven, whether all is done), the search), for its next turn."""
    search = UnitSearch(graph, *arguments) if before is None else before[1]
    finished = search.run(time.perf_counter() + until - time.time(), nodes)
    told: tuple[Progress, bool] = search.progress(), finished
    return told, search
