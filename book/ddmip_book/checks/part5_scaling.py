"""Self-checks of the chapter on scaling out."""

from collections.abc import Sequence
from math import exp

from .core import Check, calls


def _makespan(times: Sequence[float], workers: int, sort: bool = True) -> float:
    busy = [0.0] * workers
    for each in sorted(times, reverse=True) if sort else times:
        first = busy.index(min(busy))
        busy[first] += each
    return max(busy)


def _expected(seconds: float, rate: float, turns: int) -> float:
    return turns * (exp(rate * seconds / turns) - 1) / rate


CHECKS = {
    "scaling_out": [
        Check(
            "ex-scale-half",
            "Half of the money for nothing",
            "a function of the share that is done alone, which returns the number of workers at"
            " efficiency one half",
            lambda: lambda share: 1 + 1 / share,
            lambda s: [
                (
                    lambda share: 1 / share,
                    "Near; but one worker alone has efficiency 1, whatever the share.",
                ),
                (
                    lambda share: 0.5 / share,
                    "At half of the ceiling the efficiency is not one half: write it down.",
                ),
                (lambda share: 2 / share, "Efficiency is the speed-up divided by the workers."),
            ],
            "Set $1 / (w s + 1 - s)$ equal to one half.",
            judge=calls((0.1,), (0.02,), (0.5,)),
        ),
        Check(
            "ex-scale-list",
            "The hardest block",
            "a function of (list of seconds, workers) that returns the seconds until all are done,"
            " longest first",
            lambda: _makespan,
            lambda s: [
                (
                    lambda times, workers: sum(times) / workers,
                    "That is the mean; a block is not shared.",
                ),
                (
                    lambda times, workers: max(max(times), sum(times) / workers),
                    "A lower bound, which lists can miss.",
                ),
                (
                    lambda times, workers: _makespan(times, workers, sort=False),
                    "Take the longest first.",
                ),
            ],
            "Give each block to the worker that is free first, in falling order of seconds.",
            judge=calls(([1, 1, 1, 1, 4], 2), ([3, 3, 2, 2, 2], 2), ([5], 3)),
        ),
        Check(
            "ex-scale-turns",
            "Workers that die",
            "a function of (seconds, deaths a second, turns) that returns the expected seconds",
            lambda: _expected,
            lambda s: [
                (lambda t, rate, turns: s(t, rate, 1), "What earlier turns found is kept."),
                (
                    lambda t, rate, turns: t * exp(rate * t / turns),
                    (
                        "Not every failed try takes the full turn: solve the equation for the"
                        " expected time."
                    ),
                ),
                (
                    lambda t, rate, turns: s(t, rate, turns) / turns,
                    "All turns have to be done, one after another.",
                ),
            ],
            "First one turn: $m = \\int_0^t \\lambda e^{-\\lambda s} (s + m)\\,ds + t e^{-\\lambda"
            " t}$.",
            judge=calls((100.0, 0.01, 1), (100.0, 0.01, 4), (10.0, 0.3, 5)),
        ),
    ],
}
