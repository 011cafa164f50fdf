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
            "Efficiency one half",
            "a function of the sequential fraction, which returns the number of workers at"
            " efficiency one half",
            lambda: lambda share: 1 + 1 / share,
            lambda s: [
                (
                    lambda share: 1 / share,
                    "Near; but one worker alone has efficiency 1, whatever the fraction.",
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
            "Scheduling the longest task",
            "a function of (list of seconds, workers) that returns the seconds until all are done,"
            " longest first",
            lambda: _makespan,
            lambda s: [
                (
                    lambda times, workers: sum(times) / workers,
                    "That is the mean; a block has one worker.",
                ),
                (
                    lambda times, workers: max(max(times), sum(times) / workers),
                    "A lower bound, which list scheduling may not attain.",
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
            "Failing workers",
            "a function of (seconds, failures a second, time slices) that returns the expected"
            " seconds",
            lambda: _expected,
            lambda s: [
                (lambda t, rate, turns: s(t, rate, 1), "Results of earlier time slices are kept."),
                (
                    lambda t, rate, turns: t * exp(rate * t / turns),
                    (
                        "Not every failed trial takes the full slice: solve the equation for the"
                        " expected time."
                    ),
                ),
                (
                    lambda t, rate, turns: s(t, rate, turns) / turns,
                    "All slices are executed, one after another.",
                ),
            ],
            "First one slice: $m = \\int_0^t \\lambda e^{-\\lambda s} (s + m)\\,ds + t e^{-\\lambda"
            " t}$.",
            judge=calls((100.0, 0.01, 1), (100.0, 0.01, 4), (10.0, 0.3, 5)),
        ),
    ],
}
