"""Price coordination whose options come from chance instead of the networks' slopes, with as many
evaluations.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ddmip_lib import PriceCoordination
from ddmip_lib.pricing.network_oracle import (
    NetworkOracle,
    PricingRequest,
    PricingResult,
    Shard,
    evaluate_columns,
)


class RandomSearch(NetworkOracle):
    """Points at random around the base points, of each row those that are worth most at the
    prices.
    """

    def of_shard(self, shard: Shard, request: PricingRequest) -> PricingResult:
        """As many points of each row as `NetworkOracle` evaluates, some coordinates of each moved
        by random lengths; the best of each start are options.
        """
        (predictor, part), draw = shard, np.random.default_rng(request.seed)
        found = []
        for start in range(self.starts):
            best = part.base.copy()
            worth = np.full(len(part.at), -np.inf)
            for _ in range(self.steps):
                moved = draw.random(part.base.shape) < draw.random((len(part.base), 1))
                length = draw.random((len(part.base), 1)) ** 2
                ends = np.where(draw.random(part.base.shape) < 0.5, part.lower, part.upper)
                u = part.base + moved * length * draw.random(part.base.shape) * (ends - part.base)
                if (
                    start == 1
                ):  # around the best option known, as `NetworkOracle` has one start there
                    u = np.clip(request.known + 0.3 * (u - part.base), part.lower, part.upper)
                raw = predictor.raw(u)[:, 0]
                shift = u - part.base
                cost = (
                    np.maximum(shift, 0) * request.rates[0, part.mode]
                    + np.maximum(-shift, 0) * request.rates[1, part.mode]
                ).sum(1)
                gained = (
                    np.where(raw > 0, 0.0, -np.inf)
                    if predictor.gives_class
                    else request.gain[part.mode] * raw
                )
                better = gained - cost > worth
                best[better], worth[better] = u[better], (gained - cost)[better]
            options = evaluate_columns(
                predictor, part, np.flatnonzero(np.isfinite(worth)), best[np.isfinite(worth)]
            )
            found.append(options._replace(at=part.at[options.at]))
        return PricingResult(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


@dataclass(frozen=True)
class RandomOptions(PriceCoordination):
    """Price coordination with a `RandomSearch`.

    >>> from ddmip_book.networks import mlp
    >>> from ddmip_book.problems import water_potability
    >>> RandomOptions().solve(water_potability(n=3, net=mlp(2, 16, 9, seed=1))).status
    'converged'
    """

    @property
    def search(self) -> NetworkOracle:
        return RandomSearch(
            int(self.starts), int(self.steps), torch.device(self.device), self.dtype
        )
