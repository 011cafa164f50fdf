"""The exact baseline: every ReLU of every sample written into one MILP by PySCIPOpt-ML, solved by
SCIP.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from ..bounds import Bounds, intervals
from ..bounds.layer_list import flat_layers
from ..clock import check_time, now
from ..errors import UnsupportedNetworkError, of_extra
from ..methods import Callback, Method, Run
from ..model.incumbent import Incumbent
from ..model.instance import InputMap, Instance
from ..model.predictor import LOGIT_MARGIN, Predictor
from ..model.solution import Solution
from ..numerics import power_of_two
from ..programs.scip import MILP, add_start, copy_model, matrix_of, solve_fixed
from ..programs.scip_program import ScipProgram
from ..proofs.exact import exact_program
from .scaled_model import scaled_layers, scaled_model, units_of_variables
from .scip_run import (
    SCIP_EPSILON,
    Numerics,
    exact_run,
    exact_solution,
    incumbent_of,
    set_numerics,
)

FORMULATIONS = {"bigm": "Big-M", "sos": "SOS1"}
UNITS_PER_CHUNK = 2000
"""Units that are embedded between two looks at the clock, about."""


@dataclass(frozen=True)
class BigM(Method):
    r"""The exact model. A ReLU $s = \max(0, h)$ with $l \le h \le u$, $l < 0 < u$, becomes

    $$s \ge h, \quad s \ge 0, \quad s \le h - l\,(1 - z), \quad s \le u\,z, \quad z \in \{0, 1\}$$

    (``formulation="bigm"``), or a pair $s - h = t$, at most one of $s, t \ge 0$ nonzero
    (``"sos"``). A class $y$ is tied to its logit $o$ by $y = 1 \Rightarrow o \ge$ `margin` and,
    unless $y$ occurs only where a larger $y$ is never worse, $y = 0 \Rightarrow o \le 0$: without a
    margin, solver tolerances call samples potable that the network does not. A bound that was not
    checked is one of this model; should a verified point be better, by a logit inside the margin,
    no bound is reported.

    What SCIP calls optimal or infeasible is a claim. "Infeasible", and any result that a verified
    point contradicts, is not accepted: the model is solved again without presolving. Build and
    solve time are separate `details`; the time limit covers all.

    Parameters
    ----------
    formulation
        ``"bigm"`` or ``"sos"``.
    margin
        Least logit of class 1.
    feastol
        SCIP's feasibility tolerance; where many constraints determine the objective, 1e-9 keeps
        their violations from adding up.
    epsilon
        Distance up to which numbers are equal to SCIP. With its own 1e-9, presolving calls models
        of trained networks infeasible, or wrong points optimal.
    aggregate
        Whether presolving may replace variables by sums of others: it is faster, but may give wrong
        results even with an `epsilon` of 1e-13.
    scale
        Whether the model is written in units in which its numbers are about 1, each unit of the
        network too (`scaled_model`), instead of PySCIPOpt-ML's own.
    check
        Whether the claim is then proved by `ddmip_lib.proofs` in the time that is left, for at most
        as long as SCIP took and ten seconds, by at most 300 nodes, and without the margin.
    callback
        Function that is called with a `ProgressEvent` at every incumbent and after every node.
    ranges
        With ``"crown"`` the library writes the model itself: ranges by CROWN, no binary for a unit
        that is always on or off, affine layers (a scaler, BatchNorm) merged, residual networks too.
    start
        A point to start from instead of the problem's, as `NeuralMIP.set_start` takes it (a tuple
        for several networks).

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> solution = BigM().solve(hand_sized())
    >>> solution.status, solution.objective, round(solution.bound, 3)
    ('optimal', 0.5, 0.5)
    """

    formulation: str = "bigm"
    margin: float = LOGIT_MARGIN
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
                f"feastol={self.feastol} must lie in (0, 1e-3]: it is SCIP's feasibility tolerance."
            )
        if not 0 < self.epsilon <= self.feastol:
            raise ValueError(
                f"epsilon={self.epsilon} must lie in (0, feastol]: numbers closer than this are"
                " equal to SCIP."
            )

    @property
    def method(self) -> str:
        name = f"exact model, {FORMULATIONS[self.formulation]}"
        return name if self.ranges is None else f"{name}, CROWN ranges"

    @property
    def numerics(self) -> Numerics:
        """SCIP's numerics."""
        return Numerics(self.feastol, self.epsilon, self.aggregate)

    def prepare(self, run: Run) -> None:
        """Check that the package that writes the model is installed, and set the start."""
        if self.ranges is None:
            of_extra("pyscipopt_ml", "paper", 'BigM() without ranges="crown"')
        if self.start is not None:
            starts = self.start if isinstance(self.start, tuple) else (self.start,)
            run.problem = run.problem.with_own_start()
            run.problem.set_start(*starts)

    def run(self, run: Run) -> Solution:
        """Build the exact model and let SCIP solve it.

        Raises
        ------
        UnsupportedNetworkError
            If a network has no exact model.
        """
        instance = run.instance
        layers = self._layers(instance)
        incumbent = run.incumbent()
        if run.time_limit <= 0:
            return exact_solution(run, "timelimit", None, {})
        written = self._by_layers(run, layers) if self.ranges is None else self._by_ranges(run)
        details: dict[str, Any] = {"build_seconds": run.seconds, "aggregate": self.aggregate}
        margin = 0.0
        if any(p.gives_class for p in instance.predictors):
            details["margin"] = margin = self.margin
        if written is None:
            return exact_solution(run, "timelimit", None, details)
        details["model_variables"] = written.model.getNVars()
        details["model_rows"] = written.model.getNConss()
        details["model_binaries"] = written.model.getNBinVars()
        self._set_start(written, incumbent, run.deadline)
        program = partial(exact_program, instance, incumbent.units) if self.check else None
        return exact_run(written, run, details, program, margin)

    def _layers(self, instance: Instance) -> list[list[nn.Module]]:
        """Return the layers of all networks, none where the library writes the model itself."""
        if self.ranges is None:
            return [flat_layers(p.net, p.inputs.shape[1]) for p in instance.predictors]
        for graph in instance.graphs:
            if graph.curved:
                raise UnsupportedNetworkError(
                    f'{graph.curved[0]} has no exact linear model: ranges="crown" takes networks of'
                    " ReLUs; leave ranges out."
                )
        return []

    def _by_layers(self, run: Run, layers: list[list[nn.Module]]) -> ScipProgram | None:
        """Return the model that PySCIPOpt-ML writes; None where the time ran out."""
        instance = run.instance
        unit = None
        if self.scale and not instance.milp.others:
            unit = units_of_variables(instance)
        networks = [
            scaled_network(instance, number, layers[number], unit) for number in range(len(layers))
        ]
        written = scaled_model(instance, unit, self.numerics, run.seed)
        return written if self._embed(written, run, networks) else None

    def _by_ranges(self, run: Run) -> ScipProgram | None:
        """Return the model of the proofs (`exact_program`); None where the time ran out."""
        instance = run.instance
        milp = instance.milp
        units = incumbent_of(run).units
        program = exact_program(
            instance, units, tolerance=0.0, margin=self.margin, max_table_size=1
        )
        unit = units_of_variables(instance)
        unit[instance.outputs] = program.units[instance.outputs]
        written = scaled_model(instance, unit if self.scale else None, self.numerics, run.seed)
        written.add(program, milp.n_rows)
        return None if run.seconds_left <= 0 else written

    def _embed(self, written: ScipProgram, run: Run, networks: list["ScaledNetwork"]) -> bool:
        """Write every network into the model, a few samples at a time; return whether there was
        time for all.
        """
        from pyscipopt_ml.add_predictor import add_predictor_constr

        longest = 0.0  # seconds of a chunk: one that would pass the deadline is not begun
        for number, network in enumerate(networks):
            inputs = _input_variables(written, network)
            targets = self._targets(written, run.instance.milp, network)
            for chunk in network.chunks():
                check_time()
                began = now()
                if began + longest >= run.deadline:
                    return False
                add_predictor_constr(
                    written.model,
                    network.net,
                    matrix_of(inputs[chunk]),
                    matrix_of(targets[chunk]),
                    unique_naming_prefix=f"net_{number}_{chunk.start}_",
                    output_type="regression",
                    formulation=self.formulation,
                )
                longest = max(longest, now() - began)
        return True

    def _targets(self, written: ScipProgram, milp: MILP, network: "ScaledNetwork") -> ndarray:
        """Return the variables of the last layer: outputs, or logits that are tied to classes."""
        targets = np.empty(network.mapping.output.shape, dtype=object)
        lower = network.bounds.lower.numpy() / network.out
        upper = network.bounds.upper.numpy() / network.out
        for cell, index in np.ndenumerate(network.mapping.output):
            targets[cell] = network.predictor.output_or_logit(
                written.model,
                written.variables[index],
                milp,
                int(index),
                (float(lower[cell]), float(upper[cell])),
                float(self.margin / network.out[cell[1]]),
            )
        return targets

    def _set_start(self, written: ScipProgram, incumbent: Incumbent, deadline: float) -> None:
        """Give SCIP the start point: its hidden units follow from the inputs, which are fixed in a
        copy.
        """
        if incumbent.values is None:
            return
        model = written.model
        copy = copy_model(model)
        set_numerics(copy, self.numerics)
        copy.setParam("limits/solutions", 1)
        inputs = incumbent.instance.inputs(incumbent.values)
        scaled = incumbent.instance.assignment(inputs, rest=np.nan) / written.unit
        of_variable = {v.ptr(): x for v, x in zip(written.variables, scaled, strict=True)}
        fixed = np.array([of_variable.get(v.ptr(), np.nan) for v in model.getVars()])
        values = solve_fixed(copy, copy.getVars(), fixed, deadline - now())
        if values is not None:
            add_start(model, model.getVars(), values)


class ScaledNetwork(NamedTuple):
    """A network in other units.

    Attributes
    ----------
    predictor, mapping
        The network and the positions of its variables.
    net
        Its layers.
    into, out
        Units of inputs and outputs.
    bounds
        Bounds of the network in the user's units.
    """

    predictor: Predictor
    mapping: InputMap
    net: nn.Sequential
    into: ndarray
    out: ndarray
    bounds: Bounds

    def chunks(self) -> Iterator[slice]:
        """Yield the samples, a few at a time."""
        units = sum(layer.out_features for layer in self.net if isinstance(layer, nn.Linear))
        size = max(1, UNITS_PER_CHUNK // units)
        for first in range(0, len(self.mapping.index), size):
            yield slice(first, first + size)


def scaled_network(
    instance: Instance, number: int, layers: list[nn.Module], unit: ndarray | None
) -> ScaledNetwork:
    """Return a network for variables in other units.

    Parameters
    ----------
    instance
        The problem.
    number, layers
        The network.
    unit
        Units of the variables, None for 1; those of predictions, which follow from the network, are
        written into it.
    """
    predictor, mapping = instance.networks[number]
    graph = instance.graph(number)
    bounds = intervals(graph, mapping.box(instance.milp.lower, instance.milp.upper))
    into = np.ones(graph.n_in)
    out = np.ones(graph.n_out)
    if unit is not None:
        numbers = power_of_two(np.abs(mapping.constant).max(axis=0))
        has_variables = (mapping.index >= 0).any(axis=0)
        into = np.where(has_variables, unit[mapping.index.max(axis=0)], numbers)
        sizes = [torch.maximum(low.abs(), high.abs()).amax(0).numpy() for low, high in bounds.nodes]
        integer = instance.milp.integer[mapping.output].any(axis=0) & (not predictor.gives_class)
        layers, out = scaled_layers(layers, into, sizes[1:], integer)
        if not predictor.gives_class:
            unit[mapping.output] = out
    return ScaledNetwork(predictor, mapping, nn.Sequential(*layers), into, out, bounds)


def _input_variables(written: ScipProgram, network: ScaledNetwork) -> ndarray:
    """Return the input matrix, with a fixed variable for every number."""
    mapping = network.mapping
    numbers = mapping.constant / network.into
    grid = np.array(written.variables, dtype=object)[mapping.index]
    for cell in zip(*np.nonzero(mapping.index < 0), strict=True):
        value = float(numbers[cell])
        grid[cell] = written.model.addVar(lb=value, ub=value)
    return grid
