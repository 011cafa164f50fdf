r"""The base class of both splits: a copy $u$ of the network inputs, evaluated by the networks.

The MIP block owns $x$, the NN block owns $u$, and $u = x$ couples them. There is one copy for each
distinct unfixed variable that enters any network, shared by all networks; fixed inputs and plain
numbers are constants. The vector of coupled quantities is $w = x$ or, where the outputs are coupled
too, $w = (x, y)$; the NN block's copies of it are $w(u) = u$ or $w(u) = (u, f(u))$.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy import ndarray
from pyscipopt import Model
from scipy.sparse.csgraph import connected_components

from ..device import place
from ..errors import ProblemError
from ..model.gradients import vjp
from ..model.instance import InputMap, Instance
from ..model.onoff import OnOff
from ..programs.scip import MILP
from .penalty import DescentTest, Penalty, PenaltyRule, Sweeps

START_JITTER = 0.01
"""Largest perturbation of a start at zero, as a fraction of the range of each input."""
SHORT_STEP = 0.01
"""Largest step that counts as short, as a fraction of the range of each input."""
NOISE_IN_EPSILONS = 100
"""Relative rounding errors of the NN block's values, in machine epsilons of its precision."""
RESTART_CYCLE_START = 5.0
"""First penalty of a further run, in units of the automatic initialisation."""
RESTART_CYCLE_LENGTH = 25
"""Iterations of a further run."""


class Gather:
    """The input matrix of one network as a function of u.

    Parameters
    ----------
    mapping
        Positions of the inputs of the network.
    milp
        The model, whose lower bounds are the values of fixed inputs.
    inputs
        Positions of the coupled inputs.

    Attributes
    ----------
    free
        Which entries are variables.
    index
        Position in u of each variable entry, -1 for the others.
    fixed
        Values of the other entries.
    is_reshape
        Whether the matrix is u itself in another shape.
    """

    def __init__(self, mapping: InputMap, milp: MILP, inputs: ndarray) -> None:
        position_in_u = np.full(milp.n_variables, -1)
        position_in_u[inputs] = np.arange(inputs.size)
        index = np.where(mapping.index >= 0, position_in_u[mapping.index], -1)
        self.free = torch.tensor(index >= 0)
        self.index = torch.tensor(index)
        self.fixed = torch.tensor(mapping.at(milp.lower))
        self.is_reshape = np.array_equal(index.ravel(), np.arange(inputs.size))

    def __call__(self, u: torch.Tensor) -> torch.Tensor:
        """Return the input matrix at coupled inputs u."""
        if u.shape == self.index.shape:
            return u
        if self.is_reshape:
            return u.view(self.index.shape)
        return torch.where(self.free, u[self.index], self.fixed)


class Split:
    r"""The coupled variables, and what each block owns; derived classes decide where outputs and
    the constraints on them belong.

    Parameters
    ----------
    instance
        The problem as arrays.
    start
        Network inputs of the start; None for a point of the box near zero.
    weighted
        Whether the penalty of an input falls with the square of its range, so that the units of
        the inputs have no effect.

    Attributes
    ----------
    name
        "paper" or "graph".
    couples_outputs
        Whether the MIP block has its own copy of the outputs, so that $f(u) = y$ couples the blocks
        too.
    milp
        The MIP block's own model; its first variables are the user's, in their order.
    owned
        Which variables of `milp` the MIP block decides.
    mip_constraints
        Which rows of `milp` the MIP block has.
    onoff
        On/off variables among the outputs, for completions.
    inputs
        Positions of the coupled network inputs in `milp`.
    coupled
        Positions of all coupled variables in `milp`: network inputs first, then outputs.
    box, box_tensors
        Lower and upper bounds of the coupled inputs; the same in units of `input_unit`.
    input_unit
        Units in which the blocks count inputs: 1 for an integer, the range of a continuous input,
        divided by their mean.
    short_step
        Length up to which a step of u counts as short, in these units.
    cost_of_outputs
        Cost of each output in the NN block, None where outputs are coupled instead.
    rows_u, rows_y, rows_b
        Matrices and right-hand side of the NN block's constraints `rows_u u + rows_y y <= rows_b`.
    tightening
        Amount by which each of these constraints is tightened.
    hinge_weight
        Weight of their squared-hinge penalty.
    constraint_has_interior
        Which of these constraints are inequalities.
    noise
        Relative rounding errors of the NN block's values.
    cycles, restart_cycle
        Default penalty rules of the first run, and of further ones.
    n_groups, group, output_group, constraint_group
        Number of independent groups of u, and the group of each coordinate, output and constraint.
    """

    name: str
    couples_outputs: bool
    milp: MILP
    owned: ndarray
    mip_constraints: ndarray
    onoff: Sequence[OnOff] = ()
    cost_of_outputs: ndarray | None = None
    rows_u: torch.Tensor
    rows_y: torch.Tensor
    rows_b: torch.Tensor = torch.zeros(0, dtype=torch.float64)
    tightening: torch.Tensor = torch.zeros(0, dtype=torch.float64)
    constraint_has_interior: torch.Tensor = torch.zeros(0, dtype=torch.bool)
    hinge_weight = 1.0
    cycles = Sweeps()
    restart_cycle = Sweeps(low=RESTART_CYCLE_START, lengths=(RESTART_CYCLE_LENGTH,))
    noise = 1e-12

    def __init__(
        self, instance: Instance, start: list[ndarray] | None = None, weighted: bool = False
    ) -> None:
        self.instance = instance
        self.milp = instance.milp
        self.inputs: ndarray = instance.free_inputs
        if self.inputs.size == 0:
            raise ProblemError(
                "every network input is fixed: there is nothing to decide. Evaluate the network"
                " instead."
            )
        self.coupled = self.inputs
        self.box = (self.milp.lower[self.inputs], self.milp.upper[self.inputs])
        width = self.box[1] - self.box[0]
        unit = np.where(self.milp.integer[self.inputs], 1.0, width)
        self.input_unit: ndarray = unit / unit.mean() if weighted else np.ones(len(unit))
        self.short_step = SHORT_STEP * width / self.input_unit
        self.box_tensors = [torch.tensor(end / self.input_unit) for end in self.box]
        self.gathers = [Gather(mapping, self.milp, self.inputs) for mapping in instance.maps]
        self.nets: list[Callable[[torch.Tensor], torch.Tensor]] = [
            predictor.net for predictor in instance.predictors
        ]
        self.output_positions = instance.outputs
        self.start = self._start(start)

    def _start(self, inputs: list[ndarray] | None) -> ndarray:
        """u at the given input matrices, else a point of the box near zero (many ReLUs are not
        differentiable at zero itself).
        """
        lower, upper = self.box
        if inputs is None:
            unit_noise = np.random.default_rng(0).uniform(-1, 1, lower.size)
            u = np.clip(0.0, lower, upper) + START_JITTER * (upper - lower) * unit_noise
        else:
            u = self.instance.assignment(inputs, rest=0.0)[self.inputs]
        return np.clip(u, lower, upper)

    # the NN block

    def shaped(self, u: torch.Tensor) -> torch.Tensor:
        """Return u as an input matrix where it is one: no reshaping has to be differentiated."""
        if len(self.gathers) == 1 and self.gathers[0].is_reshape:
            return u.view(self.gathers[0].index.shape)
        return u

    def raw_outputs(self, u: torch.Tensor) -> list[torch.Tensor]:
        """Return the raw prediction of each network at u."""
        return [net(gather(u)) for net, gather in zip(self.nets, self.gathers, strict=True)]

    def points(self, u: ndarray) -> list[ndarray]:
        """Return the networks' input matrices at coupled variables u."""
        inputs = torch.from_numpy(u[: self.inputs.size])
        return [gather(inputs).numpy() for gather in self.gathers]

    def predictions(self, u: ndarray) -> list[ndarray]:
        """Return the raw predictions of all networks at u, on the CPU and in double precision."""
        pairs = zip(self.instance.predictors, self.points(u), strict=True)
        return [predictor.finite_raw(x) for predictor, x in pairs]

    def place(self, device: torch.device | str, dtype: torch.dtype) -> None:
        """Evaluate the networks of the NN block on a device, in a precision.

        Verification stays on the CPU, in double precision.
        """
        if (torch.device(device).type, dtype) == ("cpu", torch.float64):
            return
        pairs = zip(self.instance.predictors, self.gathers, strict=True)
        self.nets = [place(p.net, device, dtype, gather.fixed) for p, gather in pairs]
        self.noise = max(self.noise, NOISE_IN_EPSILONS * torch.finfo(dtype).eps)

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the NN block's outputs for raw predictions, elementwise."""
        return raw

    def surrogate_and_derivative(self, raw: ndarray) -> tuple[ndarray, ndarray | float]:
        """Return the NN block's outputs for raw predictions, and their derivative."""
        return raw, 1.0

    def outputs(self, u: torch.Tensor) -> torch.Tensor:
        """Return the NN block's outputs of all networks at u, in one vector.

        Raises
        ------
        ProblemError
            If a prediction is NaN or infinite.
        """
        raw = torch.cat([raw.reshape(-1) for raw in self.raw_outputs(u)])
        if not math.isfinite(raw.detach().sum()):  # before a sigmoid maps infinity to a number
            self.instance.raise_not_finite(self.points(u.detach().numpy()))
        return self.surrogate(raw)

    def constraint_values(self, u: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return h, where the NN block's constraints are h <= 0."""
        if not self.rows_b.numel():
            return self.rows_b
        return self.rows_u @ u + self.rows_y @ y - self.rows_b

    def hinge_terms(self, h: torch.Tensor) -> torch.Tensor:
        """Return the squared-hinge penalty of each constraint."""
        return 0.5 * self.hinge_weight * torch.relu(h + self.tightening) ** 2

    def g(self, u: torch.Tensor, with_hinge: bool = True) -> torch.Tensor:
        """Return the NN block's own objective with the penalty of its constraints, as a
        differentiable scalar.
        """
        y = self.outputs(u)
        costs = self.cost_of_outputs
        value = y.new_zeros(()) if costs is None else torch.from_numpy(costs) @ y
        if with_hinge and len(self.rows_b):
            value = value + self.hinge_terms(self.constraint_values(u, y)).sum()
        return value

    @torch.enable_grad()
    def gradient(self, u: ndarray, with_hinge: bool = True) -> ndarray:
        """Return the gradient of g; gradients of weights are not computed."""
        point = torch.tensor(u, requires_grad=True)
        return vjp([self.g(point, with_hinge)], point).numpy()

    def copies(self, u: ndarray) -> ndarray:
        r"""Return the NN block's copies $w(u)$ of the coupled quantities."""
        return u

    def tighten(self, x: ndarray) -> None:
        """Update the tightening of the constraints on outputs at the MIP block's point."""

    def end_cycle(self) -> None:
        """Change the surrogate of a class at the end of a penalty cycle."""

    def _find_groups(self, rows_u: sp.csr_matrix, rows_y: sp.csr_matrix) -> None:
        """Find the independent groups of u: the connected components of the graph of inputs and
        outputs, whose edges are samples and constraints.
        """
        n = self.milp.n_variables
        of_inputs = sp.vstack([_incidence(m.index, n) for m in self.instance.maps], format="csr")
        of_outputs = sp.vstack([_incidence(m.output, n) for m in self.instance.maps], format="csr")
        samples = [of_inputs[:, self.inputs], of_outputs[:, self.output_positions]]
        edges = sp.bmat([samples, [rows_u, rows_y]], format="csr")
        self.n_groups, of_nodes, of_edges = components(edges)
        self.group_index, self.output_group_index = np.split(of_nodes, [self.inputs.size])
        self.group = torch.tensor(self.group_index)
        self.output_group = torch.tensor(self.output_group_index)
        self.constraint_group = torch.tensor(of_edges[of_inputs.shape[0] :])

    def sum_by_group(self, values: torch.Tensor, group: torch.Tensor | None = None) -> torch.Tensor:
        """Return the sums of `values` over the groups.

        Parameters
        ----------
        values
            The summands.
        group
            Group of each summand; None for those of the coordinates of u.
        """
        where = self.group if group is None else group
        return torch.zeros(self.n_groups, dtype=values.dtype).index_add(0, where, values)

    # the MIP block

    @cached_property
    def cost(self) -> ndarray:
        """Cost vector c of the MIP block over its variables, as a minimisation."""
        return np.where(self.owned, self.milp.sign * self.milp.cost, 0.0)

    def block_model(self, seed: int = 0) -> Model:
        """Return the MIP block's constraints as a new SCIP model with the variables of `milp`."""
        raise NotImplementedError

    def users(self, values: ndarray) -> ndarray:
        """Return the user's variables of an assignment of `milp`."""
        return values[: self.instance.milp.n_variables]

    # both blocks

    @property
    def constrains_outputs(self) -> bool:
        """Whether an iterate may violate the model although u = x."""
        return self.couples_outputs or len(self.rows_b) > 0

    def weights(self, rho: Penalty) -> ndarray:
        """Return the penalty of each coupled quantity."""
        weights = np.full(self.coupled.size, rho.outputs)
        weights[: self.inputs.size] = rho.inputs / self.input_unit**2
        return weights

    def scale_inputs(self, values: ndarray, power: int = 1) -> ndarray:
        """Return coupled quantities with their inputs in units of `input_unit`.

        Parameters
        ----------
        values
            One number for each coupled quantity.
        power
            1 for points, -1 for multipliers and gradients.
        """
        scaled = values.copy()
        scaled[: self.inputs.size] /= self.input_unit**power
        return scaled

    def residual(self, values: ndarray, power: int = 1) -> tuple[float, float]:
        """Return the largest absolute value of the inputs' entries, and of the outputs', in units
        as in `scale_inputs`.
        """
        scaled = np.abs(self.scale_inputs(values, power))
        n = self.inputs.size
        return float(scaled[:n].max()), float(scaled[n:].max(initial=0.0))

    def scale(self, gain: float, seed: int) -> Penalty:
        """Return the penalty of the automatic initialisation, which scales with the objective.

        Parameters
        ----------
        gain
            Decrease of the objective below the incumbent if the MIP block could choose the
            outputs.
        seed
            Seed of sampled points.
        """
        raise NotImplementedError

    def penalty_rule(self, given: PenaltyRule | None, again: bool) -> PenaltyRule:
        """Return a copy of the penalty rule for one run.

        Parameters
        ----------
        given
            The user's rule; None for the default one of this split.
        again
            Whether the run is not the first, whose default rule has one cycle.

        Raises
        ------
        ValueError
            If the rule does not apply to this split.
        """
        if self.couples_outputs and isinstance(given, DescentTest):
            raise ValueError(
                "DescentTest tests a descent that the paper's split has; use another rule here."
            )
        if given is None:
            given = self.restart_cycle if again else self.cycles
        return copy.deepcopy(given)


def _incidence(variables: ndarray, n_variables: int) -> sp.csr_matrix:
    """Return the matrix of samples and variables, nonzero where one belongs to the other.

    Parameters
    ----------
    variables
        Positions of the variables of each sample, -1 for a number.
    n_variables
        Number of all variables.
    """
    sample = np.nonzero(variables >= 0)[0]
    entries = (np.ones(sample.size), (sample, variables[variables >= 0]))
    return sp.csr_matrix(entries, (len(variables), n_variables))


def components(incidence: sp.csr_matrix) -> tuple[int, ndarray, ndarray]:
    """Return the connected components of a hypergraph, with a node for each column of its incidence
    matrix and an edge for each row: their number, and those of the nodes and of the edges.
    """
    graph = sp.bmat([[None, incidence.T], [incidence, None]], format="csr")
    n, component = connected_components(graph, directed=False)
    of_nodes, of_edges = np.split(component.astype(np.int64), [incidence.shape[1]])
    return n, of_nodes, of_edges
