"""One function from a case to a record."""

import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ddmip_book.data import Dataset, draw_nonpotable, load_water
from ddmip_book.problems import site_care, tree_planting, water_potability
from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.certificates import Certificate
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.model import Incumbent
from ddmip_lib.pricing.state import Rounds
from .case import RAW, RAW_BUDGETS, Case
from .methods import solver_of
from .networks import LARGEST_STORED, data_sets, digest, networks_of, parameters
from .rows import Row, encode, provenance, rounded

TRACE = 100
"""At most so many iterations are kept in a record."""
HISTORY = 60
"""At most so many improvements of a certificate's bound are kept in a record."""
WARM_UP_SECONDS = 0.5
"""Enough to load code and kernels: every method finishes what it begins with, an iteration or a
model.
"""
CONVERGED = 1e-4
WATER = {"water": False, "water_repeated": True, RAW: False}
"""Problems on the water data, and whether their samples are drawn with replacement."""


def water_budget(problem: str, budget: float | None, net: nn.Module) -> np.ndarray:
    """What a water problem allows in standard units: for each feature what may be added, and taken
    away.
    """
    spread = np.asarray(net.__dict__["std"])
    return np.asarray(RAW_BUDGETS) / spread if problem == RAW else np.full((2, len(spread)), budget)


def _water(case: Case, size: int, nets: list[nn.Module]) -> NeuralMIP:
    budget = water_budget(case.problem, case.budget, nets[0])
    return water_potability(
        n=size, net=nets[0], seed=case.seed, budget=budget, repeat=WATER[case.problem]
    )


BUILDERS: dict[str, Callable[[Case, int, list[nn.Module]], NeuralMIP]] = {
    "water": _water,
    "water_repeated": _water,
    "water_raw": _water,
    "trees": lambda case, size, nets: tree_planting(grid=size, nets=nets, seed=case.seed),
    "site_care": lambda case, size, nets: site_care(grid=size, nets=nets, seed=case.seed),
}
"""The problems by the names that records carry; `experiments` of the project adds the suite."""


def build(case: Case, nets: list[nn.Module], size: int | None = None) -> NeuralMIP:
    """The case's problem, or a small sibling of another size."""
    if size is not None:
        return BUILDERS[case.problem](case, size, nets)
    problem = BUILDERS[case.problem](case, case.size, nets)
    if problem.model.getObjectiveSense() != case.sense.replace("ise", "ize"):  # as SCIP spells it
        raise ValueError(f"{case.key} is said to {case.sense}, but its model does the opposite.")
    return problem


def run_case(
    case: Case,
    weights: Path | None = None,
    workers: int = 1,
    ready: Callable[[], Any] = lambda: None,
) -> Row:
    """Train or load, warm up on a two-sample sibling, solve, and return the result as a record.

    `weights` is the folder of stored networks; `ready` is called when the timed part begins.
    """
    nets = networks_of(case, weights)
    data = data_sets(case)
    solver = solver_of(case.method, case.device)
    problem = build(case, nets)
    untreated = untreated_objective(problem)
    sibling = build(case, nets, 2)
    with suppress(ProblemError, UnsupportedNetworkError):  # the sibling may be of another kind
        solver.solve(sibling, time_limit=WARM_UP_SECONDS, seed=case.seed)
    ready()
    cpu = time.process_time()
    solution = solver.solve(problem, time_limit=case.time_limit, seed=case.seed)
    cpu = time.process_time() - cpu
    return Row(
        key=case.key,
        **case.setting(),
        status=solution.status,
        objective=solution.objective,
        untreated=untreated,
        bound=solution.bound,
        seconds=solution.seconds,
        cpu_seconds=rounded(cpu),
        objective_last=solution.objective_last,
        **_of_history(solution),
        build_seconds=solution.details.get("build_seconds"),
        solve_seconds=solution.details.get("solve_seconds"),
        peak_memory=_peak_memory(),
        parameters=sum(map(parameters, nets)),
        test_score=_score(nets),
        incumbents=[[rounded(t) or 0.0, value] for t, value in _incumbents(solution)],
        details=_scalars(solution),
        weights={
            "files": list(data) if all(parameters(net) <= LARGEST_STORED for net in nets) else [],
            "sha256": digest(nets),
        },
        point=_point(case, problem, solution),
        provenance=provenance([each.provenance for each in data.values()], case.device, workers),
    )


def untreated_objective(problem: NeuralMIP) -> float | None:
    """The verified objective of the problem's start."""
    incumbent = Incumbent(problem.instance(), 0.0)
    incumbent.consider_start(problem.start, 50.0)
    return incumbent.objective


def _of_history(solution: Solution) -> dict[str, Any]:
    """Iterations, last residuals, seconds in each block, and a trace of at most `TRACE`
    iterations.
    """
    history = solution.history
    if not len(history):
        return {"iterations": solution.details.get("steps")}
    last = history[-1]
    kept = np.unique(np.linspace(0, len(history) - 1, min(TRACE, len(history))).astype(int))
    residuals: dict[str, Any] = {}
    names: tuple[str, ...] = ("k", "seconds", "lp_value", "incumbent", "options", "new")
    if not isinstance(history, Rounds):
        names = ("k", "seconds", "primal_residual", "dual_residual", "objective")
        residuals = {
            "converged": bool(last.primal_residual < CONVERGED),
            "primal_residual": rounded(last.primal_residual),
            "dual_residual": rounded(last.dual_residual),
        }
    return residuals | {
        "iterations": len(history),
        "seconds_mip": rounded(float(history["seconds_mip"].sum())),
        "seconds_nn": rounded(float(history["seconds_nn"].sum())),
        "trace": {name: [rounded(v) for v in history[name][kept]] for name in names},
    }


def _incumbents(solution: Solution) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = solution.details.get("incumbents", [])
    return found


def _scalars(solution: Solution) -> dict[str, Any]:
    kept = {k: v for k, v in solution.details.items() if isinstance(v, (bool, int, float, str))}
    scalars: dict[str, Any] = {
        k: rounded(v) if isinstance(v, float) else v for k, v in kept.items()
    }
    if "log" in solution.details:
        scalars["plan"] = [
            [turn.method, turn.status, rounded(turn.seconds)] for turn in solution.details["log"]
        ]
    if "prices" in solution.details:
        scalars["prices"] = [rounded(price) for price in solution.details["prices"]]
    if isinstance(solution.details.get("certificate"), Certificate):
        scalars["certificate"] = _certificate(solution.details["certificate"])
    return scalars


def _certificate(certificate: Certificate) -> dict[str, Any]:
    """What a record keeps of a certificate."""
    step = max(1, len(certificate.history) // HISTORY)
    kept = [*certificate.history[:-1:step], certificate.history[-1]]
    return {
        "bound": certificate.bound,
        "blocks": len(certificate.closed),
        "closed": int(certificate.closed.sum()),
        "methods": dict(sorted(Counter(certificate.method).items())),
        "nodes": certificate.nodes,
        "seconds": round(certificate.seconds, 3),
        "history": [[round(seconds, 2), round(bound, 4)] for seconds, bound in kept],
    }


def _peak_memory() -> float:
    """MiB. On Linux by the process itself: the value of `getrusage` includes the process that
    started this one.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        kib = next(
            line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")
        )
        return round(int(kib) / 2**10, 1)
    return round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1
    )  # macOS counts in bytes


def _score(nets: list[nn.Module]) -> float | None:
    reports = [net.__dict__.get("report", {}) for net in nets]
    scores = [v for report in reports for k, v in report.items() if k.startswith("test_")]
    return float(np.mean(scores)) if scores else None


def samples(data: Dataset, rows: np.ndarray, net: nn.Module) -> np.ndarray:
    """The instance's samples as the network sees them, from indices into the complete records."""
    mean = net.__dict__["mean"]
    std = net.__dict__["std"]
    return np.asarray((data.features[rows] - mean) / std)


def _point(case: Case, problem: NeuralMIP, solution: Solution) -> dict[str, Any]:
    """What `verify` needs, without any value of the data: adjustments and record numbers, or the
    model's variables.
    """
    if solution.values is None:
        return {}
    if case.problem not in WATER:
        return {"values": encode(solution.values), "dtype": "float64"}
    data = load_water()
    drawn = draw_nonpotable(data, case.size, case.seed, WATER[case.problem])
    net = problem.predictors[0].net
    exact = solution.inputs[0] - samples(data, drawn, net)
    short = exact.astype(np.float32)
    kept = short if potable(net, samples(data, drawn, net) + short) == solution.objective else exact
    return {
        "rows": data.row_numbers[drawn].tolist(),
        "adjustments": encode(kept),
        "dtype": str(kept.dtype),
    }


def potable(net: nn.Module, x: np.ndarray) -> int:
    """How many records of `x` the network calls potable, in float64."""
    with torch.no_grad():
        return int((net(torch.from_numpy(np.asarray(x, dtype=np.float64))) > 0).sum())
