"""The exact model by OMLT with HiGHS."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from torch import nn

from .peer import Job, Outcome, Peer, Tie


class OmltHighs(Peer):
    r"""The exact model by OMLT (a Pyomo block for each sample, ReLU by Big-M), solved by HiGHS.

    OMLT takes the $l$ and $u$ of each unit from interval arithmetic, and keeps a binary also where
    the sign of a unit is certain. Pyomo hands the model over as arrays, so that HiGHS can report
    every incumbent while it runs.

    >>> from ddmip_lib.problems import hand_sized
    >>> OmltHighs().solve(hand_sized()).objective if OmltHighs.available() else 0.5
    0.5
    """

    method = "exact model, OMLT with HiGHS"
    packages = {"pyomo": "pyomo", "omlt": "omlt", "highspy": "highspy"}  # noqa: RUF012

    def _run(self, job: Job) -> Outcome:
        highspy = import_module("highspy")
        compiler = import_module("pyomo.repn.plugins.standard_form").LinearStandardFormCompiler()
        s = job.instance.milp
        model = self._rows(job)
        with _errors_only(
            "pyomo.core"
        ):  # it warns of every input whose box excludes 0, OMLT's initial value
            start = self._embed(model, job)
        if start is None:
            return Outcome("timelimit", None, None, {"build_seconds": job.seconds})
        form = compiler.write(model, mixed_form=True, set_sense=None)
        column = {id(variable): i for i, variable in enumerate(form.columns)}
        place = np.array([column.get(id(model.v[at]), -1) for at in range(s.n_variables)])
        idle = np.clip(
            0.0, s.lower, s.upper
        )  # a variable in no row and not in the objective has no column

        def own(values: Any) -> np.ndarray:
            return np.where(place >= 0, np.asarray(values)[place], idle)

        highs = self._load(highspy, form, job)
        known_start = [
            (column[id(variable)], value) for variable, value in start if id(variable) in column
        ]
        if known_start:
            index, at = zip(*known_start, strict=True)
            highs.setSolution(
                len(index), np.array(index, dtype=np.int32), np.array(at, dtype=float)
            )
        highs.cbMipImprovingSolution.subscribe(
            lambda event: job.report(
                own(event.data_out.mip_solution), event.data_out.mip_dual_bound
            )
        )
        effort = {
            "build_seconds": job.seconds,
            "model_variables": len(form.columns),
            "model_rows": len(form.rows),
        }
        highs.setOptionValue("time_limit", job.seconds_left)
        highs.solve()
        if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
            return Outcome(self._which(highspy, highs, job), None, None, effort)
        known = {
            highspy.HighsModelStatus.kOptimal: "optimal",
            highspy.HighsModelStatus.kInfeasible: "infeasible",
            highspy.HighsModelStatus.kUnbounded: "unbounded",
            highspy.HighsModelStatus.kTimeLimit: "timelimit",
        }
        info = highs.getInfo()
        status = known.get(highs.getModelStatus(), "stopped")
        effort |= {
            "solve_seconds": job.seconds - effort["build_seconds"],
            "nodes": max(int(info.mip_node_count), 0),
        }
        bound = info.mip_dual_bound
        values = None
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            values = own(highs.getSolution().col_value)
            effort["claimed"] = info.objective_function_value
        if all(variable.is_continuous() for variable in form.columns):
            bound = effort["claimed"] if status == "optimal" else None
        return Outcome(status, bound, values, effort)

    def _which(self, highspy: Any, highs: Any, job: Job) -> str:
        """Whether a model is unbounded or infeasible: without an objective only the latter
        is left.
        """
        highs.cbMipImprovingSolution.clear()
        n = highs.getNumCol()
        highs.changeColsCost(n, np.arange(n, dtype=np.int32), np.zeros(n))
        highs.setOptionValue("time_limit", job.seconds_left)
        highs.solve()
        states = highspy.HighsModelStatus
        return {states.kOptimal: "unbounded", states.kInfeasible: "infeasible"}.get(
            highs.getModelStatus(), "timelimit"
        )

    def _load(self, highspy: Any, form: Any, job: Job) -> Any:
        """A HiGHS instance that holds the compiled model."""
        highs = highspy.Highs()
        highs.silent()
        for option, value in (
            ("threads", self.threads),
            ("random_seed", job.seed % 2**31),
            ("mip_rel_gap", 0.0),
        ):
            highs.setOptionValue(option, value)
        n = len(form.columns)
        s = job.instance.milp
        lower = np.array([-np.inf if v.lb is None else v.lb for v in form.columns], dtype=float)
        upper = np.array([np.inf if v.ub is None else v.ub for v in form.columns], dtype=float)
        integer = np.array([not v.is_continuous() for v in form.columns], dtype=np.uint8)
        highs.addVars(n, lower, upper)
        columns = np.arange(n, dtype=np.int32)
        highs.changeColsIntegrality(n, columns, integer)
        highs.changeColsCost(n, columns, form.c.toarray()[0])
        highs.changeObjectiveOffset(s.offset)
        highs.changeObjectiveSense(
            highspy.ObjSense.kMinimize if s.sign > 0 else highspy.ObjSense.kMaximize
        )
        kind = np.array([row.bound_type for row in form.rows])
        a = form.A.tocsr()
        lower = np.where(kind <= 0, form.rhs, -np.inf)
        upper = np.where(kind >= 0, form.rhs, np.inf)
        starts = a.indptr[:-1].astype(np.int32)
        indices = a.indices.astype(np.int32)
        highs.addRows(len(kind), lower, upper, a.nnz, starts, indices, a.data)
        return highs

    def _rows(self, job: Job) -> Any:
        """A Pyomo model with the user's variables, rows and objective."""
        pyo = import_module("pyomo.environ")
        s = job.instance.milp
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
        model.objective = pyo.Objective(
            expr=cost, sense=pyo.minimize if s.sign > 0 else pyo.maximize
        )
        return model

    def _embed(self, model: Any, job: Job) -> list[tuple[Any, float]] | None:
        """Write every network, and return the start: each integer variable with its value, the rest
        being an LP.

        None where the time ran out.
        """
        omlt, neuralnet, layer = (
            import_module(f"omlt{part}") for part in ("", ".neuralnet", ".neuralnet.layer")
        )
        maps = job.instance.maps
        start = []
        if job.start is not None:
            values = job.model_start()
            start = [
                (model.v[int(at)], float(values[at]))
                for at in np.flatnonzero(job.instance.milp.integer)
            ]
        model.net = omlt.OmltBlock(
            [(k, i) for k, where in enumerate(maps) for i in range(len(where.index))]
        )
        for k, where in enumerate(maps):
            layers = [
                layer.InputLayer([where.index.shape[1]]),
                *_dense(layer.DenseLayer, job.flat[k]),
            ]
            low, high = job.box(k)
            ties = {tie.cell: tie for tie in job.ties(k)}
            before = [
                v
                for v, f in zip(job.activations(k), job.flat[k], strict=False)
                if isinstance(f, nn.Linear)
            ]
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
                    model.rows.add(
                        block.inputs[j]
                        == (model.v[int(at)] if at >= 0 else float(where.constant[i, j]))
                    )
                for j, at in enumerate(where.output[i]):
                    self._tie(model, block.outputs[j], model.v[int(at)], ties.get((i, j)))
                for dense, h in zip(layers[1:], before, strict=False):
                    if dense.activation == "relu":
                        start += [
                            (q, float(h[i, unit] > 0))
                            for unit, q in block.layer[id(dense)].q_relu.items()
                        ]
        return start

    def _tie(self, model: Any, output: Any, y: Any, tie: Tie | None) -> None:
        """An output of the user's model equals that of the network, or its class."""
        if tie is None:
            model.rows.add(output == y)
            return
        model.rows.add(output >= tie.low + (self.margin - tie.low) * y)
        if not tie.helps:
            model.rows.add(output <= tie.high * y)


def _dense(make: Callable[..., Any], layers: list[nn.Module]) -> list[Any]:
    """OMLT's layers: each Linear with the ReLU after it, if there is one."""
    dense: list[Any] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            sizes = [layer.in_features], [layer.out_features]
            dense.append(
                make(*sizes, layer.weight.numpy().T, layer.bias.numpy(), activation="linear")
            )
        else:
            dense[-1].activation = "relu"
    return dense


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
