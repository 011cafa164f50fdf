"""What the peers share: everything but the model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.baselines.scip_run import exact_solution
from ddmip_lib.bounds import flat_layers
from ddmip_lib.bounds.layer_list import output_range
from ddmip_lib.clock import now
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.methods import start_run
from ddmip_lib.model import Instance, PointCallback
from ddmip_lib.model.predictor import LOGIT_MARGIN
from ddmip_lib.model.progress import ProgressLine, report_incumbent, report_progress


class Tie(NamedTuple):
    r"""A class $y$ and its logit $o \in [l, u]$: $o \ge l + (m - l)\,y$ and, unless `helps`, $o \le
    u\,y$.
    """

    cell: tuple[int, ...]
    at: int
    low: float
    high: float
    helps: bool


class Outcome(NamedTuple):
    """The end of a peer's run: status in SCIP's terms (or "refused"), bound, best point, size
    and effort.
    """

    status: str
    bound: float | None
    values: np.ndarray | None
    details: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run: what to embed, where to start, until when, and a callback for each new incumbent."""

    instance: Instance
    flat: list[list[nn.Module]]
    start: np.ndarray | None
    margin: float
    began: float
    deadline: float
    seed: int
    report: Callable[[np.ndarray, float], None]
    """Takes the values of the user's variables, and the bound at that moment."""

    @property
    def seconds(self) -> float:
        return now() - self.began

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - now(), 0.0)

    def box(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the inputs of one predictor, row by row."""
        s = self.instance.milp
        where = self.instance.maps[number]
        return where.at(s.lower), where.at(s.upper)

    def ties(self, number: int) -> Iterator[Tie]:
        """The classes of one predictor; none where it is a regression."""
        if not self.instance.predictors[number].gives_class:
            return
        low, high = output_range(nn.Sequential(*self.flat[number]), *self.box(number))
        for cell, at in np.ndenumerate(self.instance.maps[number].output):
            ends = min(float(low[cell]), 0.0), max(float(high[cell]), self.margin)
            yield Tie(cell, int(at), *ends, self.instance.milp.is_monotone(int(at)))

    def activations(self, number: int) -> list[np.ndarray]:
        """The outputs of each layer of one network at the start; empty where there is none."""
        if self.start is None:
            return []
        at = torch.tensor(self.instance.maps[number].at(self.start))
        values = [at]
        with torch.no_grad():
            for layer in self.flat[number]:
                values.append(layer(values[-1]))
        return [v.numpy() for v in values[1:]]

    def model_start(self) -> np.ndarray:
        """The start as the model sees it: a class is 1 where the logit reaches the margin."""
        assert self.start is not None
        values = self.start.copy()
        for number, where in enumerate(self.instance.maps):
            if self.instance.predictors[number].gives_class:
                values[where.output] = self.activations(number)[-1] >= self.margin
        return values


class Peer:
    """What the two peers share: everything but the model."""

    method: str
    packages: dict[str, str]
    """Module name to name on PyPI."""

    def __init__(self, margin: float = LOGIT_MARGIN, threads: int = 1) -> None:
        if not margin >= 0:
            raise ValueError(f"margin={margin} must not be negative.")
        if threads < 1:
            raise ValueError(f"threads={threads} must be at least 1.")
        self.margin = margin
        self.threads = threads

    @classmethod
    def available(cls) -> bool:
        """Whether the packages of this peer are installed."""
        return all(find_spec(module) is not None for module in cls.packages)

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Build the peer's exact model and let its solver work on it until the time limit."""
        run = start_run(problem, time_limit, seed, on_point, method=self.method)
        self._require()
        instance = run.instance
        if instance.milp.others:
            kind = instance.milp.others[0].kind
            raise ProblemError(
                f"{self.method} takes linear constraints only, not {kind}: use BigM, with SCIP's"
                " own."
            )
        flat = [_relu_layers(p.net, p.inputs.shape[1], self.method) for p in instance.predictors]
        incumbent = run.incumbent()
        if time_limit <= 0:
            return exact_solution(run, "timelimit", None, {})
        classes = any(p.gives_class for p in instance.predictors)
        details: dict[str, Any] = {"margin": self.margin} if classes else {}
        details["packages"] = ", ".join(
            f"{name} {version(name)}" for name in self.packages.values()
        )
        details["threads"] = self.threads
        with ProgressLine(problem, self.method, run.began, progress):
            report_incumbent(instance, incumbent.objective, incumbent.nearest.distance)

            def report(values: np.ndarray, bound: float) -> None:
                incumbent.consider(values)
                report_progress(bound=bound)

            job = Job(
                instance,
                flat,
                incumbent.values,
                self.margin,
                run.began,
                run.deadline,
                seed,
                report,
            )
            outcome = self._run(job)
            if outcome.values is not None:
                report(outcome.values, np.nan if outcome.bound is None else outcome.bound)
        details |= outcome.details
        if outcome.status == "refused":
            return Solution("no_solution_found", self.method, seconds=job.seconds, details=details)
        margin = self.margin if classes else 0.0
        return exact_solution(run, outcome.status, outcome.bound, details, margin)

    def _require(self) -> None:
        failed: dict[str, ImportError] = {}
        for module, name in self.packages.items():
            try:
                import_module(module)
            except ImportError as error:
                failed[name] = error
        if failed:
            what = f"{self.method}: not installed: {', '.join(failed)}"
            raise ImportError(f"{what}. Run: pip install './book[peers]'") from next(
                iter(failed.values())
            )

    def _run(self, job: Job) -> Outcome:
        raise NotImplementedError


def _relu_layers(net: nn.Module, n_in: int, method: str) -> list[nn.Module]:
    """The flat network, where both peers can read it: Linear first, no activation but ReLU."""
    layers = flat_layers(net, n_in)
    other = [
        type(layer).__name__ for layer in layers if not isinstance(layer, (nn.Linear, nn.ReLU))
    ]
    if other or not isinstance(layers[0], nn.Linear):
        what = other[0] if other else "a ReLU before the first Linear"
        raise UnsupportedNetworkError(
            f"{method} does not take {what}: BigM and DualDecomposition do."
        )
    return layers
