r"""The graph split: the MIP block has its own copy $y$ of the outputs; $u = x$ and $f(u) = y$
couple the blocks.

It exists for every neural MIP, also where constraints hold outputs and other variables. The MIP
block is the user's model without $y = f(x)$; the NN block has no objective of its own and is
confined to the graph of $f$. A classifier's logit becomes a variable $o$ of the MIP block, $y = 1
\Rightarrow o \ge$ margin, and $o$ is what is coupled. No convergence theorem covers this split. The
outputs of the MIP block are bounded by their ranges over the box of the inputs.
"""

import itertools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy import ndarray
from pyscipopt import Model

from ..bounds.layer_list import output_range
from ..errors import UnsupportedNetworkError
from ..model.assignments import integers_between
from ..model.instance import InputMap, Instance
from ..model.onoff import find_onoff
from ..model.predictor import LOGIT_MARGIN, Predictor
from ..programs.scip import MILP, copy_model, read_model
from .penalty import Penalty, Sweeps
from .split import Split

MAX_ENUMERATED_INPUTS = 64
"""A sample with at most this number of possible inputs is enumerated."""
RANGE_SAMPLES = 128
"""Number of random inputs of each other sample."""
RANGE_EXTENSION = 2
"""Extension of a sampled range to both sides, in units of its width."""
MIN_WIDTH = 1e-9
"""Width up to which an output counts as constant."""
INTEGER_FACTORS = (0.25, 1.0)
CONTINUOUS_FACTORS = (0.5, 0.5)
"""First penalties of inputs and outputs in units of `GraphSplit.scale`, with and without integer
inputs.
"""
LAST_FACTOR = 16.0
"""Last penalty of a cycle, in units of the automatic initialisation."""
CYCLE_LENGTHS = (15, 25, 25)
"""Iterations of the penalty cycles; a further run has the first alone."""


class GraphSplit(Split):
    """Inputs and outputs are coupled; all constraints belong to the MIP block.

    Parameters
    ----------
    instance, start, weighted
        As in `Split`.
    """

    name = "graph"
    couples_outputs = True
    # shorter cycles than those of the paper's split: an x-update is a MIP, and good points are
    # found early
    cycles = Sweeps(high=LAST_FACTOR, lengths=CYCLE_LENGTHS)
    restart_cycle = Sweeps(high=LAST_FACTOR, lengths=CYCLE_LENGTHS[:1])

    def __init__(
        self, instance: Instance, start: list[ndarray] | None = None, weighted: bool = False
    ) -> None:
        super().__init__(instance, start, weighted)
        ranges = [output_ranges(*network, instance.milp) for network in instance.networks]
        positions = self._add_ranges(ranges)
        self._widths = np.concatenate([found.width.ravel() for found in ranges])
        self.milp = read_model(self._model)
        self.coupled = np.concatenate([self.inputs, positions])
        self.owned = np.ones(self.milp.n_variables, dtype=bool)
        self.mip_constraints = np.ones(self.milp.n_rows, dtype=bool)
        if all(found.sound for found in ranges):  # completions must not rely on sampled ranges
            of_user = np.arange(self.milp.n_rows) < instance.milp.n_rows
            self.onoff = find_onoff(self.milp, self.output_positions, of_user)
        self._find_groups(sp.csr_matrix((0, self.inputs.size)), sp.csr_matrix((0, positions.size)))

    def _add_ranges(self, ranges: list["OutputRange"]) -> ndarray:
        """Add output ranges and logits to a copy of the model; return the positions of the coupled
        outputs.
        """
        self._model = copy_model(self.instance.model)
        variables = self._model.getVars()
        n_variables = len(variables)
        positions = []
        for predictor, mapping, found in zip(
            self.instance.predictors, self.instance.maps, ranges, strict=True
        ):
            for cell, at in np.ndenumerate(mapping.output):
                ends = (float(found.low[cell]), float(found.high[cell]))
                y = variables[at]
                carrier = predictor.output_or_logit(
                    self._model, y, self.instance.milp, int(at), ends, LOGIT_MARGIN
                )
                if carrier is not y:  # a logit, whose bounds are its range
                    positions.append(n_variables)
                    n_variables += 1
                    continue
                positions.append(int(at))
                ends = (max(y.getLbOriginal(), ends[0]), min(y.getUbOriginal(), ends[1]))
                if ends[0] <= ends[1]:
                    self._model.chgVarLb(y, ends[0])
                    self._model.chgVarUb(y, ends[1])
        return np.array(positions)

    def block_model(self, seed: int = 0) -> Model:
        """Return a SCIP copy of the user's model with output ranges and logits."""
        return copy_model(self._model, seed)

    def copies(self, u: ndarray) -> ndarray:
        with torch.no_grad():
            return np.concatenate([u, self.outputs(torch.tensor(u)).numpy()])

    def scale(self, gain: float, seed: int) -> Penalty:
        r"""Return penalties at which moving all copies across their ranges costs the whole gain.

        They are $\Delta / \sum_i (\bar l_i - \underline l_i)^2$ over the inputs, and the same over
        the outputs; half of each, or where inputs are integer a quarter of the first alone: the
        change of one binary must cost less than it gains.
        """
        input_widths = (self.box[1] - self.box[0]) / self.input_unit
        inputs = gain / max(float(input_widths @ input_widths), 1e-12)
        outputs = inputs
        if (self._widths > MIN_WIDTH).any():
            outputs = gain / max(float(self._widths @ self._widths), 1e-12)
        has_integers = self.milp.integer[self.inputs].any()
        factors = INTEGER_FACTORS if has_integers else CONTINUOUS_FACTORS
        return Penalty(inputs, outputs).times(*factors)


class OutputRange(NamedTuple):
    """Ranges of a network's outputs, sample by sample.

    Attributes
    ----------
    low, high
        The ranges.
    width
        Difference of the largest and smallest output found by enumeration or at random inputs.
    sound
        Whether no output can leave its range.
    """

    low: ndarray
    high: ndarray
    width: ndarray
    sound: bool


def output_ranges(predictor: Predictor, where: InputMap, s: MILP) -> OutputRange:
    """Return the ranges of a network's outputs over the box of its inputs.

    They are exact where inputs take few values, and follow from interval arithmetic for layers
    that support it; otherwise they are estimates, five times as wide as the range of the outputs at
    random inputs.

    Parameters
    ----------
    predictor
        The network.
    where
        Positions of its inputs and outputs.
    s
        The model as arrays.
    """
    lower = where.at(s.lower)
    upper = where.at(s.upper)
    discrete = (where.at(s.integer) > 0) | (lower == upper)
    counts = np.prod(upper - lower + 1, axis=1)
    if discrete.all() and (counts <= MAX_ENUMERATED_INPUTS).all():
        values = [map(_integers, *sides) for sides in zip(lower, upper, strict=True)]
        points = [np.array(list(itertools.product(*each))) for each in values]
        if all(map(len, points)):  # else SCIP will find that a box holds no integer
            tables = [predictor.finite_raw(each) for each in points]
            low = np.array([table.min(axis=0) for table in tables])
            high = np.array([table.max(axis=0) for table in tables])
            return OutputRange(low, high, high - low, True)
    sampled = _sampled_range(predictor, lower, upper)
    try:
        return OutputRange(*output_range(predictor.net, lower, upper), sampled.width, True)
    except UnsupportedNetworkError:
        return sampled


def _integers(lower: float, upper: float) -> ndarray:
    """The integers from lower to upper; a fixed input has its value alone."""
    return np.array([lower]) if lower == upper else integers_between(lower, upper)


def _sampled_range(predictor: Predictor, lower: ndarray, upper: ndarray) -> OutputRange:
    """The range at random inputs, extended to both sides."""
    n_samples, n_features = lower.shape
    rng = np.random.default_rng(0)
    inputs = lower + (upper - lower) * rng.random((RANGE_SAMPLES, n_samples, n_features))
    raw = predictor.finite_raw(inputs.reshape(-1, n_features)).reshape(RANGE_SAMPLES, n_samples, -1)
    low = raw.min(axis=0)
    high = raw.max(axis=0)
    width = high - low
    extension = RANGE_EXTENSION * width
    return OutputRange(low - extension, high + extension, width, False)
