"""Price coordination and its certificate as one method."""

import time
from dataclasses import replace

from ddmip_lib import NeuralMIP, PriceCoordination, Solution, certify

FINDING = 60.0
"""Seconds that price coordination gets at most; the certificate has the rest."""


class Certified:
    """A solution by price coordination, and then the bound that `certify` proves until the time is
    over.
    """

    method = "price coordination and certificate"

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution:
        """Both parts count in `seconds` and in the time limit."""
        began = time.perf_counter()
        found = PriceCoordination(device=self.device).solve(
            problem, min(FINDING, time_limit), seed, progress
        )
        left = time_limit - (time.perf_counter() - began)
        certified = certify(
            problem, found, time_limit=left, device=self.device, seed=seed, progress=progress
        )
        return replace(certified, method=self.method, seconds=time.perf_counter() - began)
