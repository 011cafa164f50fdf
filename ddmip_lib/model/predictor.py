"""Networks placed in a model: which variables are their inputs, and which their outputs."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy import ndarray
from pyscipopt import Model, Variable
from torch import nn

from ..errors import ProblemError
from ..programs.scip import MILP
from .exported import REMEDY, Network, as_module, is_exported
from .gradients import vjp
from .grid import box, random_samples
from .network_checks import last_line, not_finite

LOGIT_MARGIN = 1e-3
"""Smallest logit that a model may call class 1: without it, the tolerances of solvers admit points
of class 0.
"""
OUTPUT_TOLERANCE = 1e-6
"""Largest distance of an output from its bound, or from 0 and 1, that causes no warning."""
WARNING_POINTS = 64
"""Number of random inputs at which a network is evaluated for warnings."""


@dataclass(frozen=True)
class Predictor:
    r"""A network with $n$ samples in a model: $x$ is $n \times p$, $y$ is $n \times q$.

    There are two kinds: in a `Regression` outputs are what the network predicts, in a
    `Classification` they are classes.

    Attributes
    ----------
    net
        The network, in float64.
    inputs
        pyscipopt variables or numbers.
    outputs
        pyscipopt variables.
    name
        The class of the network.
    kind
        "regression" or "classification".
    gives_class
        Whether an output is the class that a logit decides, not a prediction.
    """

    net: nn.Module
    inputs: ndarray
    outputs: ndarray
    name: str
    kind: ClassVar[str]
    gives_class: ClassVar[bool]

    def raw(self, x: ndarray) -> ndarray:
        """Evaluate the network in float64: predictions, or logits of a classifier.

        Parameters
        ----------
        x : numpy.ndarray
            Samples, of shape (n, p). The network is not called for an empty batch.

        Returns
        -------
        numpy.ndarray
            Values of shape (n, q).
        """
        if len(x) == 0:
            return np.zeros((0, self.outputs.shape[1]))
        with torch.no_grad():
            return self.net(torch.tensor(x, dtype=torch.float64)).numpy()

    def finite_raw(self, x: ndarray) -> ndarray:
        """Evaluate the network as `raw` does, and require finite values.

        Parameters
        ----------
        x : numpy.ndarray
            Samples, of shape (n, p).

        Returns
        -------
        numpy.ndarray
            Finite values of shape (n, q).

        Raises
        ------
        ProblemError
            If a value is NaN or infinite; the message names the layer and the sample.
        """
        raw = self.raw(x)
        if not np.isfinite(raw).all():
            raise ProblemError(
                f"{not_finite(self.net, x)}: tighten the bounds of the inputs, or rescale the"
                " network."
            )
        return raw

    def without_variables(self) -> Predictor:
        """Return a copy without the variables of the model, for another process.

        Returns
        -------
        Predictor
            The same network, without samples.
        """
        inputs = np.zeros((0, self.inputs.shape[1]))
        outputs = np.zeros((0, self.outputs.shape[1]))
        return replace(self, inputs=inputs, outputs=outputs)

    def predict(self, x: ndarray) -> ndarray:
        """Compute the values that the output variables must have.

        Parameters
        ----------
        x : numpy.ndarray
            Samples, of shape (n, p).

        Returns
        -------
        numpy.ndarray
            Predictions or classes, of shape (n, q).
        """
        return self.outputs_of(self.raw(x))

    def outputs_of(self, raw: ndarray) -> ndarray:
        """Convert values of the network to values of the output variables.

        Parameters
        ----------
        raw : numpy.ndarray
            Predictions, or logits of a classifier.

        Returns
        -------
        numpy.ndarray
            Predictions or classes; NaN where a logit is NaN or infinite.
        """
        return np.where(np.isfinite(raw), raw > 0, np.nan) if self.gives_class else raw

    def surrogate(self, raw: torch.Tensor) -> torch.Tensor:
        """Convert values of the network to differentiable approximations of the outputs.

        Parameters
        ----------
        raw : torch.Tensor
            Predictions, or logits of a classifier.

        Returns
        -------
        torch.Tensor
            Predictions, or the sigmoid of the logits.
        """
        return torch.sigmoid(raw) if self.gives_class else raw

    def output_or_logit(
        self,
        model: Model,
        y: Variable,
        milp: MILP,
        at: int,
        ends: tuple[float, float],
        margin: float,
    ) -> Variable:
        r"""Return the variable of a model that must equal the value of the network.

        For a class it is a new logit $o \in [l, u]$ with $y = 1 \Rightarrow o \ge$ margin and,
        unless a larger $y$ only helps, $y = 0 \Rightarrow o \le 0$.

        Parameters
        ----------
        model : pyscipopt.Model
            The model that contains `y`, and gets the logit.
        y : pyscipopt.Variable
            The output variable.
        milp : MILP
            The problem's constraints and objective.
        at : int
            Position of `y` in a full assignment.
        ends : tuple of two floats
            Lower and upper bound of the network's value.
        margin : float
            Smallest logit of class 1.

        Returns
        -------
        pyscipopt.Variable
            The output variable of a regression, the logit of a class.
        """
        if not self.gives_class:
            return y
        below = min(ends[0], 0.0)
        above = max(ends[1], margin)
        logit = model.addVar(lb=below, ub=above)
        model.addCons(logit >= below + (margin - below) * y)
        if not milp.is_monotone(at):
            model.addCons(logit <= above * y)
        return logit


class Regression(Predictor):
    """The constraint $y = f(x)$."""

    kind = "regression"
    gives_class = False


class Classification(Predictor):
    """The constraint $y = 1[f(x) > 0]$, for binary $y$."""

    kind = "classification"
    gives_class = True


KINDS: dict[str, type[Predictor]] = {kind.kind: kind for kind in (Regression, Classification)}
"""The class of predictors of each kind."""


def warn_of_outputs(predictor: Predictor, infinity: float) -> None:
    """Warn if the network predicts values that a default forbids to its output variables.

    The default is the lower bound 0 of SCIP's variables, or a regression on binary variables. The
    network is evaluated at random inputs.

    Parameters
    ----------
    predictor : Predictor
        The predictor.
    infinity : float
        What the model of SCIP takes for infinity.
    """
    y = list(predictor.outputs.flat)
    default = np.array([v.getLbOriginal() == 0 and v.getUbOriginal() >= infinity for v in y])
    binary = np.array([v.vtype() == "BINARY" for v in y])
    if predictor.gives_class or not (default | binary).any():
        return
    lower, upper = box(predictor.inputs)
    draws = max(1, WARNING_POINTS // len(lower))
    fractions = np.random.default_rng(0).random((draws, *lower.shape))
    points = lower + (upper - lower) * fractions
    values = predictor.raw(points.reshape(-1, lower.shape[1])).reshape(draws, -1)
    negative = default & (values < -OUTPUT_TOLERANCE).any(axis=0)
    fractional = binary & (np.abs(values - np.round(values)) > OUTPUT_TOLERANCE).any(axis=0)
    if negative.any():
        warnings.warn(
            f"output {y[negative.argmax()].name} has the default lower bound 0, but the network"
            " also predicts less: inputs where it does count as infeasible. Use lb=None, and a"
            " constraint y >= 0 if that is meant.",
            stacklevel=3,
        )
    if fractional.any():
        warnings.warn(
            f"output {y[fractional.argmax()].name} is binary, and a regression must equal 0 or 1,"
            ' but the network predicts other numbers: pass output="classification" for the class'
            " 1[logit > 0].",
            stacklevel=3,
        )


def warn_of_steps(predictor: Predictor) -> None:
    """Warn if the network's gradient is 0 at random inputs although its values differ.

    A network without gradients causes no warning: methods that need them raise an error.

    Parameters
    ----------
    predictor : Predictor
        The predictor.
    """
    rng = np.random.default_rng(0)
    points = random_samples(*box(predictor.inputs), WARNING_POINTS, rng)
    x = torch.tensor(points, requires_grad=True)
    with suppress(RuntimeError, ProblemError), torch.enable_grad():
        raw = predictor.net(x.clone())
        if not raw.requires_grad:
            return
        gradient = vjp([raw], x, rng.uniform(0.5, 1.0, raw.numel()))
        values = raw.detach().numpy()
        if gradient.any() or not np.isfinite(values).all() or not np.ptp(values, axis=0).any():
            return
        warnings.warn(
            f"the network's gradient is 0 at all of {WARNING_POINTS} random inputs, though its"
            " values differ (a tree, a rounding): methods that use gradients make no progress."
            " Wrap it with ddmip_lib.predictors.black_box, whose gradients are sampled, or use"
            " Enumeration.",
            stacklevel=3,
        )


def frozen_double(net: Network) -> nn.Module:
    """Copy a network in float64, with weights that need no gradient.

    Parameters
    ----------
    net : Network
        A module, an exported program, or the path of one.

    Returns
    -------
    torch.nn.Module
        The copy.

    Raises
    ------
    TypeError
        If `net` is no network.
    ProblemError
        If the network is in training mode, cannot be copied, or has a weight without finite values
        of single or double precision.
    """
    net = as_module(net)
    if not isinstance(net, nn.Module):
        raise TypeError(
            f"a predictor must be a torch.nn.Module, not {type(net).__name__}: convert an estimator"
            " by from_sklearn, or wrap a function by black_box, both in ddmip_lib.predictors."
        )
    if any(module.training for module in net.modules()):
        raise ProblemError(
            "the network is in training mode: call net.eval() before adding it to a model."
        )
    for name, weight in [*net.named_parameters(), *net.named_buffers()]:
        _check_weight(name, weight)
    try:
        with torch.no_grad():  # otherwise a scripted module keeps the graph of the conversion
            frozen = copy.deepcopy(net).cpu().double()
    except (RuntimeError, TypeError) as error:
        raise ProblemError(
            f"the network cannot be copied ({last_line(error)}): keep no tensors with a gradient in"
            " it (detach them), no locks or generators, and use weight_norm and spectral_norm of"
            " torch.nn.utils.parametrizations."
        ) from error
    for weight in frozen.parameters():
        weight.requires_grad_(False)
    return frozen


def _check_weight(name: str, weight: torch.Tensor) -> None:
    """Raise an error if a weight or buffer has no finite values of enough precision."""
    if nn.parameter.is_lazy(weight):
        raise ProblemError(f"weight {name} has no shape yet: run the lazy network once on a batch.")
    if weight.device.type == "meta":
        raise ProblemError(
            f"weight {name} is on the meta device, without numbers: allocate memory by"
            " net.to_empty(device='cpu'), then load its weights by net.load_state_dict(...)."
        )
    if weight.dtype in (torch.float16, torch.bfloat16):
        raise ProblemError(
            f"weight {name} is {weight.dtype}: convert the network with net.float() or"
            " net.double()."
        )
    if weight.is_floating_point() and not torch.isfinite(weight).all():
        raise ProblemError(
            f"weight {name} contains NaN or infinity: retrain or reload the network."
        )


def takes(net: nn.Module, n_in: int) -> bool:
    """Return whether a network accepts samples of `n_in` features.

    Parameters
    ----------
    net : torch.nn.Module
        A network in float64.
    n_in : int
        Number of features.

    Returns
    -------
    bool
        False if the network raises an error.
    """
    with suppress(ProblemError):
        return output_width(net, n_in) > 0
    return False


def output_width(net: nn.Module, n_in: int) -> int:
    """Return the number of outputs for one sample of `n_in` features.

    Parameters
    ----------
    net : torch.nn.Module
        A network in float64.
    n_in : int
        Number of features.

    Returns
    -------
    int
        Number of outputs.

    Raises
    ------
    ProblemError
        If the network does not accept such samples.

    Examples
    --------
    >>> output_width(nn.Linear(3, 2).double(), 3)
    2
    """
    try:
        with torch.no_grad():
            out = net(torch.zeros(2, n_in, dtype=torch.float64))
    except (RuntimeError, IndexError, ValueError, AssertionError) as error:
        raise ProblemError(
            f"the network does not accept samples of {n_in} features ({last_line(error)})."
            f" {_width_remedy(net, error)}"
        ) from error
    if not isinstance(out, torch.Tensor) or out.ndim != 2 or out.shape[0] != 2:
        raise ProblemError("the network must map (samples, features) to (samples, outputs).")
    return int(out.shape[1])


def _width_remedy(net: nn.Module, error: Exception) -> str:
    """What to change in a network that raised an error on a batch of zeros."""
    of_dtype = any(word in str(error) for word in ("dtype", "Float", "Double"))
    if not of_dtype:
        remedy = "Pass as many input columns as the network has inputs."
    elif isinstance(net, torch.jit.ScriptModule):
        remedy = "It is run in float64: script or trace net.double(), and do not freeze it."
    else:
        remedy = (
            "It is run in float64: let forward() make tensors with dtype=x.dtype, or keep them as"
            " buffers."
        )
    if is_exported(net):
        remedy += f" A program may have been exported for one number of samples: {REMEDY}"
    return remedy
