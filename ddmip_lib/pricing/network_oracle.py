"""The columns of one round: for every block and mode the pricing problem is solved from several
starts, in one batch for each shard and network.

A shard is a part of the blocks' table that one network evaluates. Shards are fixed by the problem,
and the columns of one depend on nothing but its request, so that a cluster returns the same columns
as a single process.
"""

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from ..device import place
from ..model.blocks import BlockRows, Blocks
from ..model.predictor import Predictor
from .pricing_problem import MIN_LOGIT, Network, PricingProblem, ascend, reduce_to_boundary
from .state import CoordinationState

SHARD = 1024
"""Largest number of table rows in one shard, whose batches then fit into the processor's cache."""
WEIGHT_TOLERANCE = 1e-8
"""Distance from 0 and 1 from which on the weight of a column is fractional."""
MIN_LOGIT_SINGLE_PRECISION = 1e-4
"""Smallest logit of a point of class 1 where networks compute in less than double precision."""

_placed: WeakKeyDictionary[nn.Module, dict[tuple[torch.device, torch.dtype, int], Network]] = (
    WeakKeyDictionary()
)


Seed = tuple[int, int] | np.random.Generator
"""Seed or generator of random numbers."""


class PricingResult(NamedTuple):
    """Columns as parallel arrays.

    Attributes
    ----------
    at
        Row of the table of `Blocks` that each column belongs to, (k,).
    u
        Network inputs, (k, p).
    value
        Objective coefficients, (k,).
    """

    at: ndarray
    u: ndarray
    value: ndarray


class Shard(NamedTuple):
    """Rows of the table of `Blocks` and their network, which stay on the worker they are sent to.

    Attributes
    ----------
    predictor
        The network.
    part
        The rows.
    """

    predictor: Predictor
    part: BlockRows


class PricingRequest(NamedTuple):
    """The prices of one round, as one shard needs them.

    Attributes
    ----------
    rates
        Cost of one unit above and below the base point for each mode, (2, modes, p).
    gain
        Objective coefficient of one unit of output for each mode, (modes,).
    known
        The best known column of each row, (k, p).
    seed
        Seed or generator of the random numbers.
    """

    rates: ndarray
    gain: ndarray
    known: ndarray
    seed: Seed


class NetworkOracle(NamedTuple):
    """The pricing oracle: finds columns by the networks.

    Attributes
    ----------
    starts
        Number of starts for each row of the table.
    steps
        Number of steps from each start.
    device, dtype
        Where and in which precision the networks compute.
    """

    starts: int
    steps: int
    device: torch.device
    dtype: torch.dtype

    def options(self, state: CoordinationState) -> PricingResult:
        """Return columns for the prices `state.next_prices`.

        In the first round the base points of all rows are among them.
        """
        blocks = state.blocks
        predictors = state.incumbent.instance.predictors
        found = list[PricingResult]()
        if not state.shards:
            state.shards = state.executor.scatter(shards(blocks, predictors))
            for number, predictor in enumerate(predictors):
                rows = np.flatnonzero(blocks.predictor == number)
                base = blocks.base[rows]
                found.append(evaluate_columns(predictor, blocks, rows, base, blocks.optional))
        found += state.executor.map(self.of_shard, state.shards, _requests(state))
        for number, predictor in enumerate(predictors):
            found.append(evaluate_columns(predictor, blocks, *_mixed(state, number)))
            if not predictor.gives_class:
                found += [
                    evaluate_columns(predictor, blocks, *_shortened(blocks, part, number))
                    for part in found
                ]
        return PricingResult(*map(np.concatenate, zip(*found, strict=True)))

    def of_shard(self, shard: Shard, request: PricingRequest) -> PricingResult:
        """Solve the pricing problems of one shard.

        The first two starts of each row are its base point and its best known column, at the prices
        of the request; the others are random points, at randomly changed prices.
        """
        predictor = shard.predictor
        part = shard.part
        at = np.tile(np.arange(len(part.at)), self.starts)
        start, noise = self._starts(part, at, request)
        task = self._pricing_problem(shard, at, request, noise)
        network = self._network(predictor.net, *start.shape)
        u = ascend(network, task, torch.from_numpy(start), self.steps)[0]
        if predictor.gives_class:
            u = reduce_to_boundary(network, task, u)
        found = evaluate_columns(predictor, part, at, u.numpy())
        return found._replace(at=part.at[found.at])

    def _pricing_problem(
        self, shard: Shard, at: ndarray, request: PricingRequest, noise: ndarray
    ) -> PricingProblem:
        mode = shard.part.mode[at]
        gain = np.full(len(at), np.inf) if shard.predictor.gives_class else request.gain[mode]
        margin = MIN_LOGIT if self.dtype == torch.float64 else MIN_LOGIT_SINGLE_PRECISION
        up, down = request.rates[:, mode] * noise
        return PricingProblem.of(shard.part, at, up, down, gain, margin)

    def _starts(
        self, part: BlockRows, at: ndarray, request: PricingRequest
    ) -> tuple[ndarray, ndarray]:
        """Return start points, (k, p), and factors of the costs up and down, (2, k, p)."""
        draw = np.random.default_rng(request.seed)
        n = len(part.at)
        shape = len(at), part.base.shape[1]
        noise = np.exp(0.5 * draw.standard_normal((2, *shape)))
        moved = draw.random(shape) < 0.4
        shift = 0.25 * (part.upper - part.lower)[at] * moved * draw.uniform(-1, 1, shape)
        noise[:, : 2 * n] = 1.0
        start = part.base[at] + shift
        start[:n] = part.base
        start[n : 2 * n] = request.known
        return np.clip(start, part.lower[at], part.upper[at]), noise

    def _network(self, net: nn.Module, rows: int, width: int) -> Network:
        """Return the network on the device, placed there once for each batch size."""
        if self.device.type == "cpu" and self.dtype == torch.float64:
            return net
        known = _placed.setdefault(net, {})
        key = (self.device, self.dtype, rows)
        if key not in known:
            batch = torch.zeros(rows, width, dtype=torch.float64)
            known[key] = place(net, self.device, self.dtype, batch)
        return known[key]


def shards(blocks: Blocks, predictors: list[Predictor]) -> list[Shard]:
    """Return the table rows of each network whose box is not a single point, in shards, with the
    network without the variables of its model.
    """
    free = (blocks.lower < blocks.upper).any(axis=1)
    found = list[Shard]()
    for number, predictor in enumerate(predictors):
        rows = np.flatnonzero(free & (blocks.predictor == number))
        if len(rows):
            parts = np.array_split(rows, -(-len(rows) // SHARD))
            found += [Shard(predictor.without_variables(), blocks.part(at)) for at in parts]
    return found


def _requests(state: CoordinationState) -> list[PricingRequest]:
    """Return the request of each shard, with positive costs, since capacities are finite."""
    blocks = state.blocks
    seeds = _seeds(state.rng, len(state.shards))
    rates = blocks.mode_rates(state.next_prices)
    gain = np.array([mode.worth for mode in blocks.modes])
    counts = 1.0 if state.lp is None else state.lp.phase_factor
    gain = gain * blocks.mode_gains(state.next_prices, counts)
    points = _best_known(state)
    requests = []
    for shared, seed in zip(state.shards, seeds, strict=True):
        at = shared.local.part.at
        modes = blocks.mode[blocks.predictor == blocks.predictor[at[0]]]
        least = 1e-3 * max(float(rates[:, modes].max()), 1e-9)
        requests.append(PricingRequest(np.maximum(rates, least), gain, points[at], seed))
    return requests


def _seeds(draw: np.random.Generator, n: int) -> Sequence[Seed]:
    """Return a seed for each of n shards; a single one stays here and uses the generator itself."""
    if n <= 1:
        return [draw] * n
    salt = int(draw.integers(2**32))
    return [(salt, k) for k in range(n)]


def _best_known(state: CoordinationState) -> ndarray:
    """Return for each row of the table its column of highest profit, or else its base point."""
    pool = state.pool
    points = state.blocks.base.copy()
    order = np.argsort(pool.value - pool.use @ state.next_prices, kind="stable")
    points[pool.at[order]] = pool.u[order]  # of several columns the last one is kept
    return points


def _shortened(blocks: Blocks, columns: PricingResult, number: int) -> tuple[ndarray, ndarray]:
    """Return the columns of one network that alone exceed a capacity, shortened until they fit."""
    own = blocks.predictor[columns.at] == number
    at = columns.at[own]
    move = columns.u[own] - blocks.base[at]
    left = np.maximum(blocks.capacities - blocks.fixed[at], 0.0)
    used = blocks.use(at, columns.u[own], np.zeros(len(at))) - blocks.fixed[at]
    fraction = np.divide(left, used, out=np.ones_like(used), where=used > left)
    fraction = fraction.min(axis=1, keepdims=True, initial=1.0)
    exceeds = fraction[:, 0] < 1
    return at[exceeds], (blocks.base[at] + fraction * move)[exceeds]


def _mixed(state: CoordinationState, number: int) -> tuple[ndarray, ndarray]:
    """Return points between columns of one row that have fractional weights in the linear program.

    They are the weighted mean, and the base point plus the weighted sum of the columns' distances
    from it. Columns are vertices where a network is nearly linear, and the best choice may lie
    between them.
    """
    pool = state.pool
    base = state.blocks.base
    if state.lp is None:
        return pool.at[:0], pool.u[:0]
    weight = state.lp.weights
    fractional = (weight > WEIGHT_TOLERANCE) & (weight < 1 - WEIGHT_TOLERANCE)
    mixed = np.flatnonzero(fractional & (state.blocks.predictor[pool.at] == number))
    at, owner = np.unique(pool.at[mixed], return_inverse=True)
    total = np.bincount(owner, weight[mixed], len(at))[:, None]
    move = np.zeros((len(at), base.shape[1]))
    np.add.at(move, owner, weight[mixed, None] * (pool.u[mixed] - base[pool.at[mixed]]))
    return np.tile(at, 2), np.concatenate([base[at] + move / total, base[at] + move])


def evaluate_columns(
    predictor: Predictor,
    blocks: Blocks | BlockRows,
    at: ndarray,
    u: ndarray,
    classes_only: bool = True,
) -> PricingResult:
    """Evaluate points by the true network, and return those that are columns.

    Parameters
    ----------
    predictor
        The network.
    blocks
        The table, or some rows of it.
    at, u
        Row of the table and network inputs of each point, which are clipped to the box.
    classes_only
        Whether points of class 0 are left out.
    """
    u = np.clip(u, blocks.lower[at], blocks.upper[at])
    raw = predictor.raw(u)[:, 0]
    value = blocks.worth[at] * np.minimum(predictor.outputs_of(raw), blocks.cap[at])
    kept = np.isfinite(raw)
    if predictor.gives_class and classes_only:
        kept &= raw > 0
    return PricingResult(at[kept], u[kept], value[kept])
