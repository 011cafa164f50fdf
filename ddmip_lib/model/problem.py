"""A mixed-integer program with neural networks inside: `NeuralMIP`."""

from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy import ndarray
from pyscipopt import Expr, Model

from ..errors import ProblemError
from ..programs.scip import is_integral, matrix_of, require_copyable, require_unsolved
from .blocks import Blocks, Mode
from .exported import Network, as_module
from .grid import as_grid, box, is_variable, linear_terms, tie_expressions
from .instance import Instance
from .network_checks import on_copies, validate_network
from .predictor import (
    KINDS,
    Predictor,
    frozen_double,
    output_width,
    takes,
    warn_of_outputs,
    warn_of_steps,
)
from .solution import Solution
from .start import read_start
from .text import counted
from .verification import Verification, Verifier


class NeuralMIP:
    r"""A mixed-integer program in which neural networks connect variables.

    It is $\min c^\top x + d^\top y$ subject to constraints on $(x, y)$ and $y = f(x)$, where $x$ is
    mixed-integer and bounded. Constraints and objective are those of a `pyscipopt.Model`;
    `add_predictor` states which variables a network connects. No solver of this library changes
    the model or the network.

    Parameters
    ----------
    model : pyscipopt.Model
        An unsolved model.
    name : str, default: ""
        A name for the problem.

    Attributes
    ----------
    model
        The model.
    name
        The name.
    predictors
        The networks in the model, in the order in which they were added.
    start
        Inputs of each predictor from which solvers start (see `set_start`), or None.
    start_point
        Values of all variables that `set_start` was given, by the addresses of the variables.
    start_failed
        Whether a run found the start infeasible, and no feasible point close to it.
    blocks
        The problem as blocks that share resources (see `set_blocks`), or None.

    Raises
    ------
    TypeError
        If `model` is no `pyscipopt.Model`.
    ProblemError
        If the model was solved already, or cannot be copied.

    Examples
    --------
    >>> import pyscipopt, torch
    >>> m = pyscipopt.Model()
    >>> x = m.addMatrixVar((1, 2), vtype="B", name="x")
    >>> y = m.addMatrixVar((1, 1), lb=None, name="y")
    >>> _ = m.addCons(x[0, 0] + x[0, 1] <= 1)
    >>> m.setObjective(y[0, 0], "maximize")
    >>> net = torch.nn.Linear(2, 1).eval()
    >>> problem = NeuralMIP(m)
    >>> _ = problem.add_predictor(net, x, y)
    >>> problem
    NeuralMIP
      maximise, 3 variables (2 integer), 1 constraint
      predictor 0  Linear, regression, 1 x 2 (2 free) -> 1 x 1
    """

    def __init__(self, model: Model, name: str = "") -> None:
        if not isinstance(model, Model):
            raise TypeError(f"NeuralMIP needs a pyscipopt.Model, not {type(model).__name__}.")
        require_unsolved(model)
        require_copyable(model)
        self.model = model
        self._initialise(name)

    def _initialise(self, name: str) -> None:
        """Set the attributes of a problem without predictors."""
        self.name = name
        self.predictors: list[Predictor] = []
        self.start: list[ndarray] | None = None
        self.start_point: dict[int, float] = {}
        self.start_failed = False
        self.blocks: Blocks | None = None

    def add_predictor(
        self, net: Network, inputs: Any, outputs: Any = None, output: str = "regression"
    ) -> Predictor:
        """Add the constraint outputs = net(inputs) for each sample, a row of both matrices.

        A copy of the network is kept, so that training it further has no effect here. The network
        is evaluated at a few points to check that it is deterministic and treats samples
        independently.

        Parameters
        ----------
        net : torch.nn.Module, torch.export.ExportedProgram, str or os.PathLike
            The network; a path is that of an exported program in a .pt2 file.
        inputs : array_like
            Matrix (n, p) of variables with finite bounds, numbers, or linear expressions such as
            ``2 * x[0] + 1``. For each expression a variable and a constraint are added to the
            model. A list of n entries is one sample, or n samples if the network has one feature.
        outputs : array_like, optional
            Matrix (n, q) of variables. Without it free variables are added to the model; the
            `outputs` of the predictor holds them.
        output : {"regression", "classification"}, default: "regression"
            Whether an output is what the network predicts, or the class 1[logit > 0], for which
            its variable must be binary.

        Returns
        -------
        Predictor
            The network, its inputs and its outputs.

        Raises
        ------
        TypeError
            If `net` is no network.
        ProblemError
            If the network or the variables do not fit; the message names the remedy.
        """
        self._require_extensible(output)
        module = as_module(net)
        network = frozen_double(module)
        kind = KINDS[output]
        x = _input_matrix(inputs, network)
        shape = x.shape[0], output_width(network, x.shape[1])
        y = _output_matrix(outputs, shape)
        self._check_variables(x, y, kind.gives_class)
        label = getattr(module, "original_name", type(module).__name__)
        bounds = box(x)
        network = on_copies(network, *bounds)
        validate_network(network, *bounds, kind.gives_class)
        x = tie_expressions(self.model, x, f"{label}{len(self.predictors)}_input")
        if outputs is None:
            y = self._new_outputs(shape, f"{label}{len(self.predictors)}", kind.gives_class)
        predictor = kind(network, x, matrix_of(y), label)
        warn_of_outputs(predictor, self.model.infinity())
        warn_of_steps(predictor)
        self.predictors.append(predictor)
        return predictor

    def set_start(self, *inputs: Any) -> None:
        """Set the point from which solvers start.

        The outputs are computed by the networks. A start that violates a constraint is reported
        (`Solution.start`, and a warning by the logger "ddmip_lib") and repaired: its network
        inputs are kept and the other variables solved for; `solve` and `SequentialMIP` then also
        search a small box around the inputs for the nearest feasible point.

        Parameters
        ----------
        *inputs : array_like, Solution or dict of str to float
            One (n, p) array of input values for each predictor, in order. Or one whole point: a
            `Solution` of this problem, an array in the order of `Model.getVars`, or a dictionary
            of values by variable name, which must contain the networks' inputs. A point with
            values for all variables is also evaluated unchanged.

        Raises
        ------
        ProblemError
            If shapes do not fit, or a network input has no finite value.
        """
        self.start, self.start_point = read_start(self.predictors, self.instance, inputs)
        self.start_failed = False

    def with_own_start(self) -> "NeuralMIP":
        """Return the same problem, with the same model and networks, for another start.

        Returns
        -------
        NeuralMIP
            A problem whose start can be set independently.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def set_blocks(self, blocks: Blocks) -> None:
        """Describe the problem by blocks that share resources.

        `PriceCoordination` and `certify` use the description. It must agree with the model:
        solutions are verified by the model, and a different objective value is an error.

        Parameters
        ----------
        blocks : Blocks
            The description.

        Raises
        ------
        TypeError
            If `blocks` is no `Blocks`.
        ProblemError
            If a mode does not fit its predictor.
        """
        if not isinstance(blocks, Blocks):
            raise TypeError(
                f"set_blocks needs Blocks, not {type(blocks).__name__}: see ddmip_lib.pricing."
            )
        for t, mode in enumerate(blocks.modes):
            self._check_mode(t, mode)
        self.blocks = blocks

    def verify(self, point: Solution | ndarray) -> Verification:
        """Check whether a point is feasible, by the constraints of the model and the networks.

        Parameters
        ----------
        point : Solution or numpy.ndarray
            A solution, or a full assignment in the order of `Model.getVars`.

        Returns
        -------
        Verification
            The objective value and the largest violations.

        Raises
        ------
        ProblemError
            If a solution has no point, or a number is complex.
        """
        values = point.values if isinstance(point, Solution) else np.asarray(point)
        if values is None:
            raise ProblemError(
                "this solution has no point to verify: its status states the reason."
            )
        if np.iscomplexobj(values):
            raise ProblemError("the point holds complex numbers: pass real ones.")
        return Verifier(self.instance()).check(values.astype(float))

    def instance(self) -> Instance:
        """Read the problem into arrays and maps, on which solvers work.

        Returns
        -------
        Instance
            The problem as it is now.
        """
        self._require_variables()
        return Instance(self.model, self.predictors, self.start_point)

    def _require_extensible(self, output: str) -> None:
        """Raise an error if no predictor of this kind can be added."""
        if output not in KINDS:
            raise ProblemError(
                f"output={output!r} is unknown; choose one of {', '.join(map(repr, KINDS))}."
            )
        if self.start is not None:
            raise ProblemError(
                "a start was set already: call set_start after the last add_predictor."
            )
        require_unsolved(self.model)
        self._require_variables()

    def _require_variables(self) -> None:
        """Raise an error if a network's variable was deleted: SCIP has freed its memory."""
        existing = {v.ptr() for v in self.model.getVars()}
        for p in self.predictors:
            for entry in (*p.inputs.flat, *p.outputs.flat):
                if is_variable(entry) and entry.ptr() not in existing:
                    raise ProblemError(
                        f"a variable of network {p.name} was deleted from the model: build model"
                        " and problem again without it, or fix it by its bounds."
                    )

    def _check_variables(self, x: ndarray, y: ndarray, gives_class: bool) -> None:
        """Raise an error if a matrix entry cannot be an input or an output."""
        checks = _VariableChecks(self.model, self.predictors)
        for entry in x.flat:
            checks.check_input(entry)
        for entry in y.flat:
            checks.check_output(entry)
            if gives_class and entry.vtype() != "BINARY":
                raise ProblemError(
                    f'{entry.name} carries a class and must be binary: add it with vtype="B".'
                )

    def _new_outputs(self, shape: tuple[int, int], name: str, gives_class: bool) -> ndarray:
        """Add free variables for outputs, or binary ones for classes, to the model."""
        if gives_class:
            return self.model.addMatrixVar(shape, name=name, vtype="B", lb=0)
        return self.model.addMatrixVar(shape, name=name, vtype="C", lb=None)

    def _check_mode(self, t: int, mode: Mode) -> None:
        """Raise an error if mode number t does not fit its predictor."""
        if not 0 <= mode.predictor < len(self.predictors):
            raise ProblemError(
                f"mode {t} names predictor {mode.predictor}; there are {len(self.predictors)}."
            )
        predictor = self.predictors[mode.predictor]
        n, p = predictor.inputs.shape
        q = predictor.outputs.shape[1]
        if mode.base.shape[1] != p or not ((mode.row >= 0) & (mode.row < n)).all():
            raise ProblemError(f"mode {t}: rows and inputs must fit its predictor, {n} x {p}.")
        if q != 1:
            raise ProblemError(
                f"mode {t}: its network has {q} outputs; blocks need networks with one."
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a NeuralMIP holds a model of SCIP and cannot be copied or pickled: build it where it"
            " is solved."
        )

    def __repr__(self) -> str:
        self._require_variables()
        model = self.model
        sense = model.getObjectiveSense().replace("ize", "ise")
        integers = sum(is_integral(v) for v in model.getVars())
        return self._summary(sense, len(model.getVars()), integers, model.getNConss())

    def _summary(self, sense: str, variables: int, integers: int, constraints: int) -> str:
        """The name, and lines about the model and each predictor."""
        lines = [
            f"{type(self).__name__} {self.name}".rstrip(),
            f"  {sense}, {variables} variables ({integers} integer),"
            f" {counted(constraints, 'constraint')}",
        ]
        for i, predictor in enumerate(self.predictors):
            n, p = predictor.inputs.shape
            q = predictor.outputs.shape[1]
            free, interval = self._remarks(predictor)
            lines.append(
                f"  predictor {i}  {predictor.name}, {predictor.kind}, {n} x {p}{free} -> {n} x {q}"
                f"{interval}"
            )
        return "\n".join(lines)

    def _remarks(self, predictor: Predictor) -> tuple[str, str]:
        """Number of free inputs, and the interval of the outputs, for the summary."""
        variables = [v for v in predictor.inputs.flat if is_variable(v)]
        free = {v.ptr() for v in variables if v.getLbOriginal() < v.getUbOriginal()}
        return f" ({len(free)} free)", self._output_range(predictor)

    def _output_range(self, predictor: Predictor) -> str:
        """The interval of the output variables' bounds, empty where there are none."""
        infinity = self.model.infinity()
        outputs = predictor.outputs.ravel()
        lower = min(v.getLbOriginal() for v in outputs)
        upper = max(v.getUbOriginal() for v in outputs)
        unbounded = lower <= -infinity and upper >= infinity
        if predictor.gives_class or unbounded:
            return ""
        left = "(-inf" if lower <= -infinity else f"[{lower:g}"
        right = "inf)" if upper >= infinity else f"{upper:g}]"
        return f" in {left}, {right}"


def _input_matrix(inputs: Any, network: Any) -> ndarray:
    """The inputs as a matrix; a list is a column if the network has one feature."""
    x = as_grid(inputs, "inputs")
    if np.ndim(inputs) == 1 and not takes(network, x.shape[1]) and takes(network, 1):
        return x.reshape(-1, 1)
    return x


def _output_matrix(outputs: Any, shape: tuple[int, int]) -> ndarray:
    """The outputs as a matrix of this shape; an empty matrix if there are none."""
    if outputs is None:
        return np.empty((0, 0))
    y = as_grid(outputs, "outputs")
    n, q = shape
    if q == 1 and y.shape == (1, n):
        return y.reshape(-1, 1)
    if y.shape != shape:
        raise ProblemError(
            f"outputs have shape {y.shape}, but {n} samples through this network give {shape}:"
            " pass one output variable for each sample and network output."
        )
    return y


class _VariableChecks:
    """Checks of a new network's variables, given those of the networks in the model."""

    def __init__(self, model: Model, predictors: list[Predictor]) -> None:
        self.infinity = model.infinity()
        self.existing = {v.ptr() for v in model.getVars()}
        self.inputs = {v.ptr() for p in predictors for v in p.inputs.flat if is_variable(v)}
        self.outputs = {v.ptr() for p in predictors for v in p.outputs.flat}

    def check_input(self, entry: Any) -> None:
        if not isinstance(entry, (Expr, Real)):
            raise ProblemError(
                f"input {entry!r} is no variable, linear expression or finite number: pass one."
            )
        terms, constant = linear_terms(entry)
        if not np.isfinite([constant, *(a for _, a in terms)]).all():
            raise ProblemError(f"input {entry} is not finite: pass finite numbers.")
        for variable, _ in terms:
            self._check_input_variable(variable)
            self.inputs.add(variable.ptr())

    def _check_input_variable(self, variable: Any) -> None:
        self._require_own(variable, "input")
        if variable.ptr() in self.outputs:
            raise ProblemError(
                f"{variable.name} is an output of a network already: chain the two in one module."
            )
        lower = variable.getLbOriginal()
        upper = variable.getUbOriginal()
        if lower <= -self.infinity or upper >= self.infinity:
            raise ProblemError(
                f"input variable {variable.name} is unbounded: give it finite lb and ub."
            )

    def check_output(self, entry: Any) -> None:
        if not is_variable(entry):
            raise ProblemError(f"output {entry} must be a variable of this model.")
        self._require_own(entry, "output")
        if entry.ptr() in self.outputs:
            raise ProblemError(
                f"output variable {entry.name} is used twice: one variable for each output."
            )
        if entry.ptr() in self.inputs:
            raise ProblemError(
                f"{entry.name} is an input of a network too: chain the two in one module."
            )
        self.outputs.add(entry.ptr())

    def _require_own(self, variable: Any, role: str) -> None:
        """Raise an error if a variable is none of this model; a deleted one has no name."""
        if not variable.ptr():
            raise ProblemError(
                f"an {role} variable was deleted, or is of another model: use this model's own."
            )
        if variable.ptr() not in self.existing:
            raise ProblemError(
                f"{role} variable {variable.name} belongs to another model: use this model's own."
            )
