"""Peers on the same problems: the exact model by gurobi-machinelearning, and by OMLT with HiGHS.

Both read the user's rows from the library's snapshot, write the networks with their own formulation of a ReLU and
solve with their own solver; start, margin, time limit, verification and the form of the answer are those of `BigM`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

from ..bigm import UNITS_PER_CHUNK
from ..classes import MARGIN, larger_helps
from ..compiled import Compiled
from ..errors import ProblemError, UnsupportedNetworkError
from ..exact import exact_solution
from ..incumbent import Incumbent
from ..layers import flat_layers, interval_bounds
from ..problem import NeuralMIP, check_call
from ..solution import Solution

SIZE_LIMIT = 10010
"""Gurobi's error number for a model that its licence does not cover."""


class Tie(NamedTuple):
    r"""A class $y$ and its logit $o \in [l, u]$: $o \ge l + (m - l)\,y$ and, unless `helps`, $o \le u\,y$."""

    cell: tuple[int, ...]
    at: int
    low: float
    high: float
    helps: bool


class Outcome(NamedTuple):
    """What a peer says at its end: status in SCIP's words (or "refused"), bound, best point, size and effort."""

    status: str
    bound: float | None
    values: np.ndarray | None
    details: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run: what to embed, where to start, until when, and who hears of each new incumbent."""

    compiled: Compiled
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
        return time.perf_counter() - self.began

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - time.perf_counter(), 0.0)

    def box(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the inputs of one predictor, row by row."""
        s, where = self.compiled.snapshot, self.compiled.maps[number]
        return where.at(s.lower), where.at(s.upper)

    def ties(self, number: int) -> Iterator[Tie]:
        """The classes of one predictor; none where it is a regression."""
        if self.compiled.predictors[number].kind == "regression":
            return
        low, high = interval_bounds(self.flat[number], *self.box(number))
        for cell, at in np.ndenumerate(self.compiled.maps[number].output):
            ends = min(float(low[cell]), 0.0), max(float(high[cell]), self.margin)
            yield Tie(cell, int(at), *ends, larger_helps(self.compiled, int(at)))

    def activations(self, number: int) -> list[np.ndarray]:
        """What each layer of one network says at the start; empty where there is none."""
        if self.start is None:
            return []
        at = torch.tensor(self.compiled.maps[number].at(self.start))
        values = [at]
        with torch.no_grad():
            for layer in self.flat[number]:
                values.append(layer(values[-1]))
        return [v.numpy() for v in values[1:]]

    def integers_of_start(self) -> np.ndarray:
        """The start as the model sees it: a class is 1 where the logit reaches the margin."""
        assert self.start is not None
        values = self.start.copy()
        for number, where in enumerate(self.compiled.maps):
            if self.compiled.predictors[number].kind == "classification":
                values[where.output] = self.activations(number)[-1] >= self.margin
        return values


class _Peer:
    """What the two peers share: everything but the model."""

    method: str
    packages: dict[str, str]
    """Module name to name on PyPI."""

    def __init__(self, margin: float = MARGIN, threads: int = 1) -> None:
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

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False) -> Solution:
        """Build the peer's exact model and let its solver work on it until the time limit."""
        began = time.perf_counter()
        check_call(problem, time_limit, seed)
        self._require()
        compiled = Compiled(problem.model, problem.predictors)
        if compiled.snapshot.others:
            kind = compiled.snapshot.others[0].kind
            raise ProblemError(f"{self.method} takes linear rows only, not {kind}: use BigM, which keeps SCIP's own.")
        flat = [_relu_layers(p.net, p.inputs.shape[1], self.method) for p in compiled.predictors]
        incumbent = Incumbent(compiled, began)
        if time_limit <= 0:
            return exact_solution(self.method, incumbent, "timelimit", None, {})
        incumbent.consider_start(problem.start, time_limit)
        classes = any(p.kind == "classification" for p in compiled.predictors)
        details: dict[str, Any] = {"margin": self.margin} if classes else {}
        details["packages"] = ", ".join(f"{name} {version(name)}" for name in self.packages.values())
        details["threads"] = self.threads
        with tqdm(disable=not progress, desc=self.method, unit=" incumbents") as bar:

            def report(values: np.ndarray, bound: float) -> None:
                incumbent.consider(values)
                best = "none" if incumbent.objective is None else f"{incumbent.objective:.6g}"
                bar.update(1)
                bar.set_postfix(incumbent=best, bound=f"{bound:.6g}")

            job = Job(compiled, flat, incumbent.values, self.margin, began, began + time_limit, seed, report)
            outcome = self._run(job)
            if outcome.values is not None:
                report(outcome.values, np.nan if outcome.bound is None else outcome.bound)
        details |= outcome.details
        if outcome.status == "refused":
            return Solution("no_solution_found", self.method, seconds=job.seconds, details=details)
        restricted = classes and self.margin > 0
        return exact_solution(self.method, incumbent, outcome.status, outcome.bound, details, restricted)

    def _require(self) -> None:
        for module, name in self.packages.items():
            try:
                import_module(module)
            except ImportError as error:
                raise ImportError(
                    f"{self.method} needs {name}, which is not installed: pip install 'ddmip-lib[peers]'"
                ) from error

    def _run(self, job: Job) -> Outcome:
        raise NotImplementedError


class GurobiML(_Peer):
    r"""The exact model by gurobi-machinelearning: $s = \max(0, h)$ as one of Gurobi's own general constraints.

    Gurobi's pip package comes with a licence for models of at most 2000 variables and 2000 rows. A larger model is
    refused when it is solved: the answer has no point, `details["message"]` says so with the size of the model.

    >>> from ddmip_lib.problems import hand_sized
    >>> GurobiML().solve(hand_sized()).objective if GurobiML.available() else 0.5
    0.5
    """

    method = "exact model, gurobi-machinelearning"
    packages = {"gurobipy": "gurobipy", "gurobi_ml": "gurobi-machinelearning"}  # noqa: RUF012

    def _run(self, job: Job) -> Outcome:
        gp = import_module("gurobipy")
        quiet = {"OutputFlag": 0, "Seed": job.seed % 2_000_000_000, "Threads": self.threads, "MIPGap": 0}
        with gp.Env(params=quiet) as env, gp.Model(env=env) as model:
            v = self._rows(gp, model, job)
            if not self._embed(gp, model, v, job):
                return Outcome("timelimit", None, None, {"build_seconds": job.seconds})
            model.update()
            effort = {"build_seconds": job.seconds, "model_variables": model.NumVars}
            effort |= {"model_rows": model.NumConstrs, "model_relus": model.NumGenConstrs}
            own, failures = v.tolist(), []

            def on_event(running: Any, where: int) -> None:
                if where != gp.GRB.Callback.MIPSOL:
                    return
                try:
                    job.report(np.array(running.cbGetSolution(own)), running.cbGet(gp.GRB.Callback.MIPSOL_OBJBND))
                except BaseException as failure:  # Gurobi would print it and go on
                    failures.append(failure)
                    running.terminate()

            try:
                self._optimise(gp, model, job, on_event)
                if failures:
                    raise failures[0]
            except gp.GurobiError as error:
                if error.errno != SIZE_LIMIT:
                    raise
                text = f"{model.NumVars} variables, {model.NumConstrs} rows, {model.NumGenConstrs} ReLU constraints"
                return Outcome("refused", None, None, effort | {"message": f"the licence refuses a model of {text}"})
            known = {
                gp.GRB.OPTIMAL: "optimal",
                gp.GRB.INFEASIBLE: "infeasible",
                gp.GRB.UNBOUNDED: "unbounded",
                gp.GRB.TIME_LIMIT: "timelimit",
            }
            effort |= {"solve_seconds": job.seconds - effort["build_seconds"], "nodes": int(model.NodeCount)}
            values = np.array(v.X) if model.SolCount else None
            if values is not None:
                effort["claimed"] = model.ObjVal
            bound = model.ObjBound if model.IsMIP else (model.ObjVal if values is not None else None)
            return Outcome(known.get(model.Status, "stopped"), bound, values, effort)

    def _optimise(self, gp: Any, model: Any, job: Job, on_event: Callable[[Any, int], None]) -> None:
        model.Params.TimeLimit = job.seconds_left
        model.optimize(on_event)
        if model.Status == gp.GRB.INF_OR_UNBD:  # presolve does not tell the two apart by default
            model.Params.DualReductions = 0
            model.Params.TimeLimit = job.seconds_left
            model.optimize(on_event)

    def _rows(self, gp: Any, model: Any, job: Job) -> Any:
        """The user's variables, rows and objective, and the start."""
        s = job.compiled.snapshot
        kinds = np.where(s.integer, gp.GRB.INTEGER, gp.GRB.CONTINUOUS)
        v = model.addMVar(s.n_variables, lb=s.lower, ub=s.upper, vtype=kinds, obj=s.cost)
        model.ModelSense, model.ObjCon = int(s.sign), s.offset
        equal = s.row_lower == s.row_upper
        for sense, side in (("=", s.row_upper), ("<", s.row_upper), (">", s.row_lower)):
            chosen = equal if sense == "=" else np.isfinite(side) & ~equal
            if chosen.any():
                model.addMConstr(s.rows[chosen], v, sense, side[chosen])
        if job.start is not None:
            v.Start = job.integers_of_start()
        return v

    def _embed(self, gp: Any, model: Any, v: Any, job: Job) -> bool:
        """Write every network, some rows at a time; False where the time ran out."""
        add = import_module("gurobi_ml").add_predictor_constr
        own = np.array(v.tolist(), dtype=object)
        for number, (where, layers) in enumerate(zip(job.compiled.maps, job.flat, strict=True)):
            inputs, targets = own[where.index], own[where.output]
            for cell in np.argwhere(where.index < 0):
                value = where.constant[tuple(cell)]
                inputs[tuple(cell)] = model.addVar(lb=value, ub=value)
            for tie in job.ties(number):
                logit = model.addVar(lb=tie.low, ub=tie.high)
                model.addConstr(logit >= tie.low + (job.margin - tie.low) * own[tie.at])
                if not tie.helps:
                    model.addConstr(logit <= tie.high * own[tie.at])
                targets[tie.cell] = logit
            values = job.activations(number)
            rows = _rows_per_chunk(layers)
            for first in range(0, len(inputs), rows):
                if not job.seconds_left:
                    return False
                chunk = slice(first, first + rows)
                put = [gp.MVar.fromlist(grid[chunk].tolist()) for grid in (inputs, targets)]
                net = add(model, nn.Sequential(*layers), *put)
                for layer, at in zip(net.layers, values, strict=False):
                    layer.output.Start = at[chunk]
        return True


class OmltHighs(_Peer):
    r"""The exact model by OMLT (a Pyomo block for each sample, ReLU by Big-M), solved by HiGHS.

    OMLT takes the $l$ and $u$ of each unit from interval arithmetic, and keeps a binary also where the sign of a
    unit is certain. Pyomo hands the model over as arrays, so that HiGHS can report every incumbent while it runs.

    >>> from ddmip_lib.problems import hand_sized
    >>> OmltHighs().solve(hand_sized()).objective if OmltHighs.available() else 0.5
    0.5
    """

    method = "exact model, OMLT with HiGHS"
    packages = {"pyomo": "pyomo", "omlt": "omlt", "highspy": "highspy"}  # noqa: RUF012

    def _run(self, job: Job) -> Outcome:
        highspy = import_module("highspy")
        compiler = import_module("pyomo.repn.plugins.standard_form").LinearStandardFormCompiler()
        s, model = job.compiled.snapshot, self._rows(job)
        with _errors_only("pyomo.core"):  # it warns of every input whose box excludes 0, OMLT's initial value
            start = self._embed(model, job)
        if start is None:
            return Outcome("timelimit", None, None, {"build_seconds": job.seconds})
        form = compiler.write(model, mixed_form=True, set_sense=None)
        column = {id(variable): i for i, variable in enumerate(form.columns)}
        place = np.array([column.get(id(model.v[at]), -1) for at in range(s.n_variables)])
        idle = np.clip(0.0, s.lower, s.upper)  # a variable in no row and not in the objective has no column

        def own(values: Any) -> np.ndarray:
            return np.where(place >= 0, np.asarray(values)[place], idle)

        highs = self._load(highspy, form, job)
        known_start = [(column[id(variable)], value) for variable, value in start if id(variable) in column]
        if known_start:
            index, at = zip(*known_start, strict=True)
            highs.setSolution(len(index), np.array(index, dtype=np.int32), np.array(at, dtype=float))
        highs.cbMipImprovingSolution.subscribe(
            lambda event: job.report(own(event.data_out.mip_solution), event.data_out.mip_dual_bound)
        )
        effort = {"build_seconds": job.seconds, "model_variables": len(form.columns), "model_rows": len(form.rows)}
        highs.setOptionValue("time_limit", job.seconds_left)
        highs.solve()
        known = {
            highspy.HighsModelStatus.kOptimal: "optimal",
            highspy.HighsModelStatus.kInfeasible: "infeasible",
            highspy.HighsModelStatus.kUnbounded: "unbounded",
            highspy.HighsModelStatus.kTimeLimit: "timelimit",
        }
        info, status = highs.getInfo(), known.get(highs.getModelStatus(), "stopped")
        effort |= {"solve_seconds": job.seconds - effort["build_seconds"], "nodes": max(int(info.mip_node_count), 0)}
        bound, values = info.mip_dual_bound, None
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            values = own(highs.getSolution().col_value)
            effort["claimed"] = info.objective_function_value
        if all(variable.is_continuous() for variable in form.columns):
            bound = effort["claimed"] if status == "optimal" else None
        return Outcome(status, bound, values, effort)

    def _load(self, highspy: Any, form: Any, job: Job) -> Any:
        """A HiGHS instance that holds the compiled model."""
        highs = highspy.Highs()
        highs.silent()
        for option, value in (("threads", self.threads), ("random_seed", job.seed % 2**31), ("mip_rel_gap", 0.0)):
            highs.setOptionValue(option, value)
        n, s = len(form.columns), job.compiled.snapshot
        lower = np.array([-np.inf if v.lb is None else v.lb for v in form.columns], dtype=float)
        upper = np.array([np.inf if v.ub is None else v.ub for v in form.columns], dtype=float)
        integer = np.array([not v.is_continuous() for v in form.columns], dtype=np.uint8)
        highs.addVars(n, lower, upper)
        columns = np.arange(n, dtype=np.int32)
        highs.changeColsIntegrality(n, columns, integer)
        highs.changeColsCost(n, columns, form.c.toarray()[0])
        highs.changeObjectiveOffset(s.offset)
        highs.changeObjectiveSense(highspy.ObjSense.kMinimize if s.sign > 0 else highspy.ObjSense.kMaximize)
        kind, a = np.array([row.bound_type for row in form.rows]), form.A.tocsr()
        lower, upper = np.where(kind <= 0, form.rhs, -np.inf), np.where(kind >= 0, form.rhs, np.inf)
        starts, indices = a.indptr[:-1].astype(np.int32), a.indices.astype(np.int32)
        highs.addRows(len(kind), lower, upper, a.nnz, starts, indices, a.data)
        return highs

    def _rows(self, job: Job) -> Any:
        """A Pyomo model with the user's variables, rows and objective."""
        pyo, s = import_module("pyomo.environ"), job.compiled.snapshot
        model = pyo.ConcreteModel()
        model.v = pyo.Var(range(s.n_variables))
        for at, variable in model.v.items():
            variable.domain = pyo.Integers if s.integer[at] else pyo.Reals
            variable.bounds = _side(s.lower[at]), _side(s.upper[at])
        model.rows = pyo.ConstraintList()
        for row, (low, high) in enumerate(zip(s.row_lower, s.row_upper, strict=True)):
            inside = slice(s.rows.indptr[row], s.rows.indptr[row + 1])
            terms = zip(s.rows.indices[inside], s.rows.data[inside], strict=True)
            body = sum(float(coefficient) * model.v[int(at)] for at, coefficient in terms)
            model.rows.add((_side(low), body, _side(high)))
        cost = sum(float(s.cost[at]) * model.v[int(at)] for at in np.flatnonzero(s.cost))
        model.objective = pyo.Objective(expr=cost, sense=pyo.minimize if s.sign > 0 else pyo.maximize)
        return model

    def _embed(self, model: Any, job: Job) -> list[tuple[Any, float]] | None:
        """Write every network, and return the start: each integer variable with its value, the rest being an LP.

        None where the time ran out.
        """
        omlt, neuralnet, layer = (import_module(f"omlt{part}") for part in ("", ".neuralnet", ".neuralnet.layer"))
        maps, start = job.compiled.maps, []
        if job.start is not None:
            values = job.integers_of_start()
            start = [(model.v[int(at)], float(values[at])) for at in np.flatnonzero(job.compiled.snapshot.integer)]
        model.net = omlt.OmltBlock([(k, i) for k, where in enumerate(maps) for i in range(len(where.index))])
        for k, where in enumerate(maps):
            layers = [layer.InputLayer([where.index.shape[1]]), *_dense(layer.DenseLayer, job.flat[k])]
            low, high = job.box(k)
            ties = {tie.cell: tie for tie in job.ties(k)}
            before = [v for v, f in zip(job.activations(k), job.flat[k], strict=False) if isinstance(f, nn.Linear)]
            for i, sample in enumerate(where.index):
                if not job.seconds_left:
                    return None
                net = neuralnet.NetworkDefinition(
                    scaled_input_bounds=dict(enumerate(zip(low[i], high[i], strict=True)))
                )
                for one in layers:
                    net.add_layer(one)
                for pair in pairwise(layers):
                    net.add_edge(*pair)
                block = model.net[k, i]
                block.build_formulation(neuralnet.ReluBigMFormulation(net))
                for j, at in enumerate(sample):
                    model.rows.add(block.inputs[j] == (model.v[int(at)] if at >= 0 else float(where.constant[i, j])))
                for j, at in enumerate(where.output[i]):
                    self._tie(model, block.outputs[j], model.v[int(at)], ties.get((i, j)))
                for dense, h in zip(layers[1:], before, strict=False):
                    if dense.activation == "relu":
                        start += [(q, float(h[i, unit] > 0)) for unit, q in block.layer[id(dense)].q_relu.items()]
        return start

    def _tie(self, model: Any, output: Any, y: Any, tie: Tie | None) -> None:
        """An output of the user's model is what the network says, or its class."""
        if tie is None:
            model.rows.add(output == y)
            return
        model.rows.add(output >= tie.low + (self.margin - tie.low) * y)
        if not tie.helps:
            model.rows.add(output <= tie.high * y)


def _relu_layers(net: nn.Module, n_in: int, method: str) -> list[nn.Module]:
    """The flat network, where both peers can read it: Linear first, no activation but ReLU."""
    layers = flat_layers(net, n_in)
    other = [type(layer).__name__ for layer in layers if not isinstance(layer, (nn.Linear, nn.ReLU))]
    if other or not isinstance(layers[0], nn.Linear):
        what = other[0] if other else "a ReLU before the first Linear"
        raise UnsupportedNetworkError(f"{method} does not take {what}: BigM and DualDecomposition do.")
    return layers


def _dense(make: Callable[..., Any], layers: list[nn.Module]) -> list[Any]:
    """OMLT's layers: each Linear with the ReLU after it, if there is one."""
    dense: list[Any] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            sizes = [layer.in_features], [layer.out_features]
            dense.append(make(*sizes, layer.weight.numpy().T, layer.bias.numpy(), activation="linear"))
        else:
            dense[-1].activation = "relu"
    return dense


def _rows_per_chunk(layers: list[nn.Module]) -> int:
    """Rows of a batch that are embedded between two looks at the clock."""
    return max(1, UNITS_PER_CHUNK // sum(layer.out_features for layer in layers if isinstance(layer, nn.Linear)))


def _side(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@contextmanager
def _errors_only(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
