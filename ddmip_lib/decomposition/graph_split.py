r"""The graph split: the MIP block has its own copy $y$ of the outputs; $u = x$ and $f(u) = y$
couple the blocks.

It exists for every neural MIP, also where outputs share rows with other variables. The MIP block is
the user's model without $y = f(x)$; the NN block has no objective of its own and is confined to the
graph of $f$. A classifier's logit becomes a variable $o$ of the MIP block, $y = 1 \Rightarrow o
\ge$ margin, and $o$ is what is coupled. No convergence theorem covers this split. The range of each
output, within which the MIP block may dream, is taken from the network.
"""

import itertools
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from pyscipopt import Model

from ..bounds.layer_list import output_range
from ..errors import UnsupportedNetworkError
from ..model.incumbent import Incumbent
from ..model.instance import InputMap, Instance
from ..model.onoff import find_onoff
from ..model.predictor import MARGIN, Predictor
from ..model.verification import Verification
from ..programs.scip import MILP, copy_model, has_point, read_model
from .penalty import DescentTest, Penalty, PenaltyRule, Sweeps
from .split import Split

FEW = 64
SAMPLES = 128
"""A row whose inputs take at most so many values is tabulated; others are sampled so often."""


class GraphSplit(Split):
    """Inputs and outputs are coupled; every row stays in the MIP block."""

    name = "graph"
    couples_outputs = True

    def __init__(
        self, instance: Instance, start: list[np.ndarray] | None = None, weighted: bool = False
    ) -> None:
        super().__init__(instance, start, weighted)
        self._model, positions = self._extend()
        self.milp = read_model(self._model)
        self.coupled = np.concatenate([self.inputs, positions])
        self.owned = np.ones(self.milp.n_variables, dtype=bool)
        self.mip_rows = np.ones(len(self.milp.row_names), dtype=bool)
        users = np.arange(len(self.mip_rows)) < len(instance.milp.row_names)
        if self._sound:  # completion must not trust ranges that were only sampled
            self.onoff = find_onoff(self.milp, self.output_positions, users)
        self._find_groups(sp.csr_matrix((0, self.inputs.size)), sp.csr_matrix((0, positions.size)))

    def _extend(self) -> tuple[Model, np.ndarray]:
        """The user's model with output ranges and logits; positions of the coupled outputs
        in it.
        """
        model = copy_model(self.instance.model)
        variables = model.getVars()
        added = len(variables)
        positions = []
        self._widths = []
        self._sound = True
        for predictor, where in zip(self.instance.predictors, self.instance.maps, strict=True):
            found = output_ranges(predictor, where, self.instance.milp)
            self._widths.append(found.width.ravel())
            self._sound = self._sound and found.sound
            for cell, at in np.ndenumerate(where.output):
                low = float(found.low[cell])
                high = float(found.high[cell])
                y = variables[at]
                if (
                    predictor.carrier(model, y, self.instance.milp, int(at), (low, high), MARGIN)
                    is not y
                ):
                    positions.append(added)  # a logit, with bounds of its own
                    added += 1
                    continue
                lower = max(y.getLbOriginal(), low)
                upper = min(y.getUbOriginal(), high)
                if lower <= upper:  # else the user's bounds lie outside what was seen: leave them
                    model.chgVarLb(y, lower)
                    model.chgVarUb(y, upper)
                positions.append(int(at))
        return model, np.array(positions)

    def block_model(self, seed: int = 0) -> Model:
        """A SCIP copy of the user's model with output ranges and logits."""
        return copy_model(self._model, seed)

    def copies(self, u: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.concatenate([u, self.outputs(torch.tensor(u)).numpy()])

    def judge(self, incumbent: Incumbent, x: np.ndarray, seconds: float) -> Verification:
        """Verify by the true network, after solving again for the variables that share rows with
        outputs.
        """
        return incumbent.consider_inputs(self.users(x), seconds)

    def proves_infeasible(self, seconds: float) -> bool:
        """The ranges of the outputs are no proof: SCIP is asked about the user's model."""
        return not has_point(copy_model(self.instance.model), seconds)

    def admits(self, rule: PenaltyRule) -> None:
        if isinstance(rule, DescentTest):
            raise ValueError(
                "DescentTest tests a descent that the paper's split has; use another rule here."
            )

    def scale(self, gain: float, seed: int) -> Penalty:
        r"""Penalties at which the whole gain in sight would pay for moving every copy across its
        range, $\Delta / \sum_i (\bar l_i - \underline l_i)^2$ over the inputs, and the same over
        the outputs; half of each, or where inputs are integer a quarter of the first alone: a flip
        must cost less than it gains.
        """
        wide = [(self.box[1] - self.box[0]) / self.stretch, np.concatenate(self._widths)]
        inputs, outputs = (gain / max(float(width @ width), 1e-12) for width in wide)
        factors = (0.25, 1.0) if self.milp.integer[self.inputs].any() else (0.5, 0.5)
        return Penalty(inputs, outputs if np.any(wide[1] > 1e-9) else inputs).times(*factors)

    def default_rule(self, again: bool = False) -> PenaltyRule:
        """Shorter sweeps than elsewhere: an x-step is a MIP, and good points come early."""
        return Sweeps(high=16.0, lengths=(15,) if again else (15, 25, 25))


class OutputRange(NamedTuple):
    """Ranges of a network's outputs, row by row; `width` is what was seen, at random points unless
    inputs are few.
    """

    low: np.ndarray
    high: np.ndarray
    width: np.ndarray
    sound: bool


def output_ranges(predictor: Predictor, where: InputMap, s: MILP) -> OutputRange:
    """Exact ranges where inputs take few values; by interval arithmetic for layers that allow it;
    else a guess, five times as wide as what random points show.
    """
    lower = where.at(s.lower)
    upper = where.at(s.upper)
    whole = (where.at(s.integer) > 0) | (lower == upper)
    if whole.all() and (np.prod(upper - lower + 1, axis=1) <= FEW).all():
        points = [
            np.array(list(itertools.product(*map(_integers, *ends))))
            for ends in zip(lower, upper, strict=True)
        ]
        if all(map(len, points)):  # else no integer lies between the bounds, as SCIP will find
            tables = [predictor.finite_raw(table) for table in points]
            low, high = (np.array([end(t, axis=0) for t in tables]) for end in (np.min, np.max))
            return OutputRange(low, high, high - low, True)
    rng = np.random.default_rng(0)
    sampled = lower + (upper - lower) * rng.random((SAMPLES, *lower.shape))
    raw = predictor.finite_raw(sampled.reshape(-1, lower.shape[1])).reshape(SAMPLES, len(lower), -1)
    low = raw.min(axis=0)
    high = raw.max(axis=0)
    width = high - low
    try:
        return OutputRange(*output_range(predictor.net, lower, upper), width, True)
    except UnsupportedNetworkError:
        return OutputRange(low - 2 * width, high + 2 * width, width, False)


def _integers(low: float, high: float) -> np.ndarray:
    """The integers from low to high; a constant stands for itself."""
    return (
        np.array([low])
        if low == high
        else np.arange(np.ceil(low - 1e-9), np.floor(high + 1e-9) + 1)
    )
