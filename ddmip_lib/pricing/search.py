"""The options of one round: every block and mode, from several starts, in one batch for each network."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..device import place
from ..model.predictor import Predictor
from .market import Market
from .oracle import MARGIN, Task, follow, pull_back

SINGLE_MARGIN = 1e-4  # logit kept from zero by points of class 1 where networks compute in less than double precision


class Found(NamedTuple):
    """Options as parallel arrays: row of the table of `Blocks`, point, value."""

    at: np.ndarray
    u: np.ndarray
    value: np.ndarray


class Search:
    """The NN block of price coordination; see `oracle` for what it does from each start."""

    def __init__(self, starts: int, steps: int, device: torch.device, dtype: torch.dtype) -> None:
        self.starts, self.steps, self.device, self.dtype = starts, steps, device, dtype

    def options(self, market: Market) -> Found:
        """The best options at the prices seen; rows of the table without freedom are looked at once."""
        blocks = market.blocks
        free = (blocks.lower < blocks.upper).any(axis=1)
        found = [Found(np.zeros(0, int), np.zeros((0, blocks.base.shape[1])), np.zeros(0))]
        for number in np.unique(blocks.predictor).tolist():
            mine = blocks.predictor == number
            if len(market.rounds) == 0:
                found.append(judge(market, number, np.flatnonzero(mine), blocks.base[mine], blocks.optional))
            if (mine & free).any():
                found.append(self._search(market, number, np.flatnonzero(mine & free)))
        return Found(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _search(self, market: Market, number: int, rows: np.ndarray) -> Found:
        """One batch through one network."""
        predictor, at = market.incumbent.instance.predictors[number], np.tile(rows, self.starts)
        task, u = self._task(market, at, predictor)
        key = (number, len(at))
        if key not in market.networks:
            plain = self.device.type == "cpu" and self.dtype == torch.float64
            market.networks[key] = predictor.net if plain else place(predictor.net, self.device, self.dtype, u)
        network = market.networks[key]
        u = follow(network, task, u, self.steps)[0]
        if predictor.gives_class:
            u = pull_back(network, task, u)
        found = judge(market, number, at, u.numpy())
        more = [judge(market, number, *_mixed(market, rows))]
        if not predictor.gives_class:
            more.append(judge(market, number, *_fitting(market, found)))
        return Found(*map(np.concatenate, zip(found, *more, strict=True)))

    def _task(self, market: Market, at: np.ndarray, predictor: Predictor) -> tuple[Task, Tensor]:
        """Costs and starts: base point and best option known, at the prices seen; others, and their prices, random."""
        blocks, draw, each = market.blocks, market.draw, len(at) // self.starts
        up, down = (rate[at] for rate in blocks.rates(market.seen))
        floor = 1e-3 * max(float(up.max()), float(down.max()), 1e-9)  # nothing is free: capacities are finite
        noise = np.exp(0.5 * draw.standard_normal((2, *up.shape)))
        moved = draw.random(up.shape) < 0.4
        shift = 0.25 * (blocks.upper[at] - blocks.lower[at]) * moved * draw.uniform(-1, 1, up.shape)
        noise[:, : 2 * each], shift[: 2 * each] = 1.0, 0.0
        u = blocks.base[at] + shift
        u[each : 2 * each] = self._best_known(market)[at[:each]]
        gain = blocks.worth[at] * blocks.gains(market.seen, market.counts)[at]
        if predictor.gives_class:
            gain = np.full(len(at), np.inf)
        margin = MARGIN if self.dtype == torch.float64 else SINGLE_MARGIN
        u = np.clip(u, blocks.lower[at], blocks.upper[at])
        costs = np.maximum(up, floor) * noise[0], np.maximum(down, floor) * noise[1]
        return Task.of(blocks, at, *costs, gain, margin), torch.from_numpy(u)

    def _best_known(self, market: Market) -> np.ndarray:
        """For each row of the table its most profitable option at the prices seen; the base point where it has none."""
        pool, points = market.pool, market.blocks.base.copy()
        order = np.argsort(pool.value - pool.use @ market.seen, kind="stable")  # the last one written stays
        points[pool.at[order]] = pool.u[order]
        return points


def _fitting(market: Market, found: Found) -> tuple[np.ndarray, np.ndarray]:
    """Points that alone take more than there is, moved towards their base points until they fit."""
    blocks, (at, u, _) = market.blocks, found
    room = np.maximum(blocks.capacities - blocks.fixed[at], 0.0)
    taken = blocks.use(at, u, np.zeros(len(at))) - blocks.fixed[at]
    share = np.divide(room, taken, out=np.ones_like(taken), where=taken > room).min(axis=1, keepdims=True, initial=1.0)
    much = share[:, 0] < 1
    return at[much], (blocks.base[at] + share * (u - blocks.base[at]))[much]


def _mixed(market: Market, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the linear program mixes options of one row of the table: their mean, and as far from the base point as
    they are taken. Options are corners where a network is nearly linear, and the best choice may lie between."""
    blocks, pool, lp = market.blocks, market.pool, market.lp
    if lp is None:
        return np.zeros(0, int), np.zeros((0, blocks.base.shape[1]))
    size = len(blocks.base)
    total, move = np.bincount(pool.at, lp.shares, size), np.zeros_like(blocks.base)
    np.add.at(move, pool.at, lp.shares[:, None] * (pool.u - blocks.base[pool.at]))
    largest = np.zeros(size)
    np.maximum.at(largest, pool.at, lp.shares)
    at = rows[(total[rows] > 1e-6) & (largest[rows] < 1 - 1e-6)]
    points = [blocks.base[at] + move[at] / total[at, None], blocks.base[at] + move[at]]
    return np.tile(at, 2), np.concatenate(points)


def judge(market: Market, number: int, at: np.ndarray, u: np.ndarray, classes_only: bool = True) -> Found:
    """Which points are options, with their values by the true network; class 0 is one only on demand."""
    blocks, predictor = market.blocks, market.incumbent.instance.predictors[number]
    u = np.clip(u, blocks.lower[at], blocks.upper[at])
    raw = predictor.raw(u)[:, 0]
    value = blocks.worth[at] * np.minimum(predictor.outputs_of(raw), blocks.cap[at])
    kept = np.isfinite(raw)
    if predictor.gives_class and classes_only:
        kept &= raw > 0
    return Found(at[kept], u[kept], value[kept])
