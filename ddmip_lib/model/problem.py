"""A mixed-integer program with neural networks inside: `NeuralMIP`."""

from numbers import Real
from typing import Any, NoReturn

import numpy as np
from pyscipopt import Expr, Model

from ..errors import ProblemError
from ..programs.scip import is_integral, matrix_of, require_copyable, require_unsolved
from .blocks import Blocks
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
from .verification import Verification, Verifier


class NeuralMIP:
    r"""The problem $\min c^\top x + d^\top y$ s.t. your rows on $(x, y)$, $y = f(x)$, $x$
    mixed-integer and boxed.

    You write rows and objective on a `pyscipopt.Model`, as for any MIP, and say which variables a
    network connects. No solver of this library changes your model or your network.

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
      maximise, 3 variables (2 integer), 1 row
      predictor 0  Linear, regression, 1 x 2 (2 free) -> 1 x 1
    """

    def __init__(self, model: Model, name: str = "") -> None:
        if not isinstance(model, Model):
            raise TypeError(f"NeuralMIP needs a pyscipopt.Model, not {type(model).__name__}.")
        require_unsolved(model)
        require_copyable(model)
        self.model = model
        self.name = name
        self.predictors: list[Predictor] = []
        self.start: list[np.ndarray] | None = None
        """Inputs of each predictor from which solvers start (see `set_start`)."""
        self.start_point: dict[int, float] = {}
        """What `set_start` was told of all variables, by their addresses."""
        self.start_failed = False
        """Whether the start was found infeasible, and beyond repair, by a run that hands the
        problem on.
        """
        self.blocks: Blocks | None = None
        """The problem as blocks that share resources (see `set_blocks`)."""

    def add_predictor(
        self, net: Network, inputs: Any, outputs: Any = None, output: str = "regression"
    ) -> Predictor:
        """Add the constraint outputs = net(inputs), row by row.

        `inputs` is (n, p): variables with finite bounds, plain numbers, or linear expressions such
        as `2 * x[0] + 1`; a list of n entries is one row, or n rows where the network takes one
        feature. `outputs` is (n, q), variables. Without them, free variables are added to your
        model, which the predictor's `outputs` holds, a matrix to write rows with; for each
        expression among the inputs, a variable and the row that ties it are added too.
        `output="classification"` makes each output variable the class 1[logit > 0]; it must be
        binary. The network is a module, or what `torch.export` made of one, also by the path of its
        .pt2 file. A copy of the network is kept, so that training it further changes nothing here;
        it is asked at a few points whether it says the same each time and of each row alone.
        """
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
        module = as_module(net)
        frozen = frozen_double(module)
        kind = KINDS[output]
        x = as_grid(inputs, "inputs")
        if np.ndim(inputs) == 1 and not takes(frozen, x.shape[1]) and takes(frozen, 1):
            x = x.reshape(-1, 1)
        shape = x.shape[0], output_width(frozen, x.shape[1])
        y = np.empty((0, 0)) if outputs is None else as_grid(outputs, "outputs")
        if y.shape == (1, x.shape[0]) and shape[1] == 1:
            y = y.reshape(-1, 1)
        if outputs is not None and y.shape != shape:
            raise ProblemError(
                f"outputs have shape {y.shape}, but {x.shape[0]} rows through this network give "
                f"{shape}: pass one output variable for each row and network output."
            )
        self._check_variables(x, y, kind)
        called = getattr(module, "original_name", type(module).__name__)
        frozen = on_copies(frozen, *box(x))
        validate_network(frozen, *box(x), kind.gives_class)
        name = f"{called}{len(self.predictors)}"
        x = tie_expressions(self.model, x, f"{name}_input")
        if outputs is None:
            vtype, least = ("B", 0) if kind.gives_class else ("C", None)
            y = self.model.addMatrixVar(shape, name=name, vtype=vtype, lb=least)
        predictor = kind(frozen, x, matrix_of(y), called)
        warn_of_outputs(predictor, self.model.infinity())
        warn_of_steps(predictor)
        self.predictors.append(predictor)
        return predictor

    def set_start(self, *inputs: Any) -> None:
        """Tell solvers where to start: one (n, p) array of input values for each predictor, in
        order.

        Or a whole point: a `Solution` of this problem, an array in the order of `Model.getVars`, or
        a dictionary of values by variable name, which must say the networks' inputs. A point that
        says all competes as it is; outputs are computed by the networks. A start that fails a
        constraint is reported (`Solution.start`, and a warning by the logger "ddmip_lib") and
        repaired: its network inputs are kept, the rest is solved for; `solve` and `SequentialMIP`
        then also look for the nearest feasible point in a small box around them.
        """
        self.start, self.start_point = read_start(self.predictors, self.instance, inputs)
        self.start_failed = False

    def twin(self) -> "NeuralMIP":
        """The same problem, model and networks shared, with a start of its own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def set_blocks(self, blocks: Blocks) -> None:
        """Describe the problem through blocks that share resources, for `PriceCoordination` and
        `certify`.

        The description must agree with the model: solutions are verified on the model, and one
        whose value is not what the blocks say is an error.
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
            shape = self.predictors[mode.predictor].inputs.shape
            q = self.predictors[mode.predictor].outputs.shape[1]
            if (
                mode.base.shape[1] != shape[1]
                or not ((mode.row >= 0) & (mode.row < shape[0])).all()
            ):
                raise ProblemError(
                    f"mode {t}: rows and inputs must fit its predictor, {shape[0]} x {shape[1]}."
                )
            if q != 1:
                raise ProblemError(
                    f"mode {t}: its network has {q} outputs; blocks need networks with one."
                )
        self.blocks = blocks

    def verify(self, point: Solution | np.ndarray) -> Verification:
        """Check a solution, or a full assignment in the order of `Model.getVars`, by the true
        network.
        """
        values = point.values if isinstance(point, Solution) else np.asarray(point)
        if values is None:
            raise ProblemError("this solution has no point to verify; its status says why.")
        if np.iscomplexobj(values):
            raise ProblemError("the point holds complex numbers: pass real ones.")
        values = values.astype(float)
        return Verifier(self.instance()).check(values)

    def instance(self) -> Instance:
        """The problem as arrays and maps, read now: what solvers work on."""
        self._require_variables()
        return Instance(self.model, self.predictors, self.start_point)

    def _require_variables(self) -> None:
        """Refuse networks whose variables are gone: SCIP would read memory that it has
        given back.
        """
        own = {v.ptr() for v in self.model.getVars()}
        for p in self.predictors:
            if any(
                is_variable(v) and v.ptr() not in own for v in (*p.inputs.flat, *p.outputs.flat)
            ):
                raise ProblemError(
                    f"a variable of network {p.name} was deleted from the model: build model and"
                    " problem anew without it, or fix it by its bounds."
                )

    def _check_variables(self, x: np.ndarray, y: np.ndarray, kind: type[Predictor]) -> None:
        own = {v.ptr() for v in self.model.getVars()}
        infinity = self.model.infinity()
        taken = {v.ptr() for p in self.predictors for v in p.outputs.flat}
        fed = {v.ptr() for p in self.predictors for v in p.inputs.flat if is_variable(v)}
        for entry in x.flat:
            if not isinstance(entry, (Expr, Real)):
                raise ProblemError(
                    f"input {entry!r} is no variable, linear expression or finite number: pass one."
                )
            terms, constant = linear_terms(entry)
            if not np.isfinite([constant, *(a for _, a in terms)]).all():
                raise ProblemError(f"input {entry} is not finite: pass finite numbers.")
            for v, _ in terms:
                if not v.ptr():
                    raise ProblemError(
                        "an input variable was deleted, or is of another model: use this model's"
                        " own."
                    )
                if v.ptr() not in own:
                    raise ProblemError(
                        f"input variable {v.name} belongs to another model: use this model's own."
                    )
                if v.ptr() in taken:
                    raise ProblemError(
                        f"{v.name} is an output of a network already: chain the two in one module."
                    )
                if v.getLbOriginal() <= -infinity or v.getUbOriginal() >= infinity:
                    raise ProblemError(
                        f"input variable {v.name} is unbounded: give it finite lb and ub."
                    )
                fed.add(v.ptr())
        seen: set[int] = set()
        for entry in y.flat:
            if is_variable(entry) and not entry.ptr():
                raise ProblemError(
                    "an output variable was deleted: it must be a variable of this model."
                )
            if not is_variable(entry) or entry.ptr() not in own:
                raise ProblemError(f"output {entry} must be a variable of this model.")
            if entry.ptr() in taken | seen:
                raise ProblemError(
                    f"output variable {entry.name} is used twice: one variable for each output."
                )
            if entry.ptr() in fed:
                raise ProblemError(
                    f"{entry.name} is an input of a network too: chain the two in one module."
                )
            if kind.gives_class and entry.vtype() != "BINARY":
                raise ProblemError(
                    f'{entry.name} carries a class and must be binary: add it with vtype="B".'
                )
            seen.add(entry.ptr())

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a NeuralMIP holds a model of SCIP and cannot be copied or pickled: build it where it"
            " is solved."
        )

    def __repr__(self) -> str:
        self._require_variables()
        model = self.model
        integers = sum(is_integral(v) for v in model.getVars())
        rows = model.getNConss()
        lines = [
            f"NeuralMIP {self.name}".rstrip(),
            (
                f"  {model.getObjectiveSense()[:-3]}ise, {len(model.getVars())} variables"
                f" ({integers} integer), {rows} row{'s' * (rows != 1)}"
            ),
        ]
        for i, p in enumerate(self.predictors):
            shapes = [" x ".join(map(str, grid.shape)) for grid in (p.inputs, p.outputs)]
            free = len(
                {
                    v.ptr()
                    for v in p.inputs.flat
                    if is_variable(v) and v.getLbOriginal() < v.getUbOriginal()
                }
            )
            lines.append(
                f"  predictor {i}  {p.name}, {p.kind}, {shapes[0]} ({free} free) ->"
                f" {shapes[1]}{self._within(p)}"
            )
        return "\n".join(lines)

    def _within(self, predictor: Predictor) -> str:
        """The range that the bounds of outputs leave to a network, where they leave less than
        everything.
        """
        infinity = self.model.infinity()
        y = predictor.outputs.ravel()
        low = min(v.getLbOriginal() for v in y)
        high = max(v.getUbOriginal() for v in y)
        ends = (
            "(-inf" if low <= -infinity else f"[{low:g}",
            "inf)" if high >= infinity else f"{high:g}]",
        )
        return (
            "" if predictor.gives_class or ends == ("(-inf", "inf)") else f" in {', '.join(ends)}"
        )
