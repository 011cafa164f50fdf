"""A mixed-integer program with neural networks inside: `NeuralMIP`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy import ndarray
from pyscipopt import Model
from torch import nn

from ..errors import ProblemError
from ..programs.scip import copy_model, is_integral, matrix_of, require_copyable, require_unsolved
from .blocks import Blocks
from .changes import Changes, change_model
from .exported import Network, as_module, is_estimator
from .files import File, read_map, read_model_file
from .grid import as_grid, box, is_variable, tie_expressions
from .instance import Instance, Original
from .lookup import find_variables, own_variables, with_variables
from .network_checks import validated_network
from .predictor import (
    KINDS,
    Predictor,
    frozen_double,
    output_width,
    takes,
    warn_of_outputs,
    warn_of_steps,
)
from .progress import logger
from .restated import reformulated
from .solution import Solution
from .start import read_start
from .text import counted
from .variable_checks import check_variables
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
    original
        For a copy (see `changed`), the model that it was copied from, or None.
    translated
        A function that returns the variable for one of another package (see `from_pyomo`), or None.

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

    @classmethod
    def read(
        cls,
        path: File,
        predictors: File | Mapping[str, Any] | None = None,
        networks: Sequence[Network] | None = None,
        trust: bool = False,
    ) -> Self:
        """Read a problem from a model in a file, and a map of names that connects its networks.

        The map is ``{"predictors": [{"network": "net.pt2", "inputs": [["x1", "x2"]],
        "outputs": [["y"]], "output": "regression"}]}``: for each network the path, relative to the
        folder of the map, and the arguments of `add_predictor`, with variables by their names.

        Parameters
        ----------
        path : str or os.PathLike
            An MPS, LP or CIP file, which may be compressed by gzip. SCIP reads it.
        predictors : str, os.PathLike or dict, optional
            The map as a JSON file or a dictionary. Without it there are no predictors yet.
        networks : sequence of torch.nn.Module, str or os.PathLike, optional
            Networks in the place of those that the map names, in order.
        trust : bool, default: False
            Whether a network in a file of `torch.save` may be loaded: such pickles can run code.

        Returns
        -------
        NeuralMIP
            The problem; ``problem["x1"]`` is the variable with this name.

        Raises
        ------
        FileNotFoundError
            If a file does not exist.
        ProblemError
            If a file cannot be read, or the map does not fit; the message names the entry.

        Examples
        --------
        >>> import pyscipopt, tempfile, torch
        >>> m = pyscipopt.Model()
        >>> x, y = m.addVar("x", ub=1), m.addVar("y", lb=None)
        >>> m.setObjective(y)
        >>> names = {"predictors": [{"inputs": [["x"]], "outputs": [["y"]]}]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     m.writeProblem(f"{folder}/m.mps", verbose=False)
        ...     problem = NeuralMIP.read(f"{folder}/m.mps", names, [torch.nn.Linear(1, 1).eval()])
        >>> problem["x"], problem
        (x, NeuralMIP
          minimise, 2 variables (0 integer), 0 constraints
          predictor 0  Linear, regression, 1 x 1 (1 free) -> 1 x 1)
        """
        problem = cls(read_model_file(path))
        if predictors is not None:
            for arguments in read_map(predictors, networks, trust):
                problem.add_predictor(**arguments)
        return problem

    def __getitem__(self, names: Any) -> Any:
        """Return the variable with a name, or an array of variables for an array of names.

        In a problem that was translated from another package, variables of that package are names.
        """
        return find_variables(self.model, own_variables(names, self.translated))

    def _initialise(self, name: str) -> None:
        """Set the attributes of a problem without predictors."""
        self.name = name
        self.predictors: list[Predictor] = []
        self.start: list[ndarray] | None = None
        self.start_point: dict[int, float] = {}
        self.start_failed = False
        self.blocks: Blocks | None = None
        self.original: Original | None = None
        self.translated: Callable[[Any], Any] | None = None

    def add_predictor(
        self, net: Network, inputs: Any, outputs: Any = None, output: str = "regression"
    ) -> Predictor:
        """Add the constraint outputs = net(inputs) for each sample, a row of both matrices.

        A copy of the network is kept, so that training it further has no effect here. The network
        is evaluated at a few points to check that it is deterministic and treats samples
        independently.

        Parameters
        ----------
        net : torch.nn.Module, ExportedProgram, onnx.ModelProto, str, os.PathLike or estimator
            The network; a path is that of an exported program in a .pt2 file, of an ONNX model in a
            .onnx file, or of a TorchScript archive. ONNX models need the extra `onnx`, and are
            compared with onnxruntime where it is installed. Or a fitted estimator of scikit-learn,
            XGBoost or LightGBM: trees and their ensembles, linear models, multilayer perceptrons,
            pipelines. Any other object with a method ``predict`` is evaluated as a black box, with
            a `BlackBoxWarning`.
        inputs : array_like
            Matrix (n, p) of variables with finite bounds, their names, numbers, or linear
            expressions such as ``2 * x[0] + 1``. For each expression a variable and a constraint
            are added to the model. A list of n entries is one sample, or n samples if the network
            has one feature. For an estimator also a mapping from its columns to entries. A column
            of categories is given by a mapping from category to binary, by a list of binaries in
            the order of its categories, or by one category; a constraint makes the binaries sum to
            one.
        outputs : array_like, optional
            Matrix (n, q) of variables or names. Without it free variables are added to the model;
            the `outputs` of the predictor holds them.
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
        columns = None
        if is_estimator(net):
            net, columns = _network_of(net)
            inputs = columns.matrix(inputs)
        net = as_module(net)
        network = frozen_double(net)
        kind = KINDS[output]
        inputs = own_variables(inputs, self.translated)
        outputs = own_variables(outputs, self.translated)
        x = with_variables(self.model, _input_matrix(inputs, network))
        shape = x.shape[0], output_width(network, x.shape[1])
        y = with_variables(self.model, _output_matrix(outputs, shape))
        check_variables(self.model, self.predictors, x, y, kind.gives_class)
        label = getattr(net, "original_name", type(net).__name__)
        network = validated_network(network, *box(x), kind.gives_class)
        name = f"{label}{len(self.predictors)}"
        x = tie_expressions(self.model, x, f"{name}_input")
        if columns is not None:
            columns.choose_categories(self.model, x, name)
        if outputs is None:
            y = self.model.addMatrixVar(
                shape, name, *(("B", 0) if kind.gives_class else ("C", None))
            )
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
        *inputs : array_like, Solution, dict of str to float, or path
            One (n, p) array of input values for each predictor, in order. Or one whole point: a
            `Solution` of this problem, an array in the order of `Model.getVars`, a dictionary
            of values by variable name, which must contain the networks' inputs, or a file, either
            .sol or from `Solution.to_json`. A point with values for all variables is also evaluated
            unchanged.

        Raises
        ------
        ProblemError
            If shapes do not fit, or a network input has no finite value.
        """
        self.start, self.start_point = read_start(self.predictors, self.stated_instance, inputs)
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

    def copied(self) -> "NeuralMIP":
        """Return the same problem on a copy of the model, which can be changed.

        The networks are shared. Solutions of the copy also answer for the variables of this
        problem. A description by `set_blocks` is left out, since it holds for this model only.

        Returns
        -------
        NeuralMIP
            The copy, with the start of this problem.
        """
        instance = self.stated_instance()
        model = copy_model(instance.model)
        copies = model.getVars()
        other = NeuralMIP(model, self.name)
        for predictor, mapping in instance.networks:
            variables = matrix_of(copies)
            x = np.where(mapping.index >= 0, variables[mapping.index], mapping.constant)
            y = variables[mapping.output]
            other.predictors.append(replace(predictor, inputs=x, outputs=y))
        addresses = {old: copies[at].ptr() for old, at in instance.variables.position.items()}
        other.original = Original((self.model, self.original), addresses)
        other.start = self.start
        other.start_point = {addresses[old]: value for old, value in self.start_point.items()}
        if self.blocks is not None:
            logger.info("The copy of %r is solved without the blocks of set_blocks.", self.name)
        return other

    def changed(
        self,
        rhs: Changes = (),
        cost: Changes = (),
        bounds: Changes = (),
        start: Any = None,
    ) -> "NeuralMIP":
        """Return this problem with other numbers, on a copy of the model: what if?

        Parameters
        ----------
        rhs : dict or list of pairs, optional
            Sides of constraints, with all constants on the right, by name, or as pairs of a
            constraint with its side: a number for the only side, or for both of an equation; a
            pair (lower, upper) otherwise, with None for a side that stays.
        cost : dict or list of pairs, optional
            Objective coefficients, by the name of a variable, or as pairs with it.
        bounds : dict or list of pairs, optional
            Bounds of variables, by name, or as pairs with the variable: a pair (lower, upper) as
            above, or a number that fixes it.
        start : Solution or other start, optional
            A start, as for `set_start`: one that violates a changed constraint is repaired, and
            `Solution.start` states by how much it does. Without it the start of this problem.

        Returns
        -------
        NeuralMIP
            The changed problem; solutions of it also answer for the variables of this problem.

        Raises
        ------
        ProblemError
            If a name is unknown or shared, or a number does not fit.

        Examples
        --------
        >>> from ddmip_lib import solve
        >>> from ddmip_lib.problems import hand_sized
        >>> problem = hand_sized()
        >>> solution = solve(problem)
        >>> dearer = problem.changed(cost={"x_0_0": 4.0}, start=solution)
        >>> round(solution.objective, 6), round(solve(dearer).objective, 6)
        (0.5, 1.5)
        """
        other = self.copied()
        variables = other.stated_instance().variables
        change_model(other.model, variables, rhs, cost, bounds)
        if start is not None:
            other.set_start(start)
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
        return Verifier(self.stated_instance()).check(values.astype(float))

    def instance(self) -> Instance:
        """Read the problem into arrays and maps, on which solvers work.

        Returns
        -------
        Instance
            The problem as it is now.
        """
        return reformulated(self.stated_instance())

    def stated_instance(self) -> Instance:
        """Read the problem as the model states it, without reformulations.

        Returns
        -------
        Instance
            The problem as it is now, by which points are verified.
        """
        self._require_variables()
        return Instance(self.model, self.predictors, self.start_point, original=self.original)

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

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a NeuralMIP holds a model of SCIP and cannot be copied or pickled: build it where it"
            " is solved."
        )

    def __repr__(self) -> str:
        sense, variables, integers, constraints = self._size()
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

    def _size(self) -> tuple[str, int, int, int]:
        """The sense, and numbers of variables, of integer ones and of constraints."""
        self._require_variables()
        variables = self.model.getVars()
        sense = self.model.getObjectiveSense().replace("ize", "ise")
        return sense, len(variables), sum(map(is_integral, variables)), self.model.getNConss()

    def _remarks(self, predictor: Predictor) -> tuple[str, str]:
        """Number of free inputs, and the interval of the outputs' bounds, if they have any."""
        inputs = [v for v in predictor.inputs.flat if is_variable(v)]
        free = len({v.ptr() for v in inputs if v.getLbOriginal() < v.getUbOriginal()})
        infinity = self.model.infinity()
        lower = min(v.getLbOriginal() for v in predictor.outputs.flat)
        upper = max(v.getUbOriginal() for v in predictor.outputs.flat)
        left = "(-inf" if lower <= -infinity else f"[{lower:g}"
        right = "inf)" if upper >= infinity else f"{upper:g}]"
        bounded = left != "(-inf" or right != "inf)"
        interval = f" in {left}, {right}" if bounded and not predictor.gives_class else ""
        return f" ({free} free)", interval


def _network_of(estimator: Any) -> tuple[nn.Module, Any]:
    """A fitted estimator as a network, and its input columns."""
    from ..predictors.estimators import read_estimator  # which other problems do not need

    return read_estimator(estimator)


def _input_matrix(inputs: Any, network: nn.Module) -> ndarray:
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
