r"""What every split shares: a copy $u$ of the network inputs, and how $u$ enters the networks.

The MIP block owns $x$, the NN block owns $u$, and $u = x$ couples them. There is one copy for each
distinct unfixed variable that enters any network, shared by all networks; fixed inputs and plain
numbers are constants. The vector of coupled quantities is $w = x$ or, where the outputs are coupled
too, $w = (x, y)$; the NN block's copies of it are $\kappa(u) = u$ or $\kappa(u) = (u, f(u))$.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from pyscipopt import Model
from scipy.sparse.csgraph import connected_components

from ..device import place
from ..errors import ProblemError
from ..model.gradients import vjp
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.onoff import OnOff
from ..model.verification import Verification
from ..programs.scip import MILP
from .penalty import Penalty, PenaltyRule, Sweeps


class Gather:
    """The input matrix of one network as a function of u; a plain reshape where u is just that
    matrix.
    """

    def __init__(
        self, net: torch.nn.Module, index: np.ndarray, fixed: np.ndarray, n_inputs: int
    ) -> None:
        self.free = torch.tensor(index >= 0)
        self.index = torch.tensor(np.maximum(index, 0))
        self.fixed = torch.tensor(fixed)
        self.plain = index.size == n_inputs and bool((index.ravel() == np.arange(n_inputs)).all())
        probe = self.fixed.clone()
        before = probe._version
        with torch.no_grad():
            net(probe)
        self.in_place = probe._version != before
        """Whether the network writes on its own input."""

    def __call__(self, u: torch.Tensor) -> torch.Tensor:
        if self.plain:
            x = u if u.shape == self.index.shape else u.view(self.index.shape)
            return x.clone() if self.in_place else x
        return torch.where(self.free, u[self.index], self.fixed)


class Split:
    """Which variables are coupled and what each block owns; subclasses say where outputs and their
    rows live.
    """

    name: str
    couples_outputs: bool
    """Whether the MIP block has its own copy of the outputs, so that $f(u) = y$ couples the blocks
    too.
    """
    milp: MILP
    """The MIP block's own model; its first variables are the user's, in their order."""
    owned: np.ndarray
    """Which variables of `milp` the MIP block decides."""
    mip_rows: np.ndarray
    """Which rows of `milp` the MIP block has."""
    onoff: Sequence[OnOff] = ()
    """Outputs that a binary switches off, for completions."""

    def __init__(
        self, instance: Instance, start: list[np.ndarray] | None = None, weighted: bool = False
    ) -> None:
        """With `weighted` the penalty of an input falls with the square of its range, so that units
        do not matter.
        """
        self.instance = instance
        s = self.milp = instance.milp
        self.inputs: np.ndarray = instance.free_inputs
        if self.inputs.size == 0:
            raise ProblemError(
                "every network input is fixed: there is nothing to decide. Evaluate the network"
                " instead."
            )
        self.coupled = self.inputs
        """Positions of the coupled variables in `milp`: network inputs first, then outputs."""
        self.box = (s.lower[self.inputs], s.upper[self.inputs])
        unit = np.where(s.integer[self.inputs], 1.0, self.box[1] - self.box[0])
        self.stretch: np.ndarray = unit / unit.mean() if weighted else np.ones(len(unit))
        """Lengths in which inputs are counted: an integer's unit, a continuous input's range, 1 on
        average.
        """
        slot = np.full(s.n_variables, -1)
        slot[self.inputs] = np.arange(self.inputs.size)
        self.gathers = [
            Gather(
                p.net,
                np.where(m.index >= 0, slot[m.index], -1),
                np.where(m.index >= 0, s.lower[m.index], m.constant),
                self.inputs.size,
            )
            for p, m in zip(instance.predictors, instance.maps, strict=True)
        ]
        self.short = 0.01 * (self.box[1] - self.box[0]) / self.stretch
        """Steps in u below this are short."""
        self.nets: list[Callable[[torch.Tensor], torch.Tensor]] = [
            p.net for p in instance.predictors
        ]
        self.output_positions = instance.outputs
        self.start = self._start(start)

    # the NN block's side

    def raws(self, u: torch.Tensor) -> list[torch.Tensor]:
        """What each network says at u."""
        return [net(gather(u)) for net, gather in zip(self.nets, self.gathers, strict=True)]

    def points(self, u: np.ndarray) -> list[np.ndarray]:
        """The networks' input matrices at coupled variables u."""
        inputs = torch.from_numpy(u[: self.inputs.size])
        return [gather(inputs).numpy().copy() for gather in self.gathers]

    def place(self, device: torch.device | str, dtype: torch.dtype) -> None:
        """Evaluate the networks of the NN block elsewhere, or in another precision; verification
        stays as it is.
        """
        if (torch.device(device).type, dtype) != ("cpu", torch.float64):
            pairs = zip(self.instance.predictors, self.gathers, strict=True)
            self.nets = [place(p.net, device, dtype, gather.fixed) for p, gather in pairs]
            self.noise = max(self.noise, 100 * torch.finfo(dtype).eps)

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        """The outputs as this split sees them, entry by entry."""
        return raw

    def surrogate_and_slope(self, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """The same for arrays, and its derivative."""
        return raw, 1.0

    def outputs(self, u: torch.Tensor) -> torch.Tensor:
        """All outputs of all networks in one vector, as this split sees them."""
        raw = torch.cat([raw.reshape(-1) for raw in self.raws(u)])
        if not math.isfinite(raw.detach().sum()):  # a sigmoid would hide it
            self.instance.blame(self.points(u.detach().numpy()))
        return self.surrogate(raw)

    cost_of_outputs: np.ndarray | None = None
    """Cost of each output in the NN block (None: outputs are coupled instead)."""
    rows_u: torch.Tensor
    rows_y: torch.Tensor
    rows_b: torch.Tensor = torch.zeros(0, dtype=torch.float64)
    """Rows rows_u u + rows_y y <= rows_b that the NN block must satisfy (none here)."""
    tightening: torch.Tensor = torch.zeros(0, dtype=torch.float64)
    hinge_weight = 1.0
    noise = 1e-12
    """Relative size of the rounding errors in the NN block's values."""

    def rows(self, u: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The NN block's rows, as h <= 0."""
        return self.rows_u @ u + self.rows_y @ y - self.rows_b if len(self.rows_b) else self.rows_b

    def hinge_terms(self, h: torch.Tensor) -> torch.Tensor:
        """A squared-hinge penalty for each row."""
        return 0.5 * self.hinge_weight * torch.relu(h + self.tightening) ** 2

    def g(self, u: torch.Tensor) -> torch.Tensor:
        """The NN block's own objective, rows included, as a differentiable scalar."""
        y = self.outputs(u)
        value = (
            y.new_zeros(())
            if self.cost_of_outputs is None
            else torch.from_numpy(self.cost_of_outputs) @ y
        )
        return value + self.hinge_terms(self.rows(u, y)).sum() if len(self.rows_b) else value

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradient of g, through the network; weight gradients are never computed."""
        with torch.enable_grad():
            point = torch.tensor(u, requires_grad=True)
            return vjp([self.g(point)], point).numpy()

    def copies(self, u: np.ndarray) -> np.ndarray:
        r"""The NN block's copies $\kappa(u)$ of the coupled quantities."""
        return u

    def tighten(self, x: np.ndarray) -> None:
        """Learn from the MIP block's point how far rows on outputs must be tightened (where there
        are any).
        """

    def next_sweep(self) -> None:
        """A sweep has ended: let what stands for a class change its shape (where there is any)."""

    def _find_groups(self, rows_u: sp.csr_matrix, rows_y: sp.csr_matrix) -> None:
        """Number the independent parts of u: inputs that meet in no network row and in no row of
        the NN block.
        """
        enters = []
        for gather, m in zip(self.gathers, self.instance.maps, strict=True):
            row, column = np.nonzero(gather.free.numpy())
            index = gather.index.numpy()[row, column]
            enters.append(
                sp.csr_matrix((np.ones(row.size), (row, index)), (len(m.index), self.inputs.size))
            )
        per_row = [np.full(len(m.output), m.output.shape[1]) for m in self.instance.maps]
        network_row = np.repeat(np.arange(sum(map(len, per_row))), np.concatenate(per_row))
        emits = sp.csr_matrix(
            (np.ones(network_row.size), (np.arange(network_row.size), network_row))
        )
        entering = sp.vstack(enters)
        blank = [sp.csr_matrix((k, k)) for k in (self.inputs.size, emits.shape[1], rows_u.shape[0])]
        links = [
            [blank[0], entering.T, rows_u.T],
            [entering, blank[1], (abs(rows_y) @ emits).T],
            [rows_u, None, blank[2]],
        ]
        _, label = connected_components(sp.bmat(links, format="csr"), directed=False)
        _, label = np.unique(label, return_inverse=True)
        self.n_groups = int(label.max()) + 1
        self.group = torch.tensor(label[: self.inputs.size])
        self.output_group = torch.tensor(label[self.inputs.size + network_row])
        self.row_group = torch.tensor(label[self.inputs.size + emits.shape[1] :])
        self.row_has_interior = torch.zeros(rows_u.shape[0], dtype=torch.bool)
        self.group_index = self.group.numpy()
        self.output_group_index = self.output_group.numpy()

    def sum_by_group(self, values: torch.Tensor, group: torch.Tensor | None = None) -> torch.Tensor:
        """Sums of `values` over the groups (of the coordinates of u, unless `group` says
        otherwise).
        """
        where = self.group if group is None else group
        return torch.zeros(self.n_groups, dtype=values.dtype).index_add(0, where, values)

    @cached_property
    def box_tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The box of the coupled inputs, for the NN block."""
        return torch.tensor(self.box[0] / self.stretch), torch.tensor(self.box[1] / self.stretch)

    # the MIP block's side

    @cached_property
    def cost(self) -> np.ndarray:
        """Cost vector c of the MIP block over its variables, as a minimisation."""
        return np.where(self.owned, self.milp.sign * self.milp.cost, 0.0)

    def block_model(self, seed: int = 0) -> Model:
        """The MIP block's constraints as a fresh SCIP model; its variables are those of `milp`."""
        raise NotImplementedError

    def users(self, values: np.ndarray) -> np.ndarray:
        """The user's variables of an assignment of the MIP block's."""
        return values[: self.instance.milp.n_variables]

    def judge(self, incumbent: Incumbent, x: np.ndarray, seconds: float) -> Verification:
        """Let the MIP block's point compete, verified by the true network."""
        raise NotImplementedError

    def proves_infeasible(self, seconds: float) -> bool:
        """Whether the user's model has no point where the MIP block has none."""
        raise NotImplementedError

    # both

    @property
    def constrains_outputs(self) -> bool:
        """Whether an iterate may violate the model although u = x."""
        return self.couples_outputs or len(self.rows_b) > 0

    def weights(self, rho: Penalty) -> np.ndarray:
        """The penalty of each coupled quantity."""
        weights = np.full(self.coupled.size, rho.outputs)
        weights[: self.inputs.size] = rho.inputs / self.stretch**2
        return weights

    def in_stretches(self, values: np.ndarray, power: int = 1) -> np.ndarray:
        """Coupled quantities with inputs counted in units of `stretch`; multipliers, prices of a
        unit, by power -1.
        """
        n = self.inputs.size
        return np.concatenate([values[:n] / self.stretch**power, values[n:]])

    def by_part(self, values: np.ndarray) -> tuple[float, float]:
        """Largest size among the entries of inputs, and of outputs."""
        n = self.inputs.size
        return float(np.abs(values[:n]).max()), float(np.abs(values[n:]).max(initial=0.0))

    def scale(self, gain: float, seed: int) -> Penalty:
        """A penalty of the size that this problem asks for, whatever the units of its objective;
        `gain` is what the MIP block would gain over the best point known if the networks gave it
        any output that it likes.
        """
        raise NotImplementedError

    def admits(self, rule: PenaltyRule) -> None:
        """Refuse a penalty rule that this split has no use for."""

    def default_rule(self, again: bool = False) -> PenaltyRule:
        """The penalty rule of a run that asks for none: one sweep where it is not the first."""
        return Sweeps(low=5.0, lengths=(25,)) if again else Sweeps()

    def _start(self, inputs: list[np.ndarray] | None) -> np.ndarray:
        """u for the given input matrices, else a point of the box near zero (at zero itself many
        ReLUs have a kink).
        """
        low, high = self.box
        if inputs is None:
            jitter = 0.01 * (high - low) * np.random.default_rng(0).uniform(-1, 1, low.size)
            return np.clip(np.clip(0.0, low, high) + jitter, low, high)
        return np.clip(self.instance.assignment(inputs, rest=0.0)[self.inputs], low, high)
