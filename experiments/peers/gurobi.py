"""The exact model by gurobi-machinelearning."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from torch import nn

from ddmip_lib.baselines.bigm import UNITS_PER_CHUNK
from .peer import Job, Outcome, Peer

SIZE_LIMIT = 10010
"""Gurobi's error number for a model that its licence does not cover."""


class GurobiML(Peer):
    r"""The exact model by gurobi-machinelearning: $s = \max(0, h)$ as one of Gurobi's own general
    constraints.

    Gurobi's pip package comes with a licence for models of at most 2000 variables and 2000 rows. A
    larger model is refused when it is solved: the solution has no point, and `details["message"]`
    holds the size of the model.

    >>> from ddmip_lib.problems import hand_sized
    >>> GurobiML().solve(hand_sized()).objective if GurobiML.available() else 0.5
    0.5
    """

    method = "exact model, gurobi-machinelearning"
    packages = {"gurobipy": "gurobipy", "gurobi_ml": "gurobi-machinelearning"}  # noqa: RUF012

    def _run(self, job: Job) -> Outcome:
        gp = import_module("gurobipy")
        quiet = {
            "OutputFlag": 0,
            "Seed": job.seed % 2_000_000_000,
            "Threads": self.threads,
            "MIPGap": 0,
        }
        with gp.Env(params=quiet) as env, gp.Model(env=env) as model:
            v = self._rows(gp, model, job)
            if not self._embed(gp, model, v, job):
                return Outcome("timelimit", None, None, {"build_seconds": job.seconds})
            model.update()
            effort = {"build_seconds": job.seconds, "model_variables": model.NumVars}
            effort |= {"model_rows": model.NumConstrs, "model_relus": model.NumGenConstrs}
            own = v.tolist()
            failures = []

            def on_event(running: Any, where: int) -> None:
                if where != gp.GRB.Callback.MIPSOL:
                    return
                try:
                    job.report(
                        np.array(running.cbGetSolution(own)),
                        running.cbGet(gp.GRB.Callback.MIPSOL_OBJBND),
                    )
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
                text = (
                    f"{model.NumVars} variables, {model.NumConstrs} rows, {model.NumGenConstrs}"
                    " ReLU constraints"
                )
                return Outcome(
                    "refused",
                    None,
                    None,
                    effort | {"message": f"the licence refuses a model of {text}"},
                )
            known = {
                gp.GRB.OPTIMAL: "optimal",
                gp.GRB.INFEASIBLE: "infeasible",
                gp.GRB.UNBOUNDED: "unbounded",
                gp.GRB.TIME_LIMIT: "timelimit",
            }
            effort |= {
                "solve_seconds": job.seconds - effort["build_seconds"],
                "nodes": int(model.NodeCount),
            }
            values = np.array(v.X) if model.SolCount else None
            if values is not None:
                effort["claimed"] = model.ObjVal
            bound = (
                model.ObjBound if model.IsMIP else (model.ObjVal if values is not None else None)
            )
            return Outcome(known.get(model.Status, "stopped"), bound, values, effort)

    def _optimise(
        self, gp: Any, model: Any, job: Job, on_event: Callable[[Any, int], None]
    ) -> None:
        model.Params.TimeLimit = job.seconds_left
        model.optimize(on_event)
        if model.Status == gp.GRB.INF_OR_UNBD:  # presolve does not tell the two apart by default
            model.Params.DualReductions = 0
            model.Params.TimeLimit = job.seconds_left
            model.optimize(on_event)

    def _rows(self, gp: Any, model: Any, job: Job) -> Any:
        """The user's variables, rows and objective, and the start."""
        s = job.instance.milp
        kinds = np.where(s.integer, gp.GRB.INTEGER, gp.GRB.CONTINUOUS)
        v = model.addMVar(s.n_variables, lb=s.lower, ub=s.upper, vtype=kinds, obj=s.cost)
        model.ModelSense = int(s.sign)
        model.ObjCon = s.offset
        equal = s.row_lower == s.row_upper
        for sense, side in (("=", s.row_upper), ("<", s.row_upper), (">", s.row_lower)):
            chosen = equal if sense == "=" else np.isfinite(side) & ~equal
            if chosen.any():
                model.addMConstr(s.rows[chosen], v, sense, side[chosen])
        if job.start is not None:
            v.Start = job.model_start()
        return v

    def _embed(self, gp: Any, model: Any, v: Any, job: Job) -> bool:
        """Write every network, some rows at a time; False where the time ran out."""
        add = import_module("gurobi_ml").add_predictor_constr
        own = np.array(v.tolist(), dtype=object)
        for number, (where, layers) in enumerate(zip(job.instance.maps, job.flat, strict=True)):
            inputs = own[where.index]
            targets = own[where.output]
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


def _rows_per_chunk(layers: list[nn.Module]) -> int:
    """Rows of a batch that are embedded between two looks at the clock."""
    return max(
        1,
        UNITS_PER_CHUNK
        // sum(layer.out_features for layer in layers if isinstance(layer, nn.Linear)),
    )
