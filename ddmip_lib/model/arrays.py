"""A problem given by arrays: a `NeuralMIP` for models with millions of variables."""

from functools import cached_property
from typing import Any

import numpy as np
from pyscipopt import Model

from ..errors import ProblemError
from ..programs.scip import MILP
from ..programs.scip_program import model_of
from .exported import Network
from .instance import Instance
from .network_checks import validated_network
from .predictor import KINDS, Predictor, frozen_double, output_width
from .problem import NeuralMIP


class ArrayMIP(NeuralMIP):
    """A `NeuralMIP` whose constraints, bounds and objective are a `MILP`.

    Networks connect variables by their positions. All methods, and verification, work as on a
    model of SCIP. `model` is built when a method first needs SCIP itself; from then on `model` is
    read in place of the arrays, so that constraints may be added to it.

    Parameters
    ----------
    milp : MILP
        Constraints, bounds and objective.
    name : str, default: ""
        A name for the problem.

    Raises
    ------
    ProblemError
        If variables are not in the order in which SCIP lists them.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from torch import nn
    >>> one = np.ones(3)
    >>> milp = MILP(
    ...     sign=-1.0,
    ...     cost=np.array([0.0, 0.0, 1.0]),
    ...     offset=0.0,
    ...     lower=-one,
    ...     upper=one,
    ...     integer=one > 1,
    ...     names=["x0", "x1", "y"],
    ...     position={},
    ...     rows=sp.csr_matrix([[1.0, 1.0, 0.0]]),
    ...     row_lower=np.array([-np.inf]),
    ...     row_upper=np.array([1.0]),
    ...     row_names=["budget"],
    ...     others=(),
    ... )
    >>> problem = ArrayMIP(milp)
    >>> _ = problem.add_predictor(nn.Linear(2, 1).eval(), [[0, 1]], [[2]])
    >>> problem
    ArrayMIP
      maximise, 3 variables (0 integer), 1 constraint
      predictor 0  Linear, regression, 1 x 2 -> 1 x 1
    """

    def __init__(self, milp: MILP, name: str = "") -> None:
        if (np.diff(milp.kind) < 0).any():
            raise ProblemError(
                "list binary variables first, then other integers, then continuous variables: as"
                " SCIP lists them."
            )
        self.milp = milp
        self._initialise(name)

    @cached_property
    def model(self) -> Model:  # type: ignore[override]  # there an attribute
        """The problem as a model of SCIP."""
        return model_of(self.milp)

    def add_predictor(
        self, net: Network, inputs: Any, outputs: Any = None, output: str = "regression"
    ) -> Predictor:
        """Add the constraint outputs = net(inputs) for each sample, a row of both matrices.

        Parameters
        ----------
        net : torch.nn.Module, torch.export.ExportedProgram, str or os.PathLike
            The network, as in `NeuralMIP.add_predictor`.
        inputs : array_like of int
            Positions of the input variables, of shape (n, p).
        outputs : array_like of int
            Positions of the output variables, of shape (n, q).
        output : {"regression", "classification"}, default: "regression"
            Whether an output is what the network predicts, or the class 1[logit > 0].

        Returns
        -------
        Predictor
            The network and the positions of its variables.

        Raises
        ------
        ProblemError
            If the network or the variables do not fit; the message names the remedy.
        """
        network = frozen_double(net)
        kind = KINDS[output]
        x = np.asarray(inputs, dtype=int)
        y = np.asarray(outputs, dtype=int)
        shape = len(x), output_width(network, x.shape[1])
        if y.shape != shape or len(np.unique(y)) < y.size:
            raise ProblemError(
                f"outputs have shape {y.shape}, but must be {shape}, each a variable of its own."
            )
        milp = self.milp
        lower = milp.lower[x]
        upper = milp.upper[x]
        if not np.isfinite(upper - lower).all():
            raise ProblemError("an input variable is unbounded: give it finite bounds.")
        binary = milp.integer[y] & (milp.lower[y] >= 0) & (milp.upper[y] <= 1)
        if kind.gives_class and not binary.all():
            raise ProblemError("a variable that carries a class must be binary.")
        network = validated_network(network, lower, upper, kind.gives_class)
        self.predictors.append(kind(network, x, y, type(net).__name__))
        return self.predictors[-1]

    def stated_instance(self) -> Instance:
        milp = None if "model" in self.__dict__ else self.milp
        return Instance(lambda: self.model, self.predictors, self.start_point, milp)

    def _size(self) -> tuple[str, int, int, int]:
        sense = "minimise" if self.milp.sign > 0 else "maximise"
        return sense, self.milp.n_variables, int(self.milp.integer.sum()), self.milp.n_rows

    def _remarks(self, predictor: Predictor) -> tuple[str, str]:
        return "", ""
