r"""Blocks read from a model, if the structure that was found has the form of `Blocks`.

Every setting of the integer variables of a block is a mode. With them fixed, constraints on one
variable are bounds, and the others must be of two kinds. *Piecewise linear terms*: variables
$a \ge \sigma (x_j - w_j)$, $a \ge 0$, with nonnegative coefficients in coupling constraints; a
constraint $x_j = w_j + a - b$ defines two, and an input in coupling constraints is a term that
starts at the end of its box of least use. *Capped outputs*: $t \le \alpha f(x)$, $t \le h$, one of
them with an objective coefficient. Other blocks are left to `general_blocks`.
"""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..bounds.layer_list import output_range
from ..clock import check_time
from ..errors import UnsupportedNetworkError
from ..model.blocks import AXES, Blocks, Mode
from ..model.instance import InputMap, Instance
from ..model.predictor import Predictor
from ..model.problem import NeuralMIP
from ..model.structure import Structure, find_structure
from ..renamed import renamed_names

MAX_MODES = 4096
"""Number of settings of the integer variables of a block up to which they are listed."""
RECOGNITION_TOLERANCE = 1e-9
"""Absolute tolerance for bounds, right-hand sides and base points."""


class NotBlockFormError(Exception):
    """A block does not have the form of `Blocks`; only `recognise` catches it."""


def _require(condition: bool | np.bool_) -> None:
    if not condition:
        raise NotBlockFormError


class PiecewiseTerm(NamedTuple):
    """A variable that is at least `slope * (x - base)` and at least 0.

    Attributes
    ----------
    variable, input
        Positions of the variable and of the network input x among the variables of the block.
    slope, base
        Coefficients of the constraint.
    use
        Use of each resource by one unit of the variable.
    end
        Value of the input at which the variable is at its upper bound.
    """

    variable: int
    input: int
    slope: float
    base: float
    use: ndarray
    end: float


class BlockMode(NamedTuple):
    """One row of the table of `Blocks`.

    Attributes
    ----------
    mode
        The mode of one block, whose arrays have no axis of blocks.
    key
        Key that is equal for rows of one mode.
    """

    mode: Mode
    key: tuple[bytes, ...]


_found: WeakKeyDictionary[NeuralMIP, tuple[str, Blocks | Structure]] = WeakKeyDictionary()


def find_blocks(problem: NeuralMIP, instance: Instance) -> Blocks | Structure:
    """Return the blocks that the user described, or else those found in the model.

    Parameters
    ----------
    problem, instance
        The problem, and its arrays and maps.

    Returns
    -------
    Blocks or Structure
        `Blocks` if they have that form. A result is kept until the model changes.
    """
    if problem.blocks is not None:
        return problem.blocks
    if problem not in _found or _found[problem][0] != instance.digest:
        structure = find_structure(instance)
        _found[problem] = instance.digest, recognise(instance, structure) or structure
    return _found[problem][1]


def require_blocks(problem: NeuralMIP, instance: Instance, method: str) -> Blocks | Structure:
    """Return the blocks of a problem as `find_blocks` does.

    Raises
    ------
    ProblemError
        If the model does not decompose; the message names the method that needs blocks.
    """
    blocks = find_blocks(problem, instance)
    if isinstance(blocks, Structure):
        blocks.require(method)
    return blocks


def recognise(instance: Instance, structure: Structure) -> Blocks | None:
    """Return the problem as `Blocks`, or None if its blocks do not have that form.

    Parameters
    ----------
    instance, structure
        The problem and its blocks.

    Examples
    --------
    >>> from ddmip_lib.model.structure import find_structure
    >>> from ddmip_lib.problems import shared_budget
    >>> instance = shared_budget().instance()
    >>> recognise(instance, find_structure(instance))
    Blocks: 3 blocks, 1 mode, 1 shared resource
    """
    shapes = {(mapping.index.shape[1], mapping.output.shape[1]) for mapping in instance.maps}
    if structure.obstacle or structure.master or len(shapes) > 1 or shapes.pop()[1] != 1:
        return None
    try:
        reader = BlockReader(instance, structure)
        table = [reader.modes(np.flatnonzero(structure.block == b)) for b in range(structure.n)]
        return reader.blocks(table)
    except NotBlockFormError:
        return None


class BlockReader:
    """What the blocks of a model share: resources, networks and their output ranges.

    Every finite side of a coupling constraint is a resource.

    Parameters
    ----------
    instance, structure
        The problem and its blocks.

    Raises
    ------
    NotBlockFormError
        If the model cannot have the form of `Blocks`.
    """

    def __init__(self, instance: Instance, structure: Structure) -> None:
        s = instance.milp
        constant = np.where(s.lower == s.upper, s.lower, 0.0)
        _require(not (s.cost * constant).any())
        _require((s.lower < s.upper)[instance.outputs].all())
        self.milp = s
        self.instance = instance
        self.is_output = instance.is_output
        self.is_input = np.zeros(s.n_variables, dtype=bool)
        self.is_input[instance.free_inputs] = True
        self.position = np.full(s.n_variables + 1, -1)  # of each variable in its block
        self.constants = instance.inputs(s.lower)  # where an input is none
        self._read_constraints(structure.coupling, constant)
        self.predictor = np.full(s.n_variables, -1)  # of each output variable, and its row
        self.row = np.full(s.n_variables, -1)
        self.output_range = np.tile([[0.0], [1.0]], s.n_variables)  # that of classes at first
        for number, (predictor, mapping) in enumerate(instance.networks):
            output = mapping.output[:, 0]
            self.predictor[output] = number
            self.row[output] = np.arange(len(output))
            if not predictor.gives_class:
                self._read_output_range(predictor, mapping)

    def _read_constraints(self, coupling: ndarray, constant: ndarray) -> None:
        """Read every constraint as `rows @ v <= side`; those on several blocks are resources."""
        s = self.milp
        rows = sp.vstack([s.rows, -s.rows], format="csr")
        side = np.concatenate([s.row_upper, -s.row_lower]) - rows @ constant
        coupling = np.tile(coupling, 2)
        resources = np.flatnonzero(np.isfinite(side) & coupling)
        own = np.isfinite(side) & ~coupling
        self.use = rows[resources].toarray().T
        self.capacities = side[resources]
        self.names = [(2 * s.row_names)[r] for r in resources]
        self.rows = rows[own]
        self.columns = self.rows.tocsc()
        self.side = side[own]
        self.equation = np.tile(s.row_lower == s.row_upper, 2)[own]

    def _read_output_range(self, predictor: Predictor, mapping: InputMap) -> None:
        """Bound the outputs of a network that is not a classifier."""
        _require(not self.milp.integer[mapping.output].any())
        self.output_range[:, mapping.output] = [[[-np.inf]], [[np.inf]]]
        with suppress(UnsupportedNetworkError):  # then the range is infinite
            box = mapping.at(self.milp.lower), mapping.at(self.milp.upper)
            self.output_range[:, mapping.output] = output_range(predictor.net, *box)

    def modes(self, own: ndarray) -> list[BlockMode]:
        """Return the rows of the table of the block with these variables.

        Raises
        ------
        NotBlockFormError
            If the block does not have the form of `Blocks`.
        """
        check_time()
        self.position[own] = np.arange(len(own))
        rows = np.unique(self.columns[:, own].indices)
        constraints = self.rows[rows][:, own].toarray(), self.side[rows], self.equation[rows]
        integer = self.milp.integer[own] & ~self.is_output[own]
        settings = self.instance.assignment_list.combinations(own[integer], MAX_MODES)
        if settings is None:
            raise NotBlockFormError
        found = [FixedBlock(self, own, integer, row).mode(*constraints) for row in settings]
        return [mode for mode in found if mode is not None]

    def blocks(self, table: list[list[BlockMode]]) -> Blocks:
        """Return all rows as one table; negative fixed use is added to the capacities.

        Raises
        ------
        NotBlockFormError
            If a block has no feasible setting.
        """
        _require(all(table))
        capacities = self.capacities.copy()
        groups = dict[tuple[bytes, ...], list[Mode]]()
        for block, modes in enumerate(table):
            least = np.minimum(np.min([mode.fixed for mode, _ in modes], axis=0), 0.0)
            capacities -= least
            for mode, key in modes:
                row = replace(mode, block=np.array(block), fixed=mode.fixed - least)
                groups.setdefault(key, []).append(row)
        made = [_merged(group) for group in groups.values()]
        # every block can stay at its base point without use and without value
        optional = all(len(modes) == 1 and not modes[0].mode.fixed.any() for modes in table)
        optional = optional and bool(self.milp.integer[self.is_output].all())
        return Blocks(made, capacities, optional, self.names)


def _merged(group: list[Mode]) -> Mode:
    """Return the mode that some rows of the table have in common."""
    arrays: dict[str, Any] = {}
    for name, axes in AXES.items():
        if "b" in axes:
            arrays[name] = np.array([getattr(mode, name) for mode in group])
    return replace(group[0], **arrays)


class FixedBlock:
    """One block with its integer variables fixed; arrays have an entry for each of its variables.

    Parameters
    ----------
    reader
        What the blocks share.
    own
        The variables of the block.
    integer
        Which of them are fixed.
    values
        Their values.
    """

    def __init__(
        self, reader: BlockReader, own: ndarray, integer: ndarray, values: ndarray
    ) -> None:
        self.reader = reader
        self.own = own
        self.values = values
        self.use = reader.use[own]
        self.lower = reader.milp.lower[own]
        self.upper = reader.milp.upper[own]
        self.lower[integer] = values
        self.upper[integer] = values
        self.gain = -reader.milp.sign * reader.milp.cost[own]
        self.is_input = reader.is_input[own]
        self.is_output = reader.is_output[own]
        self.terms = list[PiecewiseTerm]()
        self.capped = dict[int, tuple[int, float]]()  # of each variable t, output and factor

    def mode(self, matrix: ndarray, side: ndarray, equation: ndarray) -> BlockMode | None:
        """Return the setting as a row of the table, None if it is infeasible.

        Parameters
        ----------
        matrix, side, equation
            The constraints `matrix @ v <= side` of the block, and which are sides of equations.

        Raises
        ------
        NotBlockFormError
            If the block does not have the form of `Blocks`.
        """
        matrix, side = self._tighten(matrix, side)
        violated = side < -RECOGNITION_TOLERANCE
        if (self.lower > self.upper).any() or violated[~matrix.any(axis=1)].any():
            return None
        for r in np.flatnonzero(matrix.any(axis=1)):
            row = matrix[r]
            inputs = np.flatnonzero(row * self.is_input)
            outputs = np.flatnonzero(row * self.is_output)
            others = np.flatnonzero(row * ~(self.is_input | self.is_output))
            negative = others[row[others] < 0]
            counts = len(inputs), len(outputs), len(others), len(negative)
            if counts == (0, 1, 1, 0):
                self._add_capped(row, side[r], outputs[0], others[0])
                continue
            # each of two variables has no constraint but the two sides of this equation
            two_terms = equation[r] and (matrix[:, others] != 0).sum() == 4
            _require(counts == (1, 0, 1, 1) or (counts == (1, 0, 2, 1) and two_terms))
            self._add_term(row, side[r], inputs[0], negative[0])
        return self._read_mode()

    def _tighten(self, matrix: ndarray, side: ndarray) -> tuple[ndarray, ndarray]:
        """Turn constraints on one variable into bounds until no such constraint is left."""
        while True:
            fixed = self.lower >= self.upper
            side = side - matrix[:, fixed] @ self.lower[fixed]
            matrix = matrix * ~fixed
            single = (matrix != 0).sum(axis=1) == 1
            row, variable = np.nonzero(matrix * single[:, None])
            bound = side[row] / matrix[row, variable]
            above = matrix[row, variable] > 0
            np.minimum.at(self.upper, variable[above], bound[above])
            np.maximum.at(self.lower, variable[~above], bound[~above])
            matrix = matrix * ~single[:, None]
            side = np.where(single, 0.0, side)
            if not single.any() or (self.lower > self.upper).any():
                return matrix, side

    def _add_capped(self, row: ndarray, side: float, y: int, t: int) -> None:
        """Read the constraint t <= factor * y."""
        _require(t not in self.capped and side == 0 and row[y] < 0)
        factor = -row[y] / row[t]
        smallest = factor * self.reader.output_range[0, self.own[y]]
        _require(self.lower[t] <= smallest + RECOGNITION_TOLERANCE)
        self.capped[t] = y, factor

    def _add_term(self, row: ndarray, side: float, x: int, a: int) -> None:
        """Read the constraint a >= slope * (x - base)."""
        _require(self.lower[a] == 0 and not self.gain[a] and (self.use[a] >= 0).all())
        slope = -row[x] / row[a]
        base = side / row[x]
        end = base + self.upper[a] / slope
        self.terms.append(PiecewiseTerm(a, x, slope, base, self.use[a], end))

    def _add_input_term(self, x: int) -> ndarray:
        """Add the term of an input in coupling constraints; return the use at its start."""
        slope = 1.0 if (self.use[x] >= 0).all() else -1.0
        use = slope * self.use[x]
        _require((use >= 0).all())
        base = self.lower[x] if slope > 0 else self.upper[x]
        self.terms.append(PiecewiseTerm(x, x, slope, base, use, slope * np.inf))
        return base * self.use[x]

    def _read_mode(self) -> BlockMode | None:
        free = self.lower < self.upper
        using = self.use.any(axis=1) & free
        fixed = self.lower[~free] @ self.use[~free]
        for x in np.flatnonzero(using & self.is_input).tolist():
            fixed = fixed + self._add_input_term(x)
        valued = np.flatnonzero(free & (self.gain != 0)).tolist()
        _require(len(valued) == 1 and not (self.gain * self.lower)[~free].any())
        t: int = valued[0]
        _require(self.gain[t] > 0 and (self.use[t] <= 0).all())
        y, factor = self.capped.get(t, (t, 1.0))
        cap = self.upper[t] / factor if t in self.capped else np.inf
        self._check(t, y, using)
        parts = {
            "predictor": int(self.reader.predictor[self.own[y]]),
            "worth": self.gain[t] * factor,
            "cap": cap,
            "per_value": self.use[t] / self.gain[t],
        }
        return self._with_box(fixed, parts, int(self.reader.row[self.own[y]]))

    def _check(self, t: int, y: int, using: ndarray) -> None:
        """Raise unless output y and the terms are all that `using` and the objective depend on."""
        variables = {term.variable for term in self.terms}
        _require(self.is_output[y])
        _require(set(np.flatnonzero(using).tolist()) <= {t, *variables})
        _require(not variables & {t, *self.capped})
        _require(not (t in self.capped and self.reader.milp.integer[self.own[y]]))
        smallest, largest = self.reader.output_range[:, self.own[self.is_output]]
        _require((self.lower[self.is_output] <= smallest + RECOGNITION_TOLERANCE).all())
        _require((self.upper[self.is_output] >= largest - RECOGNITION_TOLERANCE).all())
        _require(len({(term.variable, term.slope > 0) for term in self.terms}) == len(self.terms))
        _require(len({(term.variable, term.input) for term in self.terms}) == len(variables))

    def _with_box(self, fixed: ndarray, parts: dict[str, Any], row: int) -> BlockMode | None:
        """Add box, base point and use in the order of the network's inputs."""
        number = parts["predictor"]
        place = self.reader.position[self.reader.instance.maps[number].index[row]]
        constant = self.reader.constants[number][row]
        lower = np.where(place >= 0, self.lower[place], constant)
        upper = np.where(place >= 0, self.upper[place], constant)
        start = 0.5 * (lower + upper)
        rates = self._apply_terms(place, start, lower, upper)
        if (lower > upper).any():
            return None
        base = np.clip(start, lower, upper)
        fixed = fixed + np.maximum(base - start, 0) @ rates[0]
        fixed = fixed + np.maximum(start - base, 0) @ rates[1]
        parts |= {"up": rates[0], "down": rates[1]}
        key = tuple(np.asarray(part).tobytes() for part in (self.values, *parts.values()))
        mode = Mode(np.array(-1), np.array(row), lower, upper, base, fixed=fixed, **parts)
        return BlockMode(mode, key)

    def _apply_terms(
        self, place: ndarray, start: ndarray, lower: ndarray, upper: ndarray
    ) -> ndarray:
        """Move start and box of the inputs, in place, to bases and ends of the terms.

        Returns the use of each resource by a unit of each input, upwards and downwards.
        """
        free = place[(place >= 0) & (lower < upper)].tolist()
        _require(len(set(free)) == len(free))
        rates = np.zeros((2, len(place), self.use.shape[1]))
        bases = dict[int, float]()
        for term in self.terms:
            _require(term.input in free)
            base = bases.setdefault(term.input, term.base)
            _require(abs(term.base - base) <= RECOGNITION_TOLERANCE)
            at = place == term.input
            start[at] = term.base
            falls = term.slope < 0
            rates[int(falls), at] += abs(term.slope) * term.use
            if falls:
                lower[at] = np.maximum(lower[at], term.end)
            else:
                upper[at] = np.minimum(upper[at], term.end)
        return rates


if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__,
        Reader="ddmip_lib.pricing.recognition.BlockReader",
        Setting="ddmip_lib.pricing.recognition.FixedBlock",
        Step="ddmip_lib.pricing.recognition.PiecewiseTerm",
        UnlikeError="ddmip_lib.pricing.recognition.NotBlockFormError",
        Way="ddmip_lib.pricing.recognition.BlockMode",
    )
