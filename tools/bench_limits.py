"""By how much calls overrun their limits, and how soon Ctrl-C and a callback end them: a part of
`make bench`.

    python -m tools.bench_limits [--models NAME ...] [--methods NAME ...] [--limits SECONDS ...]

The models are those on which a careless step takes seconds (`tools/bench_models.py`). A limit is to
hold within 0.2 seconds and 2 % on quiet cores, Ctrl-C and a callback within 0.5 seconds. The
figures are printed and stored beside the load of the machine; nothing passes or fails by them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    LogBarrier,
    NeuralMIP,
    PriceCoordination,
    Recovering,
    SequentialMIP,
    SingleStepGradient,
    Solution,
    certify,
    solve,
)
from ddmip_lib.certificates import lagrangian_bound
from ddmip_lib.errors import ProblemError
from tools.bench_models import HEAVY
from tools.text_table import text_of

Call = Callable[[NeuralMIP, Solution, float, Any], Any]
Event = Callable[[str, NeuralMIP, Solution, float], dict[str, Any] | None]

METHODS: dict[str, Call] = {
    "solve": lambda p, known, limit, callback: solve(p, limit, callback=callback),
    "sequential MIP": lambda p, known, limit, callback: SequentialMIP(callback=callback).solve(
        p, limit
    ),
    "dual decomposition": lambda p, known, limit, callback: DualDecomposition(
        callback=callback
    ).solve(p, limit),
    "barrier": lambda p, known, limit, callback: DualDecomposition(
        LogBarrier(), callback=callback
    ).solve(p, limit),
    "prices": lambda p, known, limit, callback: PriceCoordination(callback=callback).solve(
        p, limit
    ),
    "recovering": lambda p, known, limit, callback: Recovering(
        DualDecomposition(callback=callback)
    ).solve(p, limit),
    "single-step gradient": lambda p, known, limit, callback: SingleStepGradient(
        callback=callback
    ).solve(p, limit),
    "Big-M": lambda p, known, limit, callback: BigM(callback=callback).solve(p, limit),
    "enumeration": lambda p, known, limit, callback: Enumeration(callback=callback).solve(p, limit),
    "certify": lambda p, known, limit, callback: certify(p, known, time_limit=limit),
    "Lagrangian bound": lambda p, known, limit, callback: lagrangian_bound(p, known, limit),
}
BOUNDS = ("certify", "Lagrangian bound")  # they take no callback
LIMITS = (1.0, 5.0)
PRESSED = (0.02, 0.5, 2.5)  # seconds after the call at which Ctrl-C is pressed
LONG = 60.0  # seconds of a call that Ctrl-C or a callback is to end
COLUMNS = ("model", "method", "event", "asked_s", "late_s", "load", "status", "objective")


def overrun(
    method: str, problem: NeuralMIP, known: Solution, limit: float
) -> dict[str, Any] | None:
    """Seconds beyond the limit."""
    began = time.perf_counter()
    found = METHODS[method](problem, known, limit, None)
    return _row("limit", limit, time.perf_counter() - began - limit, found)


def interrupted(
    method: str, problem: NeuralMIP, known: Solution, after: float
) -> dict[str, Any] | None:
    """Seconds from Ctrl-C until the call ends; None where it had ended before."""
    ended = threading.Event()
    pressed = list[float]()

    def press() -> None:
        if not ended.wait(after):
            pressed.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    found = METHODS[method](problem, known, LONG, None)
    now = time.perf_counter()
    ended.set()
    thread.join()
    return _row("Ctrl-C", after, now - pressed[0], found) if pressed else None


def stopped(
    method: str, problem: NeuralMIP, known: Solution, calls: float
) -> dict[str, Any] | None:
    """Seconds from a callback's true result until the call ends; None where it was not called so
    often.
    """
    moments: list[float] = []

    def callback(_: Any) -> bool:
        moments.append(time.perf_counter())
        return len(moments) >= calls

    found = METHODS[method](problem, known, 10.0, callback)
    if len(moments) < calls:
        return None
    return _row("callback", calls, time.perf_counter() - moments[int(calls) - 1], found)


def _row(event: str, asked: float, late: float, found: Any) -> dict[str, Any]:
    return {
        "event": event,
        "asked_s": asked,
        "late_s": late,
        "load": os.getloadavg()[0],
        "status": found.status,
        "objective": found.objective,
    }


def rows_of(
    models: Sequence[str] = tuple(HEAVY),
    methods: Sequence[str] = tuple(METHODS),
    limits: Sequence[float] = LIMITS,
) -> list[dict[str, Any]]:
    """All rows, printed as they come."""
    rows: list[dict[str, Any]] = []
    print(" ".join(f"{name:>20}" if name == "method" else f"{name:>12}" for name in COLUMNS))
    for model in models:
        problem = HEAVY[model]()
        known = DualDecomposition().solve(problem, 5.0)
        for method in methods:
            events: list[tuple[Event, float]] = [(overrun, limit) for limit in limits]
            events += [(interrupted, after) for after in PRESSED]
            if method not in BOUNDS:
                events += [(stopped, calls) for calls in (1, 3)]
            for event, asked in events:
                try:
                    row = event(method, problem, known, asked)
                except ProblemError:  # this method is not for this model
                    break
                if row is not None:
                    rows.append({"model": model, "method": method, **row})
                    print(" ".join(_cell(name, rows[-1][name]) for name in COLUMNS), flush=True)
    return rows


def _cell(name: str, value: Any) -> str:
    width = 20 if name == "method" else 12
    return text_of(value, decimals=3).rjust(width)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Overrun limits; seconds until Ctrl-C and a callback end a call."
    )
    parser.add_argument("--models", nargs="*", choices=list(HEAVY), default=list(HEAVY))
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--limits", nargs="*", type=float, default=list(LIMITS))
    parser.add_argument("--output", type=Path, default=Path("_build/bench_limits.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = rows_of(arguments.models, arguments.methods, arguments.limits)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(rows, indent=1))
    latest: dict[str, float] = {}
    for row in rows:
        event = row["event"]
        latest[event] = max(row["late_s"], latest.get(event, row["late_s"]))
    shown = [f"{event} {seconds:.3f} s" for event, seconds in sorted(latest.items())]
    print(f"latest: {', '.join(shown)}")
    print(f"stored in {arguments.output}")


if __name__ == "__main__":
    main()
