r"""The linear relaxation of a neural MIP, in which linear bounds take the place of its networks.

*Numerical safety.* Linear bounds and ranges hold for the network in float64 (see
`ddmip_lib.bounds`), constraints and variable bounds are relaxed by the tolerance of `verify`, and
the bound of a linear program is computed from its multipliers (`ddmip_lib.proofs`), which HiGHS
only proposes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray

from ..bounds import Bounds, Box, Graph
from ..clock import check_time
from ..model.instance import Instance
from ..numerics import gamma
from ..programs.program import Program
from ..proofs.encoding import NetworkEncoder, tighten_at

Place = tuple[int, int]  # numbers of a predictor and of one of its samples


class LinearBounds(NamedTuple):
    """Linear functions of the inputs of a network for one sample, coefficients (2q, p) and
    constants (2q,): lower bounds of each output and of its negative, in turn.
    """

    weights: ndarray
    constant: ndarray

    @property
    def sign(self) -> ndarray:
        """1 for bounds of an output, -1 for those of its negative."""
        return np.tile([1.0, -1.0], len(self.constant) // 2)


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

    @property
    def size(self) -> ndarray:
        """Largest absolute value of each input."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def rounding(self, functions: LinearBounds) -> ndarray:
        """Return bounds of the rounding errors of linear functions of these inputs."""
        size = np.abs(functions.weights) @ self.size + np.abs(functions.constant)
        return gamma(2 * len(self.lower) + 16) * size

    def range(self, functions: LinearBounds) -> tuple[ndarray, ndarray]:
        """Return the smallest and the largest values of linear functions of these inputs."""
        ends = np.sort([functions.weights * self.lower, functions.weights * self.upper], axis=0)
        low, high = ends.sum(axis=-1) + functions.constant
        rounding = self.rounding(functions)
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

    def bound_networks(self, method: Callable[..., Bounds]) -> list["NetworkBatch"]:
        """Bound all networks for all samples; see the function `bound_networks`."""
        counts = [len(mapping.index) for mapping in self.instance.maps]
        places = [(number, k) for number, count in enumerate(counts) for k in range(count)]
        return bound_networks(self.instance, [(self, place) for place in places], method)

    def tighten_outputs(self) -> None:
        """Tighten the bounds of the output variables, in place, to the ranges of their networks."""
        for (number, sample), found in self.output_bounds.items():
            predictor, mapping = self.instance.networks[number]
            ends = predictor.outputs_of(found.lower), predictor.outputs_of(found.upper)
            tighten_at((self.lower, self.upper), mapping.output[sample], *ends)

    def inputs(self, place: Place) -> InputBox:
        """Return the inputs of a network for one sample."""
        predictor, sample = place
        mapping = self.instance.maps[predictor]
        index = mapping.index[sample]
        constant = mapping.constant[sample]
        ends = (np.where(index >= 0, end[index], constant) for end in (self.lower, self.upper))
        return InputBox(index, *ends)

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
            bound = found.linear[0]
            weight = np.fromiter(weights, float, len(found.lower)).repeat(2) * bound.sign
            weight = weight.clip(min=0.0)
            if self.instance.predictors[place[0]].gives_class:
                bound = _class_bounds(bound, inputs)
            a = weight @ bound.weights
            np.add.at(total, inputs.variables[~fixed], a[~fixed])
            constant += weight @ bound.constant + a[fixed] @ inputs.lower[fixed]
            size += weight @ (np.abs(bound.constant) + np.abs(bound.weights) @ inputs.size)
        return WeightedBound(total, float(constant), float(size))

    def best_multipliers(self) -> ndarray:
        r"""Return $-A$ for the linear lower bound $A^\top u + b$ of the cost of the outputs."""
        bound = self.weighted_lower_bound(output_cost(self.instance))
        return -bound.weights[self.instance.free_inputs]


class NetworkBatch(NamedTuple):
    """Samples of one network on boxes, and the network's bounds there."""

    graph: Graph
    samples: list[tuple[Any, Place]]
    region: Box
    bounds: Bounds


def bound_networks(
    instance: Instance,
    samples: Sequence[tuple[BoundedBox, Place]],
    method: Callable[..., Bounds],
) -> list[NetworkBatch]:
    """Bound networks for samples on boxes, and return one batch for each network.

    Parameters
    ----------
    instance
        The problem.
    samples
        Boxes, and samples that are bounded there.
    method
        Function of a graph and a region that bounds the network, such as `ddmip_lib.bounds.crown`.
    """
    batches = []
    for number, graph in enumerate(instance.graphs):
        mine = [(box, place) for box, place in samples if place[0] == number]
        if not mine:
            continue
        _, *ends = zip(*(box.inputs(place) for box, place in mine), strict=True)
        region = Box(*(torch.tensor(np.array(end)) for end in ends))
        found = method(graph, region)
        for (box, place), bounds in zip(mine, bounds_by_sample(found), strict=True):
            box.output_bounds[place] = bounds
        batches.append(NetworkBatch(graph, mine, region, found))
    return batches


def linear_relaxation(base: Program, box: BoundedBox) -> Program | None:
    """Return the constraints of a problem with linear bounds in place of its networks.

    Parameters
    ----------
    base
        The constraints, on the domain.
    box
        A box within the domain, with bounds of the networks.

    Returns
    -------
    Program or None
        The relaxation on the box, None if ranges of outputs prove it infeasible.
    """
    lower = np.maximum(box.lower, base.lower)
    within = replace(box, lower=lower, upper=np.minimum(box.upper, base.upper))
    within.tighten_outputs()
    if (within.lower > within.upper).any():
        return None
    encoder = NetworkEncoder(base.within(within.lower, within.upper))
    for place, output_bounds in box.output_bounds.items():
        check_time()
        for linear in output_bounds.linear:
            _add_bounds(encoder, box, place, linear)
    return encoder.program()


def _add_bounds(
    encoder: NetworkEncoder, box: BoundedBox, place: Place, linear: LinearBounds
) -> None:
    """Add y >= a'x + b as a constraint for each output and each negative of one, y.

    For a class y it is a'x + b <= M y, and for its negative a'x + b <= M (1 + y), with the largest
    value M of a'x + b on the box.
    """
    predictor, sample = place
    inputs = box.inputs(place)
    free = inputs.variables >= 0
    left = linear.constant + linear.weights[:, ~free] @ inputs.lower[~free]
    left -= inputs.rounding(linear)
    output_weights = linear.sign
    if box.instance.predictors[predictor].gives_class:
        output_weights = output_weights * inputs.range(linear)[1]
        left += np.minimum(output_weights, 0.0)
    outputs = box.instance.maps[predictor].output[sample].repeat(2)
    for k in np.flatnonzero(output_weights * linear.sign > 0):
        at = [*inputs.variables[free], outputs[k]]
        weights = [*-linear.weights[k, free], output_weights[k]]
        encoder.add_constraint(at, weights, left[k], np.inf)


def bounds_by_sample(found: Bounds) -> list[OutputBounds]:
    """Return the bounds of a network, sample by sample."""
    linear = [
        torch.stack([below, -above], 2).flatten(1, 2)
        for below, above in zip(found.lower_linear, found.upper_linear, strict=True)
    ]
    samples = zip(*(part.numpy() for part in (found.lower, found.upper, *linear)), strict=True)
    return [
        OutputBounds(lower, upper, (LinearBounds(*linear),)) for lower, upper, *linear in samples
    ]


def _class_bounds(bounds: LinearBounds, inputs: InputBox) -> LinearBounds:
    r"""Linear bounds of the classes $1[f > 0]$, and of their negatives, from those of f.

    A lower bound $v$ of f or -f on $[l, h]$ gives the lower bound $v/h$ of $1[f > 0]$ or
    $1 - 1[f > 0]$; or the constants 0 and, with $l > 0$, 1, if it encloses the smaller area.
    """
    low, high = inputs.range(bounds)
    divisor = np.where((low <= 0) & (high > -low), high, np.inf)
    constant = bounds.constant / divisor + (low > 0) - (bounds.sign < 0)
    return LinearBounds(bounds.weights / divisor[:, None], constant)


def output_cost(instance: Instance) -> ndarray:
    """Return the cost of every output, as a minimisation."""
    milp = instance.milp
    return milp.sign * milp.cost[instance.outputs]
