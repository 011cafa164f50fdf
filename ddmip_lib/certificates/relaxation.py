r"""The linear relaxation of a neural MIP, in which linear bounds take the place of its networks.

*Numerical safety.* Linear bounds and ranges hold for the network in float64 (see
`ddmip_lib.bounds`), constraints and variable bounds are relaxed by the tolerance of `verify`, and
the bound of a linear program is computed from its multipliers (`ddmip_lib.proofs`), which HiGHS
only proposes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..bounds import Bounds
from ..clock import check_time
from ..model.instance import Instance
from ..model.scaling import Units
from ..numerics import gamma
from ..programs.branching import Relaxed, solve_relaxation
from ..programs.lp import LPSolver
from ..programs.program import Program
from ..proofs.encoding import NetworkEncoder, relaxed_program, tighten_at

Place = tuple[int, int]  # numbers of a predictor and of one of its samples
RELAXATION_ROUNDS = 3  # rounds of bounds that the constraints of a relaxation imply


class LinearFunction(NamedTuple):
    """A linear function a'x + b of the inputs of a network."""

    weights: ndarray
    constant: float


class LinearBounds(NamedTuple):
    """Linear lower and upper bounds of the outputs of a network for one sample: matrices (q, p) and
    constants (q,).
    """

    lower_matrix: ndarray
    lower_constant: ndarray
    upper_matrix: ndarray
    upper_constant: ndarray

    def lower(self, k: int) -> LinearFunction:
        """Return the lower bound of output k."""
        return LinearFunction(self.lower_matrix[k], self.lower_constant[k])

    def upper(self, k: int) -> LinearFunction:
        """Return the upper bound of output k."""
        return LinearFunction(self.upper_matrix[k], self.upper_constant[k])

    def largest(self) -> ndarray:
        """Return the largest absolute value of the coefficients of both bounds, (q, p)."""
        return np.maximum(np.abs(self.lower_matrix), np.abs(self.upper_matrix))


class OutputBounds(NamedTuple):
    """Ranges and linear bounds of the outputs of a network for one sample, on a box."""

    lower: ndarray
    upper: ndarray
    linear: tuple[LinearBounds, ...]


class WeightedBound(NamedTuple):
    """A linear lower bound of a weighted sum of outputs: weights of all variables, a constant, and
    the sum of absolute values of all terms of the constant.
    """

    weights: ndarray
    constant: float
    size: float


class InputBox(NamedTuple):
    """The inputs of a network for one sample: variables or -1, and bounds, also of constants."""

    variables: ndarray
    lower: ndarray
    upper: ndarray

    @classmethod
    def of(cls, instance: Instance, place: Place, lower: ndarray, upper: ndarray) -> "InputBox":
        predictor, sample = place
        mapping = instance.maps[predictor]
        index = mapping.index[sample]
        ends = (
            np.where(index >= 0, end[index], mapping.constant[sample]) for end in (lower, upper)
        )
        return cls(index, *ends)

    @property
    def size(self) -> ndarray:
        """Largest absolute value of each input."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def rounding(self, function: LinearFunction) -> float:
        """Return a bound of the rounding error of a linear function of these inputs."""
        size = np.abs(function.weights) @ self.size + abs(function.constant)
        return gamma(2 * len(function.weights) + 16) * size

    def range(self, function: LinearFunction) -> tuple[float, float]:
        """Return the smallest and the largest value of a linear function of these inputs."""
        ends = np.sort([function.weights * self.lower, function.weights * self.upper], axis=0)
        low, high = ends.sum(axis=1) + function.constant
        rounding = self.rounding(function)
        return low - rounding, high + rounding


@dataclass(eq=False)
class BoundedBox:
    """A box of all variables of a problem, and bounds of its networks' outputs there.

    Attributes
    ----------
    instance
        The problem.
    lower, upper
        Bounds of all variables.
    output_bounds
        Bounds of the outputs for each sample of each network.
    """

    instance: Instance
    lower: ndarray
    upper: ndarray
    output_bounds: dict[Place, OutputBounds] = field(default_factory=dict)

    def bound_networks(self, method: Callable[..., Bounds]) -> None:
        """Bound all networks for all samples.

        Parameters
        ----------
        method
            Function of a graph and a box that bounds the network, such as `ddmip_lib.bounds.crown`.
        """
        for predictor, mapping in enumerate(self.instance.maps):
            box = mapping.box(self.lower, self.upper)
            found = method(self.instance.graph(predictor), box)
            for sample, output_bounds in enumerate(bounds_by_sample(found)):
                self.output_bounds[predictor, sample] = output_bounds

    def tighten_outputs(self) -> None:
        """Tighten the bounds of the output variables, in place, to the ranges of their networks."""
        for (number, sample), found in self.output_bounds.items():
            predictor, mapping = self.instance.networks[number]
            ends = predictor.outputs_of(found.lower), predictor.outputs_of(found.upper)
            tighten_at((self.lower, self.upper), mapping.output[sample], *ends)

    def inputs(self, place: Place) -> InputBox:
        """Return the inputs of a network for one sample."""
        return InputBox.of(self.instance, place, self.lower, self.upper)

    def weighted_lower_bound(self, output_weights: ndarray) -> WeightedBound:
        r"""Return $A^\top v + b$ below the weighted sum of all outputs, from the first linear bound
        of each sample; fixed variables count in $b$.

        Parameters
        ----------
        output_weights
            One weight for each output, in the order of `Instance.outputs`.
        """
        total = np.zeros(self.instance.milp.n_variables)
        constant = 0.0
        size = 0.0
        weights = iter(output_weights)
        for place, found in self.output_bounds.items():
            inputs = self.inputs(place)
            fixed = (inputs.variables < 0) | (inputs.lower == inputs.upper)
            for k in range(len(found.lower)):
                weight = next(weights)
                function = found.linear[0].lower(k) if weight > 0 else found.linear[0].upper(k)
                if self.instance.predictors[place[0]].gives_class:
                    function = _class_bound(function, inputs, above=weight <= 0)
                a = function.weights
                np.add.at(total, inputs.variables[~fixed], weight * a[~fixed])
                constant += weight * (function.constant + a[fixed] @ inputs.lower[fixed])
                size += abs(weight) * (abs(function.constant) + np.abs(a) @ inputs.size)
        return WeightedBound(total, float(constant), float(size))

    def best_multipliers(self) -> ndarray:
        r"""Return $-A$ for the linear lower bound $A^\top u + b$ of the cost of the outputs."""
        bound = self.weighted_lower_bound(output_cost(self.instance))
        return -bound.weights[self.instance.free_inputs]


class LinearRelaxation:
    """The user's constraints with linear bounds in place of the networks, on any box within the
    domain.

    Parameters
    ----------
    domain
        The domain, outputs included.
    units
        Units of the tolerances.
    """

    def __init__(self, domain: BoundedBox, units: Units) -> None:
        self.instance = domain.instance
        self.solver = LPSolver()
        self.base = relaxed_program(self.instance, units, domain.lower, domain.upper)

    def program(self, box: BoundedBox) -> Program | None:
        """Return the linear relaxation on a box, None if ranges of outputs prove it infeasible."""
        low = np.maximum(box.lower, self.base.lower)
        high = np.minimum(box.upper, self.base.upper)
        BoundedBox(self.instance, low, high, box.output_bounds).tighten_outputs()
        if (low > high).any():
            return None
        encoder = NetworkEncoder(self.base.within(low, high))
        for (number, sample), output_bounds in box.output_bounds.items():
            check_time()
            inputs = box.inputs((number, sample))
            is_class = self.instance.predictors[number].gives_class
            for linear in output_bounds.linear:
                for k, output in enumerate(self.instance.maps[number].output[sample]):
                    _add_bound(encoder, inputs, output, linear.lower(k), 1.0, is_class)
                    _add_bound(encoder, inputs, output, linear.upper(k), -1.0, is_class)
        return encoder.program()

    def solve(self, box: BoundedBox, seconds: float) -> Relaxed | None:
        """Return the bound of the linear relaxation on a box, and the point where it is attained;
        None if it is proved to be infeasible.

        Parameters
        ----------
        box
            The box, with bounds of the networks.
        seconds
            Time limit of the linear program.
        """
        program = self.program(box)
        if program is None:
            return None
        return solve_relaxation(program, self.solver, RELAXATION_ROUNDS, seconds)


def _add_bound(
    encoder: NetworkEncoder,
    inputs: InputBox,
    output: int,
    function: LinearFunction,
    sign: float,
    gives_class: bool,
) -> None:
    """Add y >= a'x + b (sign 1) or y <= a'x + b (sign -1) as a constraint.

    For a class y it is a'x + b <= M y (sign 1) or a'x + b >= -M (1 - y) (sign -1), with M from the
    range of a'x + b on the box.
    """
    free = inputs.variables >= 0
    constant = function.constant + function.weights[~free] @ inputs.lower[~free]
    left = sign * constant - inputs.rounding(function)
    output_weight = sign
    if gives_class:
        low, high = inputs.range(function)
        output_weight = high if sign > 0 else low
        if sign * output_weight <= 0:
            return
        left += min(output_weight, 0.0)
    encoder.add_constraint(
        [*inputs.variables[free], output],
        [*(-sign * function.weights[free]), output_weight],
        left,
        np.inf,
    )


def bounds_by_sample(found: Bounds) -> list[OutputBounds]:
    """Return the bounds of a network, sample by sample."""
    tensors = (found.lower, found.upper, *found.lower_linear, *found.upper_linear)
    samples = zip(*(tensor.numpy() for tensor in tensors), strict=True)
    return [
        OutputBounds(lower, upper, (LinearBounds(*linear),)) for lower, upper, *linear in samples
    ]


def _class_bound(function: LinearFunction, inputs: InputBox, above: bool) -> LinearFunction:
    r"""A linear upper (lower) bound of the class $1[f > 0]$ from one, $v$, of f.

    On the range $[l, h]$ of $v$, $1[v > 0] \le 1 - v/l$ and $1[v > 0] \ge v/h$; or the constants 1
    and 0, whichever encloses the smaller area.
    """
    a, b = function
    low, high = inputs.range(function)
    if high <= 0 or low > 0:
        return LinearFunction(0 * a, float(low > 0))
    if above and -low > high:
        return LinearFunction(-a / low, 1 - b / low)
    if not above and high > -low:
        return LinearFunction(a / high, b / high)
    return LinearFunction(0 * a, float(above))


def output_cost(instance: Instance) -> ndarray:
    """Return the cost of every output, as a minimisation."""
    milp = instance.milp
    return milp.sign * milp.cost[instance.outputs]
