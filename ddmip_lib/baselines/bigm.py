"""The exact baseline: every ReLU of every sample written into one MILP by PySCIPOpt-ML, solved by
SCIP.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ..bounds import Box, Graph, intervals, network_graph
from ..bounds.layer_list import flat_layers
from ..clock import check_time, now
from ..errors import UnsupportedNetworkError, of_extra
from ..methods import Callback, Method, Run
from ..model.incumbent import Incumbent
from ..model.instance import InputMap, Instance
from ..model.predictor import MARGIN, Predictor
from ..model.solution import Solution
from ..numerics import power_of_two
from ..programs.scip import MILP, copy_model, fix, matrix_of, solution_values
from ..programs.scip import optimise as optimise_model
from ..proofs.exact import exact_program
from .scaled_model import ScaledModel, add_program, scaled_layers, scaled_model, units_of_variables
from .scip_run import SCIP_EPSILON, Numerics, exact_run, exact_solution, set_numerics

FORMULATIONS = {"bigm": "Big-M", "sos": "SOS1"}
UNITS_PER_CHUNK = 2000
"""About so many units are embedded between two looks at the clock."""


@dataclass(frozen=True)
class BigM(Method):
    r"""The exact model. A ReLU $s = \max(0, h)$ with $l \le h \le u$, $l < 0 < u$, becomes

    $$s \ge h, \quad s \ge 0, \quad s \le h - l\,(1 - z), \quad s \le u\,z, \quad z \in \{0, 1\}$$

    (``formulation="bigm"``), or a pair $s - h = t$, at most one of $s, t \ge 0$ nonzero
    (``"sos"``). A class $y$ is tied to its logit $o$ by $y = 1 \Rightarrow o \ge$ `margin` and,
    unless $y$ occurs only where a larger $y$ helps, $y = 0 \Rightarrow o \le 0$: without a margin,
    solver tolerances call samples potable that the network does not. A bound that was not checked
    is one of this model; should a verified point beat it by winning with a logit inside the margin,
    no bound is reported.

    SCIP may miss each row by `feastol`; where many rows carry the objective, 1e-9 keeps these from
    adding up. Numbers closer than `epsilon` are equal to it: with its own 1e-9, presolving calls
    models of trained networks infeasible, or wrong points optimal; if it may `aggregate`, replace
    variables by sums of others, it is faster and does so with 1e-13 as well. "Infeasible", and any
    answer that a verified point contradicts, is asked for again without presolving. With `scale`
    the model is written in units in which its numbers are about 1, each unit of the network too
    (`scaled_model`); without, it is PySCIPOpt-ML's own. What SCIP calls optimal or infeasible is a
    claim; with `check` it is then proved, or not, by `ddmip_lib.proofs` in the time that is left,
    at most as long as SCIP took and ten seconds, by at most 300 nodes, and without the margin. The
    solver starts from the problem's start point. Build and solve time are in `details`, apart; the
    time limit covers all. With `ranges="crown"` the library writes the model itself: ranges by
    CROWN, no binary for a unit that they show to be on or off, affine layers (a scaler, BatchNorm)
    folded into one, residual networks too. `start` is a point to start from instead of the
    problem's, as `NeuralMIP.set_start` takes it (a tuple for several networks). `callback` hears a
    `Moment` at every incumbent and after every node of SCIP.

    >>> from ddmip_lib.problems import hand_sized
    >>> solution = BigM().solve(hand_sized())
    >>> solution.status, solution.objective, round(solution.bound, 3)
    ('optimal', 0.5, 0.5)
    """

    formulation: str = "bigm"
    margin: float = MARGIN
    feastol: float = 1e-6
    epsilon: float = SCIP_EPSILON
    aggregate: bool = False
    scale: bool = True
    check: bool = True
    callback: Callback | None = None
    ranges: str | None = None
    start: Any = None

    def __post_init__(self) -> None:
        if self.formulation not in FORMULATIONS:
            raise ValueError(
                f"formulation={self.formulation!r} is unknown; choose 'bigm' or 'sos'."
            )
        if self.ranges not in (None, "crown") or (self.ranges and self.formulation != "bigm"):
            raise ValueError(
                f"ranges={self.ranges!r} must be None or, with formulation='bigm', 'crown'."
            )
        if not self.margin >= 0:
            raise ValueError(f"margin={self.margin} must not be negative.")
        if not 0 < self.feastol <= 1e-3:
            raise ValueError(
                f"feastol={self.feastol} must lie in (0, 1e-3]: it is SCIP's tolerance on rows."
            )
        if not 0 < self.epsilon <= self.feastol:
            raise ValueError(
                f"epsilon={self.epsilon} must lie in (0, feastol]: numbers closer than this are"
                " equal to SCIP."
            )

    @property
    def method(self) -> str:
        return f"exact model, {FORMULATIONS[self.formulation]}" + ", CROWN ranges" * (
            self.ranges is not None
        )

    @property
    def numerics(self) -> Numerics:
        return Numerics(self.feastol, self.epsilon, self.aggregate)

    def prepare(self, run: Run) -> None:
        """Check that the package that writes the model is installed, and set the start."""
        if self.ranges is None:
            of_extra("pyscipopt_ml", "paper", 'BigM() without ranges="crown"')
        if self.start is None:
            return
        run.problem = run.problem.twin()
        if isinstance(self.start, tuple):
            run.problem.set_start(*self.start)
        else:
            run.problem.set_start(self.start)

    def run(self, run: Run) -> Solution:
        """Build the exact model and let SCIP solve it."""
        instance = run.instance
        read = flat_layers if self.ranges is None else relu_graph
        flat: list[Any] = [read(p.net, p.inputs.shape[1]) for p in instance.predictors]
        incumbent = run.incumbent()
        if run.time_limit <= 0:
            return exact_solution(self.method, incumbent, "timelimit", None, {})
        graphs = [network_graph(p.net, p.inputs.shape[1]) for p in instance.predictors]
        write = self._by_layers if self.ranges is None else self._by_ranges
        written = write(run, incumbent, graphs, flat)
        details: dict[str, Any] = {
            "build_seconds": now() - run.began,
            "aggregate": self.aggregate,
        }
        classes = any(p.gives_class for p in instance.predictors)
        if classes:
            details["margin"] = self.margin
        if written is None:
            return exact_solution(self.method, incumbent, "timelimit", None, details)
        model = written.model
        details |= {"model_variables": model.getNVars(), "model_rows": model.getNConss()}
        details["model_binaries"] = model.getNBinVars()
        self._give_start(written, incumbent, run.deadline)
        program = partial(exact_program, instance, incumbent.units, graphs) if self.check else None
        margin = self.margin if classes else 0.0
        return exact_run(written, incumbent, run, self.method, details, program, margin)

    def _by_layers(
        self, run: Run, _: Incumbent, graphs: list[Graph], layers: list[list[nn.Module]]
    ) -> ScaledModel | None:
        """The model that PySCIPOpt-ML writes; None where the time ran out."""
        instance = run.instance
        unit = (
            units_of_variables(instance) if self.scale and not instance.milp.others else None
        )  # see scaled_model
        parts = zip(instance.predictors, graphs, layers, instance.maps, strict=True)
        networks = [scaled_network(*part, instance.milp, unit) for part in parts]
        written = scaled_model(instance, unit, self.numerics, run.seed)
        return written if self._embed(written, instance, networks, run.deadline) else None

    def _by_ranges(
        self, run: Run, incumbent: Incumbent, graphs: list[Graph], _: Any
    ) -> ScaledModel | None:
        """The model of the proofs (`exact_program`), which knows from CROWN's ranges what no unit
        need decide.
        """
        instance = run.instance
        s = run.instance.milp
        program = exact_program(
            instance, incumbent.units, graphs, tolerance=0.0, margin=self.margin, max_table_size=1
        )
        unit = units_of_variables(instance)
        out = instance.outputs
        size = np.maximum(np.abs(program.lower), np.abs(program.upper))[out]
        unit[out] = np.where(s.integer[out], 1.0, power_of_two(size))
        written = scaled_model(instance, unit if self.scale else None, self.numerics, run.seed)
        add_program(written, program, s.n_rows)
        return None if run.seconds_left <= 0 else written

    def _embed(
        self,
        written: ScaledModel,
        instance: Instance,
        networks: list["ScaledNetwork"],
        deadline: float,
    ) -> bool:
        """Write every network into the model, a few samples at a time; False where the time ran
        out.
        """
        from pyscipopt_ml.add_predictor import add_predictor_constr

        longest = 0.0  # seconds of a chunk: one that would pass the deadline is not begun
        for number, (where, network) in enumerate(zip(instance.maps, networks, strict=True)):
            inputs = self._input_variables(written, where, network)
            targets = self._targets(written, instance, number, network)
            units = sum(
                layer.out_features for layer in network.layers if isinstance(layer, nn.Linear)
            )
            rows = max(1, UNITS_PER_CHUNK // units)
            for first in range(0, len(inputs), rows):
                check_time()
                began = now()
                if began + longest >= deadline:
                    return False
                chunk = slice(first, first + rows)
                add_predictor_constr(
                    written.model,
                    nn.Sequential(*network.layers),
                    matrix_of(inputs[chunk]),
                    matrix_of(targets[chunk]),
                    unique_naming_prefix=f"net_{number}_{first}_",
                    output_type="regression",
                    formulation=self.formulation,
                )
                longest = max(longest, now() - began)
        return True

    def _input_variables(
        self, written: ScaledModel, where: InputMap, network: "ScaledNetwork"
    ) -> np.ndarray:
        """Input matrix with a fixed variable for every plain number."""
        grid = np.empty(where.index.shape, dtype=object)
        for cell, at in np.ndenumerate(where.index):
            value = float(where.constant[cell] / network.into[cell[1]])
            grid[cell] = (
                written.variables[at] if at >= 0 else written.model.addVar(lb=value, ub=value)
            )
        return grid

    def _targets(
        self, written: ScaledModel, instance: Instance, number: int, network: "ScaledNetwork"
    ) -> np.ndarray:
        """The variables that the last layer of a network feeds: its outputs, or logits tied to its
        classes.
        """
        targets = np.array(written.variables, dtype=object)[instance.maps[number].output]
        for cell, at in np.ndenumerate(instance.maps[number].output):
            unit = float(network.out[cell[1]])
            ends = float(network.low[cell]) / unit, float(network.high[cell]) / unit
            targets[cell] = instance.predictors[number].carrier(
                written.model,
                written.variables[at],
                instance.milp,
                int(at),
                ends,
                self.margin / unit,
            )
        return targets

    def _give_start(self, written: ScaledModel, incumbent: Incumbent, deadline: float) -> None:
        """Hand the start point to SCIP: its hidden units follow from the inputs in a copy with
        these fixed.
        """
        if incumbent.values is None:
            return
        model = written.model
        variables = written.variables
        twin = copy_model(model)
        inputs = np.unique(np.concatenate([m.index[m.index >= 0] for m in incumbent.instance.maps]))
        own = twin.getVars()
        place = {v.ptr(): i for i, v in enumerate(model.getVars())}
        fixed = np.full(len(own), np.nan)
        fixed[[place[variables[at].ptr()] for at in inputs]] = (incumbent.values / written.unit)[
            inputs
        ]
        fix(twin, own, fixed)
        set_numerics(twin, self.numerics)
        twin.setParam("limits/solutions", 1)
        optimise_model(twin, deadline - now())
        if twin.getNSols() == 0:
            return
        values = solution_values(twin, matrix_of(own))
        start = model.createSol()
        for variable, value in zip(model.getVars(), values, strict=True):
            model.setSolVal(start, variable, value)
        model.addSol(start)


def relu_graph(net: nn.Module, n_in: int) -> Graph:
    """The graph of a network of ReLUs, residual sums included; an error that names what has no
    exact model.
    """
    graph = network_graph(net, n_in)
    if graph.curved:
        raise UnsupportedNetworkError(
            f'{graph.curved[0]} has no exact linear model: ranges="crown" takes networks of ReLUs;'
            " leave ranges out."
        )
    return graph


class ScaledNetwork(NamedTuple):
    """Layers in units of their own, the units of inputs and outputs, and the range of the outputs,
    row by row.
    """

    layers: list[nn.Module]
    into: np.ndarray
    out: np.ndarray
    low: np.ndarray
    high: np.ndarray


def scaled_network(
    predictor: Predictor,
    graph: Graph,
    layers: list[nn.Module],
    where: InputMap,
    s: MILP,
    unit: np.ndarray | None,
) -> ScaledNetwork:
    """A network for variables in these units; those of its predictions, which it decides, are
    written into `unit`.
    """
    found = intervals(graph, Box(*(torch.tensor(where.at(end)) for end in (s.lower, s.upper))))
    low = found.lower.numpy()
    high = found.upper.numpy()
    if unit is None:
        return ScaledNetwork(layers, np.ones(graph.n_in), np.ones(graph.n_out), low, high)
    sizes = [torch.maximum(low.abs(), high.abs()).amax(0).numpy() for low, high in found.nodes[1:]]
    into = np.ones(graph.n_in)
    for column, index in enumerate(where.index.T):
        into[column] = (
            unit[index[index >= 0]][0]
            if (index >= 0).any()
            else power_of_two(np.abs(where.constant[:, column]).max())
        )
    whole = s.integer[where.output].any(axis=0)
    scaled, out = scaled_layers(layers, into, sizes, whole & (not predictor.gives_class))
    if not predictor.gives_class:
        unit[where.output] = out
    return ScaledNetwork(scaled, into, out, low, high)
