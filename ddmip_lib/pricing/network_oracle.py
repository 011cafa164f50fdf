"""The options of one round: every block and mode, from several starts, in one batch for each shard
and network.

A shard is a part of the blocks' table that one network serves. Shards are fixed by the problem, and
what is found for one depends on nothing but what it is asked: here, one after the other, or on a
cluster, it is the same.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from ..device import place
from ..model.blocks import BlockRows, Blocks
from ..model.predictor import Predictor
from .pricing_problem import MARGIN, Network, PricingProblem, ascend, reduce_to_boundary
from .state import CoordinationState

SHARD = 1024  # rows of the table in one shard, at most: their batches stay near the processor
NONE = 1e-8  # share of an option that is none
# logit kept from zero by points of class 1 where networks compute in less than double precision
SINGLE_MARGIN = 1e-4

_placed: WeakKeyDictionary[nn.Module, dict[tuple[torch.device, torch.dtype, int], Network]] = (
    WeakKeyDictionary()
)


class PricingResult(NamedTuple):
    """Options as parallel arrays: row of the table of `Blocks`, point, value."""

    at: np.ndarray
    u: np.ndarray
    value: np.ndarray


class Shard(NamedTuple):
    """Rows of the table, and the network that serves them: what stays where it was sent."""

    predictor: Predictor
    part: BlockRows


class PricingRequest(NamedTuple):
    """What one shard is asked in one round: costs of a unit up and down, (modes, p), what a unit of
    output is worth, (modes,), the best option known of each row, and a seed or what draws.
    """

    up: np.ndarray
    down: np.ndarray
    gain: np.ndarray
    known: np.ndarray
    seed: tuple[int, int] | np.random.Generator


class NetworkOracle(NamedTuple):
    """The NN block of price coordination; see `oracle` for what it does from each start."""

    starts: int
    steps: int
    device: torch.device
    dtype: torch.dtype

    def options(self, market: CoordinationState) -> PricingResult:
        """The best options at the prices seen; rows of the table without freedom are looked at
        once.
        """
        blocks = market.blocks
        predictors = market.incumbent.instance.predictors
        found = [PricingResult(np.zeros(0, int), np.zeros((0, blocks.base.shape[1])), np.zeros(0))]
        if not market.shards:
            market.shards = market.crew.keep(shards(blocks, predictors))
            for number, predictor in enumerate(predictors):
                mine = np.flatnonzero(blocks.predictor == number)
                found.append(
                    evaluate_columns(predictor, blocks, mine, blocks.base[mine], blocks.optional)
                )
        found += market.crew.each(self.of_shard, market.shards, self._asks(market))
        for number, predictor in enumerate(predictors):
            at, u = _mixed(market, number)
            found.append(evaluate_columns(predictor, blocks, at, u))
            if not predictor.gives_class:
                far = [
                    _fitting(blocks, part.at, part.u, blocks.predictor[part.at] == number)
                    for part in found
                ]
                found += [evaluate_columns(predictor, blocks, *points) for points in far]
        return PricingResult(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _asks(self, market: CoordinationState) -> list[PricingRequest]:
        """The same prices for all shards; nothing is free, since capacities are finite."""
        blocks = market.blocks
        asks = []
        rows = rows_of_shards(market.blocks)
        salt = int(market.draw.integers(2**32)) if len(rows) > 1 else 0
        up, down = blocks.mode_rates(market.seen)
        gain = np.array([mode.worth for mode in blocks.modes]) * blocks.mode_gains(
            market.seen, market.counts
        )
        points = _best_known(market)
        for k, at in enumerate(rows):
            modes = np.unique(blocks.mode[blocks.predictor == blocks.predictor[at[0]]])
            floor = 1e-3 * max(float(up[modes].max()), float(down[modes].max()), 1e-9)
            seed = (
                (salt, k) if len(rows) > 1 else market.draw
            )  # one shard alone is asked in this process
            asks.append(
                PricingRequest(
                    np.maximum(up, floor), np.maximum(down, floor), gain, points[at], seed
                )
            )
        return asks

    def of_shard(self, shard: Shard, ask: PricingRequest) -> PricingResult:
        """Options of one shard: from its base points and best options known, at the prices asked;
        from others, and at other prices, by chance.
        """
        (predictor, part), draw = shard, np.random.default_rng(ask.seed)
        each = len(part.at)
        at = np.tile(np.arange(len(part.at)), self.starts)
        shape = len(at), part.base.shape[1]
        noise = np.exp(0.5 * draw.standard_normal((2, *shape)))
        moved = draw.random(shape) < 0.4
        shift = 0.25 * (part.upper - part.lower)[at] * moved * draw.uniform(-1, 1, shape)
        noise[:, : 2 * each], shift[: 2 * each] = 1.0, 0.0
        start = part.base[at] + shift
        start[each : 2 * each] = ask.known
        start = np.clip(start, part.lower[at], part.upper[at])
        mode = part.mode[at]
        gain = np.full(len(at), np.inf) if predictor.gives_class else ask.gain[mode]
        margin = MARGIN if self.dtype == torch.float64 else SINGLE_MARGIN
        task = PricingProblem.of(
            part, at, ask.up[mode] * noise[0], ask.down[mode] * noise[1], gain, margin
        )
        network = self._network(predictor.net, len(at), shape[1])
        u = ascend(network, task, torch.from_numpy(start), self.steps)[0]
        if predictor.gives_class:
            u = reduce_to_boundary(network, task, u)
        found = evaluate_columns(predictor, part, at, u.numpy())
        return found._replace(at=part.at[found.at])

    def _network(self, net: nn.Module, rows: int, width: int) -> Network:
        """The network where it is to compute, placed there once for each number of rows."""
        if self.device.type == "cpu" and self.dtype == torch.float64:
            return net
        known = _placed.setdefault(net, {})
        key = (self.device, self.dtype, rows)
        if key not in known:
            known[key] = place(
                net, self.device, self.dtype, torch.zeros(rows, width, dtype=torch.float64)
            )
        return known[key]


def rows_of_shards(blocks: Blocks) -> list[np.ndarray]:
    """The rows of the table with a freedom, network by network, in shards of about the same
    size.
    """
    free = (blocks.lower < blocks.upper).any(axis=1)
    rows = [
        np.flatnonzero(free & (blocks.predictor == number))
        for number in np.unique(blocks.predictor)
    ]
    return [
        part for mine in rows if len(mine) for part in np.array_split(mine, -(-len(mine) // SHARD))
    ]


def shards(blocks: Blocks, predictors: list[Predictor]) -> list[Shard]:
    """The shards of a problem, without the variables of its model."""
    return [
        Shard(predictors[blocks.predictor[at[0]]].alone(), blocks.part(at))
        for at in rows_of_shards(blocks)
    ]


def _best_known(market: CoordinationState) -> np.ndarray:
    """For each row of the table its most profitable option at the prices seen; the base point where
    it has none.
    """
    pool = market.pool
    points = market.blocks.base.copy()
    order = np.argsort(
        pool.value - pool.use @ market.seen, kind="stable"
    )  # the last one written stays
    points[pool.at[order]] = pool.u[order]
    return points


def _fitting(
    blocks: Blocks, at: np.ndarray, u: np.ndarray, mine: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those of some points that alone take more than there is, moved towards their base points
    until they fit.
    """
    at = at[mine]
    u = u[mine]
    room = np.maximum(blocks.capacities - blocks.fixed[at], 0.0)
    taken = blocks.use(at, u, np.zeros(len(at))) - blocks.fixed[at]
    share = np.divide(room, taken, out=np.ones_like(taken), where=taken > room).min(
        axis=1, keepdims=True, initial=1.0
    )
    much = share[:, 0] < 1
    return at[much], (blocks.base[at] + share * (u - blocks.base[at]))[much]


def _mixed(market: CoordinationState, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the linear program mixes options of one row of the table: their mean, and as far from
    the base point as they are taken. Options are corners where a network is nearly linear, and the
    best choice may lie between.
    """
    blocks = market.blocks
    pool = market.pool
    lp = market.lp
    if lp is None:
        return np.zeros(0, int), np.zeros((0, blocks.base.shape[1]))
    mixed = np.flatnonzero(
        (lp.shares > NONE) & (lp.shares < 1 - NONE) & (blocks.predictor[pool.at] == number)
    )
    at, owner = np.unique(pool.at[mixed], return_inverse=True)
    total = np.bincount(owner, lp.shares[mixed], len(at))[:, None]
    move = np.zeros((len(at), blocks.base.shape[1]))
    np.add.at(move, owner, lp.shares[mixed, None] * (pool.u[mixed] - blocks.base[pool.at[mixed]]))
    return np.tile(at, 2), np.concatenate([blocks.base[at] + move / total, blocks.base[at] + move])


def evaluate_columns(
    predictor: Predictor,
    blocks: Blocks | BlockRows,
    at: np.ndarray,
    u: np.ndarray,
    classes_only: bool = True,
) -> PricingResult:
    """Which points are options, with their values by the true network; class 0 is one only on
    demand.
    """
    u = np.clip(u, blocks.lower[at], blocks.upper[at])
    raw = predictor.raw(u)[:, 0]
    value = blocks.worth[at] * np.minimum(predictor.outputs_of(raw), blocks.cap[at])
    kept = np.isfinite(raw)
    if predictor.gives_class and classes_only:
        kept &= raw > 0
    return PricingResult(at[kept], u[kept], value[kept])
